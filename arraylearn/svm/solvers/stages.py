"""Choose and run the solvers of dual problems, in stages: each takes over at the best point so far.

=======================  ===============================================================================
small problems           pairs on complete matrices, as one batch with a limit of steps; problems that are
                         left: Newton (for a nonlinear kernel on a low-rank factor), then pairs
linear, d < n            Newton, pairs; where Newton steps are expensive, a short trial of pairs before them
other                    pairs with a limit of steps, Newton on a low-rank factor, pairs
=======================  ===============================================================================

Small problems have up to `DENSE_ROWS` rows, or `COMPILED_ROWS` with a nonlinear kernel where pair steps are
compiled. "Pairs" are steps in two multipliers at a time, on the complete matrix or by working-set
decomposition. A solver that `Settings.solver` names is used without the others; after Newton's method, pairs
finish. All bounds must be finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from arraylearn._typing import Array
from arraylearn.svm.solvers.decomposition import decompose
from arraylearn.svm.solvers.dense import Body, choose_body, solve_dense
from arraylearn.svm.solvers.dual import (
    DualProblem,
    DualSolution,
    KernelMatrix,
    KernelRows,
    Settings,
    make_rows,
    objective,
)
from arraylearn.svm.solvers.low_rank import solve_low_rank
from arraylearn.svm.solvers.newton import solve_newton

__all__ = ["COMPILED_ROWS", "DENSE_ROWS", "is_compiled_batch", "solve_problems"]

# Up to this many rows the kernel matrix of a problem is one block; beyond, it is divided into working sets.
DENSE_ROWS = 700
# The same with compiled pair steps and a nonlinear kernel: working sets are faster from 4,000 rows on.
COMPILED_ROWS = 3000
# Pair steps per row before a low-rank factor is tried; kernels of full rank need two to ten.
_PAIRS_PER_ROW = 10
# The same for small linear problems, of which many are nearly separable.
_LINEAR_PAIRS_PER_ROW = 2
# The same for compiled steps, as rows x steps: a step takes a third of a nanosecond a row, a factor at least
# 15 ms, and Newton's method for a linear problem 2 to 4 ms.
_COMPILED_WORK = 40_000_000
_LINEAR_COMPILED_WORK = 1_000_000
# Where n d^2 exceeds this, Newton steps are expensive and a limited number of pair steps is tried first; for
# nearly separable rows these are enough.
_TRIAL_WORTH = 1e8
_TRIAL_STEPS = 1500


class _Source:
    """The kernel matrix of a problem, and its cache of rows, which is made when it is first needed."""

    def __init__(self, matrix: KernelMatrix, bound: float) -> None:
        self.matrix, self.bound = matrix, bound
        self._rows: KernelRows | None = None

    def rows(self, settings: Settings) -> KernelRows:
        """Return the cache of kernel rows."""
        if self._rows is None:
            self._rows = make_rows(self.matrix, self.bound, settings)
        return self._rows


Stage = Callable[[_Source, DualProblem, Settings], DualSolution]


def _pairs(source: _Source, problem: DualProblem, settings: Settings) -> DualSolution:
    return decompose(source.rows(settings), problem, settings)


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


def solve_problems(
    matrix: KernelMatrix,
    members: Sequence[Array],
    problems: Sequence[DualProblem],
    settings: Settings,
    *,
    bound: float,
) -> list[DualSolution]:
    """Solve dual problems on one kernel matrix by the solver that is asked for, or else the fastest.

    Parameters
    ----------
    matrix : KernelMatrix
        Of all rows.
    members : sequence of int64 arrays (m,)
        The ascending rows that each problem is about.
    problems : sequence of DualProblem
        Arrays of shape (m,).
    settings : Settings
        When to stop, and which solver is asked for.
    bound : float
        The largest multiplier of all problems.
    """
    if settings.solver == "dense":
        return solve_dense(matrix, members, problems, settings)
    sizes = [idx.shape[0] for idx in members]
    if settings.solver == "auto" and (solve := _batch_solver(matrix, sizes, settings)) is not None:
        return _solve_small(matrix, members, problems, settings, bound, solve)
    shared = _Source(matrix, bound)  # problems on all rows share the cache of kernel rows
    solutions = []
    for idx, problem in zip(members, problems, strict=True):
        source = shared if idx.shape[0] == matrix.n else _Source(matrix.subset(idx), bound)
        solutions.append(_in_turn(source, problem, settings, _stages(source.matrix, settings)))
    return solutions


def _stages(matrix: KernelMatrix, settings: Settings) -> list[Stage]:
    """Return what solves a problem whose kernel matrix need not fit in memory."""
    n, d = matrix.n, matrix.x.shape[1]
    if settings.solver == "newton":
        return [_newton, _pairs]
    if settings.solver == "decomposition":
        return [_pairs]
    if matrix.is_linear and d < n:
        return [*([_pairs_on_trial] if n * d**2 > _TRIAL_WORTH else []), _newton, _pairs]
    return [_limited_pairs, _low_rank, _pairs]


def _batch_solver(matrix: KernelMatrix, sizes: Sequence[int], settings: Settings) -> Body | None:
    """Return what solves problems of so many rows as one batch; None where one is too large."""
    most = max(sizes)
    body = choose_body(matrix.place.xp, sum(m**2 for m in sizes))
    if isinstance(body, str):
        return solve_dense if most <= DENSE_ROWS else None
    is_held = most <= COMPILED_ROWS and not matrix.is_linear and 8 * most**2 <= settings.cache_bytes
    return body if most <= DENSE_ROWS or is_held else None


def is_compiled_batch(matrix: KernelMatrix, sizes: Sequence[int], settings: Settings) -> bool:
    """Whether problems of so many rows are solved as one batch by a compiled body."""
    return _batch_solver(matrix, sizes, settings) not in (None, solve_dense)


def _solve_small(
    matrix: KernelMatrix,
    members: Sequence[Array],
    problems: Sequence[DualProblem],
    settings: Settings,
    bound: float,
    solve: Body,
) -> list[DualSolution]:
    """Solve small problems as one batch by pair steps; those that need many are continued one by one."""
    most = max(idx.shape[0] for idx in members)
    n_steps = (_LINEAR_PAIRS_PER_ROW if matrix.is_linear else _PAIRS_PER_ROW) * most
    if solve is not solve_dense:
        work = _LINEAR_COMPILED_WORK if matrix.is_linear else _COMPILED_WORK
        n_steps = max(n_steps, work // most)
    first = settings.at_most(n_steps)
    solutions = solve(matrix, members, problems, first)
    if first == settings:
        return solutions
    for k, solution in enumerate(solutions):
        if not solution.is_converged and not solution.is_stalled:
            begun = problems[k]._replace(start=solution.beta)
            source, left = _Source(matrix.subset(members[k]), bound), settings.after(solution.n_iter)
            last = _dense if members[k].shape[0] <= DENSE_ROWS else _pairs
            found = _in_turn(source, begun, left, [_newton if matrix.is_linear else _low_rank, last])
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
