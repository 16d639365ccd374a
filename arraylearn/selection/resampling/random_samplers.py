"""Random under- and over-sampling, and the number of rows that each class is to have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.namespace import from_host, read_flags
from arraylearn.backend.random import RandomState, as_generator
from arraylearn.checks import check_number, is_number, refuse
from arraylearn.estimator import ArrayEstimator, Batch, check_same_length
from arraylearn.selection.resampling.synthetic import Synthesis, append_synthetic
from arraylearn.table import learn_schema_and_labels, open_frame
from arraylearn.table.subsets import take_rows

__all__ = ["RandomOverSampler", "RandomUnderSampler", "Sampler", "Strategy", "target_counts"]

Strategy = str | float | Mapping[Any, int]


class ResamplingPlan(NamedTuple):
    """The classes of a table, and how many rows each is to have."""

    codes: HostArray  # (n,) int64
    classes: HostArray  # (k,)
    counts: list[int]  # rows of each class
    targets: list[int]
    batch: Batch  # the rows


class Sampler(ArrayEstimator):
    """Base of the samplers."""

    _accepts_infinity: ClassVar[bool] = True
    _grows: ClassVar[bool] = True  # whether rows are added, or left out

    sampling_strategy: Strategy
    random_state: RandomState
    backend: str | None = None

    def fit(self, X: Any, y: Any) -> Self:
        """Check the rows and labels, and learn how many rows each class is to gain, or to keep.

        Parameters
        ----------
        X : array, data frame or list of lists, (n, d)
            Rows.
        y : array-like (n,)
            Class labels.

        Returns
        -------
        self
            With `sampling_strategy_`.
        """
        self._plan(X, y)
        return self

    def _plan(self, X: Any, y: Any) -> ResamplingPlan:
        """Read the rows, count the classes, and set `sampling_strategy_`: the rows added, or kept."""
        self._note_columns(X, reset=True)
        rows = open_frame(X)
        nominal = getattr(self, "categorical_features", "from_dtype")
        self.schema_, labels = learn_schema_and_labels(rows, y, nominal)
        batch = self._read(rows)
        check_same_length(batch, labels.codes)
        self._refuse_bad(*read_flags(batch.place, batch.is_bad))
        counts = [int((labels.codes == c).sum()) for c in range(labels.classes.shape[0])]
        targets = target_counts(self.sampling_strategy, labels.classes, counts, grow=self._grows)
        self.sampling_strategy_ = {
            label: target - n if self._grows else target
            for label, target, n in zip(labels.classes.tolist(), targets, counts, strict=True)
            if target != n
        }
        return ResamplingPlan(labels.codes, labels.classes, counts, targets, batch)

    def _take(self, X: Any, y: Any, rows: list[int]) -> tuple[Any, Any]:
        """Return some rows and their labels, and set `sample_indices_`."""
        self.sample_indices_ = np.asarray(rows)
        return take_rows(X, self.sample_indices_), take_rows(y, self.sample_indices_)


@dataclass(kw_only=True, eq=False, repr=False)
class RandomUnderSampler(Sampler):
    """Drop random rows of the larger classes.

    Parameters
    ----------
    sampling_strategy : {"majority", "not minority", "not majority", "all", "auto"}, float or dict
        Which classes shrink to the size of the smallest; "auto" is "not minority". A number, for two classes:
        smaller over larger count afterwards. A dict: the count of each class named.
    replacement : bool
        Whether a row may be drawn twice.
    random_state : int, generator or None
        Seed; drawn on the host, so that every backend keeps the same rows.

    Attributes
    ----------
    sample_indices_ : int array
        Positions of the rows that were kept, ascending.
    sampling_strategy_ : dict
        How many rows each class that shrinks keeps.

    Examples
    --------
    >>> import numpy as np, arraylearn as al
    >>> X, y = np.arange(6.0)[:, None], ["a", "a", "a", "a", "b", "b"]
    >>> X_new, y_new = al.resample.RandomUnderSampler(random_state=0).fit_resample(X, y)
    >>> list(y_new)
    ['a', 'a', 'b', 'b']
    """

    _grows: ClassVar[bool] = False

    sampling_strategy: Strategy = "auto"
    replacement: bool = False
    random_state: RandomState = None

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return the rows and labels that stay, in their old order."""
        codes, _, counts, targets, _ = self._plan(X, y)
        rng = as_generator(self.random_state)
        keep = []
        for c, target in enumerate(targets):
            rows = (codes == c).nonzero()[0]
            keep += (
                rows.tolist()
                if target == counts[c] and not self.replacement
                else rng.choice(rows, target, replace=self.replacement).tolist()
            )
        return self._take(X, y, sorted(keep))


