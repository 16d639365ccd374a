"""The order of rows and values: sort, keep some in order, number distinct values, find their intervals."""

from __future__ import annotations

import array_api_compat
import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.dispatch import native, numpy_body
from arraylearn.backend.namespace import Place, from_host, read_flags, to_host

__all__ = ["argsort_rows", "bin_columns", "compress", "number_values"]

# Rows that are looked at first; that no other value occurs is checked afterwards.
_SAMPLE = 5_000
# Of these, rows that show it where there are far too many values.
_GLANCE = 1_000


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
    if fast := native(xp, "argsort_rows", values):
        return fast(values)
    if xp.isdtype(values.dtype, "real floating"):
        values = values + 0.0  # -0.0 becomes 0.0; every library of ours sorts NaN last
    return xp.astype(xp.argsort(values, axis=-1, stable=True), xp.int64, copy=False)


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


@numpy_body
def _compress(values: HostArray, keep: HostArray, size: int) -> HostArray:
    return values.compress(keep, axis=0)


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
    if fast := native(xp, "bin_columns", x):
        return fast(x, edges, missing_bin, dtype)
    (m, d), b = x.shape, edges.shape[1]
    if d == 0 or b == 0:
        zeros = xp.zeros((d, m), dtype=dtype, device=array_api_compat.device(x))
        return xp.where(xp.isnan(xp.permute_dims(x, (1, 0))), missing_bin, zeros)
    # +inf lies above every edge, the padding included
    n_edges = xp.sum(xp.astype(xp.isfinite(edges), xp.int64), axis=1)
    bins = []
    for j in range(d):
        column = x[:, j] + 0.0  # a copy side by side in memory
        found = xp.minimum(xp.searchsorted(edges[j, :] + 0.0, column), n_edges[j])
        bins.append(xp.astype(xp.where(xp.isnan(column), missing_bin, found), dtype))
    return xp.stack(bins)


def number_values(xp: Namespace, columns: Array, most: int) -> tuple[Array, Array] | None:
    """Find the distinct values of columns, where all of them have few; one sync.

    Parameters
    ----------
    columns : float array (d, n)
        One column and one row at least; NaN is missing; no infinity.
    most : int
        How many values a column may have, at most 254.

    Returns
    -------
    codes : uint8 array (d, n)
        The number of each value in its column; b for missing ones.
    values : float array (d, b)
        The values, ascending, padded with inf; b is the number of values of the column that has the most.
        None where a column has too many values, or no column has any. Where values are so rare that they do
        not show in a part of the rows, also None.
    """
    if fast := native(xp, "number_values", columns):
        numbered: tuple[Array, Array] | None = fast(columns, most)
        return numbered
    # take the values of some rows for all, and see whether they are
    place = Place(xp, array_api_compat.device(columns))
    step = max(1, columns.shape[1] // _SAMPLE)
    some = to_host(columns[:, ::step])
    for part in (some[:, :_GLANCE], some):
        ordered = np.sort(part, axis=1)  # NaN comes last
        is_new = ~np.isnan(ordered)
        is_new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
        width = int(is_new.sum(axis=1).max())
        if not 0 < width <= most:
            return None
    values = np.full((some.shape[0], width), np.inf, dtype=some.dtype)
    for row, known, is_first in zip(values, ordered, is_new, strict=True):
        found = known[is_first]
        row[: found.shape[0]] = found
    # any edge from the lower value on, below the higher one
    edges = np.where(np.isfinite(values[:, 1:]), values[:, :-1], np.inf)
    values_on, edges_on = (from_host(part, place, columns.dtype) for part in (values, edges))
    codes = bin_columns(xp, xp.permute_dims(columns, (1, 0)), edges_on, missing_bin=width)
    at = xp.where(codes == width, 0, codes)
    same = xp.take_along_axis(values_on, xp.astype(at, xp.int64), axis=1) == columns
    (is_complete,) = read_flags(place, xp.all(same | xp.isnan(columns)))
    return (codes, values_on) if is_complete else None
