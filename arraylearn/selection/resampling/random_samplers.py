"""Random under- and over-sampling, and how many rows of each class a sampler is to make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from arraylearn._typing import HostArray
from arraylearn.backend.random import RandomState, as_generator
from arraylearn.checks import is_number, refuse
from arraylearn.table import encode_labels
from arraylearn.table.subsets import count_rows, take_rows

__all__ = ["RandomOverSampler", "RandomUnderSampler", "Sampler", "Strategy", "target_counts"]

Strategy = str | float | Mapping[Any, int]


class Sampler(BaseEstimator):
    """Base of the samplers."""

    sampling_strategy: Strategy
    random_state: RandomState

    def _encode(self, X: Any, y: Any) -> tuple[HostArray, HostArray, list[int]]:
        """Return codes, classes and counts of the labels."""
        labels = encode_labels(y)
        if count_rows(X) != labels.codes.shape[0]:
            raise refuse("y", f"must have one label per row of `X` ({count_rows(X)})", labels.codes.shape[0])
        counts = [int((labels.codes == c).sum()) for c in range(labels.classes.shape[0])]
        return labels.codes, labels.classes, counts

    def _take(self, X: Any, y: Any, rows: list[int]) -> tuple[Any, Any]:
        """Return some rows and their labels, and remember which."""
        self.sample_indices_ = np.asarray(rows)
        return take_rows(X, self.sample_indices_), take_rows(y, self.sample_indices_)


class RandomUnderSampler(Sampler):
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
        targets = target_counts(self.sampling_strategy, classes, counts, grow=False)
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


class RandomOverSampler(Sampler):
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
        targets = target_counts(self.sampling_strategy, classes, counts, grow=True)
        rng = as_generator(self.random_state)
        drawn = list(range(codes.shape[0]))
        for c, target in enumerate(targets):
            drawn += rng.choice((codes == c).nonzero()[0], target - counts[c]).tolist()
        return self._take(X, y, drawn)


def target_counts(strategy: Strategy, classes: HostArray, counts: list[int], *, grow: bool) -> list[int]:
    """Return how many rows each class is to have: at least its own count (`grow`), or at most."""
    if isinstance(strategy, Mapping):
        return _named(strategy, classes, counts, grow=grow)
    least, most = min(counts), max(counts)
    changed = counts.index(least if grow else most)  # the class that a ratio, or its own name, changes
    if isinstance(strategy, str):
        name = "minority" if grow else "majority"
        if strategy not in ("auto", name):
            raise refuse("sampling_strategy", f"must be 'auto', '{name}', a ratio or a dict", repr(strategy))
        target = most if grow else least
        return [target if strategy == "auto" or c == changed else n for c, n in enumerate(counts)]
    ratio = _ratio(strategy, counts)
    target = int((most * ratio if grow else least / ratio) + 1e-9)
    if target < least or target > most:
        bound = "fewer" if grow else "more"
        raise refuse("sampling_strategy", f"must not ask for {bound} rows than there are", repr(strategy))
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
