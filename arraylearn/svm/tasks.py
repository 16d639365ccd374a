"""Several classes as two-class tasks, one against one or one against all: made, solved and laid out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from arraylearn._typing import HostArray, Namespace
from arraylearn.backend.namespace import HOST, to_host
from arraylearn.svm.solvers.dual import (
    DualProblem,
    DualSolution,
    KernelMatrix,
    Settings,
    classification_at,
    find_offset,
    objective,
)
from arraylearn.svm.solvers.stages import solve_problems

__all__ = [
    "LastFit",
    "Task",
    "TaskResult",
    "lay_out_pairs",
    "lay_out_tasks",
    "make_tasks",
    "rescale_start",
    "restart",
    "slacks",
    "solve_tasks",
]


# A hard margin is a soft one whose bound no multiplier reaches; these bounds are tried, times 1 / mean K_ii.
_HARD_BOUNDS = (1e3, 1e5, 1e7)
_HARD_STEPS_PER_ROW = 200  # limit of the steps where the caller sets none: inseparable rows never converge
# A margin narrower than this share of the rows' root mean square length counts as none.
_LEAST_MARGIN = 1e-5


class Task(NamedTuple):
    """A two-class problem on some of the rows."""

    rows: HostArray  # (m,): positions among all rows, int64, ascending
    sign: HostArray  # (m,): +1.0 or -1.0


class TaskResult(NamedTuple):
    """A solved task, on the host."""

    beta: HostArray  # (m,): signed multipliers
    slack: HostArray  # (m,): how far each row is beyond its margin, at least 0
    intercept: float
    objective: float  # of the dual
    margin: float  # width 2 / ||w||
    gap: float  # remaining violation of the optimality conditions
    n_iter: int  # steps
    is_converged: bool  # whether the gap is within the tolerance
    is_stalled: bool  # whether rounding kept the gap above the tolerance


class LastFit(NamedTuple):
    """The solved tasks from which a warm start begins."""

    tasks: list[Task]
    betas: list[HostArray]  # per task (m,): signed multipliers
    bound: HostArray  # (n,): the C of each row


# ---- from classes to tasks


def make_tasks(multiclass: Literal["ovo", "ovr"], codes: HostArray, n_classes: int) -> list[Task]:
    """Make the tasks of several classes; of two classes there is one, in which class 1 is positive.

    One against one ("ovo"): a task of every pair i < j, in which class i is positive. One against
    the rest ("ovr"), and a class that is alone: a task of every class, in which it is positive.
    """
    all_rows = np.arange(codes.shape[0])
    if n_classes == 2:
        return [Task(all_rows, 2.0 * codes - 1.0)]
    if multiclass == "ovr" or n_classes == 1:
        return [Task(all_rows, 2.0 * (codes == c) - 1.0) for c in range(n_classes)]
    tasks = []
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            rows = ((codes == i) | (codes == j)).nonzero()[0]
            tasks.append(Task(rows, 1.0 - 2.0 * (codes[rows] == j)))
    return tasks


# ---- where a warm start begins


def rescale_start(beta: HostArray, old_bound: HostArray, sign: HostArray, bound: HostArray) -> HostArray:
    """Carry multipliers over to other bounds: each keeps its share of the bound, and the sum stays 0.

    A multiplier at its bound is at its new one, too.
    """
    is_kept = (beta * sign > 0) & (old_bound > 0) & (old_bound < math.inf)
    share = abs(beta) / np.where(is_kept, old_bound, 1.0)
    start = np.where(is_kept, sign * share * bound, 0.0)
    surplus = start.sum()
    if surplus != 0:
        _take(start, start * surplus > 0, abs(bound), abs(surplus))
    return start


def _take(start: HostArray, is_giving: HostArray, bound: HostArray, surplus: float) -> None:
    """Shorten one side's multipliers by `surplus` in all, in place: those inside the box first.

    A row at its bound stays exactly there as long as the others can give: one step of rounding away, it would
    count as free, and its gradient as a violation.
    """
    is_free = is_giving & (abs(start) < bound)
    is_giving = is_free if abs(start[is_free]).sum() > surplus else is_giving
    start[is_giving] *= 1 - surplus / abs(start[is_giving]).sum()


def restart(last: LastFit | None, tasks: list[Task], bound: HostArray) -> list[HostArray] | None:
    """Return starts from the last fit; None, which is a start at 0, unless its tasks had the same rows."""
    if last is None or math.isinf(bound.max()) or len(last.tasks) != len(tasks):
        return None
    pairs = list(zip(last.tasks, tasks, strict=True))
    if any(old.rows.shape != new.rows.shape or (old.rows != new.rows).any() for old, new in pairs):
        return None
    return [
        rescale_start(beta, last.bound[old.rows], new.sign, bound[new.rows])
        for (old, new), beta in zip(pairs, last.betas, strict=True)
    ]


# ---- the solve


def solve_tasks(
    matrix: KernelMatrix,
    tasks: list[Task],
    bound: HostArray,
    settings: Settings,
    starts: list[HostArray] | None = None,
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
        When to stop, and which solver to use.
    starts : list of NumPy arrays (m,), optional
        Feasible multipliers of each task to start from; a hard margin starts from 0.

    Raises
    ------
    ValueError
        If a margin is hard and the rows of a task are not separable.
    """
    if math.isinf(bound.max()):
        return _solve_hard(matrix, tasks, bound, settings)
    begin: Sequence[HostArray | None] = starts or [None] * len(tasks)
    return _solve_soft(matrix, tasks, bound, settings, begin)


