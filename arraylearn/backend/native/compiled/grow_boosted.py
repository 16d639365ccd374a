"""Compiled body of `arraylearn.backend.ops.boosted_growth`: level by level, its numbers as on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from arraylearn.backend.native.compiled.boosting import add_all, add_block, add_up
from arraylearn.backend.native.compiled.jit import compiled, compiled_part
from arraylearn.backend.native.compiled.splits import best_cell
from arraylearn.backend.score_tables import GRADIENT_BITS
from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["grow_boosted_trees"]

# With more cells than this (rows x columns), threads share the rows of a level rather than wait for one tree.
_MANY_CELLS = 1_000_000
# The lines of the nodes: see `BoostedNodes`.
_FEATURE, _THRESHOLD, _IS_MISSING_RIGHT, _LEFT, _PARENT, _START, _SIZE = range(7)
_GAIN, _HESSIAN, _VALUE = range(3)


def grow_boosted_trees(
    bins: Host,
    cells: Host,
    n_bins: int,
    missing: Sequence[int],
    packed: Host,
    shifts: Host,
    rows: Host,
    units: Host,
    is_used: Sequence[Host | None],
    rules: Any,
    result: Callable[[Host, Host, Host], Any],
) -> list[Any] | None:
    d, m, n_trees = bins.shape[0], rows.shape[0], packed.shape[0]
    if cells.dtype != np.uint8 or (n_trees < get_num_threads() and m * d > _MANY_CELLS):
        return None
    has_missing = np.zeros(d, dtype=np.bool_)
    has_missing[list(missing)] = True
    limits = np.array((rules.l2, rules.min_child_hessian, rules.min_samples_leaf))
    depth = -1 if rules.max_depth is None else rules.max_depth
    room = 2 * m if rules.max_depth is None else min(2 * m, 2 << min(rules.max_depth, 40))

    def grow(tree: int) -> Any:
        order, gone = rows.copy(), np.empty(m, dtype=np.int64)
        whole, real = np.full((7, room), -1, dtype=np.int64), np.zeros((3, room))
        shift, used = int(shifts[tree]), is_used[tree]
        mask = np.ones(d, dtype=np.bool_) if used is None else used
        unit = 2.0 ** (shift - GRADIENT_BITS)
        n = _grow(
            bins,
            cells.reshape(-1),
            packed[tree],
            order,
            gone,
            units[shift],
            unit,
            mask,
            has_missing,
            limits,
            depth,
            n_bins,
            whole,
            real,
        )
        return result(whole[:, :n], real[:, :n], order)

    return parallel_map(grow, range(n_trees))


@compiled
def _grow(
    bins: Host,
    cells: Host,
    packed: Host,
    order: Host,
    gone: Host,
    regular: Host,
    unit: float,
    is_used: Host,
    has_missing: Host,
    limits: Host,
    max_depth: int,
    n_bins: int,
    whole: Host,
    real: Host,
) -> int:
    """Grow one tree; return the number of its nodes."""
    d, m = bins.shape[0], order.shape[0]
    whole[_START, 0], whole[_SIZE, 0] = 0, m
    nodes, lines, running = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros((1, d, n_bins), np.int64)
    if m == bins.shape[1]:
        add_all(cells, packed, 0, m, running.reshape(-1), d, n_bins)
    else:
        add_block(cells, packed, order, 0, m, running.reshape(-1), d, n_bins)
    add_up(running.reshape(-1, n_bins))
    use_missing = is_used & has_missing
    scores = np.empty(n_bins, dtype=np.float32)
    keys = scores.view(np.int32)
    n, depth = 1, 0
    while nodes.shape[0]:
        first = n
        chosen = np.empty(nodes.shape[0], dtype=np.int64)
        for i in range(nodes.shape[0]):
            line = running[lines[i]]
            if _split_node(
                line, nodes[i], n, regular, unit, is_used, use_missing, limits, whole, real, scores, keys
            ):
                chosen[(n - first) // 2] = lines[i]
                n += 2
        depth += 1
        if n == first or depth == max_depth:
            break
        for left in range(first, n, 2):
            _sort_rows(bins, order, gone, whole, left, n_bins)
        nodes, lines, running = _next_level(
            cells, packed, order, running, chosen, first, n, limits, whole, real, n_bins
        )
    return n


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
    share = limits[2] / whole[_SIZE, node]
    least = max(regular[1], np.float32(share) * np.float32(total >> 32))
    cell = best_cell(running, total, regular[0], least, is_used, False, scores, keys)
    best = keys[0]
    left = running[cell // n_bins, cell % n_bins] if best > 0 else total
    is_left = False
    if use_missing.any():
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
    whole[_FEATURE, node], whole[_THRESHOLD, node], whole[_LEFT, node] = feature, position, left_child
    whole[_IS_MISSING_RIGHT, node] = 0 if is_left else 1
    whole[_PARENT, left_child] = whole[_PARENT, left_child + 1] = node
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
    node = whole[_PARENT, left_child]
    feature, threshold = np.uint64(whole[_FEATURE, node]), whole[_THRESHOLD, node]
    # the bins that go right are one run: up to the missing values, or with them
    begin = threshold + 1
    run = np.uint64(n_bins - 1 - begin + whole[_IS_MISSING_RIGHT, node])
    start, size = whole[_START, node], whole[_SIZE, node]
    left, right = np.uint64(start), np.uint64(0)
    for position in range(start, start + size):
        row = np.uint64(order[position])
        side = np.uint64(np.uint64(bins[feature, row] - begin) < run)
        order[left] = row
        gone[right] = row
        left += np.uint64(1) - side
        right += side
    for i in range(np.int64(right)):
        order[np.int64(left) + i] = gone[i]
    n_left = np.int64(left) - start
    whole[_START, left_child], whole[_SIZE, left_child] = start, n_left
    whole[_START, left_child + 1], whole[_SIZE, left_child + 1] = start + n_left, size - n_left


@compiled
def _next_level(
    cells: Host,
    packed: Host,
    order: Host,
    parents: Host,
    chosen: Host,
    first: int,
    last: int,
    limits: Host,
    whole: Host,
    real: Host,
    n_bins: int,
) -> tuple[Host, Host, Host]:
    """Sum the rows of the smaller children; the larger ones are what remains of their parents.

    Returns the nodes that may be split, smaller children first, the line of each, and the running sums.
    """
    d = parents.shape[1]
    pairs = np.empty((last - first) // 2, dtype=np.int64)
    n_pairs = 0
    for left in range(first, last, 2):
        heaviest = max(real[_HESSIAN, left], real[_HESSIAN, left + 1])
        largest = max(whole[_SIZE, left], whole[_SIZE, left + 1])
        if heaviest >= 2.0 * limits[1] and largest >= 2 * limits[2]:
            pairs[n_pairs] = left
            n_pairs += 1
    running = np.zeros((2 * n_pairs, d, n_bins), dtype=np.int64)
    nodes, lines = np.empty(2 * n_pairs, dtype=np.int64), np.empty(2 * n_pairs, dtype=np.int64)
    n = 0
    for is_large in (0, 1):
        for i in range(n_pairs):
            left = pairs[i]
            small = left + (1 if whole[_SIZE, left + 1] < whole[_SIZE, left] else 0)
            node, line = small, i
            if is_large:
                node, line = 2 * left + 1 - small, n_pairs + i
                _subtract(parents[chosen[(left - first) // 2]], running[i], running[line])
            else:
                start, size = whole[_START, small], whole[_SIZE, small]
                add_block(cells, packed, order, start, start + size, running[i].reshape(-1), d, n_bins)
                add_up(running[i])
            if whole[_SIZE, node] >= 2 * limits[2]:
                nodes[n], lines[n] = node, line
                n += 1
    return nodes[:n], lines[:n], running


@compiled_part
def _subtract(whole: Host, part: Host, rest: Host) -> None:
    for j in range(whole.shape[0]):
        for b in range(whole.shape[1]):
            rest[j, b] = whole[j, b] - part[j, b]
