r"""Many classification problems on one kernel matrix as one batch: folds, values of C, pairs of classes.

The alternating direction method of multipliers splits the objective from the box. With one inverse of
:math:`K + \rho I` per group of similar C, a step is one matrix product and a clip for all problems,

.. math:: x \leftarrow (K + \rho I)^{-1} (p + \rho (z - u)) - \text{its share of the equality}, \quad
          z \leftarrow \operatorname{clip}(x + u), \quad u \leftarrow x + u - z,

and the host reads the gaps of all problems once in twenty steps. Working-set decomposition finishes the
problems that have not converged. Faster than a path for each problem where a decision of the host costs a
launch and a sync, and for up to a few hundred rows.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.arrays.linear import inverse_definite
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host, to_host
from arraylearn.backend.threads import small_products
from arraylearn.svm.paths.shared_matrix import SharedMatrix
from arraylearn.svm.solvers.decomposition import decompose
from arraylearn.svm.solvers.dual import (
    DualProblem,
    DualSolution,
    Settings,
    classification_at,
    extremes,
    find_offset,
)
from arraylearn.svm.solvers.pairs import project

__all__ = ["BatchSolution", "solve_columns"]


_FLOAT32_BOUND = 1000.0  # up to this C, float32 kernel values are precise enough for decomposition
_SMALL_ROWS = 1024  # up to this many rows, products gain nothing from a second thread of the BLAS
_CHECK_EVERY = 20  # steps between two measurements of the gaps
_MOST_STEPS = 400
_RELAXATION = 1.6  # over-relaxation
_GROUP_RATIO = 3.0  # problems whose best rho differ by a smaller factor share an inverse


class BatchSolution(NamedTuple):
    """Solutions of b problems on n rows. Decision values of all rows are ``beta @ K + offset[:, None]``."""

    beta: Array  # (b, n): signed multipliers, in the accumulator's dtype
    offset: Array  # (b,): intercepts
    gap: HostArray  # (b,): remaining violations of optimality
    n_iter: HostArray  # (b,): steps
    is_converged: HostArray  # (b,): whether the gap is within the tolerance


def solve_columns(
    place: Place, matrix: Array, sign: HostArray, bound: HostArray, settings: Settings
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

    Returns
    -------
    BatchSolution
        In the order of the problems.
    """
    xp = place.xp
    solutions = _split_groups(place, matrix, sign, bound, settings)
    stores: dict[bool, SharedMatrix] = {}
    for k, found in enumerate(solutions):
        if not found.is_converged:
            is_small = float(bound[k].max()) < _FLOAT32_BOUND
            if is_small not in stores:
                dtype = xp.float32 if is_small else accumulator_dtype(place)
                stores[is_small] = SharedMatrix(place, matrix, dtype)
            problem = classification_at(place, sign[k], bound[k])._replace(start=found.beta)
            solutions[k] = decompose(stores[is_small], problem, settings)
    beta, gradient = (xp.stack([getattr(one, name) for one in solutions]) for name in ("beta", "gradient"))
    return BatchSolution(
        beta=beta,
        offset=find_offset(xp, beta, gradient, classification_at(place, sign, bound)),
        gap=np.asarray([one.gap for one in solutions]),
        n_iter=np.asarray([one.n_iter for one in solutions]),
        is_converged=np.asarray([one.is_converged for one in solutions]),
    )


def _split_groups(
    place: Place, matrix: Array, sign: HostArray, bound: HostArray, settings: Settings
) -> list[DualSolution]:
    """Solve group by group; return the best points found, in the order of the problems."""
    xp = place.xp
    scale = float(xp.mean(xp.linalg.diagonal(matrix)))
    wanted = [_best_rho(float(row.max()) * scale) for row in bound]
    found: dict[int, DualSolution] = {}
    with small_products(xp) if matrix.shape[0] <= _SMALL_ROWS else nullcontext():
        for group in _groups(wanted):
            rho = scale * math.exp(sum(math.log(wanted[k]) for k in group) / len(group))
            problem = classification_at(place, sign[group], bound[group])
            found |= zip(group, _split(place, matrix, problem, rho, settings), strict=True)
    return [found[k] for k in range(sign.shape[0])]


def _best_rho(bound: float) -> float:
    """Return the rho that took the fewest steps for a C, on kernels of mean diagonal 1."""
    return min(max(0.8 * math.pow(bound, -0.6), 0.05), 10.0)


def _groups(wanted: list[float]) -> list[list[int]]:
    """Group the problems by their best rho."""
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
