"""Choose a solver for dual problems; hard margins by soft ones whose bound no multiplier reaches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import from_host, to_host
from arraylearn.backend.ops import put
from arraylearn.svm.blocks import solve_blocks
from arraylearn.svm.decomposition import decompose, make_rows
from arraylearn.svm.dual import DualProblem, DualSolution
from arraylearn.svm.interior import solve_linear
from arraylearn.svm.rows import KernelMatrix, KernelRows
from arraylearn.svm.settings import Settings

__all__ = ["DENSE_ROWS", "SOLVERS", "SolverName", "solve_dense", "solve_large"]

SolverName = Literal["auto", "decomposition", "interior", "dense"]
SOLVERS = ("auto", "decomposition", "interior", "dense")

# Up to this many rows the whole kernel matrix of a problem is one block.
DENSE_ROWS = 700
# Where steps of an interior point cost much (n d^2 above this), a few pair steps are tried first: they are
# all that nearly separable rows need.
_TRIAL_WORTH = 1e8
_TRIAL_STEPS = 1500


def solve_large(
    matrix: KernelMatrix,
    problem: DualProblem,
    settings: Settings,
    *,
    solver: SolverName,
    is_linear: bool,
    store: KernelRows | None = None,
) -> DualSolution:
    """Solve one problem whose kernel matrix need not fit in memory.

    `store` holds kernel rows that problems on the same matrix share.
    """
    bound = _largest_bound(problem)
    if store is None:
        store = make_rows(matrix, bound, settings)
    if solver == "auto" and is_linear and matrix.x.shape[1] < matrix.n:
        is_costly = matrix.n * matrix.x.shape[1] ** 2 > _TRIAL_WORTH
        if is_costly and (trial := _try_pairs(store, problem, settings)) is not None:
            return trial
        solver = "interior"
    if solver != "interior":
        return decompose(store, problem, settings)
    solution = _solve_interior(matrix, problem, settings)
    if solution.is_converged:
        return solution
    finished = decompose(store, problem._replace(start=solution.beta), settings)
    return finished._replace(n_iter=finished.n_iter + solution.n_iter)


def _largest_bound(problem: DualProblem) -> float:
    """Read the largest finite distance of a bound from zero."""
    values = to_host(problem.upper - problem.lower)
    return float(values.max())


def _try_pairs(store: KernelRows, problem: DualProblem, settings: Settings) -> DualSolution | None:
    """Try a few pair steps: nearly separable rows need no more."""
    limit = _TRIAL_STEPS if settings.max_iter < 0 else min(_TRIAL_STEPS, settings.max_iter)
    trial = decompose(store, problem, settings._replace(max_iter=limit))
    return trial if trial.is_converged or limit == settings.max_iter else None


def _solve_interior(matrix: KernelMatrix, problem: DualProblem, settings: Settings) -> DualSolution:
    """Solve on the rows whose box is open; the others keep their only value."""
    xp = matrix.place.xp
    is_open = to_host(problem.upper > problem.lower)
    if is_open.all():
        return solve_linear(matrix.place, matrix.x, problem, settings)
    idx = from_host(is_open.nonzero()[0], matrix.place, xp.int64)
    inner = DualProblem(*(xp.take(values, idx, axis=0) for values in problem))
    x = xp.astype(matrix.x, problem.linear.dtype, copy=False)
    found = solve_linear(matrix.place, xp.take(x, idx, axis=0), inner, settings)
    beta = _spread(matrix, idx, found.beta)
    return found._replace(beta=beta, gradient=problem.linear - x @ (beta @ x))


def _spread(matrix: KernelMatrix, idx: Array, values: Array) -> Array:
    zero = matrix.place.xp.zeros((matrix.n,), dtype=values.dtype, device=matrix.place.device)
    return put(matrix.place.xp, zero, idx, values)


def solve_dense(
    matrix: KernelMatrix, members: Sequence[Array], problems: Sequence[DualProblem], settings: Settings
) -> list[DualSolution]:
    """Solve small problems together, each on its own members of the rows, in batches that fit the budget."""
    xp = matrix.place.xp
    m = max(idx.shape[0] for idx in members)
    dtype = problems[0].linear.dtype
    per_batch = max(1, settings.cache_bytes // (3 * 8 * m * m))
    wide = matrix.of_dtype(dtype)
    solutions: list[DualSolution] = []
    for first in range(0, len(members), per_batch):
        some = range(first, min(first + per_batch, len(members)))
        blocks = [_padded(xp, wide.block(members[k], members[k]), m) for k in some]
        batch = [DualProblem(*(_padded(xp, part, m) for part in problems[k])) for k in some]
        stacked = DualProblem(*(xp.stack(list(parts)) for parts in zip(*batch, strict=True)))
        found = solve_blocks(matrix.place, xp.stack(blocks), stacked, settings)
        for k, solution in zip(some, found, strict=True):
            n = members[k].shape[0]
            solutions.append(solution._replace(beta=solution.beta[:n], gradient=solution.gradient[:n]))
    return solutions


def _padded(xp: Namespace, values: Array, m: int) -> Array:
    """Append zeros so that every axis has length `m`."""
    for axis in range(values.ndim):
        shape = (*values.shape[:axis], m - values.shape[axis], *values.shape[axis + 1 :])
        if shape[axis]:
            zeros = xp.zeros(shape, dtype=values.dtype, device=array_api_compat.device(values))
            values = xp.concat([values, zeros], axis=axis)
    return values
