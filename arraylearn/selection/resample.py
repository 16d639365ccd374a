"""Balance the classes of training rows: random under- and over-sampling, SMOTE and SMOTE-NC.

The samplers have the ``fit_resample`` of imbalanced-learn and work in its pipelines; `ResampledClassifier`
puts one before any classifier, so that the training rows of a fold are resampled and those it is judged on
are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from arraylearn._door import refuse
from arraylearn.backend.namespace import HOST, from_host, locate, read_flags, to_host
from arraylearn.backend.random import RandomState, as_generator
from arraylearn.backend.selector import choose_place
from arraylearn.selection.neighbours import commonest_neighbour, median_deviation, nearest_rows
from arraylearn.selection.rows import count_rows, take_rows
from arraylearn.selection.synthesis import Synthesis, append_synthetic
from arraylearn.table import encode_labels, learn_schema, read_table

__all__ = ["SMOTE", "RandomOverSampler", "RandomUnderSampler", "ResampledClassifier"]

Host = Any  # a NumPy array
Strategy = str | float | Mapping[Any, int]


class _Sampler(BaseEstimator):  # type: ignore[misc]
    """What the samplers share: the counts to reach."""

    sampling_strategy: Strategy
    random_state: RandomState

    def _encode(self, X: Any, y: Any) -> tuple[Host, Host, list[int]]:
        """Return codes, classes and counts of the labels."""
        labels = encode_labels(y)
        if count_rows(X) != labels.codes.shape[0]:
            raise refuse("y", f"must have one label per row of `X` ({count_rows(X)})", labels.codes.shape[0])
        counts = [int((labels.codes == c).sum()) for c in range(labels.classes.shape[0])]
        return labels.codes, labels.classes, counts


class RandomUnderSampler(_Sampler):
    """Drop random rows of the larger classes.

    Parameters
    ----------
    sampling_strategy : "auto", "majority", float or dict
        "auto": every class shrinks to the smallest; "majority": only the largest does. A number, for two
        classes: smaller over larger count afterwards. A dict: the count of each class named.
    replacement : bool
        Whether a row may be drawn twice.
    random_state : int, generator or None
        Seed; drawn on the host, so that every backend keeps the same rows.

    Attributes
    ----------
    sample_indices_ : int array
        Positions of the rows that were kept, ascending.

    Examples
    --------
    >>> import numpy as np, arraylearn as al
    >>> X, y = np.arange(6.0)[:, None], ["a", "a", "a", "a", "b", "b"]
    >>> X_new, y_new = al.resample.RandomUnderSampler(random_state=0).fit_resample(X, y)
    >>> list(y_new)
    ['a', 'a', 'b', 'b']
    """

    def __init__(
        self,
        *,
        sampling_strategy: Strategy = "auto",
        replacement: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.sampling_strategy = sampling_strategy
        self.replacement = replacement
        self.random_state = random_state

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return the rows and labels that stay, in their old order."""
        codes, classes, counts = self._encode(X, y)
        targets = _fewer(self.sampling_strategy, classes, counts)
        rng = as_generator(self.random_state)
        keep = []
        for c, target in enumerate(targets):
            rows = (codes == c).nonzero()[0]
            keep += (
                rows.tolist()
                if target == counts[c] and not self.replacement
                else rng.choice(rows, target, replace=self.replacement).tolist()
            )
        self.sample_indices_ = from_host(sorted(keep), HOST)
        return take_rows(X, self.sample_indices_), take_rows(y, self.sample_indices_)


