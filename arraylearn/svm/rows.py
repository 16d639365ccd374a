"""Rows of a kernel matrix, computed when they are needed and kept within a budget of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import array_api_compat

from arraylearn._typing import Array
from arraylearn.backend.arrays.gather import combine_rows, gather_block
from arraylearn.backend.arrays.parallel import small_products
from arraylearn.backend.arrays.scratch import scratch
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host

__all__ = ["KernelMatrix", "KernelRows", "WholeMatrix", "product"]

_ROWS_AT_ONCE = 256
_CELLS_AT_ONCE = 500_000
_DIAGONAL_ROWS = 64


class KernelMatrix(NamedTuple):
    """A kernel matrix that is never formed: any block of it can be asked for.

    `cross` takes two blocks of rows of `x` to the matrix between them. For a precomputed kernel `x` is the
    matrix itself and `cross` is None.
    """

    place: Place
    x: Array  # (n, d), or the precomputed (n, n)
    cross: Callable[[Any, Array, Array], Array] | None

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.x.shape[0])

    def of_dtype(self, dtype: Any) -> KernelMatrix:
        """Return the same matrix, computed in another float dtype."""
        return self._replace(x=self.place.xp.astype(self.x, dtype, copy=False))

    def subset(self, idx: Array) -> KernelMatrix:
        """Return the matrix between some of the rows."""
        rows = self.place.xp.take(self.x, idx, axis=0)
        return self._replace(x=rows if self.cross else self.place.xp.take(rows, idx, axis=1))

    def rows(self, idx: Array) -> Array:
        """Return whole rows."""
        some = self.place.xp.take(self.x, idx, axis=0)
        return self.cross(self.place.xp, some, self.x) if self.cross else some

    def diagonal(self) -> Array:
        """Return the values (n,) of each row with itself, from small blocks along the diagonal."""
        xp = self.place.xp
        if self.cross is None:
            return xp.linalg.diagonal(self.x)
        starts = range(0, self.n, _DIAGONAL_ROWS)
        strips = (self.x[start : min(start + _DIAGONAL_ROWS, self.n), :] for start in starts)
        return xp.concat([xp.linalg.diagonal(self.cross(xp, strip, strip)) for strip in strips])

    def block(self, row_idx: Array, column_idx: Array) -> Array:
        """Return the matrix between two sets of rows."""
        xp = self.place.xp
        some = xp.take(self.x, row_idx, axis=0)
        if self.cross is None:
            return xp.take(some, column_idx, axis=1)
        return self.cross(xp, some, xp.take(self.x, column_idx, axis=0))


def product(matrix: KernelMatrix, row_idx: Array | None, column_idx: Array, weights: Array) -> Array:
    """Multiply some rows (None: all) of the matrix, at some columns, by weights, in strips."""
    xp = matrix.place.xp
    wide = matrix.of_dtype(weights.dtype)
    n = matrix.n if row_idx is None else row_idx.shape[0]
    most = max(_ROWS_AT_ONCE, _CELLS_AT_ONCE // max(1, column_idx.shape[0]))
    columns = None if wide.cross is None else xp.take(wide.x, column_idx, axis=0)
    parts = []
    with small_products(xp):
        for chunk in row_chunks(n, 8 * column_idx.shape[0], most=most):
            some = wide.x[chunk, :] if row_idx is None else xp.take(wide.x, row_idx[chunk], axis=0)
            strip = xp.take(some, column_idx, axis=1) if wide.cross is None else wide.cross(xp, some, columns)
            parts.append(strip @ weights)
    return xp.concat(parts) if parts else weights[:0]


class KernelRows:
    """A ring buffer of kernel rows: new rows overwrite the oldest.

    Parameters
    ----------
    matrix : KernelMatrix
        What the rows are rows of.
    dtype : dtype
        The float dtype in which rows are computed and kept.
    n_slots : int
        How many rows are kept.
    """

    def __init__(self, matrix: KernelMatrix, dtype: Any, n_slots: int) -> None:
        self.source = matrix
        self.n_computed = 0
        self._clear(dtype, n_slots)

    def _clear(self, dtype: Any, n_slots: int) -> None:
        """Begin with an empty store."""
        matrix = self.source
        self.matrix = matrix.of_dtype(dtype)
        self.n_slots = min(n_slots, matrix.n)
        self.dtype = dtype
        self._store: Array = None  # so that the memory of the last one can be lent again
        device = array_api_compat.device(matrix.x)
        self._store = scratch(matrix.place.xp, (self.n_slots, matrix.n), dtype, device)
        self._slot_of: dict[int, int] = {}
        self._row_in: list[int] = [-1] * self.n_slots
        self._next = 0

    def widened(self) -> KernelRows:
        """Return a store in the accumulator's dtype, of the same size in bytes: this one, from now on."""
        wide = accumulator_dtype(self.matrix.place)
        if self.dtype != wide:
            self._clear(wide, max(2, self.n_slots // 2))
        return self

    def fetch(self, rows: list[int]) -> Array:
        """Make sure that these rows are in the store and return their slots."""
        missing = [row for row in rows if row not in self._slot_of]
        if missing:
            self._compute(self._claim(rows, missing))
        slots = [self._slot_of[row] for row in rows]
        return self._index(slots)

    def _claim(self, rows: list[int], missing: list[int]) -> tuple[list[int], int]:
        """Choose adjacent slots for the missing rows; wanted rows that stand there are computed again."""
        wanted = set(rows)
        start = self._next
        while True:
            if start + len(missing) > self.n_slots:
                start = 0
            overwritten = self._row_in[start : start + len(missing)]
            again = [row for row in overwritten if row in wanted and row not in missing]
            if not again:
                return missing, start
            missing = missing + again

    def _compute(self, claim: tuple[list[int], int]) -> None:
        missing, start = claim
        for row in self._row_in[start : start + len(missing)]:
            self._slot_of.pop(row, None)
        idx = self._index(missing)
        with small_products(self.matrix.place.xp):
            for chunk in row_chunks(len(missing), 1, most=_ROWS_AT_ONCE):
                self._store[start + chunk.start : start + chunk.stop, :] = self.matrix.rows(idx[chunk])
        for k, row in enumerate(missing):
            self._row_in[start + k] = row
            self._slot_of[row] = start + k
        self._next = start + len(missing)
        self.n_computed += len(missing)

    def _index(self, positions: list[int]) -> Array:
        return from_host(positions, self.matrix.place, self.matrix.place.xp.int64)

    def block(self, slots: Array, idx: Array) -> Array:
        """Return the stored rows at some columns."""
        return gather_block(self.matrix.place.xp, self._store, slots, idx)

    def combine(self, slots: Array, weights: Array) -> Array:
        """Return the weighted sum of stored rows."""
        return combine_rows(self.matrix.place.xp, self._store, slots, weights)

    def exact_product(self, row_idx: Array | None, column_idx: Array, weights: Array) -> Array:
        """Multiply rows of the matrix by weights in the accumulator's dtype, without the store."""
        wide = self.matrix.place.xp.astype(weights, accumulator_dtype(self.matrix.place))
        return product(self.source, row_idx, column_idx, wide)


class WholeMatrix(KernelRows):
    """All rows of a kernel matrix that is in memory already: nothing is computed or copied.

    Parameters
    ----------
    place : Place
        Where the matrix lives.
    matrix : array (n, n)
        The kernel matrix.
    dtype : dtype
        The float dtype in which rows are used.
    """

    def __init__(self, place: Place, matrix: Array, dtype: Any) -> None:
        self.source = KernelMatrix(place, matrix, None)
        self.matrix = self.source.of_dtype(dtype)
        self.n_slots = self.source.n
        self.dtype = dtype
        self.n_computed = 0
        self._store = self.matrix.x

    def widened(self) -> KernelRows:
        """Return a store of rows in the accumulator's dtype; the matrix itself is not copied."""
        wide = accumulator_dtype(self.matrix.place)
        return self if self.dtype == wide else KernelRows(self.source, wide, max(2, self.n_slots // 2))

    def fetch(self, rows: list[int]) -> Array:
        """Return the slots of rows: their positions."""
        return self._index(rows)
