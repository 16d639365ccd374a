"""Compiled body of `backend.ops.subtrees.grow_lists`: depth first, so that lists stay in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled
from arraylearn.backend.cpu.unsigned import index
from arraylearn.backend.native.compiled.gini_scan import class_bounds, search_block
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

__all__ = ["grow_lists"]

# Slots and rows are counted in 32 bits.
_MOST_ROWS = 2**30


def grow_lists(
    lists: Host, columns: Host, class_ends: Sequence[int], starts: Host, counts: Host, growth: Growth
) -> Subtrees | None:
    (d, m), n = lists.shape, columns.shape[1]
    if n >= _MOST_ROWS or not lists.flags.c_contiguous:
        return None
    columns = np.ascontiguousarray(columns)
    data = lists.view(np.uint32), columns, *class_bounds(class_ends)
    limits = max(1, growth.least), growth.least_to_split, growth.min_gain - 1e-12
    nodes = begin_nodes(starts, m, counts, growth)

    def split_together(block: Host, child: int) -> Host:
        return _split_together(*data, *limits, nodes.whole, nodes.gain, block, child)

    def grow(blocks: Host) -> None:
        _grow_blocks(*data, *limits, blocks, nodes.n_top, nodes.whole, nodes.gain)

    nodes, _ = split_large(nodes, d, split_together)
    parallel_map(grow, block_tasks(nodes, d))
    return in_level_order(nodes, starts.shape[0])


def _split_together(
    lists: Host,
    columns: Host,
    bounds: Host,
    class_of: Host,
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
    groups = line_groups(lists.shape[0], stop - start)
    left = np.empty((len(groups), counts.shape[0]), dtype=np.int64)
    may, n_classes = np.ones((0, 0), np.bool_), counts.shape[0]

    def search(g: int) -> tuple[int, np.float32, float, int]:
        side = np.empty((2, n_classes), np.int64)
        given = lists, columns, bounds, class_of, start, stop, counts, least, may, 0, side, left[g]
        return search_block(groups[g][0], groups[g][1], *given)

    found = parallel_map(search, range(len(groups)))
    best = max(range(len(groups)), key=lambda g: (found[g][1], -g))
    line, gained, score, position = found[best]
    children = np.empty((2, 4), dtype=np.int64)
    if score < 0 or gained < min_gain:
        return children[:0]
    middle = position + 1
    _record(whole, gain, lists, slot, child, line, gained, position)
    open_left, open_right, n_open = push_children(
        whole, slot, child, left[best], start, middle, stop, n_levels, least_to_split, children, 0
    )
    if n_open:
        is_right = np.empty(columns.shape[1], dtype=np.uint8)
        _mark(lists[line], start, middle, stop, is_right)

        def divide(group: tuple[int, int]) -> None:
            spare = np.empty(stop - middle + 1, dtype=np.uint32)
            _divide(*group, lists, line, start, middle, stop, open_left, open_right, is_right, spare)

        parallel_map(divide, groups)
    return children[:n_open]


@compiled
def _grow_blocks(
    lists: Host,
    columns: Host,
    bounds: Host,
    class_of: Host,
    least: int,
    least_to_split: int,
    min_gain: float,
    blocks: Host,
    n_top: int,
    whole: Host,
    gain: Host,
) -> None:
    """Grow all that is below some blocks."""
    d, c = lists.shape[0], whole.shape[1] - COUNTS
    counts, side, left = np.empty(c, np.int64), np.empty((2, c), np.int64), np.empty(c, np.int64)
    nowhere = np.ones((0, 0), np.bool_)
    stack = np.empty((STACK, 4), np.int64)
    is_right = np.empty(columns.shape[1], np.uint8)
    largest = 0
    for b in range(blocks.shape[0]):
        largest = max(largest, blocks[b, 2] - blocks[b, 1])
    spare = np.empty(largest + 1, np.uint32)
    for b in range(blocks.shape[0]):
        child = n_top + 2 * blocks[b, 1]
        for j in range(4):  # an assignment of arrays would take seconds to compile
            stack[0, j] = blocks[b, j]
        height = 1
        while height > 0:
            height -= 1
            slot, start, stop = stack[height, 0], stack[height, 1], stack[height, 2]
            n_levels = stack[height, 3]
            for j in range(c):
                counts[j] = whole[slot, COUNTS + j]
            line, gained, score, position = search_block(
                0, d, lists, columns, bounds, class_of, start, stop, counts, least, nowhere, 0, side, left
            )
            if score < 0 or gained < min_gain:
                continue
            middle = position + 1
            _record(whole, gain, lists, slot, child, line, gained, position)
            open_left, open_right, height = push_children(
                whole, slot, child, left, start, middle, stop, n_levels, least_to_split, stack, height
            )
            child += 2
            if open_left or open_right:
                _mark(lists[line], start, middle, stop, is_right)
                _divide(0, d, lists, line, start, middle, stop, open_left, open_right, is_right, spare)


@compiled
def _record(
    whole: Host, gain: Host, lists: Host, slot: int, child: int, line: int, gained: Any, position: int
) -> None:
    """Write the split of a node; `low` and `high` are the rows on both sides of it."""
    whole[slot, LINE], whole[slot, CHILD], gain[slot] = line, child, gained
    whole[slot, LOW], whole[slot, HIGH] = lists[line, position], lists[line, position + 1]


@compiled
def _mark(rows: Host, start: int, middle: int, stop: int, is_right: Host) -> None:
    """Tell for each row of a block which side it takes."""
    for i in range(index(start), index(middle)):
        is_right[rows[i]] = 0
    for i in range(index(middle), index(stop)):
        is_right[rows[i]] = 1


@compiled
def _divide(
    first_line: int,
    stop_line: int,
    lists: Host,
    line: int,
    start: int,
    middle: int,
    stop: int,
    open_left: bool,
    open_right: bool,
    is_right: Host,
    spare: Host,
) -> None:
    """Put the left rows of a block before the right ones in some lists, as far as the sides go on.

    `spare` has room for the right rows and one more.
    """
    one, first, end = index(1), index(start), index(stop)
    border = index(middle)
    for f in range(first_line, stop_line):
        if f == line:
            continue  # which is divided by its order
        rows = lists[f]
        if open_left and open_right:
            at, put = first, index(0)
            for i in range(first, end):
                row = rows[i]
                right = index(is_right[row])
                rows[at] = row
                spare[put] = row
                at += one - right
                put += right
            for i in range(end - border):
                rows[border + i] = spare[i]
        elif open_left:
            at, i = first, first
            while at < border:
                row = rows[i]
                rows[at] = row
                at += one - index(is_right[row])
                i += one
        else:
            # backwards; positions count from one, as nothing unsigned is below 0
            at, i = end, end
            while at > border:
                row = rows[i - one]
                rows[at - one] = row
                at -= index(is_right[row])
                i -= one
