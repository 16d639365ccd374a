r"""Kernel matrices of low rank as products :math:`L L^T`, on whose rows the kernel is linear.

Polynomial kernels of few columns, sums of such, and wide gaussians have a rank far below the number of rows.
With a large C, pair steps converge slowly there, and Newton's method in the columns of L does not. The factor
comes from a Cholesky decomposition with pivots (S. Fine, K. Scheinberg, Efficient SVM training using low-rank
kernel representations, JMLR 2001), which takes a block of the rows with the largest remainders at a time.
"""

from __future__ import annotations

import math

import array_api_compat

from arraylearn._typing import Array
from arraylearn.backend.arrays.gather import top_k
from arraylearn.backend.namespace import accumulator_dtype, from_host, to_host
from arraylearn.svm.solvers.dual import DualProblem, DualSolution, KernelMatrix, Settings
from arraylearn.svm.solvers.newton import solve_newton

__all__ = ["factor_low_rank", "solve_low_rank"]

_BLOCK = 32  # columns of the factor that are computed at a time
_ROWS_PER_COLUMN = 2  # a factor with fewer rows per column is not worth its cost
_MOST_WORK = 4e10  # multiplications, n r^2
_TRIAL_COLUMNS = 512  # after so many columns, the rate of progress must predict an end within the limit


def solve_low_rank(matrix: KernelMatrix, problem: DualProblem, settings: Settings) -> DualSolution:
    """Solve as a linear problem on the columns of a low-rank factor, as a start for pair steps.

    The result never counts as converged, because its gap is that of the factored matrix. Where there is no
    factor, it is the start of the problem with an infinite gap.
    """
    xp = matrix.place.xp
    mass = float(xp.sum(xp.abs(problem.start)))
    error = 0.1 * settings.tol / max(mass, 1e-300)
    factor = factor_low_rank(matrix, error=error, max_bytes=settings.cache_bytes)
    if factor is None:
        return DualSolution(problem.start, problem.linear, math.inf, 0, False)
    found = solve_newton(matrix.place, factor, problem, settings._replace(tol=0.5 * settings.tol))
    return found._replace(is_converged=False)


def factor_low_rank(matrix: KernelMatrix, *, error: float, max_bytes: int) -> Array | None:
    """Return L (n, r) with ``K - L @ L.T`` at most `error` in every entry.

    None if that takes too many columns, or if the matrix is not finite and positive semidefinite. The host
    syncs once per block of columns.

    Parameters
    ----------
    matrix : KernelMatrix
        The matrix between n rows, positive semidefinite.
    error : float
        The largest remainder allowed; raised to the rounding error of the diagonal where it is below that.
    max_bytes : int
        The largest size of L.
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
            return None  # not finite, or not positive semidefinite
        used = read[2:].nonzero()[0]
        if k + used.shape[0] > most:
            return None
        factor[k : k + used.shape[0], :] = xp.take(found, from_host(used, place, xp.int64), axis=0)
        k += used.shape[0]
        if left <= error:
            return xp.matrix_transpose(factor[:k, :])
        # pair steps are then faster, even if the last column would suffice (measured for ranks 666 and 861)
        is_hopeless = k >= _TRIAL_COLUMNS and math.log(first / left) * most < math.log(first / error) * k
        if used.shape[0] == 0 or is_hopeless:
            break
    return None


def _next_columns(matrix: KernelMatrix, done: Array, rest: Array, *, floor: float) -> tuple[Array, Array]:
    """Return the next columns of the factor as rows (b, n), and flags (b,): whether each is used.

    The pivots are the rows with the largest remainders. A pivot that equals one before it has no remainder
    left: its column is zero and not used.
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
