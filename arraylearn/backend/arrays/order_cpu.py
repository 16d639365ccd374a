"""Compiled bodies of the order of columns: a radix sort, a grid over edges, a small table of hashes.

The sort takes eleven bits at a time.

keys of a row, here of two digits    31 12 22 11 32
sorted by the last digit             31 11 12 22 32
then by the one before it            11 12 22 31 32      positions move along, equal digits keep their order
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arraylearn._typing import Dtype, HostArray
from arraylearn.backend.cpu.jit import entry, index, part
from arraylearn.backend.threads import even_portions, parallel_map

__all__ = ["argsort_rows", "bin_columns", "number_values"]

_BITS = 11
_DIGITS = 1 << _BITS
# Rows of up to this length are sorted by NumPy: clearing the counters would cost as much.
_SHORT = 512
# Least number of values per thread, so that it saves more than it costs: to sort; to bin or number.
_LEAST_SORTED, _LEAST_VALUES = 50_000, 100_000
# Values of all columns that are worked on together, so that they stay in the first-level cache, and rows of a
# table in another order that are copied at once.
_VALUES = 8192
_COPIED = 16_384
# Cells of a grid for each edge, and cells at most.
_CELLS_PER_EDGE = 8
_MOST_CELLS = 1 << 15
# Bits of the position of a value in the table of hashes, and the number that means an empty position or NaN.
_HASH_BITS = 10
_NO_NUMBER = 255
# In place of the number of distinct values of a column: more than are wanted.
_UNCOUNTED = -1


def argsort_rows(values: HostArray) -> HostArray:
    """Sort rows as the program does."""
    d, m = values.shape
    if m <= _SHORT or m >= 2**31:
        return np.argsort(values, axis=-1, kind="stable")
    is_float = values.dtype.kind == "f"
    if values.dtype.itemsize < 4 or values.dtype.kind == "b":
        values = values.astype(np.float32 if is_float else np.int32)
    elif values.dtype.kind == "u":
        # the same order among signed integers of the same size
        values = values ^ values.dtype.type(1 << (8 * values.dtype.itemsize - 1))
    is_long = values.dtype.itemsize == 8
    bits = np.ascontiguousarray(values).view(np.uint64 if is_long else np.uint32)
    order = np.empty((d, m), dtype=np.int64)

    def sort(rows: tuple[int, int]) -> None:
        keys = np.empty((2, m), np.uint64)
        if is_long:
            positions, counts = np.empty((2, m), np.uint32), np.empty((6, _DIGITS), np.int64)
            _sort_long(bits, rows, is_float, keys, positions, counts, order)
        else:
            _sort_short(bits, rows, is_float, keys, np.empty((3, _DIGITS), np.int64), order)

    parallel_map(sort, even_portions(d, _LEAST_SORTED // m))
    return order


@entry
def _sort_short(
    bits: HostArray,
    rows: tuple[int, int],
    is_float: bool,
    keys: HostArray,
    counts: HostArray,
    order: HostArray,
) -> None:
    """Sort key << 32 | position by the three digits of the key."""
    n, low, half = index(bits.shape[1]), np.uint64(_DIGITS - 1), np.uint64(32)
    sign = np.uint32(1 << 31)
    for f in range(rows[0], rows[1]):
        counts[:] = 0
        row, old, new = bits[f], keys[0], keys[1]
        for i in range(n):
            word = row[i]
            if is_float and (word & ~sign) > np.uint32(0x7F800000):
                key = ~np.uint32(0)  # NaN is last
            elif is_float and word & sign:
                key = ~word if word != sign else sign  # -0.0 beside 0.0
            else:
                key = word ^ sign
            wide = np.uint64(key)
            counts[0, wide & low] += 1
            counts[1, (wide >> np.uint64(_BITS)) & low] += 1
            counts[2, wide >> np.uint64(2 * _BITS)] += 1
            old[i] = (wide << half) | np.uint64(i)
        for digit in range(3):
            starts = counts[digit]
            if _to_starts(starts, n):
                shift = half + np.uint64(digit * _BITS)
                for i in range(n):
                    own = (old[i] >> shift) & low
                    new[index(starts[own])] = old[i]
                    starts[own] += 1
                old, new = new, old
        target, mask = order[f], np.uint64((1 << 32) - 1)
        for i in range(n):
            target[i] = np.int64(old[i] & mask)


@entry
def _sort_long(
    bits: HostArray,
    rows: tuple[int, int],
    is_float: bool,
    keys: HostArray,
    positions: HostArray,
    counts: HostArray,
    order: HostArray,
) -> None:
    """Sort keys of six digits together with their positions."""
    n, low = index(bits.shape[1]), np.uint64(_DIGITS - 1)
    sign, infinity = np.uint64(1 << 63), np.uint64(0x7FF0000000000000)
    for f in range(rows[0], rows[1]):
        counts[:] = 0
        row, old, new, at_old, at_new = bits[f], keys[0], keys[1], positions[0], positions[1]
        for i in range(n):
            word = row[i]
            if is_float and (word & ~sign) > infinity:
                key = ~np.uint64(0)
            elif is_float and word & sign:
                key = ~word if word != sign else sign
            else:
                key = word ^ sign
            old[i], at_old[i] = key, np.uint32(i)
            for digit in range(6):
                counts[digit, key & low] += 1
                key >>= np.uint64(_BITS)
        for digit in range(6):
            starts = counts[digit]
            if _to_starts(starts, n):
                shift = np.uint64(digit * _BITS)
                for i in range(n):
                    own = (old[i] >> shift) & low
                    at = index(starts[own])
                    new[at], at_new[at] = old[i], at_old[i]
                    starts[own] += 1
                old, new, at_old, at_new = new, old, at_new, at_old
        target = order[f]
        for i in range(n):
            target[i] = np.int64(at_old[i])


@part
def _to_starts(counts: HostArray, n: int) -> bool:
    """Turn the counts of digits into where each begins; return whether there is more than one digit."""
    total, is_mixed = 0, True
    for j in range(counts.shape[0]):
        size = counts[j]
        is_mixed = is_mixed and size != n
        counts[j] = total
        total += size
    return is_mixed


# ---- intervals


class _Grids(NamedTuple):
    """A grid over the edges of each column: cells ascend with the values."""

    first: HostArray  # (d, size) int16: edges before each cell
    edges: HostArray  # (d, 3 * b + 1): the edges, padded with inf
    low: HostArray  # (d,) where the grid begins
    scale: HostArray  # (d,) cells per unit of the values
    steps: HostArray  # (d,) int64: the step with which the search in a cell begins


def bin_columns(x: HostArray, edges: HostArray, missing_bin: int, dtype: Dtype) -> HostArray:
    """Bin as the program does."""
    m, d = x.shape
    bins = np.empty((d, m), dtype=dtype)
    grids = _make_grids(edges, x.dtype)
    together = max(16, _VALUES // max(1, d))

    def fill(rows: tuple[int, int]) -> None:
        values, counts = np.empty(together, x.dtype), np.empty(together, np.int32)
        step = rows[1] - rows[0] if x.flags.c_contiguous else _COPIED
        for start in range(rows[0], rows[1], max(1, step)):
            chunk = np.ascontiguousarray(x[start : min(start + step, rows[1])])
            _bin_rows(chunk, start, grids, missing_bin, values, counts, bins)

    parallel_map(fill, even_portions(m, _LEAST_VALUES // max(1, d)))
    return bins


def _make_grids(edges: HostArray, dtype: Dtype) -> _Grids:
    """Lay a grid over the edges of each column."""
    d = edges.shape[0]
    n_edges = np.isfinite(edges).sum(axis=1)
    most = int(n_edges.max(initial=1))
    size = min(_MOST_CELLS, 1 << (_CELLS_PER_EDGE * most).bit_length())
    # a search that begins at the last edge may read this far beyond it
    bounds = np.full((d, 3 * most + 1), np.inf, dtype=dtype)
    bounds[:, : min(most, edges.shape[1])] = edges[:, :most]
    low, scale = np.zeros((2, d), dtype=dtype)
    if edges.shape[1]:
        last = np.maximum(n_edges - 1, 0)[:, None]
        ends = np.stack((edges[:, 0], np.take_along_axis(edges, last, axis=1)[:, 0]))
        ends = np.where(n_edges > 1, ends, 0).astype(np.float64)
        with np.errstate(over="ignore", divide="ignore"):  # then all values are in the first or last cell
            low[:], scale[:] = ends[0], np.where(n_edges > 1, (size - 2) / (ends[1] - ends[0]), 0)
    grids = _Grids(np.empty((d, size), np.int16), bounds, low, scale, np.ones(d, np.int64))
    _count_edges(grids, n_edges, np.empty(bounds.shape[1], np.int32))
    return grids


@part
def _find_cells(values: HostArray, m: int, low: float, scale: float, size: int, cells: HostArray) -> None:
    """Write the cells of `m` values. NaN is in the first."""
    nothing, last = values.dtype.type(0), values.dtype.type(size - 1)
    for i in range(m):
        place = (values[i] - low) * scale
        place = place if place > 0 else nothing
        cells[i] = np.int32(place if place < last else last)


@entry
def _count_edges(grids: _Grids, n_edges: HostArray, cells: HostArray) -> None:
    """Fill `first` and `steps`."""
    first, edges, low, scale, steps = grids
    size = first.shape[1]
    for j in range(first.shape[0]):
        _find_cells(edges[j], n_edges[j], low[j], scale[j], size, cells)
        cell = most = 0
        for i in range(n_edges[j]):
            while cell <= cells[i]:
                first[j, cell] = i
                cell += 1
            most = max(most, i + 1 - first[j, cells[i]])
        for empty in range(cell, size):
            first[j, empty] = n_edges[j]
        while 2 * steps[j] <= most:
            steps[j] *= 2


@entry
def _bin_rows(
    x: HostArray,
    start: int,
    grids: _Grids,
    missing_bin: int,
    values: HostArray,
    counts: HostArray,
    bins: HostArray,
) -> None:
    """Write the number of edges below each value, some rows at a time."""
    together, missing = values.shape[0], np.int32(missing_bin)
    for begin in range(0, x.shape[0], together):
        m = min(together, x.shape[0] - begin)
        for j in range(x.shape[1]):
            for i in range(m):
                values[i] = x[begin + i, j]
            _find_cells(values, m, grids.low[j], grids.scale[j], grids.first.shape[1], counts)
            _count_below(values, m, grids.first[j], grids.edges[j], grids.steps[j], counts)
            out = bins[j, start + begin : start + begin + m]
            for i in range(m):
                out[i] = counts[i] if values[i] == values[i] else missing


@part
def _count_below(
    values: HostArray, m: int, first: HostArray, edges: HostArray, step: int, counts: HostArray
) -> None:
    """Turn the cell of each value into the number of edges below the value.

    An edge of a later cell is above the value: halving may look past the end of a cell without counting an
    edge too many.
    """
    for i in range(m):
        counts[i] = first[np.uint32(counts[i])]
    while step:
        for i in range(m):
            is_above = values[i] > edges[np.uint32(counts[i] + (step - 1))]
            counts[i] += np.int32(step) if is_above else np.int32(0)
        step >>= 1


# ---- distinct values


def number_values(columns: HostArray, most: int) -> tuple[HostArray, HostArray] | None:
    """Return what the program does, but find values however rare they are."""
    d, n = columns.shape
    columns = np.ascontiguousarray(columns)
    words = columns.view(f"u{columns.dtype.itemsize}")
    codes, values = np.empty((d, n), np.uint8), np.full((d, most), np.inf, columns.dtype)
    sizes = np.empty(d, np.int64)

    def number(some: tuple[int, int]) -> bool:
        keys, numbers = np.empty(1 << _HASH_BITS, np.uint64), np.empty(1 << _HASH_BITS, np.uint8)
        for j in range(*some):
            sizes[j] = _number_column(columns[j], words[j], keys, numbers, codes[j], values[j])
            if sizes[j] == _UNCOUNTED:
                return False
        return True

    portions = even_portions(d, _LEAST_VALUES // n)
    if not all(parallel_map(number, portions)) or not (width := int(sizes.max())):
        return None
    order = values.argsort(axis=1)
    ranks = np.empty((d, 256), np.uint8)
    np.put_along_axis(ranks, order, np.arange(most, dtype=np.uint8)[None, :], axis=1)
    ranks[:, _NO_NUMBER] = width

    def rank(some: tuple[int, int]) -> None:
        for j in range(*some):
            np.take(ranks[j], codes[j], out=codes[j], mode="clip")

    parallel_map(rank, portions)
    return codes, np.take_along_axis(values, order[:, :width], axis=1)


@entry
def _number_column(
    column: HostArray,
    words: HostArray,
    keys: HostArray,
    numbers: HostArray,
    codes: HostArray,
    values: HostArray,
) -> int:
    """Give the values of a column numbers as they appear; return how many there are, or _UNCOUNTED."""
    last, one = index((1 << _HASH_BITS) - 1), index(1)
    spread, shift, half = np.uint64(0x9E3779B97F4A7C15), np.uint64(64 - _HASH_BITS), np.uint64(32)
    numbers[:] = _NO_NUMBER
    n_found = 0
    for i in range(index(column.shape[0])):
        if column[i] != column[i]:
            codes[i] = _NO_NUMBER
            continue
        key = np.uint64(words[i]) if column[i] != 0 else np.uint64(0)  # -0.0 is 0.0
        at = index(((key ^ (key >> half)) * spread) >> shift)
        while numbers[at] != _NO_NUMBER and keys[at] != key:
            at = (at + one) & last
        if numbers[at] == _NO_NUMBER:
            if n_found == values.shape[0]:
                return _UNCOUNTED
            keys[at], numbers[at], values[n_found] = key, n_found, column[i]
            n_found += 1
        codes[i] = numbers[at]
    return n_found
