"""Solve the two-class tasks of a fit on one kernel matrix, with soft or hard margins."""

from __future__ import annotations

import math
from typing import Any

from arraylearn.backend.namespace import from_host, to_host
from arraylearn.svm.kernel_matrix import KernelMatrix
from arraylearn.svm.solvers.decomposition import make_rows
from arraylearn.svm.solvers.dense import solve_dense
from arraylearn.svm.solvers.dual import (
    DualProblem,
    DualSolution,
    classification_at,
    find_offset,
    objective,
)
from arraylearn.svm.solvers.stages import DENSE_ROWS, SolverName, solve_large, solve_small
from arraylearn.svm.solvers.stopping import Settings
from arraylearn.svm.tasks import Task, TaskResult

__all__ = ["solve_tasks"]

Host = Any  # a NumPy array

# A hard margin is a soft one whose bound no multiplier reaches; these bounds are tried, times 1 / mean K_ii.
_HARD_BOUNDS = (1e3, 1e5, 1e7)
_HARD_STEPS_PER_ROW = 200  # limit of the steps where the caller sets none: inseparable rows never converge
# A margin narrower than this share of the rows' root mean square length counts as none.
_LEAST_MARGIN = 1e-5


def solve_tasks(
    matrix: KernelMatrix,
    tasks: list[Task],
    bound: Host,
    settings: Settings,
    *,
    solver: SolverName,
    is_linear: bool,
    starts: list[Host] | None = None,
) -> list[TaskResult]:
    """Solve every task.

    Parameters
    ----------
    matrix : KernelMatrix
        Of all rows.
    tasks : list of Task
        The two-class problems.
    bound : NumPy array (n,)
        The C of each row; where one is infinite, the margin is hard.
    settings : Settings
        When to stop.
    solver : SolverName
        Which solver to use.
    is_linear : bool
        Whether the kernel is linear.
    starts : list of NumPy arrays (m,), optional
        Feasible multipliers of each task to start from; a hard margin starts from 0.

    Raises
    ------
    ValueError
        If a margin is hard and the rows of a task are not separable.
    """
    if math.isinf(bound.max()):
        return _solve_hard(matrix, tasks, bound, settings, solver, is_linear)
    return _solve_soft(matrix, tasks, bound, settings, solver, is_linear, starts or [None] * len(tasks))


def _solve_soft(
    matrix: KernelMatrix,
    tasks: list[Task],
    bound: Host,
    settings: Settings,
    solver: SolverName,
    is_linear: bool,
    starts: list[Host | None],
) -> list[TaskResult]:
    """Solve tasks with finite bounds."""
    problems = [
        classification_at(matrix.place, task.sign, bound[task.rows], start)
        for task, start in zip(tasks, starts, strict=True)
    ]
    members = [from_host(task.rows, matrix.place, matrix.place.xp.int64) for task in tasks]
    is_small = max(task.rows.shape[0] for task in tasks) <= DENSE_ROWS
    if solver == "dense":
        solutions = solve_dense(matrix, members, problems, settings)
    elif solver == "auto" and is_small:
        solutions = solve_small(matrix, members, problems, settings, is_linear=is_linear)
    else:
        solutions = []
        shared = None
        if all(task.rows.shape[0] == matrix.n for task in tasks):
            shared = make_rows(matrix, float(bound.max()), settings)
        for idx, problem in zip(members, problems, strict=True):
            part = matrix if shared is not None else matrix.subset(idx)
            solutions.append(
                solve_large(part, problem, settings, solver=solver, is_linear=is_linear, store=shared)
            )
    return [_result(matrix, p, s) for p, s in zip(problems, solutions, strict=True)]


def _result(matrix: KernelMatrix, problem: DualProblem, solution: DualSolution) -> TaskResult:
    """Copy a solution to the host: one sync."""
    xp = matrix.place.xp
    beta, gradient = solution.beta, solution.gradient
    offset = find_offset(xp, beta, gradient, problem)
    # y (y - K beta) = 1 - y f + y b, so the slack is y (gradient - b) where that is positive
    slack = xp.maximum(problem.linear * (gradient - offset), xp.zeros_like(gradient))
    square = xp.sum(beta * (problem.linear - gradient))
    numbers = xp.stack([offset, objective(xp, beta, gradient, problem), square])
    packed = to_host(xp.concat([numbers, beta, slack]))
    m = beta.shape[0]
    intercept, value, length = packed[:3].tolist()
    return TaskResult(
        beta=packed[3 : 3 + m],
        slack=packed[3 + m :],
        intercept=intercept,
        objective=value,
        margin=2.0 / math.sqrt(length) if length > 0 else math.inf,
        gap=solution.gap,
        n_iter=solution.n_iter,
        is_converged=solution.is_converged,
        is_stalled=solution.is_stalled,
    )


# ---- hard margins


def _solve_hard(
    matrix: KernelMatrix,
    tasks: list[Task],
    bound: Host,
    settings: Settings,
    solver: SolverName,
    is_linear: bool,
) -> list[TaskResult]:
    """Solve with growing finite bounds until no multiplier reaches them; if that never happens, raise."""
    finite = bound.copy()
    is_hard = bound == math.inf
    scale = _mean_diagonal(matrix)
    results: dict[int, TaskResult] = {}
    starts: list[Host | None] = [None] * len(tasks)
    limited = settings if settings.is_limited else settings.at_most(_HARD_STEPS_PER_ROW * matrix.n)
    for limit in _HARD_BOUNDS:
        finite[is_hard] = limit / scale
        todo = [k for k in range(len(tasks)) if k not in results]
        some, begin = [tasks[k] for k in todo], [starts[k] for k in todo]
        found = _solve_soft(matrix, some, finite, limited, solver, is_linear, begin)
        for k, result in zip(todo, found, strict=True):
            rows = tasks[k].rows
            is_met = is_hard[rows] & (abs(result.beta) >= finite[rows])
            if not is_met.any():
                results[k] = result
            elif limit == _HARD_BOUNDS[-1] or _widest_margin(result) < _LEAST_MARGIN * math.sqrt(scale):
                raise _inseparable(tasks[k], result)
            starts[k] = result.beta
        if len(results) == len(tasks):
            break
    return [results[k] for k in range(len(tasks))]


def _widest_margin(result: TaskResult) -> float:
    """Return an upper bound of all separating margins, whether or not the solver converged.

    Multipliers scaled to sum to 1 in each class describe a point in the convex hull of either class, and no
    margin is wider than the distance between the two points.
    """
    if not result.margin < math.inf:
        return 0.0
    return (2.0 / result.margin) / (0.5 * float(abs(result.beta).sum()))


def _inseparable(task: Task, result: TaskResult) -> ValueError:
    """Make the error that names the row with the largest slack and the widest margin possible."""
    worst = int(result.slack.argmax())
    return ValueError(
        f"`C=inf` asks for a hard margin, but the rows are not separable with this kernel: row "
        f"{int(task.rows[worst])} has margin {1.0 - result.slack[worst]:.3g} where 1 is needed, and no "
        f"separating margin is wider than {_widest_margin(result):.3g}. Use a finite `C` or another kernel."
    )


def _mean_diagonal(matrix: KernelMatrix) -> float:
    """Return the mean of the kernel's diagonal over at most 512 rows: one sync."""
    xp = matrix.place.xp
    step = max(1, matrix.n // 256)
    idx = xp.arange(0, matrix.n, step, dtype=xp.int64, device=matrix.place.device)
    return max(float(xp.mean(xp.linalg.diagonal(matrix.block(idx, idx)))), 1e-300)
