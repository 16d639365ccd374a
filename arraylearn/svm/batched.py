r"""Many classification problems on one kernel matrix: folds, prices C, weights, pairs of classes.

Two ways to solve them. *Paths* take one problem after the other; problems that differ in C alone start from
each other's solutions, and all share the kernel matrix. *Splitting* (the alternating direction method of
multipliers) takes all of them at once: with one inverse of :math:`K + \rho I` per group of prices, a step is
one matrix product and a clip for the whole batch,

.. math:: x \leftarrow (K + \rho I)^{-1} (p + \rho (z - u)) - \text{its share of the equality}, \quad
          z \leftarrow \operatorname{clip}(x + u), \quad u \leftarrow x + u - z,

and what it leaves is finished by the paths. Paths are the faster on a CPU, splitting where every small
decision costs a launch and a wait.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple

from arraylearn._typing import Array
from arraylearn.backend.arrays.gather import put
from arraylearn.backend.arrays.linear import inverse_definite
from arraylearn.backend.arrays.parallel import small_products
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host, reads_are_free, to_host
from arraylearn.backend.ops.quadratic import inverse_curvature_roots, project
from arraylearn.svm.blocks import Coarse, solve_blocks
from arraylearn.svm.decomposition import decompose
from arraylearn.svm.dual import DualProblem, DualSolution, classification_problem, extremes, find_offset
from arraylearn.svm.rows import WholeMatrix
from arraylearn.svm.settings import Settings
from arraylearn.svm.tasks import rescale_start

__all__ = ["BatchSolution", "Method", "solve_columns"]

Host = Any  # a NumPy array
Method = Literal["auto", "paths", "splitting"]

_DENSE_ROWS = 2500  # up to here a path works on the whole block of its rows
_FLOAT32_BOUND = 1000.0  # multipliers up to here tolerate the rounding of float32 kernel values
_FEW_ROWS = 1024  # products of so few rows are not worth a second thread of the BLAS
_CHECK_EVERY = 20
_MOST_STEPS = 400
_RELAXATION = 1.6
_GROUP_RATIO = 3.0  # problems whose best rho differ by less share an inverse


class BatchSolution(NamedTuple):
    """Solutions of b problems on n rows. Decision values of all rows are ``beta @ K + offset[:, None]``."""

    beta: Array  # (b, n) signed multipliers, in the accumulator's dtype
    offset: Array  # (b,) intercepts
    gap: Host  # (b,) remaining violations
    n_iter: Host  # (b,) steps
    is_converged: Host  # (b,)


def solve_columns(
    place: Place, matrix: Array, sign: Host, bound: Host, settings: Settings, *, method: Method = "auto"
) -> BatchSolution:
    """Solve b soft-margin problems on one kernel matrix.

    Parameters
    ----------
    place : Place
        Where the matrix lives.
    matrix : float array (n, n)
        The symmetric kernel matrix of all rows.
    sign : NumPy array (b, n)
        +1.0 or -1.0 for each row in each problem.
    bound : NumPy array (b, n)
        The finite C of each row in each problem; 0 for a row that takes no part (the held-out fold).
    settings : Settings
        When to stop.
    method : {"auto", "paths", "splitting"}
        "auto" splits where reading a number costs a wait, and follows paths elsewhere.

    Returns
    -------
    BatchSolution
        In the order of the problems.
    """
    if method == "auto":
        method = "paths" if reads_are_free(place.device) else "splitting"
    start: list[Host | None] = [None] * sign.shape[0]
    done: dict[int, DualSolution] = {}
    if method == "splitting":
        done, start = _split_groups(place, matrix, sign, bound, settings)
    store = _stores(place, matrix)
    for path in _paths(sign, bound):
        if not any(begin is not None for begin in start) and _n_rows(bound[path[0]]) <= _DENSE_ROWS:
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
            problem = _problem(place, sign[k], bound[k], begin)
            done[k] = decompose(store(float(bound[k].max())), problem, settings)
            previous = k
    return _collect(place, sign, bound, [done[k] for k in range(sign.shape[0])])


def _n_rows(bound: Host) -> int:
    return int((bound > 0).sum())


def _follow(
    place: Place, matrix: Array, sign: Host, bound: Host, path: list[int], settings: Settings
) -> dict[int, DualSolution]:
    """Solve the problems of a path on the block of their rows, each from the one before."""
    if not path:
        return {}
    xp = place.xp
    rows = (bound[path[0]] > 0).nonzero()[0]
    idx = from_host(rows, place, xp.int64)
    block = xp.take(xp.take(matrix, idx, axis=0), idx, axis=1)[None, :, :]
    wide = xp.astype(block, accumulator_dtype(place), copy=False)
    narrow = xp.astype(block, xp.float32)
    coarse = Coarse(narrow, inverse_curvature_roots(xp, narrow))
    empty = xp.zeros((sign.shape[1],), dtype=wide.dtype, device=place.device)
    done: dict[int, DualSolution] = {}
    begin: Host | None = None
    for k, following in zip(path, [*path[1:], None], strict=True):
        problem = _problem(place, sign[k : k + 1, rows], bound[k : k + 1, rows], begin)
        is_small = float(bound[k].max()) < _FLOAT32_BOUND
        found = solve_blocks(place, wide, problem, settings, coarse=coarse if is_small else None)[0]
        beta, gradient = (put(xp, empty, idx, values) for values in (found.beta, found.gradient))
        done[k] = found._replace(beta=beta, gradient=gradient)
        if following is not None:
            old, new = bound[k, rows], bound[following, rows]
            begin = rescale_start(to_host(found.beta), old, sign[k, rows], new)[None, :]
    return done


def _stores(place: Place, matrix: Array) -> Any:
    """Return a function from the largest bound to the matrix in the dtype that this bound needs."""
    wide = accumulator_dtype(place)
    kept: dict[bool, WholeMatrix] = {}

    def store(bound: float) -> WholeMatrix:
        is_small = bound < _FLOAT32_BOUND
        if is_small not in kept:
            kept[is_small] = WholeMatrix(place, matrix, place.xp.float32 if is_small else wide)
        return kept[is_small]

    return store


def _paths(sign: Host, bound: Host) -> list[list[int]]:
    """Chain the problems with the same rows and signs, from the smallest price to the largest."""
    chains: dict[bytes, list[int]] = {}
    for k in range(sign.shape[0]):
        chains.setdefault((sign[k] * (bound[k] > 0)).tobytes(), []).append(k)
    return [sorted(chain, key=lambda k: float(bound[k].max())) for chain in chains.values()]


def _problem(place: Place, sign: Host, bound: Host, start: Host | None) -> DualProblem:
    dtype = accumulator_dtype(place)
    signs, bounds = (from_host(values, place, dtype) for values in (sign, bound))
    problem = classification_problem(place.xp, signs, bounds)
    if start is None:
        return problem
    return problem._replace(start=from_host(start, place, dtype))


def _collect(place: Place, sign: Host, bound: Host, solutions: list[DualSolution]) -> BatchSolution:
    xp = place.xp
    problem = _problem(place, sign, bound, None)
    beta = xp.stack([solution.beta for solution in solutions])
    gradient = xp.stack([solution.gradient for solution in solutions])
    kind = sign.dtype
    return BatchSolution(
        beta=beta,
        offset=find_offset(xp, beta, gradient, problem),
        gap=sign[:, 0] * 0 + [solution.gap for solution in solutions],
        n_iter=(sign[:, 0] * 0 + [solution.n_iter for solution in solutions]).astype("int64"),
        is_converged=(sign[:, 0] * 0 + [float(s.is_converged) for s in solutions]).astype(kind) > 0,
    )


# ---- splitting


def _split_groups(
    place: Place, matrix: Array, sign: Host, bound: Host, settings: Settings
) -> tuple[dict[int, DualSolution], list[Host | None]]:
    """Split group by group; return what converged, and where the others stand."""
    xp = place.xp
    scale = float(xp.mean(xp.linalg.diagonal(matrix)))
    wanted = [_best_rho(float(row.max()) * scale) for row in bound]
    done: dict[int, DualSolution] = {}
    start: list[Host | None] = [None] * sign.shape[0]
    with small_products(xp) if matrix.shape[0] <= _FEW_ROWS else nullcontext():
        for group in _groups(wanted):
            rho = scale * math.exp(sum(math.log(wanted[k]) for k in group) / len(group))
            problem = _problem(place, sign[group], bound[group], None)
            for k, solution in zip(group, _split(place, matrix, problem, rho, settings), strict=True):
                if solution.is_converged:
                    done[k] = solution
                else:
                    start[k] = to_host(solution.beta)
    return done, start


def _best_rho(price: float) -> float:
    """Return the penalty that took the fewest steps for a price, on kernels of mean diagonal 1."""
    return min(max(0.8 * math.pow(price, -0.6), 0.05), 10.0)


def _groups(wanted: list[float]) -> list[list[int]]:
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
    """Take steps for all problems of a group; those that are optimal leave."""
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
        gaps = to_host(highest - lowest).tolist()  # the one wait of a check, for all problems
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
