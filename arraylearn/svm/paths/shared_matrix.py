"""A symmetric kernel matrix in memory that many problems share."""

from __future__ import annotations

from typing import Any

from arraylearn._typing import Array
from arraylearn.backend.namespace import accumulator_dtype, from_host, to_host
from arraylearn.svm.kernel_matrix import FullMatrix

__all__ = ["CHUNK_ROWS", "SharedMatrix"]

Host = Any  # a NumPy array

CHUNK_ROWS = 32  # rows that stay in the cache while they are used


class SharedMatrix(FullMatrix):
    """All rows of a kernel matrix; exact products widen a few rows at a time, never the whole of it."""

    def exact_product(self, row_idx: Array | None, column_idx: Array, weights: Array) -> Array:
        """Multiply rows of the matrix (None: all) by weights of some columns, in the accumulator's dtype."""
        place = self.matrix.place
        xp, wide = place.xp, accumulator_dtype(place)
        weights = xp.astype(weights, wide, copy=False)
        if row_idx is not None:
            return xp.astype(self.block(row_idx, column_idx), wide, copy=False) @ weights
        total = xp.zeros((self.matrix.n,), dtype=wide, device=place.device)
        for start in range(0, column_idx.shape[0], CHUNK_ROWS):
            some = slice(start, start + CHUNK_ROWS)
            rows = xp.take(self.matrix.x, column_idx[some], axis=0)
            total = total + weights[some] @ xp.astype(rows, wide, copy=False)
        return total

    def between(self, rows: Host) -> SharedMatrix:
        """Return the matrix between some rows."""
        place = self.matrix.place
        if rows.shape[0] == self.matrix.n:
            return self
        idx = from_host(rows, place, place.xp.int64)
        return SharedMatrix(place, self.block(idx, idx), self.dtype)

    def multiply(self, rows: Host, weights: Host) -> Host:
        """Return the weighted sum (n,) of some rows, on the host."""
        place = self.matrix.place
        used = weights.nonzero()[0]
        idx = from_host(rows.take(used), place, place.xp.int64)
        return to_host(self.combine(idx, from_host(weights.take(used), place, accumulator_dtype(place))))