def _solve_soft(
    matrix: KernelMatrix,
    tasks: list[Task],
    bound: HostArray,
    settings: Settings,
    starts: Sequence[HostArray | None],
) -> list[TaskResult]:
    """Solve tasks with finite bounds."""
    sign, bounds = (
        np.concatenate(parts)
        for parts in zip(*((task.sign, bound[task.rows]) for task in tasks), strict=True)
    )
    begun = [np.zeros_like(t.sign) if s is None else s for t, s in zip(tasks, starts, strict=True)]
    joined = classification_at(matrix.place, sign, bounds, np.concatenate(begun))
    ends = np.asarray([task.sign.shape[0] for task in tasks]).cumsum().tolist()
    problems = [DualProblem(*(part[a:b] for part in joined)) for a, b in pairwise([0, *ends])]
    members = [matrix.positions(task.rows) for task in tasks]
    solutions = solve_problems(matrix, members, problems, settings, bound=float(bound.max()))
    return _results(matrix.place.xp, tasks, bound, solutions)


def _results(
    xp: Namespace, tasks: list[Task], bound: HostArray, solutions: list[DualSolution]
) -> list[TaskResult]:
    """Copy solutions to the host, in one sync, and derive the rest there, for all tasks at once."""
    found = to_host(xp.concat([xp.stack([s.beta, s.gradient]) for s in solutions], axis=1))
    sizes = np.asarray([task.sign.shape[0] for task in tasks])
    is_row = np.arange(sizes.max()) < sizes[:, None]
    sign, bounds, beta, gradient = np.zeros((4, *is_row.shape))
    sign[is_row] = np.concatenate([task.sign for task in tasks])
    bounds[is_row] = np.concatenate([bound[task.rows] for task in tasks])
    beta[is_row], gradient[is_row] = found
    problem = classification_at(HOST, sign, bounds)
    offset = find_offset(HOST.xp, beta, gradient, problem)
    # y (y - K beta) = 1 - y f + y b, so the slack is y (gradient - b) where that is positive
    slack = np.maximum(sign * (gradient - offset[:, None]), 0.0)
    square = (beta * (sign - gradient)).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        margin = np.where(square > 0, 2.0 / np.sqrt(square), math.inf)
    numbers = zip(
        offset.tolist(), objective(HOST.xp, beta, gradient, problem).tolist(), margin.tolist(), strict=True
    )
    return [
        TaskResult(beta[k, :m], slack[k, :m], *three, s.gap, s.n_iter, s.is_converged, s.is_stalled)
        for k, (m, three, s) in enumerate(zip(sizes.tolist(), numbers, solutions, strict=True))
    ]


def _solve_hard(
    matrix: KernelMatrix, tasks: list[Task], bound: HostArray, settings: Settings
) -> list[TaskResult]:
    """Solve with growing finite bounds until no multiplier reaches them; if that never happens, raise."""
    finite = bound.copy()
    is_hard = bound == math.inf
    scale = _mean_diagonal(matrix)
    results: dict[int, TaskResult] = {}
    starts: list[HostArray | None] = [None] * len(tasks)
    limited = settings if settings.is_limited else settings.at_most(_HARD_STEPS_PER_ROW * matrix.n)
    for limit in _HARD_BOUNDS:
        finite[is_hard] = limit / scale
        todo = [k for k in range(len(tasks)) if k not in results]
        some, begin = [tasks[k] for k in todo], [starts[k] for k in todo]
        found = _solve_soft(matrix, some, finite, limited, begin)
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


# ---- from results to the weights of a machine


def slacks(n: int, tasks: list[Task], results: list[TaskResult]) -> HostArray:
    """Return the slack of every row in every task."""
    table = np.zeros((n, len(tasks)))
    for p, (task, result) in enumerate(zip(tasks, results, strict=True)):
        table[task.rows, p] = result.slack
    return table[:, 0] if len(tasks) == 1 else table


def lay_out_tasks(codes: HostArray, tasks: list[Task], results: list[TaskResult]) -> HostArray:
    """Return the multipliers (p, n) of all rows, a row per task; 0 where a row is not part of it."""
    table = np.zeros((len(tasks), codes.shape[0]))
    for p, (task, result) in enumerate(zip(tasks, results, strict=True)):
        table[p, task.rows] = result.beta
    return table


def lay_out_pairs(codes: HostArray, tasks: list[Task], results: list[TaskResult]) -> HostArray:
    """Return the multipliers (k - 1, n) of all rows in LIBSVM's layout for pairs of k classes.

    A row of class i has k - 1 multipliers, those of its pairs with the other classes in ascending order.
    """
    k = int(codes.max()) + 1
    table = np.zeros((k - 1, codes.shape[0]))
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    for (i, j), task, result in zip(pairs, tasks, results, strict=True):
        is_first = codes[task.rows] == i
        table[j - 1, task.rows[is_first]] = result.beta[is_first]
        table[i, task.rows[~is_first]] = result.beta[~is_first]
    return table
