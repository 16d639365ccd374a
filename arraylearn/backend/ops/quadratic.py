"""Small quadratic programs with a box and one equality constraint."""

from __future__ import annotations

import math

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.linear import cholesky, solve_triangular
from arraylearn.backend.native import native

__all__ = [
    "inverse_curvature_roots",
    "pair_steps",
    "project",
    "solve_box_block",
]

# A device runs a fixed number of pair steps and then one Newton step: nothing is read on the way.
_PAIR_STEPS = 96
_BISECTIONS = 48
_STEP_SIZES = (1.0, 0.5, 0.25, 0.0625)


def solve_box_block(
    xp: Namespace,
    matrix: Array,
    gradient: Array,
    point: Array,
    lower: Array,
    upper: Array,
    *,
    tol: float,
    max_steps: int,
    roots: Array | None = None,
) -> tuple[Array, Array]:
    r"""Improve a batch of small quadratic programs with a box and one equality.

    Each maximizes :math:`p^T x - \tfrac12 x^T Q x` over ``lower <= x <= upper`` with the sum of x held. The
    moves are pair steps (the second-order working pair of LIBSVM) and Newton steps on the free coordinates.

    Parameters
    ----------
    matrix : float array (b, m, m)
        Symmetric Q; it need not be positive semidefinite.
    gradient : float array (b, m)
        :math:`p - Q x` at the start.
    point : float array (b, m)
        A feasible start, exactly on a bound where it touches one.
    lower, upper : float array (b, m)
        The box; infinite bounds are fine, equal ones pin a coordinate.
    tol : float
        Stop where the largest violation, :math:`\max_{x<u} g - \min_{x>l} g`, is at most this.
    max_steps : int
        About how many pair steps to take between Newton steps; a body may take fewer.
    roots : float array (b, m, m), optional
        `inverse_curvature_roots` of the matrix, for callers that come again with the same one.

    Returns
    -------
    point : array (b, m)
        A feasible point with no smaller objective, exactly on a bound where it touches one.
    n_steps : int64 array (b,)
        Pair steps taken.
    """
    if fast := native(xp, "solve_box_block"):
        found = fast(matrix, roots, gradient, point, lower, upper, tol, max_steps)
        return found[0], found[1]
    return solve_box_block_portable(xp, matrix, roots, gradient, point, lower, upper, tol, max_steps)


def inverse_curvature_roots(xp: Namespace, matrix: Array) -> Array:
    r"""Return :math:`(Q_{ii} + Q_{jj} - 2 Q_{ij})^{-1/2}`, what a pair's curvature is worth.

    Parameters
    ----------
    matrix : float array (b, m, m)
        Symmetric Q.

    Returns
    -------
    array (b, m, m)
        Of the dtype of `matrix`; curvatures too small for its rounding count as the least that is not.
    """
    if fast := native(xp, "inverse_curvature_roots"):
        return fast(matrix)
    diagonal = xp.linalg.diagonal(matrix)
    largest = xp.max(xp.abs(diagonal), axis=-1)[:, None, None]
    tiny = float(xp.finfo(matrix.dtype).eps)
    floor = 10 * tiny * xp.maximum(largest, xp.full_like(largest, tiny))
    curvature = diagonal[:, :, None] + diagonal[:, None, :] - 2.0 * matrix
    return 1.0 / xp.sqrt(xp.maximum(curvature, floor))


