"""Grow many random trees at once: level by level, the nodes of all trees side by side."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.arrays.blocks import block_index
from arraylearn.backend.arrays.order import compress
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST, Place, from_host, to_host
from arraylearn.backend.ops.cuts import CutRules, Draws, best_cuts, divide_rows
from arraylearn.backend.ops.grown import ForestGrowth, GrownTrees, grow_whole_trees
from arraylearn.backend.random import as_generator, splitmix

__all__ = ["Bags", "ForestLimits", "draw_columns", "grow_trees"]

# Draws of columns to choose from; each node takes one by the number that it has from its tree's seed.
_DRAWS = 8_192
_LEAST_DRAWS = 256
_DRAWN_NUMBERS = 1 << 21
_DRAW_SEED = 20_240_901
# From so many rows per class on, a node looks at groups of bins.
_MANY_PER_CLASS = 512


class ForestLimits(NamedTuple):
    """What stops trees, and what their nodes look at."""

    max_depth: int | None
    min_samples_split: int
    min_samples_leaf: int
    columns: Any  # (draws, f) from `draw_columns`: each node looks at those of one draw
    is_whole: bool  # whether trees grow by `grow_whole_trees`, or level by level
    positions: Array | None = None  # where bins lie, if each column offers one cut, drawn at random


class Bags(NamedTuple):
    """The rows of several trees, on the host."""

    rows: Any  # (m,) int64, tree after tree, ascending
    weights: Any  # (m,) int64: how often each was drawn
    sizes: Any  # (t,) int64
    seeds: Any  # (t,) uint64


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


def grow_trees(
    place: Place, bins: Array, n_bins: int, codes: Any, n_classes: int, bags: Bags, limits: ForestLimits
) -> GrownTrees:
    """Grow one tree per bag on `bins` (n, d); `codes` (n,) are the classes, on the host."""
    n_trees = bags.sizes.shape[0]
    code = codes[bags.rows]
    cell = np.repeat(np.arange(0, n_trees * n_classes, n_classes), bags.sizes)
    cell += code
    counts = histogram(HOST.xp, cell, n_trees * n_classes, bags.weights).reshape(n_trees, n_classes)
    del cell
    class_bits = max(1, (n_classes - 1).bit_length())
    payload_bits = class_bits + int(bags.weights.max()).bit_length()
    entries = bags.rows << payload_bits
    entries += bags.weights << class_bits
    entries += code
    rules = CutRules(n_bins, class_bits, payload_bits, limits.min_samples_leaf, _MANY_PER_CLASS * n_classes)
    if limits.is_whole:
        growth = ForestGrowth(
            rules, limits.columns, limits.max_depth, limits.min_samples_split, limits.positions
        )
        grown = grow_whole_trees(place.xp, bins, entries, bags.sizes, bags.seeds, counts, growth)
        if grown is not None:
            return grown
    trees = np.arange(n_trees)
    parts = [_leaves(trees, counts)]
    level = _Level(trees, trees, bags.sizes, counts, bags.seeds, from_host(entries, place))
    level = _keep(place, level, _may_split(counts, bags.sizes, limits))
    depth, first = 0, n_trees
    while level.ids.shape[0] and depth != limits.max_depth:
        cuts = _find_cuts(place, bins, level, limits.columns, rules, limits.positions)
        at = level.ids[cuts.is_split] - (first - parts[-1]["feature"].shape[0])
        chosen = np.nonzero(cuts.is_split)[0]
        parts[-1]["feature"][at] = cuts.feature[chosen]
        parts[-1]["threshold"][at] = cuts.cut[chosen]
        parts[-1]["left"][at] = first + 2 * np.arange(chosen.shape[0])
        parts.append(_leaves(np.repeat(level.trees[chosen], 2), cuts.counts[chosen].reshape(-1, n_classes)))
        if chosen.shape[0]:
            depth += 1
        level = _descend(place, bins, level, cuts, first, payload_bits, limits)
        first += 2 * chosen.shape[0]
    joined = {name: np.concat([part[name] for part in parts]) for name in parts[0]}
    return _tree_by_tree(joined, n_trees, depth)


def _leaves(trees: Any, counts: Any) -> dict[str, Any]:
    zeros = np.zeros(trees.shape[0], dtype=np.int64)
    return {"tree": trees, "feature": zeros, "threshold": zeros.copy(), "left": zeros - 1, "counts": counts}


def _tree_by_tree(nodes: dict[str, Any], n_trees: int, depth: int) -> GrownTrees:
    """Put the nodes of each tree together: what a tree looks like does not depend on those it grew with."""
    tree = np.astype(nodes["tree"], np.int16 if n_trees < 2**15 else np.int64)
    order = np.argsort(tree, stable=True)
    rank = np.empty(order.shape[0], dtype=np.int64)
    rank[order] = np.arange(order.shape[0])
    feature, threshold, left, counts = (
        nodes[name][order] for name in ("feature", "threshold", "left", "counts")
    )
    left = np.where(left < 0, -1, rank[left])
    return GrownTrees(feature, threshold, left, counts, rank[:n_trees], depth)


def draw_columns(d: int, n_features: int) -> Any:
    """Draw columns (draws, n_features), in random order: of cuts that are equally good the first one wins."""
    n_draws = max(_LEAST_DRAWS, min(_DRAWS, _DRAWN_NUMBERS // d))
    keys = as_generator(_DRAW_SEED).random((n_draws, d))
    order = np.argsort(keys, axis=1, stable=True)
    return np.asarray(order[:, :n_features], copy=True)  # and forget the others


def _may_split(counts: Any, sizes: Any, limits: ForestLimits) -> Any:
    total = np.sum(counts, axis=-1)
    is_impure = np.max(counts, axis=-1) < total
    return (
        is_impure & (total >= limits.min_samples_split) & (total >= 2 * limits.min_samples_leaf) & (sizes > 1)
    )


def _keep(place: Place, level: _Level, is_kept: Any) -> _Level:
    """Leave out nodes and their rows."""
    if bool(np.all(is_kept)):
        return level
    xp = place.xp
    block = block_index(xp, from_host(level.sizes, place), int(level.entries.shape[0]))
    keep = xp.take(from_host(is_kept, place), block, axis=0)
    entries = compress(xp, level.entries, keep, int(np.sum(level.sizes[is_kept])))
    return _Level._make((*(part[is_kept] for part in level[:-1]), entries))


def _find_cuts(
    place: Place, bins: Array, level: _Level, draws: Any, rules: CutRules, positions: Array | None
) -> _Cuts:
    """Find the cuts of all nodes; the host waits once, or twice where drawn columns are of no use."""
    d = int(bins.shape[1])
    drawn = draws[np.astype(level.seeds % np.asarray(draws.shape[0], dtype=np.uint64), np.int64)]
    cuts = _cut_among(place, bins, level, drawn, rules, positions)
    if drawn.shape[1] == d or bool(np.all(cuts.is_split)):
        return cuts
    # columns that are all constant in a node say nothing: look at the others, too
    part = _keep(place, level, ~cuts.is_split)
    every = np.broadcast_to(np.arange(d)[None, :], (part.ids.shape[0], d))
    found = _cut_among(place, bins, part, every, rules, positions)
    at = np.nonzero(~cuts.is_split)[0]
    for whole, some in zip(cuts, found, strict=True):
        whole[at] = some
    return cuts


def _cut_among(
    place: Place, bins: Array, level: _Level, columns: Any, rules: CutRules, positions: Array | None
) -> _Cuts:
    """Find the cuts of nodes, each among columns (k, f) of its own; the host waits once."""
    xp, k = place.xp, level.ids.shape[0]
    draws = None
    if positions is not None:
        # by the seed of the node and the column, whichever other columns are looked at
        seeds = level.seeds[:, None] + np.astype(columns + 3, np.uint64)
        draws = Draws(from_host(np.astype(splitmix(seeds) >> 32, np.int64), place), positions)
    score, slot, cut, n_left, left = best_cuts(
        xp,
        bins,
        level.entries,
        level.sizes.tolist(),
        from_host(columns, place, xp.int64),
        from_host(level.counts, place, xp.int64),
        rules,
        draws,
    )
    found = (xp.astype(score > 0, xp.int64), slot, cut, n_left, xp.reshape(left, (-1,)))
    read = to_host(xp.concat(found))
    is_split, slot, cut, n_left = read[: 4 * k].reshape(4, k)
    left = read[4 * k :].reshape(level.counts.shape)
    sizes = np.stack((n_left, level.sizes - n_left), axis=1)
    counts = np.stack((left, level.counts - left), axis=1)
    return _Cuts(is_split > 0, columns[np.arange(k), slot], cut, sizes, counts)


def _descend(
    place: Place, bins: Array, level: _Level, cuts: _Cuts, first: int, payload_bits: int, limits: ForestLimits
) -> _Level:
    """Lay out the rows of the children that may be split: left ones first, then right ones."""
    xp = place.xp
    is_live = (cuts.is_split[:, None] & _may_split(cuts.counts, cuts.sizes, limits)).T
    rank = np.cumulative_sum(np.astype(cuts.is_split, np.int64)) - 1
    n_left, n_right = (int(np.sum(cuts.sizes[is_live[side], side])) for side in (0, 1))
    entries = divide_rows(
        xp,
        bins,
        level.entries,
        level.sizes.tolist(),
        from_host(cuts.feature, place, xp.int64),
        from_host(cuts.cut, place, xp.int64),
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