@dataclass(kw_only=True, eq=False, repr=False)
class RandomOverSampler(Sampler):
    """Repeat random rows of the smaller classes.

    Parameters
    ----------
    sampling_strategy : {"minority", "not minority", "not majority", "all", "auto"}, float or dict
        Which classes grow to the size of the largest; "auto" is "not majority". A number, for two classes:
        smaller over larger count afterwards. A dict: the count of each class named.
    shrinkage : float or dict, optional
        Move the numbers of repeated rows by normal noise (smoothed bootstrap, ROSE) whose standard deviation
        is `shrinkage`, by class if a dict, times :math:`(4 / ((d + 2) n_c))^{1 / (d + 4)}` times that of the
        column in the class. None repeats rows as they are.
    random_state : int, generator or None
        Seed; drawn on the host, so that every backend repeats the same rows.

    Attributes
    ----------
    sample_indices_ : int array
        All rows in their order, then the repeated ones.
    sampling_strategy_ : dict
        How many rows each class that grows gains.

    References
    ----------
    G. Menardi, N. Torelli, "Training and assessing classification rules with imbalanced data", Data Mining
    and Knowledge Discovery 28, 2014.

    Examples
    --------
    >>> import numpy as np, arraylearn as al
    >>> X, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 0, 1, 1])
    >>> X_new, y_new = al.resample.RandomOverSampler(random_state=0).fit_resample(X, y)
    >>> np.bincount(y_new)
    array([4, 4])
    """

    sampling_strategy: Strategy = "auto"
    shrinkage: float | Mapping[Any, float] | None = None
    random_state: RandomState = None

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return all rows and labels, and the repeated ones after them."""
        codes, classes, counts, targets, batch = self._plan(X, y)
        factors = self._factors(classes)
        rng = as_generator(self.random_state)
        drawn = [
            rng.choice((codes == c).nonzero()[0], target - counts[c]) for c, target in enumerate(targets)
        ]
        X_new, y_new = self._take(X, y, [*range(codes.shape[0]), *np.concat(drawn).tolist()])
        if factors is None:
            return X_new, y_new
        return _move_repeated(X, batch, codes, drawn, factors, rng), y_new

    def _factors(self, classes: HostArray) -> list[float] | None:
        """Return the shrinkage of each class; None for none."""
        if self.shrinkage is None:
            return None
        if not isinstance(self.shrinkage, Mapping):
            check_number("shrinkage", self.shrinkage, 0)
            return [float(self.shrinkage)] * classes.shape[0]
        for label, factor in self.shrinkage.items():
            if label not in classes.tolist():
                raise refuse("shrinkage", f"must name classes of `y` ({classes.tolist()})", repr(label))
            check_number(f"shrinkage[{label!r}]", factor, 0)
        return [float(self.shrinkage.get(label, 0.0)) for label in classes.tolist()]


def _move_repeated(
    X: Any,
    batch: Batch,
    codes: HostArray,
    drawn: list[HostArray],
    factors: list[float],
    rng: np.random.Generator,
) -> Any:
    """Return `X` and, below it, the rows drawn from each class, whose numbers are moved by normal noise."""
    place, table = batch.place, batch.table
    xp = place.xp
    d, parts = table.numeric.shape[1], []
    for c, (rows, factor) in enumerate(zip(drawn, factors, strict=True)):
        members = (codes == c).nonzero()[0]
        width = factor * (4 / ((d + 2) * members.shape[0])) ** (1 / (d + 4))
        own, repeated = (
            xp.take(table.numeric, from_host(idx, place, xp.int64), axis=0) for idx in (members, rows)
        )
        noise = from_host(rng.standard_normal((rows.shape[0], d)), place, own.dtype)
        numeric = repeated + width * xp.std(own, axis=0)[None, :] * noise
        parts.append(Synthesis(rows, numeric, [rows] * table.codes.shape[0]))
    return append_synthetic(X, table.schema, place, parts)


def target_counts(strategy: Strategy, classes: HostArray, counts: list[int], *, grow: bool) -> list[int]:
    """Return how many rows each class is to have: at least its own count (`grow`), or at most."""
    if isinstance(strategy, Mapping):
        return _named(strategy, classes, counts, grow=grow)
    least, most = min(counts), max(counts)
    smallest, largest = counts.index(least), counts.index(most)
    every = set(range(len(counts)))
    if isinstance(strategy, str):
        chosen = {
            "minority" if grow else "majority": {smallest if grow else largest},
            "not minority": every - {smallest},
            "not majority": every - {largest},
            "all": every,
            "auto": every - {largest if grow else smallest},
        }
        if strategy not in chosen:
            names = ", ".join(map(repr, chosen))
            raise refuse("sampling_strategy", f"must be {names}, a ratio or a dict", repr(strategy))
        target = most if grow else least
        return [target if c in chosen[strategy] else n for c, n in enumerate(counts)]
    ratio = _ratio(strategy, counts)
    target = int((most * ratio if grow else least / ratio) + 1e-9)
    if target < least or target > most:
        bound = "fewer" if grow else "more"
        raise refuse("sampling_strategy", f"must not ask for {bound} rows than there are", repr(strategy))
    changed = smallest if grow else largest
    return [target if c == changed else n for c, n in enumerate(counts)]


def _ratio(strategy: Any, counts: list[int]) -> float:
    if not is_number(strategy) or not 0 < strategy <= 1:
        raise refuse("sampling_strategy", "must be a name, a dict or a ratio in (0, 1]", repr(strategy))
    if len(counts) != 2:
        raise refuse("sampling_strategy", "can be a ratio for two classes only", f"{len(counts)} classes")
    return float(strategy)


def _named(strategy: Mapping[Any, int], classes: HostArray, counts: list[int], *, grow: bool) -> list[int]:
    known = classes.tolist()
    targets = list(counts)
    for label, target in strategy.items():
        if label not in known:
            raise refuse("sampling_strategy", f"must name classes of `y` ({known})", repr(label))
        c = known.index(label)
        if (target < counts[c]) if grow else not 0 < target <= counts[c]:
            bound = "at least" if grow else "at least 1 and at most"
            raise refuse(
                "sampling_strategy", f"must be {bound} {counts[c]} for class {label!r}", repr(target)
            )
        targets[c] = int(target)
    return targets
