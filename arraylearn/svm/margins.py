"""Solve the two-class tasks of a fit, all on one kernel matrix."""

from __future__ import annotations

import math
from typing import Any

from arraylearn.backend.namespace import accumulator_dtype, from_host, to_host
from arraylearn.svm.hard_margin import solve_hard
from arraylearn.svm.kernel_matrix import KernelMatrix
from arraylearn.svm.solvers.decomposition import make_rows
from arraylearn.svm.solvers.dual import (
    DualProblem,
    DualSolution,
    classification_problem,
    find_offset,
    objective,
)
from arraylearn.svm.solvers.stages import DENSE_ROWS, SolverName, solve_dense, solve_large, solve_small
from arraylearn.svm.solvers.stopping import Settings
from arraylearn.svm.tasks import Task, TaskResult

__all__ = ["solve_tasks"]

Host = Any  # a NumPy array


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
    """Solve every task; `bound` is the C of each row of the matrix."""
    if math.isinf(bound.max()):

        def solve_soft(some: list[Task], limit: Host, steps: Settings, begin: list[Host]) -> list[TaskResult]:
            return solve_tasks(matrix, some, limit, steps, solver=solver, is_linear=is_linear, starts=begin)

        return solve_hard(matrix, tasks, bound, settings, solve_soft)
    problems = [_state(matrix, task, bound[task.rows]) for task in tasks]
    if starts is not None:
        problems = [_started(matrix, p, start) for p, start in zip(problems, starts, strict=True)]
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


def _state(matrix: KernelMatrix, task: Task, bound: Host) -> DualProblem:
    dtype = accumulator_dtype(matrix.place)
    sign, limit = (from_host(values, matrix.place, dtype) for values in (task.sign, bound))
    return classification_problem(matrix.place.xp, sign, limit)


def _started(matrix: KernelMatrix, problem: DualProblem, start: Host) -> DualProblem:
    beta = from_host(start, matrix.place, problem.linear.dtype)
    return problem._replace(start=beta)


def _result(matrix: KernelMatrix, problem: DualProblem, solution: DualSolution) -> TaskResult:
    """Bring a solution to the host."""
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
