"""All that grows below some nodes of a tree, at once where a library can do better than level by level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.backend.native import native

__all__ = ["Growth", "Subtrees", "grow_bins"]


class Growth(NamedTuple):
    """When growth stops: unit weights."""

    least: int  # rows of a side, at least
    least_to_split: int  # rows of a node that may be split, at least
    n_levels: int  # levels below the given nodes, at most; negative: any number
    min_gain: float  # of a split, at least, in float32


class Subtrees(NamedTuple):
    """Nodes in the order of growth by levels, the given ones first: arrays of t entries on the host.

    The children of a level are numbered in the order of its blocks, two for each block that is split; the
    blocks of the next level are the left ones of them and then the right ones.
    """

    line: Any  # int32: the column that is split; -1 for a leaf
    gain: Any  # float32 `gini_gains` of the split
    low: Any  # int32 of the two neighbours between which the split is: their rows, or their bins
    high: Any
    first_child: Any  # int32: -1 for a leaf
    depth: Any  # int32: levels below the given nodes
    counts: Any  # (t, c) int32


def grow_bins(
    xp: Namespace,
    rows: Array,
    bins: Array,
    n_bins: int,
    class_ends: Sequence[int],
    starts: Array,
    counts: Array,
    growth: Growth,
) -> Subtrees | None:
    """Grow what is below some blocks of rows whose values are bins.

    Parameters
    ----------
    rows : int32 array (m,)
        The rows of each block in ascending order.
    bins : uint8 or int16 array (d, n)
        The values, in ``range(n_bins)``.
    class_ends, starts, counts
        As for `arraylearn.grow.lists.search_lists`.
    growth : Growth
        When to stop. A node of one class is not split. The given blocks are all tried.

    Returns
    -------
    Subtrees or None
        None where the library has no body for it. `low` is the last bin of the left side that has rows,
        `high` the first one of the right side.
    """
    fast = native(xp, "grow_bins")
    return None if fast is None else fast(rows, bins, n_bins, class_ends, starts, counts, growth)
