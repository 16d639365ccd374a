"""The body of `newton` for CPUs: a NumPy loop that stops as soon as it may."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import numpy as np
from scipy import linalg

from arraylearn._typing import HostArray
from arraylearn.backend.namespace import HOST
from arraylearn.backend.threads import small_products
from arraylearn.svm.solvers.newton import EMPTY, FLAT, NOISE, SmoothedPrimal

__all__ = ["minimize"]


_MOST_LENGTHS = 50
_WORTH_THREADS = 5e7  # multiplications of a step, above which the BLAS may use its threads


def minimize(
    primal: SmoothedPrimal, start: HostArray, max_steps: int
) -> tuple[HostArray, HostArray, HostArray]:
    """Minimize: `minimize_smoothed` by NumPy."""
    is_large = primal.rows.shape[0] * primal.rows.shape[1] ** 2 > _WORTH_THREADS
    with nullcontext() if is_large else small_products(HOST.xp):
        return _minimize(primal, start, max_steps)


def _minimize(
    primal: SmoothedPrimal, start: HostArray, max_steps: int
) -> tuple[HostArray, HostArray, HostArray]:
    rows, target, lower, upper, pull, ridge = primal
    lapack: Any = linalg.get_lapack_funcs(("potrf", "potrs"), (rows,))
    factorize, solve = lapack
    last = rows.shape[1] - 1
    point = start.copy()
    residual = target - rows @ point
    beta = np.minimum(np.maximum(residual / ridge, lower), upper)
    is_free = (beta > lower) & (beta < upper)
    diagonal = np.ones(last + 1, dtype=rows.dtype)
    diagonal[last] = EMPTY * rows.shape[0] / ridge
    noise = NOISE * float(np.finfo(rows.dtype).eps)
    is_settled, n_steps = False, 0
    while n_steps < max_steps and not is_settled:
        gradient = pull - beta @ rows
        gradient[:last] += point[:last]
        free = rows.compress(is_free, axis=0)
        curvature = free.T @ free
        curvature *= 1.0 / ridge
        curvature.flat[:: last + 2] += diagonal
        factor, info = factorize(curvature, lower=1, overwrite_a=1, clean=0)
        if info != 0:
            break
        move = -solve(factor, gradient, lower=1)[0]
        drop = -float(gradient @ move)
        if not 0 < drop < math.inf:
            is_settled = drop == 0
            break
        change = rows @ move
        inner = move[:last]
        along = float(point[:last] @ inner + pull @ move), float(inner @ inner)
        size, residual, beta, now_free = _search(primal, residual, change, along, FLAT * drop)
        point += size * move
        n_steps += 1
        if np.array_equal(now_free, is_free):
            is_settled = size == 1.0 or drop <= noise * float(np.abs(beta) @ np.abs(residual))
        is_free = now_free
    return point, np.asarray(n_steps, dtype=np.int64), np.asarray(is_settled)


def _search(
    primal: SmoothedPrimal, residual: HostArray, change: HostArray, along: tuple[float, float], flat: float
) -> tuple[float, HostArray, HostArray, HostArray]:
    """Find where the slope along a direction is nearly zero, by Newton's method within a bracket."""
    start_slope, curvature = along
    lower, upper, ridge = primal.lower, primal.upper, primal.ridge
    reach = float(np.abs(residual).max()) / max(float(np.abs(change).max()), 1e-300)
    size, low, high = min(1.0, 4.0 * reach), 0.0, math.inf
    for _ in range(_MOST_LENGTHS):
        moved = residual - size * change
        beta = moved * (1.0 / ridge)
        np.maximum(beta, lower, out=beta)
        np.minimum(beta, upper, out=beta)
        slope = start_slope + size * curvature - float(beta @ change)
        is_free = (beta > lower) & (beta < upper)
        if abs(slope) <= flat:
            break
        if slope > 0:
            high = size
        else:
            low = size
        square = change.compress(is_free)
        bend = curvature + float(square @ square) / ridge
        following = size - slope / bend if bend > 0 else math.inf
        if not low < following < high:
            following = 0.5 * (low + high) if high < math.inf else 2.0 * size
        if following == size:
            break
        size = following
    return size, moved, beta, is_free
