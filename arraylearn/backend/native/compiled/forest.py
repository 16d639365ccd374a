"""Whole trees of a forest, in compiled loops: see `arraylearn.backend.ops.grown.grow_whole_trees`.

A tree grows depth first: the rows of a node that has few of them stay in the cache until all below it is
done. Its nodes are numbered level by level afterwards, as if those of a level had been cut together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.cpu.jit import Host, Whole, compiled, compiled_part
from arraylearn.backend.cpu.unsigned import index
from arraylearn.backend.native.compiled.cuts import find_cut
from arraylearn.backend.native.compiled.desk import DIGITS, FIELD, Desk, Search, make_desk, scatter_bits
from arraylearn.backend.ops.grown import ForestGrowth, GrownTrees

__all__ = ["grow_whole_trees"]

_MOST_BINS = DIGITS * DIGITS
_MOST_NODES = 2**31
# Who waits while the smaller sibling of each pair is cut first, of nodes with up to 2**31 rows.
_MOST_WAITING = 34


class Nodes(NamedTuple):
    """The nodes of one tree in the order in which they were made; siblings are neighbours."""

    feature: Host  # (m,) int32
    threshold: Host  # (m,) int32
    left: Host  # (m,) int32; -1 at a leaf
    counts: Host  # (m, c) int64


class Pile(NamedTuple):
    """Nodes that wait to be cut."""

    places: Host  # (m, 4) int64: node, first entry, number of entries, depth
    seeds: Host  # (m,) uint64


class Given(NamedTuple):
    """What is the same for all trees."""

    bins: Host  # (n * d,) int16
    columns: Host  # (draws, f) int32
    every: Host  # (1, d) int32: all columns
    positions: Host  # (d * n_bins,) int64, or nothing of use
    max_depth: int  # -1 for any
    min_split: int
    search: Search


def grow_whole_trees(
    bins: Host, entries: Host, sizes: Host, seeds: Host, counts: Host, growth: ForestGrowth
) -> GrownTrees | None:
    most, n_classes = int(sizes.max()), counts.shape[1]
    if growth.rules.n_bins > _MOST_BINS or n_classes > FIELD or 2 * entries.shape[0] > _MOST_NODES:
        return None
    given = _prepare(bins, growth)
    desk = make_desk(most, growth.rules.n_bins, n_classes)
    feature, threshold, left = np.empty((3, 2 * most), dtype=np.int32)
    nodes = Nodes(feature, threshold, left, np.empty((2 * most, n_classes), dtype=np.int64))
    pile = Pile(np.empty((_MOST_WAITING, 4), dtype=np.int64), np.empty(_MOST_WAITING, dtype=np.uint64))
    spare = np.empty(most, dtype=np.int64)
    parts, roots, depth, n_before, start = [], [], 0, 0, 0
    for tree, size in enumerate(sizes.tolist()):
        own = entries[start : start + size].copy()
        start += size
        nodes.counts[0] = counts[tree]
        n_nodes, height = _grow_tree(own, spare, seeds[tree], given, desk, nodes, pile)
        parts.append(_number_by_level(nodes, n_nodes, n_before))
        roots.append(n_before)
        n_before += n_nodes
        depth = max(depth, height)
    feature, threshold, left, weights = (np.concatenate([part[i] for part in parts]) for i in range(4))
    return GrownTrees(feature, threshold, left, weights, np.asarray(roots, dtype=np.int64), depth)


def _prepare(bins: Host, growth: ForestGrowth) -> Given:
    """Bring what all trees share into one form, as each other form would be compiled anew."""
    rules, positions = growth.rules, growth.positions
    search = Search(
        bins.shape[1],
        rules.n_bins,
        rules.class_bits,
        rules.payload_bits,
        rules.least,
        rules.many,
        positions is not None,
    )
    return Given(
        np.ascontiguousarray(bins, dtype=np.int16).reshape(-1),
        np.ascontiguousarray(growth.columns, dtype=np.int32),
        np.arange(bins.shape[1], dtype=np.int32)[None, :],
        np.zeros(1, dtype=np.int64) if positions is None else np.ascontiguousarray(positions, dtype=np.int64),
        -1 if growth.max_depth is None else growth.max_depth,
        growth.min_split,
        search,
    )


@compiled_part
def _grow_tree(
    entries: Host, spare: Host, seed: Any, given: Given, desk: Desk, nodes: Nodes, pile: Pile
) -> tuple[Whole, Whole]:
    """Grow one tree from the root, whose counts are known; return its number of nodes and its depth."""
    bins, columns, every, positions, max_depth, min_split, search = given
    zero = np.int64(0)  # a bare number would be a type of its own, for which all were compiled once more
    n_nodes, height = np.int64(1), zero
    n_waiting = _lay_on(pile, zero, zero, zero, entries.shape[0], zero, seed, min_split, search.least, nodes)
    while n_waiting:
        n_waiting -= 1
        node, start = pile.places[n_waiting, 0], pile.places[n_waiting, 1]
        size, depth = pile.places[n_waiting, 2], pile.places[n_waiting, 3]
        seed = pile.seeds[n_waiting]
        if depth == max_depth:
            continue
        draw = np.int64(seed % np.uint64(columns.shape[0]))
        score, feature, cut = find_cut(
            bins, entries, start, size, columns, draw, nodes.counts, node, seed, positions, search, desk
        )
        if score == 0 and columns.shape[1] < every.shape[1]:
            # columns that are all constant in a node say nothing: look at the others, too
            score, feature, cut = find_cut(
                bins, entries, start, size, every, zero, nodes.counts, node, seed, positions, search, desk
            )
        if score == 0:
            continue
        left = n_nodes
        n_left = _divide(bins, entries, spare, start, size, feature, cut, search, nodes.counts, left)
        for c in range(nodes.counts.shape[1]):
            nodes.counts[left + 1, c] = nodes.counts[node, c] - nodes.counts[left, c]
        nodes.feature[node], nodes.threshold[node], nodes.left[node] = feature, cut, left
        n_nodes, height = n_nodes + 2, max(height, depth + 1)
        # the smaller one lies on top: when it is taken, no more than half of the rows are above what waits
        larger = 1 if 2 * n_left < size else 0
        for side in (larger, 1 - larger):
            own = scatter_bits(seed + np.uint64(side + 1))
            begin, length = (start + n_left, size - n_left) if side else (start, n_left)
            n_waiting = _lay_on(
                pile, n_waiting, left + side, begin, length, depth + 1, own, min_split, search.least, nodes
            )
    return n_nodes, height


@compiled_part
def _lay_on(
    pile: Pile,
    n: Whole,
    node: Whole,
    start: Whole,
    size: Whole,
    depth: Whole,
    seed: Any,
    min_split: Whole,
    least: Whole,
    nodes: Nodes,
) -> Whole:
    """Begin a node as a leaf, lay it on the pile of `n` if it may be split, and return the new number."""
    nodes.feature[node], nodes.threshold[node], nodes.left[node] = 0, 0, -1
    total, most = np.int64(0), np.int64(0)
    for c in range(nodes.counts.shape[1]):
        total += nodes.counts[node, c]
        most = max(most, nodes.counts[node, c])
    if most == total or total < min_split or total < 2 * least or size < 2:
        return n
    pile.places[n, 0], pile.places[n, 1] = node, start
    pile.places[n, 2], pile.places[n, 3] = size, depth
    pile.seeds[n] = seed
    return n + 1


@compiled_part
def _divide(
    bins: Host,
    entries: Host,
    spare: Host,
    start: Whole,
    size: Whole,
    feature: Whole,
    cut: Whole,
    search: Search,
    counts: Host,
    node: Whole,
) -> Whole:
    """Put the entries of the left side first, and sum up their class weights; return their number."""
    n_left = np.int64(0)
    for i in range(size):
        entry = entries[index(start + i)]
        is_left = bins[index((entry >> search.payload_bits) * search.n_columns + feature)] <= cut
        entries[index(start + n_left)] = entry
        spare[index(i - n_left)] = entry
        n_left += is_left
    for i in range(size - n_left):
        entries[index(start + n_left + i)] = spare[i]
    for c in range(counts.shape[1]):
        counts[node, c] = 0
    class_mask = (1 << search.class_bits) - 1
    weight_mask = (1 << (search.payload_bits - search.class_bits)) - 1
    for i in range(n_left):
        entry = entries[index(start + i)]
        counts[node, index(entry & class_mask)] += (entry >> search.class_bits) & weight_mask
    return n_left


@compiled
def _number_by_level(nodes: Nodes, n_nodes: int, first: int) -> tuple[Host, Host, Host, Host]:
    """Return the nodes level by level, those below a level's left nodes first; numbers begin at `first`."""
    order, rank, level, below = np.zeros((4, n_nodes), dtype=np.int32)
    n_numbered, n_level = 1, 1 if nodes.left[0] >= 0 else 0
    while n_level:
        for i in range(n_level):
            for child in range(nodes.left[level[i]], nodes.left[level[i]] + 2):
                order[n_numbered], rank[child] = child, n_numbered
                n_numbered += 1
        n_below = 0
        for side in range(2):
            for i in range(n_level):
                child = nodes.left[level[i]] + side
                if nodes.left[child] >= 0:
                    below[n_below] = child
                    n_below += 1
        level, below, n_level = below, level, n_below
    n_classes = nodes.counts.shape[1]
    feature, threshold = np.empty(n_nodes, dtype=np.int32), np.empty(n_nodes, dtype=np.int32)
    left, counts = np.empty(n_nodes, dtype=np.int64), np.empty((n_nodes, n_classes), dtype=np.int64)
    for i in range(n_nodes):
        node = order[i]
        feature[i], threshold[i] = nodes.feature[node], nodes.threshold[node]
        left[i] = first + rank[nodes.left[node]] if nodes.left[node] >= 0 else -1
        for c in range(n_classes):
            counts[i, c] = nodes.counts[node, c]
    return feature, threshold, left, counts
