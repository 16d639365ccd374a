"""One record of grown trees and one of limits, for single trees, forests and boosting."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.namespace import Place, from_host
from arraylearn.walk.packed import BinaryNodes

__all__ = ["LEAF", "Limits", "Trees", "best_first", "join_trees"]

# `Trees.feature` and `Trees.first_child` of a leaf.
LEAF = -1


class Limits(NamedTuple):
    """When growth stops. Samples are counted by weight."""

    max_depth: int | None = None
    min_samples_split: float = 2
    min_samples_leaf: float = 1
    max_leaf_nodes: int | None = None
    min_gain: float = 0.0
    max_features: int | None = None  # columns that a node looks at; None: all

    def in_units(self, unit: float) -> Limits:
        """Return the limits for weights that are counted in units."""
        least = self.min_samples_split / unit, self.min_samples_leaf / unit
        return self._replace(min_samples_split=least[0], min_samples_leaf=least[1])


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
    missing_right: Any = None  # (m,) bool: whether missing values go right; None: there are none
    rows: Any = None  # (2, m) int64: the first row of a leaf in the final order, and their number
    bounds: Any = None  # (m, 2) float64: least and greatest value that a node may have
    sets: Any = None  # (m, n_bins) bool: bins that go right, where the column of a node is nominal
    value: Any = None  # (m,) int64: what a leaf adds to the score of its rows


def best_first(gain: Any, first_child: Any, max_leaf_nodes: int) -> set[int]:
    """Return the nodes of a tree that are split when the largest gain always goes first."""
    gains, left = gain.tolist(), first_child.tolist()
    chosen: set[int] = set()
    numbers = itertools.count()  # of equal gains the one that was met first
    heap = [(-gains[0], next(numbers), 0)] if gains[0] > 0 else []
    while heap and len(chosen) < max_leaf_nodes - 1:
        *_, node = heapq.heappop(heap)
        chosen.add(node)
        for child in (left[node], left[node] + 1) if left[node] >= 0 else ():
            if gains[child] > 0:
                heapq.heappush(heap, (-gains[child], next(numbers), child))
    return chosen


def join_trees(place: Place, parts: Sequence[Trees], n_numeric: int, n_bins: int) -> BinaryNodes:
    """Write grown trees over bins side by side into arrays at `place`.

    Columns from `n_numeric` on are nominal where trees have sets.
    """
    xp = place.xp
    sizes = np.asarray([part.feature.shape[0] for part in parts])
    firsts = np.cumulative_sum(sizes) - sizes

    def join(name: str) -> Any:
        fields = [getattr(part, name) for part in parts]
        return None if fields[0] is None else np.concat(fields)

    feature, first_child, n = join("feature"), join("first_child"), int(sizes.sum())
    missing_right, sets, subset = join("missing_right"), join("sets"), None
    is_leaf = first_child == LEAF
    # a leaf is its own child; no bin is above its cut
    child = np.where(is_leaf, np.arange(n), first_child + np.repeat(firsts, sizes))
    roots = np.concat([part.roots + first for part, first in zip(parts, firsts, strict=True)])
    if sets is not None:
        nominal = np.nonzero(~is_leaf & (feature >= n_numeric))[0]
        subset = np.full(n, -1)
        subset[nominal] = np.arange(nominal.shape[0])
        sets = sets[nominal] > 0
    return BinaryNodes(
        from_host(np.where(is_leaf, 0, feature), place, xp.int32),
        from_host(np.where(is_leaf, n_bins, join("low")), place, xp.int32),
        from_host(child, place, xp.int32),
        from_host(roots, place, xp.int32),
        max(int(np.max(part.depth)) for part in parts),
        None if missing_right is None else from_host(missing_right & ~is_leaf, place),
        None if subset is None else from_host(subset, place, xp.int32),
        None if sets is None else from_host(sets, place),
    )
