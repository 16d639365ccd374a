"""A large boosted tree by several threads: they share the rows of the first levels, then the subtrees."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.native.compiled.boosted_levels import (
    FEATURE,
    IS_MISSING_RIGHT,
    LEFT,
    PARENT,
    SIZE,
    START,
    THRESHOLD,
    Search,
    Table,
    complete_level,
    grow_levels,
    make_room,
    pair_up,
    split_level,
)
from arraylearn.backend.native.compiled.boosting import add_up, split_blocks, sum_blocks
from arraylearn.backend.native.compiled.jit import compiled
from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["grow_shared"]

# Subtrees for each thread: their sizes differ.
_SUBTREES = 4


def grow_shared(table: Table, search: Search, max_depth: int, n_bins: int) -> tuple[Host, Host]:
    """Grow a tree in all threads; return its nodes as one thread would number them."""
    wanted = _SUBTREES * get_num_threads()
    whole, real = make_room(table.order.shape[0], min(max_depth, wanted.bit_length()))
    whole[START, 0], whole[SIZE, 0] = 0, table.order.shape[0]
    running = _sum(table, whole, np.zeros(1, dtype=np.int64), n_bins)
    add_up(running[0])
    nodes, lines, n, depth = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), 1, 0
    # as many levels as could make so many nodes; a tree that has fewer then is left to those
    while 0 < nodes.shape[0] < wanted and depth < min(max_depth, wanted.bit_length() - 1):
        first = n
        n, chosen = split_level(nodes, lines, running, search, n, whole, real)
        depth += 1
        if n == first or depth == max_depth:
            return whole[:, :n], real[:, :n]
        _sort(table, whole, np.arange(first, n, 2), n_bins)
        small, large, of_parent = pair_up(chosen, first, n, search.limits, whole, real)
        parents, running = running, np.empty((2 * small.shape[0], *running.shape[1:]), dtype=np.int64)
        running[: small.shape[0]] = _sum(table, whole, small, n_bins)
        nodes, lines = complete_level(small, large, of_parent, parents, running, search.limits, whole)

    def grow(i: int) -> tuple[Host, Host]:
        size = whole[SIZE, nodes[i]]
        part, part_real = make_room(size, max_depth - depth)
        part[START, 0], part[SIZE, 0] = whole[START, nodes[i]], size
        line = running[lines[i] : lines[i] + 1]
        m = grow_levels(table, search, max_depth - depth, line, part, part_real)
        return part[:, :m], part_real[:, :m]

    # the largest first: who is done takes the next
    largest = np.argsort(-whole[SIZE, nodes], kind="stable")
    parts = parallel_map(grow, largest.tolist())
    return _join(whole[:, :n], real[:, :n], nodes[largest].tolist(), parts)


def _sum(table: Table, whole: Host, nodes: Host, n_bins: int) -> Host:
    starts, sizes = whole[START, nodes].tolist(), whole[SIZE, nodes].tolist()
    return sum_blocks(table.cells, table.packed, table.order, starts, sizes, n_bins)


def _sort(table: Table, whole: Host, left: Host, n_bins: int) -> None:
    """Sort the rows of nodes that were split, and write down where those of their children are."""
    parents = whole[PARENT, left]
    start, size, feature, threshold = (whole[line, parents] for line in (START, SIZE, FEATURE, THRESHOLD))
    goes_right = np.arange(n_bins) > threshold[:, None]
    goes_right[:, -1] = whole[IS_MISSING_RIGHT, parents] > 0
    _, n_left = split_blocks(
        table.bins, table.order, start.tolist(), size.tolist(), feature.tolist(), [-1] * len(left), goes_right
    )
    whole[START, left], whole[START, left + 1] = start, start + n_left
    whole[SIZE, left], whole[SIZE, left + 1] = n_left, size - n_left


def _join(whole: Host, real: Host, roots: list[int], parts: list[tuple[Host, Host]]) -> tuple[Host, Host]:
    """Put subtrees in the places of their roots."""
    n = whole.shape[1]
    lines, reals = [whole], [real]
    for root, (part, part_real) in zip(roots, parts, strict=True):
        inner = part.copy()
        # a subtree's node i > 0 comes to n + i - 1, its first one is there already
        inner[LEFT] = np.where(part[LEFT] > 0, part[LEFT] + (n - 1), -1)
        inner[PARENT] = np.where(part[PARENT] > 0, part[PARENT] + (n - 1), root)
        whole[:PARENT, root], real[0, root] = inner[:PARENT, 0], part_real[0, 0]
        lines.append(inner[:, 1:])
        reals.append(part_real[:, 1:])
        n += part.shape[1] - 1
    whole, real = np.concatenate(lines, axis=1), np.concatenate(reals, axis=1)
    place, order = _number_levels(whole[LEFT], whole[SIZE])
    whole, real = whole[:, order], real[:, order]
    for line in (LEFT, PARENT):
        whole[line] = np.where(whole[line] < 0, -1, place[whole[line]])
    return whole, real


@compiled
def _number_levels(left: Host, size: Host) -> tuple[Host, Host]:
    """Return the place of each node, and the nodes by place, when levels are numbered one after the other.

    In a level come the smaller siblings before the larger ones.
    """
    m = left.shape[0]
    place, order = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    level, following = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    n, width = 1, 1
    while width:
        first = n
        for i in range(width):
            child = left[level[i]]
            if child >= 0:
                order[n], order[n + 1] = child, child + 1
                place[child], place[child + 1] = n, n + 1
                n += 2
        pairs = (n - first) // 2
        for i in range(pairs):
            child = order[first + 2 * i]
            small = child + (1 if size[child + 1] < size[child] else 0)
            following[i], following[pairs + i] = small, 2 * child + 1 - small
        level, following = following, level
        width = 2 * pairs
    return place, order
