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
from arraylearn.backend.dispatch import get_compiled, is_worth_compiling
from arraylearn.backend.namespace import HOST, Place, from_host, library_name, to_host
from arraylearn.backend.random import splitmix
from arraylearn.grow.drawn_columns.cuts import CutRules, Draws, best_cuts, divide_rows
from arraylearn.grow.trees import LEAF, Trees

__all__ = ["Bags", "DrawnPlan", "PackedRows", "choose_body", "finish_trees", "grow_trees", "pack_rows"]

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
    max_depth: int | None
    min_samples_split: int  # a node of less weight is a leaf
    min_samples_leaf: int  # least weight of a side
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


class _Level(NamedTuple):
    """Nodes that may be split, and their rows side by side."""

    ids: Any  # (k,) host
    trees: Any  # (k,) host
    sizes: Any  # (k,) host
    counts: Any  # (k, c) host
    seeds: Any  # (k,) host uint64
    entries: Array  # (m,) int64: row, weight and class


class _Cuts(NamedTuple):
    """The best cut of each node, on the host."""

    is_split: Any  # (k,)
    feature: Any  # (k,)
    cut: Any  # (k,)
    sizes: Any  # (k, 2): rows on both sides
    counts: Any  # (k, 2, c): weight of each class there


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
    if library_name(place.xp) != "numpy":
        return "not on a CPU of NumPy"
    if get_compiled() == "never":
        return "compiled bodies are switched off"
    if not is_worth_compiling(work, LEAST_WORK):
        return f"less work than {LEAST_WORK:,} cells" if work < LEAST_WORK else "Numba is not installed"
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
    rows = pack_rows(codes, bags, plan)
    n_trees, n_classes = rows.sums.shape
    trees = np.arange(n_trees)
    parts = [_leaves(trees, rows.sums, 0)]
    level = _Level(trees, trees, bags.sizes, rows.sums, bags.seeds, from_host(rows.entries, place))
    level = _keep(place, level, _may_split(rows.sums, plan))
    depth, first = 0, n_trees
    while level.ids.shape[0] and depth != plan.max_depth:
        depth += 1
        cuts = _find_cuts(place, bins, level, plan, rows.rules)
        at = level.ids[cuts.is_split] - (first - parts[-1]["feature"].shape[0])
        chosen = np.nonzero(cuts.is_split)[0]
        parts[-1]["feature"][at] = cuts.feature[chosen]
        parts[-1]["cut"][at] = cuts.cut[chosen]
        parts[-1]["child"][at] = first + 2 * np.arange(chosen.shape[0])
        sums = cuts.counts[chosen].reshape(-1, n_classes)
        parts.append(_leaves(np.repeat(level.trees[chosen], 2), sums, depth))
        level = _descend(place, bins, level, cuts, first, plan, rows.rules.payload_bits)
        first += 2 * chosen.shape[0]
    nodes = {name: np.concat([part[name] for part in parts]) for name in parts[0]}
    # the nodes of each tree together: what a tree looks like does not depend on those it grew with
    order = np.argsort(np.astype(nodes.pop("tree"), np.int16 if n_trees < 2**15 else np.int64), stable=True)
    rank = np.empty(order.shape[0], dtype=np.int32)
    rank[order] = np.arange(order.shape[0], dtype=np.int32)
    child = nodes["child"]
    nodes["child"] = np.where(child == LEAF, LEAF, rank[child])
    return finish_trees(**{name: part[order] for name, part in nodes.items()})


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
    rules = CutRules(plan.n_bins, class_bits, payload_bits, plan.min_samples_leaf, large)
    return PackedRows(entries, sums, rules)


def finish_trees(*, feature: Any, cut: Any, child: Any, depth: Any, sums: Any) -> Trees:
    """Make the record of trees one after the other, in level order."""
    total = np.einsum("ij->i", sums)  # five times as fast as `np.sum` of short lines
    impurity = total - np.vecdot(sums, sums) / total
    inner = np.nonzero(child != LEAF)[0]
    below = child[inner]
    gain = np.zeros(total.shape[0], dtype=np.float64)
    gain[inner] = impurity[inner] - impurity[below] - impurity[below + 1]
    roots = np.nonzero(depth == 0)[0]
    return Trees(roots, feature, cut, None, child, depth, gain, sums)


def _leaves(trees: Any, sums: Any, depth: int) -> dict[str, Any]:
    ints = np.full((4, trees.shape[0]), LEAF, dtype=np.int32)
    ints[3] = depth
    names = ("feature", "cut", "child", "depth")
    return {"tree": trees, "sums": sums, **dict(zip(names, ints, strict=True))}


