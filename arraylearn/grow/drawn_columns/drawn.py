"""Grow random trees: each node looks at some drawn columns, or at one drawn cut of each.

This is the array program: level by level, the nodes of all trees side by side. The same function for CPUs is
in `arraylearn.grow.drawn_columns.drawn_cpu`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.arrays.order import compress
from arraylearn.backend.arrays.segments import block_index, histogram
from arraylearn.backend.dispatch import why_not_compiled
from arraylearn.backend.namespace import HOST, Place, from_host, to_host
from arraylearn.backend.random import splitmix
from arraylearn.grow.drawn_columns.cuts import CutRules, Draws, best_cuts, divide_rows
from arraylearn.grow.loop import grow_levels
from arraylearn.grow.trees import LEAF, Cuts, Limits, TreeLevels, Trees

__all__ = ["Bags", "DrawnPlan", "PackedRows", "choose_body", "grow_trees", "pack_rows", "with_gains"]

# From this many rows per class on, a node looks at groups of bins.
_LARGE_PER_CLASS = 512
# From so many rows x columns x trees on, the compiled body is chosen: Numba is imported (0.3 s), and the
# first run on a machine also compiles.
LEAST_WORK = 200_000
# What the compiled body holds in a digit, a field and a half of an integer.
_MOST_BINS, _MOST_CLASSES, _MOST_WEIGHT = 1 << 12, 1 << 16, 1 << 31


class DrawnPlan(NamedTuple):
    """What nodes look at, and what stops trees."""

    n_bins: int
    n_classes: int
    limits: Limits
    columns: Any  # (draws, f) int64 on the host: a node looks at the columns of one draw, by its seed
    positions: Array | None = None  # (d * n_bins,) where bins lie, if a column offers one cut: see `Draws`


class Bags(NamedTuple):
    """The rows of several trees, on the host."""

    rows: Any  # (m,) int64, tree after tree, ascending
    weights: Any  # (m,) int64: how often each was drawn
    sizes: Any  # (t,) int64
    seeds: Any  # (t,) uint64


class PackedRows(NamedTuple):
    """The rows of several trees, on the host, each row one integer."""

    entries: Any  # (m,) int64: row, weight and class
    sums: Any  # (t, c) int64: class weights of each tree
    rules: CutRules


class _DrawnLevel(NamedTuple):
    """Nodes that may be split, and their rows side by side."""

    ids: Any  # (k,) host
    sizes: Any  # (k,) host
    counts: Any  # (k, c) host
    seeds: Any  # (k,) host uint64
    entries: Array  # (m,) int64: row, weight and class


class _DrawnCuts(NamedTuple):
    """The best cut of each node, on the host."""

    cuts: Cuts
    sizes: Any  # (k, 2): rows on both sides


GrowTrees = Callable[[Place, Array, Any, Bags, DrawnPlan], Trees]


def choose_body(place: Place, work: int, plan: DrawnPlan, weight: int) -> GrowTrees | str:
    """Return the compiled body of `grow_trees`, or why the array program serves.

    Parameters
    ----------
    place : Place
        Where the bins are.
    work : int
        Rows x columns x trees.
    plan : DrawnPlan
        What is to be grown.
    weight : int
        Weight of all rows of a tree, at most.
    """
    if (reason := why_not_compiled(place, work, LEAST_WORK)) is not None:
        return reason
    if plan.n_bins > _MOST_BINS or plan.n_classes > _MOST_CLASSES:
        return f"more than {_MOST_BINS:,} bins or {_MOST_CLASSES:,} classes"
    if weight >= _MOST_WEIGHT:
        return "weights of 2**31 or more in all"
    from arraylearn.grow.drawn_columns import drawn_cpu

    return drawn_cpu.grow_trees


def grow_trees(place: Place, bins: Array, codes: Any, bags: Bags, plan: DrawnPlan) -> Trees:
    """Grow one tree per bag.

    Parameters
    ----------
    place : Place
        Where `bins` and ``plan.positions`` are.
    bins : integer array (n, d)
        Row-major bins in ``range(plan.n_bins)``.
    codes : int array (n,) on the host
        Classes.
    bags : Bags
        The rows of each tree.
    plan : DrawnPlan
        What nodes look at, and what stops trees.

    Returns
    -------
    Trees
        With class weights as sums; `low` is the last bin that goes left, `gain` the decrease of the Gini
        impurity times the weight.
    """
    program = _DrawnLevels(place, bins, plan, pack_rows(codes, bags, plan))
    grow_levels(program, program.first_level(bags))
    return with_gains(program.trees.finish())


def pack_rows(codes: Any, bags: Bags, plan: DrawnPlan) -> PackedRows:
    """Pack row, weight and class of each row of each tree, and sum the class weights."""
    n_trees, n_classes = bags.sizes.shape[0], plan.n_classes
    code = codes[bags.rows]
    cell = np.repeat(np.arange(0, n_trees * n_classes, n_classes), bags.sizes)
    cell += code
    sums = histogram(HOST.xp, cell, n_trees * n_classes, bags.weights).reshape(n_trees, n_classes)
    class_bits = max(1, (n_classes - 1).bit_length())
    payload_bits = class_bits + int(bags.weights.max()).bit_length()
    entries = bags.rows << payload_bits
    entries += bags.weights << class_bits
    entries += code
    large = _LARGE_PER_CLASS * n_classes
    rules = CutRules(plan.n_bins, class_bits, payload_bits, int(plan.limits.min_samples_leaf), large)
    return PackedRows(entries, sums, rules)


def with_gains(trees: Trees) -> Trees:
    """Give each node the decrease of the Gini impurity times the weight."""
    total = np.einsum("ij->i", trees.sums)  # five times as fast as `np.sum` of short lines
    impurity = total - np.vecdot(trees.sums, trees.sums) / total
    inner = np.nonzero(trees.first_child != LEAF)[0]
    below = trees.first_child[inner]
    gain = np.zeros(total.shape[0], dtype=np.float64)
    gain[inner] = impurity[inner] - impurity[below] - impurity[below + 1]
    return trees._replace(gain=gain)


class _DrawnLevels:
    """Trees that grow level by level, for `grow_levels`."""

    def __init__(self, place: Place, bins: Array, plan: DrawnPlan, rows: PackedRows) -> None:
        self.place, self.bins, self.plan, self.rows = place, bins, plan, rows
        self.trees = TreeLevels(rows.sums)

    def first_level(self, bags: Bags) -> _DrawnLevel | None:
        """Return the roots that may be split."""
        sums, entries = self.rows.sums, from_host(self.rows.entries, self.place)
        roots = _DrawnLevel(np.arange(sums.shape[0]), bags.sizes, sums, bags.seeds, entries)
        return self._keep(roots, self._may_split(sums)) if self.plan.limits.max_depth != 0 else None

    def _may_split(self, counts: Any) -> Any:
        """Whether nodes have weight enough, and rows of more than one class."""
        total, limits = np.sum(counts, axis=-1), self.plan.limits
        least = max(limits.min_samples_split, 2 * limits.min_samples_leaf)
        return (np.max(counts, axis=-1) < total) & (total >= least)

    def _keep(self, level: _DrawnLevel, is_kept: Any) -> _DrawnLevel | None:
        """Leave out nodes and their rows; None where nothing remains."""
        if bool(np.all(is_kept)):
            return level
        if not bool(np.any(is_kept)):
            return None
        xp, place = self.place.xp, self.place
        block = block_index(xp, from_host(level.sizes, place), int(level.entries.shape[0]))
        keep = xp.take(from_host(is_kept, place), block, axis=0)
        entries = compress(xp, level.entries, keep, int(np.sum(level.sizes[is_kept])))
        return _DrawnLevel._make((*(part[is_kept] for part in level[:-1]), entries))

    def search(self, level: _DrawnLevel) -> _DrawnCuts:
        """Find the cuts of all nodes; one sync, or two where the drawn columns of a node cannot be cut."""
        columns, d = self.plan.columns, int(self.bins.shape[1])
        draw = level.seeds % np.asarray(columns.shape[0], dtype=np.uint64)
        drawn = columns[np.astype(draw, np.int64)]
        found = self._cut_among(level, drawn)
        others = None
        if drawn.shape[1] < d:
            others = self._keep(level, ~found.cuts.is_split) if not found.cuts.is_split.all() else None
        if others is None:
            return found
        # drawn columns that are constant in a node allow no cut: look at the others, too
        every = np.broadcast_to(np.arange(d)[None, :], (others.ids.shape[0], d))
        more, at = self._cut_among(others, every), np.nonzero(~found.cuts.is_split)[0]
        for field, some in zip((*found.cuts[:4], found.sizes), (*more.cuts[:4], more.sizes), strict=True):
            field[at] = some
        return found

    def _cut_among(self, level: _DrawnLevel, columns: Any) -> _DrawnCuts:
        """Find the cuts of nodes, each among columns (k, f) of its own; one sync."""
        xp, place, k = self.place.xp, self.place, level.ids.shape[0]
        draws = None
        if self.plan.positions is not None:
            # by the seed of the node and the column, whichever other columns are looked at
            seeds = level.seeds[:, None] + np.astype(columns + 3, np.uint64)
            numbers = np.astype(splitmix(seeds) >> 32, np.int64)
            draws = Draws(from_host(numbers, place), self.plan.positions)
        score, choice, cut, n_left, left = best_cuts(
            xp,
            self.bins,
            level.entries,
            level.sizes.tolist(),
            from_host(columns, place, xp.int64),
            from_host(level.counts, place, xp.int64),
            self.rows.rules,
            draws,
        )
        found = (xp.astype(score > 0, xp.int64), choice, cut, n_left, xp.reshape(left, (-1,)))
        read = to_host(xp.concat(found))
        is_split, choice, cut, n_left = read[: 4 * k].reshape(4, k)
        left = read[4 * k :].reshape(level.counts.shape)
        sums = np.stack((left, level.counts - left), axis=1)
        cuts = Cuts(is_split > 0, columns[np.arange(k), choice], cut, sums)
        return _DrawnCuts(cuts, np.stack((n_left, level.sizes - n_left), axis=1))

    def add(self, level: _DrawnLevel, found: _DrawnCuts) -> Any:
        """Write the cuts into the trees; return the left child of each node."""
        return self.trees.add(level.ids, found.cuts)

    def divide(self, level: _DrawnLevel, found: _DrawnCuts, children: Any) -> _DrawnLevel | None:
        """Lay out the rows of the children that may be split: left ones first, then right ones."""
        if self.trees.depth == self.plan.limits.max_depth:
            return None
        cuts, sizes, place = found.cuts, found.sizes, self.place
        is_live = (cuts.is_split[:, None] & self._may_split(cuts.sums)).T
        if not bool(np.any(is_live)):
            return None
        n_left, n_right = (int(np.sum(sizes[is_live[side], side])) for side in (0, 1))
        entries = divide_rows(
            place.xp,
            self.bins,
            level.entries,
            level.sizes.tolist(),
            from_host(np.stack((cuts.feature, cuts.low)), place, place.xp.int64),
            from_host(is_live, place),
            (n_left, n_right),
            self.rows.rules.payload_bits,
        )
        sides = [
            (
                children[live] + side,
                sizes[live, side],
                cuts.sums[live, side],
                splitmix(level.seeds[live] + np.asarray(side + 1, dtype=np.uint64)),
            )
            for side, live in enumerate(is_live)
        ]
        return _DrawnLevel._make((*(np.concat(both) for both in zip(*sides, strict=True)), entries))
