"""Many small dual problems at once, each with its whole kernel matrix in memory."""

from __future__ import annotations

from arraylearn._typing import Array
from arraylearn.backend.namespace import Place, from_host, to_host
from arraylearn.backend.ops import solve_box_block
from arraylearn.svm.dual import DualProblem, DualSolution, extremes, refuse_nan
from arraylearn.svm.settings import Settings

__all__ = ["solve_blocks"]

_MOST_ROUNDS = 10_000


def solve_blocks(place: Place, matrix: Array, problem: DualProblem, settings: Settings) -> list[DualSolution]:
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
    """
    xp = place.xp
    b = matrix.shape[0]
    solutions: dict[int, DualSolution] = {}
    active = list(range(b))
    beta = problem.start
    n_steps = xp.zeros((b,), dtype=xp.int64, device=place.device)
    is_last = False
    for n_rounds in range(_MOST_ROUNDS + 1):
        gradient = problem.linear - xp.matmul(matrix, beta[..., None])[..., 0]
        highest, lowest = extremes(xp, beta, gradient, problem)
        gaps, taken = _read(place, highest - lowest, n_steps)
        refuse_nan(*gaps)
        if settings.report is not None:
            settings.report(sum(taken), max(gaps))
        is_last = n_rounds == _MOST_ROUNDS or max(taken) >= settings.step_limit(beta.shape[1])
        is_open = [gap > settings.tol and not is_last for gap in gaps]
        for k, which in enumerate(active):
            if not is_open[k]:
                is_converged = not gaps[k] > settings.tol
                solutions[which] = DualSolution(beta[k, :], gradient[k, :], gaps[k], taken[k], is_converged)
        if not any(is_open):
            break
        if not all(is_open):
            keep = [k for k, flag in enumerate(is_open) if flag]
            active = [active[k] for k in keep]
            idx = from_host(keep, place, xp.int64)
            matrix, beta, gradient, n_steps = (
                xp.take(values, idx, axis=0) for values in (matrix, beta, gradient, n_steps)
            )
            problem = DualProblem(*(xp.take(values, idx, axis=0) for values in problem))
        beta, more = solve_box_block(
            xp, matrix, gradient, beta, problem.lower, problem.upper,
            tol=0.9 * settings.tol, max_steps=2 * beta.shape[1],
        )  # fmt: skip
        n_steps = n_steps + more
    return [solutions[k] for k in range(b)]


def _read(place: Place, gaps: Array, n_steps: Array) -> tuple[list[float], list[int]]:
    """Read the gaps and step counts of all problems: the one wait of a round."""
    xp = place.xp
    both = to_host(xp.concat([gaps, xp.astype(n_steps, gaps.dtype)])).tolist()
    return both[: gaps.shape[0]], [int(count) for count in both[gaps.shape[0] :]]
