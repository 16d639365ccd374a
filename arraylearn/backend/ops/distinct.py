"""Columns of few distinct values as numbers of these values."""

from __future__ import annotations

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.order import bin_columns
from arraylearn.backend.namespace import HOST, Place, from_host, read_flags, to_host
from arraylearn.backend.native import native

__all__ = ["number_by_sample", "number_values"]

# Rows that are looked at first; that no other value occurs is checked afterwards.
_SAMPLE = 5_000
# Of these, rows that show it where there are far too many values.
_GLANCE = 1_000


def number_values(xp: Namespace, columns: Array, most: int) -> tuple[Array, Array] | None:
    """Find the distinct values of columns, where all of them have few; the host waits for that.

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
    if fast := native(xp, "number_values"):
        numbered: tuple[Array, Array] | None = fast(columns, most)
        return numbered
    return number_by_sample(xp, columns, most)


def number_by_sample(xp: Namespace, columns: Array, most: int) -> tuple[Array, Array] | None:
    """Do what `number_values` does: take the values of some rows for all, and see whether they are."""
    host, place = HOST.xp, Place(xp, array_api_compat.device(columns))
    step = max(1, columns.shape[1] // _SAMPLE)
    some = to_host(columns[:, ::step])
    for part in (some[:, :_GLANCE], some):
        ordered = host.sort(part, axis=1)  # NaN comes last
        is_new = ~host.isnan(ordered)
        is_new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
        width = int(host.max(host.sum(host.astype(is_new, host.int64), axis=1)))
        if not 0 < width <= most:
            return None
    values = host.full((some.shape[0], width), host.inf, dtype=some.dtype)
    for line, known, is_first in zip(values, ordered, is_new, strict=True):
        found = known[is_first]
        line[: found.shape[0]] = found
    low, high = values[:, :-1], values[:, 1:]
    # any edge from the lower value on, below the higher one
    edges = host.where(host.isfinite(high), low, host.inf)
    values_on, edges_on = (from_host(part, place, columns.dtype) for part in (values, edges))
    codes = bin_columns(xp, xp.permute_dims(columns, (1, 0)), edges_on, missing_bin=width)
    at = xp.where(codes == width, 0, codes)
    same = xp.take_along_axis(values_on, xp.astype(at, xp.int64), axis=1) == columns
    (is_complete,) = read_flags(place, xp.all(same | xp.isnan(columns)))
    return (codes, values_on) if is_complete else None
