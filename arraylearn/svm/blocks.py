"""Many small dual problems at once, each with its whole kernel matrix in memory."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from arraylearn._typing import Array
from arraylearn.backend.namespace import Place, from_host, to_host
from arraylearn.backend.ops import inverse_curvature_roots, solve_box_block
from arraylearn.svm.dual import DualProblem, DualSolution, extremes, refuse_nan
from arraylearn.svm.settings import Settings

__all__ = ["Coarse", "solve_blocks"]

# Rounds after which a coarse matrix has brought what it can.
_COARSE_ROUNDS = 8


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
    before: list[int] = []
    work = coarse or Coarse(matrix, inverse_curvature_roots(xp, matrix))
    for n_rounds in itertools.count():
        gradient = problem.linear - xp.matmul(matrix, beta[..., None])[..., 0]
        highest, lowest = extremes(xp, beta, gradient, problem)
        gaps, taken = _read(place, highest - lowest, n_steps)
        refuse_nan(*gaps)
        if settings.report is not None:
            settings.report(sum(taken), max(gaps))
        is_last = taken == before or max(taken) >= settings.step_limit(beta.shape[1])
        is_open = [k for k, gap in enumerate(gaps) if gap > settings.tol and not is_last]
        for k in set(range(len(active))).difference(is_open):
            is_converged = not gaps[k] > settings.tol
            solution = DualSolution(beta[k, :], gradient[k, :], gaps[k], taken[k], is_converged)
            solutions[active[k]] = solution
        if not is_open:
            break
        if len(is_open) < len(active):
            idx = from_host(is_open, place, xp.int64)
            active, taken = [active[k] for k in is_open], [taken[k] for k in is_open]
            matrix, beta, gradient, n_steps, *rest = (
                xp.take(values, idx, axis=0) for values in (matrix, beta, gradient, n_steps, *problem, *work)
            )
            problem, work = DualProblem(*rest[:4]), Coarse(*rest[4:])
        if n_rounds == _COARSE_ROUNDS and coarse is not None:
            work = Coarse(matrix, inverse_curvature_roots(xp, matrix))
        before = taken
        beta, more = solve_box_block(
            xp, work.matrix, gradient, beta, problem.lower, problem.upper,
            tol=0.9 * settings.tol, max_steps=beta.shape[1], roots=work.roots,
        )  # fmt: skip
        n_steps = n_steps + more
    return [solutions[k] for k in sorted(solutions)]


def _read(place: Place, gaps: Array, n_steps: Array) -> tuple[list[float], list[int]]:
    """Read the gaps and step counts of all problems: the one wait of a round."""
    xp = place.xp
    both = to_host(xp.concat([gaps, xp.astype(n_steps, gaps.dtype)])).tolist()
    return both[: gaps.shape[0]], [int(count) for count in both[gaps.shape[0] :]]
