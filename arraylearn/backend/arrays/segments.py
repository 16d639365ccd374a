"""Sums, maxima and counts by key."""

from __future__ import annotations

import math
from collections.abc import Sequence

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.backend.native import native

__all__ = [
    "count_categories",
    "histogram",
    "look_up_sums",
    "paired_histogram",
    "segment_max",
    "segment_sum",
]


def segment_sum(xp: Namespace, values: Array, segments: Array, n: int) -> Array:
    """Sum the rows of `values` that share a segment id.

    Parameters
    ----------
    values : array (m, ...)
        Integer or float rows.
    segments : int array (m,)
        The segment of each row, in ``range(n)``, in any order.
    n : int
        Number of segments.

    Returns
    -------
    array (n, ...)
        Integers sum as int64, floats in the accumulator's dtype (float64 wherever the device has it). An
        empty segment sums to 0.
    """
    if fast := native(xp, "segment_sum"):
        return fast(values, segments, n)
    order = xp.argsort(segments)
    values = xp.take(_accumulating(xp, values), order, axis=0)
    running = xp.cumulative_sum(
        xp.reshape(values, (values.shape[0], math.prod(values.shape[1:]))), axis=0, include_initial=True
    )
    sums = _between_bounds(xp, running, xp.take(segments, order, axis=0), n)
    return xp.reshape(sums, (n, *values.shape[1:]))


def segment_max(xp: Namespace, values: Array, segments: Array, n: int) -> Array:
    """Find the largest of the `values` that share a segment id.

    Parameters
    ----------
    values : array (m,)
        Integers or floats without NaN.
    segments : int array (m,)
        The segment of each value, in ``range(n)``, in any order.
    n : int
        Number of segments.

    Returns
    -------
    array (n,)
        Of the dtype of `values`; an empty segment gives ``-inf``, or the smallest integer.
    """
    if fast := native(xp, "segment_max"):
        return fast(values, segments, n)
    lowest = _lowest(xp, values.dtype)
    if values.shape[0] == 0:
        return xp.full((n,), lowest, dtype=values.dtype, device=_device(values))
    by_value = xp.argsort(values)
    order = xp.take(by_value, xp.argsort(xp.take(segments, by_value, axis=0), stable=True), axis=0)
    sorted_segments = xp.take(segments, order, axis=0)
    ids = xp.arange(n, dtype=segments.dtype, device=_device(segments))
    end = xp.searchsorted(sorted_segments, ids, side="right")
    last = xp.where(end > 0, end - 1, 0)  # xp.clip of array-api-compat syncs on CuPy
    largest = xp.take(xp.take(values, order, axis=0), last, axis=0)
    is_present = (end > 0) & (xp.take(sorted_segments, last, axis=0) == ids)
    return xp.where(is_present, largest, lowest)


def histogram(xp: Namespace, keys: Array, n: int, weights: Array | None = None) -> Array:
    """Count (or sum weights) by key along the last axis.

    Parameters
    ----------
    keys : int array (..., m)
        Values of ``range(n)``.
    n : int
        Number of cells.
    weights : array (m,) or (..., m), optional
        Integers or floats; default: every key counts 1.

    Returns
    -------
    array (..., n)
        int64 for counts and integer weights; the accumulator's dtype for float weights.
    """
    if fast := native(xp, "histogram"):
        return fast(keys, n, weights)
    batch, m = keys.shape[:-1], keys.shape[-1]
    n_batches = math.prod(batch)
    keys = xp.astype(keys, xp.int64)
    offsets = n * xp.arange(n_batches, dtype=xp.int64, device=_device(keys))
    flat = xp.reshape(xp.reshape(keys, (n_batches, m)) + offsets[:, None], (-1,))
    if weights is None:
        weights = xp.ones((1,), dtype=xp.int64, device=_device(keys))
    weights = xp.reshape(xp.broadcast_to(weights, keys.shape), (-1,))
    return xp.reshape(segment_sum(xp, weights, flat, n_batches * n), (*batch, n))


