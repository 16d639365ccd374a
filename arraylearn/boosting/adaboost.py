"""AdaBoost (SAMME) over any classifier that takes weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from arraylearn._typing import Array, HostArray
from arraylearn.backend.arrays.order import argsort_rows
from arraylearn.backend.dispatch import state_work
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import HOST, Place, from_host, is_array, locate, move, read_flags, to_host
from arraylearn.backend.random import RandomState, spawn
from arraylearn.boosting.rounds import boosting_work
from arraylearn.checks import check_integer, check_number
from arraylearn.estimator import ArrayClassifier, Batch, Correction, FitRows
from arraylearn.grow.rows import Rows
from arraylearn.progress import Advance
from arraylearn.tree import DecisionTreeClassifier
from arraylearn.tree.fitted import FittedTree
from arraylearn.walk.leaves import find_leaves
from arraylearn.walk.packed import PackedTrees, join_packed
from arraylearn.walk.spread import has_missing
from arraylearn.weights import repeat_weights

__all__ = ["AdaBoostClassifier"]

# Weights of classifiers are integers in units of 2**-32 where votes are counted.
_VOTE_BITS = 32
# Rows that walk down all trees at once, and bytes of a row and tree.
_ROWS_TOGETHER, _VOTE_BYTES = 8192, 40


class Rounds(NamedTuple):
    """The classifiers of all rounds, and their weights."""

    estimators: tuple[Any, ...]
    weights: tuple[float, ...]


class _JoinedTrees(NamedTuple):
    """The trees of all rounds, in the form of one walk."""

    trees: PackedTrees
    label: Array  # (m,) int64: the class at each node
    spreads: bool  # whether missing values need more than a default branch


@dataclass(kw_only=True, eq=False, repr=False)
class AdaBoostClassifier(ArrayClassifier):
    r"""AdaBoost for any number of classes (SAMME).

    Each round fits a copy of a classifier on weighted rows, finds its weighted error :math:`e_m` on them,
    gives it the weight

    .. math:: \alpha_m = \eta \left( \log \frac{1 - e_m}{e_m} + \log(K - 1) \right)

    and multiplies the weights of the rows it got wrong by :math:`\exp \alpha_m`. The class with the largest
    sum of weights of the classifiers that vote for it wins.

    Parameters
    ----------
    estimator : classifier, optional
        Any classifier whose `fit` takes `sample_weight`; by default a decision tree of one split.
    n_estimators : int
        Greatest number of rounds. A round without error is the last; one that is no better than guessing is
        not kept and ends the rounds.
    learning_rate : float
        The factor :math:`\eta`.
    random_state : int, Generator, optional
        Seeds of the classifiers that have a `random_state`.
    categorical_features : "from_dtype", array of indices or mask
        Nominal columns of plain arrays; handed to the classifiers.
    verbose : int
        1: a progress bar with the weighted error and the time left.
    backend : str, optional
        Where to compute: "numpy", "torch", "torch:cuda:0", "cupy"; by default where the data is.

    Attributes
    ----------
    classes_ : array (c,)
        The class labels.
    estimators_ : tuple of classifiers
        One per round; their classes are the codes 0, 1, ...
    estimator_weights_ : array (m,)
        The :math:`\alpha_m`.
    estimator_errors_ : array (m,)
        The :math:`e_m`.
    feature_importances_ : array (d,)
        Mean of the importances of the classifiers by their weights, where they have any.

    References
    ----------
    Y. Freund, R. Schapire, "A decision-theoretic generalization of on-line learning", 1997; J. Zhu et al.,
    "Multi-class AdaBoost", 2009.

    Examples
    --------
    >>> from arraylearn import AdaBoostClassifier
    >>> X = [[i] for i in range(12)]
    >>> y = ["low" if i < 4 or i >= 8 else "middle" for i in range(12)]
    >>> model = AdaBoostClassifier(n_estimators=10).fit(X, y)
    >>> model.predict([[1], [6], [11]]).tolist()
    ['low', 'middle', 'low']
    >>> model.estimator_errors_[:2].round(4).tolist()
    [0.3333, 0.25]
    """

    estimator: Any = field(default=None, kw_only=False)
    n_estimators: int = 50
    learning_rate: float = 1.0
    random_state: RandomState = None
    categorical_features: Any = "from_dtype"
    verbose: int = 0
    backend: str | None = None

    # ---- learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Boost classifiers.

        Parameters
        ----------
        X : array-like or data frame (n, d)
            Rows.
        y : array-like (n,)
            Class labels.
        sample_weight : array-like (n,), optional
            Weights of the rows in the first round, not all zero. A common factor changes nothing, and weight
            0 leaves a row out.

        Returns
        -------
        AdaBoostClassifier
            Itself.
        """
        check_integer("n_estimators", self.n_estimators, 1)
        check_number("learning_rate", self.learning_rate, 0, closed="neither")
        base = DecisionTreeClassifier() if self.estimator is None else self.estimator
        if not has_fit_parameter(base, "sample_weight"):
            raise ValueError(
                "`estimator` must learn from weighted rows: its `fit` must take `sample_weight`; got "
                f"{type(base).__name__}, whose does not. Name another."
            )
        with self._fitting():
            rows = self._open_weighted(X, y, sample_weight)
            if isinstance(base, FittedTree):
                n_cells = rows.batch.table.n_rows * self.n_features_in_
                state_work(*boosting_work(n_cells, int(self.n_estimators)))
            codes, weights = rows.labels.codes, rows.weights
            weights = np.ones(codes.shape[0]) if weights is None else repeat_weights(weights)
            with self._progress("boosting", self.n_estimators, measure="error") as report:
                self._boost(rows.X, codes, weights, report)
        return self

    def _boost(self, X: Any, codes: HostArray, weights: HostArray, report: Advance) -> None:
        n_classes = len(self.classes_)
        total = float(np.sum(weights))
        grid = _grid(total)
        factors = np.ones(weights.shape[0], dtype=np.float64)
        estimators: list[Any] = []
        alphas: list[float] = []
        errors: list[float] = []
        prototype, shared = self._prototype(), None
        if type(prototype) is DecisionTreeClassifier:
            shared = _SharedRows(X, codes)
        for generator in spawn(self.random_state, self.n_estimators):
            factors = np.round(factors * (total / np.sum(weights * factors)) / grid)
            factors = np.maximum(factors, 1.0) * grid  # no row vanishes
            estimator = clone(prototype) if shared is None else copy(prototype)
            if hasattr(estimator, "random_state"):
                estimator.random_state = int(generator.integers(2**31 - 1))
            if shared is None:
                estimator.fit(X, codes, sample_weight=weights * factors)
                is_wrong = to_host(estimator.predict(X)) != codes
            else:
                shared.fit(estimator, weights * factors)
                is_wrong = shared.predict(estimator) != codes
            error = float(np.sum(weights * factors * is_wrong) / np.sum(weights * factors))
            report(error)
            if error >= 1 - 1 / max(n_classes, 2):
                if not estimators:
                    name = type(estimator).__name__
                    raise ValueError(
                        f"`estimator` must be better than guessing; in the first round {name} has a weighted "
                        f"error of {error:.3f} on {n_classes} classes."
                    )
                break
            alpha = 1.0
            if error > 0:
                alpha = float(self.learning_rate) * (math.log((1 - error) / error) + math.log(n_classes - 1))
            estimators.append(estimator)
            alphas.append(alpha)
            errors.append(error)
            if error <= 0:
                break
            factors = factors * np.where(is_wrong, math.exp(alpha), 1.0)
        self.model_ = Rounds(tuple(estimators), tuple(alphas))
        self.estimators_ = self.model_.estimators
        if isinstance(estimators[0], FittedTree):
            self.schema_ = estimators[0].schema_  # by which all trees read their rows
        self.estimator_weights_ = from_host(alphas, HOST)
        self.estimator_errors_ = from_host(errors, HOST)

    def _prototype(self) -> Any:
        """Return a classifier with our data settings, of which each round fits a copy."""
        made = clone(DecisionTreeClassifier(max_depth=1) if self.estimator is None else self.estimator)
        known = made.get_params(deep=False)
        ours: dict[str, Any] = {}
        if "categorical_features" in known and not isinstance(self.categorical_features, str):
            ours["categorical_features"] = self.categorical_features
        if "backend" in known and self.backend is not None:
            ours["backend"] = self.backend
        return made.set_params(**ours)

    @property
    def feature_importances_(self) -> HostArray:
        """Mean of the importances of the classifiers by their weights."""
        alphas = self.model_.weights
        parts = [
            alpha * estimator.feature_importances_ for estimator, alpha in zip(*self.model_, strict=True)
        ]
        mean: HostArray = sum(parts) / sum(alphas)
        return mean

    # ---- prediction

    def _staged_votes(self, X: Any) -> Iterator[tuple[Array, Batch]]:
        """Yield the sums of weights (n, c) after each round, divided by their total."""
        batch = self._open(X)
        place = batch.place
        votes, total = self._no_votes(batch), 0
        for estimator, weight in zip(self.model_.estimators, self._vote_weights(), strict=True):
            codes = place.xp.astype(move(estimator.predict(X), place), place.xp.int64)
            votes, total = self._add_votes(votes, codes[None, :], [weight]), total + weight
            yield self._shares(votes, total, batch), batch

    def _votes(self, X: Any) -> tuple[Array, Batch, Correction | None]:
        """Return the votes of all rounds; trees read the rows together, without a sync of their own."""
        check_is_fitted(self)
        estimators, weights = self.model_.estimators, self._vote_weights()
        if not all(isinstance(each, FittedTree) and each.backend == self.backend for each in estimators):
            *_, (shares, batch) = self._staged_votes(X)
            return shares, batch, None
        batch = self._open(X)
        place, spreads = batch.place, None
        xp, joined = place.xp, self._joined_at(place)
        if joined is not None:
            parts = []
            for rows in row_chunks(batch.table.n_rows, _VOTE_BYTES * len(weights), most=_ROWS_TOGETHER):
                leaves = find_leaves(xp, batch.table.numeric[rows, :], joined.trees)
                codes = xp.reshape(xp.take(joined.label, xp.reshape(leaves, (-1,))), leaves.shape)
                parts.append(self._add_votes(0, codes, weights))
            votes = parts[0] if len(parts) == 1 else xp.concat(parts)
            spreads = has_missing(xp, batch.table) if joined.spreads else None
        else:
            votes = self._no_votes(batch)
            for tree, weight in zip(estimators, weights, strict=True):
                codes, needs_more = tree.classify(batch)
                votes = self._add_votes(votes, self._codes_of(tree, codes, place)[None, :], [weight])
                spreads = spreads if needs_more is None else needs_more.is_needed

        def vote_one_by_one() -> Array:
            *_, (shares, _) = self._staged_votes(X)
            return shares

        correction = None if spreads is None else Correction(spreads, vote_one_by_one)
        return self._shares(votes, sum(weights), batch), batch, correction

    def _vote_weights(self) -> list[int]:
        """Return the weights as integers, so that no sum of votes depends on its order."""
        return [round(weight * (1 << _VOTE_BITS)) for weight in self.model_.weights]

    def _no_votes(self, batch: Batch) -> Array:
        xp, shape = batch.place.xp, (batch.table.n_rows, len(self.classes_))
        return xp.zeros(shape, dtype=xp.int64, device=batch.place.device)

    def _add_votes(self, votes: Array, codes: Array, weights: list[int]) -> Array:
        """Add to the votes (n, c) those of classifiers with these weights for the classes (t, n)."""
        place = locate(codes)
        xp, own = place.xp, from_host(np.asarray(weights, dtype=np.int64)[:, None], place)
        of_class = [
            xp.sum(xp.where(codes == c, own, 0), axis=0, dtype=xp.int64) for c in range(len(self.classes_))
        ]
        return votes + xp.stack(of_class, axis=1)

    def _shares(self, votes: Array, total: int, batch: Batch) -> Array:
        return batch.place.xp.astype(votes, batch.float_dtype) / total

    def _codes_of(self, tree: FittedTree, codes: Array, place: Place) -> Array:
        """Return classes that a tree numbers, which may not know all of them, by our numbers."""
        if len(tree.classes_) == len(self.classes_):
            return codes
        return place.xp.take(from_host(tree.classes_, place, place.xp.int64), codes, axis=0)

    def _joined_at(self, place: Place) -> _JoinedTrees | None:
        """Return all trees in the form of one walk; None where they split by categories."""

        def join() -> _JoinedTrees | None:
            trees = self.model_.estimators
            walkers = [tree._walker_at(place) for tree in trees]
            packed = [walker.packed for walker in walkers if walker.packed is not None]
            if len(packed) < len(walkers):
                return None
            pairs = zip(trees, walkers, strict=True)
            label = place.xp.concat([self._codes_of(tree, walker.label, place) for tree, walker in pairs])
            spreads = any(walker.spreads for walker in walkers)
            return _JoinedTrees(join_packed(place.xp, packed), label, spreads)

        joined: _JoinedTrees | None = self._prepared_at(place, "joined", join)
        return joined

    def _deliver_from(self, X: Any, result: Callable[[Array], Array]) -> Array:
        """Compute a result from the votes and take it home."""
        votes, batch, spread = self._votes(X)
        return self._deliver(result(votes), batch, _and_then(spread, result))

    def _probabilities(self, votes: Array) -> Array:
        """Turn votes into probabilities: the softmax of the scores whose exponential loss SAMME minimizes."""
        xp, n_classes = locate(votes).xp, len(self.classes_)
        n_others = max(n_classes - 1, 1)
        decision = (votes - (1 - votes) / n_others) / n_others
        power = xp.exp(decision - xp.max(decision, axis=1, keepdims=True))
        return power / xp.sum(power, axis=1, keepdims=True)

    def _decision(self, votes: Array) -> Array:
        decision = votes - (1 - votes) / max(len(self.classes_) - 1, 1)
        return decision[:, 1] - decision[:, 0] if decision.shape[1] == 2 else decision

    def predict(self, X: Any) -> Array:
        """Predict the class labels (n,) of rows."""
        votes, batch, spread = self._votes(X)

        def most(shares: Array) -> Array:
            return batch.place.xp.argmax(shares, axis=1)

        return self._deliver_labels(most(votes), batch, _and_then(spread, most))

    def predict_proba(self, X: Any) -> Array:
        """Predict the probabilities (n, c) of the classes, in the order of `classes_`."""
        return self._deliver_from(X, self._probabilities)

    def decision_function(self, X: Any) -> Array:
        """Return the shares of the votes (n, c), less what the other classes have; (n,) for two classes."""
        return self._deliver_from(X, self._decision)

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """Yield the class labels (n,) after each round."""
        for votes, batch in self._staged_votes(X):
            yield self._deliver_labels(batch.place.xp.argmax(votes, axis=1), batch)

    def staged_predict_proba(self, X: Any) -> Iterator[Array]:
        """Yield the probabilities (n, c) after each round."""
        for votes, batch in self._staged_votes(X):
            yield self._deliver(self._probabilities(votes), batch)

    def staged_decision_function(self, X: Any) -> Iterator[Array]:
        """Yield what `decision_function` returns, after each round."""
        for votes, batch in self._staged_votes(X):
            yield self._deliver(self._decision(votes), batch)

    def staged_score(self, X: Any, y: Any, sample_weight: Any = None) -> Iterator[float]:
        """Yield the accuracy after each round."""
        truth = to_host(y) if is_array(y) else np.asarray(y)
        for predicted in self.staged_predict(X):
            yield float(np.average(to_host(predicted) == truth, weights=sample_weight))


