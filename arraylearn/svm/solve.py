"""Choose a solver for dual problems whose bounds are finite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.gather import put
from arraylearn.backend.namespace import from_host, to_host
from arraylearn.svm.blocks import solve_blocks
from arraylearn.svm.decomposition import decompose, make_rows
from arraylearn.svm.dual import DualProblem, DualSolution, objective
from arraylearn.svm.interior import solve_linear
from arraylearn.svm.low_rank import factor_low_rank
from arraylearn.svm.rows import KernelMatrix, KernelRows
from arraylearn.svm.settings import Settings
from arraylearn.svm.smoothed import solve_smoothed

__all__ = ["DENSE_ROWS", "SOLVERS", "SolverName", "solve_dense", "solve_large", "solve_small"]

SolverName = Literal["auto", "decomposition", "newton", "interior", "dense"]
SOLVERS = ("auto", "decomposition", "newton", "interior", "dense")

# Up to this many rows the whole kernel matrix of a problem is one block.
DENSE_ROWS = 700
# Pair steps per row after which kernels are suspected to be of low rank; the others need two to ten.
_PATIENCE = 10
# The same for small linear problems, of which many are nearly separable.
_LINEAR_PATIENCE = 2
# Where Newton steps cost much (n d^2 above this), a few pair steps are tried first: they are all that nearly
# separable rows need.
_TRIAL_WORTH = 1e8
_TRIAL_STEPS = 1500

Stage = Callable[[DualProblem, Settings], DualSolution]


def solve_large(
    matrix: KernelMatrix,
    problem: DualProblem,
    settings: Settings,
    *,
    solver: SolverName,
    is_linear: bool,
    store: KernelRows | None = None,
) -> DualSolution:
    """Solve one problem whose kernel matrix need not fit in memory.

    `store` holds kernel rows that problems on the same matrix share.
    """
    kept = store

    def by_pairs(stated: DualProblem, limits: Settings) -> DualSolution:
        nonlocal kept
        kept = kept or make_rows(matrix, _largest_bound(problem), settings)
        return decompose(kept, stated, limits)

    def by_newton(stated: DualProblem, limits: Settings) -> DualSolution:
        return solve_smoothed(matrix.place, matrix.x, stated, limits)

    def by_interior(stated: DualProblem, limits: Settings) -> DualSolution:
        return _solve_interior(matrix, stated, limits)

    def by_factor(stated: DualProblem, limits: Settings) -> DualSolution:
        return _solve_low_rank(matrix, stated, limits)

    stages: dict[str, list[Stage]] = {
        "newton": [by_newton, by_pairs],
        "interior": [by_interior, by_pairs],
        "decomposition": [by_pairs],
    }
    if solver != "auto":
        return _in_turn(matrix, problem, settings, stages[solver])
    if is_linear and matrix.x.shape[1] < matrix.n:
        plan: list[Stage] = [by_newton, by_interior, by_pairs]
        if matrix.n * matrix.x.shape[1] ** 2 > _TRIAL_WORTH:
            plan = [_at_most(_TRIAL_STEPS, by_pairs), *plan]
        return _in_turn(matrix, problem, settings, plan)
    return _in_turn(
        matrix, problem, settings, [_at_most(_PATIENCE * matrix.n, by_pairs), by_factor, by_pairs]
    )


def _at_most(n_steps: int, stage: Stage) -> Stage:
    """Give a stage a limit of its own."""

    def limited(problem: DualProblem, settings: Settings) -> DualSolution:
        limit = n_steps if settings.max_iter < 0 else min(n_steps, settings.max_iter)
        return stage(problem, settings._replace(max_iter=limit))

    return limited


def _in_turn(
    matrix: KernelMatrix, problem: DualProblem, settings: Settings, stages: Sequence[Stage]
) -> DualSolution:
    """Let solvers take over from each other until one converges; each begins at the best point so far."""
    xp = matrix.place.xp
    best: DualSolution | None = None
    n_iter, highest = 0, -float("inf")
    for k, stage in enumerate(stages):
        left = settings.max_iter if settings.max_iter < 0 else max(settings.max_iter - n_iter, 0)
        begun = problem if best is None else problem._replace(start=best.beta)
        found = stage(begun, settings._replace(max_iter=left))
        n_iter += found.n_iter
        is_last = k + 1 == len(stages) or 0 <= settings.max_iter <= n_iter
        if found.is_converged or is_last:
            return found._replace(n_iter=n_iter)
        value = float(objective(xp, found.beta, found.gradient, problem))
        if value > highest and found.gap < float("inf"):
            best, highest = found, value
    raise AssertionError("no stage")


def _largest_bound(problem: DualProblem) -> float:
    """Read the largest finite distance of a bound from zero."""
    values = to_host(problem.upper - problem.lower)
    return float(values.max())


def _solve_interior(matrix: KernelMatrix, problem: DualProblem, settings: Settings) -> DualSolution:
    """Solve on the rows whose box is open; the others keep their only value."""
    xp = matrix.place.xp
    is_open = to_host(problem.upper > problem.lower)
    if is_open.all():
        return solve_linear(matrix.place, matrix.x, problem, settings)
    idx = from_host(is_open.nonzero()[0], matrix.place, xp.int64)
    inner = DualProblem(*(xp.take(values, idx, axis=0) for values in problem))
    x = xp.astype(matrix.x, problem.linear.dtype, copy=False)
    found = solve_linear(matrix.place, xp.take(x, idx, axis=0), inner, settings)
    beta = _spread(matrix, idx, found.beta)
    return found._replace(beta=beta, gradient=problem.linear - x @ (beta @ x))


def _spread(matrix: KernelMatrix, idx: Array, values: Array) -> Array:
    zero = matrix.place.xp.zeros((matrix.n,), dtype=values.dtype, device=matrix.place.device)
    return put(matrix.place.xp, zero, idx, values)


def _solve_low_rank(matrix: KernelMatrix, problem: DualProblem, settings: Settings) -> DualSolution:
    """Solve as a linear problem on the columns of a low-rank factor; not converged where there is none.

    The gap is that of the factored matrix; pair steps on the true one have the last word.
    """
    xp = matrix.place.xp
    mass = float(xp.sum(xp.abs(problem.start)))
    error = 0.1 * settings.tol / max(mass, 1e-300)
    factor = factor_low_rank(matrix, error=error, max_bytes=settings.cache_bytes)
    if factor is None:
        return DualSolution(problem.start, problem.linear, float("inf"), 0, False)
    found = solve_smoothed(matrix.place, factor, problem, settings._replace(tol=0.5 * settings.tol))
    return found._replace(is_converged=False)


def solve_small(
    matrix: KernelMatrix,
    members: Sequence[Array],
    problems: Sequence[DualProblem],
    settings: Settings,
    *,
    is_linear: bool,
) -> list[DualSolution]:
    """Solve small problems as one batch; what resists pair steps goes through columns, one by one."""
    per_row = _LINEAR_PATIENCE if is_linear else _PATIENCE
    few = per_row * max(idx.shape[0] for idx in members)
    if 0 <= settings.max_iter <= few:
        return solve_dense(matrix, members, problems, settings)
    solutions = solve_dense(matrix, members, problems, settings._replace(max_iter=few))
    for k, solution in enumerate(solutions):
        if not solution.is_converged and not solution.is_stalled:
            solutions[k] = _resume(matrix.subset(members[k]), problems[k], solution, settings, is_linear)
    return solutions


def _resume(
    part: KernelMatrix, problem: DualProblem, found: DualSolution, settings: Settings, is_linear: bool
) -> DualSolution:
    """Go on from where a batch left a problem."""
    begun = problem._replace(start=found.beta)
    left = settings.max_iter if settings.max_iter < 0 else max(settings.max_iter - found.n_iter, 0)
    limits = settings._replace(max_iter=left)

    def by_columns(stated: DualProblem, limits: Settings) -> DualSolution:
        if is_linear:
            return solve_smoothed(part.place, part.x, stated, limits)
        return _solve_low_rank(part, stated, limits)

    def by_block(stated: DualProblem, limits: Settings) -> DualSolution:
        everyone = part.place.xp.arange(part.n, dtype=part.place.xp.int64, device=part.place.device)
        return solve_dense(part, [everyone], [stated], limits)[0]

    solution = _in_turn(part, begun, limits, [by_columns, by_block])
    return solution._replace(n_iter=solution.n_iter + found.n_iter)


def solve_dense(
    matrix: KernelMatrix, members: Sequence[Array], problems: Sequence[DualProblem], settings: Settings
) -> list[DualSolution]:
    """Solve small problems together, each on its own members of the rows, in batches that fit the budget."""
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
        found = solve_blocks(matrix.place, xp.stack(blocks), stacked, settings)
        for k, solution in zip(some, found, strict=True):
            n = members[k].shape[0]
            solutions.append(solution._replace(beta=solution.beta[:n], gradient=solution.gradient[:n]))
    return solutions


def _padded(xp: Namespace, values: Array, m: int) -> Array:
    """Append zeros so that every axis has length `m`."""
    for axis in range(values.ndim):
        shape = (*values.shape[:axis], m - values.shape[axis], *values.shape[axis + 1 :])
        if shape[axis]:
            zeros = xp.zeros(shape, dtype=values.dtype, device=array_api_compat.device(values))
            values = xp.concat([values, zeros], axis=axis)
    return values