class RandomOverSampler(_Sampler):
    """Repeat random rows of the smaller classes.

    Parameters
    ----------
    sampling_strategy : "auto", "minority", float or dict
        "auto": every class grows to the largest; "minority": only the smallest does. A number, for two
        classes: smaller over larger count afterwards. A dict: the count of each class named.
    random_state : int, generator or None
        Seed; drawn on the host, so that every backend repeats the same rows.

    Attributes
    ----------
    sample_indices_ : int array
        All rows in their order, then the repeated ones.

    Examples
    --------
    >>> import numpy as np, arraylearn as al
    >>> X, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 0, 1, 1])
    >>> X_new, y_new = al.resample.RandomOverSampler(random_state=0).fit_resample(X, y)
    >>> np.bincount(y_new)
    array([4, 4])
    """

    def __init__(self, *, sampling_strategy: Strategy = "auto", random_state: RandomState = None) -> None:
        self.sampling_strategy = sampling_strategy
        self.random_state = random_state

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return all rows and labels, and the repeated ones after them."""
        codes, classes, counts = self._encode(X, y)
        targets = _more(self.sampling_strategy, classes, counts)
        rng = as_generator(self.random_state)
        drawn = list(range(codes.shape[0]))
        for c, target in enumerate(targets):
            drawn += rng.choice((codes == c).nonzero()[0], target - counts[c]).tolist()
        self.sample_indices_ = from_host(drawn, HOST)
        return take_rows(X, self.sample_indices_), take_rows(y, self.sample_indices_)


class SMOTE(_Sampler):
    r"""Make synthetic rows of the smaller classes, between a row and one of its nearest neighbours.

    .. math:: x_{new} = x_i + u\,(x_j - x_i), \qquad u \sim U(0, 1)

    Parameters
    ----------
    k_neighbors : int
        How many neighbours of the same class are candidates for j; a class of fewer rows uses them all.
    sampling_strategy : "auto", "minority", float or dict
        As for `RandomOverSampler`.
    categorical_features : "from_dtype", None, or sequence of int, bool or str
        Which columns are nominal, as in the classifiers. With such columns this is SMOTE-NC: a nominal column
        that differs adds the squared median of the class's standard deviations to a squared distance, and a
        synthetic row takes the commonest category of the neighbours (of equals the nearest one's).
    random_state : int, generator or None
        Seed; drawn on the host, so that every backend makes the same rows.
    backend : str or None
        Where to compute the distances; by default where `X` lives.

    Notes
    -----
    Distances are taken in chunks that fit the memory budget. The result has the library, device and frame
    type of `X`; integer columns become floats, because values between are wanted.

    References
    ----------
    N. V. Chawla, K. W. Bowyer, L. O. Hall, W. P. Kegelmeyer, "SMOTE: synthetic minority over-sampling
    technique", JAIR 16, 2002.

    Examples
    --------
    >>> import numpy as np, arraylearn as al
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [10.0], [11.0]])
    >>> X_new, y_new = al.resample.SMOTE(random_state=0).fit_resample(X, [0, 0, 0, 0, 1, 1])
    >>> X_new.shape, bool(((X_new[6:] > 10) & (X_new[6:] < 11)).all())
    ((8, 1), True)
    """

    def __init__(
        self,
        *,
        k_neighbors: int = 5,
        sampling_strategy: Strategy = "auto",
        categorical_features: Any = "from_dtype",
        random_state: RandomState = None,
        backend: str | None = None,
    ) -> None:
        self.k_neighbors = k_neighbors
        self.sampling_strategy = sampling_strategy
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.backend = backend

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return all rows and labels, and the synthetic ones after them."""
        codes, classes, counts = self._encode(X, y)
        if not isinstance(self.k_neighbors, int) or self.k_neighbors < 1:
            raise refuse("k_neighbors", "must be an integer of at least 1", repr(self.k_neighbors))
        targets = _more(self.sampling_strategy, classes, counts)
        schema = learn_schema(X, self.categorical_features)
        place = choose_place(locate(X), self.backend)
        table = read_table(X, schema, place)
        self._refuse_missing(*read_flags(place, ~place.xp.all(place.xp.isfinite(table.numeric))))
        rng = as_generator(self.random_state)
        parts = []
        for c, target in enumerate(targets):
            if target > counts[c]:
                if counts[c] < 2:
                    raise refuse("y", "must have two rows or more of a class to interpolate", classes[c])
                parts.append(self._between(place, table, (codes == c).nonzero()[0], target - counts[c], rng))
        if not parts:
            return X, y
        base = from_host([row for part in parts for row in part.base.tolist()], HOST)
        order = from_host([*range(codes.shape[0]), *base.tolist()], HOST)
        return append_synthetic(X, schema, place, parts), take_rows(y, order)

    def _between(self, place: Any, table: Any, members: Host, n_new: int, rng: Any) -> Synthesis:
        """Make `n_new` rows of one class, whose rows are `members`."""
        xp = place.xp
        k = min(self.k_neighbors, members.shape[0] - 1)
        base, choice, step = (
            rng.integers(members.shape[0], size=n_new),
            rng.integers(k, size=n_new),
            rng.random(n_new),
        )
        own = from_host(members, place, xp.int64)
        x, codes = xp.take(table.numeric, own, axis=0), xp.take(table.codes, own, axis=1)
        near = nearest_rows(xp, x, codes, median_deviation(xp, x), k=k)
        start = from_host(base, place, xp.int64)
        chosen = xp.take(xp.reshape(near, (-1,)), from_host(base * k + choice, place, xp.int64), axis=0)
        share = from_host(step[:, None], place, x.dtype)
        origin = xp.take(x, start, axis=0)
        numeric = origin + share * (xp.take(x, chosen, axis=0) - origin)
        sources = [
            members.take(to_host(xp.take(commonest_neighbour(xp, codes[c, :], near), start, axis=0)))
            for c in range(codes.shape[0])
        ]
        return Synthesis(members.take(base), numeric, sources)

    def _refuse_missing(self, is_bad: bool) -> None:
        if is_bad:
            raise ValueError(
                "Input X contains NaN or infinity; SMOTE needs finite numbers to interpolate. "
                "Impute or drop them."
            )


class ResampledClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that learns from resampled rows and predicts as itself.

    Parameters
    ----------
    estimator : classifier
        What learns.
    sampler : object with ``fit_resample``
        What balances the training rows; those of this module or of imbalanced-learn.

    Attributes
    ----------
    estimator_ : classifier
        Fitted on the resampled rows.

    Examples
    --------
    >>> import arraylearn as al
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> model = al.resample.ResampledClassifier(GaussianNB(), al.resample.SMOTE(random_state=0))
    >>> float(model.fit(X[:120], y[:120]).score(X[:120], y[:120])) > 0.9
    True
    """

    def __init__(self, estimator: Any, sampler: Any) -> None:
        self.estimator = estimator
        self.sampler = sampler

    def fit(self, X: Any, y: Any) -> Self:
        """Resample, then learn."""
        X_new, y_new = clone(self.sampler).fit_resample(X, y)
        self.estimator_ = clone(self.estimator).fit(X_new, y_new)
        self.classes_ = self.estimator_.classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def predict(self, X: Any) -> Any:
        """Predict class labels."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Predict class probabilities."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Return the decision values."""
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__()
        tags.input_tags = inner.input_tags
        tags.array_api_support = inner.array_api_support
        return tags


def _fewer(strategy: Strategy, classes: Host, counts: list[int]) -> list[int]:
    """Return the counts to shrink to."""
    if isinstance(strategy, str):
        if strategy not in ("auto", "majority"):
            raise refuse("sampling_strategy", "must be 'auto', 'majority', a ratio or a dict", repr(strategy))
        largest = counts.index(max(counts))
        return [min(counts) if strategy == "auto" or c == largest else n for c, n in enumerate(counts)]
    if isinstance(strategy, Mapping):
        return _named(strategy, classes, counts, is_more=False)
    target = int(min(counts) / _ratio(strategy, counts) + 1e-9)
    if target > max(counts):
        raise refuse("sampling_strategy", "must not ask for more rows than there are", repr(strategy))
    largest = counts.index(max(counts))
    return [target if c == largest else n for c, n in enumerate(counts)]


def _more(strategy: Strategy, classes: Host, counts: list[int]) -> list[int]:
    """Return the counts to grow to."""
    if isinstance(strategy, str):
        if strategy not in ("auto", "minority"):
            raise refuse("sampling_strategy", "must be 'auto', 'minority', a ratio or a dict", repr(strategy))
        smallest = counts.index(min(counts))
        return [max(counts) if strategy == "auto" or c == smallest else n for c, n in enumerate(counts)]
    if isinstance(strategy, Mapping):
        return _named(strategy, classes, counts, is_more=True)
    target = int(max(counts) * _ratio(strategy, counts) + 1e-9)
    if target < min(counts):
        raise refuse("sampling_strategy", "must not ask for fewer rows than there are", repr(strategy))
    smallest = counts.index(min(counts))
    return [target if c == smallest else n for c, n in enumerate(counts)]


def _ratio(strategy: Any, counts: list[int]) -> float:
    if not isinstance(strategy, int | float) or isinstance(strategy, bool) or not 0 < strategy <= 1:
        raise refuse("sampling_strategy", "must be a name, a dict or a ratio in (0, 1]", repr(strategy))
    if len(counts) != 2:
        raise refuse("sampling_strategy", "can be a ratio for two classes only", f"{len(counts)} classes")
    return float(strategy)


def _named(strategy: Mapping[Any, int], classes: Host, counts: list[int], *, is_more: bool) -> list[int]:
    known = classes.tolist()
    targets = list(counts)
    for label, target in strategy.items():
        if label not in known:
            raise refuse("sampling_strategy", f"must name classes of `y` ({known})", repr(label))
        c = known.index(label)
        if (target < counts[c]) if is_more else not 0 < target <= counts[c]:
            bound = "at least" if is_more else "at least 1 and at most"
            raise refuse(
                "sampling_strategy", f"must be {bound} {counts[c]} for class {label!r}", repr(target)
            )
        targets[c] = int(target)
    return targets