def _grid(total: float) -> float:
    """Return the step of the factors: sums of integer weights times factors are exact, in any order."""
    return 2.0 ** (math.ceil(math.log2(total)) - 51)


def _and_then(correction: Correction | None, result: Callable[[Array], Array]) -> Correction | None:
    """Compute a result from corrected votes."""
    if correction is None:
        return None
    return Correction(correction.is_needed, lambda: result(correction.compute()))


class _SharedRows:
    """What the decision trees of all rounds share: the rows as they were read, and their order by column."""

    # what a tree learns of the rows it reads
    _learned = ("n_features_in_", "feature_names_in_", "schema_", "classes_")

    def __init__(self, X: Any, codes: HostArray) -> None:
        self._X, self._codes = X, codes
        self._read: FitRows | None = None
        self._attributes: dict[str, Any] = {}
        self._rows: Rows | None = None
        self._order: Array | None = None

    def fit(self, tree: DecisionTreeClassifier, weights: HostArray) -> None:
        """Fit a tree to the rows with these weights, none of which is 0."""
        tree._fit_to(
            lambda: self._open(tree, weights), None, partial(tree._grow, find_order=self._find_order)
        )

    def predict(self, tree: DecisionTreeClassifier) -> Array:
        """Predict the classes of the rows."""
        assert self._read is not None
        batch = self._read.batch
        if not batch.table.schema.nominal_idx:  # otherwise a fit may have left out rare categories
            codes, spread = tree.classify(batch)
            if spread is None or not read_flags(batch.place, spread.is_needed)[0]:
                return tree.classes_[to_host(codes)]
        return to_host(tree.predict(self._X))

    def _open(self, tree: DecisionTreeClassifier, weights: HostArray) -> FitRows:
        if self._read is None or tree.class_weight is not None:
            self._read = tree._open_weighted(self._X, self._codes, weights)
            self._attributes = {name: vars(tree)[name] for name in self._learned if name in vars(tree)}
            return self._read
        vars(tree).update(self._attributes)
        return self._read._replace(weights=weights)

    def _find_order(self, rows: Rows) -> Array:
        """Return the order (d, n); sort again if rows have lost all their weight, or have some again."""
        before = self._rows
        if before is None or self._order is None or not _are_same(before, rows):
            xp = locate(rows.columns).xp
            self._rows, self._order = rows, xp.astype(argsort_rows(xp, rows.columns), xp.int32)
        return self._order


def _are_same(one: Rows, other: Rows) -> bool:
    """Whether the rows of one table are numbered alike."""
    assert one.order is not None
    assert other.order is not None
    return np.array_equal(one.order, other.order)
