"""NumPy bodies of `arraylearn.backend.ops.quadratic`: tight host loops over reused buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from arraylearn.backend.blas import one_thread_per_product

Host = np.ndarray[Any, Any]

_ROUNDS = 6  # of pair steps and a Newton phase, before the caller looks again
_CHECK_EVERY = 8
_CHUNK_ROWS = 32


def put(x: Host, idx: Host, values: Host) -> Host:
    result = x.copy()
    result[idx] = values
    return result


def gather_block(rows: Host, slots: Host, columns: Host) -> Host:
    block = np.empty((slots.shape[0], columns.shape[0]), dtype=rows.dtype)
    # row by row: numpy's two-dimensional gather costs twice as much
    for k, slot in enumerate(slots.tolist()):
        rows[slot].take(columns, out=block[k], mode="clip")
    return block


def combine_rows(rows: Host, slots: Host, weights: Host) -> Host:
    used = np.flatnonzero(weights)
    slots, weights = slots[used], weights[used]
    total = np.zeros(rows.shape[1], dtype=weights.dtype)
    # in pieces that stay in the cache, instead of one copy of all rows
    piece = np.empty((min(_CHUNK_ROWS, slots.shape[0]), rows.shape[1]), dtype=rows.dtype)
    with one_thread_per_product():
        for start in range(0, slots.shape[0], _CHUNK_ROWS):
            some = slots[start : start + _CHUNK_ROWS]
            taken = piece[: some.shape[0]]
            rows.take(some, axis=0, out=taken, mode="clip")
            total += weights[start : start + _CHUNK_ROWS].astype(rows.dtype) @ taken
    return total


class Block(NamedTuple):
    """One quadratic program: its matrix, and what the pair steps want to know of its curvature."""

    matrix: Host
    curvature: Host  # (m, m) inverse roots, for every pair; (m,) the diagonal for compiled pair steps
    lower: Host
    upper: Host


def solve_box_block(
    matrix: Host,
    roots: Host | None,
    gradient: Host,
    point: Host,
    lower: Host,
    upper: Host,
    tol: float,
    max_steps: int,
) -> tuple[Host, Host]:
    if roots is None:
        roots = inverse_curvature_roots(matrix)
    blocks = map(Block, matrix, roots, lower, upper)
    return solve_blocks(blocks, gradient, point, tol, max_steps, _pair_steps)


PairSteps = Callable[[Block, Host, Host, float, int], tuple[Host, int]]


def solve_blocks(
    blocks: Iterable[Block], gradient: Host, point: Host, tol: float, max_steps: int, pair_steps: PairSteps
) -> tuple[Host, Host]:
    """Solve each program in turn; return the points and the numbers of pair steps."""
    points = np.empty_like(point)
    n_steps = np.zeros(point.shape[0], dtype=np.int64)
    with one_thread_per_product():
        for k, block in enumerate(blocks):
            points[k], n_steps[k] = _solve_one(block, gradient[k], point[k], tol, max_steps, pair_steps)
    return points, n_steps


def inverse_curvature_roots(matrix: Host) -> Host:
    roots = np.empty_like(matrix)
    tiny = float(np.finfo(matrix.dtype).eps)
    for curvature, one in zip(roots, matrix, strict=True):
        diagonal = np.ascontiguousarray(one.diagonal())
        floor = 10 * tiny * max(float(np.abs(diagonal).max()), tiny)
        np.multiply(one, matrix.dtype.type(-2), out=curvature)
        curvature += diagonal
        curvature += diagonal[:, None]
        np.maximum(curvature, floor, out=curvature)
        np.sqrt(curvature, out=curvature)
        np.reciprocal(curvature, out=curvature)
    return roots


def _solve_one(
    block: Block, gradient: Host, point: Host, tol: float, max_steps: int, pair_steps: PairSteps
) -> tuple[Host, int]:
    """Take pair steps and Newton steps by turns; return the point and the number of pair steps."""
    start, gradient_at_start = point, gradient
    total = 0
    for last in (False,) * (_ROUNDS - 1) + (True,):
        point, n_steps = pair_steps(block, gradient, point, tol, max_steps)
        total += n_steps
        if last or n_steps < max_steps:
            break
        gradient = gradient_at_start - block.matrix @ (point - start)
        point, is_definite = _newton_steps(block, gradient, point, tol)
        if not is_definite:
            max_steps *= 4  # pair steps alone will have to do
        gradient = gradient_at_start - block.matrix @ (point - start)
    return point, total


def _pair_steps(block: Block, gradient: Host, point: Host, tol: float, max_steps: int) -> tuple[Host, int]:
    """Sequential minimal optimization by second-order pairs, some 6 microseconds a step.

    A coordinate that may rise has its gradient in `rising`, one that may fall in `falling`; each is in at
    least one of them, so that no third copy is needed.
    """
    dtype = block.matrix.dtype
    values: list[float] = point.tolist()
    lower: list[float] = block.lower.tolist()
    upper: list[float] = block.upper.tolist()
    both = np.empty((2, point.shape[0]), dtype=dtype)
    rising, falling = both
    rising[:] = np.where(point < block.upper, gradient, -np.inf)
    falling[:] = np.where(point > block.lower, gradient, np.inf)
    violation, scratch = np.empty_like(rising), np.empty_like(rising)
    rows, roots = list(block.matrix), list(block.curvature)
    subtract, multiply = np.subtract, np.multiply
    highest, largest, best, rising_at = rising.argmax, violation.max, scratch.argmax, rising.item
    n_steps = 0
    while n_steps < max_steps:
        i = int(highest())
        root = roots[i]
        subtract(rising_at(i), falling, violation)
        if n_steps % _CHECK_EVERY == 0 and not largest() > tol:
            break
        multiply(violation, root, scratch)
        j = int(best())
        size = root.item(j)
        step = violation.item(j) * size * size
        x_i, x_j = values[i] + step, values[j] - step
        if x_i >= upper[i]:
            step = upper[i] - values[i]
            x_i, x_j = upper[i], values[j] - step
        if x_j <= lower[j]:
            step = values[j] - lower[j]
            x_i, x_j = min(values[i] + step, upper[i]), lower[j]
        if not step > 0:
            break
        values[i], values[j] = x_i, x_j
        subtract(rows[i], rows[j], scratch)
        multiply(scratch, step, scratch)
        subtract(both, scratch, both)
        falling[i], rising[j] = rising[i], falling[j]
        if x_i >= upper[i]:
            rising[i] = -np.inf
        if x_j <= lower[j]:
            falling[j] = np.inf
        n_steps += 1
    return np.array(values), n_steps


def _newton_steps(block: Block, gradient: Host, point: Host, tol: float) -> tuple[Host, bool]:
    """Move the free coordinates to the maximum on their face, twice at most, projected back to the box."""
    for _ in range(2):
        free = np.flatnonzero((point > block.lower) & (point < block.upper))
        slope = gradient[free]
        if free.shape[0] < 2 or slope.max() - slope.min() <= 0.5 * tol:
            break
        face = gather_block(block.matrix, free, free).astype(np.float64, copy=False)
        face.flat[:: free.shape[0] + 1] += 1e-7 * max(float(np.abs(face.diagonal()).max()), 1e-150)
        # the transpose is the same matrix in the order that LAPACK overwrites without a copy
        factor, info = linalg.lapack.dpotrf(face.T, lower=1, overwrite_a=1, clean=0)
        if info != 0:
            return point, False
        solved, _ = linalg.lapack.dpotrs(factor, np.stack([slope, np.ones_like(slope)], axis=1), lower=1)
        direction = solved[:, 0] - solved[:, 1] * (solved[:, 0].sum() / solved[:, 1].sum())
        direction -= direction.sum() / free.shape[0]  # the factor of a nearly singular face rounds much
        climbed = _climb(block, gradient, point, free, direction)
        if climbed is None:
            break
        point, gradient, is_inside = climbed
        if is_inside:
            break
    return point, True


def _climb(
    block: Block, gradient: Host, point: Host, free: Host, direction: Host
) -> tuple[Host, Host, bool] | None:
    """Go along `direction` as far as the objective rises; say whether no bound was met."""
    start, lower, upper = point[free], block.lower[free], block.upper[free]
    move = np.zeros_like(point)
    for size in (1.0, 0.5, 0.25, 0.125, 0.0625):
        target = start + size * direction
        is_inside = bool(np.all((target > lower) & (target < upper)))
        new = target if is_inside else _project(target, start, lower, upper)
        move[free] = new - start
        fall = block.matrix @ move.astype(block.matrix.dtype)
        if move @ (gradient - 0.5 * fall) > 0:
            moved = point.copy()
            moved[free] = new
            return moved, gradient - fall, is_inside and size == 1.0
    return None


def _project(target: Host, point: Host, lower: Host, upper: Host) -> Host:
    """Return the nearest point to `target` in the box with the sum of `point`."""
    total = point.sum()
    low, high = float((target - point).min()), float((target - point).max())
    shift = 0.0
    for _ in range(60):
        found = np.minimum(np.maximum(target - shift, lower), upper)
        excess = float(found.sum()) - total
        n_inside = int(np.count_nonzero((found > lower) & (found < upper)))
        if abs(excess) <= 1e-14 * max(float(np.abs(found).sum()), 1e-300):
            break
        low, high = (shift, high) if excess > 0 else (low, shift)
        newton = shift + excess / n_inside if n_inside else 0.5 * (low + high)
        shift = newton if low < newton < high else 0.5 * (low + high)
    return found


def inverse_definite(matrix: Host) -> Host:
    lapack: Any = linalg.get_lapack_funcs(("potrf", "potri"), (matrix,))
    potrf, potri = lapack
    factor, info = potrf(matrix.T, lower=1, clean=0)
    if info == 0:
        inverse, info = potri(factor, lower=1, overwrite_c=1)
    if info != 0:
        return np.full_like(matrix, np.nan)
    lower: Host = np.tril(inverse, -1)
    full: Host = lower + lower.T + np.diag(inverse.diagonal())
    return full
