"""Grow many random trees at once: level by level, the nodes of all trees side by side."""

from __future__ import annotations

from typing import Any, NamedTuple

from arraylearn._typing import Array
from arraylearn.backend import ops
from arraylearn.backend.namespace import HOST, Place, from_host, to_host
from arraylearn.backend.random import as_generator

__all__ = ["Bags", "ForestLimits", "GrownForest", "grow_trees"]

host = HOST.xp

# Draws of columns to choose from; each node takes one by the number that it has from its tree's seed.
_DRAWS = 8_192
_DRAW_SEED = 20_240_901


class ForestLimits(NamedTuple):
    """What stops trees, and what their nodes look at."""

    max_depth: int | None
    min_samples_split: int
    min_samples_leaf: int
    n_features: int


class Bags(NamedTuple):
    """The rows of several trees, on the host."""

    rows: Any  # (m,) int64, tree after tree, ascending
    weights: Any  # (m,) int64: how often each was drawn
    sizes: Any  # (t,) int64
    seeds: Any  # (t,) uint64


class GrownForest(NamedTuple):
    """Several trees on the host; the first nodes are the roots, siblings are neighbours."""

    feature: Any  # (m,) int64
    threshold: Any  # (m,) int64: larger bins go right
    left: Any  # (m,) int64; -1 at a leaf
    counts: Any  # (m, c) int64: weight of the training rows by class
    n_trees: int
    depth: int


class _Level(NamedTuple):
    """Nodes that may be split, and their rows side by side."""

    ids: Any  # (k,) host
    sizes: Any  # (k,) host
    counts: Any  # (k, c) host
    seeds: Any  # (k,) host uint64
    rows: Array  # (m,) int64
    payload: Array  # (m,) int64


def grow_trees(
    place: Place, bins: Array, n_bins: int, codes: Any, n_classes: int, bags: Bags, limits: ForestLimits
) -> GrownForest:
    """Grow one tree per bag on `bins` (d, n); `codes` (n,) are the classes, on the host."""
    class_bits = max(1, (n_classes - 1).bit_length())
    tree_at = host.repeat(host.arange(bags.sizes.shape[0]), bags.sizes)
    counts = _count(tree_at * n_classes + codes[bags.rows], bags.sizes.shape[0], n_classes, bags.weights)
    payload = (bags.weights << class_bits) + codes[bags.rows]
    draws = _draw_columns(int(bins.shape[0]), limits.n_features)
    parts = [_leaves(counts)]
    level = _Level(
        host.arange(bags.sizes.shape[0]),
        bags.sizes,
        counts,
        bags.seeds,
        from_host(bags.rows, place),
        from_host(payload, place),
    )
    level = _keep(place, level, _may_split(counts, bags.sizes, limits))
    depth = 0
    while level.ids.shape[0] and depth != limits.max_depth:
        is_split, feature, cut = _find_cuts(place, bins, n_bins, level, draws, class_bits, limits)
        right, child_counts, child_sizes = _route(place, bins, level, feature, cut, class_bits, n_classes)
        first = sum(part["feature"].shape[0] for part in parts)
        at = level.ids[is_split] - (first - parts[-1]["feature"].shape[0])
        chosen = host.nonzero(is_split)[0]
        parts[-1]["feature"][at] = feature[chosen]
        parts[-1]["threshold"][at] = cut[chosen]
        parts[-1]["left"][at] = first + 2 * host.arange(chosen.shape[0])
        parts.append(_leaves(child_counts[chosen].reshape(-1, n_classes)))
        if chosen.shape[0]:
            depth += 1
        level = _descend(place, level, is_split, right, child_counts, child_sizes, first, limits)
    joined = {name: host.concat([part[name] for part in parts]) for name in parts[0]}
    return GrownForest(**joined, n_trees=bags.sizes.shape[0], depth=depth)


def _leaves(counts: Any) -> dict[str, Any]:
    k = counts.shape[0]
    zeros = host.zeros(k, dtype=host.int64)
    return {"feature": zeros, "threshold": zeros.copy(), "left": zeros - 1, "counts": counts}


def _count(keys: Any, k: int, n_classes: int, weights: Any) -> Any:
    return ops.histogram(host, keys, k * n_classes, weights).reshape(k, n_classes)


def _draw_columns(d: int, n_features: int) -> Any:
    """Draw sets of columns (draws, n_features); all columns in one set where there is nothing to draw."""
    if n_features >= d:
        return host.arange(d)[None, :]
    keys = as_generator(_DRAW_SEED).random((_DRAWS, d))
    return host.argsort(keys, axis=1)[:, :n_features]


def _mix(numbers: Any) -> Any:
    """Scatter the bits of uint64 numbers (splitmix64)."""
    numbers = numbers + host.asarray(0x9E3779B97F4A7C15, dtype=host.uint64)
    numbers = (numbers ^ (numbers >> 30)) * host.asarray(0xBF58476D1CE4E5B9, dtype=host.uint64)
    numbers = (numbers ^ (numbers >> 27)) * host.asarray(0x94D049BB133111EB, dtype=host.uint64)
    return numbers ^ (numbers >> 31)


def _may_split(counts: Any, sizes: Any, limits: ForestLimits) -> Any:
    total = host.sum(counts, axis=-1)
    is_impure = host.max(counts, axis=-1) < total
    return (
        is_impure & (total >= limits.min_samples_split) & (total >= 2 * limits.min_samples_leaf) & (sizes > 1)
    )


