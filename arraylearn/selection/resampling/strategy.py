"""How many rows of each class a sampler is to make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import BaseEstimator

from arraylearn.backend.random import RandomState
from arraylearn.checks import refuse
from arraylearn.table import encode_labels
from arraylearn.table.subsets import count_rows

__all__ = ["Sampler", "Strategy", "target_counts"]

Host = Any  # a NumPy array
Strategy = str | float | Mapping[Any, int]


class Sampler(BaseEstimator):
    """Base of the samplers."""

    sampling_strategy: Strategy
    random_state: RandomState

    def _encode(self, X: Any, y: Any) -> tuple[Host, Host, list[int]]:
        """Return codes, classes and counts of the labels."""
        labels = encode_labels(y)
        if count_rows(X) != labels.codes.shape[0]:
            raise refuse("y", f"must have one label per row of `X` ({count_rows(X)})", labels.codes.shape[0])
        counts = [int((labels.codes == c).sum()) for c in range(labels.classes.shape[0])]
        return labels.codes, labels.classes, counts


def target_counts(strategy: Strategy, classes: Host, counts: list[int], *, grow: bool) -> list[int]:
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
    if not isinstance(strategy, int | float) or isinstance(strategy, bool) or not 0 < strategy <= 1:
        raise refuse("sampling_strategy", "must be a name, a dict or a ratio in (0, 1]", repr(strategy))
    if len(counts) != 2:
        raise refuse("sampling_strategy", "can be a ratio for two classes only", f"{len(counts)} classes")
    return float(strategy)


def _named(strategy: Mapping[Any, int], classes: Host, counts: list[int], *, grow: bool) -> list[int]:
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
