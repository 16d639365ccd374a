"""Whole trees of a forest, in compiled loops: see `arraylearn.backend.ops.grow_whole_trees`.

A tree grows depth first: the rows of a node that has few of them stay in the cache until all below it is done.
Its nodes are numbered level by level afterwards, as if all nodes of a level had been cut together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.native.compiled.cuts import (
    MOST_BINS,
    Desk,
    Search,
    find_cut,
    make_desk,
    scatter_bits,
)
from arraylearn.backend.native.compiled.jit import compiled, compiled_part
from arraylearn.backend.ops.grown import GrownTrees, Growth

Host = np.ndarray[Any, Any]

__all__ = ["grow_whole_trees"]

_MOST_NODES = 2**31
_at = np.uint64  # see `cuts`


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


def grow_whole_trees(
    bins: Host, entries: Host, sizes: Host, seeds: Host, counts: Host, growth: Growth
) -> GrownTrees | None:
    rules = growth.rules
    if rules.n_bins > MOST_BINS or 2 * entries.shape[0] > _MOST_NODES:
        return None
    most, n_classes = int(sizes.max()), counts.shape[1]
    search = Search(
        bins.shape[1],
        rules.n_bins,
        rules.class_bits,
        rules.payload_bits,
        rules.least,
        rules.many,
        growth.positions is not None,
    )
    desk = make_desk(most, rules.n_bins, n_classes)
    nodes = Nodes(
        *(np.empty(2 * most, dtype=np.int32) for _ in range(3)), np.empty((2 * most, n_classes), dtype=np.int64)
    )
    pile = Pile(np.empty((most + 1, 4), dtype=np.int64), np.empty(most + 1, dtype=np.uint64))
    spare = np.empty(most, dtype=np.int64)
    positions = np.zeros(1, dtype=np.int64) if growth.positions is None else growth.positions
    columns = np.ascontiguousarray(growth.columns, dtype=np.int32)
    every = np.arange(bins.shape[1], dtype=np.int32)[None, :]
    flat = np.ascontiguousarray(bins, dtype=np.int16).reshape(-1)
    max_depth = -1 if growth.max_depth is None else growth.max_depth
    parts, roots, depth, n_before, start = [], [], 0, 0, 0
    for tree, size in enumerate(sizes.tolist()):
        own = entries[start : start + size].copy()
        start += size
        nodes.counts[0] = counts[tree]
        n_nodes, height = _grow_tree(
            flat, own, spare, seeds[tree], columns, every, positions, max_depth, growth.min_split, search, desk, nodes, pile
        )
        parts.append(_number_by_level(nodes, n_nodes, n_before, pile.places))
        roots.append(n_before)
        n_before += n_nodes
        depth = max(depth, height)
    joined = (np.concatenate([part[i] for part in parts]) for i in range(4))
    return GrownTrees(*joined, np.asarray(roots), depth)


@compiled_part
def _grow_tree(
    bins: Host,
    entries: Host,
    spare: Host,
    seed: Any,
    draws: Host,
    every: Host,
    positions: Host,
    max_depth: int,
    min_split: int,
    search: Search,
    desk: Desk,
    nodes: Nodes,
    pile: Pile,
) -> tuple[int, int]:
    """Grow one tree from the root, whose counts are known; return its number of nodes and its depth."""
    nodes.left[0], nodes.feature[0], nodes.threshold[0] = -1, 0, 0
    n_nodes, height = 1, 0
    n_waiting = _lay_on(pile, 0, 0, 0, entries.shape[0], 0, seed, min_split, search.least, nodes)
    while n_waiting:
        n_waiting -= 1
        node, start = pile.places[n_waiting, 0], pile.places[n_waiting, 1]
        size, depth = pile.places[n_waiting, 2], pile.places[n_waiting, 3]
        seed = pile.seeds[n_waiting]
        if depth == max_depth:
            continue
        draw = np.int64(seed % np.uint64(draws.shape[0]))
        score, feature, cut = find_cut(
            bins, entries, start, size, draws, draw, nodes.counts, node, seed, positions, search, desk
        )
        if score == 0 and draws.shape[1] < every.shape[1]:
            # columns that are all constant in a node say nothing: look at the others, too
            score, feature, cut = find_cut(
                bins, entries, start, size, every, 0, nodes.counts, node, seed, positions, search, desk
            )
        if score == 0:
            continue
        left = n_nodes
        n_left = _divide(bins, entries, spare, start, size, feature, cut, search, nodes.counts, left)
        for c in range(nodes.counts.shape[1]):
            nodes.counts[left + 1, c] = nodes.counts[node, c] - nodes.counts[left, c]
        nodes.feature[node], nodes.threshold[node], nodes.left[node] = feature, cut, left
        for side in range(2):
            child = left + side
            nodes.left[child], nodes.feature[child], nodes.threshold[child] = -1, 0, 0
        n_nodes += 2
        depth += 1
        height = max(height, depth)
        for side in range(2):
            own = scatter_bits(seed + np.uint64(side + 1))
            begin, length = (start + n_left, size - n_left) if side else (start, n_left)
            n_waiting = _lay_on(
                pile, n_waiting, left + side, begin, length, depth, own, min_split, search.least, nodes
            )
    return n_nodes, height


@compiled_part
def _lay_on(
    pile: Pile,
    n: int,
    node: int,
    start: int,
    size: int,
    depth: int,
    seed: Any,
    min_split: int,
    least: int,
    nodes: Nodes,
) -> int:
    """Lay a node that may be split on the pile of `n`, and return how many there are then."""
    total, most = np.int64(0), np.int64(0)
    for c in range(nodes.counts.shape[1]):
        total += nodes.counts[node, c]
        most = max(most, nodes.counts[node, c])
    if most == total or total < min_split or total < 2 * least or size < 2:
        return n
    places = pile.places
    places[n, 0], places[n, 1], places[n, 2], places[n, 3] = node, start, size, depth
    pile.seeds[n] = seed
    return n + 1


@compiled_part
def _divide(
    bins: Host,
    entries: Host,
    spare: Host,
    start: int,
    size: int,
    feature: int,
    cut: int,
    search: Search,
    counts: Host,
    node: int,
) -> int:
    """Put the entries of the left side first, and sum up their class weights; return their number."""
    class_mask = (1 << search.class_bits) - 1
    weight_mask = (1 << (search.payload_bits - search.class_bits)) - 1
    n_left = 0
    for i in range(size):
        entry = entries[_at(start + i)]
        is_left = bins[_at((entry >> search.payload_bits) * search.n_columns + feature)] <= cut
        entries[_at(start + n_left)] = entry
        spare[_at(i - n_left)] = entry
        n_left += is_left
    for i in range(size - n_left):
        entries[_at(start + n_left + i)] = spare[i]
    for c in range(counts.shape[1]):
        counts[node, c] = 0
    for i in range(n_left):
        entry = entries[_at(start + i)]
        counts[node, _at(entry & class_mask)] += (entry >> search.class_bits) & weight_mask
    return n_left


@compiled
def _number_by_level(
    nodes: Nodes, n_nodes: int, first: int, room: Host
) -> tuple[Host, Host, Host, Host]:
    """Return the nodes level by level: below each level the children of its left nodes, then of its right ones."""
    rank, order = np.zeros(n_nodes, dtype=np.int32), np.empty(n_nodes, dtype=np.int32)
    level, below = np.empty(n_nodes, dtype=np.int32), np.empty(n_nodes, dtype=np.int32)
    order[0], n_numbered, n_level = 0, 1, 0
    if nodes.left[0] >= 0:
        level[0], n_level = 0, 1
    while n_level:
        for i in range(n_level):
            left = nodes.left[level[i]]
            for side in range(2):
                order[n_numbered], rank[left + side] = left + side, n_numbered
                n_numbered += 1
        n_below = 0
        for side in range(2):
            for i in range(n_level):
                child = nodes.left[level[i]] + side
                if nodes.left[child] >= 0:
                    below[n_below] = child
                    n_below += 1
        level, below, n_level = below, level, n_below
    feature, threshold = np.empty(n_nodes, dtype=np.int32), np.empty(n_nodes, dtype=np.int32)
    lefts, counts = np.empty(n_nodes, dtype=np.int64), np.empty((n_nodes, nodes.counts.shape[1]), dtype=np.int64)
    for i in range(n_nodes):
        node = order[i]
        feature[i], threshold[i] = nodes.feature[node], nodes.threshold[node]
        lefts[i] = -1 if nodes.left[node] < 0 else first + rank[nodes.left[node]]
        for c in range(counts.shape[1]):
            counts[i, c] = nodes.counts[node, c]
    return feature, threshold, lefts, counts
