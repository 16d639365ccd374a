"""Numeric columns to intervals: of equal width, of equal frequency, or by a tree of class entropy."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.arrays.order import argsort_rows
from arraylearn.backend.namespace import HOST, from_host, locate, move, to_host
from arraylearn.backend.selector import choose_place
from arraylearn.backend.threads import parallel_map
from arraylearn.checks import check_choice, check_integer
from arraylearn.table.binning import (
    bin_table,
    count_sorted,
    map_columns,
    midpoints,
    pad_edges,
    quantile_cuts,
    sorted_columns,
)
from arraylearn.table.labels import encode_labels
from arraylearn.table.read import learn_schema, read_table
from arraylearn.table.schema import MISSING_CODE

__all__ = [
    "DISCRETIZERS",
    "Discretization",
    "apply_edges",
    "discretize",
    "equal_frequency_edges",
    "equal_width_edges",
    "tree_edges",
]


_MOST_BINS = 32_766  # bin numbers and the missing bin are at most int16


class Discretization(NamedTuple):
    """Intervals of numeric columns."""

    codes: Array  # (n, d) int32: the interval of each value; -1 is missing
    edges: Array  # (d, b) ascending upper ends of all intervals but the last, padded with inf


def discretize(
    X: Any, y: Any = None, *, method: Literal["width", "frequency", "tree"] = "frequency", n_bins: int = 10
) -> Discretization:
    """Cut the columns of a numeric table into intervals.

    Parameters
    ----------
    X : array or data frame (n, d)
        Numbers; NaN is missing.
    y : array-like (n,), optional
        Class labels, for ``method="tree"``.
    method : {"width", "frequency", "tree"}
        Intervals of equal width, of equal numbers of rows, or those found by a one-attribute tree that splits
        by class entropy and stops by the minimum description length [1]_.
    n_bins : int
        Number of intervals; fewer where a column has too few distinct values, or the tree stops earlier.

    Returns
    -------
    Discretization
        Codes and edges in the library and on the device of `X`. A value v has code i where
        ``edges[i - 1] < v <= edges[i]``. `apply_edges` cuts other rows alike.

    References
    ----------
    .. [1] U. Fayyad and K. Irani, "Multi-interval discretization of continuous-valued attributes for
       classification learning", IJCAI 1993.

    Examples
    --------
    >>> import numpy as np
    >>> from arraylearn.table import discretize
    >>> X = np.array([[23.0], [30.0], [40.0], [45.0], [55.0], [60.0]])
    >>> discretize(X, method="width", n_bins=3).edges
    array([[35.33333333, 47.66666667]])
    >>> discretize(X, method="frequency", n_bins=3).codes.T
    array([[0, 0, 1, 1, 2, 2]], dtype=int32)
    >>> y = np.repeat([0, 1], 30)
    >>> discretize(np.arange(60.0)[:, None], y, method="tree").edges[:, :2]
    array([[29.5,  inf]])
    """
    check_choice("method", method, DISCRETIZERS)
    check_integer("n_bins", n_bins, 2, _MOST_BINS)
    home = locate(X)
    x = read_table(X, learn_schema(X, categorical_features=None), choose_place(home)).numeric
    labels = None
    if method == "tree":
        if y is None:
            raise ValueError(
                "`method='tree'` needs the class labels: pass `y`, or use 'width' or 'frequency'."
            )
        labels = encode_labels(y).codes
        if labels.shape[0] != x.shape[0]:
            raise ValueError(f"`y` has {labels.shape[0]} labels for {x.shape[0]} rows of `X`.")
    edges = DISCRETIZERS[method](locate(x).xp, x, n_bins, labels)
    return Discretization(move(_interval_codes(x, edges), home), move(edges, home))


def apply_edges(X: Any, edges: Array) -> Array:
    """Find the interval of each value by known edges.

    Parameters
    ----------
    X : array or data frame (n, d)
        Numbers; NaN is missing.
    edges : array (d, b)
        From `discretize`.

    Returns
    -------
    int32 array (n, d)
        Codes as in `Discretization`, in the library and on the device of `X`.

    Examples
    --------
    >>> from arraylearn.table import apply_edges
    >>> apply_edges([[1.0], [2.5], [None]], [[2.0]])
    array([[ 0],
           [ 1],
           [-1]], dtype=int32)
    """
    home = locate(X)
    place = choose_place(home)
    table = read_table(X, learn_schema(X, categorical_features=None), place)
    known = np.asarray(to_host(edges))
    if known.ndim != 2 or known.shape[0] != table.schema.n_columns:
        raise ValueError(
            f"`edges` must have a row for each of the {table.schema.n_columns} columns of `X`; got shape "
            f"{known.shape}."
        )
    return move(_interval_codes(table.numeric, from_host(known, place, table.numeric.dtype)), home)


def _interval_codes(x: Array, edges: Array) -> Array:
    xp = locate(x).xp
    bins = bin_table(xp, x, edges)
    codes = xp.astype(bins.codes, xp.int32)
    return xp.permute_dims(xp.where(codes == bins.missing_bin, MISSING_CODE, codes), (1, 0))


# ---- edges: the same signature for each method
#
# x (n, d) holds floats; NaN and infinite ones do not count. Return strictly ascending edges (d, n_bins - 1)
# in the dtype of `x`, padded with inf, for at most `n_bins` intervals. `labels` (n,) are class codes, read by
# the tree only.


def equal_width_edges(xp: Namespace, x: Array, n_bins: int, labels: Array | None = None) -> Array:
    r"""Cut the range of each column into `n_bins` equal parts; the host syncs for the range.

    .. math:: e_i = a + i (b - a) / n, \quad i = 1 \dots n - 1
    """
    is_value = xp.isfinite(x)
    low = xp.min(xp.where(is_value, x, math.inf), axis=0)
    high = xp.max(xp.where(is_value, x, -math.inf), axis=0)
    bounds = to_host(xp.stack([low, high]))
    steps = np.arange(1, n_bins)

    def cut(low: float, high: float) -> HostArray:
        if not low < high:
            return bounds[0, :0]
        start, span = float(low), float(high) - float(low)
        if span < 1e300:
            exact = start + span * steps / n_bins
        else:  # this order of operations cannot overflow, but rounds more
            exact = start * (1 - steps / n_bins) + float(high) * (steps / n_bins)
        edges = np.unique(exact.astype(bounds.dtype))
        return edges[: np.searchsorted(edges, high)]

    edges = pad_edges([cut(*bound) for bound in bounds.T], n_bins, bounds.dtype)
    return from_host(edges, locate(x), x.dtype)


def equal_frequency_edges(xp: Namespace, x: Array, n_bins: int, labels: Array | None = None) -> Array:
    """Cut each column half way between neighbours, into intervals of about equal numbers of rows.

    Equal values are never parted, so there may be fewer; the host syncs for the sorted columns.
    """
    columns = sorted_columns(x)

    def cut(column: HostArray) -> HostArray:
        values, counts = count_sorted(column)
        return midpoints(values, quantile_cuts(counts, n_bins, is_capped=False))

    return from_host(pad_edges(map_columns(cut, columns), n_bins, columns.dtype), locate(x), x.dtype)


def tree_edges(xp: Namespace, x: Array, n_bins: int, labels: Array | None = None) -> Array:
    r"""Cut each column where a tree on that column alone would split by class entropy; on the host.

    A split of N rows of k classes into parts 1 and 2 is kept if its gain exceeds the cost of its description:

    .. math::
        G > \frac{\log_2(N - 1)}{N} + \frac{\log_2(3^k - 2) - [k H - k_1 H_1 - k_2 H_2]}{N}

    The splits that gain most come first. Edges are half way between neighbours.
    """
    if labels is None:
        raise ValueError("`labels` must hold the class codes for the edges of a tree; got None.")
    classes = to_host(labels)
    columns = np.ascontiguousarray(to_host(x).T)
    order = argsort_rows(HOST.xp, columns)
    n_classes = int(classes.max()) + 1

    def cut(j: int) -> HostArray:
        column, label = columns[j].take(order[j]), classes.take(order[j])
        label = label[np.isfinite(column)]
        values, counts = count_sorted(column)
        key = np.repeat(np.arange(values.shape[0]), counts) * n_classes + label
        by_value = np.bincount(key, minlength=values.shape[0] * n_classes).reshape(-1, n_classes)
        return midpoints(values, _entropy_cuts(by_value, n_bins))

    found = parallel_map(cut, range(columns.shape[0]))
    return from_host(pad_edges(found, n_bins, columns.dtype), locate(x), x.dtype)


def _entropy_cuts(counts: HostArray, n_bins: int) -> HostArray:
    """Split the distinct values, given their class counts (u, k), best split first, while each one pays."""
    total = np.concatenate((np.zeros((1, counts.shape[1]), dtype=np.int64), np.cumsum(counts, axis=0)))
    splits: list[tuple[float, int, int, int]] = []
    cuts: list[int] = []

    def consider(start: int, end: int) -> None:
        split = _best_split(total, start, end)
        if split is not None:
            heapq.heappush(splits, (-split[0], split[1], start, end))

    consider(0, counts.shape[0])
    while splits and len(cuts) < n_bins - 1:
        _, position, start, end = heapq.heappop(splits)
        cuts.append(position)
        consider(start, position)
        consider(position, end)
    return np.array(sorted(cuts), dtype=np.int64)


def _best_split(total: HostArray, start: int, end: int) -> tuple[float, int] | None:
    """Return gain (times rows) and place of the best split of some values, or None if it does not pay."""
    if end - start < 2:
        return None
    left = total[start + 1 : end] - total[start]
    both = total[end] - total[start]
    right = both - left
    n = int(both.sum())
    bits, bits_left, bits_right = _total_entropy(both), _total_entropy(left), _total_entropy(right)
    gain = bits - bits_left - bits_right
    best = int(np.argmax(gain >= gain.max() - 1e-9))  # the first of equals, whatever the rounding
    k, k_left, k_right = (int(np.count_nonzero(part)) for part in (both, left[best], right[best]))
    entropies = (
        k * bits / n
        - k_left * bits_left[best] / int(left[best].sum())
        - k_right * bits_right[best] / int(right[best].sum())
    )
    if gain[best] <= math.log2(n - 1) + math.log2(3**k - 2) - entropies:
        return None
    return float(gain[best]), start + 1 + best


def _total_entropy(counts: HostArray) -> HostArray:
    """Return the entropy of class counts (..., k) in bits, times their number."""
    n = counts.sum(axis=-1)
    bits: HostArray = n * np.log2(np.maximum(n, 1)) - np.sum(counts * np.log2(np.maximum(counts, 1)), axis=-1)
    return bits


DISCRETIZERS: dict[str, Callable[[Namespace, Array, int, Array | None], Array]] = {
    "width": equal_width_edges,
    "frequency": equal_frequency_edges,
    "tree": tree_edges,
}
