"""The random forest classifier."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.dispatch import get_tuning
from arraylearn.backend.errors import warn_caller
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import HOST, Place, is_on_host, read_flags, to_host
from arraylearn.backend.random import RandomState, as_generator, spawn
from arraylearn.backend.threads import get_num_threads, map_apart
from arraylearn.checks import check_integer, count_features
from arraylearn.estimator import ArrayClassifier, Batch
from arraylearn.forest.bags import draw_bags, draw_columns
from arraylearn.forest.grove import Grove, join_grove, pack_groves, share_sums
from arraylearn.grow.drawn_columns.drawn import DrawnPlan, choose_body, grow_trees
from arraylearn.grow.trees import Limits, Trees
from arraylearn.progress import show_progress
from arraylearn.table import Labels
from arraylearn.table.binning import Binning, apply_binning, learn_binning, order_categories, place_bins
from arraylearn.walk.leaves import find_leaves, sum_leaves
from arraylearn.walk.packed import PackedTrees

__all__ = ["Forest", "RandomForestClassifier"]

# Bins of a column: with fewer, full-grown trees lose accuracy.
_MAX_BINS = 4_094
# Trees of a batch of the out-of-bag estimate.
_TREES_JUDGED = 16


class Forest(NamedTuple):
    """A fitted forest."""

    binning: Binning
    groves: tuple[Grove, ...]


class RandomForestClassifier(ArrayClassifier):
    r"""Random forest: trees on bootstrap samples, each node looking at some columns drawn at random.

    A node takes the cut that maximizes :math:`\sum_c l_c^2 / l + \sum_c r_c^2 / r` (the Gini gain) among its
    columns; where none of them can be cut, it looks at all. Trees are grown many at a time, level by level,
    with a bootstrap sample as whole-number weights. A prediction is the mean of the leaves' class shares.

    Parameters
    ----------
    n_estimators : int
        Number of trees. Tree i is the same however many there are, on every backend.
    max_features : int, float, {"sqrt", "log2"}, optional
        Number or share of the columns that each node looks at; None for all.
    max_depth : int, optional
        Greatest depth of a leaf.
    min_samples_split : int
        A node of fewer drawn rows is a leaf.
    min_samples_leaf : int
        Least number of drawn rows on each side of a cut.
    bootstrap : bool
        Whether each tree has a sample of n rows drawn with replacement; otherwise all rows.
    oob_score : bool
        Whether to judge every row by the trees that did not see it.
    class_weight : dict, "balanced", optional
        Weights of the classes: rows are drawn the more often, in proportion.
    warm_start : bool
        Whether a further `fit`, on the same data with a larger `n_estimators`, adds trees to those there are.
    random_state : int, Generator, optional
        Seed of the seeds of the trees.
    categorical_features : "from_dtype", array of indices or mask
        Nominal columns of plain arrays. Their categories are put in the order of the mean class, and cut.
    verbose : int
        1: a progress bar with the time left.
    backend : str, optional
        Where to compute: "numpy", "torch", "torch:cuda:0", "cupy"; by default where the data is.

    Attributes
    ----------
    classes_ : array (c,)
        The class labels.
    n_trees_ : int
        Number of trees.
    oob_score_ : float
        Accuracy on the rows out of bag, if `oob_score`.
    oob_decision_function_ : array (n, c)
        Class shares of each row by the trees that did not see it; NaN where all did.

    Notes
    -----
    Missing values are larger than all others: a cut may keep them apart, or with the largest values.
    Numbers are cut at up to 4094 quantiles.

    References
    ----------
    L. Breiman, "Random forests", 2001.

    Examples
    --------
    >>> from arraylearn import RandomForestClassifier
    >>> X = [[i, i % 3] for i in range(40)]
    >>> y = ["low" if i < 10 or i >= 30 else "middle" for i in range(40)]
    >>> model = RandomForestClassifier(n_estimators=20, random_state=0).fit(X, y)
    >>> model.predict([[5, 0], [20, 1], [35, 2]]).tolist()
    ['low', 'middle', 'low']
    """

    # whether each column that a node looks at offers one cut only, drawn at random
    _draws_cuts: ClassVar[bool] = False

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        max_features: int | float | str | None = "sqrt",
        max_depth: int | None = None,
        min_samples_split: int = 2,
        min_samples_leaf: int = 1,
        bootstrap: bool = True,
        oob_score: bool = False,
        class_weight: Mapping[Any, float] | str | None = None,
        warm_start: bool = False,
        random_state: RandomState = None,
        categorical_features: Any = "from_dtype",
        verbose: int = 0,
        backend: str | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.bootstrap = bootstrap
        self.oob_score = oob_score
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.categorical_features = categorical_features
        self.verbose = verbose
        self.backend = backend

    # ---- learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the trees.

        Parameters
        ----------
        X : array-like or data frame (n, d)
            Rows; NaN, None and null are missing values.
        y : array-like (n,)
            Class labels.
        sample_weight : array-like (n,), optional
            Rows are drawn in proportion to their weights. Without `bootstrap` whole numbers only: a row
            counts as often.

        Returns
        -------
        RandomForestClassifier
            Itself.
        """
        self._check_settings()
        if self.warm_start and hasattr(self, "model_"):
            with self._updating():
                return self._grow(X, y, sample_weight, self.model_)
        with self._fitting():
            return self._grow(X, y, sample_weight, None)

    def _grow(self, X: Any, y: Any, sample_weight: Any, old: Forest | None) -> Self:
        batch, labels = self._open_fit(X, y)
        place, table = batch.place, batch.table
        self._refuse_bad(*read_flags(place, batch.is_bad))
        weights = self._weigh(sample_weight, labels, HOST)
        if weights is not None and not self.bootstrap and bool(np.any(weights != np.floor(weights))):
            raise ValueError(
                "`bootstrap` must be True where weights of rows and classes are no whole numbers: rows are "
                "drawn in proportion to them; got False."
            )
        if old is None:
            binning = learn_binning(place, table, _MAX_BINS)
            binning = order_categories(place, binning, table, labels.codes)
            old = Forest(binning, ())
            self.seed_ = int(as_generator(self.random_state).integers(2**63 - 1))
            self.n_trees_ = 0
        groves = old.groves
        if self.n_estimators > self.n_trees_:
            bins = apply_binning(place.xp, old.binning, table)
            groves = (*groves, self._grow_missing(place, bins, old.binning, labels, weights))
            del bins
        self.model_ = Forest(old.binning, groves)
        self.n_trees_ = max(self.n_trees_, self.n_estimators)
        if self.oob_score:
            bins = apply_binning(place.xp, old.binning, table)
            self._judge_out_of_bag(place, bins, labels, weights)
        return self

    def _grow_missing(
        self, place: Place, bins: Array, binning: Binning, labels: Labels, weights: Any
    ) -> Grove:
        """Grow the trees up to `n_estimators` that are not there yet, on bins (d, n)."""
        xp, (d, n) = place.xp, bins.shape
        generators = spawn(self.seed_, self.n_estimators)[self.n_trees_ :]
        plan = DrawnPlan(
            binning.n_bins,
            len(self.classes_),
            Limits(self.max_depth, self.min_samples_split, self.min_samples_leaf),
            draw_columns(d, min(count_features(self.max_features, d) or d, d)),
            place_bins(place, binning) if self._draws_cuts else None,
        )
        weight = n if weights is None or self.bootstrap else int(np.sum(weights))
        body = choose_body(place, n * d * len(generators), plan, weight)
        is_compiled = not isinstance(body, str)
        program = grow_trees if isinstance(body, str) else body
        if is_compiled:  # the bins of a row side by side: they share one or two cache lines
            bins = np.asfortranarray(bins)

        def grow(batch: slice) -> Trees:
            bags = draw_bags(generators[batch], n, weights, self.bootstrap)
            trees = program(place, bins, labels.codes, bags, plan)
            for _ in range(batch.start, batch.stop):
                report()
            return share_sums(trees)

        with show_progress("growing", len(generators), self.verbose) as report:
            parts = map_apart(xp, grow, _share(place, len(generators), n, is_compiled))
        return join_grove(place, parts, binning.n_bins, d)

    def _judge_out_of_bag(self, place: Place, bins: Array, labels: Labels, weights: Any) -> None:
        """Predict each row by the trees whose bags it is not in; keep shares and accuracy."""
        n, n_classes = labels.codes.shape[0], len(self.classes_)
        sums = np.zeros((n, n_classes), dtype=np.int64)
        generators, n_bins = spawn(self.seed_, self.n_trees_), self.model_.binning.n_bins
        for grove in self.model_.groves:
            packed, shares_at = pack_groves(place.xp, [grove], self.n_features_in_, n_bins)
            shares, n_trees = to_host(shares_at), grove.trees.n_trees
            own, generators = generators[:n_trees], generators[n_trees:]
            for batch in row_chunks(n_trees, 32 * n, most=_TREES_JUDGED):
                bags = draw_bags(own[batch], n, weights, self.bootstrap)
                some = packed._replace(roots=packed.roots[batch])
                leaves = to_host(find_leaves(place.xp, bins, some))
                ends = np.cumulative_sum(bags.sizes).tolist()
                for leaf, start, end in zip(leaves, [0, *ends], ends, strict=False):
                    is_out = np.ones(n, dtype=bool)
                    is_out[bags.rows[start:end]] = False
                    sums[is_out] += shares[leaf[is_out]]
        total = np.sum(sums, axis=1)
        is_judged = total > 0
        if not bool(np.any(is_judged)):
            raise ValueError(
                "`oob_score` must have rows that are out of some bag; every row is in all of them. "
                "Grow more trees, or draw the bags with bootstrap=True."
            )
        if not bool(np.all(is_judged)):
            warn_caller(
                f"{int(np.sum(~is_judged))} of {n} rows are in every bag and have no out-of-bag estimate; "
                "grow more trees.",
                UserWarning,
            )
        shares = sums / np.where(is_judged, total, 1)[:, None]
        hits = np.argmax(sums, axis=1)[is_judged] == labels.codes[is_judged]
        self.oob_score_ = float(hits.mean())
        self.oob_decision_function_ = np.where(is_judged[:, None], shares, np.nan)

    @property
    def feature_importances_(self) -> Any:
        """Share of each column in the decrease of the impurity, on the host."""
        gains = sum(np.asarray(grove.gains) for grove in self.model_.groves)
        by_column = np.zeros(self.n_features_in_, dtype=np.float64)
        by_column[[*self.schema_.numeric_idx, *self.schema_.nominal_idx]] = gains
        total = float(by_column.sum())
        return by_column / total if total > 0 else by_column

    def _check_settings(self) -> None:
        check_integer("n_estimators", self.n_estimators, 1)
        check_integer("max_depth", self.max_depth, 1, optional=True)
        check_integer("min_samples_split", self.min_samples_split, 2)
        check_integer("min_samples_leaf", self.min_samples_leaf, 1)
        count_features(self.max_features, 1)
        if self.warm_start and self.n_estimators < getattr(self, "n_trees_", 0):
            raise ValueError(
                f"`n_estimators` must be at least the {self.n_trees_} trees there are already; "
                f"got {self.n_estimators}. Set warm_start=False to start again."
            )

    # ---- prediction

    def _shares(self, X: Any) -> tuple[Array, Batch]:
        batch = self._open(X)
        model: Forest = self._model_at(batch.place)
        bins = apply_binning(batch.place.xp, model.binning, batch.table)
        sums = sum_leaves(batch.place.xp, bins, *self._packed_at(batch.place))
        return batch.place.xp.permute_dims(sums, (1, 0)), batch

    def _packed_at(self, place: Place) -> tuple[PackedTrees, Array]:
        """Return the trees in the form of predictions, and the class shares of their nodes."""

        def pack() -> tuple[PackedTrees, Array]:
            model: Forest = self._model_at(place)
            return pack_groves(place.xp, model.groves, self.n_features_in_, model.binning.n_bins)

        packed: tuple[PackedTrees, Array] = self._prepared_at(place, "packed", pack)
        return packed

    def predict(self, X: Any) -> Array:
        """Predict the class labels (n,) of rows."""
        shares, batch = self._shares(X)
        return self._deliver_labels(batch.place.xp.argmax(shares, axis=1), batch)

    def predict_proba(self, X: Any) -> Array:
        """Predict the probabilities (n, c) of the classes, in the order of `classes_`."""
        shares, batch = self._shares(X)
        xp = batch.place.xp
        shares = xp.astype(shares, batch.float_dtype)
        return self._deliver(shares / xp.sum(shares, axis=1, keepdims=True), batch)


def _share(place: Place, n_trees: int, n_rows: int, is_compiled: bool) -> list[slice]:
    """Cut the trees into batches of about the same size, a multiple of the threads."""
    tuning, n_threads = get_tuning(), 1
    most_rows = tuning.forest_device_rows
    if is_on_host(place):
        most_rows = tuning.forest_depth_first_rows if is_compiled else tuning.forest_host_rows
        n_threads = get_num_threads()
    n_parts = -(-n_trees * n_rows // most_rows)
    n_parts = min(-(-n_parts // n_threads) * n_threads, n_trees)
    ends = [n_trees * i // n_parts for i in range(n_parts + 1)]
    return [slice(start, end) for start, end in pairwise(ends)]