def paired_histogram(
    xp: Namespace, columns: Array, keys: Array, n_values: int, n_keys: int, weights: Array | None = None
) -> Array:
    """Count each column's values by a key that all columns share.

    Parameters
    ----------
    columns : int array (d, m)
        Column-major table of values in ``range(n_values)``; uint8 is welcome.
    keys : int array (m,)
        The shared key of each row (class, node, or both) in ``range(n_keys)``.
    n_values, n_keys : int
        Sizes of the two ranges.
    weights : array (m,), optional
        Integer or float weight of each row.

    Returns
    -------
    array (d, n_keys, n_values)
        ``result[j, k, v]`` is the weight of the rows with ``keys == k`` and ``columns[j] == v``, in the
        dtype of `histogram`.
    """
    if fast := native(xp, "paired_histogram", columns):
        return fast(columns, keys, n_values, n_keys, weights)
    d, m = columns.shape
    keys, counts = xp.astype(keys, xp.int64) * n_values, None
    for rows in row_chunks(m, 24 * d):
        flat = keys[None, rows] + xp.astype(columns[:, rows], xp.int64)
        part = histogram(xp, flat, n_keys * n_values, None if weights is None else weights[rows])
        counts = part if counts is None else counts + part
    if counts is None:
        counts = histogram(xp, xp.astype(columns, xp.int64), n_keys * n_values, weights)
    return xp.reshape(counts, (d, n_keys, n_values))


def _device(x: Array) -> object:
    return array_api_compat.device(x)


def _accumulating(xp: Namespace, values: Array) -> Array:
    if xp.isdtype(values.dtype, "real floating"):
        return xp.astype(values, accumulator_dtype(Place(xp, _device(values))))
    return xp.astype(values, xp.int64)


def _between_bounds(xp: Namespace, running: Array, sorted_keys: Array, n: int) -> Array:
    bounds = xp.arange(n + 1, dtype=sorted_keys.dtype, device=_device(sorted_keys))
    return xp.diff(xp.take(running, xp.searchsorted(sorted_keys, bounds), axis=0), axis=0)


def _lowest(xp: Namespace, dtype: object) -> float | int:
    if xp.isdtype(dtype, "real floating"):
        return -math.inf
    return int(xp.iinfo(dtype).min)


# ---- columns of categories with domains of different sizes: all counted at once, all looked up at once
#
# The cells of all columns lie in one run: those of column j are ``offsets[j]`` up to ``offsets[j + 1]``, the
# first of them for the missing value (code -1), the others for the codes 0, 1, ... So a column of thousands
# of categories makes no other column wider.


def count_categories(
    xp: Namespace,
    codes: Array,
    offsets: Sequence[int],
    keys: Array,
    n_keys: int,
    weights: Array | None = None,
) -> Array:
    """Count the categories of every column by a key that all columns share.

    Parameters
    ----------
    codes : int32 array (d, n)
        Column-major codes; -1 is missing.
    offsets : sequence of d + 1 int
        The first cell of each column, and the number of all cells.
    keys : int array (n,)
        The key (class) of each row, in ``range(n_keys)``.
    n_keys : int
        Number of keys.
    weights : array (n,), optional
        Weight of each row.

    Returns
    -------
    array (offsets[d], n_keys)
        int64 counts, or sums of float weights in the accumulator's dtype.
    """
    if fast := native(xp, "count_categories"):
        return fast(codes, offsets, keys, n_keys, weights)
    d, n = codes.shape
    device = array_api_compat.device(codes)
    n_cells = offsets[d]
    first = xp.asarray(offsets[:d], dtype=xp.int64, device=device)[:, None] + 1
    counted = xp.int64 if weights is None or xp.isdtype(weights.dtype, "integral") else _sums(xp, device)
    total = xp.zeros((n_cells * n_keys,), dtype=counted, device=device)
    for rows in row_chunks(n, 48 * d):
        cell = (xp.astype(codes[:, rows], xp.int64) + first) * n_keys + xp.astype(keys[rows], xp.int64)
        part = None
        if weights is not None:
            part = xp.reshape(xp.broadcast_to(weights[rows], cell.shape), (-1,))
        total = total + histogram(xp, xp.reshape(cell, (-1,)), n_cells * n_keys, part)
    return xp.reshape(total, (n_cells, n_keys))


def look_up_sums(xp: Namespace, codes: Array, offsets: Sequence[int], table: Array) -> Array:
    """Add up, for each row, the entries of a table for its category in every column.

    Parameters
    ----------
    codes, offsets
        As for `count_categories`.
    table : float array (offsets[d], k)
        One row per cell; ``-inf`` is welcome.

    Returns
    -------
    array (n, k)
        Sums over the columns, in the dtype of `table`.
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


def _sums(xp: Namespace, device: object) -> object:
    return accumulator_dtype(Place(xp, device))
