"""The order of values: sort, select in order, number the distinct values, find the intervals of values."""

from __future__ import annotations

from typing import cast

import array_api_compat
import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.dispatch import native, numpy_body
from arraylearn.backend.namespace import Place, from_host, read_flags, to_host

__all__ = ["argsort_rows", "bin_columns", "compress", "number_values"]

# Rows from which the distinct values are guessed; all rows are then checked against the guess.
_SAMPLE = 5_000
# Rows of the sample that are read first: if they have too many distinct values already, the rest is not read.
_GLANCE = 1_000


def argsort_rows(xp: Namespace, values: Array) -> Array:
    """Return the stable ascending order (d, m), int64, of each row of integers or floats.

    -0.0 and 0.0 are equal, NaN comes last (NaNs in their old order).
    """
    if fast := native(xp, "argsort_rows", values):
        return fast(values)
    if xp.isdtype(values.dtype, "real floating"):
        values = values + 0.0  # -0.0 becomes 0.0; all supported libraries sort NaN last
    return xp.astype(xp.argsort(values, axis=-1, stable=True), xp.int64, copy=False)


def compress(xp: Namespace, values: Array, keep: Array, size: int) -> Array:
    """Return the rows of `values` (m, ...) where `keep` (m,), in order.

    `size` is how many they are: the caller knows it, so that no device has to report it.
    """
    if fast := native(xp, "compress"):
        return fast(values, keep, size)
    order = xp.argsort(xp.astype(~keep, xp.int8), stable=True)
    return xp.take(values, order[:size], axis=0)


@numpy_body
def _compress(values: HostArray, keep: HostArray, size: int) -> HostArray:
    return values.compress(keep, axis=0)


def bin_columns(xp: Namespace, x: Array, edges: Array, *, missing_bin: int) -> Array:
    """Return the number of edges below each value, column by column: bins (d, m) of a table of floats (m, d).

    The edges (d, b) of each column ascend, in the dtype of `x`, padded with ``inf``: ``x <= edges[j, i]``
    exactly when ``bin <= i``. NaN gets `missing_bin`, at most 32767. uint8 where `missing_bin` and b fit it,
    else int16.
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
    # contiguous copies
    below = xp.stack([xp.searchsorted(edges[j, :] + 0.0, x[:, j] + 0.0) for j in range(d)])
    is_missing = xp.permute_dims(xp.isnan(x), (1, 0))
    return xp.astype(xp.where(is_missing, missing_bin, xp.minimum(below, n_edges[:, None])), dtype)


def number_values(xp: Namespace, columns: Array, most: int) -> tuple[Array, Array] | None:
    """Find the distinct values of columns of floats (d, n), where all columns have few; one sync.

    There is at least one column and one row, NaN is missing, no value is infinite. Return uint8 codes (d, n),
    where b stands for missing values, and the values (d, b), ascending, padded with inf; b is the largest
    number of distinct values of any column. Return None where a column has more than `most` of them (at most
    254), where all values are missing, or where a value is so rare that a sample of the rows misses it.
    """
    if fast := native(xp, "number_values", columns):
        return cast("tuple[Array, Array] | None", fast(columns, most))
    # guess that the values of some rows are all there are, and check the guess
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