def _keep(place: Place, level: _Level, is_kept: Any) -> _Level:
    """Leave out nodes and their rows."""
    if bool(host.all(is_kept)):
        return level
    xp = place.xp
    total = int(level.rows.shape[0])
    block = ops.block_index(xp, from_host(level.sizes, place), total)
    keep = xp.take(from_host(is_kept, place), block, axis=0)
    size = int(host.sum(level.sizes[is_kept]))
    rows, payload = (ops.compress(xp, part, keep, size) for part in (level.rows, level.payload))
    ids, sizes, counts, seeds = (part[is_kept] for part in level[:4])
    return _Level(ids, sizes, counts, seeds, rows, payload)


def _find_cuts(
    place: Place, bins: Array, n_bins: int, level: _Level, draws: Any, class_bits: int, limits: ForestLimits
) -> tuple[Any, Any, Any]:
    """Return whether each node is split, its column and its cut, on the host; two waits at most."""
    d = int(bins.shape[0])
    drawn = draws[host.astype(level.seeds % host.asarray(draws.shape[0], dtype=host.uint64), host.int64)]
    is_split, feature, cut = _cuts_of(place, bins, n_bins, level, drawn, class_bits, limits)
    if drawn.shape[1] < d and not bool(host.all(is_split)):
        # columns that are all constant in a node say nothing: look at the others, too
        part = _keep(place, level, ~is_split)
        every = host.broadcast_to(host.arange(d)[None, :], (part.ids.shape[0], d))
        found = _cuts_of(place, bins, n_bins, part, every, class_bits, limits)
        at = host.nonzero(~is_split)[0]
        is_split[at], feature[at], cut[at] = found
    return is_split, feature, cut


def _cuts_of(
    place: Place, bins: Array, n_bins: int, level: _Level, columns: Any, class_bits: int, limits: ForestLimits
) -> tuple[Any, Any, Any]:
    xp = place.xp
    score, slot, cut = ops.best_cuts(
        xp,
        bins,
        level.rows,
        level.payload,
        level.sizes.tolist(),
        from_host(columns, place, xp.int64),
        from_host(level.counts, place, xp.int64),
        n_bins=n_bins,
        class_bits=class_bits,
        least=limits.min_samples_leaf,
    )
    read = to_host(xp.concat((xp.astype(score > 0, xp.int64), slot, cut)))
    is_split, slot, cut = read.reshape(3, -1)
    return is_split > 0, columns[host.arange(slot.shape[0]), slot], cut.copy()


def _route(
    place: Place, bins: Array, level: _Level, feature: Any, cut: Any, class_bits: int, n_classes: int
) -> tuple[Array, Any, Any]:
    """Return whether each row goes right, and class weights (k, 2, c) and sizes (k, 2) of the children."""
    xp = place.xp
    k, m = level.ids.shape[0], int(level.rows.shape[0])
    block = ops.block_index(xp, from_host(level.sizes, place), m)
    column = xp.take(from_host(feature * int(bins.shape[1]), place), block, axis=0)
    bin_at = xp.take(xp.reshape(bins, (-1,)), column + level.rows, axis=0)
    limit = xp.take(from_host(cut, place, bins.dtype), block, axis=0)
    right = bin_at > limit
    child = 2 * block + xp.astype(right, xp.int64)
    cell = child * n_classes + (level.payload & ((1 << class_bits) - 1))
    counts = ops.histogram(xp, cell, 2 * k * n_classes, level.payload >> class_bits)
    read = to_host(xp.concat((counts, ops.histogram(xp, child, 2 * k))))
    cells = 2 * k * n_classes
    return right, read[:cells].reshape(k, 2, n_classes), read[cells:].reshape(k, 2)


def _descend(
    place: Place,
    level: _Level,
    is_split: Any,
    right: Array,
    counts: Any,
    sizes: Any,
    first: int,
    limits: ForestLimits,
) -> _Level:
    """Lay out the rows of the children that may be split: left ones first, then right ones."""
    xp = place.xp
    m = int(level.rows.shape[0])
    rank = host.cumulative_sum(host.astype(is_split, host.int64)) - 1
    is_live = is_split[:, None] & _may_split(counts, sizes, limits)
    block = ops.block_index(xp, from_host(level.sizes, place), m)
    parts = []
    for side in (0, 1):
        live = is_live[:, side]
        takes = right if side else ~right
        keep = takes & xp.take(from_host(live, place), block, axis=0)
        size = int(host.sum(sizes[live, side]))
        rows, payload = (ops.compress(xp, part, keep, size) for part in (level.rows, level.payload))
        seeds = _mix(level.seeds[live] + host.asarray(side + 1, dtype=host.uint64))
        ids = first + 2 * rank[live] + side
        parts.append(_Level(ids, sizes[live, side], counts[live, side], seeds, rows, payload))
    left, other = parts
    ids, sizes_next, counts_next, seeds = (
        host.concat((a, b)) for a, b in zip(left[:4], other[:4], strict=True)
    )
    rows, payload = (xp.concat((a, b)) for a, b in zip(left[4:], other[4:], strict=True))
    return _Level(ids, sizes_next, counts_next, seeds, rows, payload)
