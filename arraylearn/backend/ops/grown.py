"""Forests: whole trees in one call, where a library can."""

from __future__ import annotations

from typing import Any, NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.backend.compiling import is_worth_compiling
from arraylearn.backend.native import native
from arraylearn.backend.ops.cuts import CutRules

__all__ = ["ForestGrowth", "GrownTrees", "grow_whole_trees", "is_grown_whole"]


class ForestGrowth(NamedTuple):
    """What nodes look at, and what stops trees."""

    rules: CutRules
    columns: Any  # (draws, f) int64 on the host: each node takes one draw of columns, by its seed
    max_depth: int | None
    min_split: int  # a node of less weight is a leaf
    positions: Array | None  # where bins lie, if each column offers one cut, drawn at random: see `Draws`


class GrownTrees(NamedTuple):
    """Several trees on the host, one after the other, each from its root on; siblings are neighbours."""

    feature: Any  # (m,) int32
    threshold: Any  # (m,) int32: larger bins go right
    left: Any  # (m,) int64; -1 at a leaf
    counts: Any  # (m, c) int64: weight of the training rows by class
    roots: Any  # (t,) int64
    depth: int


def is_grown_whole(xp: Namespace, n_values: int) -> bool:
    """Whether a forest of so many values grows by `grow_whole_trees`: it has a body, which is worth it."""
    return is_worth_compiling(n_values) and native(xp, "grow_whole_trees") is not None


def grow_whole_trees(
    xp: Namespace, bins: Array, entries: Any, sizes: Any, seeds: Any, counts: Any, growth: ForestGrowth
) -> GrownTrees | None:
    """Grow trees from their roots, without a stop at each level; ask `is_grown_whole` first.

    Parameters
    ----------
    bins : integer array (n, d)
        Row-major bins.
    entries : int64 array (m,) on the host
        The rows of each tree with weight and class, tree after tree: see `best_cuts`.
    sizes : int64 array (t,) on the host
        Rows of each tree.
    seeds : uint64 array (t,) on the host
        The number of each root, from which those of its nodes come.
    counts : int64 array (t, c) on the host
        Weight of each class in each tree.
    growth : ForestGrowth
        What nodes look at, and what stops trees.

    Returns
    -------
    GrownTrees or None
        What `best_cuts` and `divide_rows` make, level by level. None where there is no body for so many bins
        or classes: the caller takes the levels.
    """
    fast = native(xp, "grow_whole_trees")
    grown: GrownTrees | None = fast and fast(bins, entries, sizes, seeds, counts, growth)
    return grown
