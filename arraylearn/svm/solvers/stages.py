"""Solvers in stages: each takes over at the best point of those before it, until one converges.

=======================  ===============================================================================
up to `DENSE_ROWS` rows  pairs on whole matrices, as one batch with a limit of steps; problems that are left:
                         Newton (for a nonlinear kernel on a low-rank factor), then pairs
linear, d < n            Newton, pairs; where Newton steps are expensive, a short trial of pairs before them
other                    pairs with a limit of steps, Newton on a low-rank factor, pairs
=======================  ===============================================================================

"Pairs" are steps in two multipliers at a time, on the whole matrix or by working-set decomposition.

All bounds must be finite; see `arraylearn.svm.margins` for hard margins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, get_args

from arraylearn._typing import Array
from arraylearn.backend.namespace import to_host
from arraylearn.svm.kernel_matrix import KernelMatrix, KernelRows
from arraylearn.svm.solvers.decomposition import decompose, make_rows
from arraylearn.svm.solvers.dense import solve_dense
from arraylearn.svm.solvers.dual import DualProblem, DualSolution, objective
from arraylearn.svm.solvers.low_rank import solve_low_rank
from arraylearn.svm.solvers.newton import solve_newton
from arraylearn.svm.solvers.stopping import Settings

__all__ = ["DENSE_ROWS", "SOLVERS", "SolverName", "solve_large", "solve_small"]

SolverName = Literal["auto", "decomposition", "newton", "dense"]
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


class _Source:
    """The kernel matrix of a problem, and its cache of rows, which is made when it is first needed."""

    def __init__(self, matrix: KernelMatrix, store: KernelRows | None = None) -> None:
        self.matrix, self.store = matrix, store


Stage = Callable[[_Source, DualProblem, Settings], DualSolution]


def _pairs(source: _Source, problem: DualProblem, settings: Settings) -> DualSolution:
    if source.store is None:
        source.store = make_rows(source.matrix, _widest_box(problem), settings)
    return decompose(source.store, problem, settings)


def _pairs_on_trial(source: _Source, problem: DualProblem, settings: Settings) -> DualSolution:
    return _pairs(source, problem, settings.at_most(_TRIAL_STEPS))


def _limited_pairs(source: _Source, problem: DualProblem, settings: Settings) -> DualSolution:
    return _pairs(source, problem, settings.at_most(_PAIRS_PER_ROW * source.matrix.n))


def _dense(source: _Source, problem: DualProblem, settings: Settings) -> DualSolution:
    return solve_dense(source.matrix, [source.matrix.all_rows()], [problem], settings)[0]


def _newton(source: _Source, problem: DualProblem, settings: Settings) -> DualSolution:
    return solve_newton(source.matrix.place, source.matrix.x, problem, settings)


def _low_rank(source: _Source, problem: DualProblem, settings: Settings) -> DualSolution:
    return solve_low_rank(source.matrix, problem, settings)


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
    n, d = matrix.n, matrix.x.shape[1]
    stages: list[Stage]
    if solver == "newton":
        stages = [_newton, _pairs]
    elif solver == "decomposition":
        stages = [_pairs]
    elif is_linear and d < n:
        trial = [_pairs_on_trial] if n * d**2 > _TRIAL_WORTH else []
        stages = [*trial, _newton, _pairs]
    else:
        stages = [_limited_pairs, _low_rank, _pairs]
    return _in_turn(_Source(matrix, store), problem, settings, stages)


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
            begun = problems[k]._replace(start=solution.beta)
            source, left = _Source(matrix.subset(members[k])), settings.after(solution.n_iter)
            found = _in_turn(source, begun, left, [_newton if is_linear else _low_rank, _dense])
            solutions[k] = found._replace(n_iter=solution.n_iter + found.n_iter)
    return solutions


def _in_turn(
    source: _Source, problem: DualProblem, settings: Settings, stages: Sequence[Stage]
) -> DualSolution:
    """Run the stages until one converges; each begins at the best point so far, none exceeds the limit."""
    xp = source.matrix.place.xp
    n_iter, highest = 0, -math.inf
    begun = problem
    for k, stage in enumerate(stages):
        found = stage(source, begun, settings.after(n_iter))
        n_iter += found.n_iter
        is_last = k + 1 == len(stages) or (settings.is_limited and n_iter >= settings.max_iter)
        if found.is_converged or is_last:
            return found._replace(n_iter=n_iter)
        value = float(objective(xp, found.beta, found.gradient, problem))
        if value > highest and found.gap < math.inf:
            begun, highest = problem._replace(start=found.beta), value
    raise ValueError("`stages` must not be empty.")


def _widest_box(problem: DualProblem) -> float:
    """Return the largest distance between the bounds of a multiplier; one sync."""
    return float(to_host(problem.upper - problem.lower).max())
