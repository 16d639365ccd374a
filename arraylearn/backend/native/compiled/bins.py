"""Compiled body of `bin_columns`: a look-up in a grid, and few comparisons, for each value."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled, compiled_part
from arraylearn.backend.cpu.portions import even_portions
from arraylearn.backend.threads import parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["bin_columns"]

# Values that a thread must have, or it costs more than it brings.
_LEAST_VALUES = 100_000
# Values of all columns that are worked on together, so that they stay in the first-level cache, and rows of a
# table in another order that are copied at once.
_VALUES = 8192
_COPIED = 16_384
# Cells of a grid for each edge, and cells at most.
_CELLS_PER_EDGE = 8
_MOST_CELLS = 1 << 15


def bin_columns(x: Host, edges: Host, missing_bin: int, dtype: Any) -> Host:
    m, d = x.shape
    bins = np.empty((d, m), dtype=dtype)
    grids = _make_grids(edges, x.dtype)

    def fill(rows: tuple[int, int]) -> None:
        step = rows[1] - rows[0] if x.flags.c_contiguous else _COPIED
        for start in range(rows[0], rows[1], max(1, step)):
            part = np.ascontiguousarray(x[start : min(start + step, rows[1])])
            _bin_rows(part, start, *grids, missing_bin, bins)

    parallel_map(fill, even_portions(m, _LEAST_VALUES // max(1, d)))
    return bins


def _make_grids(edges: Host, dtype: Any) -> tuple[Host, Host, Host, Host]:
    """Lay a grid over the edges of each column.

    Returns the number of edges before each cell, the edges, the place of each grid (its low end and the cells
    for a unit), and the step with which a search in a cell begins.
    """
    d = edges.shape[0]
    n_edges = np.isfinite(edges).sum(axis=1)
    most = int(n_edges.max(initial=1))
    size = min(_MOST_CELLS, 1 << (_CELLS_PER_EDGE * most).bit_length())
    # a search that begins at the last edge may look this far behind it
    bounds = np.full((d, 3 * most + 1), np.inf, dtype=dtype)
    bounds[:, : min(most, edges.shape[1])] = edges[:, :most]
    places = np.zeros((2, d), dtype=dtype)
    if edges.shape[1]:
        last = np.maximum(n_edges - 1, 0)[:, None]
        ends = np.stack((edges[:, 0], np.take_along_axis(edges, last, axis=1)[:, 0]))
        ends = np.where(n_edges > 1, ends, 0).astype(np.float64)
        with np.errstate(over="ignore", divide="ignore"):  # all values are in the first or last cell, then
            places[0], places[1] = ends[0], np.where(n_edges > 1, (size - 2) / (ends[1] - ends[0]), 0)
    first, steps = np.empty((d, size), dtype=np.int16), np.ones(d, dtype=np.int64)
    _count_edges(bounds, n_edges, places, first, steps)
    return first, bounds, places, steps


@compiled_part
def _find_cells(values: Host, m: int, low: float, scale: float, size: int, cells: Host) -> None:
    """Write the cells of `m` values: cells ascend with the values. NaN is in the first."""
    nothing, last = values.dtype.type(0), values.dtype.type(size - 1)
    for i in range(m):
        place = (values[i] - low) * scale
        place = place if place > 0 else nothing
        cells[i] = np.int32(place if place < last else last)


@compiled
def _count_edges(bounds: Host, n_edges: Host, places: Host, first: Host, steps: Host) -> None:
    size = first.shape[1]
    cells = np.empty(bounds.shape[1], dtype=np.int32)
    for j in range(first.shape[0]):
        _find_cells(bounds[j], n_edges[j], places[0, j], places[1, j], size, cells)
        cell = most = 0
        for i in range(n_edges[j]):
            while cell <= cells[i]:
                first[j, cell] = i
                cell += 1
            most = max(most, i + 1 - first[j, cells[i]])
        for empty in range(cell, size):
            first[j, empty] = n_edges[j]
        while 2 * steps[j] <= most:
            steps[j] *= 2


@compiled
def _bin_rows(
    x: Host, start: int, first: Host, bounds: Host, places: Host, steps: Host, missing_bin: int, bins: Host
) -> None:
    """Write the number of edges below each value, some rows at a time."""
    together = max(16, _VALUES // max(1, x.shape[1]))
    values = np.empty(together, dtype=x.dtype)
    counts, missing = np.empty(together, dtype=np.int32), np.int32(missing_bin)
    for begin in range(0, x.shape[0], together):
        m = min(together, x.shape[0] - begin)
        for j in range(x.shape[1]):
            for i in range(m):
                values[i] = x[begin + i, j]
            _find_cells(values, m, places[0, j], places[1, j], first.shape[1], counts)
            _count_below(values, m, first[j], bounds[j], steps[j], counts)
            out = bins[j, start + begin : start + begin + m]
            for i in range(m):
                out[i] = counts[i] if values[i] == values[i] else missing


@compiled_part
def _count_below(values: Host, m: int, first: Host, edges: Host, step: int, counts: Host) -> None:
    """Make the number of edges below each value of its cell.

    An edge of a later cell is above the value: halving may look past the end of a cell without counting an
    edge too many.
    """
    for i in range(m):
        counts[i] = first[np.uint32(counts[i])]
    while step:
        for i in range(m):
            is_above = values[i] > edges[np.uint32(counts[i] + (step - 1))]
            counts[i] += np.int32(step) if is_above else np.int32(0)
        step >>= 1
