"""Many small dual problems at once, each with its whole kernel matrix in memory."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from arraylearn._typing import Array
from arraylearn.backend.namespace import Place, from_host, to_host
from arraylearn.backend.ops.quadratic import inverse_curvature_roots, solve_box_block
from arraylearn.svm.dual import DualProblem, DualSolution, extremes, objective, refuse_nan
from arraylearn.svm.progress import Progress
from arraylearn.svm.settings import Settings

__all__ = ["Coarse", "solve_blocks"]

# Rounds after which a coarse matrix has brought what it can.
_COARSE_ROUNDS = 8
# Rounds without any progress after which rounding is to blame.
_PATIENCE = 20


class Coarse(NamedTuple):
    """Kernel matrices for the moves alone, in a dtype that may be narrower, and their curvatures."""

    matrix: Array  # (b, m, m)
    roots: Array  # (b, m, m)


def solve_blocks(
    place: Place,
    matrix: Array,
    problem: DualProblem,
    settings: Settings,
    *,
    coarse: Coarse | None = None,
) -> list[DualSolution]:
    """Solve a batch of dual problems; those that are done leave the batch.

    Parameters
    ----------
    place : Place
        Where the arrays live.
    matrix : array (b, m, m)
        Kernel matrices in the accumulator's dtype, padded with rows whose bounds are both 0.
    problem : DualProblem
        Arrays of shape (b, m).
    settings : Settings
        When to stop. The host waits once per round, for all problems together.
    coarse : Coarse, optional
        What to move by, where the caller has it; gaps are measured with `matrix` all the same.
    """
    xp = place.xp
    solutions: dict[int, DualSolution] = {}
    active = list(range(matrix.shape[0]))
    beta = problem.start
    n_steps = xp.zeros((len(active),), dtype=xp.int64, device=place.device)
    before: list[int] = [-1] * len(active)
    progress = [Progress(_PATIENCE) for _ in active]
    limit = settings.step_limit(beta.shape[1])
    is_coarse = coarse is not None
    work = coarse or Coarse(matrix, inverse_curvature_roots(xp, matrix))
    for n_rounds in itertools.count():
        gradient = problem.linear - xp.matmul(matrix, beta[..., None])[..., 0]
        highest, lowest = extremes(xp, beta, gradient, problem)
        value = objective(xp, beta, gradient, problem)
        gaps, objectives, taken = _read(place, highest - lowest, value, n_steps)
        refuse_nan(*gaps)
        if settings.report is not None:
            settings.report(sum(taken), max(gaps))
        is_open = []
        for k, which in enumerate(active):
            is_converged = not gaps[k] > settings.tol
            has_stopped = taken[k] == before[k] and not is_coarse
            is_stalled = progress[which].is_stalled(gaps[k], objectives[k]) or has_stopped
            if not (is_converged or is_stalled or taken[k] >= limit):
                is_open.append(k)
                continue
            solutions[which] = DualSolution(
                beta[k, :], gradient[k, :], gaps[k], taken[k], is_converged, is_stalled and not is_converged
            )
        if not is_open:
            break
        if len(is_open) < len(active):
            idx = from_host(is_open, place, xp.int64)
            active, taken, before = ([some[k] for k in is_open] for some in (active, taken, before))
            matrix, beta, gradient, n_steps, *rest = (
                xp.take(values, idx, axis=0) for values in (matrix, beta, gradient, n_steps, *problem, *work)
            )
            problem, work = DualProblem(*rest[:4]), Coarse(*rest[4:])
        has_stopped = any(now == then for now, then in zip(taken, before, strict=True))
        if is_coarse and (n_rounds >= _COARSE_ROUNDS or has_stopped):
            work, is_coarse = Coarse(matrix, inverse_curvature_roots(xp, matrix)), False
        before = taken
        beta, more = solve_box_block(
            xp, work.matrix, gradient, beta, problem.lower, problem.upper,
            tol=0.9 * settings.tol, max_steps=beta.shape[1], roots=work.roots,
        )  # fmt: skip
        n_steps = n_steps + more
    return [solutions[k] for k in sorted(solutions)]


def _read(
    place: Place, gaps: Array, values: Array, n_steps: Array
) -> tuple[list[float], list[float], list[int]]:
    """Read the gaps, objectives and step counts of all problems: the one wait of a round."""
    read = to_host(place.xp.stack([gaps, values, place.xp.astype(n_steps, gaps.dtype)])).tolist()
    return read[0], read[1], [int(count) for count in read[2]]
