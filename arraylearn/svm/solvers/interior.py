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
from arraylearn.svm.solvers.dual import DualProblem, DualSolution, extremes
from arraylearn.svm.solvers.stopping import Settings

__all__ = ["solve_linear"]

_MOST_STEPS = 80
_WORTH_THREADS = 5e7  # n d^2, above which the products of a step gain from threads
_TO_THE_WALL = 0.995  # share of the way to the nearest bound that a step may go
_MARGIN = 1e-14  # share of the box that stays between a point and its bounds, where the dtype can tell
_DRIFT = 1e-12  # error of the sum per row, as a share of the box, where the dtype can tell


class _Iterate(NamedTuple):
    """A point strictly inside the box and its multipliers."""

    above: Array  # (n,): beta - lower
    below: Array  # (n,): upper - beta
    push_up: Array  # (n,): multiplier of the lower bound
    push_down: Array  # (n,): multiplier of the upper bound
    offset: Array  # (): multiplier of the equality
    step: Array  # (): share of the last direction that was taken; 0 if there was none


class _System(NamedTuple):
    """(D + XX^T), ready to be solved with."""

    x: Array  # (n, d)
    inverse_barrier: Array  # (n,): 1 / D
    factor: Array  # (d, d): lower Cholesky factor of I + X^T D^{-1} X


def solve_linear(place: Place, x: Array, problem: DualProblem, settings: Settings) -> DualSolution:
    """Solve one dual problem with the linear kernel on rows `x`, every bound finite and every box open.

    The point returned stands on its bounds exactly, and its gap is measured there; where that stays above
    the tolerance (nearly separable rows), the best point found is returned as not converged. So it is where
    rounding leaves no direction: a step that has nothing to divide by has length 0 and is the last.
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
    resolution = float(xp.finfo(x.dtype).eps)
    limit = _MOST_STEPS if settings.max_iter < 0 else min(settings.max_iter, _MOST_STEPS)
    for n_steps in range(limit + 1):
        beta, gradient = _snap(xp, x, problem, iterate, total)
        highest, lowest = extremes(xp, beta, gradient, problem)
        width = xp.max(problem.upper - problem.lower)
        drift = xp.abs(xp.sum(beta) - total) / width
        gap, drift, step = _read(xp, highest - lowest, drift, iterate.step)
        is_feasible = drift <= max(_DRIFT, resolution) * x.shape[0] and math.isfinite(gap)
        if step == 0:
            break
        if settings.report is not None:
            settings.report(n_steps, gap)
        if is_feasible and (best is None or gap < best.gap):
            best = DualSolution(beta, gradient, gap, n_steps, gap <= settings.tol)
        if best is not None and best.is_converged:
            break
        iterate = _advance(xp, x, problem, iterate, total)
    if best is None:
        gradient = problem.linear - x @ (problem.start @ x)
        best = DualSolution(problem.start, gradient, math.inf, n_steps, False)
    return best


def _read(xp: Namespace, *numbers: Array) -> list[float]:
    """Read 0-d numbers on the host: the one sync of a step."""
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
    return _Iterate(half, half, push_up, push_down, offset, xp.ones_like(offset))


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
    """Take one predictor-corrector step; its length is 0, and its point NaN, where a divisor has vanished."""
    above, below, push_up, push_down, offset, _ = iterate
    per_above, per_below, per_push_up, per_push_down = (_reciprocal(xp, values) for values in iterate[:4])
    beta = problem.lower + above
    slope = x @ (beta @ x) - problem.linear
    dual_residual = push_up - push_down - slope - offset
    primal_residual = total - xp.sum(beta)
    system = _factor(xp, x, push_up * per_above + push_down * per_below)

    def direction(target_up: Array, target_down: Array) -> tuple[Array, Array, Array, Array]:
        free = _solve(xp, system, dual_residual + target_up * per_above - target_down * per_below)
        turn = (xp.sum(free) - primal_residual) * per_total
        move = free - turn * ones
        up, down = target_up - push_up * move, target_down + push_down * move
        return move, turn, up * per_above, down * per_below

    ones = _solve(xp, system, xp.ones_like(beta))
    per_total = _reciprocal(xp, xp.sum(ones))
    move, _, up, down = direction(-push_up * above, -push_down * below)
    size = xp.minimum(_room(xp, per_above, move), _room(xp, per_below, -move))
    dual_size = xp.minimum(_room(xp, per_push_up, up), _room(xp, per_push_down, down))
    before = _complementarity(xp, iterate)
    guess = iterate._replace(
        above=above + size * move,
        below=below - size * move,
        push_up=push_up + dual_size * up,
        push_down=push_down + dual_size * down,
    )
    # at most 1: a guess that rounding has spoilt asks for the products as they are
    share = xp.minimum(_complementarity(xp, guess) * _reciprocal(xp, before), xp.ones_like(before))
    target = share**3 * before
    move, turn, up, down = direction(
        target - push_up * above - move * up, target - push_down * below + move * down
    )
    size = xp.minimum(
        xp.minimum(_room(xp, per_above, move), _room(xp, per_below, -move)),
        xp.minimum(_room(xp, per_push_up, up), _room(xp, per_push_down, down)),
    )
    step = xp.where(xp.isnan(size), 0.0, _TO_THE_WALL * size)
    width = problem.upper - problem.lower
    margin = max(_MARGIN, float(xp.finfo(width.dtype).eps))  # `below` would be 0 within the resolution
    above = xp.minimum(xp.maximum(above + step * move, margin * width), (1 - margin) * width)
    push_up, push_down = push_up + step * up, push_down + step * down
    return _Iterate(above, width - above, push_up, push_down, offset + step * turn, step)


def _reciprocal(xp: Namespace, values: Array) -> Array:
    """Return 1 / values; NaN for all, which spreads to the whole step, where one is no longer positive.

    Below the square root of the least normal number, products with a reciprocal would overflow.
    """
    smallest = xp.min(values)
    least = float(xp.finfo(values.dtype).smallest_normal) ** 0.5
    return xp.where(smallest > least, xp.ones_like(smallest), math.nan) / values  # NaN / 0 raises no flag


def _room(xp: Namespace, per_value: Array, change: Array) -> Array:
    """Return the largest step of at most 1 that keeps values positive, by their reciprocals."""
    steepest = xp.max(-change * per_value)
    return 1.0 / xp.maximum(steepest, xp.ones_like(steepest))


def _factor(xp: Namespace, x: Array, barrier: Array) -> _System:
    inverse = _reciprocal(xp, barrier)
    inner = xp.matrix_transpose(x * inverse[:, None]) @ x
    inner = inner + xp.eye(x.shape[1], dtype=x.dtype, device=_device(x))
    return _System(x, inverse, cholesky(xp, inner)[0])


def _solve(xp: Namespace, system: _System, right: Array) -> Array:
    x, inverse, factor = system
    scaled = inverse * right
    halfway = solve_triangular(xp, factor, (scaled @ x)[:, None])
    inner = solve_triangular(xp, xp.matrix_transpose(factor), halfway, upper=True)[:, 0]
    return scaled - inverse * (x @ inner)
