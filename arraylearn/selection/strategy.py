"""How many rows of each class a sampler is to reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import BaseEstimator

from arraylearn.backend.random import RandomState
from arraylearn.checks import refuse
from arraylearn.selection.rows import count_rows
from arraylearn.table import encode_labels

__all__ = ["Sampler", "Strategy", "fewer", "more"]

Host = Any  # a NumPy array
Strategy = str | float | Mapping[Any, int]


class Sampler(BaseEstimator):
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


def fewer(strategy: Strategy, classes: Host, counts: list[int]) -> list[int]:
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


def more(strategy: Strategy, classes: Host, counts: list[int]) -> list[int]:
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
