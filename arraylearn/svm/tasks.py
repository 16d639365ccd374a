"""Classes to two-class tasks, one against one or one against all, and their results to one layout."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

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
]

Host = Any  # a NumPy array


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
    table = np.zeros((n, len(tasks)))
    for p, (task, result) in enumerate(zip(tasks, results, strict=True)):
        table[task.rows, p] = result.slack
    return table[:, 0] if len(tasks) == 1 else table


def lay_out(codes: Host, tasks: list[Task], results: list[TaskResult], n_paired: int) -> Host:
    """Lay the multipliers of all rows out: a row per task, or LIBSVM's k - 1 rows for pairs of k classes."""
    if not n_paired:
        table = np.zeros((len(tasks), codes.shape[0]))
        for p, (task, result) in enumerate(zip(tasks, results, strict=True)):
            table[p, task.rows] = result.beta
        return table
    table = np.zeros((n_paired - 1, codes.shape[0]))
    pairs = [(i, j) for i in range(n_paired) for j in range(i + 1, n_paired)]
    for (i, j), task, result in zip(pairs, tasks, results, strict=True):
        is_first = codes[task.rows] == i
        table[j - 1, task.rows[is_first]] = result.beta[is_first]
        table[i, task.rows[~is_first]] = result.beta[~is_first]
    return table
