"""The class that rules are learned for, and how much of it a set of rows holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import to_host

__all__ = ["Counts", "Target", "Weight", "weigh"]


class Target(NamedTuple):
    """What a rule shall cover."""

    is_positive: Array  # (n,) bool: the rows of the class
    weights: Array | None  # (n,) accumulator's dtype; None: every row counts 1


class Counts(NamedTuple):
    """How much weight a rule covers."""

    positive: float  # of the positive rows
    covered: float  # of all rows

    @property
    def accuracy(self) -> float:
        """Share of the positive rows; 0 where nothing is covered."""
        return self.positive / self.covered if self.covered > 0 else 0.0


class Weight(NamedTuple):
    """The weight of some rows, and their number."""

    counts: Counts
    n_rows: int


def weigh(xp: Namespace, target: Target, masks: Sequence[Array]) -> list[Weight]:
    """Weigh the rows of each mask (n,); one sync."""
    if target.weights is None:
        pairs = [(xp.count_nonzero(mask & target.is_positive), xp.count_nonzero(mask)) for mask in masks]
        numbers = to_host(xp.stack([xp.astype(one, xp.int64) for pair in pairs for one in pair])).tolist()
        counts = zip(numbers[::2], numbers[1::2], strict=True)
        return [Weight(Counts(float(positive), float(n)), n) for positive, n in counts]
    sums = []
    for mask in masks:
        weights = xp.where(mask, target.weights, 0.0)
        sums += [
            xp.sum(xp.where(target.is_positive, weights, 0.0)),
            xp.sum(weights),
            xp.astype(xp.count_nonzero(mask), weights.dtype),
        ]
    found = to_host(xp.stack(sums)).tolist()
    return [Weight(Counts(found[i], found[i + 1]), int(found[i + 2])) for i in range(0, len(found), 3)]
