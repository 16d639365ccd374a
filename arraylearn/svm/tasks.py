"""Classes to two-class tasks: one against one, one against all; a solver for all of them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from arraylearn.backend.namespace import HOST, accumulator_dtype, from_host, to_host
from arraylearn.svm.decomposition import make_rows
from arraylearn.svm.dual import (
    DualProblem,
    DualSolution,
    classification_problem,
    find_offset,
    objective,
)
from arraylearn.svm.rows import KernelMatrix
from arraylearn.svm.settings import Settings
from arraylearn.svm.solve import DENSE_ROWS, SolverName, solve_dense, solve_large, solve_small

__all__ = [
    "LastFit",
    "Task",
    "TaskResult",
    "class_tasks",
    "lay_out",
    "pair_tasks",
    "rescale_start",
    "restart",
    "slacks",
    "solve_tasks",
]

Host = Any  # a NumPy array

# A hard margin is a soft one whose bound no multiplier reaches; these bounds are tried, times 1 / mean K_ii.
_HARD_BOUNDS = (1e3, 1e5, 1e7)
_HARD_STEPS_PER_ROW = 200
# A margin narrower than this share of the rows' root mean square length counts as none.
_LEAST_MARGIN = 1e-5


class Task(NamedTuple):
    """A two-class problem on some of the rows."""

    rows: Host  # (m,) int64, ascending
    sign: Host  # (m,) +1.0 or -1.0


class TaskResult(NamedTuple):
    """A solved task, on the host."""

    beta: Host  # (m,) signed multipliers
    slack: Host  # (m,)
    intercept: float
    objective: float
    margin: float  # width 2 / ||w||
    gap: float
    n_iter: int
    is_converged: bool
    is_stalled: bool


def pair_tasks(codes: Host, n_classes: int) -> list[Task]:
    """Make a task of every pair of classes i < j; class i is positive, but for two classes class 1 is."""
    if n_classes == 2:
        return [Task((codes >= 0).nonzero()[0], 2.0 * codes - 1.0)]
    tasks = []
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            rows = ((codes == i) | (codes == j)).nonzero()[0]
            tasks.append(Task(rows, 1.0 - 2.0 * (codes[rows] == j)))
    return tasks


def class_tasks(codes: Host, n_classes: int) -> list[Task]:
    """Make a task of every class against all others; the class is positive."""
    if n_classes == 2:
        return pair_tasks(codes, n_classes)
    everyone = (codes >= 0).nonzero()[0]
    return [Task(everyone, 2.0 * (codes == c) - 1.0) for c in range(n_classes)]


def rescale_start(beta: Host, old_bound: Host, sign: Host, bound: Host) -> Host:
    """Carry multipliers over to other bounds: each keeps its share of the bound, and the sum stays 0."""
    is_kept = (beta * sign > 0) & (old_bound > 0) & (old_bound < math.inf)
    share = abs(beta) / HOST.xp.where(is_kept, old_bound, 1.0)
    start = HOST.xp.where(is_kept, sign * share * bound, 0.0)
    rise, fall = start[start > 0].sum(), -start[start < 0].sum()
    if rise > fall:
        start[start > 0] *= fall / rise
    elif fall > rise:
        start[start < 0] *= rise / fall
    return start


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
        return _solve_hard(matrix, tasks, bound, settings, solver=solver, is_linear=is_linear)
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


def _solve_hard(
    matrix: KernelMatrix,
    tasks: list[Task],
    bound: Host,
    settings: Settings,
    *,
    solver: SolverName,
    is_linear: bool,
) -> list[TaskResult]:
    """Solve with growing finite bounds until no multiplier reaches them; what never does is inseparable."""
    finite = bound.copy()
    is_hard = bound == math.inf
    scale = _mean_diagonal(matrix)
    results: dict[int, TaskResult] = {}
    starts: dict[int, Host] = {}
    if settings.max_iter < 0:  # what cannot be separated need not be solved, either
        settings = settings._replace(max_iter=_HARD_STEPS_PER_ROW * matrix.n)
    for limit in _HARD_BOUNDS:
        finite[is_hard] = limit / scale
        todo = [k for k in range(len(tasks)) if k not in results]
        begin = [starts.get(k, 0.0 * tasks[k].sign) for k in todo]
        found = solve_tasks(
            matrix,
            [tasks[k] for k in todo],
            finite,
            settings,
            solver=solver,
            is_linear=is_linear,
            starts=begin,
        )
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
    """Return what no separating margin can exceed, whether or not the solver converged.

    Multipliers scaled to sum to 1 in each class name a point in the hull of either, and the margin is the
    distance between the hulls.
    """
    if not result.margin < math.inf:
        return 0.0
    return (2.0 / result.margin) / (0.5 * float(abs(result.beta).sum()))


def _inseparable(task: Task, result: TaskResult) -> ValueError:
    worst = int(result.slack.argmax())
    return ValueError(
        f"`C=inf` asks for a hard margin, but the rows are not separable with this kernel: row "
        f"{int(task.rows[worst])} has margin {1.0 - result.slack[worst]:.3g} where 1 is needed, and no "
        f"separating margin is wider than {_widest_margin(result):.3g}. Use a finite `C` or another kernel."
    )


def _mean_diagonal(matrix: KernelMatrix) -> float:
    xp = matrix.place.xp
    step = max(1, matrix.n // 256)
    idx = xp.arange(0, matrix.n, step, dtype=xp.int64, device=matrix.place.device)
    return max(float(xp.mean(xp.linalg.diagonal(matrix.block(idx, idx)))), 1e-300)


class LastFit(NamedTuple):
    """What a warm start begins from."""

    tasks: list[Task]
    betas: list[Host]
    bound: Host


def restart(last: LastFit | None, tasks: list[Task], bound: Host) -> list[Host] | None:
    """Carry the multipliers of the last fit over, where its tasks had the same rows."""
    if last is None or math.isinf(bound.max()) or len(last.tasks) != len(tasks):
        return None
    pairs = list(zip(last.tasks, tasks, strict=True))
    if any(old.rows.shape != new.rows.shape or (old.rows != new.rows).any() for old, new in pairs):
        return None
    return [
        rescale_start(beta, last.bound[old.rows], new.sign, bound[new.rows])
        for (old, new), beta in zip(pairs, last.betas, strict=True)
    ]


def slacks(n: int, tasks: list[Task], results: list[TaskResult]) -> Host:
    """Return the slack of every row in every task."""
    table = HOST.xp.zeros((n, len(tasks)))
    for p, (task, result) in enumerate(zip(tasks, results, strict=True)):
        table[task.rows, p] = result.slack
    return table[:, 0] if len(tasks) == 1 else table


def lay_out(codes: Host, tasks: list[Task], results: list[TaskResult], n_paired: int) -> Host:
    """Lay the multipliers of all rows out: a row per task, or LIBSVM's k - 1 rows for pairs of k classes."""
    if not n_paired:
        table = HOST.xp.zeros((len(tasks), codes.shape[0]))
        for p, (task, result) in enumerate(zip(tasks, results, strict=True)):
            table[p, task.rows] = result.beta
        return table
    table = HOST.xp.zeros((n_paired - 1, codes.shape[0]))
    pairs = [(i, j) for i in range(n_paired) for j in range(i + 1, n_paired)]
    for (i, j), task, result in zip(pairs, tasks, results, strict=True):
        is_first = codes[task.rows] == i
        table[j - 1, task.rows[is_first]] = result.beta[is_first]
        table[i, task.rows[~is_first]] = result.beta[~is_first]
    return table
