"""Compiled body of `arraylearn.backend.ops.subtrees.grow_bins`: the larger of two siblings by subtraction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled
from arraylearn.backend.cpu.unsigned import index
from arraylearn.backend.native.compiled.gini_cells import (
    count_cells,
    search_cells,
    search_few_rows,
    subtract_cells,
)
from arraylearn.backend.native.compiled.gini_split import line_groups
from arraylearn.backend.native.compiled.subtrees import (
    CHILD,
    COUNTS,
    HIGH,
    LINE,
    LOW,
    STACK,
    begin_nodes,
    block_tasks,
    in_level_order,
    push_children,
    split_large,
)
from arraylearn.backend.ops.subtrees import Growth, Subtrees
from arraylearn.backend.threads import parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["grow_bins"]

_MOST_ROWS = 2**30
# Cells of a node from which none are kept for its children.
_MOST_CELLS = 1 << 20


def grow_bins(
    rows: Host,
    bins: Host,
    n_bins: int,
    class_ends: Sequence[int],
    starts: Host,
    counts: Host,
    growth: Growth,
) -> Subtrees | None:
    d, n = bins.shape
    if n >= _MOST_ROWS:
        return None
    own = np.array(rows, dtype=np.uint32)  # which will be sorted by node
    data = own, np.ascontiguousarray(bins), n_bins
    limits = max(1, growth.least), growth.least_to_split, growth.min_gain - 1e-12
    nodes = begin_nodes(starts, own.shape[0], counts, growth)

    def split_together(block: Host, child: int) -> Host:
        return _split_together(*data, *limits, nodes.whole, nodes.gain, block, child)

    def grow(blocks: Host) -> None:
        _grow_blocks(*data, *limits, blocks, nodes.n_top, nodes.whole, nodes.gain)

    nodes, _ = split_large(nodes, d, split_together)
    parallel_map(grow, block_tasks(nodes, d))
    return in_level_order(nodes, starts.shape[0])


def _split_together(
    rows: Host,
    bins: Host,
    n_bins: int,
    least: int,
    least_to_split: int,
    min_gain: float,
    whole: Host,
    gain: Host,
    block: Host,
    child: int,
) -> Host:
    """Split one block with all threads; return the children that go on."""
    slot, start, stop, n_levels = block.tolist()
    counts = whole[slot, COUNTS:].astype(np.int64)
    n_classes = counts.shape[0]
    groups = line_groups(bins.shape[0], stop - start)
    cells = np.empty((bins.shape[0], n_bins, n_classes), dtype=np.int32)
    left = np.empty((len(groups), n_classes), dtype=np.int64)

    def search(g: int) -> tuple[int, np.float32, float, int, int]:
        first, end = groups[g]
        count_cells(first, end, rows, start, counts, bins, cells)
        side = np.empty((2, n_classes), np.int64)
        return search_cells(first, end, cells, counts, stop - start, least, side, left[g])

    found = parallel_map(search, range(len(groups)))
    best = max(range(len(groups)), key=lambda g: (found[g][1], -g))
    line, gained, score, low, high = found[best]
    children = np.empty((2, 4), dtype=np.int64)
    if score < 0 or gained < min_gain:
        return children[:0]
    middle = start + int(left[best].sum())
    _record(whole, gain, slot, child, line, gained, low, high)
    *_, n_open = push_children(
        whole, slot, child, left[best], start, middle, stop, n_levels, least_to_split, children, 0
    )
    if n_open:
        _divide(rows, start, middle, stop, bins[line], low, np.empty(stop - middle + 1, np.uint32))
    return children[:n_open]


@compiled
def _grow_blocks(
    rows: Host,
    bins: Host,
    n_bins: int,
    least: int,
    least_to_split: int,
    min_gain: float,
    blocks: Host,
    n_top: int,
    whole: Host,
    gain: Host,
) -> None:
    """Grow all that is below some blocks.

    A node of many rows has the counts of its cells in a room of its own, `-1` where they are not known yet.
    """
    d, c = bins.shape[0], whole.shape[1] - COUNTS
    counts, side, left = np.empty(c, np.int64), np.empty((2, c), np.int64), np.empty(c, np.int64)
    stack, room_of = np.empty((STACK, 4), np.int64), np.empty(STACK, np.int64)
    is_kept = d * c * n_bins <= _MOST_CELLS
    # untouched rooms cost no memory
    rooms = np.empty((STACK + 2 if is_kept else 1, d, n_bins, c), np.int32)
    free = np.empty(rooms.shape[0], np.int64)
    for j in range(rooms.shape[0]):
        free[j] = j
    n_free = rooms.shape[0]
    few, many = _few_rows(c * n_bins), c * n_bins // 2
    keys = np.empty(few + 1, np.int64)
    largest = 0
    for b in range(blocks.shape[0]):
        largest = max(largest, blocks[b, 2] - blocks[b, 1])
    spare = np.empty(largest + 1, np.uint32)
    for b in range(blocks.shape[0]):
        child = n_top + 2 * blocks[b, 1]
        for j in range(4):  # an assignment of arrays would take seconds to compile
            stack[0, j] = blocks[b, j]
        room_of[0], height = -1, 1
        while height > 0:
            height -= 1
            slot, start, stop = stack[height, 0], stack[height, 1], stack[height, 2]
            n_levels = stack[height, 3]
            size, room = stop - start, room_of[height]
            for j in range(c):
                counts[j] = whole[slot, COUNTS + j]
            if size <= few:
                line, gained, score, low, high = search_few_rows(
                    rows, start, stop, bins, counts, least, keys, side, left
                )
            else:
                if room < 0:
                    n_free -= 1
                    room = free[n_free]
                    count_cells(0, d, rows, start, counts, bins, rooms[room])
                line, gained, score, low, high = search_cells(
                    0, d, rooms[room], counts, size, least, side, left
                )
            below = height
            if score >= 0 and gained >= min_gain:
                middle = start
                for j in range(c):
                    middle += left[j]
                _record(whole, gain, slot, child, line, gained, low, high)
                open_left, open_right, height = push_children(
                    whole, slot, child, left, start, middle, stop, n_levels, least_to_split, stack, height
                )
                if open_left or open_right:
                    _divide(rows, start, middle, stop, bins[line], low, spare)
                for j in range(below, height):
                    room_of[j] = -1
                is_left_smaller = middle - start < stop - middle
                larger = max(middle - start, stop - middle)
                is_larger_open = open_right if is_left_smaller else open_left
                if is_kept and room >= 0 and is_larger_open and larger > many:
                    # the larger one was put on the stack first
                    n_free -= 1
                    other = free[n_free]
                    for j in range(c):
                        counts[j] = whole[child + (0 if is_left_smaller else 1), COUNTS + j]
                    first = start if is_left_smaller else middle
                    count_cells(0, d, rows, first, counts, bins, rooms[other])
                    subtract_cells(rooms[room], rooms[other])
                    room_of[below] = room
                    room = -1
                    if height - below == 2 and size - larger > few:
                        room_of[below + 1] = other
                    else:
                        free[n_free] = other
                        n_free += 1
                child += 2
            if room >= 0:
                free[n_free] = room
                n_free += 1


@compiled
def _few_rows(n_cells: int) -> int:
    """Return up to how many rows sorting them is cheaper than looking at all cells of a column."""
    few = 2
    while few * few < 4 * n_cells and few < 64:
        few += 1
    return few


@compiled
def _record(
    whole: Host, gain: Host, slot: int, child: int, line: int, gained: Any, low: int, high: int
) -> None:
    whole[slot, LINE], whole[slot, CHILD], gain[slot] = line, child, gained
    whole[slot, LOW], whole[slot, HIGH] = low, high


@compiled
def _divide(rows: Host, start: int, middle: int, stop: int, column: Host, cut: int, spare: Host) -> None:
    """Put the left rows of a block before the right ones; `spare` has room for these and one more."""
    one, border = index(1), index(middle)
    at, put = index(start), index(0)
    for i in range(index(start), index(stop)):
        row = rows[i]
        right = index(column[row] > cut)
        rows[at] = row
        spare[put] = row
        at += one - right
        put += right
    for i in range(index(stop - middle)):
        rows[border + i] = spare[i]
