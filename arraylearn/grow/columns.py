"""Training columns of boosted trees: bins of numbers and categories, missing values in the last bin."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.memory import KeptBuffers
from arraylearn.backend.namespace import HOST, Place, from_host, to_host
from arraylearn.table import Table, bin_table, quantile_edges

__all__ = [
    "Binning",
    "Columns",
    "apply_binning",
    "learn_binning",
    "order_categories",
    "place_bins",
    "prepare_columns",
]

# Positions of bins are integers up to this.
_POSITIONS = 1 << 24


class Binning(NamedTuple):
    """How values become bins."""

    edges: Array  # (d_numeric, b), padded with inf
    category_bin: Array  # (d_nominal, v + 1) int32: the bin of code - 1, the first for missing
    n_bins: int  # the last bin is that of missing values


class Columns(NamedTuple):
    """Binned training columns, numeric ones first."""

    bins: Array  # (d, n) uint8
    n_bins: int
    n_numeric: int
    missing: tuple[int, ...]  # the columns with missing values
    buffers: KeptBuffers  # of compiled growth, from round to round


def learn_binning(place: Place, table: Table, max_bins: int) -> Binning:
    """Choose at most `max_bins` bins per column; the host waits for a sorted sample and the counts."""
    xp = place.xp
    edges = xp.zeros((0, 0), dtype=table.numeric.dtype, device=place.device)
    n_edges = 0
    if table.numeric.shape[1]:
        edges = quantile_edges(xp, table.numeric, max_bins)
        n_edges = int(to_host(xp.max(xp.sum(xp.astype(xp.isfinite(edges), xp.int64), axis=1))))
    n_values = table.schema.n_values
    n_bins = max(n_edges + 1, min(max(n_values, default=0), max_bins), 2) + 1
    if table.numeric.shape[1]:
        padding = xp.full((edges.shape[0], max(0, n_bins - 2 - edges.shape[1])), xp.inf, dtype=edges.dtype)
        edges = xp.concat((edges, xp.asarray(padding, device=place.device)), axis=1)[:, : n_bins - 2]
    return Binning(edges, _learn_categories(place, table, n_bins), n_bins)


def _learn_categories(place: Place, table: Table, n_bins: int) -> Array:
    """Give each category a bin; of too many, the rarest share one."""
    xp, n_values = place.xp, table.schema.n_values
    most = max(n_values, default=0)
    if not n_values:
        return xp.zeros((0, 1), dtype=xp.int32, device=place.device)
    counts = histogram(xp, xp.astype(table.codes, xp.int64) + 1, most + 1)
    lines_of_counts: list[list[int]] = to_host(counts).tolist()
    capacity = n_bins - 1
    lines = []
    for frequency, size in zip(lines_of_counts, n_values, strict=True):
        bins = [n_bins - 1, *range(size)]
        if size > capacity:
            frequent = sorted(range(size), key=lambda code: (-frequency[code + 1], code))
            rank = {code: i for i, code in enumerate(frequent)}
            bins = [n_bins - 1, *(min(rank[code], capacity - 1) for code in range(size))]
        lines.append(bins + [n_bins - 1] * (most - size))
    return xp.asarray(lines, dtype=xp.int32, device=place.device)


def order_categories(place: Place, binning: Binning, table: Table, codes: Any) -> Binning:
    """Put the categories of nominal columns in the order of their mean class; the host syncs for them."""
    if not table.schema.n_values:
        return binning
    capacity = binning.n_bins - 1
    missing = binning.n_bins - 1
    lines = np.full(binning.category_bin.shape, missing, dtype=np.int32)
    for bins_of, column, size in zip(lines, to_host(table.codes), table.schema.n_values, strict=True):
        known = column >= 0
        number = histogram(HOST.xp, column[known], size)
        mean = histogram(HOST.xp, column[known], size, np.astype(codes[known], np.float64))
        rank = np.argsort(np.argsort(mean / np.where(number > 0, number, 1), stable=True), stable=True)
        bins_of[1 : size + 1] = rank if size <= capacity else rank * capacity // size
    return binning._replace(category_bin=from_host(lines, place, place.xp.int32))


def apply_binning(xp: Namespace, binning: Binning, table: Table) -> Array:
    """Return the bins (d, n) of a table, numeric columns first."""
    parts = []
    if table.numeric.shape[1]:
        edges = xp.astype(binning.edges, table.numeric.dtype, copy=False)
        parts.append(bin_table(xp, table.numeric, edges).codes)
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
    lines = np.tile(np.linspace(0.0, 1.0, n_bins), (n_numeric + n_nominal, 1))
    for bins_of, row in zip(lines, edges, strict=False):
        known = np.astype(row[np.isfinite(row)], np.float64)
        if known.shape[0] < 2:
            continue
        middle = known[:-1] + (known[1:] - known[:-1]) / 2
        ends = (known[0] - (known[1] - known[0]) / 2, known[-1] + (known[-1] - known[-2]) / 2)
        values = np.concat((np.asarray(ends[:1]), middle, np.asarray(ends[1:])))
        bins_of[: values.shape[0]] = (values - ends[0]) / (ends[1] - ends[0])
        bins_of[values.shape[0] :] = 1.0
    integers = np.astype(np.round(lines * _POSITIONS), np.int64)
    integers[:, -1] += _POSITIONS // 8  # missing values
    first = np.arange(lines.shape[0])[:, None] * (2 * _POSITIONS)
    return from_host((integers + first).reshape(-1), place)


def prepare_columns(place: Place, binning: Binning, bins: Array) -> Columns:
    """Make training columns of bins; the host waits to learn which columns have missing values."""
    xp = place.xp
    is_missing = to_host(xp.max(bins, axis=1)) == binning.n_bins - 1
    missing = tuple(j for j, is_some in enumerate(is_missing.tolist()) if is_some)
    return Columns(bins, binning.n_bins, int(binning.edges.shape[0]), missing, KeptBuffers())
