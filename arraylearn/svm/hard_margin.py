"""Hard margins: soft ones whose bound no multiplier reaches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from arraylearn.svm.kernel_matrix import KernelMatrix
from arraylearn.svm.solvers.stopping import Settings
from arraylearn.svm.tasks import Task, TaskResult

__all__ = ["solve_hard"]

Host = Any  # a NumPy array
SoftSolver = Callable[[list[Task], Host, Settings, list[Host]], list[TaskResult]]

# A hard margin is a soft one whose bound no multiplier reaches; these bounds are tried, times 1 / mean K_ii.
_HARD_BOUNDS = (1e3, 1e5, 1e7)
_HARD_STEPS_PER_ROW = 200
# A margin narrower than this share of the rows' root mean square length counts as none.
_LEAST_MARGIN = 1e-5


def solve_hard(
    matrix: KernelMatrix, tasks: list[Task], bound: Host, settings: Settings, solve_soft: SoftSolver
) -> list[TaskResult]:
    """Solve with growing finite bounds until no multiplier reaches them; what never does is inseparable.

    Parameters
    ----------
    matrix : KernelMatrix
        Of all rows.
    tasks : list of Task
        The problems.
    bound : NumPy array (n,)
        The C of each row, infinite for some.
    settings : Settings
        When to stop.
    solve_soft : callable
        Solves tasks with finite bounds, from given starts.

    Raises
    ------
    ValueError
        Where rows are not separable: with the row that is worst, its margin, and the widest margin possible.
    """
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
        found = solve_soft([tasks[k] for k in todo], finite, settings, begin)
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
