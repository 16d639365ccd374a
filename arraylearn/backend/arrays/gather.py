"""Chosen rows and columns of a matrix: find the largest, read, write, combine."""

from __future__ import annotations

import array_api_compat
import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.dispatch import native, numpy_body
from arraylearn.backend.threads import one_thread_per_product

__all__ = ["combine_rows", "gather_block", "put", "top_k"]


# Rows of up to this length are sorted, not partitioned, for their largest values.
_SHORT_ROW = 1024
# Rows that stay in the cache while they are added, or while columns are taken from them.
_CHUNK_ROWS = 32
# Rows of up to so many times the wanted columns are first copied whole: reading in order is then faster than
# reading cell by cell.
_COPIED_SHARE = 20


def top_k(xp: Namespace, values: Array, k: int) -> tuple[Array, Array]:
    """Return the `k` (0 to m) largest values (..., k) along the last axis of (..., m), descending, and where.

    Values are integers or floats without NaN. The indices are int64; among equals the first ones come, in
    order, so that every backend agrees.
    """
    if fast := native(xp, "top_k"):
        return tuple(fast(values, k))
    order = xp.argsort(values, axis=-1, descending=True, stable=True)[..., :k]
    return xp.take_along_axis(values, order, axis=-1), xp.astype(order, xp.int64)


def put(xp: Namespace, x: Array, idx: Array, values: Array) -> Array:
    """Return a copy of `x` (n,) in which ``x[idx[k]]`` is ``values[k]``; positions (m,) are distinct."""
    if idx.shape[0] == 0:
        return x
    if fast := native(xp, "put"):
        return fast(x, idx, values)
    order = xp.argsort(idx)
    ordered = xp.take(idx, order, axis=0)
    lane = xp.arange(x.shape[0], dtype=idx.dtype, device=array_api_compat.device(x))
    found = xp.minimum(xp.searchsorted(ordered, lane), idx.shape[0] - 1)
    is_new = xp.take(ordered, found, axis=0) == lane
    return xp.where(is_new, xp.take(xp.take(values, order, axis=0), found, axis=0), x)


def gather_block(xp: Namespace, rows: Array, slots: Array, columns: Array) -> Array:
    """Return ``rows[slots][:, columns]`` (m, k) of a store of matrix rows (c, n)."""
    if fast := native(xp, "gather_block"):
        return fast(rows, slots, columns)
    n = rows.shape[1]
    flat = xp.reshape(slots[:, None] * n + columns[None, :], (-1,))
    return xp.reshape(xp.take(xp.reshape(rows, (-1,)), flat, axis=0), (slots.shape[0], columns.shape[0]))


def combine_rows(xp: Namespace, rows: Array, slots: Array, weights: Array) -> Array:
    """Return the sum (n,) of ``weights[k] * rows[slots[k]]`` over a store of matrix rows (c, n).

    It is taken in the dtype of `rows`, and returned in that of `weights`.
    """
    if fast := native(xp, "combine_rows"):
        return fast(rows, slots, weights)
    return xp.astype(xp.astype(weights, rows.dtype) @ xp.take(rows, slots, axis=0), weights.dtype)


# ---- NumPy


@numpy_body
def _top_k(values: HostArray, k: int) -> tuple[HostArray, HostArray]:
    m = values.shape[-1]
    if k == 0 or m == 0:
        return values[..., :0], np.zeros((*values.shape[:-1], 0), dtype=np.int64)
    if m <= _SHORT_ROW:
        order = _descending(values)[..., :k]
        return np.take_along_axis(values, order, axis=-1), order
    kth = np.partition(values, m - k, axis=-1)[..., m - k, None]
    # all that exceed the k-th, and the first of those that equal it
    is_above, is_equal = values > kth, values == kth
    n_equal = k - np.count_nonzero(is_above, axis=-1, keepdims=True)
    chosen = is_above | (is_equal & (np.cumsum(is_equal, axis=-1) <= n_equal))
    indices = np.nonzero(chosen)[-1].reshape(*values.shape[:-1], k)
    largest = np.take_along_axis(values, indices, axis=-1)
    order = _descending(largest)
    return np.take_along_axis(largest, order, axis=-1), np.take_along_axis(indices, order, axis=-1)


def _descending(values: HostArray) -> HostArray:
    """Return a stable descending order: reverse, sort ascending, reverse back."""
    order = np.argsort(values[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return np.asarray(values.shape[-1] - 1 - order)


@numpy_body
def _put(x: HostArray, idx: HostArray, values: HostArray) -> HostArray:
    result = x.copy()
    result[idx] = values
    return result


@numpy_body
def _gather_block(rows: HostArray, slots: HostArray, columns: HostArray) -> HostArray:
    n, k = rows.shape[1], columns.shape[0]
    if n > _COPIED_SHARE * k:
        cells: HostArray = rows.reshape(-1).take(slots[:, None] * n + columns, mode="clip")
        return cells
    block = np.empty((slots.shape[0], k), dtype=rows.dtype)
    for start in range(0, slots.shape[0], _CHUNK_ROWS):
        chunk = slice(start, start + _CHUNK_ROWS)
        rows.take(slots[chunk], axis=0, mode="clip").take(columns, axis=1, out=block[chunk], mode="clip")
    return block


@numpy_body
def _combine_rows(rows: HostArray, slots: HostArray, weights: HostArray) -> HostArray:
    used = np.flatnonzero(weights)
    slots, weights = slots[used], weights[used]
    total = np.zeros(rows.shape[1], dtype=weights.dtype)
    # in pieces that stay in the cache, instead of one copy of all rows
    piece = np.empty((min(_CHUNK_ROWS, slots.shape[0]), rows.shape[1]), dtype=rows.dtype)
    with one_thread_per_product():
        for start in range(0, slots.shape[0], _CHUNK_ROWS):
            some = slots[start : start + _CHUNK_ROWS]
            taken = piece[: some.shape[0]]
            rows.take(some, axis=0, out=taken, mode="clip")
            total += weights[start : start + _CHUNK_ROWS].astype(rows.dtype) @ taken
    return total
