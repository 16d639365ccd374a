"""Linear algebra whose failures are values, not exceptions: CuPy raises none, torch syncs to raise one."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, cast

import array_api_compat
import numpy as np
from scipy import linalg

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.dispatch import native, numpy_body

__all__ = ["cholesky", "inverse_definite", "logsumexp", "solve_triangular"]


# From this size on SciPy's factorization is several times as fast as NumPy's.
_LARGE_FACTOR = 128
# Up to this size a batch of triangular matrices is solved faster by one call of NumPy's general solver.
_SMALL_FACTOR = 24


def cholesky(xp: Namespace, a: Array) -> tuple[Array, Array]:
    r"""Factor symmetric matrices `a` (..., d, d), of which only the lower triangle is read.

    Return the lower :math:`L` with :math:`L L^T = A`, the identity where the factorization failed, and
    whether every pivot (...) exceeds rounding error: :math:`L_{jj}^2 > d\,\epsilon\,A_{jj}`.
    """
    if fast := native(xp, "cholesky"):
        factor, is_finished = fast(a)
    else:
        factor, is_finished = _cholesky_by_columns(xp, a)
    d = a.shape[-1]
    pivots = xp.linalg.diagonal(factor) ** 2
    floor = d * float(xp.finfo(a.dtype).eps) * xp.linalg.diagonal(a)
    is_definite = is_finished & xp.all(pivots > floor, axis=-1)
    identity = xp.eye(d, dtype=a.dtype, device=array_api_compat.device(a))
    return xp.where(is_definite[..., None, None], factor, identity), is_definite


def _cholesky_by_columns(xp: Namespace, a: Array) -> tuple[Array, Array]:
    """Cholesky-Banachiewicz by columns: one step per column for the whole batch, no exception."""
    d = a.shape[-1]
    row = xp.arange(d, device=array_api_compat.device(a))
    factor = xp.zeros_like(a)
    is_finished = xp.ones(a.shape[:-2], dtype=xp.bool, device=array_api_compat.device(a))
    for j in range(d):
        done = factor[..., j : j + 1, :]
        column = a[..., :, j] - xp.sum(factor * done, axis=-1)
        pivot = column[..., j]
        is_finished = is_finished & (pivot > 0)
        scale = xp.sqrt(xp.where(pivot > 0, pivot, 1.0))
        column = xp.where(row >= j, column / scale[..., None], 0.0)
        factor = xp.where(row == j, column[..., None], factor)
    return factor, is_finished


def solve_triangular(xp: Namespace, factor: Array, right: Array, *, upper: bool = False) -> Array:
    """Solve ``factor @ x = right`` for triangular matrices (..., d, d).

    Leading axes of the right sides (..., d, m) broadcast against those of the factors. The diagonal has no
    zero (see `cholesky`); the other triangle is not read.
    """
    batch = np.broadcast_shapes(tuple(factor.shape[:-2]), tuple(right.shape[:-2]))
    factor = xp.broadcast_to(factor, (*batch, *factor.shape[-2:]))
    right = xp.broadcast_to(right, (*batch, *right.shape[-2:]))
    if fast := native(xp, "solve_triangular"):
        return fast(factor, right, upper)
    return xp.linalg.solve(xp.triu(factor) if upper else xp.tril(factor), right)


def inverse_definite(xp: Namespace, matrix: Array) -> Array:
    """Invert a symmetric positive definite matrix (m, m); for any other the result is meaningless."""
    if fast := native(xp, "inverse_definite"):
        return fast(matrix)
    factor, _ = cholesky(xp, matrix)
    eye = xp.eye(matrix.shape[0], dtype=matrix.dtype, device=array_api_compat.device(matrix))
    half = solve_triangular(xp, factor, eye)
    return xp.matrix_transpose(half) @ half


def logsumexp(xp: Namespace, x: Array, *, axis: int = -1) -> Array:
    r"""Return :math:`\log \sum \exp x` along an axis without overflow; ``-inf`` is the logarithm of 0."""
    largest = xp.max(x, axis=axis, keepdims=True)
    shift = xp.where(xp.isfinite(largest), largest, 0.0)
    total = xp.sum(xp.exp(x - shift), axis=axis, keepdims=True)
    # log(0) is -inf as intended: only its warning is suppressed
    result = xp.where(total > 0, xp.log(xp.where(total > 0, total, 1.0)), -math.inf) + shift
    return xp.squeeze(result, axis=axis)


# ---- NumPy


@numpy_body
def _cholesky(a: HostArray) -> tuple[HostArray, HostArray]:
    if a.ndim == 2 and a.shape[0] >= _LARGE_FACTOR:
        # the transpose lies in memory as LAPACK wants it, and its upper triangle is the lower one of `a`
        (potrf,) = cast(Any, linalg.get_lapack_funcs(("potrf",), (a,)))
        factor, info = potrf(a.T, lower=0, clean=1)
        return factor.T, np.asarray(info == 0)
    with suppress(np.linalg.LinAlgError):
        return np.linalg.cholesky(a), np.ones(a.shape[:-2], dtype=bool)
    factors, finished = np.zeros_like(a), np.zeros(a.shape[:-2], dtype=bool)
    for i in np.ndindex(finished.shape):
        with suppress(np.linalg.LinAlgError):
            factors[i] = np.linalg.cholesky(a[i])
            finished[i] = True
    return factors, finished


@numpy_body
def _solve_triangular(factor: HostArray, right: HostArray, upper: bool) -> HostArray:
    if factor.ndim == 2:
        return _solve_one(factor, right, upper)
    if factor.shape[-1] <= _SMALL_FACTOR:
        return np.linalg.solve(np.triu(factor) if upper else np.tril(factor), right)
    solutions = np.empty(right.shape, dtype=right.dtype)
    for i in np.ndindex(factor.shape[:-2]):
        solutions[i] = _solve_one(factor[i], right[i], upper)
    return solutions


def _solve_one(factor: HostArray, right: HostArray, upper: bool) -> HostArray:
    if right.shape[1] == 0 or right.shape[0] == 0:
        return right.copy()
    solution: HostArray = linalg.solve_triangular(factor, right, lower=not upper, check_finite=False)
    return solution


@numpy_body
def _inverse_definite(matrix: HostArray) -> HostArray:
    potrf, potri = cast(Any, linalg.get_lapack_funcs(("potrf", "potri"), (matrix,)))
    factor, info = potrf(matrix.T, lower=1, clean=0)
    if info == 0:
        inverse, info = potri(factor, lower=1, overwrite_c=1)
    if info != 0:
        return np.full_like(matrix, np.nan)
    lower = np.tril(inverse, -1)
    return np.asarray(lower + lower.T + np.diag(inverse.diagonal()))