def _may_split(counts: Any, plan: DrawnPlan) -> Any:
    """Whether nodes have weight enough, and rows of more than one class."""
    total = np.sum(counts, axis=-1)
    least = max(plan.min_samples_split, 2 * plan.min_samples_leaf)
    return (np.max(counts, axis=-1) < total) & (total >= least)


def _keep(place: Place, level: _Level, is_kept: Any) -> _Level:
    """Leave out nodes and their rows."""
    if bool(np.all(is_kept)):
        return level
    xp = place.xp
    block = block_index(xp, from_host(level.sizes, place), int(level.entries.shape[0]))
    keep = xp.take(from_host(is_kept, place), block, axis=0)
    entries = compress(xp, level.entries, keep, int(np.sum(level.sizes[is_kept])))
    return _Level._make((*(part[is_kept] for part in level[:-1]), entries))


def _find_cuts(place: Place, bins: Array, level: _Level, plan: DrawnPlan, rules: CutRules) -> _Cuts:
    """Find the cuts of all nodes; one sync, or two where the drawn columns of a node cannot be cut."""
    d, n_draws = int(bins.shape[1]), plan.columns.shape[0]
    drawn = plan.columns[np.astype(level.seeds % np.asarray(n_draws, dtype=np.uint64), np.int64)]
    cuts = _cut_among(place, bins, level, drawn, plan.positions, rules)
    if drawn.shape[1] == d or bool(np.all(cuts.is_split)):
        return cuts
    # drawn columns that are constant in a node allow no cut: look at the others, too
    part = _keep(place, level, ~cuts.is_split)
    every = np.broadcast_to(np.arange(d)[None, :], (part.ids.shape[0], d))
    found = _cut_among(place, bins, part, every, plan.positions, rules)
    at = np.nonzero(~cuts.is_split)[0]
    for field, some in zip(cuts, found, strict=True):
        field[at] = some
    return cuts


def _cut_among(
    place: Place, bins: Array, level: _Level, columns: Any, positions: Array | None, rules: CutRules
) -> _Cuts:
    """Find the cuts of nodes, each among columns (k, f) of its own; one sync."""
    xp, k = place.xp, level.ids.shape[0]
    draws = None
    if positions is not None:
        # by the seed of the node and the column, whichever other columns are looked at
        seeds = level.seeds[:, None] + np.astype(columns + 3, np.uint64)
        draws = Draws(from_host(np.astype(splitmix(seeds) >> 32, np.int64), place), positions)
    score, choice, cut, n_left, left = best_cuts(
        xp,
        bins,
        level.entries,
        level.sizes.tolist(),
        from_host(columns, place, xp.int64),
        from_host(level.counts, place, xp.int64),
        rules,
        draws,
    )
    found = (xp.astype(score > 0, xp.int64), choice, cut, n_left, xp.reshape(left, (-1,)))
    read = to_host(xp.concat(found))
    is_split, choice, cut, n_left = read[: 4 * k].reshape(4, k)
    left = read[4 * k :].reshape(level.counts.shape)
    sizes = np.stack((n_left, level.sizes - n_left), axis=1)
    counts = np.stack((left, level.counts - left), axis=1)
    return _Cuts(is_split > 0, columns[np.arange(k), choice], cut, sizes, counts)


def _descend(
    place: Place, bins: Array, level: _Level, cuts: _Cuts, first: int, plan: DrawnPlan, payload_bits: int
) -> _Level:
    """Lay out the rows of the children that may be split: left ones first, then right ones."""
    is_live = (cuts.is_split[:, None] & _may_split(cuts.counts, plan)).T
    rank = np.cumulative_sum(np.astype(cuts.is_split, np.int64)) - 1
    n_left, n_right = (int(np.sum(cuts.sizes[is_live[side], side])) for side in (0, 1))
    entries = divide_rows(
        place.xp,
        bins,
        level.entries,
        level.sizes.tolist(),
        from_host(np.stack((cuts.feature, cuts.cut)), place, place.xp.int64),
        from_host(is_live, place),
        (n_left, n_right),
        payload_bits,
    )
    sides = [
        (
            first + 2 * rank[live] + side,
            level.trees[live],
            cuts.sizes[live, side],
            cuts.counts[live, side],
            splitmix(level.seeds[live] + np.asarray(side + 1, dtype=np.uint64)),
        )
        for side, live in enumerate(is_live)
    ]
    return _Level._make((*(np.concat(both) for both in zip(*sides, strict=True)), entries))
