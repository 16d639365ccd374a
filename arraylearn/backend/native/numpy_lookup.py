"""NumPy body of `bin_columns`: a grid over the values instead of a search for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["bin_columns"]

# Below this many elements a thread costs more than it brings.
_WORTH_A_THREAD = 50_000
# Rows whose columns, and what is computed from one of them, stay in the second-level cache.
_ROWS = 16_384
# Cells of the grids that are tried, and most edges in one cell.
_SIZES = (8_192, 65_536)
_MOST_IN_A_CELL = 31


def bin_columns(x: Host, edges: Host, missing_bin: int, dtype: Any) -> Host:
    m, d = x.shape
    bins = np.empty((d, m), dtype=dtype)
    finite = [row[np.isfinite(row)] for row in edges]
    # few values are searched for sooner than a grid is made
    tables = [LookupTable(row) if m < row.shape[0] else LookupTable.make(row) for row in finite]

    def fill(rows: slice) -> None:
        columns = np.ascontiguousarray(x[rows].T)
        for j, table in enumerate(tables):
            table.bin_into(columns[j], bins[j, rows])
            is_missing = np.isnan(columns[j])
            if is_missing.any():
                bins[j, rows][is_missing] = missing_bin

    step = max(1, min(_ROWS, -(-m // get_num_threads())))
    slices = [slice(start, min(start + step, m)) for start in range(0, m, step)]
    if m * d < _WORTH_A_THREAD:
        for rows in slices:
            fill(rows)
    else:
        parallel_map(fill, slices)
    return bins


class LookupTable:
    """A grid so fine that a cell holds few edges: one multiplication and a few halvings instead of a search.

    Cells ascend with the values, so an edge of a later cell is above the value: halving may look past the end
    of a cell without counting an edge too many.
    """

    def __init__(self, edges: Host, size: int = 0) -> None:
        self.edges, self.size = edges, size
        if size:
            self.low = edges[0]
            self.scale = edges.dtype.type((size - 2) / (float(edges[-1]) - float(edges[0])))
            cells = self._cells(edges)
            self.first = np.searchsorted(cells, np.arange(size)).astype(np.int32)
            most = int(np.diff(np.append(self.first, edges.shape[0])).max())
            self.steps = tuple(1 << i for i in reversed(range(most.bit_length())))
            self.bounds = np.append(edges, np.full(2 * most, np.inf, dtype=edges.dtype))

    @classmethod
    def make(cls, edges: Host) -> LookupTable:
        """Make the smallest grid with one edge to a cell, or the finest with few; else search plainly."""
        table = cls(edges)
        if edges.shape[0] < 2:
            return table
        spread = float(edges[-1]) - float(edges[0])
        largest = float(np.finfo(edges.dtype).max)
        for size in _SIZES:
            if not spread < largest or not 0 < (size - 2) / spread < largest:
                break
            table = cls(edges, size)
            if table.steps == (1,):
                return table
        is_fine = table.size and sum(table.steps) <= _MOST_IN_A_CELL
        return table if is_fine else cls(edges)

    def _cells(self, values: Host) -> Host:
        position: Host = values - self.low
        position *= self.scale
        np.fmax(position, 0, out=position)  # NaN, too, becomes 0
        np.minimum(position, self.size - 1, out=position)
        return position.astype(np.int32)

    def bin_into(self, values: Host, out: Host) -> None:
        """Write the number of edges below each value."""
        if not self.size:
            out[...] = np.searchsorted(self.edges, values)
            return
        with np.errstate(over="ignore", invalid="ignore"):  # far values are in the first or last cell
            bins = self.first.take(self._cells(values))
            for step in self.steps[:-1]:
                is_above = values > self.bounds.take(bins + (step - 1))
                bins += np.multiply(is_above, step, dtype=np.int32)
            np.add(bins, values > self.bounds.take(bins), out=out, casting="unsafe")
