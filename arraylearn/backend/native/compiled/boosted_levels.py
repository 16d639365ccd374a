"""Boosted trees in compiled loops: level by level, with the numbers that the host would compute.

Blocks of rows, and the places of their working memory, do not overlap: subtrees may grow side by side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.native.compiled.boosting import add_all, add_block, add_up
from arraylearn.backend.native.compiled.jit import compiled, compiled_part
from arraylearn.backend.native.compiled.splits import best_cell

Host = np.ndarray[Any, Any]

__all__ = [
    "FEATURE",
    "IS_MISSING_RIGHT",
    "LEFT",
    "PARENT",
    "SIZE",
    "START",
    "THRESHOLD",
    "Search",
    "Table",
    "complete_level",
    "grow_alone",
    "grow_levels",
    "make_room",
    "pair_up",
    "split_level",
]

# The lines of the nodes: see `BoostedNodes`.
FEATURE, THRESHOLD, IS_MISSING_RIGHT, LEFT, PARENT, START, SIZE = range(7)
_GAIN, _HESSIAN, _VALUE = range(3)


class Table(NamedTuple):
    """The rows that a tree is grown on."""

    bins: Host  # (d, n) uint8
    cells: Host  # (n, d) uint8
    packed: Host  # (n,) int64 gradients
    order: Host  # (m,) int64 row ids, sorted by node
    gone: Host  # (m,) int64 working memory


class Search(NamedTuple):
    """What splits are looked for."""

    regular: Host  # (3,) float32, see `best_splits`
    unit: float  # of gradients and hessians
    is_used: Host  # (d,) bool
    use_missing: Host  # (d,) bool: those of them with missing values; (0,) if there are none
    limits: Host  # (3,) float64: l2, least hessian and least rows of a leaf


def make_room(n_rows: int, depth: int) -> tuple[Host, Host]:
    """Return arrays for the nodes of a tree of so many rows and levels."""
    room = max(1, min(2 * n_rows, 2 << min(depth, 40)))
    return np.full((7, room), -1, dtype=np.int64), np.zeros((3, room))


def grow_alone(table: Table, search: Search, max_depth: int, n_bins: int) -> tuple[Host, Host]:
    """Grow a tree in one thread; return its nodes."""
    whole, real = make_room(table.order.shape[0], max_depth)
    whole[START, 0], whole[SIZE, 0] = 0, table.order.shape[0]
    n = grow_levels(table, search, max_depth, _sum_root(table, n_bins), whole, real)
    return whole[:, :n], real[:, :n]


@compiled
def _sum_root(table: Table, n_bins: int) -> Host:
    """Return the running sums (1, d, n_bins) of all rows of a tree."""
    d, m = table.bins.shape[0], table.order.shape[0]
    running = np.zeros((1, d, n_bins), dtype=np.int64)
    cells = table.cells.reshape(-1)
    if m == table.bins.shape[1]:
        add_all(cells, table.packed, 0, m, running.reshape(-1), d, n_bins)
    else:
        add_block(cells, table.packed, table.order, 0, m, running.reshape(-1), d, n_bins)
    add_up(running[0])
    return running


@compiled
def grow_levels(table: Table, search: Search, max_depth: int, running: Host, whole: Host, real: Host) -> int:
    """Grow a tree from its first node, whose running sums are known; return the number of its nodes."""
    d, n_bins = running.shape[1], running.shape[2]
    cells = table.cells.reshape(-1)
    nodes, lines = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    n, depth = 1, 0
    while nodes.shape[0] and depth < max_depth:
        first = n
        n, chosen = split_level(nodes, lines, running, search, n, whole, real)
        depth += 1
        if n == first or depth == max_depth:
            break
        for left in range(first, n, 2):
            _sort_rows(table.bins, table.order, table.gone, whole, left, n_bins)
        small, large, of_parent = pair_up(chosen, first, n, search.limits, whole, real)
        parents, running = running, np.zeros((2 * small.shape[0], d, n_bins), dtype=np.int64)
        for i in range(small.shape[0]):
            start = whole[START, small[i]]
            stop = start + whole[SIZE, small[i]]
            add_block(cells, table.packed, table.order, start, stop, running[i].reshape(-1), d, n_bins)
        nodes, lines = complete_level(small, large, of_parent, parents, running, search.limits, whole)
    return n


@compiled
def split_level(
    nodes: Host, lines: Host, running: Host, search: Search, n: int, whole: Host, real: Host
) -> tuple[int, Host]:
    """Split the nodes of a level that are worth it; return how many nodes there are then, and their lines."""
    n_bins = running.shape[2]
    scores = np.empty(n_bins, dtype=np.float32)
    keys = scores.view(np.int32)
    chosen = np.empty(nodes.shape[0], dtype=np.int64)
    first = n
    for i in range(nodes.shape[0]):
        if _split_node(
            running[lines[i]],
            nodes[i],
            n,
            search.regular,
            search.unit,
            search.is_used,
            search.use_missing,
            search.limits,
            whole,
            real,
            scores,
            keys,
        ):
            chosen[(n - first) // 2] = lines[i]
            n += 2
    return n, chosen


@compiled_part
def _split_node(
    running: Host,
    node: int,
    left_child: int,
    regular: Host,
    unit: float,
    is_used: Host,
    use_missing: Host,
    limits: Host,
    whole: Host,
    real: Host,
    scores: Host,
    keys: Host,
) -> bool:
    """Find the best split of a node, and write it and two children down if it is good enough."""
    n_bins = running.shape[1]
    total = running[0, n_bins - 1]
    share = limits[2] / whole[SIZE, node]
    least = max(regular[1], np.float32(share) * np.float32(total >> 32))
    cell = best_cell(running, total, regular[0], least, is_used, False, scores, keys)
    best = keys[0]
    left = running[cell // n_bins, cell % n_bins] if best > 0 else total
    is_left = False
    if use_missing.shape[0]:
        other = best_cell(running, total, regular[0], least, use_missing, True, scores, keys)
        if keys[0] > best:
            is_left, cell = True, other
            line = running[cell // n_bins]
            left = line[cell % n_bins] + (line[n_bins - 1] - line[n_bins - 2])
    feature, position = cell // n_bins, cell % n_bins
    right = total - left
    # where nothing is missing, later rows go where most of the weight is
    if running[feature, n_bins - 2] == running[feature, n_bins - 1]:
        is_left = left >= right
    gradient, hessian, value, score = _side(total, unit, limits[0])
    if node == 0:
        real[_VALUE, 0] = value
    _, left_hessian, left_value, left_score = _side(left, unit, limits[0])
    _, right_hessian, right_value, right_score = _side(right, unit, limits[0])
    gain = left_score + right_score - score
    # float32 chose
    lightest = max(0.99999 * share * hessian, max(limits[1], unit))
    is_good = min(left_hessian, right_hessian) >= lightest and gain > 1e-6 + 1e-6 * abs(gradient)
    if not is_good or not gain > 0:
        return False
    real[_GAIN, node] = gain
    whole[FEATURE, node], whole[THRESHOLD, node], whole[LEFT, node] = feature, position, left_child
    whole[IS_MISSING_RIGHT, node] = 0 if is_left else 1
    whole[PARENT, left_child] = whole[PARENT, left_child + 1] = node
    real[_VALUE, left_child], real[_VALUE, left_child + 1] = left_value, right_value
    real[_HESSIAN, left_child], real[_HESSIAN, left_child + 1] = left_hessian, right_hessian
    return True


@compiled_part
def _side(packed: int, unit: float, l2: float) -> tuple[float, float, float, float]:
    """Return gradient, hessian, value and score of a packed sum."""
    whole = (packed + (1 << 31)) >> 32
    gradient, hessian = (packed - (whole << 32)) * unit, whole * unit
    value = gradient / -(hessian + max(l2, 1e-30))
    return gradient, hessian, value, -gradient * value


@compiled_part
def _sort_rows(bins: Host, order: Host, gone: Host, whole: Host, left_child: int, n_bins: int) -> None:
    """Sort the rows of a node that was split, and write down where those of its children are."""
    node = whole[PARENT, left_child]
    feature, threshold = np.uint64(whole[FEATURE, node]), whole[THRESHOLD, node]
    # the bins that go right are one run: up to the missing values, or with them
    begin = threshold + 1
    run = np.uint64(n_bins - 1 - begin + whole[IS_MISSING_RIGHT, node])
    start, size = whole[START, node], whole[SIZE, node]
    left, right = np.uint64(start), np.uint64(start)
    for position in range(start, start + size):
        row = np.uint64(order[position])
        side = np.uint64(np.uint64(bins[feature, row] - begin) < run)
        order[left] = row
        gone[right] = row
        left += np.uint64(1) - side
        right += side
    n_left = np.int64(left) - start
    for i in range(start, start + size - n_left):
        order[i + n_left] = gone[i]
    whole[START, left_child], whole[SIZE, left_child] = start, n_left
    whole[START, left_child + 1], whole[SIZE, left_child + 1] = start + n_left, size - n_left


@compiled
def pair_up(
    chosen: Host, first: int, last: int, limits: Host, whole: Host, real: Host
) -> tuple[Host, Host, Host]:
    """Return the smaller and the larger of siblings that may be split, and the line of their parents."""
    pairs = np.empty((3, (last - first) // 2), dtype=np.int64)
    n = 0
    for left in range(first, last, 2):
        heaviest = max(real[_HESSIAN, left], real[_HESSIAN, left + 1])
        largest = max(whole[SIZE, left], whole[SIZE, left + 1])
        if heaviest >= 2.0 * limits[1] and largest >= 2 * limits[2]:
            small = left + (1 if whole[SIZE, left + 1] < whole[SIZE, left] else 0)
            pairs[0, n], pairs[1, n], pairs[2, n] = small, 2 * left + 1 - small, chosen[(left - first) // 2]
            n += 1
    return pairs[0, :n], pairs[1, :n], pairs[2, :n]


@compiled
def complete_level(
    small: Host, large: Host, of_parent: Host, parents: Host, running: Host, limits: Host, whole: Host
) -> tuple[Host, Host]:
    """Make running sums of the smaller siblings' sums; the larger ones are what remains of their parents.

    `running` (2 p, d, n_bins) begins with the sums of the smaller ones. Returns the nodes that may be split,
    smaller siblings first, and the line of each.
    """
    n_pairs = small.shape[0]
    nodes, lines = np.empty(2 * n_pairs, dtype=np.int64), np.empty(2 * n_pairs, dtype=np.int64)
    n = 0
    for line in range(2 * n_pairs):
        i = line % n_pairs
        node = small[i] if line < n_pairs else large[i]
        if line < n_pairs:
            add_up(running[line])
        else:
            _subtract(parents[of_parent[i]], running[i], running[line])
        if whole[SIZE, node] >= 2 * limits[2]:
            nodes[n], lines[n] = node, line
            n += 1
    return nodes[:n], lines[:n]


@compiled_part
def _subtract(whole: Host, part: Host, rest: Host) -> None:
    for j in range(whole.shape[0]):
        for b in range(whole.shape[1]):
            rest[j, b] = whole[j, b] - part[j, b]
