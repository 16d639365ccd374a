r"""Support vector machines with a small number of columns: the smoothed primal, by Newton's method.

With :math:`v = (w, b)` and rows that end in a 1, the function to be minimized is

.. math:: \tfrac12\lVert w\rVert^2 + h^T v + \sum_i \max_{l_i\le\beta_i\le u_i}
          \bigl[\beta_i (p_i - x_i^T v) - \tfrac{\delta}{2}\beta_i^2\bigr],

whose dual is the box problem of :math:`K + \delta I`. It is convex and quadratic by pieces: Newton's method
with an exact line search ends after finitely many steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.linear import cholesky, solve_triangular
from arraylearn.backend.namespace import library_name

__all__ = ["SmoothedPrimal", "choose_smoothed_body", "minimize_by_arrays", "minimize_smoothed"]

EMPTY = 1e-10  # curvature of the offset that the rows lend where none of them is free
FLAT = 0.1  # share of the slope at the start that the end of a step may have
NOISE = 64.0  # roundings of the value, below which a descent is none
# A device takes a fixed number of steps and tries this many step lengths at once: nothing is read on the way.
_DEVICE_STEPS = 6
_LENGTHS = 8
_ZOOMS = 5


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
    from arraylearn.svm.solvers import smoothed_cpu

    # the array program takes four times as long for 150 rows and six times as long for 1,000
    return smoothed_cpu.minimize


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
        size = _search(xp, primal, residual, change, along, FLAT * drop)
        size = xp.where(is_settled, 0.0, size)  # a settled point stays, or rounding would unsettle it
        point, residual = point + size * move, residual - size * change
        new = residual / ridge
        is_same = xp.all(((new > lower) & (new < upper)) == is_free)
        is_level = drop <= noise * xp.sum(xp.abs(beta * residual))
        is_settled = is_settled | (is_same & ((size == 1.0) | is_level))
    return point, xp.asarray(n_steps, dtype=xp.int64, device=device), is_settled


def _search(
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
