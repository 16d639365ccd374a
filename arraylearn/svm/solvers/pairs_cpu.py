"""The body of `pairs` for CPUs: pair steps in a host loop, Newton steps by LAPACK.

`climb` is the one loop of pair steps. NumPy runs it in small programs, where its vectors are short and Numba
would cost more to load than it saves; in larger ones Numba compiles it, with loops of its own
(`pair_loops_cpu`) for the three functions on vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import multiply, subtract
from scipy import linalg

from arraylearn._typing import HostArray
from arraylearn.backend.arrays.gather import gather_block
from arraylearn.backend.namespace import HOST
from arraylearn.svm.solvers.pairs import Block, inverse_curvature_roots

if TYPE_CHECKING:
    from arraylearn.svm.solvers.pair_loops_cpu import RowSource

__all__ = [
    "Climb",
    "climb",
    "fetch_row",
    "find_largest",
    "find_partner",
    "find_smallest",
    "solve",
    "solve_compiled",
    "subtract_rows",
]

Steps = Callable[[Block, HostArray, HostArray, float, int], tuple[HostArray, HostArray, int]]

_ROUNDS = 6  # of pair steps and Newton steps, before the caller measures the gap
_CHECK_EVERY = 8  # pair steps between two checks of the tolerance
_COMPILED_STEPS = 8  # a compiled step costs so many times less, a Newton step the same: take more before one


Matrix = list[HostArray] | HostArray  # m rows (m,), or (m, m)
Floats = list[float] | HostArray  # m of them
# (2, m), or two (m,): the gradients of coordinates that may rise, else -inf; of those that may fall, else inf
Slopes = Any


class Climb(NamedTuple):
    """One program, as pair steps read and change it: lists for NumPy, arrays for Numba."""

    rows: Matrix
    source: RowSource | None  # where rows come from that are not there yet; None: all are there
    curvature: Matrix  # inverse roots of curvatures, or for Numba the diagonal (m,)
    floor: float | None  # least curvature; None: the inverse roots have it
    values: Floats  # the point
    lower: Floats
    upper: Floats
    slopes: (
        HostArray | tuple[HostArray, HostArray]
    )  # (2, m), or two (m,): gradients where coordinates may rise, else -inf; may fall, else inf
    scratch: HostArray  # (m,)


def solve(
    block: Block, gradient: HostArray, point: HostArray, tol: float, max_steps: int, limit: int
) -> tuple[HostArray, HostArray]:
    """Solve each program in turn, with pair steps by NumPy."""
    if block.roots is None:
        block = block._replace(roots=inverse_curvature_roots(HOST.xp, block.matrix))
    return _solve_each(block, gradient, point, tol, (max_steps, limit), _steps)


def solve_compiled(
    block: Block, gradient: HostArray, point: HostArray, tol: float, max_steps: int, limit: int
) -> tuple[HostArray, HostArray]:
    """Solve each program in turn, with compiled pair steps; another rounding ends in the same tolerance."""
    return _solve_each(block, gradient, point, tol, (_COMPILED_STEPS * max_steps, limit), _compiled_steps)


def _solve_each(
    block: Block, gradient: HostArray, point: HostArray, tol: float, limits: tuple[int, int], steps: Steps
) -> tuple[HostArray, HostArray]:
    points = np.empty_like(point)
    n_steps = np.zeros(point.shape[0], dtype=np.int64)
    for k in range(point.shape[0]):
        one = Block(*(None if part is None else part[k] for part in block))
        points[k], n_steps[k] = _solve_one(one, gradient[k], point[k], tol, limits, steps)
    return points, n_steps


def _solve_one(
    block: Block, gradient: HostArray, point: HostArray, tol: float, limits: tuple[int, int], steps: Steps
) -> tuple[HostArray, int]:
    """Take pair steps and Newton steps by turns; return the point and the number of pair steps.

    `limits` are the pair steps between Newton steps, and those in all.
    """
    (max_steps, limit), total = limits, 0
    for is_last in (False,) * (_ROUNDS - 1) + (True,):
        most = min(max_steps, limit - total)
        point, gradient, n_steps = steps(block, gradient, point, tol, most)
        total += n_steps
        if is_last or n_steps < most or total >= limit:
            break
        moved, is_definite = _newton_steps(block, gradient, point, tol)
        if not is_definite:
            max_steps *= 4  # only pair steps are left
        gradient = gradient - block.matrix @ (moved - point)
        point = moved
    return point, total


# ---- pair steps


def _steps(
    block: Block, gradient: HostArray, point: HostArray, tol: float, max_steps: int
) -> tuple[HostArray, HostArray, int]:
    """Run `climb` by NumPy: some 5 microseconds a step."""
    values, lower, upper = point.tolist(), block.lower.tolist(), block.upper.tolist()
    rows, roots = list(block.matrix), [] if block.roots is None else list(block.roots)
    slopes = _slopes(block, gradient, point)
    state = Climb(rows, None, roots, None, values, lower, upper, slopes, np.empty_like(slopes[0]))
    n_steps = climb(state, tol, max_steps)
    new = np.array(values)
    return new, gradient - block.matrix @ (new - point), n_steps


def _compiled_steps(
    block: Block, gradient: HostArray, point: HostArray, tol: float, max_steps: int
) -> tuple[HostArray, HostArray, int]:
    """Run `climb` by Numba: a twentieth of that."""
    from arraylearn.svm.solvers.pair_loops_cpu import Blocks, Programs, climb_each

    m = point.shape[0]
    ends, one = np.asarray([0, m]), np.asarray([[0]])
    matrix = Blocks(block.matrix.reshape(-1), one, np.asarray([[m]]), ends[1:])
    lower, upper, base, changed, new = (
        np.array(part, dtype=np.float64) for part in (block.lower, block.upper, point, gradient, point)
    )
    program = Programs(ends, one[0], np.asarray([0, 1]), lower, upper, base, changed, new, np.asarray([0]))
    climb_each(matrix, program, 0, 1, float(tol), max_steps)
    return new, changed, int(program.n_steps[0])


def _slopes(block: Block, gradient: HostArray, point: HostArray) -> HostArray:
    slopes = np.empty((2, point.shape[0]), dtype=block.matrix.dtype)
    slopes[0] = np.where(point < block.upper, gradient, -np.inf)
    slopes[1] = np.where(point > block.lower, gradient, np.inf)
    return slopes


def climb(state: Climb, tol: float, max_steps: int) -> int:
    """Take pair steps until none violates the optimum by more than `tol`; return their number.

    Every coordinate may rise or fall, so that `slopes` holds the gradients of all of them.
    """
    rows, source, curvature, floor, values, lower, upper, slopes, scratch = state
    rising, falling = slopes[0], slopes[1]
    for n_steps in range(max_steps):
        i, highest = find_largest(rising)
        if n_steps % _CHECK_EVERY == 0 and not highest - find_smallest(falling) > tol:
            return n_steps
        fetch_row(source, i)
        j, step = find_partner(i, highest, falling, rows[i], curvature, floor, scratch)
        to_upper, to_lower = upper[i] - values[i], values[j] - lower[j]
        if step > to_upper:
            step = to_upper
        if step > to_lower:
            step = to_lower
        if not step > 0:
            return n_steps
        values[i] += step
        values[j] -= step
        fetch_row(source, j)
        subtract_rows(rows[i], rows[j], step, slopes, scratch)
        falling[i], rising[j] = rising[i], falling[j]  # i may fall now, and j may rise
        if step == to_upper:
            values[i] = upper[i]
            rising[i] = -np.inf
        if step == to_lower:
            values[j] = lower[j]
            falling[j] = np.inf
    return max_steps


def fetch_row(source: RowSource | None, i: int) -> None:
    """Make sure that a row of the matrix is there: for NumPy all are."""


def find_largest(values: HostArray) -> tuple[int, float]:
    """Return the first place of the largest value, and the value."""
    at = int(values.argmax())
    return at, values.item(at)


def find_smallest(values: HostArray) -> float:
    """Return the smallest value."""
    return float(values.min())


def find_partner(
    i: int,
    highest: float,
    falling: HostArray,
    row: HostArray,
    curvature: Matrix,
    floor: float | None,
    scratch: HostArray,
) -> tuple[int, float]:
    """Return the coordinate whose fall gains most with the rise of i, and the size of the step."""
    roots = curvature[i]
    subtract(highest, falling, scratch)
    multiply(scratch, roots, scratch)
    j = int(scratch.argmax())
    return j, scratch.item(j) * roots.item(j)


def subtract_rows(row: HostArray, other: HostArray, step: float, slopes: Slopes, scratch: HostArray) -> None:
    """Update the gradients after a step."""
    subtract(row, other, scratch)
    multiply(scratch, step, scratch)
    subtract(slopes, scratch, slopes)


# ---- Newton steps


def _newton_steps(block: Block, gradient: HostArray, point: HostArray, tol: float) -> tuple[HostArray, bool]:
    """Move the free coordinates to the maximum on their face, twice at most, projected back to the box."""
    for _ in range(2):
        free = np.flatnonzero((point > block.lower) & (point < block.upper))
        slope = gradient[free]
        if free.shape[0] < 2 or slope.max() - slope.min() <= 0.5 * tol:
            break
        face = gather_block(HOST.xp, block.matrix, free, free).astype(np.float64, copy=False)
        face.flat[:: free.shape[0] + 1] += 1e-7 * max(float(np.abs(face.diagonal()).max()), 1e-150)
        # the transpose is the same matrix in the order that LAPACK overwrites without a copy
        factor, info = linalg.lapack.dpotrf(face.T, lower=1, overwrite_a=1, clean=0)
        if info != 0:
            return point, False
        solved, _ = linalg.lapack.dpotrs(factor, np.stack([slope, np.ones_like(slope)], axis=1), lower=1)
        direction = solved[:, 0] - solved[:, 1] * (solved[:, 0].sum() / solved[:, 1].sum())
        direction -= direction.sum() / free.shape[0]  # the factor of a nearly singular face rounds much
        moved = _search(block, gradient, point, free, direction)
        if moved is None:
            break
        point, gradient, is_inside = moved
        if is_inside:
            break
    return point, True


def _search(
    block: Block, gradient: HostArray, point: HostArray, free: HostArray, direction: HostArray
) -> tuple[HostArray, HostArray, bool] | None:
    """Go along a direction while the objective rises; also return whether no bound was met."""
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


def _project(target: HostArray, point: HostArray, lower: HostArray, upper: HostArray) -> HostArray:
    """Return the nearest point to `target` in the box with the sum of `point`, by Newton's method."""
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
