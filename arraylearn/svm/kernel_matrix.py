"""Kernel matrices that need not fit in memory: blocks on request, and a cache of whole rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import array_api_compat

from arraylearn._typing import Array
from arraylearn.backend.arrays.gather import combine_rows, gather_block
from arraylearn.backend.memory import row_chunks, scratch
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host
from arraylearn.backend.threads import small_products

__all__ = ["FullMatrix", "KernelMatrix", "KernelRows", "product"]

_ROWS_AT_ONCE = 256  # kernel rows that are computed in one call
_CELLS_AT_ONCE = 500_000  # kernel values that a product computes in one call
_DIAGONAL_ROWS = 64  # size of the blocks whose diagonals are kept
_EMPTY = -1  # in place of a row's position: the slot holds no row


class KernelMatrix(NamedTuple):
    """The kernel matrix (n, n) between n rows, of which blocks are computed on request."""

    place: Place  # where it is computed
    x: Array  # (n, d) rows, or the precomputed matrix (n, n)
    cross: Callable[[Any, Array, Array], Array] | None  # (xp, rows, rows) -> values; None: `x` is the matrix

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.x.shape[0])

    def all_rows(self) -> Array:
        """Return the positions (n,) of all rows."""
        return self.place.xp.arange(self.n, dtype=self.place.xp.int64, device=self.place.device)

    def of_dtype(self, dtype: Any) -> KernelMatrix:
        """Return the same matrix, computed in another float dtype."""
        return self._replace(x=self.place.xp.astype(self.x, dtype, copy=False))

    def subset(self, idx: Array) -> KernelMatrix:
        """Return the matrix between some of the rows."""
        rows = self.place.xp.take(self.x, idx, axis=0)
        return self._replace(x=rows if self.cross else self.place.xp.take(rows, idx, axis=1))

    def rows(self, idx: Array) -> Array:
        """Return whole rows (m, n)."""
        some = self.place.xp.take(self.x, idx, axis=0)
        return self.cross(self.place.xp, some, self.x) if self.cross else some

    def diagonal(self) -> Array:
        """Return the kernel value (n,) of each row with itself, from small blocks along the diagonal."""
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
    """Return ``K[row_idx][:, column_idx] @ weights``, in strips; all rows where `row_idx` is None."""
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
    """A cache of kernel rows, as a ring buffer: new rows overwrite the oldest.

    Rows that are missing are computed into adjacent slots. Of six slots, where rows 7, 8 and 3 are requested
    and `next` is the slot after the last one written::

        before   | 4 | 2 | 9 | 7 | 5 | 1 |     rows 8 and 3 are missing
                                   ^ next
        after    | 4 | 2 | 9 | 7 | 8 | 3 |     rows 5 and 1 are overwritten, next is the first slot

    A requested row in one of the slots to be overwritten counts as missing too: it is computed again.

    Parameters
    ----------
    matrix : KernelMatrix
        The matrix whose rows are kept.
    dtype : dtype
        The float dtype in which rows are computed and kept.
    n_slots : int
        How many rows are kept.
    """

    def __init__(self, matrix: KernelMatrix, dtype: Any, n_slots: int) -> None:
        self.source = matrix
        self._clear(dtype, n_slots)

    def _clear(self, dtype: Any, n_slots: int) -> None:
        """Empty the cache, and give it a dtype and a number of slots."""
        matrix = self.source
        self.matrix = matrix.of_dtype(dtype)
        self.n_slots = min(n_slots, matrix.n)
        self.dtype = dtype
        self._store: Array = None  # frees the old buffer before the new one is allocated
        device = array_api_compat.device(matrix.x)
        self._store = scratch(matrix.place.xp, (self.n_slots, matrix.n), dtype, device)
        self._slot_of: dict[int, int] = {}
        self._row_in: list[int] = [_EMPTY] * self.n_slots
        self._next = 0

    def widened(self) -> KernelRows:
        """Change to the accumulator's dtype, within the same memory, and return the cache itself."""
        wide = accumulator_dtype(self.matrix.place)
        if self.dtype != wide:
            self._clear(wide, max(2, self.n_slots // 2))
        return self

    def fetch(self, rows: list[int]) -> Array:
        """Compute the rows that are missing, and return the slots of all."""
        missing = [row for row in rows if row not in self._slot_of]
        if missing:
            self._compute(*self._claim(rows, missing))
        slots = [self._slot_of[row] for row in rows]
        return self._index(slots)

    def _claim(self, rows: list[int], missing: list[int]) -> tuple[list[int], int]:
        """Return the rows to compute, and the first of the adjacent slots for them."""
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

    def _compute(self, missing: list[int], start: int) -> None:
        """Compute rows into the slots from `start` on."""
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

    def _index(self, positions: list[int]) -> Array:
        """Return positions as an array on the device."""
        return from_host(positions, self.matrix.place, self.matrix.place.xp.int64)

    def block(self, slots: Array, idx: Array) -> Array:
        """Return the stored rows at some columns."""
        return gather_block(self.matrix.place.xp, self._store, slots, idx)

    def combine(self, slots: Array, weights: Array) -> Array:
        """Return the weighted sum of stored rows."""
        return combine_rows(self.matrix.place.xp, self._store, slots, weights)

    def exact_product(self, row_idx: Array | None, column_idx: Array, weights: Array) -> Array:
        """Multiply rows of the matrix by weights in the accumulator's dtype, computed anew."""
        wide = self.matrix.place.xp.astype(weights, accumulator_dtype(self.matrix.place))
        return product(self.source, row_idx, column_idx, wide)


class FullMatrix(KernelRows):
    """The rows of a kernel matrix that is in memory as a whole: a row's slot is its position.

    Parameters
    ----------
    place : Place
        Where the matrix is.
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
        self._store = self.matrix.x

    def widened(self) -> KernelRows:
        """Return a cache of rows in the accumulator's dtype, with half as many slots as there are rows."""
        wide = accumulator_dtype(self.matrix.place)
        return self if self.dtype == wide else KernelRows(self.source, wide, max(2, self.n_slots // 2))

    def fetch(self, rows: list[int]) -> Array:
        """Return the slots of rows: their positions."""
        return self._index(rows)
