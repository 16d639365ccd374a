"""One record of grown trees for single trees, forests and boosting."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["LEAF", "GrowthLimits", "Trees"]

# `Trees.feature` and `Trees.first_child` of a leaf.
LEAF = -1


class GrowthLimits(NamedTuple):
    """When the growth of a single tree stops; weights of integers."""

    least: int  # weight of a side, at least
    least_to_split: int  # weight of a node that may be split, at least
    n_levels: int  # levels below the given nodes, at most; negative: any number
    min_gain: float  # of a split, at least, in float32


class Trees(NamedTuple):
    """Trees of two branches per node, one after the other, on the host: m nodes in t trees.

    A tree is in level order, siblings are neighbours. A level holds the children of the nodes that were split
    in the level before: first those of left children, then those of right ones::

        level 0          0
        level 1      1       2
        level 2     3 4     5 6      nodes 1 and 2 were split: children of 1, then of 2
        level 3    7 8 11 12  9 10   nodes 3, 4 and 5 were split: first the left children 3 and 5, then 4
    """

    roots: Any  # (t,) int64: the first node of each tree
    feature: Any  # (m,) int32: the column that splits the node, LEAF for a leaf
    low: Any  # (m,) int32: rows up to it go left: the last bin, or the last row of a sorted list, on the left
    high: Any  # (m,) int32: the next bin that holds a row of the node, or the next row, on the right; or None
    first_child: Any  # (m,) int32: the left child, LEAF for a leaf; the right one follows it
    depth: Any  # (m,) int32: 0 for a root
    gain: Any  # (m,) float: of the split
    sums: Any  # (m, w) int64: class weights, or one packed pair (hessian << 32) + gradient
    missing_right: Any | None = None  # (m,) bool: whether missing values go right; None: there are none
    rows: Any | None = None  # (2, m) int64: the first row of a leaf in the final order, and their number
    bounds: Any | None = None  # (m, 2) float64: least and greatest value that a node may have
    sets: Any | None = None  # (m, n_bins) bool: bins that go right, where the column of a node is nominal
