r"""How finely numeric columns are recorded: the mean gap between their distinct values.

A standard deviation far below that gap describes the recording rather than the class, such as 0 where all
rows of a class have one of the column's values. What the gap needs is kept so that parts of the rows can be
joined: the ends of the range, and the distinct values themselves up to a number of them.
"""

from __future__ import annotations

import math
from functools import partial, reduce
from typing import NamedTuple

import array_api_compat
import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.arrays.order import argsort_rows
from arraylearn.backend.dispatch import native, numpy_body
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import HOST, Place, accumulator_dtype
from arraylearn.backend.threads import parallel_map
from arraylearn.table.categories import folded

__all__ = [
    "MOST_VALUES",
    "DistinctValues",
    "distinct_values",
    "gaps_without_one",
    "mean_gaps",
    "merge_distinct",
    "typical_sizes",
]

# Distinct values of a column are counted up to here: the gaps between more are too small to matter.
MOST_VALUES = 1024
# Rows that are read first; rows and columns that are processed at a time, so that they stay in the cache.
_FIRST, _BLOCK, _GROUP = MOST_VALUES * 5 // 4, 8192, 8
_EXTREMES = 1 << 18  # values whose smallest and largest are found at a time
# Fibonacci hashing: the upper bits of a product with 2**64 over the golden ratio.
_MULTIPLIER, _HASH_BITS = np.uint64(0x9E3779B97F4A7C15), 13


class DistinctValues(NamedTuple):
    """The distinct known values of columns; `merge_distinct` joins those of two sets of rows."""

    low: Array  # (d,) the smallest; inf where no value is known
    high: Array  # (d,) the largest; -inf where no value is known
    number: Array  # int64 (d,), at most MOST_VALUES
    values: Array  # (d, b) ascending, then inf; inf alone for a column of MOST_VALUES or more


def distinct_values(xp: Namespace, x: Array, weights: Array | None = None) -> DistinctValues:
    """Find the distinct values of columns.

    Parameters
    ----------
    x : float array (n, d)
        Rows, one at least; NaN is missing, and no value is infinite.
    weights : float array (n,), optional
        Rows of weight 0 do not count.

    Returns
    -------
    DistinctValues
        In the accumulator's dtype. It depends on nothing but the set of the values of each column.
    """
    if fast := native(xp, "distinct_values"):
        found: DistinctValues = fast(x, weights)
        return found
    device = array_api_compat.device(x)
    is_known = ~xp.isnan(x)
    if weights is not None:
        is_known = is_known & (weights > 0)[:, None]
    dtype = accumulator_dtype(Place(xp, device))
    x = xp.astype(xp.where(is_known, x, math.inf), dtype, copy=False)
    low, high = xp.min(x, axis=0), xp.max(xp.where(is_known, x, -math.inf), axis=0)
    chunks = row_chunks(x.shape[0], 8 * 8 * (x.shape[1] + 1))
    parts = (_of_lists(xp, low, high, xp.permute_dims(x[rows, :], (1, 0))) for rows in chunks)
    return reduce(partial(merge_distinct, xp), parts)


