r"""Many classification problems on one kernel matrix: folds, values of C, weights, pairs of classes.

There are two methods. *Paths* solve one problem after the other; problems that differ in C alone start from
each other's solutions, and all share the kernel matrix. *Splitting* (the alternating direction method of
multipliers) solves all of them at once: with one inverse of :math:`K + \rho I` per group of similar C, a step
is one matrix product and a clip for the whole batch,

.. math:: x \leftarrow (K + \rho I)^{-1} (p + \rho (z - u)) - \text{its share of the equality}, \quad
          z \leftarrow \operatorname{clip}(x + u), \quad u \leftarrow x + u - z,

and paths finish the problems that have not converged. Paths are faster on a CPU, splitting where every
decision of the host costs a launch and a sync.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.arrays.gather import put
from arraylearn.backend.arrays.linear import inverse_definite
from arraylearn.backend.arrays.parallel import small_products
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host, is_on_host, to_host
from arraylearn.backend.ops.quadratic import inverse_curvature_roots, project
from arraylearn.svm.kernel_matrix import WholeMatrix
from arraylearn.svm.solvers.decomposition import decompose
from arraylearn.svm.solvers.dense import StepMatrix, solve_blocks
from arraylearn.svm.solvers.dual import (
    DualProblem,
    DualSolution,
    classification_at,
    extremes,
    find_offset,
)
from arraylearn.svm.solvers.stopping import Settings
from arraylearn.svm.tasks import rescale_start

__all__ = ["BatchSolution", "Method", "solve_columns"]

Host = Any  # a NumPy array
Method = Literal["auto", "paths", "splitting"]

_DENSE_ROWS = 2500  # up to this many rows, a path keeps the whole block between its rows in memory
_FLOAT32_BOUND = 1000.0  # up to this C, float32 kernel values are precise enough for the steps
_FEW_ROWS = 1024  # up to this many rows, products gain nothing from a second thread of the BLAS
_CHECK_EVERY = 20  # steps of splitting between two measurements of the gaps
_MOST_STEPS = 400  # of splitting
_RELAXATION = 1.6  # over-relaxation of splitting
_GROUP_RATIO = 3.0  # problems whose best rho differ by a smaller factor share an inverse


class BatchSolution(NamedTuple):
    """Solutions of b problems on n rows. Decision values of all rows are ``beta @ K + offset[:, None]``."""

    beta: Array  # (b, n): signed multipliers, in the accumulator's dtype
    offset: Array  # (b,): intercepts
    gap: Host  # (b,): remaining violations of optimality
    n_iter: Host  # (b,): steps
    is_converged: Host  # (b,): whether the gap is within the tolerance


def solve_columns(
    place: Place, matrix: Array, sign: Host, bound: Host, settings: Settings, *, method: Method = "auto"
) -> BatchSolution:
    """Solve b soft-margin problems on one kernel matrix.

    Parameters
    ----------
    place : Place
        Where the matrix is.
    matrix : float array (n, n)
        The symmetric kernel matrix of all rows.
    sign : NumPy array (b, n)
        +1.0 or -1.0 for each row in each problem.
    bound : NumPy array (b, n)
        The finite C of each row in each problem; 0 for a row that is left out (of a held-out fold).
    settings : Settings
        When to stop.
    method : {"auto", "paths", "splitting"}
        "auto" is "splitting" where reading a number costs a sync, and "paths" elsewhere.

    Returns
    -------
    BatchSolution
        In the order of the problems.
    """
    if method == "auto":
        method = "paths" if is_on_host(place) else "splitting"
    start: list[Host | None] = [None] * sign.shape[0]
    done: dict[int, DualSolution] = {}
    if method == "splitting":
        done, start = _split_groups(place, matrix, sign, bound, settings)
    store = _stores(place, matrix)
    for path in _paths(sign, bound):
        if not any(begin is not None for begin in start) and (bound[path[0]] > 0).sum() <= _DENSE_ROWS:
            done |= _follow(place, matrix, sign, bound, [k for k in path if k not in done], settings)
            continue
        previous: int | None = None
        for k in path:
            if k in done:
                continue
            begin = start[k]
            if begin is None and previous is not None:
                before = to_host(done[previous].beta)
                begin = rescale_start(before, bound[previous], sign[k], bound[k])
            problem = classification_at(place, sign[k], bound[k], begin)
            done[k] = decompose(store(float(bound[k].max())), problem, settings)
            previous = k
    return _collect(place, sign, bound, [done[k] for k in range(sign.shape[0])])


def _follow(
    place: Place, matrix: Array, sign: Host, bound: Host, path: list[int], settings: Settings
) -> dict[int, DualSolution]:
    """Solve the problems of a path on the block of their rows, each from the solution before it."""
    if not path:
        return {}
    xp = place.xp
    rows = (bound[path[0]] > 0).nonzero()[0]
    idx = from_host(rows, place, xp.int64)
    block = xp.take(xp.take(matrix, idx, axis=0), idx, axis=1)[None, :, :]
    wide = xp.astype(block, accumulator_dtype(place), copy=False)
    narrow = xp.astype(block, xp.float32)
    steps = StepMatrix(narrow, inverse_curvature_roots(xp, narrow))
    empty = xp.zeros((sign.shape[1],), dtype=wide.dtype, device=place.device)
    done: dict[int, DualSolution] = {}
    begin: Host | None = None
    for k, following in zip(path, [*path[1:], None], strict=True):
        problem = classification_at(place, sign[k : k + 1, rows], bound[k : k + 1, rows], begin)
        is_small = float(bound[k].max()) < _FLOAT32_BOUND
        found = solve_blocks(place, wide, problem, settings, narrow=steps if is_small else None)[0]
        beta, gradient = (put(xp, empty, idx, values) for values in (found.beta, found.gradient))
        done[k] = found._replace(beta=beta, gradient=gradient)
        if following is not None:
            old, new = bound[k, rows], bound[following, rows]
            begin = rescale_start(to_host(found.beta), old, sign[k, rows], new)[None, :]
    return done


def _stores(place: Place, matrix: Array) -> Any:
    """Return a function of the largest bound, which gives the matrix in the dtype that the bound needs."""
    wide = accumulator_dtype(place)
    kept: dict[bool, WholeMatrix] = {}

    def store(bound: float) -> WholeMatrix:
        is_small = bound < _FLOAT32_BOUND
        if is_small not in kept:
            kept[is_small] = WholeMatrix(place, matrix, place.xp.float32 if is_small else wide)
        return kept[is_small]

    return store


def _paths(sign: Host, bound: Host) -> list[list[int]]:
    """Chain the problems with the same rows and signs, from the smallest C to the largest."""
    chains: dict[bytes, list[int]] = {}
    for k in range(sign.shape[0]):
        chains.setdefault((sign[k] * (bound[k] > 0)).tobytes(), []).append(k)
    return [sorted(chain, key=lambda k: float(bound[k].max())) for chain in chains.values()]


def _collect(place: Place, sign: Host, bound: Host, solutions: list[DualSolution]) -> BatchSolution:
    """Stack the solutions, and compute the offsets of all."""
    xp = place.xp
    problem = classification_at(place, sign, bound)
    beta = xp.stack([solution.beta for solution in solutions])
    gradient = xp.stack([solution.gradient for solution in solutions])
    return BatchSolution(
        beta=beta,
        offset=find_offset(xp, beta, gradient, problem),
        gap=np.asarray([solution.gap for solution in solutions]),
        n_iter=np.asarray([solution.n_iter for solution in solutions]),
        is_converged=np.asarray([solution.is_converged for solution in solutions]),
    )


# ---- splitting


def _split_groups(
    place: Place, matrix: Array, sign: Host, bound: Host, settings: Settings
) -> tuple[dict[int, DualSolution], list[Host | None]]:
    """Solve by splitting; return the solutions that converged, and starts for the other problems."""
    xp = place.xp
    scale = float(xp.mean(xp.linalg.diagonal(matrix)))
    wanted = [_best_rho(float(row.max()) * scale) for row in bound]
    done: dict[int, DualSolution] = {}
    start: list[Host | None] = [None] * sign.shape[0]
    with small_products(xp) if matrix.shape[0] <= _FEW_ROWS else nullcontext():
        for group in _groups(wanted):
            rho = scale * math.exp(sum(math.log(wanted[k]) for k in group) / len(group))
            problem = classification_at(place, sign[group], bound[group])
            for k, solution in zip(group, _split(place, matrix, problem, rho, settings), strict=True):
                if solution.is_converged:
                    done[k] = solution
                else:
                    start[k] = to_host(solution.beta)
    return done, start


def _best_rho(bound: float) -> float:
    """Return the rho that took the fewest steps for a C, on kernels of mean diagonal 1."""
    return min(max(0.8 * math.pow(bound, -0.6), 0.05), 10.0)


def _groups(wanted: list[float]) -> list[list[int]]:
    """Group the problems by the rho they want."""
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    groups: list[list[int]] = []
    for k in order:
        if groups and wanted[k] <= _GROUP_RATIO * wanted[groups[-1][0]]:
            groups[-1].append(k)
        else:
            groups.append([k])
    return groups


def _split(
    place: Place, matrix: Array, problem: DualProblem, rho: float, settings: Settings
) -> list[DualSolution]:
    """Take steps for all problems of a group; solved ones leave it. Return the best point of each."""
    xp = place.xp
    dtype = problem.linear.dtype
    wide = xp.astype(matrix, dtype, copy=False)
    eye = xp.eye(wide.shape[0], dtype=dtype, device=place.device)
    inverse = inverse_definite(xp, wide + rho * eye)
    ones = xp.sum(inverse, axis=0)
    total = xp.sum(ones)
    n_problems = problem.linear.shape[0]
    found: dict[int, DualSolution] = {}
    active = list(range(n_problems))
    z = problem.start
    u = xp.zeros_like(z)
    for n_steps in range(_CHECK_EVERY, _MOST_STEPS + 1, _CHECK_EVERY):
        for _ in range(_CHECK_EVERY):
            x = (problem.linear + rho * (z - u)) @ inverse
            x = x - ones * (xp.sum(x, axis=1, keepdims=True) / total)
            x = _RELAXATION * x + (1.0 - _RELAXATION) * z + u
            z = xp.minimum(xp.maximum(x, problem.lower), problem.upper)
            u = x - z
        beta = project(
            xp, x - problem.start, problem.start, problem.lower, problem.upper, problem.upper > problem.lower
        )
        gradient = problem.linear - beta @ wide
        highest, lowest = extremes(xp, beta, gradient, problem)
        gaps = to_host(highest - lowest).tolist()  # the one sync of a check, for all problems
        for k, which in enumerate(active):
            if not found.get(which) or gaps[k] < found[which].gap:
                is_converged = gaps[k] <= settings.tol
                found[which] = DualSolution(beta[k, :], gradient[k, :], gaps[k], n_steps, is_converged)
        is_open = [k for k, which in enumerate(active) if not found[which].is_converged]
        if not is_open:
            break
        if len(is_open) < len(active):
            active = [active[k] for k in is_open]
            idx = from_host(is_open, place, xp.int64)
            z, u = xp.take(z, idx, axis=0), xp.take(u, idx, axis=0)
            problem = DualProblem(*(xp.take(values, idx, axis=0) for values in problem))
    return [found[k] for k in range(n_problems)]
