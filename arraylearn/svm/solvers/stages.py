"""Solvers in stages: each takes over at the best point of those before it, until one converges.

=======================  ===============================================================================
up to `DENSE_ROWS` rows  pairs on whole matrices, as one batch with a limit of steps; problems that are left:
                         Newton (for a nonlinear kernel on a low-rank factor), then pairs
linear, d < n            Newton, interior point, pairs; where Newton steps are expensive, a short trial of
                         pairs before them
other                    pairs with a limit of steps, Newton on a low-rank factor, pairs
=======================  ===============================================================================

"Pairs" are steps in two multipliers at a time, on the whole matrix or by working-set decomposition.

All bounds must be finite; see `arraylearn.svm.margins` for hard margins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

from arraylearn._typing import Array
from arraylearn.backend.arrays.gather import put
from arraylearn.backend.namespace import from_host, to_host
from arraylearn.svm.kernel_matrix import KernelMatrix, KernelRows
from arraylearn.svm.solvers.decomposition import decompose, make_rows
from arraylearn.svm.solvers.dense import solve_dense
from arraylearn.svm.solvers.dual import DualProblem, DualSolution, objective
from arraylearn.svm.solvers.interior import solve_linear
from arraylearn.svm.solvers.low_rank import solve_low_rank
from arraylearn.svm.solvers.newton import solve_newton
from arraylearn.svm.solvers.stopping import Settings

__all__ = ["DENSE_ROWS", "SOLVERS", "SolverName", "solve_large", "solve_small"]

SolverName = Literal["auto", "decomposition", "newton", "interior", "dense"]
SOLVERS: tuple[SolverName, ...] = get_args(SolverName)

# Up to this many rows the whole kernel matrix of a problem is one block.
DENSE_ROWS = 700
# Pair steps per row before a low-rank factor is tried; kernels of full rank need two to ten.
_PAIRS_PER_ROW = 10
# The same for small linear problems, of which many are nearly separable.
_LINEAR_PAIRS_PER_ROW = 2
# Where n d^2 exceeds this, Newton steps are expensive and a limited number of pair steps is tried first; for
# nearly separable rows these are enough.
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

    `store` holds kernel rows that problems on the same matrix share; without it, one is made when needed.
    """
    kept = store

    def by_pairs(stated: DualProblem, limits: Settings) -> DualSolution:
        nonlocal kept
        kept = kept or make_rows(matrix, _widest_box(problem), settings)
        return decompose(kept, stated, limits)

    def by_newton(stated: DualProblem, limits: Settings) -> DualSolution:
        return solve_newton(matrix.place, matrix.x, stated, limits)

    def by_interior(stated: DualProblem, limits: Settings) -> DualSolution:
        return _solve_interior(matrix, stated, limits)

    def by_factor(stated: DualProblem, limits: Settings) -> DualSolution:
        return solve_low_rank(matrix, stated, limits)

    n, d = matrix.n, matrix.x.shape[1]
    stages: list[Stage]
    if solver == "newton":
        stages = [by_newton, by_pairs]
    elif solver == "interior":
        stages = [by_interior, by_pairs]
    elif solver == "decomposition":
        stages = [by_pairs]
    elif is_linear and d < n:
        trial = [_at_most(_TRIAL_STEPS, by_pairs)] if n * d**2 > _TRIAL_WORTH else []
        stages = [*trial, by_newton, by_interior, by_pairs]
    else:
        stages = [_at_most(_PAIRS_PER_ROW * n, by_pairs), by_factor, by_pairs]
    return _in_turn(matrix, problem, settings, stages)


def solve_small(
    matrix: KernelMatrix,
    members: Sequence[Array],
    problems: Sequence[DualProblem],
    settings: Settings,
    *,
    is_linear: bool,
) -> list[DualSolution]:
    """Solve small problems as one batch by pair steps; those that need many are continued one by one.

    `members` are the rows (m,) of the matrix that each problem is about.
    """
    per_row = _LINEAR_PAIRS_PER_ROW if is_linear else _PAIRS_PER_ROW
    first = settings.at_most(per_row * max(idx.shape[0] for idx in members))
    solutions = solve_dense(matrix, members, problems, first)
    if first == settings:
        return solutions
    for k, solution in enumerate(solutions):
        if not solution.is_converged and not solution.is_stalled:
            solutions[k] = _resume(matrix.subset(members[k]), problems[k], solution, settings, is_linear)
    return solutions


def _resume(
    part: KernelMatrix, problem: DualProblem, found: DualSolution, settings: Settings, is_linear: bool
) -> DualSolution:
    """Continue a problem from the point at which a batch left it."""

    def by_newton(stated: DualProblem, limits: Settings) -> DualSolution:
        if is_linear:
            return solve_newton(part.place, part.x, stated, limits)
        return solve_low_rank(part, stated, limits)

    def by_block(stated: DualProblem, limits: Settings) -> DualSolution:
        return solve_dense(part, [part.all_rows()], [stated], limits)[0]

    begun = problem._replace(start=found.beta)
    solution = _in_turn(part, begun, settings.after(found.n_iter), [by_newton, by_block])
    return solution._replace(n_iter=solution.n_iter + found.n_iter)


def _at_most(n_steps: int, stage: Stage) -> Stage:
    """Give a stage a limit of steps."""
    return lambda problem, settings: stage(problem, settings.at_most(n_steps))


def _in_turn(
    matrix: KernelMatrix, problem: DualProblem, settings: Settings, stages: Sequence[Stage]
) -> DualSolution:
    """Run the stages until one converges; each begins at the best point so far, none exceeds the limit."""
    xp = matrix.place.xp
    n_iter, highest = 0, -float("inf")
    begun = problem
    for k, stage in enumerate(stages):
        found = stage(begun, settings.after(n_iter))
        n_iter += found.n_iter
        is_last = k + 1 == len(stages) or (settings.is_limited and n_iter >= settings.max_iter)
        if found.is_converged or is_last:
            return found._replace(n_iter=n_iter)
        value = float(objective(xp, found.beta, found.gradient, problem))
        if value > highest and found.gap < float("inf"):
            begun, highest = problem._replace(start=found.beta), value
    raise ValueError("`stages` must not be empty.")


def _widest_box(problem: DualProblem) -> float:
    """Return the largest distance between the bounds of a multiplier; one sync."""
    return float(to_host(problem.upper - problem.lower).max())


def _solve_interior(matrix: KernelMatrix, problem: DualProblem, settings: Settings) -> DualSolution:
    """Solve for the multipliers whose bounds differ; the others keep their only value, 0."""
    xp, place = matrix.place.xp, matrix.place
    is_open = to_host(problem.upper > problem.lower)
    if is_open.all():
        return solve_linear(place, matrix.x, problem, settings)
    idx = from_host(is_open.nonzero()[0], place, xp.int64)
    inner = DualProblem(*(xp.take(values, idx, axis=0) for values in problem))
    x = xp.astype(matrix.x, problem.linear.dtype, copy=False)
    found = solve_linear(place, xp.take(x, idx, axis=0), inner, settings)
    beta = put(xp, xp.zeros_like(problem.linear), idx, found.beta)
    return found._replace(beta=beta, gradient=problem.linear - x @ (beta @ x))
