"""Compiled bodies of `arraylearn.backend.ops.quadratic`: pair steps in two passes over a working set.

The steps are those of the NumPy body, in another rounding; both end within the same tolerance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled, compiled_loosely
from arraylearn.backend.native import numpy_quadratic

Host = np.ndarray[Any, Any]

__all__ = ["gather_block", "solve_box_block"]

# Coordinates whose best is kept together: the place of a maximum is looked for among so few.
_GROUP = 64
# A step costs a fraction of NumPy's, a Newton step as much: take so many before one.
_STEPS_FOR_ONE = 8


def gather_block(rows: Host, slots: Host, columns: Host) -> Host:
    block = np.empty((slots.shape[0], columns.shape[0]), dtype=rows.dtype)
    order = columns.argsort()
    _gather(np.ascontiguousarray(rows), slots.astype(np.int64), columns.take(order), order, block)
    return block


@compiled
def _gather(rows: Host, slots: Host, ascending: Host, order: Host, block: Host) -> None:
    """Read each row from its beginning to its end, as memory likes it."""
    for k in range(slots.shape[0]):
        row, target = rows[slots[k]], block[k]
        for j in range(ascending.shape[0]):
            target[order[j]] = row[ascending[j]]


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
    blocks = map(_block, matrix, lower, upper)
    max_steps *= _STEPS_FOR_ONE
    return numpy_quadratic.solve_blocks(blocks, gradient, point, tol, max_steps, _pair_steps)


def _block(matrix: Host, lower: Host, upper: Host) -> numpy_quadratic.Block:
    """Keep the diagonal in the place of the curvatures, which are cheaper to compute where they are used."""
    matrix = np.ascontiguousarray(matrix)
    return numpy_quadratic.Block(matrix, np.ascontiguousarray(matrix.diagonal()), lower, upper)


def _pair_steps(
    block: numpy_quadratic.Block, gradient: Host, point: Host, tol: float, max_steps: int
) -> tuple[Host, int]:
    dtype, diagonal = block.matrix.dtype, block.curvature
    n_groups = -(-point.shape[0] // _GROUP)
    rising, falling, diagonals = np.full((3, n_groups * _GROUP), -np.inf, dtype=dtype)
    falling[:] = np.inf
    rising[: point.shape[0]] = np.where(point < block.upper, gradient, -np.inf)
    falling[: point.shape[0]] = np.where(point > block.lower, gradient, np.inf)
    diagonals[: point.shape[0]] = diagonal
    tiny = np.finfo(dtype).eps
    floor = dtype.type(10 * tiny * max(float(np.abs(diagonal).max()), float(tiny)))
    values = point.astype(np.float64)
    bounds = block.lower.astype(np.float64), block.upper.astype(np.float64)
    n_steps = _climb(block.matrix, diagonals, floor, rising, falling, values, *bounds, tol, max_steps)
    return values, n_steps


@compiled_loosely
def _climb(
    matrix: Host,
    diagonal: Host,
    floor: Any,
    rising: Host,
    falling: Host,
    values: Host,
    lower: Host,
    upper: Host,
    tol: float,
    max_steps: int,
) -> int:
    """Take pair steps until none is worth more than `tol`; the arrays by groups end in unused places."""
    n_groups = rising.shape[0] // _GROUP
    highest, lowest, best = np.empty((3, n_groups), rising.dtype)
    worth = np.zeros_like(rising)
    _group_extremes(rising, falling, highest, lowest)
    for n_steps in range(max_steps):
        i = _first_equal(rising, highest)
        top = rising[i]
        if not top - lowest.min() > tol:
            return n_steps
        _weigh_partners(matrix[i], diagonal, diagonal[i], top, floor, falling, worth, best)
        j = _first_equal(worth, best)
        curvature = max(diagonal[i] + diagonal[j] - 2 * matrix[i, j], floor)
        step = np.float64((top - falling[j]) / curvature)
        x_i, x_j = values[i] + step, values[j] - step
        if x_i >= upper[i]:
            step = upper[i] - values[i]
            x_i, x_j = upper[i], values[j] - step
        if x_j <= lower[j]:
            step = values[j] - lower[j]
            x_i, x_j = min(values[i] + step, upper[i]), lower[j]
        if not step > 0:
            return n_steps
        values[i], values[j] = x_i, x_j
        _subtract_rows(matrix[i], matrix[j], step, rising, falling)
        # what could not fall may do so now, and what could not rise
        falling[i], rising[j] = rising[i], falling[j]
        if x_i >= upper[i]:
            rising[i] = -np.inf
        if x_j <= lower[j]:
            falling[j] = np.inf
        _group_extremes(rising, falling, highest, lowest)
    return max_steps


# Each loop below does one thing to few arrays: then the compiler makes vector code of it.


@compiled_loosely
def _group_extremes(rising: Host, falling: Host, highest: Host, lowest: Host) -> None:
    for g in range(highest.shape[0]):
        high, low = rising[g * _GROUP], falling[g * _GROUP]
        for k in range(g * _GROUP, (g + 1) * _GROUP):
            high = rising[k] if rising[k] > high else high
            low = falling[k] if falling[k] < low else low
        highest[g], lowest[g] = high, low


@compiled_loosely
def _first_equal(values: Host, best: Host) -> int:
    """Return where the largest value is, given the largest of each group."""
    group = 0
    for g in range(best.shape[0]):
        if best[g] > best[group]:
            group = g
    for k in range(group * _GROUP, (group + 1) * _GROUP):
        if values[k] == best[group]:
            return k
    return group * _GROUP


@compiled_loosely
def _weigh_partners(
    row: Host, diagonal: Host, own: Any, top: Any, floor: Any, falling: Host, worth: Host, best: Host
) -> None:
    """Compute twice what a step with each partner gains, and the largest of each group."""
    nothing = row.dtype.type(0)
    for k in range(row.shape[0]):
        violation = max(top - falling[k], nothing)
        worth[k] = violation * violation / max(own + diagonal[k] - (row[k] + row[k]), floor)
    for g in range(best.shape[0]):
        most = nothing
        for k in range(g * _GROUP, (g + 1) * _GROUP):
            most = worth[k] if worth[k] > most else most
        best[g] = most


@compiled_loosely
def _subtract_rows(row: Host, other: Host, step: float, rising: Host, falling: Host) -> None:
    """Bring the gradients up to date."""
    size = row.dtype.type(step)
    for k in range(row.shape[0]):
        change = size * (row[k] - other[k])
        rising[k] -= change
        falling[k] -= change
