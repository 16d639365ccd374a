"""Bins for histograms: quantile edges that are the same on every backend, and tables cut by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.arrays.order import bin_columns
from arraylearn.backend.dispatch import get_tuning
from arraylearn.backend.namespace import from_host, is_on_host, locate, to_host
from arraylearn.backend.threads import parallel_map

__all__ = [
    "Bins",
    "bin_table",
    "count_sorted",
    "map_columns",
    "midpoints",
    "pad_edges",
    "quantile_cuts",
    "quantile_edges",
    "sorted_columns",
]


_SEED = 20_240_229  # of the sample of rows from which edges are computed


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
    """Find the interval of each value.

    Parameters
    ----------
    x : float array (n, d)
        Values; NaN is missing.
    edges : float array (d, b)
        From `quantile_edges` or a discretization, in the dtype of `x`.

    Returns
    -------
    Bins
        Column-major bins 0 .. b, so that ``x <= edges[j, i]`` exactly when ``bin <= i``; b + 1 is missing.
        uint8 where b is at most 254.

    Examples
    --------
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


def quantile_edges(xp: Namespace, x: Array, n_bins: int) -> Array:
    """Cut each column into bins of about equal numbers of rows; the host syncs for a sorted sample.

    Parameters
    ----------
    x : float array (n, d)
        Values; NaN and infinite ones make no edges.
    n_bins : int
        At most this many bins per column, at least 2.

    Returns
    -------
    array (d, n_bins - 1)
        Strictly ascending edges in the dtype of `x`, padded with inf; the same to the last bit on every
        backend. A column with at most `n_bins` distinct values has an edge between any two neighbours. Where
        one value has more rows than a bin should, the other values share the bins that it saves.

    Notes
    -----
    Of more than 200 000 rows a sample of that size is used: the rows are cut into as many stretches of equal
    length, and one row of each is drawn with a fixed seed.

    An edge between the neighbours a < b is :math:`a + (b - a) / 2`, rounded to the dtype; where rounding
    would reach b, it is a. So a is always left of the edge and b right of it.
    """
    columns = sorted_columns(x, most=get_tuning().binning_sample)

    def cut(column: HostArray) -> HostArray:
        values, counts = count_sorted(column)
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


def map_columns(function: Callable[[HostArray], Any], columns: HostArray) -> list[Any]:
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


def quantile_cuts(counts: HostArray, n_bins: int, *, is_capped: bool) -> HostArray:
    """Choose cuts so that bins hold about equal numbers of rows.

    Parameters
    ----------
    counts : int array (u,)
        How often each distinct value occurs, in ascending order of the values.
    n_bins : int
        At most this many bins.
    is_capped : bool
        Whether a value counts for no more than the rows of a bin, so that frequent values do not use up the
        bins of the others.

    Returns
    -------
    int array
        Ascending: a cut c lies between the values c - 1 and c. All integer arithmetic, no rounding.
    """
    n_values = counts.shape[0]
    if n_values <= n_bins:
        return np.arange(1, max(n_values, 1))
    mass = counts
    if is_capped:
        for _ in range(3):  # what is saved makes the bins smaller, which saves more: three rounds come close
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
    edges: HostArray = np.where((left <= middle) & (middle < right), middle, left)
    return edges


def pad_edges(edges: Sequence[HostArray], n_bins: int, dtype: Any) -> HostArray:
    """Return edges of several columns as one array (d, n_bins - 1), padded with inf."""
    padded = np.full((len(edges), n_bins - 1), np.inf, dtype=dtype)
    for row, found in zip(padded, edges, strict=True):
        row[: found.shape[0]] = found
    return padded
