"""Dense solver: many small dual problems as one batch, each with its whole kernel matrix in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.dispatch import is_worth_compiling
from arraylearn.backend.namespace import Place, from_host, library_name, to_host
from arraylearn.backend.threads import small_products
from arraylearn.svm.solvers.dual import (
    DualProblem,
    DualSolution,
    KernelMatrix,
    Settings,
    StallRule,
    extremes,
    objective,
    refuse_nan,
)
from arraylearn.svm.solvers.pairs import LEAST_CELLS, Block, make_block, solve_block

__all__ = ["Body", "choose_body", "solve_dense"]

# Rounds without an improvement after which a problem counts as stalled by rounding.
_PATIENCE = 20


Body = Callable[[KernelMatrix, Sequence[Array], Sequence[DualProblem], Settings], list[DualSolution]]


def choose_body(xp: Namespace, n_cells: int) -> Body | str:
    """Return what takes pair steps in problems with so many cells of matrices, or why `solve_dense` does."""
    if library_name(xp) != "numpy":
        return "not on a CPU of NumPy"
    if not is_worth_compiling(n_cells, LEAST_CELLS):
        return "less work than 50,000 cells"
    from arraylearn.svm.solvers import dense_cpu

    return dense_cpu.climb_together


def solve_dense(
    matrix: KernelMatrix, members: Sequence[Array], problems: Sequence[DualProblem], settings: Settings
) -> list[DualSolution]:
    """Solve small problems, each on its own rows of the matrix, in batches that fit `cache_bytes`.

    Parameters
    ----------
    matrix : KernelMatrix
        Of all rows.
    members : sequence of int64 arrays (m,)
        The rows that each problem is about.
    problems : sequence of DualProblem
        Arrays of shape (m,).
    settings : Settings
        When to stop.
    """
    xp = matrix.place.xp
    m = max(idx.shape[0] for idx in members)
    dtype = problems[0].linear.dtype
    per_batch = max(1, settings.cache_bytes // (3 * 8 * m * m))
    wide = matrix.of_dtype(dtype)
    solutions: list[DualSolution] = []
    for first in range(0, len(members), per_batch):
        some = range(first, min(first + per_batch, len(members)))
        blocks = [_padded(xp, wide.block(members[k], members[k]), m) for k in some]
        batch = [DualProblem(*(_padded(xp, part, m) for part in problems[k])) for k in some]
        stacked = DualProblem(*(xp.stack(list(parts)) for parts in zip(*batch, strict=True)))
        with small_products(xp):
            found = _solve_batch(matrix.place, xp.stack(blocks), stacked, settings)
        for k, solution in zip(some, found, strict=True):
            n = members[k].shape[0]
            solutions.append(solution._replace(beta=solution.beta[:n], gradient=solution.gradient[:n]))
    return solutions


def _solve_batch(place: Place, matrix: Array, problem: DualProblem, settings: Settings) -> list[DualSolution]:
    """Solve a batch of dual problems; solved ones leave the batch. One sync per round, for all problems.

    Parameters
    ----------
    place : Place
        Where the arrays are.
    matrix : array (b, m, m)
        Kernel matrices in the accumulator's dtype, padded with rows whose bounds are both 0.
    problem : DualProblem
        Arrays of shape (b, m).
    settings : Settings
        When to stop.
    """
    xp = place.xp
    solutions: dict[int, DualSolution] = {}
    active = list(range(matrix.shape[0]))  # positions in the original batch of the problems left
    beta = problem.start
    n_steps = xp.zeros((len(active),), dtype=xp.int64, device=place.device)
    before: list[int | None] = [None] * len(active)  # steps after the round before
    stall_rules = [StallRule(_PATIENCE) for _ in active]
    limit = settings.step_limit(beta.shape[1])
    block = make_block(xp, matrix, problem.lower, problem.upper)
    while True:
        gradient = problem.linear - xp.matmul(block.matrix, beta[..., None])[..., 0]
        highest, lowest = extremes(xp, beta, gradient, problem)
        value = objective(xp, beta, gradient, problem)
        gaps, objectives, taken = _read(place, highest - lowest, value, n_steps)
        refuse_nan(*gaps)
        if settings.report is not None:
            settings.report(sum(taken), max(gaps))
        is_open = []
        for k, which in enumerate(active):
            is_converged = not gaps[k] > settings.tol
            is_stalled = stall_rules[which].is_stalled(gaps[k], objectives[k]) or taken[k] == before[k]
            if not (is_converged or is_stalled or taken[k] >= limit):
                is_open.append(k)
                continue
            solutions[which] = DualSolution(
                beta[k, :], gradient[k, :], gaps[k], taken[k], is_converged, is_stalled and not is_converged
            )
        if not is_open:
            break
        if len(is_open) < len(active):
            idx = from_host(is_open, place, xp.int64)
            active, taken = ([some[k] for k in is_open] for some in (active, taken))
            beta, gradient, n_steps, *rest = (
                None if values is None else xp.take(values, idx, axis=0)
                for values in (beta, gradient, n_steps, *problem, block.matrix, block.roots)
            )
            problem = DualProblem(*rest[:4])
            block = Block(rest[4], problem.lower, problem.upper, rest[5])
        before = [*taken]
        tol, left = 0.9 * settings.tol, limit - max(taken)
        beta, more = solve_block(xp, block, gradient, beta, tol=tol, max_steps=beta.shape[1], limit=left)
        n_steps = n_steps + more
    return [solutions[k] for k in sorted(solutions)]


def _read(
    place: Place, gaps: Array, values: Array, n_steps: Array
) -> tuple[list[float], list[float], list[int]]:
    """Read the gaps, objectives and step counts of all problems in one copy: the one sync of a round."""
    read = to_host(place.xp.stack([gaps, values, place.xp.astype(n_steps, gaps.dtype)])).tolist()
    return read[0], read[1], [int(count) for count in read[2]]


def _padded(xp: Namespace, values: Array, m: int) -> Array:
    """Append zeros so that every axis has length `m`."""
    for axis in range(values.ndim):
        shape = (*values.shape[:axis], m - values.shape[axis], *values.shape[axis + 1 :])
        if shape[axis]:
            zeros = xp.zeros(shape, dtype=values.dtype, device=array_api_compat.device(values))
            values = xp.concat([values, zeros], axis=axis)
    return values
