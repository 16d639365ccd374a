r"""Kernel matrices of low rank as products :math:`L L^T`: then every kernel is a linear one, on rows of L.

Polynomial kernels of few columns, sums of such, and wide gaussians have many fewer directions than rows.
Pairs of multipliers make little headway there when C is large, while Newton's method in the columns of L does
not mind. The factor comes from a Cholesky decomposition that always takes the rows with the largest remainder
next (S. Fine, K. Scheinberg, Efficient SVM training using low-rank kernel representations, JMLR 2001), a
block of them at a time.
"""

from __future__ import annotations

import math

import array_api_compat

from arraylearn._typing import Array
from arraylearn.backend.arrays.order import top_k
from arraylearn.backend.namespace import accumulator_dtype, from_host, to_host
from arraylearn.svm.rows import KernelMatrix

__all__ = ["factor_low_rank"]

_BLOCK = 32
_ROWS_PER_COLUMN = 2  # below which a factor is not worth while
_MOST_WORK = 4e10  # multiplications, n r^2


def factor_low_rank(matrix: KernelMatrix, *, error: float, max_bytes: int) -> Array | None:
    """Return L (n, r) with ``K - L @ L.T`` at most `error` in every entry, or None where that takes too much.

    Parameters
    ----------
    matrix : KernelMatrix
        The matrix between n rows, positive semidefinite.
    error : float
        The largest remainder allowed; no less than rounding leaves.
    max_bytes : int
        What L may take. The host waits once per block of columns.
    """
    xp, place = matrix.place.xp, matrix.place
    wide = matrix.of_dtype(accumulator_dtype(place))
    n = matrix.n
    most = min(n // _ROWS_PER_COLUMN, max_bytes // (8 * n), int(math.sqrt(_MOST_WORK / n)))
    if most < 1:
        return None
    device = array_api_compat.device(wide.x)
    rest = wide.diagonal()
    first = float(xp.max(rest))
    eps = float(xp.finfo(rest.dtype).eps)
    error = max(error, 32 * eps * first)
    if not error < first < math.inf:
        return None
    factor = xp.zeros((most, n), dtype=rest.dtype, device=device)
    k = 0
    while k < most:
        found, flags = _next_columns(wide, factor[:k, :], rest, floor=error / 4)
        rest = rest - xp.sum(found * found, axis=0)
        ends = xp.stack([xp.max(rest), xp.min(rest)])
        read = to_host(xp.concat([ends, xp.astype(flags, rest.dtype)]))
        left, lowest = read[:2].tolist()
        if not (left < math.inf and lowest > -max(1e-6 * first, 16 * error)):
            return None  # not a number, or not positive semidefinite
        used = read[2:].nonzero()[0]
        if k + used.shape[0] > most:
            return None
        factor[k : k + used.shape[0], :] = xp.take(found, from_host(used, place, xp.int64), axis=0)
        k += used.shape[0]
        if left <= error:
            return xp.matrix_transpose(factor[:k, :])
        if used.shape[0] == 0:
            break
    return None


def _next_columns(matrix: KernelMatrix, done: Array, rest: Array, *, floor: float) -> tuple[Array, Array]:
    """Return columns (b, n) for the rows with the largest remainders, and which of them are of any use.

    Rows that equal one before them have nothing left: theirs are zero.
    """
    xp = matrix.place.xp
    _, pivots = top_k(xp, rest, min(_BLOCK, matrix.n))
    block = matrix.rows(pivots)
    if done.shape[0]:
        block = block - xp.matrix_transpose(xp.take(done, pivots, axis=1)) @ done
    found, flags = [], []
    for j in range(pivots.shape[0]):
        column = xp.take(block, pivots, axis=1)[:, j]
        is_left = column[j] > floor
        scale = xp.where(is_left, 1.0 / xp.sqrt(xp.where(is_left, column[j], 1.0)), 0.0)
        row = scale * block[j, :]
        block = block - (scale * column)[:, None] * row
        found.append(row)
        flags.append(is_left)
    return xp.stack(found), xp.stack(flags)