@numpy_body
def _distinct_values(x: HostArray, weights: HostArray | None) -> DistinctValues:
    dtype = accumulator_dtype(HOST)
    if weights is not None and not weights.all():
        x = x[weights > 0]
    if not x.shape[0]:
        x = np.full((1, x.shape[1]), np.nan, dtype=x.dtype)
    low, high = _extremes(x)
    # columns of continuous numbers show in the first rows that they have more values than are counted
    n_first = x.shape[0] if x.shape[0] <= 2 * _FIRST else _FIRST
    ordered = np.sort(x[:n_first].T.astype(dtype, order="C"), axis=1)
    is_distinct = ordered == ordered
    is_distinct[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    idx = np.flatnonzero(is_distinct.sum(axis=1) < MOST_VALUES)
    found = {j: ordered[j][is_distinct[j]] for j in idx.tolist()}
    if n_first < x.shape[0]:
        groups = [idx[j : j + _GROUP].tolist() for j in range(0, idx.size, _GROUP)]
        lists = parallel_map(lambda group: _list_values(x[n_first:], {j: found[j] for j in group}), groups)
        found = {j: values for group in lists for j, values in group.items() if values.size < MOST_VALUES}
    number = np.full(x.shape[1], MOST_VALUES, dtype=np.int64)
    values = np.full((x.shape[1], max(map(len, found.values()), default=0)), math.inf, dtype=dtype)
    for j, some in found.items():
        number[j] = some.size
        values[j, : some.size] = some
    return DistinctValues(low.astype(dtype), high.astype(dtype), number, values)


def _extremes(x: HostArray) -> tuple[HostArray, HostArray]:
    """Return the smallest and the largest known value of each column; inf and -inf where none is known."""
    size = max(16, _EXTREMES // max(1, x.shape[1]) // 16 * 16)
    blocks = [x[start : start + size] for start in range(0, x.shape[0], size)]
    parts = parallel_map(lambda rows: (folded(np.minimum, rows), folded(np.maximum, rows)), blocks)
    low = np.minimum.reduce([part[0] for part in parts])
    high = np.maximum.reduce([part[1] for part in parts])
    if np.isnan(low).any():  # some are missing, and these functions are slower
        low, high = np.fmin.reduce(x, axis=0), np.fmax.reduce(x, axis=0)
    is_known = ~np.isnan(low)
    return np.where(is_known, low, math.inf), np.where(is_known, high, -math.inf)


def _list_values(x: HostArray, found: dict[int, HostArray]) -> dict[int, HostArray]:
    """Add the values of more rows to the sorted ones of some columns; one is left that has MOST_VALUES.

    Known values are in a table by a hash of their bits. Values that are not found there, because they are new
    or share a cell with another one, are sorted.
    """
    tables = {j: np.full(1 << _HASH_BITS, np.nan) for j in found}
    for j, known in found.items():
        tables[j][_hashes(known)] = known
    for start in range(0, x.shape[0], _BLOCK):
        some = [j for j, known in found.items() if known.size < MOST_VALUES]
        block = x[start : start + _BLOCK, some].T.astype(np.float64, order="C")
        for j, column, key in zip(some, block, _hashes(block), strict=True):
            is_unknown = tables[j].take(key) != column
            if is_unknown.any():
                unknown = column[is_unknown]
                known = np.union1d(found[j], unknown[~np.isnan(unknown)] + 0.0)  # -0.0 becomes 0.0
                tables[j][_hashes(known)] = known
                found[j] = known
    return found


def _hashes(values: HostArray) -> HostArray:
    """Return a cell of a table for each float64."""
    cells: HostArray = (values.view(np.uint64) * _MULTIPLIER) >> np.uint64(64 - _HASH_BITS)
    return cells


def merge_distinct(xp: Namespace, a: DistinctValues, b: DistinctValues) -> DistinctValues:
    """Join the distinct values of two sets of rows; the order of all joins makes no difference."""
    low, high = xp.minimum(a.low, b.low), xp.maximum(a.high, b.high)
    joined = _of_lists(xp, low, high, xp.concat([a.values, b.values], axis=1))
    is_capped = (a.number == MOST_VALUES) | (b.number == MOST_VALUES)
    return joined._replace(
        number=xp.where(is_capped, MOST_VALUES, joined.number),
        values=xp.where(is_capped[:, None], math.inf, joined.values),
    )


def _of_lists(xp: Namespace, low: Array, high: Array, columns: Array) -> DistinctValues:
    """Keep the distinct finite values of columns (d, m)."""
    values = xp.sort(columns, axis=1)
    is_repeated = values[:, 1:] == values[:, :-1]
    if columns.shape[1] > 1:
        rest = xp.where(is_repeated, math.inf, values[:, 1:])
        values = xp.sort(xp.concat([values[:, :1], rest], axis=1), axis=1)
    values = values[:, : min(MOST_VALUES, values.shape[1])]
    number = xp.sum(xp.astype(xp.isfinite(values), xp.int64), axis=1)
    is_capped = number == MOST_VALUES
    return DistinctValues(low, high, number, xp.where(is_capped[:, None], math.inf, values))


# ---- gaps


def typical_sizes(xp: Namespace, mean: Array, var: Array) -> Array:
    """Return the root mean square of columns (..., d) of these moments; 1 where it vanishes."""
    square = mean * mean + var
    return xp.sqrt(xp.where(square > xp.finfo(square.dtype).smallest_normal, square, 1.0))


def mean_gaps(xp: Namespace, distinct: DistinctValues, otherwise: Array) -> Array:
    r"""Return the mean gap between the distinct values of each column.

    .. math:: g_j = \frac{\max_j - \min_j}{u_j - 1}

    with the number :math:`u_j` of distinct values, at most `MOST_VALUES`. `otherwise` (d,) stands in where
    there is but one. (Such a column separates no classes.)
    """
    return _gaps(xp, distinct.low, distinct.high, distinct.number, otherwise)


def _gaps(xp: Namespace, low: Array, high: Array, number: Array, otherwise: Array) -> Array:
    is_spread = number > 1
    width = xp.where(is_spread, high, 0.0) - xp.where(is_spread, low, 0.0)
    n_gaps = xp.astype(xp.where(is_spread, number - 1, 1), width.dtype)
    return xp.where(is_spread, width / n_gaps, otherwise)


def gaps_without_one(xp: Namespace, x: Array, otherwise: Array) -> tuple[Array, Array]:
    """Return the mean gaps of the columns without each row, and which rows need a fit.

    Parameters
    ----------
    x : float array (n, d)
        Two rows at least; NaN is missing.
    otherwise : float array (d,)
        What stands in for the gap of a column of one value.

    Returns
    -------
    gaps : float array (n, d)
        Mean gaps of the other rows.
    needs_fit : bool array (n,)
        Whether a column of more than one value has but one, or none, without the row.
    """
    columns = xp.permute_dims(x, (1, 0))
    order = argsort_rows(xp, columns)
    ordered = xp.take_along_axis(columns, order, axis=1)  # missing values come last
    is_step = ordered[:, 1:] != ordered[:, :-1]
    edge = xp.ones((x.shape[1], 1), dtype=xp.bool, device=array_api_compat.device(x))
    is_first, is_last = xp.concat([edge, is_step], axis=1), xp.concat([is_step, edge], axis=1)
    is_known = ~xp.isnan(columns)
    n_known = xp.sum(xp.astype(is_known, xp.int64), axis=1, keepdims=True)
    number = xp.sum(xp.astype(is_first & ~xp.isnan(ordered), xp.int64), axis=1, keepdims=True)
    alone = xp.take_along_axis(is_first & is_last, xp.argsort(order, axis=1), axis=1) & is_known

    def at(position: Array) -> Array:
        return xp.take_along_axis(ordered, xp.where(position > 0, position, 0), axis=1)

    zero = xp.zeros_like(n_known)
    low, high = at(zero), at(n_known - 1)
    left = number - xp.astype(alone, xp.int64)
    gaps = _gaps(
        xp,
        xp.where(alone & (columns == low), at(zero + 1), low),
        xp.where(alone & (columns == high), at(n_known - 2), high),
        xp.where(left < MOST_VALUES, left, MOST_VALUES),
        otherwise[:, None],
    )
    needs_fit = xp.any(alone & (left < 2), axis=0)
    return xp.permute_dims(gaps, (1, 0)), needs_fit
