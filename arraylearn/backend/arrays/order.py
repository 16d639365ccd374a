"""Order and selection: sort keys with their rows, compress, partition, largest k, bins."""

from __future__ import annotations

import array_api_compat
import array_api_extra as xpx

from arraylearn._typing import Array, Namespace
from arraylearn.backend.native import native

__all__ = ["argsort_rows", "bin_columns", "compress", "partition", "top_k"]


def argsort_rows(xp: Namespace, values: Array) -> Array:
    """Return the stable ascending order of each row.

    Parameters
    ----------
    values : array (d, m)
        Integers or floats; -0.0 and 0.0 are equal, NaN comes last (NaNs in their old order).

    Returns
    -------
    int64 array (d, m)
        ``take_along_axis(values, order)`` is sorted; equal values keep their order.
    """
    if fast := native(xp, "argsort_rows"):
        return fast(values)
    if xp.isdtype(values.dtype, "real floating"):
        # libraries differ on where NaN and -0.0 go: sort by (is NaN, value) with both made plain
        is_missing = xp.isnan(values)
        plain = xp.where(is_missing, 0.0, values) + 0.0
        by_value = xp.argsort(plain, axis=-1, stable=True)
        last = xp.astype(xp.take_along_axis(is_missing, by_value, axis=-1), xp.int8)
        order = xp.take_along_axis(by_value, xp.argsort(last, axis=-1, stable=True), axis=-1)
    else:
        order = xp.argsort(values, axis=-1, stable=True)
    return xp.astype(order, xp.int64)


def compress(xp: Namespace, values: Array, keep: Array, size: int) -> Array:
    """Return the rows of `values` where `keep`, in order.

    Parameters
    ----------
    values : array (m, ...)
        Rows.
    keep : bool array (m,)
        Which rows stay.
    size : int
        How many are True. The caller knows it, so that no device has to report it.

    Returns
    -------
    array (size, ...)
        The kept rows in their old order.
    """
    if fast := native(xp, "compress"):
        return fast(values, keep, size)
    order = xp.argsort(xp.astype(~keep, xp.int8), stable=True)
    return xp.take(values, order[:size], axis=0)


def partition(xp: Namespace, values: Array, first: Array) -> Array:
    """Put the rows where `first` holds before the others; both keep their old order.

    Parameters
    ----------
    values : array (m, ...)
        Rows.
    first : bool array (m,)
        Which rows go to the front.

    Returns
    -------
    array (m, ...)
        The same rows, stably partitioned.
    """
    if fast := native(xp, "partition"):
        return fast(values, first)
    order = xp.argsort(xp.astype(~first, xp.int8), stable=True)
    return xp.take(values, order, axis=0)


def top_k(xp: Namespace, values: Array, k: int) -> tuple[Array, Array]:
    """Find the `k` largest values along the last axis.

    Parameters
    ----------
    values : array (..., m)
        Integers or floats without NaN.
    k : int
        Between 0 and m.

    Returns
    -------
    largest : array (..., k)
        In descending order.
    indices : int64 array (..., k)
        Where they stand; among equals the first ones, in order, so that every backend agrees.
    """
    if fast := native(xp, "top_k"):
        largest, indices = fast(values, k)
        return largest, indices
    order = xp.argsort(values, axis=-1, descending=True, stable=True)[..., :k]
    return xp.take_along_axis(values, order, axis=-1), xp.astype(order, xp.int64)


def bin_columns(xp: Namespace, x: Array, edges: Array, *, missing_bin: int) -> Array:
    """Find the interval of each value, column by column.

    Parameters
    ----------
    x : float array (m, d)
        Row-major table; NaN is missing.
    edges : float array (d, b)
        Ascending edges of each column in the dtype of `x`; a column with fewer is padded with ``inf``.
    missing_bin : int
        The bin of NaN, at most 32767.

    Returns
    -------
    uint8 or int16 array (d, m)
        Column-major bins: the number of edges below the value, so that ``x <= edges[j, i]`` exactly when
        ``bin <= i``. uint8 where `missing_bin` and b fit it.
    """
    dtype = xp.uint8 if max(missing_bin, edges.shape[1]) <= 255 else xp.int16
    if fast := native(xp, "bin_columns"):
        return fast(x, edges, missing_bin, dtype)
    columns = xp.permute_dims(x, (1, 0))
    is_missing = xp.isnan(columns)
    plain = xp.where(is_missing, 0.0, columns)
    if edges.shape[1] == 0:
        bins = xp.zeros(columns.shape, dtype=dtype, device=array_api_compat.device(x))
    else:
        # +inf lies above every edge, the padding included
        found = xpx.searchsorted(edges, plain, side="left", xp=xp)
        n_edges = xp.sum(xp.astype(xp.isfinite(edges), xp.int64), axis=1)
        bins = xp.astype(xp.minimum(found, n_edges[:, None]), dtype)
    return xp.where(is_missing, missing_bin, bins)
