"""A kernel matrix in memory that several problems share."""

from __future__ import annotations

from arraylearn._typing import Array, Dtype, HostArray
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.kernels.objects import Precomputed
from arraylearn.svm.solvers.dual import KernelMatrix, KernelRows

__all__ = ["SharedMatrix"]

_CHUNK_ROWS = 32  # rows that stay in the cache while they are used


class SharedMatrix(KernelRows):
    """All rows of a symmetric kernel matrix: the place of a row in the buffer is its position.

    Parameters
    ----------
    place : Place
        Where the matrix is.
    matrix : array (n, n)
        The kernel matrix.
    dtype : dtype
        The float dtype in which rows are used; exact products use the values of `matrix`.
    """

    def __init__(self, place: Place, matrix: Array, dtype: Dtype) -> None:
        self.source = KernelMatrix(place, matrix, Precomputed())
        self.matrix = self.source.of_dtype(dtype)
        self.n_kept = self.source.n
        self.dtype = dtype
        self._buffer = self.matrix.x

    def widened(self) -> KernelRows:
        """Return a cache of rows in the accumulator's dtype, for half as many rows as there are."""
        wide = accumulator_dtype(self.matrix.place)
        return self if self.dtype == wide else KernelRows(self.source, wide, max(2, self.n_kept // 2))

    def fetch(self, rows: list[int]) -> tuple[Array, Array]:
        """Return the positions of rows, which are also their places in the buffer."""
        idx = self.matrix.positions(rows)
        return idx, idx

    def exact_product(self, row_idx: Array | None, column_idx: Array, weights: Array) -> Array:
        """Multiply rows of the matrix (None: all) by weights of some columns, in the accumulator's dtype.

        A product with all rows widens 32 rows at a time, never the matrix.
        """
        place = self.matrix.place
        xp, wide = place.xp, accumulator_dtype(place)
        weights = xp.astype(weights, wide, copy=False)
        if row_idx is not None:
            return xp.astype(self.source.block(row_idx, column_idx), wide, copy=False) @ weights
        total = xp.zeros((self.matrix.n,), dtype=wide, device=place.device)
        for start in range(0, column_idx.shape[0], _CHUNK_ROWS):
            some = slice(start, min(start + _CHUNK_ROWS, column_idx.shape[0]))
            rows = xp.take(self.source.x, column_idx[some], axis=0)
            total = total + weights[some] @ xp.astype(rows, wide, copy=False)
        return total

    def between(self, rows: HostArray) -> SharedMatrix:
        """Return the matrix between some rows."""
        place = self.matrix.place
        if rows.shape[0] == self.matrix.n:
            return self
        idx = self.matrix.positions(rows)
        return SharedMatrix(place, self.block(idx, idx), self.dtype)
