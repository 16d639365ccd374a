"""Support vector machines with few columns: the smoothed primal, by Newton's method."""

from __future__ import annotations

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.linear import cholesky, solve_triangular
from arraylearn.backend.native import native

__all__ = ["minimize_smoothed"]

# A device takes a fixed number of steps and tries this many step lengths at once: nothing is read on the way.
_DEVICE_STEPS = 6
_LENGTHS = 8
_ZOOMS = 5
_FLAT = 0.1  # share of the slope at the start that the end of a step may have
_NOISE = 64.0  # roundings of the value, below which a descent is none
_EMPTY = 1e-10  # curvature of the offset that the rows lend where none of them is free


def minimize_smoothed(
    xp: Namespace,
    rows: Array,
    target: Array,
    lower: Array,
    upper: Array,
    pull: Array,
    start: Array,
    *,
    ridge: float,
    max_steps: int,
) -> tuple[Array, Array, Array]:
    r"""Take Newton steps for a smoothed support vector machine in its primal variables.

    With :math:`v = (w, b)` and rows that end in a 1, minimizes

    .. math:: \tfrac12\lVert w\rVert^2 + h^T v + \sum_i \max_{l_i\le\beta_i\le u_i}
              \bigl[\beta_i (p_i - x_i^T v) - \tfrac{\delta}{2}\beta_i^2\bigr],

    whose dual is the box problem of :math:`K + \delta I`. The function is convex and quadratic by pieces:
    Newton's method with an exact line search ends after finitely many steps.

    Parameters
    ----------
    rows : float array (n, d + 1)
        Rows :math:`x_i`, the last column all ones.
    target : float array (n,)
        :math:`p`.
    lower, upper : float array (n,)
        The finite box.
    pull : float array (d + 1,)
        :math:`h`: what rows that are not here contribute, and the sum that the multipliers must have.
    start : float array (d + 1,)
        Where to begin.
    ridge : float
        :math:`\delta > 0`.
    max_steps : int
        Most Newton steps; a body may take fewer.

    Returns
    -------
    point : array (d + 1,)
        A point with no larger value.
    n_steps : int64 array ()
        Steps taken.
    is_settled : bool array ()
        Whether the last step was a whole one, or all rounding, and left the free multipliers as they
        were: the minimum.
    """
    if fast := native(xp, "minimize_smoothed"):
        found = fast(rows, target, lower, upper, pull, start, ridge, max_steps)
        return found[0], found[1], found[2]
    return minimize_smoothed_portable(xp, rows, target, lower, upper, pull, start, ridge, max_steps)


def minimize_smoothed_portable(
    xp: Namespace,
    rows: Array,
    target: Array,
    lower: Array,
    upper: Array,
    pull: Array,
    start: Array,
    ridge: float,
    max_steps: int,
) -> tuple[Array, Array, Array]:
    """Take a fixed number of steps without a wait."""
    n, width = rows.shape
    device = array_api_compat.device(rows)
    lane = xp.arange(width, dtype=xp.int64, device=device)
    length = xp.astype(lane < width - 1, rows.dtype)  # b has no price
    extra = length + (1.0 - length) * (_EMPTY * n / ridge)
    eye = xp.eye(width, dtype=rows.dtype, device=device)
    point = start
    residual = target - rows @ point
    is_settled = xp.zeros((), dtype=xp.bool, device=device)
    noise = _NOISE * float(xp.finfo(rows.dtype).eps)
    n_steps = min(max_steps, _DEVICE_STEPS)
    for _ in range(n_steps):
        beta = xp.minimum(xp.maximum(residual / ridge, lower), upper)
        is_free = (beta > lower) & (beta < upper)
        gradient = point * length - beta @ rows + pull
        weighted = rows * (xp.astype(is_free, rows.dtype) / ridge)[:, None]
        factor, _ = cholesky(xp, xp.matrix_transpose(weighted) @ rows + eye * extra)
        halfway = solve_triangular(xp, factor, gradient[:, None])
        move = -solve_triangular(xp, xp.matrix_transpose(factor), halfway, upper=True)[:, 0]
        change = rows @ move
        linear = xp.sum(move * (point * length + pull))
        drop = -xp.sum(gradient * move)
        size = _line_search(
            xp, residual, change, lower, upper, ridge, linear, xp.sum(move * move * length),
            _FLAT * drop,
        )  # fmt: skip
        size = xp.where(is_settled, 0.0, size)  # what is settled stays, or rounding would unsettle it
        point, residual = point + size * move, residual - size * change
        new = residual / ridge
        is_same = xp.all(((new > lower) & (new < upper)) == is_free)
        is_level = drop <= noise * xp.sum(xp.abs(beta * residual))
        is_settled = is_settled | (is_same & ((size == 1.0) | is_level))
    return point, xp.asarray(n_steps, dtype=xp.int64, device=device), is_settled


def _line_search(
    xp: Namespace,
    residual: Array,
    change: Array,
    lower: Array,
    upper: Array,
    ridge: float,
    linear: Array,
    curvature: Array,
    flat: Array,
) -> Array:
    """Return a step length where the slope is nearly zero or still negative; 1 where that is flat enough."""

    def slopes(sizes: Array) -> Array:
        moved = (residual - sizes[:, None] * change) / ridge
        beta = xp.minimum(xp.maximum(moved, lower), upper)
        return linear + sizes * curvature - beta @ change

    device = array_api_compat.device(residual)
    lane = xp.arange(_LENGTHS, dtype=residual.dtype, device=device)
    reach = xp.max(xp.abs(residual)) / xp.maximum(xp.max(xp.abs(change)), xp.ones_like(linear) * 1e-30)
    one = xp.ones((1,), dtype=residual.dtype, device=device)
    high = xp.maximum(4.0 * xp.minimum(reach, one[0]), one[0] * 1e-12)
    low = xp.zeros_like(high)
    is_whole = xp.abs(slopes(one)[0]) <= flat
    for zoom in range(_ZOOMS):
        # first by orders of magnitude: far from the minimum the whole step can be a million times too long
        share = 16.0 ** (lane + 1.0 - _LENGTHS) if zoom == 0 else (lane + 1.0) / _LENGTHS
        sizes = low + (high - low) * share
        is_down = slopes(sizes) <= 0
        low, high = (
            xp.max(xp.where(is_down, sizes, low)),
            xp.min(xp.where(is_down, high, sizes)),
        )
    return xp.where(is_whole, one[0], low)
