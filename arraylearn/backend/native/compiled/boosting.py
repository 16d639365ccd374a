"""Compiled bodies for `arraylearn.backend.ops.boosting`: a pass over the rows for all columns.

Threads share the positions of all blocks, one block after the other; a block may so belong to two of them.
All sums are sums of integers, so that it does not matter who added what.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled, compiled_part
from arraylearn.backend.cpu.portions import even_portions
from arraylearn.backend.cpu.prefetch import prefetch
from arraylearn.backend.native import numpy_boosting
from arraylearn.backend.threads import parallel_map

Host = np.ndarray[Any, Any]

__all__ = [
    "add_all",
    "add_block",
    "add_to_sides",
    "add_up",
    "block_histograms",
    "histogram_cells",
    "split_blocks",
]

# What a thread must have to do, or it costs more than it brings.
_LEAST_ADDITIONS = 400_000
_LEAST_ROWS = 150_000
# Rows that are turned at once: what they are made of and become stays in the first-level cache.
_TURNED = 128
# Rows between the one that is asked for and the one that is added.
_AHEAD = 24


def histogram_cells(bins: Host, n_bins: int) -> Host:
    """Return the bins (n, d) of a row side by side: bytes, from which `block_histograms` makes the cells."""
    d, n = bins.shape
    cells = np.empty((n, d), dtype=np.uint8)
    parallel_map(lambda rows: _turn(bins, cells, *rows), even_portions(n, _LEAST_ADDITIONS // d))
    return cells


@compiled
def _turn(bins: Host, cells: Host, first: int, last: int) -> None:
    d = bins.shape[0]
    for start in range(first, last, _TURNED):
        stop = min(start + _TURNED, last)
        for j in range(d):
            for row in range(start, stop):
                cells[row, j] = bins[j, row]


def block_histograms(
    bins: Host,
    cells: Host,
    packed: Host,
    order: Host,
    starts: Sequence[int],
    sizes: Sequence[int],
    n_bins: int,
) -> Host:
    if cells.dtype != np.uint8:  # NumPy's `histogram_cells` made them: too few values
        return numpy_boosting.block_histograms(bins, cells, packed, order, starts, sizes, n_bins)
    sums = sum_blocks(cells, packed, order, starts, sizes, n_bins)
    add_up(sums.reshape(-1, n_bins))
    return sums


def sum_blocks(
    cells: Host, packed: Host, order: Host, starts: Sequence[int], sizes: Sequence[int], n_bins: int
) -> Host:
    """Return the packed sums (k, d, n_bins) of blocks."""
    (n, d), k = cells.shape, len(sizes)
    blocks = np.array((starts, sizes), dtype=np.int64)
    is_all = k == 1 and sizes[0] == n
    portions = even_portions(sum(sizes), _LEAST_ADDITIONS // d)
    # a portion that begins inside a block adds these rows to a table of its own
    tables = np.zeros((k + len(portions), d * n_bins), dtype=np.int64)
    flat = cells.reshape(-1)

    def run(i: int) -> None:
        _add_rows(flat, packed, order, blocks, *portions[i], tables, k + i, n_bins, is_all)

    parallel_map(run, range(len(portions)))
    if len(portions) > 1:
        _add_shared(tables, blocks, np.array([first for first, _ in portions]))
    return tables[:k].reshape(k, d, n_bins)


@compiled
def _add_rows(
    cells: Host,
    packed: Host,
    order: Host,
    blocks: Host,
    first: int,
    last: int,
    tables: Host,
    own: int,
    n_bins: int,
    is_all: bool,
) -> None:
    """Add the rows at positions `first` to `last` of the blocks to the tables of their blocks."""
    width = tables.shape[1] // n_bins
    before = 0
    for j in range(blocks.shape[1]):
        size = blocks[1, j]
        start, stop = max(first - before, 0), min(last - before, size)
        if start < stop:
            table = tables[j if start == 0 else own]
            offset = blocks[0, j]
            if is_all:
                add_all(cells, packed, start, stop, table, width, n_bins)
            else:
                add_block(cells, packed, order, offset + start, offset + stop, table, width, n_bins)
        before += size


@compiled_part
def add_all(cells: Host, packed: Host, first: int, last: int, table: Host, width: int, n_bins: int) -> None:
    # unsigned numbers: a signed index would be tested for counting from the end
    line, d = np.uint64(n_bins), np.uint64(width)
    for row in range(first, last):
        weight = packed[row]
        here, cell = np.uint64(row) * d, np.uint64(0)
        for j in range(width):
            table[cell + np.uint64(cells[here + np.uint64(j)])] += weight
            cell += line


@compiled_part
def add_block(
    cells: Host, packed: Host, order: Host, first: int, last: int, table: Host, width: int, n_bins: int
) -> None:
    """Add two rows at a time: their additions do not wait for each other."""
    line, d = np.uint64(n_bins), np.uint64(width)
    position = first
    while position + 1 < last:
        for ahead in range(position + _AHEAD, position + _AHEAD + 2):
            row = order[min(ahead, last - 1)]
            prefetch(cells, row * width)
            prefetch(packed, row)
        one, other = np.uint64(order[position]), np.uint64(order[position + 1])
        weight, other_weight = packed[one], packed[other]
        here, there, cell = one * d, other * d, np.uint64(0)
        for j in range(width):
            table[cell + np.uint64(cells[here + np.uint64(j)])] += weight
            table[cell + np.uint64(cells[there + np.uint64(j)])] += other_weight
            cell += line
        position += 2
    if position < last:
        one = np.uint64(order[position])
        weight, here, cell = packed[one], one * d, np.uint64(0)
        for j in range(width):
            table[cell + np.uint64(cells[here + np.uint64(j)])] += weight
            cell += line


@compiled
def _add_shared(tables: Host, blocks: Host, firsts: Host) -> None:
    """Add the tables of portions that began inside a block to that of the block."""
    k = blocks.shape[1]
    for i in range(firsts.shape[0]):
        before = 0
        for j in range(k):
            if before < firsts[i] < before + blocks[1, j]:
                for cell in range(tables.shape[1]):
                    tables[j, cell] += tables[k + i, cell]
            before += blocks[1, j]


@compiled_part
def add_up(lines: Host) -> None:
    """Make running sums of each line."""
    for i in range(lines.shape[0]):
        total = np.int64(0)
        for b in range(lines.shape[1]):
            total += lines[i, b]
            lines[i, b] = total


def split_blocks(
    bins: Host,
    order: Host,
    starts: Sequence[int],
    sizes: Sequence[int],
    features: Sequence[int],
    thresholds: Sequence[int],
    goes_right: Host | None,
) -> tuple[Host, Host]:
    blocks = np.array((starts, sizes, features, thresholds), dtype=np.int64)
    sets = _sets(goes_right)
    total = sum(sizes)
    portions = even_portions(total, _LEAST_ROWS)
    n_left = np.zeros((len(portions), len(sizes)), dtype=np.int64)
    gone = np.empty(total, dtype=np.int64)

    def run(i: int) -> None:
        _split_rows(bins, order, blocks, sets, *portions[i], gone, n_left[i])

    parallel_map(run, range(len(portions)))
    if len(portions) > 1:
        _join_shared(order, blocks, np.array(portions), gone, n_left)
    return order, n_left.sum(axis=0)


def _sets(goes_right: Host | None) -> Host:
    return np.empty((0, 1), dtype=np.bool_) if goes_right is None else np.ascontiguousarray(goes_right)


@compiled_part
def _fill_sides(sides: Host, threshold: int, sets: Host, j: int) -> None:
    """Write for each bin whether it goes right, as 0 or 1."""
    for b in range(sides.shape[0]):
        sides[b] = b > threshold
    if threshold < 0 and j < sets.shape[0]:
        for b in range(sets.shape[1]):
            sides[b] = sets[j, b]


@compiled
def _split_rows(
    bins: Host, order: Host, blocks: Host, sets: Host, first: int, last: int, gone: Host, n_left: Host
) -> None:
    """Sort the rows at positions `first` to `last`; what goes right in a part of a block stays in `gone`."""
    sides = np.empty(256, dtype=np.int64)
    before = 0
    for j in range(blocks.shape[1]):
        size = blocks[1, j]
        start, stop = max(first - before, 0), min(last - before, size)
        if start < stop:
            _fill_sides(sides, blocks[3, j], sets, j)
            column = bins[blocks[2, j]]
            left, right = np.uint64(blocks[0, j] + start), np.uint64(before + start)
            for position in range(blocks[0, j] + start, blocks[0, j] + stop):
                row = np.uint64(order[position])
                side = np.uint64(sides[column[row]])
                order[left] = row
                gone[right] = row
                left += np.uint64(1) - side
                right += side
            n_left[j] = np.int64(left) - blocks[0, j] - start
            if stop - start == size:
                _copy(gone, before, order, blocks[0, j] + n_left[j], size - n_left[j])
        before += size


@compiled_part
def _copy(source: Host, start: int, target: Host, place: int, m: int) -> None:
    """Copy `m` numbers one after the other: within an array, towards the front.

    The assignment of slices would take the compiler seconds.
    """
    for i in range(m):
        target[place + i] = source[start + i]


@compiled
def _join_shared(order: Host, blocks: Host, portions: Host, gone: Host, n_left: Host) -> None:
    """Bring together what several portions made of one block: first what stayed left, then what had gone."""
    before = 0
    for j in range(blocks.shape[1]):
        size, offset = blocks[1, j], blocks[0, j]
        target = offset
        for is_right in (False, True):
            for i in range(portions.shape[0]):
                start, stop = max(portions[i, 0] - before, 0), min(portions[i, 1] - before, size)
                if start < stop and stop - start < size:
                    if is_right:
                        m = stop - start - n_left[i, j]
                        _copy(gone, before + start, order, target, m)
                    else:
                        m = n_left[i, j]
                        _copy(order, offset + start, order, target, m)
                    target += m
        before += size


def add_to_sides(
    scores: Host,
    bins: Host,
    order: Host,
    starts: Sequence[int],
    sizes: Sequence[int],
    features: Sequence[int],
    thresholds: Sequence[int],
    goes_right: Host | None,
    values: Sequence[Sequence[int]],
) -> Host:
    blocks = np.array((starts, sizes, features, thresholds, *values), dtype=np.int64)
    sets = _sets(goes_right)
    parallel_map(
        lambda rows: _step_rows(scores, bins, order, blocks, sets, *rows),
        even_portions(sum(sizes), _LEAST_ROWS),
    )
    return scores


@compiled
def _step_rows(
    scores: Host, bins: Host, order: Host, blocks: Host, sets: Host, first: int, last: int
) -> None:
    sides = np.empty(256, dtype=np.int64)
    steps = np.empty(256, dtype=np.int32)
    before = 0
    for j in range(blocks.shape[1]):
        size, offset = blocks[1, j], blocks[0, j]
        start, stop = max(first - before, 0), min(last - before, size)
        low, high = blocks[4, j], blocks[5, j]
        if low == high:
            for position in range(offset + start, offset + stop):
                scores[np.uint64(order[position])] += np.int32(low)
        elif start < stop:
            _fill_sides(sides, blocks[3, j], sets, j)
            for b in range(256):
                steps[b] = high if sides[b] else low
            column = bins[blocks[2, j]]
            for position in range(offset + start, offset + stop):
                row = np.uint64(order[position])
                scores[row] += steps[column[row]]
        before += size
