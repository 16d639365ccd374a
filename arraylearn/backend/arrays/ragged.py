"""Columns of categories with domains of different sizes: all counted at once, all looked up at once.

The cells of all columns lie in one run: those of column j are ``offsets[j]`` up to ``offsets[j + 1]``, the
first of them for the missing value (code -1), the others for the codes 0, 1, ... So a column of thousands
of categories makes no other column wider.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import array_api_compat
import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.dispatch import native, numpy_body
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.backend.threads import parallel_map

__all__ = ["count_categories", "look_up_sums"]


# Rows of a chunk: its keys, and what is looked up by them, stay in the second-level cache.
_CHUNK = 16_384
# Columns are joined to one key while it has at most this many values.
_MOST_CELLS = 4_096
# np.take copies pieces of up to this many bytes without a call per piece.
_FAST_PIECE = 32
_WORTH_A_THREAD = 50_000
# Below this many numbers, joining columns costs more than it saves.
_SMALL = 20_000


def count_categories(
    xp: Namespace,
    codes: Array,
    offsets: Sequence[int],
    keys: Array,
    n_keys: int,
    weights: Array | None = None,
) -> Array:
    """Count the categories of every column by a key (n,) that all columns share, such as the class.

    `codes` are int32 (d, n), column-major, -1 for missing; `offsets` (d + 1) holds the first cell of each
    column and the number of all. Return counts (offsets[d], n_keys): int64, or sums of float weights (n,) in
    the accumulator's dtype.
    """
    if fast := native(xp, "count_categories"):
        return fast(codes, offsets, keys, n_keys, weights)
    d, n = codes.shape
    device = array_api_compat.device(codes)
    n_cells = offsets[d]
    first = xp.asarray(offsets[:d], dtype=xp.int64, device=device)[:, None] + 1
    has_floats = weights is not None and not xp.isdtype(weights.dtype, "integral")
    counted = accumulator_dtype(Place(xp, device)) if has_floats else xp.int64
    total = xp.zeros((n_cells * n_keys,), dtype=counted, device=device)
    for rows in row_chunks(n, 48 * d):
        cell = (xp.astype(codes[:, rows], xp.int64) + first) * n_keys + xp.astype(keys[rows], xp.int64)
        part = None
        if weights is not None:
            part = xp.reshape(xp.broadcast_to(weights[rows], cell.shape), (-1,))
        total = total + histogram(xp, xp.reshape(cell, (-1,)), n_cells * n_keys, part)
    return xp.reshape(total, (n_cells, n_keys))


def look_up_sums(xp: Namespace, codes: Array, offsets: Sequence[int], table: Array) -> Array:
    """Add up, for each row, the entries of a table of floats for its category in every column.

    `codes` and `offsets` are those of `count_categories`; the table (offsets[d], k) has a row per cell,
    entries may be ``-inf``. Return sums (n, k) in its dtype.
    """
    if fast := native(xp, "look_up_sums"):
        return fast(codes, offsets, table)
    d, n = codes.shape
    k = table.shape[1]
    first = xp.asarray(offsets[:d], dtype=xp.int64, device=array_api_compat.device(codes))[:, None] + 1
    sums = []
    for rows in row_chunks(n, 16 * d * (k + 1)):
        cell = xp.astype(codes[:, rows], xp.int64) + first
        found = xp.take(table, xp.reshape(cell, (-1,)), axis=0)
        sums.append(xp.sum(xp.reshape(found, (d, cell.shape[1], k)), axis=0))
    return sums[0] if len(sums) == 1 else xp.concat(sums, axis=0)


# ---- NumPy: several columns share one key, chunk by chunk


@numpy_body
def _count_categories(
    codes: HostArray, offsets: Sequence[int], keys: HostArray, n_keys: int, weights: HostArray | None
) -> HostArray:
    d, n = codes.shape
    is_float = weights is not None and weights.dtype.kind == "f"
    dtype = np.float64 if is_float else np.int64
    if d * n < _SMALL and (weights is None or is_float):
        cells = (codes + _first_cells(offsets)) * n_keys + keys
        part = None if weights is None else np.broadcast_to(weights, codes.shape).ravel()
        found = np.bincount(cells.ravel(), part, minlength=offsets[d] * n_keys)
        return found.astype(dtype, copy=False).reshape(offsets[d], n_keys)
    counts = np.zeros((offsets[d], n_keys), dtype=dtype)
    shared = keys.astype(np.int32, copy=False)
    groups = _join_columns(offsets, max(1, min(_MOST_CELLS, n // 4) // n_keys))
    chunk = max(_CHUNK, 2 * _MOST_CELLS)

    def count(columns: range) -> None:
        sizes = [offsets[j + 1] - offsets[j] for j in columns]
        n_cells = math.prod(sizes) * n_keys
        cells = np.zeros(n_cells, dtype=dtype)
        buffers = _Keys(min(max(chunk, n_cells), n))
        for start in range(0, n, max(chunk, n_cells)):
            rows = slice(start, min(start + max(chunk, n_cells), n))
            key = buffers.join(codes, columns, sizes, rows, shared, n_keys)
            if weights is None:
                cells += np.bincount(key, minlength=n_cells)
            elif is_float:
                cells += np.bincount(key, weights[rows], minlength=n_cells)
            else:
                np.add.at(cells, key, weights[rows])
        joint = cells.reshape(*sizes, n_keys)
        for axis, j in enumerate(columns):
            others = tuple(a for a in range(len(sizes)) if a != axis)
            counts[offsets[j] : offsets[j + 1]] = joint.sum(axis=others) if others else joint

    run = parallel_map if d * n >= _WORTH_A_THREAD else map
    list(run(count, groups))
    return counts


@numpy_body
def _look_up_sums(codes: HostArray, offsets: Sequence[int], table: HostArray) -> HostArray:
    d, n = codes.shape
    k = table.shape[1]
    if d * n * k < _SMALL:
        return np.asarray(table.take(codes + _first_cells(offsets), axis=0).sum(axis=0))
    groups = _join_columns(offsets, min(_MOST_CELLS, max(1, n // 8)))
    sizes = [[offsets[j + 1] - offsets[j] for j in columns] for columns in groups]
    joined = [_join_tables(table, offsets, columns) for columns in groups]
    pieces = _pieces(k, table.dtype.itemsize)
    split = [[np.ascontiguousarray(table[:, piece]) for piece in pieces] for table in joined]
    sums = np.empty((n, k), dtype=table.dtype)

    def look_up(rows: slice) -> None:
        m = rows.stop - rows.start
        buffers = _Keys(m)
        found = [np.empty((m, piece.stop - piece.start), dtype=table.dtype) for piece in pieces]
        total = [np.zeros_like(part) for part in found]
        for g, columns in enumerate(groups):
            key = buffers.join(codes, columns, sizes[g], rows, None, 1)
            for p in range(len(pieces)):
                np.take(split[g][p], key, axis=0, out=found[p], mode="clip")
                total[p] += found[p]
        for piece, part in zip(pieces, total, strict=True):
            sums[rows, piece] = part

    run = parallel_map if d * n >= _WORTH_A_THREAD else map
    list(run(look_up, [slice(start, min(start + _CHUNK, n)) for start in range(0, n, _CHUNK)]))
    return sums


def _first_cells(offsets: Sequence[int]) -> HostArray:
    """Return the cell of the code 0 of each column, (d, 1)."""
    return (np.asarray(offsets[:-1], dtype=np.intp) + 1)[:, None]


class _Keys:
    """Buffers in which the codes of several columns become one key."""

    def __init__(self, size: int) -> None:
        self.narrow = np.empty(size, dtype=np.int32)
        self.wide = np.empty(size, dtype=np.intp)

    def join(
        self,
        codes: HostArray,
        columns: range,
        sizes: Sequence[int],
        rows: slice,
        last: HostArray | None,
        n_last: int,
    ) -> HostArray:
        """Return ((code_1 + 1) * size_2 + code_2 + 1) * ... + last, all of it with 32-bit arithmetic."""
        key = self.narrow[: rows.stop - rows.start]
        np.copyto(key, codes[columns[0], rows])
        shift = 1
        for j, size in zip(columns[1:], sizes[1:], strict=True):
            key *= np.int32(size)
            key += codes[j, rows]
            shift = shift * size + 1
        if shift != 0:
            key += np.int32(shift)
        if last is not None:
            key *= np.int32(n_last)
            key += last[rows]
        wide = self.wide[: key.shape[0]]
        np.copyto(wide, key)
        return wide


def _join_columns(offsets: Sequence[int], most: int) -> list[range]:
    """Cut the columns into runs with at most `most` cells together (a single one may exceed it)."""
    groups: list[range] = []
    start, cells = 0, 1
    for j in range(len(offsets) - 1):
        size = offsets[j + 1] - offsets[j]
        if j > start and cells * size > most:
            groups.append(range(start, j))
            start, cells = j, 1
        cells *= size
    if len(offsets) > 1:
        groups.append(range(start, len(offsets) - 1))
    return groups


def _join_tables(table: HostArray, offsets: Sequence[int], columns: range) -> HostArray:
    """Return the sums of the tables of several columns for every combination of their cells."""
    sums = table[offsets[columns[0]] : offsets[columns[0] + 1]]
    for j in columns[1:]:
        part = table[offsets[j] : offsets[j + 1]]
        sums = (sums[:, None, :] + part[None, :, :]).reshape(-1, table.shape[1])
    return sums


def _pieces(k: int, itemsize: int) -> list[slice]:
    """Cut k numbers into pieces whose bytes are a power of two, at most the fast size."""
    pieces, start, most = [], 0, max(1, _FAST_PIECE // itemsize)
    while start < k:
        size = min(most, 1 << ((k - start).bit_length() - 1))
        pieces.append(slice(start, start + size))
        start += size
    return pieces
