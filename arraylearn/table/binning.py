"""Bins for histograms: quantile edges that are the same on every backend, and tables cut by them.

`Binning` also gives the categories of nominal columns a bin each, and missing values the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from arraylearn._typing import Array, Dtype, HostArray, Namespace
from arraylearn.backend.arrays.order import bin_columns
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.dispatch import get_tuning
from arraylearn.backend.namespace import HOST, Place, from_host, is_on_host, locate, to_host
from arraylearn.backend.threads import parallel_map
from arraylearn.table.schema import MISSING_CODE, Table
from arraylearn.weights import grid_weights

__all__ = [
    "Binning",
    "Bins",
    "apply_binning",
    "bin_table",
    "count_sorted",
    "learn_binning",
    "map_columns",
    "midpoints",
    "order_categories",
    "pad_edges",
    "place_bins",
    "quantile_cuts",
    "quantile_edges",
    "sorted_columns",
]


Result = TypeVar("Result")

_SEED = 20_240_229  # of the sample of rows from which edges are computed
# Positions of bins are integers up to this.
_POSITIONS = 1 << 24


class Bins(NamedTuple):
    """A table of bin numbers."""

    codes: Array  # (d, n) uint8 or int16, column-major
    edges: Array  # (d, b) ascending, padded with inf

    @property
    def missing_bin(self) -> int:
        """The bin of missing values, after those of the intervals."""
        return int(self.edges.shape[1]) + 1

    @property
    def n_bins(self) -> int:
        """Number of bins, that of the missing values included."""
        return self.missing_bin + 1


def bin_table(xp: Namespace, x: Array, edges: Array) -> Bins:
    """Find the interval of each value of (n, d) by edges (d, b) in their dtype; NaN is missing.

    Bins are column-major, 0 .. b, so that ``x <= edges[j, i]`` exactly when ``bin <= i``; b + 1 is missing.
    uint8 where b is at most 254.

    >>> import numpy as np
    >>> from arraylearn.table import bin_table, quantile_edges
    >>> x = np.array([[1.0], [2.0], [np.nan], [4.0]])
    >>> edges = quantile_edges(np, x, 255)
    >>> edges[:, :3]
    array([[1.5, 3. , inf]])
    >>> bin_table(np, x, edges).codes
    array([[  0,   1, 255,   2]], dtype=uint8)
    """
    return Bins(bin_columns(xp, x, edges, missing_bin=edges.shape[1] + 1), edges)


def quantile_edges(xp: Namespace, x: Array, n_bins: int, weights: HostArray | None = None) -> Array:
    """Cut each column (n, d) into at most `n_bins` bins (2 or more) of about equal numbers of rows.

    Rows count by their `weights` (n,), if there are any: a common factor changes nothing, weight 0 leaves a
    row out, and weight 2 is the row twice.

    Return strictly ascending edges (d, n_bins - 1) in the dtype of `x`, padded with inf; the same to the last
    bit on every backend. NaN and infinite values make no edges. A column with at most `n_bins` distinct
    values has an edge between any two neighbours. Where one value has more rows than a bin should, the other
    values share the bins that it saves.

    The host syncs for sorted columns. Of more than 200 000 rows a sample of that size is used: the rows are
    cut into as many stretches of equal length, and one row of each is drawn with a fixed seed. An edge
    between the neighbours a < b is :math:`a + (b - a) / 2`, rounded to the dtype; where rounding would reach
    b, it is a. So a is always left of the edge and b right of it.
    """
    most = get_tuning().binning_sample
    if weights is None:
        columns = sorted_columns(x, most=most)
    else:
        rows = np.arange(x.shape[0]) if x.shape[0] <= most else _sample_rows(x.shape[0], most)
        rows = rows[weights[rows] > 0]
        columns = np.array(to_host(x)[rows].T, order="C")
        weights = grid_weights(weights[rows])[0].astype("int64")

    def cut(column: HostArray) -> HostArray:
        values, counts = count_sorted(column) if weights is None else _weigh_values(column, weights)
        if counts.shape[0] > n_bins:
            counts = counts // np.gcd.reduce(counts)  # so that rows repeated alike are cut alike
        return midpoints(values, quantile_cuts(counts, n_bins, is_capped=True))

    return from_host(pad_edges(map_columns(cut, columns), n_bins, columns.dtype), locate(x), x.dtype)


def sorted_columns(x: Array, *, most: int | None = None) -> HostArray:
    """Return the sorted columns (d, m) of a table (n, d) on the host; of `most` rows if there are more."""
    home = locate(x)
    rows = None if most is None or x.shape[0] <= most else _sample_rows(x.shape[0], most)
    if not is_on_host(home):
        taken = x if rows is None else home.xp.take(x, from_host(rows, home), axis=0)
        return to_host(home.xp.sort(home.xp.permute_dims(taken, (1, 0)), axis=1))
    taken = to_host(x) if rows is None else to_host(x)[rows]
    columns = np.array(taken.T, order="C")
    map_columns(lambda column: column.sort(), columns)
    return columns


def map_columns(function: Callable[[HostArray], Result], columns: HostArray) -> list[Result]:
    """Call `function` with each row of `columns`, on several threads where there is enough to do."""
    if columns.size < get_tuning().binning_thread_values:
        return [function(column) for column in columns]
    return parallel_map(function, columns)


def _sample_rows(n: int, size: int) -> HostArray:
    """Draw one row of each of `size` stretches of equal length; ascending."""
    bounds = np.arange(size + 1, dtype=np.int64) * n // size
    return np.random.default_rng(_SEED).integers(bounds[:-1], bounds[1:])


def count_sorted(column: HostArray) -> tuple[HostArray, HostArray]:
    """Return the distinct finite values of a sorted column and how often each occurs."""
    finite = column[np.isfinite(column)] + column.dtype.type(0)  # no negative zero
    if not finite.shape[0]:
        return finite, np.zeros(0, dtype=np.int64)
    starts = np.flatnonzero(np.concatenate(([True], finite[1:] != finite[:-1])))
    return finite[starts], np.diff(starts, append=finite.shape[0])


def _weigh_values(column: HostArray, weights: HostArray) -> tuple[HostArray, HostArray]:
    """Return the distinct finite values of a column, ascending, and the int64 weight of each."""
    order = np.argsort(column, kind="stable")
    values, _ = count_sorted(column[order])
    kept = order[np.isfinite(column[order])]
    held = histogram(HOST.xp, np.searchsorted(values, column[kept]), values.shape[0], weights[kept])
    # below 2**40, so that products with a number of bins are integers of 64 bits
    return values, np.maximum(held // (1 + (int(held.sum()) >> 40)), 1)


def quantile_cuts(counts: HostArray, n_bins: int, *, is_capped: bool) -> HostArray:
    """Choose cuts so that at most `n_bins` bins hold about equal numbers of rows.

    `counts` (u,) is how often each distinct value occurs, ascending. `is_capped`: a value counts for no more
    than the rows of a bin, so that frequent values do not use up the bins of the others. Return ascending
    integers: a cut c lies between the values c - 1 and c. All integer arithmetic, no rounding.
    """
    n_values = counts.shape[0]
    if n_values <= n_bins:
        return np.arange(1, max(n_values, 1))
    mass = counts
    if is_capped:
        # Smaller bins mean that more values fill a bin of their own, which makes the bins smaller again:
        # three rounds come close to the limit.
        for _ in range(3):
            mass = np.minimum(mass, -(-int(mass.sum()) // n_bins))
    total = np.cumsum(mass)
    wanted = np.arange(1, n_bins) * int(total[-1]) // n_bins
    right = np.searchsorted(total, wanted)  # total[right - 1] < wanted <= total[right]
    below = np.where(right > 0, total[right - 1], 0)
    cuts = np.where(wanted - below < total[right] - wanted, right, right + 1)
    return np.unique(np.minimum(np.maximum(cuts, 1), n_values - 1))


def midpoints(values: HostArray, cuts: HostArray) -> HostArray:
    """Return edges between the values beside each cut: left <= edge < right in their dtype."""
    left, right = values[cuts - 1], values[cuts]
    half = values.dtype.type(0.5)
    with np.errstate(over="ignore"):
        middle = left + (right - left) * half
    middle = np.where(np.isfinite(middle), middle, left * half + right * half)
    return np.asarray(np.where((left <= middle) & (middle < right), middle, left))


def pad_edges(edges: Sequence[HostArray], n_bins: int, dtype: Dtype) -> HostArray:
    """Return edges of several columns as one array (d, n_bins - 1), padded with inf."""
    padded = np.full((len(edges), n_bins - 1), np.inf, dtype=dtype)
    for row, found in zip(padded, edges, strict=True):
        row[: found.shape[0]] = found
    return padded


# ---- numbers and categories


class Binning(NamedTuple):
    """How values become bins."""

    edges: Array  # (d_numeric, b), padded with inf
    category_bin: Array  # (d_nominal, v + 1) int32: the bin of code - 1, the first for missing
    n_bins: int  # the last bin is that of missing values


def learn_binning(place: Place, table: Table, max_bins: int, weights: HostArray | None = None) -> Binning:
    """Choose at most `max_bins` bins per column; the host syncs for a sorted sample and for counts.

    Rows count by their `weights` (n,), as for `quantile_edges`.
    """
    xp, max_bins = place.xp, int(max_bins)
    edges = xp.zeros((0, 0), dtype=table.numeric.dtype, device=place.device)
    n_edges = 0
    if table.numeric.shape[1]:
        edges = quantile_edges(xp, table.numeric, max_bins, weights)
        n_edges = int(to_host(xp.max(xp.sum(xp.astype(xp.isfinite(edges), xp.int64), axis=1))))
    n_bins = max(n_edges + 1, min(max(table.schema.n_values, default=0), max_bins), 2) + 1
    if table.numeric.shape[1]:
        shape = (edges.shape[0], max(0, n_bins - 2 - edges.shape[1]))
        padding = xp.full(shape, xp.inf, dtype=edges.dtype, device=place.device)
        edges = xp.concat((edges, padding), axis=1)[:, : n_bins - 2]
    return Binning(edges, _learn_categories(place, table, n_bins, weights), n_bins)


def _learn_categories(place: Place, table: Table, n_bins: int, weights: HostArray | None) -> Array:
    """Give each category a bin; of too many, the rarest share one."""
    xp, n_values = place.xp, table.schema.n_values
    most = max(n_values, default=0)
    if not n_values:
        return xp.zeros((0, 1), dtype=xp.int32, device=place.device)
    weights_on = None
    if weights is not None:
        weights_on = from_host(grid_weights(weights)[0], place, xp.int64)
    counts = to_host(histogram(xp, xp.astype(table.codes, xp.int64) + 1, most + 1, weights_on))
    capacity = n_bins - 1
    of_columns: HostArray = np.full(counts.shape, n_bins - 1, dtype=np.int32)
    for bins_of, frequency, size in zip(of_columns, counts, n_values, strict=True):
        rank = np.arange(size)
        if size > capacity:
            rank = np.minimum(np.argsort(np.argsort(-frequency[1 : size + 1], stable=True)), capacity - 1)
        bins_of[1 : size + 1] = rank
    return from_host(of_columns, place, xp.int32)


def order_categories(
    place: Place, binning: Binning, table: Table, codes: HostArray, weights: HostArray | None = None
) -> Binning:
    """Put the categories of nominal columns in the order of their mean class; the host syncs for them."""
    if not table.schema.n_values:
        return binning
    capacity = binning.n_bins - 1
    of_columns: HostArray = np.full(
        binning.category_bin.shape, capacity, dtype=np.int32
    )  # the last bin: missing
    for bins_of, column, size in zip(of_columns, to_host(table.codes), table.schema.n_values, strict=True):
        known = column != MISSING_CODE
        held = None if weights is None else weights[known]
        number = histogram(HOST.xp, column[known], size, held)
        score = np.astype(codes[known], np.float64)
        mean = histogram(HOST.xp, column[known], size, score if held is None else score * held)
        rank = np.argsort(np.argsort(mean / np.where(number > 0, number, 1), stable=True), stable=True)
        bins_of[1 : size + 1] = rank if size <= capacity else rank * capacity // size
    return binning._replace(category_bin=from_host(of_columns, place, place.xp.int32))


def apply_binning(xp: Namespace, binning: Binning, table: Table) -> Array:
    """Return the bins (d, n) of a table, numeric columns first."""
    parts = []
    if table.numeric.shape[1]:
        parts.append(bin_table(xp, table.numeric, xp.astype(binning.edges, table.numeric.dtype)).codes)
    if table.codes.shape[0]:
        width = binning.category_bin.shape[1]
        first = xp.arange(table.codes.shape[0], dtype=xp.int64, device=table.codes.device)[:, None] * width
        cell = xp.reshape(xp.astype(table.codes, xp.int64) + 1 + first, (-1,))
        bins = xp.take(xp.reshape(binning.category_bin, (-1,)), cell, axis=0)
        dtype = xp.uint8 if binning.n_bins <= 256 else xp.int16
        parts.append(xp.reshape(xp.astype(bins, dtype), table.codes.shape))
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)


def place_bins(place: Place, binning: Binning) -> Array:
    """Return where the bins of each column lie, as integers that ascend through all columns (d * n_bins,).

    Bins of numbers lie where their values do, those of categories side by side, missing values beyond.
    """
    n_bins, edges = binning.n_bins, to_host(binning.edges)
    n_numeric, n_nominal = int(edges.shape[0]), int(binning.category_bin.shape[0])
    of_columns = np.tile(np.linspace(0.0, 1.0, n_bins), (n_numeric + n_nominal, 1))
    for bins_of, row in zip(of_columns, edges, strict=False):
        known = np.astype(row[np.isfinite(row)], np.float64)
        if known.shape[0] < 2:
            continue
        middle = known[:-1] + (known[1:] - known[:-1]) / 2
        ends = (known[0] - (known[1] - known[0]) / 2, known[-1] + (known[-1] - known[-2]) / 2)
        values = np.concat((np.asarray(ends[:1]), middle, np.asarray(ends[1:])))
        bins_of[: values.shape[0]] = (values - ends[0]) / (ends[1] - ends[0])
        bins_of[values.shape[0] :] = 1.0
    integers = np.astype(np.round(of_columns * _POSITIONS), np.int64)
    integers[:, -1] += _POSITIONS // 8  # missing values
    first = np.arange(of_columns.shape[0])[:, None] * (2 * _POSITIONS)
    return from_host((integers + first).reshape(-1), place)
