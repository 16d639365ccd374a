"""Two-class tasks of several classes, one against one or one against all, and their results."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "LastFit",
    "Task",
    "TaskResult",
    "class_tasks",
    "lay_out_pairs",
    "lay_out_tasks",
    "pair_tasks",
    "rescale_start",
    "restart",
    "slacks",
]

Host = Any  # a NumPy array


class Task(NamedTuple):
    """A two-class problem on some of the rows."""

    rows: Host  # (m,): positions among all rows, int64, ascending
    sign: Host  # (m,): +1.0 or -1.0


class TaskResult(NamedTuple):
    """A solved task, on the host."""

    beta: Host  # (m,): signed multipliers
    slack: Host  # (m,): how far each row is beyond its margin, at least 0
    intercept: float
    objective: float  # of the dual
    margin: float  # width 2 / ||w||
    gap: float  # remaining violation of the optimality conditions
    n_iter: int  # steps
    is_converged: bool  # whether the gap is within the tolerance
    is_stalled: bool  # whether rounding kept the gap above the tolerance


def pair_tasks(codes: Host, n_classes: int) -> list[Task]:
    """Make a task of every pair of classes i < j. Class i is positive; of two classes, class 1 is."""
    if n_classes == 2:
        return [Task(np.arange(codes.shape[0]), 2.0 * codes - 1.0)]
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
    all_rows = np.arange(codes.shape[0])
    return [Task(all_rows, 2.0 * (codes == c) - 1.0) for c in range(n_classes)]


def rescale_start(beta: Host, old_bound: Host, sign: Host, bound: Host) -> Host:
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


def _take(start: Host, is_giving: Host, bound: Host, surplus: float) -> None:
    """Shorten one side's multipliers by `surplus` in all, in place: those inside the box first.

    A row at its bound stays exactly there as long as the others can give: one step of rounding away, it would
    count as free, and its gradient as a violation.
    """
    is_free = is_giving & (abs(start) < bound)
    is_giving = is_free if abs(start[is_free]).sum() > surplus else is_giving
    start[is_giving] *= 1 - surplus / abs(start[is_giving]).sum()


class LastFit(NamedTuple):
    """The solved tasks from which a warm start begins."""

    tasks: list[Task]
    betas: list[Host]  # per task (m,): signed multipliers
    bound: Host  # (n,): the C of each row


def restart(last: LastFit | None, tasks: list[Task], bound: Host) -> list[Host] | None:
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


def slacks(n: int, tasks: list[Task], results: list[TaskResult]) -> Host:
    """Return the slack of every row in every task."""
    table = np.zeros((n, len(tasks)))
    for p, (task, result) in enumerate(zip(tasks, results, strict=True)):
        table[task.rows, p] = result.slack
    return table[:, 0] if len(tasks) == 1 else table


def lay_out_tasks(codes: Host, tasks: list[Task], results: list[TaskResult]) -> Host:
    """Return the multipliers (p, n) of all rows, a row per task; 0 where a row is not part of it."""
    table = np.zeros((len(tasks), codes.shape[0]))
    for p, (task, result) in enumerate(zip(tasks, results, strict=True)):
        table[p, task.rows] = result.beta
    return table


def lay_out_pairs(codes: Host, tasks: list[Task], results: list[TaskResult]) -> Host:
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
