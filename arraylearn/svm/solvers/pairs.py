r"""Pair steps: small quadratic programs with a box and one equality constraint, many at a time.

Each program maximizes :math:`p^T x - \tfrac12 x^T Q x` over ``lower <= x <= upper`` with the sum of x held.
The moves are pair steps (the second-order working pair of LIBSVM) and Newton steps on the free coordinates.

References
----------
R.-E. Fan, P.-H. Chen, C.-J. Lin, Working set selection using second order information, JMLR 2005.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.linear import cholesky, solve_triangular
from arraylearn.backend.dispatch import is_worth_compiling
from arraylearn.backend.gpu.launch import cuda_launcher
from arraylearn.backend.namespace import library_name, locate

__all__ = [
    "LEAST_CELLS",
    "Block",
    "Body",
    "choose_body",
    "inverse_curvature_roots",
    "make_block",
    "pair_steps",
    "project",
    "solve_block",
    "solve_block_by_arrays",
]

# A device runs a fixed number of pair steps and then one Newton step: nothing is read on the way.
_PAIR_STEPS = 96
_BISECTIONS = 48
_STEP_SIZES = (1.0, 0.5, 0.25, 0.0625)
LEAST_CELLS = 50_000  # of matrices, from which on pair steps are compiled: one of 224 rows


class Block(NamedTuple):
    """A batch of b programs in m coordinates."""

    matrix: Array  # (b, m, m): symmetric Q; it need not be positive semidefinite
    lower: Array  # (b, m): infinite bounds are fine, equal ones pin a coordinate
    upper: Array  # (b, m)
    roots: Array | None = None  # (b, m, m): inverse_curvature_roots(matrix); None: computed where needed


class Body(NamedTuple):
    """What solves a block in the place of the array program."""

    solve: Callable[[Block, Array, Array, float, int, int], tuple[Array, Array]]  # `solve_block` without xp
    uses_roots: bool  # whether it reads `Block.roots`


def choose_body(xp: Namespace, n_cells: int) -> Body | str:
    """Return the body for matrices of so many cells in all, or why the array program serves."""
    if library_name(xp) != "numpy":
        return "not on a CPU of NumPy"
    from arraylearn.svm.solvers import pairs_cpu

    if is_worth_compiling(n_cells, LEAST_CELLS):
        return Body(pairs_cpu.solve_compiled, uses_roots=False)
    # the array program takes 88 microseconds a step, this one 5: programs of up to 223 rows need no Numba
    return Body(pairs_cpu.solve, uses_roots=True)


def make_block(xp: Namespace, matrix: Array, lower: Array, upper: Array) -> Block:
    """State programs that are solved several times: what depends on the matrix alone is computed once."""
    body = choose_body(xp, math.prod(matrix.shape))
    needs_roots = isinstance(body, str) or body.uses_roots
    return Block(matrix, lower, upper, inverse_curvature_roots(xp, matrix) if needs_roots else None)


def solve_block(
    xp: Namespace, block: Block, gradient: Array, point: Array, *, tol: float, max_steps: int, limit: int
) -> tuple[Array, Array]:
    r"""Improve a batch of programs.

    Parameters
    ----------
    block : Block
        The programs.
    gradient : float array (b, m)
        :math:`p - Q x` at the start.
    point : float array (b, m)
        A feasible start, exactly on a bound where it touches one.
    tol : float
        Stop where the largest violation, :math:`\max_{x<u} g - \min_{x>l} g`, is at most this.
    max_steps : int
        About how many pair steps to take between Newton steps; a body may take fewer.
    limit : int
        No more pair steps than this in all; no Newton step follows the last one.

    Returns
    -------
    point : array (b, m)
        A feasible point with no smaller objective, exactly on a bound where it touches one.
    n_steps : int64 array (b,)
        Pair steps taken.
    """
    body = choose_body(xp, math.prod(block.matrix.shape))
    if isinstance(body, str):
        return solve_block_by_arrays(xp, block, gradient, point, tol=tol, max_steps=max_steps, limit=limit)
    return body.solve(block, gradient, point, tol, max_steps, limit)


def solve_block_by_arrays(
    xp: Namespace, block: Block, gradient: Array, point: Array, *, tol: float, max_steps: int, limit: int
) -> tuple[Array, Array]:
    """Take a fixed number of pair steps, a Newton step, and pair steps again, without a sync."""
    matrix = block.matrix
    roots = inverse_curvature_roots(xp, matrix) if block.roots is None else block.roots
    block = block._replace(matrix=xp.astype(matrix, gradient.dtype), roots=xp.astype(roots, gradient.dtype))
    n_pairs = min(max_steps, _PAIR_STEPS, limit)
    start = point
    point, moved, n_steps = pair_steps(xp, block, gradient, point, tol=tol, n_steps=n_pairs)
    if limit <= n_pairs:
        return point, n_steps
    point = _newton_step(xp, block, moved, point)
    moved = gradient - xp.matmul(block.matrix, (point - start)[..., None])[..., 0]
    point, _, more = pair_steps(xp, block, moved, point, tol=tol, n_steps=min(n_pairs // 2, limit - n_pairs))
    return point, n_steps + more


def inverse_curvature_roots(xp: Namespace, matrix: Array) -> Array:
    r"""Return :math:`(Q_{ii} + Q_{jj} - 2 Q_{ij})^{-1/2}`: what weighs the violation of a pair.

    Parameters
    ----------
    matrix : float array (b, m, m)
        Symmetric Q.

    Returns
    -------
    array (b, m, m)
        Of the dtype of `matrix`; curvatures too small for its rounding count as the least that is not.
    """
    diagonal = xp.linalg.diagonal(matrix)
    largest = xp.max(xp.abs(diagonal), axis=-1)[:, None, None]
    tiny = float(xp.finfo(matrix.dtype).eps)
    floor = 5 * tiny * xp.maximum(largest, xp.full_like(largest, tiny))
    half = 0.5 * diagonal
    # half of the curvature, which takes one pass over memory less
    curvature = xp.maximum(half[:, :, None] + half[:, None, :] - matrix, floor)
    return math.sqrt(0.5) / xp.sqrt(curvature)


def pair_steps(
    xp: Namespace, block: Block, gradient: Array, point: Array, *, tol: float, n_steps: int
) -> tuple[Array, Array, Array]:
    """Take up to `n_steps` pair steps in each program of a block with roots, without a sync.

    Returns
    -------
    point : array (b, m)
        Where the steps led.
    gradient : array (b, m)
        The gradient there.
    n_steps : int64 array (b,)
        Steps taken until no pair violates the optimum by more than `tol`.
    """
    if launch := cuda_launcher(locate(point)):
        from arraylearn.svm.solvers import pairs_gpu

        return pairs_gpu.pair_steps(launch, xp, block, gradient, point, tol, n_steps)
    matrix, lower, upper, roots = block
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
        to_upper, to_lower = at(upper, i) - at(point, i), at(point, j) - at(lower, j)
        step = xp.minimum(at(violation, j) * at(root, j) ** 2, xp.minimum(to_upper, to_lower))
        is_needed = xp.max(violation, axis=-1, keepdims=True) > tol
        step = xp.where(is_needed, xp.maximum(step, xp.zeros_like(step)), 0.0)
        # a coordinate that reaches its bound gets exactly its value
        new_i = xp.where(step >= to_upper, at(upper, i), at(point, i) + step)
        new_j = xp.where(step >= to_lower, at(lower, j), at(point, j) - step)
        moved = xp.where(lane == i, new_i, xp.where(lane == j, new_j, point))
        point = xp.where(is_needed, moved, point)
        gradient = gradient - step * (row(flat, i) - row(flat, j))
        taken = taken + xp.astype(is_needed[:, 0], xp.int64)
    return point, gradient, taken


def _newton_step(xp: Namespace, block: Block, gradient: Array, point: Array) -> Array:
    """Move the free coordinates to the maximum on their face, projected back to the box."""
    matrix, lower, upper, _ = block
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
    if launch := cuda_launcher(locate(point)):
        from arraylearn.svm.solvers import pairs_gpu

        return pairs_gpu.project(launch, xp, (move, point, lower, upper, is_free), _BISECTIONS)
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
    # what bisection left of the sum is spread over the coordinates strictly inside
    is_inside = is_free & (found > lower) & (found < upper)
    n_inside = xp.sum(xp.astype(is_inside, point.dtype), axis=-1, keepdims=True)
    rest = xp.sum(found - point, axis=-1, keepdims=True) / xp.where(n_inside > 0, n_inside, 1.0)
    even = xp.where(is_inside, found - rest, found)
    return xp.minimum(xp.maximum(even, lower), upper)
