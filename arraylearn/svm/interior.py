r"""Interior point for the linear kernel: the dual in O(n d^2) a step, some twenty steps.

Primal-dual with Mehrotra's predictor and corrector. With :math:`K = XX^T` and the diagonal barrier term
:math:`D`, each step solves with :math:`(D + XX^T)^{-1}` through the d x d matrix
:math:`I + X^T D^{-1} X` (Woodbury), as Ferris and Munson do (Interior-point methods for massive support
vector machines, SIAM J. Optim. 2003).
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import NamedTuple

from array_api_compat import device as _device

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.linear import cholesky, solve_triangular
from arraylearn.backend.arrays.parallel import small_products
from arraylearn.backend.namespace import Place, to_host
from arraylearn.svm.dual import DualProblem, DualSolution, extremes
from arraylearn.svm.settings import Settings

__all__ = ["solve_linear"]

_MOST_STEPS = 80
_WORTH_THREADS = 5e7  # n d^2, above which the products of a step gain from threads
_TO_THE_WALL = 0.995  # share of the way to the nearest bound that a step may go


class _Iterate(NamedTuple):
    """A point strictly inside the box and its multipliers."""

    above: Array  # (n,): beta - lower
    below: Array  # (n,): upper - beta
    push_up: Array  # (n,): multiplier of the lower bound
    push_down: Array  # (n,): multiplier of the upper bound
    offset: Array  # (): multiplier of the equality


class _System(NamedTuple):
    """(D + XX^T), ready to be solved with."""

    x: Array  # (n, d)
    inverse_barrier: Array  # (n,): 1 / D
    factor: Array  # (d, d): lower Cholesky factor of I + X^T D^{-1} X


def solve_linear(place: Place, x: Array, problem: DualProblem, settings: Settings) -> DualSolution:
    """Solve one dual problem with the linear kernel on rows `x`, every bound finite and every box open.

    The point returned stands on its bounds exactly, and its gap is measured there; where that stays above
    the tolerance (nearly separable rows), the best point found is returned as not converged.
    """
    is_small = x.shape[0] * x.shape[1] ** 2 < _WORTH_THREADS
    with small_products(place.xp) if is_small else nullcontext():
        return _solve_linear(place, x, problem, settings)


def _solve_linear(place: Place, x: Array, problem: DualProblem, settings: Settings) -> DualSolution:
    xp = place.xp
    x = xp.astype(x, problem.linear.dtype, copy=False)
    total = xp.sum(problem.start)
    iterate = _first_iterate(xp, x, problem)
    best: DualSolution | None = None
    limit = _MOST_STEPS if settings.max_iter < 0 else min(settings.max_iter, _MOST_STEPS)
    for n_steps in range(limit + 1):
        beta, gradient = _snap(xp, x, problem, iterate, total)
        highest, lowest = extremes(xp, beta, gradient, problem)
        width = xp.max(problem.upper - problem.lower)
        drift = xp.abs(xp.sum(beta) - total) / width
        gap, drift, product = _read(xp, highest - lowest, drift, _complementarity(xp, iterate))
        is_feasible = drift <= 1e-12 * x.shape[0] and math.isfinite(gap)
        if settings.report is not None:
            settings.report(n_steps, gap)
        if is_feasible and (best is None or gap < best.gap):
            best = DualSolution(beta, gradient, gap, n_steps, gap <= settings.tol)
        if (best is not None and best.is_converged) or not math.isfinite(product):
            break
        iterate = _advance(xp, x, problem, iterate, total)
    if best is None:
        gradient = problem.linear - x @ (problem.start @ x)
        best = DualSolution(problem.start, gradient, math.inf, n_steps, False)
    return best


def _read(xp: Namespace, *numbers: Array) -> list[float]:
    """Read 0-d numbers on the host: the one wait of a step."""
    read: list[float] = to_host(xp.stack(list(numbers))).tolist()
    return read


def _first_iterate(xp: Namespace, x: Array, problem: DualProblem) -> _Iterate:
    half = 0.5 * (problem.upper - problem.lower)
    slope = x @ ((problem.lower + half) @ x) - problem.linear
    offset = -xp.mean(slope)
    residual = slope + offset
    scale = xp.maximum(xp.max(xp.abs(residual)), xp.ones_like(offset))
    zero = xp.zeros_like(residual)
    push_up = xp.maximum(residual, zero) + 0.1 * scale
    push_down = xp.maximum(-residual, zero) + 0.1 * scale
    return _Iterate(half, half, push_up, push_down, offset)


def _complementarity(xp: Namespace, iterate: _Iterate) -> Array:
    products = iterate.push_up * iterate.above + iterate.push_down * iterate.below
    return 0.5 * xp.mean(products)


def _snap(
    xp: Namespace, x: Array, problem: DualProblem, iterate: _Iterate, total: Array
) -> tuple[Array, Array]:
    """Put what is pressed against a bound on it, and make up for the sum with the rest."""
    width = problem.upper - problem.lower
    is_low = (iterate.above < 1e-2 * width) & (iterate.push_up * width > iterate.above)
    is_high = (iterate.below < 1e-2 * width) & (iterate.push_down * width > iterate.below)
    is_low, is_high = is_low & (iterate.push_up > 1e-4), is_high & (iterate.push_down > 1e-4)
    beta = xp.where(is_low, problem.lower, problem.lower + iterate.above)
    beta = xp.where(is_high & ~is_low, problem.upper, beta)
    is_free = ~(is_low | is_high)
    n_free = xp.sum(xp.astype(is_free, beta.dtype))
    rest = (xp.sum(beta) - total) / xp.where(n_free > 0, n_free, 1.0)
    beta = xp.where(is_free, beta - rest, beta)
    beta = xp.minimum(xp.maximum(beta, problem.lower), problem.upper)
    return beta, problem.linear - x @ (beta @ x)


def _advance(xp: Namespace, x: Array, problem: DualProblem, iterate: _Iterate, total: Array) -> _Iterate:
    """Take one predictor-corrector step."""
    above, below, push_up, push_down, offset = iterate
    beta = problem.lower + above
    slope = x @ (beta @ x) - problem.linear
    dual_residual = push_up - push_down - slope - offset
    primal_residual = total - xp.sum(beta)
    system = _factor(xp, x, push_up / above + push_down / below)
    ones = _solve(xp, system, xp.ones_like(beta))

    def direction(target_up: Array, target_down: Array) -> tuple[Array, Array, Array, Array]:
        free = _solve(xp, system, dual_residual + target_up / above - target_down / below)
        turn = (xp.sum(free) - primal_residual) / xp.sum(ones)
        move = free - turn * ones
        return move, turn, (target_up - push_up * move) / above, (target_down + push_down * move) / below

    move, _, up, down = direction(-push_up * above, -push_down * below)
    size = xp.minimum(_room(xp, above, move), _room(xp, below, -move))
    dual_size = xp.minimum(_room(xp, push_up, up), _room(xp, push_down, down))
    before = _complementarity(xp, iterate)
    guess = _Iterate(
        above + size * move,
        below - size * move,
        push_up + dual_size * up,
        push_down + dual_size * down,
        offset,
    )
    target = (_complementarity(xp, guess) / before) ** 3 * before
    move, turn, up, down = direction(
        target - push_up * above - move * up, target - push_down * below + move * down
    )
    size = xp.minimum(
        xp.minimum(_room(xp, above, move), _room(xp, below, -move)),
        xp.minimum(_room(xp, push_up, up), _room(xp, push_down, down)),
    )
    size = xp.where(size < 1.0, _TO_THE_WALL * size, _TO_THE_WALL)
    width = problem.upper - problem.lower
    above = xp.minimum(xp.maximum(above + size * move, 1e-14 * width), (1 - 1e-14) * width)
    return _Iterate(above, width - above, push_up + size * up, push_down + size * down, offset + size * turn)


def _room(xp: Namespace, values: Array, change: Array) -> Array:
    """Return the largest step of at most 1 that keeps positive values positive."""
    steepest = xp.max(-change / values)
    return 1.0 / xp.maximum(steepest, xp.ones_like(steepest))


def _factor(xp: Namespace, x: Array, barrier: Array) -> _System:
    inverse = 1.0 / barrier
    inner = xp.matrix_transpose(x * inverse[:, None]) @ x
    inner = inner + xp.eye(x.shape[1], dtype=x.dtype, device=_device(x))
    return _System(x, inverse, cholesky(xp, inner)[0])


def _solve(xp: Namespace, system: _System, right: Array) -> Array:
    x, inverse, factor = system
    scaled = inverse * right
    halfway = solve_triangular(xp, factor, (scaled @ x)[:, None])
    inner = solve_triangular(xp, xp.matrix_transpose(factor), halfway, upper=True)[:, 0]
    return scaled - inverse * (x @ inner)
