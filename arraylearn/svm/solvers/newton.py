r"""Newton's method for the linear kernel, in the primal variables, on a smoothed hinge loss.

A ridge :math:`\delta` on the kernel's diagonal makes the primal smooth. With :math:`v = (w, b)` and rows that
end in a 1, the function to be minimized is

.. math:: \tfrac12\lVert w\rVert^2 + h^T v + \sum_i \max_{l_i\le\beta_i\le u_i}
          \bigl[\beta_i (p_i - x_i^T v) - \tfrac{\delta}{2}\beta_i^2\bigr],

whose dual is the box problem of :math:`K + \delta I`. It is convex and quadratic by pieces, so that Newton's
method with an exact search along each step ends after finitely many steps (`minimize_smoothed`).

A point v belongs to the multipliers
:math:`\beta_i = \operatorname{clip}((p_i - x_i^T w - b)/\delta,\, l_i,\, u_i)`. The free ones
are those of rows in a band of width :math:`\delta (u - l)` around the margin, and at the minimum the
optimality conditions of the problem without the ridge are violated by at most two such widths. The band
therefore shrinks until that is within the tolerance (`solve_newton`). Rows far from the band keep the bound
they are at and are left out of the steps.

Newton's method for linear machines goes back to S. S. Keerthi, D. DeCoste (A modified finite Newton method
for fast solution of large scale linear SVMs, JMLR 2005).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.arrays.linear import cholesky, solve_triangular
from arraylearn.backend.namespace import Place, from_host, library_name, to_host
from arraylearn.svm.solvers.dual import DualProblem, DualSolution, Settings, extremes, find_offset

__all__ = [
    "EMPTY",
    "FLAT",
    "NOISE",
    "SmoothedPrimal",
    "choose_smoothed_body",
    "minimize_by_arrays",
    "minimize_smoothed",
    "solve_newton",
]


_FIRST_BAND = 0.2  # width of the first band, as a share of the spread of the gradients
_SHRINK = 0.1  # factor from one width of the band to the next
_LAST_BAND = 0.25  # width of the last band, as a share of the tolerance
_NEAR = 2.0  # rows within this many old widths of the new band are active
_MOST_ACTIVE = 0.7  # share of the rows; where more would be active, all are
_MOST_STEPS = 100  # in one visit
_MOST_VISITS = 40

EMPTY = 1e-10  # curvature of the offset if no row is free
FLAT = 0.1  # largest slope at the end of a step, as a share of the slope at its start
NOISE = 64.0  # a decrease of the value by fewer rounding errors than this counts as none
# A device takes a fixed number of steps and tries this many step lengths at once: nothing is read on the way.
_DEVICE_STEPS = 6
_LENGTHS = 8
_ZOOMS = 5


# ---- the band


class _ActiveRows(NamedTuple):
    """The rows that Newton steps with one width of the band are about."""

    rows: Array  # (m, d + 1): with a column of ones
    target: Array  # (m,)
    lower: Array  # (m,)
    upper: Array  # (m,)
    pull: Array  # (d + 1,): constant part of the gradient, from the other rows and the sum of multipliers
    fixed: Array | None = None  # (n,): multipliers of the other rows, 0 for the active ones; None: all active
    is_out: Array | None = None  # (n,): whether a row is not active; None: all active


class _Visit(NamedTuple):
    """What the host reads after some Newton steps."""

    n_steps: int
    is_settled: bool  # whether the minimum for this width of the band is reached
    is_near: HostArray  # (n,): rows to be active with a band of the next width
    is_fixed: bool  # whether the rows that are not active belong at the bounds they are at


def solve_newton(place: Place, x: Array, problem: DualProblem, settings: Settings) -> DualSolution:
    """Solve one dual problem with the linear kernel on rows `x`, every bound finite.

    One sync per visit, which is some Newton steps with one width of the band. A problem whose tolerance is
    below the rounding of the dtype is returned as not converged.
    """
    return _NewtonSolve(place, x, problem, settings).run()


class _NewtonSolve:
    """One solve: the rows with a column of ones, and the current point (d + 1,)."""

    def __init__(self, place: Place, x: Array, problem: DualProblem, settings: Settings) -> None:
        xp = place.xp
        self.place, self.problem, self.settings = place, problem, settings
        self.x = xp.astype(x, problem.linear.dtype, copy=False)
        n, d = self.x.shape
        device = array_api_compat.device(self.x)
        self.rows = xp.concat([self.x, xp.ones((n, 1), dtype=self.x.dtype, device=device)], axis=1)
        self.total = xp.sum(problem.start)
        is_last = xp.arange(d + 1, dtype=xp.int64, device=device) == d
        self.sum_pull = xp.where(is_last, self.total, xp.zeros_like(self.total))
        direction = problem.start @ self.x
        gradient = problem.linear - self.x @ direction
        offset = find_offset(xp, problem.start, gradient, problem)
        self.point = xp.concat([direction, xp.reshape(offset, (1,))])
        self.all_rows = _ActiveRows(self.rows, problem.linear, problem.lower, problem.upper, self.sum_pull)
        spread = xp.max(gradient) - xp.min(gradient)
        width = xp.max(problem.upper - problem.lower)
        self.spread, self.width = to_host(xp.stack([spread, width])).tolist()

    def run(self) -> DualSolution:
        """Shrink the band, visit by visit, until the tolerance or the limit of steps is reached."""
        narrowest = _LAST_BAND * self.settings.tol
        band = max(_FIRST_BAND * self.spread, narrowest)
        limit = self.settings.max_iter if self.settings.is_limited else math.inf
        active, n_steps, n_here, before = self.all_rows, 0, 0, self.point
        for _ in range(_MOST_VISITS):
            following = max(_SHRINK * band, narrowest)
            visit = self._visit(active, band, following, int(min(limit - n_steps, _MOST_STEPS)))
            n_steps, n_here = n_steps + visit.n_steps, n_here + visit.n_steps
            if self.settings.report is not None:
                self.settings.report(n_steps, self._solution(band, n_steps).gap)
            is_over = n_steps >= limit or visit.n_steps == 0 or n_here >= 4 * _MOST_STEPS
            if not visit.is_fixed:  # a row that was left out would move: repeat the visit with all rows
                active, self.point = self.all_rows, before
            elif visit.is_settled and band > narrowest:
                active, before = self._near(visit.is_near, following), self.point
                band, n_here = following, 0
            elif visit.is_settled or is_over:
                break
        return self._solution(band, n_steps)

    def _beta(self, band: float) -> tuple[Array, Array]:
        """Return the multipliers that belong to the point, and the residuals of the targets."""
        xp, problem = self.place.xp, self.problem
        residual = problem.linear - self.rows @ self.point
        beta = xp.minimum(xp.maximum(residual / (band / self.width), problem.lower), problem.upper)
        return beta, residual

    def _visit(self, active: _ActiveRows, band: float, following: float, max_steps: int) -> _Visit:
        """Move the point by Newton steps with one width of the band, and read the outcome: one sync."""
        xp, problem = self.place.xp, self.problem
        ridge = band / self.width
        primal = SmoothedPrimal(*active[:5], ridge)
        self.point, n_steps, is_settled = minimize_smoothed(xp, primal, self.point, max_steps=max_steps)
        beta, residual = self._beta(band)
        near = _NEAR * band
        is_near = (residual + near > (following / self.width) * problem.lower) & (
            residual - near < (following / self.width) * problem.upper
        )
        parts = [xp.stack([xp.astype(n_steps, beta.dtype), xp.astype(is_settled, beta.dtype)])]
        parts.append(xp.astype(is_near, beta.dtype))
        if active.fixed is not None:
            parts.append(xp.astype((beta != active.fixed) & active.is_out, beta.dtype))
        read = to_host(xp.concat(parts))
        n = beta.shape[0]
        return _Visit(int(read[0]), bool(read[1]), read[2 : n + 2] > 0, not read[n + 2 :].any())

    def _near(self, is_near: HostArray, band: float) -> _ActiveRows:
        """Return the rows near a band as the active ones; the others keep the bound they are at.

        All rows are active where none, or nearly all, are near.
        """
        xp, problem = self.place.xp, self.problem
        positions = is_near.nonzero()[0]
        if not 0 < positions.shape[0] <= _MOST_ACTIVE * is_near.shape[0]:
            return self.all_rows
        idx = from_host(positions, self.place, xp.int64)
        beta, _ = self._beta(band)
        is_out = from_host(~is_near, self.place)
        fixed = xp.where(is_out, beta, 0.0)
        rows, target, lower, upper = (
            xp.take(values, idx, axis=0)
            for values in (self.rows, problem.linear, problem.lower, problem.upper)
        )
        return _ActiveRows(rows, target, lower, upper, self.sum_pull - fixed @ self.rows, fixed, is_out)

    def _solution(self, band: float, n_steps: int) -> DualSolution:
        """Correct the sum of the multipliers by the free ones, and measure the gap: one sync."""
        xp, problem = self.place.xp, self.problem
        beta, _ = self._beta(band)
        is_free = (beta > problem.lower) & (beta < problem.upper)
        n_free = xp.sum(xp.astype(is_free, beta.dtype))
        rest = (xp.sum(beta) - self.total) / xp.where(n_free > 0, n_free, 1.0)
        beta = xp.where(is_free, xp.minimum(xp.maximum(beta - rest, problem.lower), problem.upper), beta)
        gradient = problem.linear - self.x @ (beta @ self.x)
        highest, lowest = extremes(xp, beta, gradient, problem)
        drift = xp.abs(xp.sum(beta) - self.total) / self.width
        gap, drift = to_host(xp.stack([highest - lowest, drift])).tolist()
        eps = float(xp.finfo(beta.dtype).eps)
        is_feasible = drift <= 1e4 * eps * beta.shape[0] ** 0.5 and math.isfinite(gap)
        return DualSolution(beta, gradient, gap, n_steps, is_feasible and gap <= self.settings.tol)


# ---- the minimum for one width of the band


class SmoothedPrimal(NamedTuple):
    """The function to be minimized."""

    rows: Array  # (n, d + 1): rows x, the last column all ones
    target: Array  # (n,): p
    lower: Array  # (n,): l, finite
    upper: Array  # (n,): u, finite
    pull: Array  # (d + 1,): h, from rows that are left out, and from the sum that the multipliers must have
    ridge: float  # delta > 0


Body = Callable[[SmoothedPrimal, Array, int], tuple[Array, Array, Array]]


def choose_smoothed_body(xp: Namespace) -> Body | str:
    """Return the body that minimizes, or why the array program does."""
    if library_name(xp) != "numpy":
        return "not on a CPU of NumPy"
    from arraylearn.svm.solvers import newton_cpu

    # the array program takes four times as long for 150 rows and six times as long for 1,000
    return newton_cpu.minimize


def minimize_smoothed(
    xp: Namespace, primal: SmoothedPrimal, start: Array, *, max_steps: int
) -> tuple[Array, Array, Array]:
    """Take Newton steps for a smoothed support vector machine in its primal variables.

    Parameters
    ----------
    primal : SmoothedPrimal
        The function.
    start : float array (d + 1,)
        Where to begin.
    max_steps : int
        Most Newton steps; a body may take fewer.

    Returns
    -------
    point : array (d + 1,)
        A point with no larger value.
    n_steps : int64 array ()
        Steps taken.
    is_settled : bool array ()
        Whether the last step had its full length, or was all rounding, and left the free multipliers as
        they were: the minimum.
    """
    body = choose_smoothed_body(xp)
    if isinstance(body, str):
        return minimize_by_arrays(xp, primal, start, max_steps=max_steps)
    return body(primal, start, max_steps)


def minimize_by_arrays(
    xp: Namespace, primal: SmoothedPrimal, start: Array, *, max_steps: int
) -> tuple[Array, Array, Array]:
    """Take a fixed number of steps without a sync."""
    rows, target, lower, upper, pull, ridge = primal
    n, width = rows.shape
    device = array_api_compat.device(rows)
    lane = xp.arange(width, dtype=xp.int64, device=device)
    is_weight = xp.astype(lane < width - 1, rows.dtype)  # 0 for the offset, which costs nothing
    extra = is_weight + (1.0 - is_weight) * (EMPTY * n / ridge)
    eye = xp.eye(width, dtype=rows.dtype, device=device)
    point = start
    residual = target - rows @ point
    is_settled = xp.zeros((), dtype=xp.bool, device=device)
    noise = NOISE * float(xp.finfo(rows.dtype).eps)
    n_steps = min(max_steps, _DEVICE_STEPS)
    for _ in range(n_steps):
        beta = xp.minimum(xp.maximum(residual / ridge, lower), upper)
        is_free = (beta > lower) & (beta < upper)
        gradient = point * is_weight - beta @ rows + pull
        weighted = rows * (xp.astype(is_free, rows.dtype) / ridge)[:, None]
        factor, _ = cholesky(xp, xp.matrix_transpose(weighted) @ rows + eye * extra)
        halfway = solve_triangular(xp, factor, gradient[:, None])
        move = -solve_triangular(xp, xp.matrix_transpose(factor), halfway, upper=True)[:, 0]
        change = rows @ move
        # slope and curvature along the move, but for those of the rows
        along = xp.sum(move * (point * is_weight + pull)), xp.sum(move * move * is_weight)
        drop = -xp.sum(gradient * move)
        size = _search_along(xp, primal, residual, change, along, FLAT * drop)
        size = xp.where(is_settled, 0.0, size)  # a settled point stays, or rounding would unsettle it
        point, residual = point + size * move, residual - size * change
        new = residual / ridge
        is_same = xp.all(((new > lower) & (new < upper)) == is_free)
        is_level = drop <= noise * xp.sum(xp.abs(beta * residual))
        is_settled = is_settled | (is_same & ((size == 1.0) | is_level))
    return point, xp.asarray(n_steps, dtype=xp.int64, device=device), is_settled


def _search_along(
    xp: Namespace,
    primal: SmoothedPrimal,
    residual: Array,
    change: Array,
    along: tuple[Array, Array],
    flat: Array,
) -> Array:
    """Return a step length where the slope is nearly zero or still negative; 1 where that is flat enough."""
    slope, curvature = along

    def slopes(sizes: Array) -> Array:
        moved = (residual - sizes[:, None] * change) / primal.ridge
        beta = xp.minimum(xp.maximum(moved, primal.lower), primal.upper)
        return slope + sizes * curvature - beta @ change

    device = array_api_compat.device(residual)
    lane = xp.arange(_LENGTHS, dtype=residual.dtype, device=device)
    reach = xp.max(xp.abs(residual)) / xp.maximum(xp.max(xp.abs(change)), xp.ones_like(slope) * 1e-30)
    one = xp.ones((1,), dtype=residual.dtype, device=device)
    high = xp.maximum(4.0 * xp.minimum(reach, one[0]), one[0] * 1e-12)
    low = xp.zeros_like(high)
    is_flat = xp.abs(slopes(one)[0]) <= flat
    for zoom in range(_ZOOMS):
        # first by orders of magnitude: far from the minimum the full step can be a million times too long
        share = 16.0 ** (lane + 1.0 - _LENGTHS) if zoom == 0 else (lane + 1.0) / _LENGTHS
        sizes = low + (high - low) * share
        is_down = slopes(sizes) <= 0
        low, high = (
            xp.max(xp.where(is_down, sizes, low)),
            xp.min(xp.where(is_down, high, sizes)),
        )
    return xp.where(is_flat, one[0], low)