def solve_box_block_portable(
    xp: Namespace,
    matrix: Array,
    roots: Array | None,
    gradient: Array,
    point: Array,
    lower: Array,
    upper: Array,
    tol: float,
    max_steps: int,
) -> tuple[Array, Array]:
    """Take a fixed number of pair steps, a Newton step, and pair steps again, without a wait."""
    if roots is None:
        roots = inverse_curvature_roots(xp, matrix)
    matrix, roots = xp.astype(matrix, gradient.dtype), xp.astype(roots, gradient.dtype)
    n_pairs = min(max_steps, _PAIR_STEPS)
    start = point
    point, moved, n_steps = pair_steps(
        xp, matrix, roots, gradient, point, lower, upper, tol=tol, n_steps=n_pairs
    )
    point = _newton_step(xp, matrix, moved, point, lower, upper)
    moved = gradient - xp.matmul(matrix, (point - start)[..., None])[..., 0]
    point, _, more = pair_steps(xp, matrix, roots, moved, point, lower, upper, tol=tol, n_steps=n_pairs // 2)
    return point, n_steps + more


def pair_steps(
    xp: Namespace,
    matrix: Array,
    roots: Array,
    gradient: Array,
    point: Array,
    lower: Array,
    upper: Array,
    *,
    tol: float,
    n_steps: int,
) -> tuple[Array, Array, Array]:
    """Take up to `n_steps` pair steps in each program of `solve_box_block`, whose arguments these are.

    Returns
    -------
    point : array (b, m)
        Where the steps led.
    gradient : array (b, m)
        The gradient there.
    n_steps : int64 array (b,)
        Steps taken until no pair violates the optimum by more than `tol`.
    """
    if fast := native(xp, "pair_steps"):
        found: tuple[Array, Array, Array] = fast(matrix, roots, gradient, point, lower, upper, tol, n_steps)
        return found
    b, m = point.shape
    device = array_api_compat.device(point)
    lane = xp.arange(m, dtype=xp.int64, device=device)
    first_row = m * xp.arange(b, dtype=xp.int64, device=device)[:, None]
    flat, flat_roots = xp.reshape(matrix, (b * m, m)), xp.reshape(roots, (b * m, m))
    taken = xp.zeros((b,), dtype=xp.int64, device=device)

    def row(rows: Array, i: Array) -> Array:
        return xp.take(rows, xp.reshape(i + first_row, (-1,)), axis=0)

    def at(values: Array, i: Array) -> Array:
        return xp.take_along_axis(values, i, axis=-1)

    for _ in range(n_steps):
        i = xp.argmax(xp.where(point < upper, gradient, -math.inf), axis=-1, keepdims=True)
        highest = xp.where(at(point, i) < at(upper, i), at(gradient, i), -math.inf)
        violation = highest - xp.where(point > lower, gradient, math.inf)
        root = row(flat_roots, i)
        j = xp.argmax(violation * root, axis=-1, keepdims=True)
        room_i, room_j = at(upper, i) - at(point, i), at(point, j) - at(lower, j)
        step = xp.minimum(at(violation, j) * at(root, j) ** 2, xp.minimum(room_i, room_j))
        is_needed = xp.max(violation, axis=-1, keepdims=True) > tol
        step = xp.where(is_needed, xp.maximum(step, xp.zeros_like(step)), 0.0)
        # what reaches its bound stands on it exactly
        new_i = xp.where(step >= room_i, at(upper, i), at(point, i) + step)
        new_j = xp.where(step >= room_j, at(lower, j), at(point, j) - step)
        moved = xp.where(lane == i, new_i, xp.where(lane == j, new_j, point))
        point = xp.where(is_needed, moved, point)
        gradient = gradient - step * (row(flat, i) - row(flat, j))
        taken = taken + xp.astype(is_needed[:, 0], xp.int64)
    return point, gradient, taken


def _newton_step(
    xp: Namespace, matrix: Array, gradient: Array, point: Array, lower: Array, upper: Array
) -> Array:
    """Move the free coordinates to the maximum on their face, projected back to the box."""
    is_free = (point > lower) & (point < upper)
    free = xp.astype(is_free, point.dtype)
    diagonal = xp.linalg.diagonal(matrix)
    ridge = (
        1e-7 * xp.max(xp.abs(diagonal), axis=-1, keepdims=True)
        + float(xp.finfo(point.dtype).smallest_normal) ** 0.5
    )
    eye = xp.eye(point.shape[-1], dtype=point.dtype, device=array_api_compat.device(point))
    face = matrix * free[:, :, None] * free[:, None, :] + eye * xp.where(is_free, ridge, 1.0)[:, None, :]
    factor, is_definite = cholesky(xp, face)
    right = xp.stack([gradient * free, free], axis=-1)
    halfway = solve_triangular(xp, factor, right)
    solved = solve_triangular(xp, xp.matrix_transpose(factor), halfway, upper=True)
    total = xp.sum(solved, axis=1)
    ratio = total[:, 0] / xp.where(total[:, 1] > 0, total[:, 1], 1.0)
    direction = (solved[:, :, 0] - ratio[:, None] * solved[:, :, 1]) * free
    # the factor of a nearly singular face rounds much: the sum is held all the same
    n_free = xp.sum(free, axis=1, keepdims=True)
    direction = direction - free * (xp.sum(direction, axis=1, keepdims=True) / xp.maximum(n_free, 1.0))
    direction = xp.where(is_definite[:, None] & (total[:, 1] > 0)[:, None], direction, 0.0)
    sizes = xp.asarray(_STEP_SIZES, dtype=point.dtype, device=array_api_compat.device(point))
    trial = project(
        xp, direction[:, None, :] * sizes[:, None], *(v[:, None, :] for v in (point, lower, upper, is_free))
    )
    change = trial - point[:, None, :]
    gain = xp.sum(change * (gradient[:, None, :] - 0.5 * xp.matmul(change, matrix)), axis=-1)
    best = xp.argmax(gain, axis=-1, keepdims=True)
    chosen = xp.take_along_axis(
        trial, xp.broadcast_to(best[..., None], (*best.shape, point.shape[-1])), axis=1
    )
    return xp.where(xp.take_along_axis(gain, best, axis=-1) > 0, chosen[:, 0, :], point)


def project(xp: Namespace, move: Array, point: Array, lower: Array, upper: Array, is_free: Array) -> Array:
    """Return the nearest point to ``point + move`` in a box with the sum of `point`.

    Parameters
    ----------
    move : float array (..., m)
        Where to go from `point`; the leading axes of all arguments broadcast.
    point : float array (..., m)
        A point of the box.
    lower, upper : float array (..., m)
        The box; infinite bounds are fine.
    is_free : bool array (..., m)
        Which coordinates may move.

    Returns
    -------
    array (..., m)
        The projection, exactly on a bound where it touches one.
    """
    if fast := native(xp, "project"):
        return fast(move, point, lower, upper, is_free, _BISECTIONS)
    low = xp.min(xp.where(is_free, move, 0.0), axis=-1, keepdims=True)
    high = xp.max(xp.where(is_free, move, 0.0), axis=-1, keepdims=True)

    def clipped(shift: Array) -> Array:
        inside = xp.minimum(xp.maximum(point + move - shift, lower), upper)
        return xp.where(is_free, inside, point)

    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        is_heavy = xp.sum(clipped(middle) - point, axis=-1, keepdims=True) > 0
        low, high = xp.where(is_heavy, middle, low), xp.where(is_heavy, high, middle)
    found = clipped(high)
    # what bisection left of the sum goes to those strictly inside
    is_inside = is_free & (found > lower) & (found < upper)
    n_inside = xp.sum(xp.astype(is_inside, point.dtype), axis=-1, keepdims=True)
    rest = xp.sum(found - point, axis=-1, keepdims=True) / xp.where(n_inside > 0, n_inside, 1.0)
    even = xp.where(is_inside, found - rest, found)
    return xp.minimum(xp.maximum(even, lower), upper)
