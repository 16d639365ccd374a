r"""A two-class support vector machine for rising prices C, by Newton steps on the set of free multipliers.

Given which multipliers are 0, free, or at their bound, the free ones and the offset b solve a linear system,

.. math:: \begin{pmatrix} K_{FF} & 1 \\ 1^T & 0 \end{pmatrix} \begin{pmatrix} \beta_F \\ b \end{pmatrix} =
          \begin{pmatrix} y_F - K_{FU}\beta_U \\ -1^T \beta_U \end{pmatrix}

and its solution says which sets were wrong (a semismooth Newton method). From the sets of the last price a
handful of steps is enough; where it is not, the working-set solver takes over.

References
----------
M. Hintermueller, K. Ito, K. Kunisch, "The primal-dual active set strategy as a semismooth Newton method",
SIAM J. Optimization 13, 2002. T. Hastie, S. Rosset, R. Tibshirani, J. Zhu, "The entire regularization path
for the support vector machine", JMLR 5, 2004.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from arraylearn._typing import Array
from arraylearn.backend.namespace import HOST, accumulator_dtype, from_host, to_host
from arraylearn.backend.ops import cholesky, put, solve_triangular
from arraylearn.svm.decomposition import decompose
from arraylearn.svm.dual import classification_problem, find_offset
from arraylearn.svm.rows import WholeMatrix
from arraylearn.svm.settings import Settings
from arraylearn.svm.tasks import rescale_start

__all__ = ["Point", "follow_path"]

Host = Any  # a NumPy array

_MOST_STEPS = 40
_PATIENCE = 3  # steps without fewer errors
_MOST_CORRECTIONS = 3
_AHEAD = 0.7  # how far the sets are extrapolated along the path
# Multipliers that must move by more than this many tolerances in all are not worth an exact check.
_FAR = 100.0
_LOW, _FREE, _HIGH = 0, 1, 2


class Point(NamedTuple):
    """The solution for one price, on the host."""

    beta: Host  # (n,) signed multipliers
    product: Host  # (n,) K beta: the decision values of all rows, less the offset
    offset: float


class Problem(NamedTuple):
    """A two-class problem at one price."""

    store: WholeMatrix
    sign: Host  # (n,)
    bound: Host  # (n,); 0 for rows that take no part
    tol: float
    level: float  # mean diagonal of the matrix

    def multiply(self, rows: Host, weights: Host) -> Host:
        """Return the weighted sum of kernel rows."""
        place = self.store.matrix.place
        idx = from_host(rows, place, place.xp.int64)
        return to_host(self.store.combine(idx, from_host(weights, place, accumulator_dtype(place))))


def follow_path(
    store: WholeMatrix, sign: Host, share: Host, prices: Sequence[float], settings: Settings
) -> list[Point]:
    """Solve for each of the ascending prices, each from those before.

    Parameters
    ----------
    store : WholeMatrix
        The kernel matrix (n, n), where reading a number costs nothing.
    sign : NumPy array (n,)
        +1.0 or -1.0.
    share : NumPy array (n,)
        The bound of each multiplier in units of the price; 0 for a row that takes no part.
    prices : ascending floats
        The values of C.
    settings : Settings
        When to stop.
    """
    xp = store.matrix.place.xp
    level = float(xp.mean(xp.linalg.diagonal(store.matrix.x)))
    points: list[Point] = []
    traces: list[Host] = []
    for price in prices:
        problem = Problem(store, sign, price * share, settings.tol, level)
        point = None
        if points and not _meets_bound(points[-1], prices[len(points) - 1] * share):
            point = points[-1]  # a bound that no multiplier reaches can rise without effect
        elif traces:
            ahead = traces[-1] if len(traces) < 2 else traces[-1] + _AHEAD * (traces[-1] - traces[-2])
            point = _newton(problem, _sets_of(ahead))
        if point is None:
            last = points[-1].beta if points else None
            point = _decompose(problem, last, prices[len(points) - 1] * share, settings)
        points.append(point)
        traces.append(_trace(problem, point))
    return points


def _meets_bound(point: Point, bound: Host) -> bool:
    return bool((abs(point.beta) >= bound)[bound > 0].any())


def _trace(problem: Problem, point: Point) -> Host:
    """Place rows on a line: below 0 beyond the margin, 0 to 1 their share of the bound, above 1 at it."""
    bound = HOST.xp.where(problem.bound > 0, problem.bound, 1.0)
    slack = 1.0 - problem.sign * (point.product + point.offset)
    return problem.sign * point.beta / bound + slack


def _sets_of(trace: Host) -> Host:
    return HOST.xp.where(trace <= 0, _LOW, HOST.xp.where(trace >= 1, _HIGH, _FREE)).astype("int8")


def _decompose(problem: Problem, last: Host | None, old_bound: Host, settings: Settings) -> Point:
    """Solve by working sets, from the multipliers of another price."""
    place = problem.store.matrix.place
    dtype = accumulator_dtype(place)
    sign, bound = (from_host(values, place, dtype) for values in (problem.sign, problem.bound))
    stated = classification_problem(place.xp, sign, bound)
    if last is not None:
        start = rescale_start(last, old_bound, problem.sign, problem.bound)
        stated = stated._replace(start=from_host(start, place, dtype))
    found = decompose(problem.store, stated, settings)
    offset = float(find_offset(place.xp, found.beta, found.gradient, stated))
    return Point(to_host(found.beta), problem.sign - to_host(found.gradient), offset)


def _newton(problem: Problem, sets: Host) -> Point | None:
    """Correct the sets until they are right; None where that does not come to an end."""
    sign, bound = problem.sign, problem.bound
    is_part = bound > 0
    pinned: Host | None = None
    is_high: Host | None = None
    fewest, n_vain = bound.shape[0], 0
    for _ in range(_MOST_STEPS):
        free = ((sets == _FREE) & is_part).nonzero()[0]
        was_high, is_high = is_high, (sets == _HIGH) & is_part
        if free.shape[0] == 0:
            return None
        pinned = _pinned_product(problem, pinned, was_high, is_high)
        step = _solve_free(problem, free, pinned, float((sign * bound)[is_high].sum()))
        if step is None:
            return None
        beta, product, offset = step
        slack = 1.0 - sign * (product + offset)
        wrong = _wrong_sides(sets, slack, is_part)
        if wrong.max() <= problem.tol and (point := _rounded(problem, free, is_high, step)) is not None:
            return point
        share = sign[free] * beta / bound[free]
        outside = HOST.xp.maximum(-share, share - 1.0)
        n_wrong = int((wrong > 0.4 * problem.tol).sum() + (outside > 0).sum())
        if n_wrong == 0:
            return None
        n_vain = 0 if n_wrong < fewest else n_vain + 1
        fewest = min(fewest, n_wrong)
        # where changing all that is wrong leads nowhere, only the worst is changed
        least = 0.5 if n_vain > _PATIENCE else 0.0
        sets = sets.copy()
        sets[wrong > max(0.4 * problem.tol, least * float(wrong.max()))] = _FREE
        is_out = outside > max(0.0, least * float(outside.max()))
        sets[free[is_out]] = HOST.xp.where(share[is_out] < 0, _LOW, _HIGH)
    return None


def _wrong_sides(sets: Host, slack: Host, is_part: Host) -> Host:
    """Return by how much rows at a bound (n,) are on the wrong side of their margin; 0 for the others."""
    amount = HOST.xp.where(sets == _HIGH, -slack, HOST.xp.where(sets == _LOW, slack, 0.0))
    return HOST.xp.where(is_part & (amount > 0), amount, 0.0)


def _pinned_product(problem: Problem, old: Host | None, was_high: Host | None, is_high: Host) -> Host:
    """Return K times the multipliers at their bounds, from the last one where there is one."""
    full = problem.sign * problem.bound
    if old is None or was_high is None:
        rows = is_high.nonzero()[0]
        return problem.multiply(rows, full[rows])
    rows = (is_high != was_high).nonzero()[0]
    if rows.shape[0] == 0:
        return old
    return old + problem.multiply(rows, HOST.xp.where(is_high[rows], full[rows], -full[rows]))


def _solve_free(problem: Problem, free: Host, pinned: Host, total: float) -> tuple[Host, Host, float] | None:
    """Solve for the free multipliers: return them, K times all multipliers, and the offset."""
    factored = _factor(problem.store, free)
    if factored is None:
        return None
    target = (problem.sign - pinned)[free]
    ones = HOST.xp.ones(free.shape[0])
    solved = _solve(problem.store, factored, HOST.xp.stack([target, ones], axis=1))
    across = solved[:, 1].sum()
    offset = float((solved[:, 0].sum() + total) / across)
    beta = solved[:, 0] - offset * solved[:, 1]
    # the factor is of low precision: correct by what it leaves
    for n_corrections in range(_MOST_CORRECTIONS + 1):
        product = pinned + problem.multiply(free, beta)
        rest = problem.sign[free] - product[free] - offset
        excess = float(beta.sum() + total)
        if abs(rest).max() <= 0.3 * problem.tol and abs(excess) <= 1e-9 * abs(problem.bound).sum():
            return beta, product, offset
        if n_corrections < _MOST_CORRECTIONS:
            move = _solve(problem.store, factored, rest[:, None])[:, 0]
            shift = float((move.sum() + excess) / across)
            beta, offset = beta + move - shift * solved[:, 1], offset + shift
    return None


def _factor(store: WholeMatrix, free: Host) -> Array | None:
    """Factor the kernel matrix between the free rows, in the store's precision or else in the widest."""
    place = store.matrix.place
    xp = place.xp
    idx = from_host(free, place, xp.int64)
    block = store.block(idx, idx)
    m = free.shape[0]
    at = xp.arange(m, dtype=xp.int64, device=place.device) * (m + 1)
    diagonal = xp.linalg.diagonal(block)
    level = float(xp.max(diagonal))
    for dtype, ridge in ((block.dtype, 1e-6), (accumulator_dtype(place), 1e-9)):
        wide = xp.reshape(xp.astype(block, dtype, copy=False), (-1,))
        lifted = put(xp, wide, at, xp.astype(diagonal, dtype) + ridge * level)
        factor, is_definite = cholesky(xp, xp.reshape(lifted, (m, m)))
        if bool(is_definite):
            return factor
    return None


def _solve(store: WholeMatrix, factor: Array, right: Host) -> Host:
    place = store.matrix.place
    xp = place.xp
    halfway = solve_triangular(xp, factor, from_host(right, place, factor.dtype))
    solved = solve_triangular(xp, xp.matrix_transpose(factor), halfway, upper=True)
    return to_host(solved).astype("float64")


def _rounded(problem: Problem, free: Host, is_high: Host, step: tuple[Host, Host, float]) -> Point | None:
    """Clip the multipliers to their box; None where that is no solution within the tolerance."""
    xp, sign, bound = HOST.xp, problem.sign, problem.bound
    beta, product, _ = step
    limit = bound[free]
    inside = sign[free] * xp.minimum(xp.maximum(sign[free] * beta, 0.0), limit)
    if float(abs(inside - beta).sum()) * problem.level > _FAR * problem.tol:
        return None
    # the sum is repaired where there is room to either side
    room = xp.minimum(abs(inside), limit - abs(inside))
    excess = float(inside.sum() + (sign * bound)[is_high].sum())
    if not abs(excess) < 0.5 * room.sum():
        return None
    inside = inside - (excess / room.sum() if excess else 0.0) * room
    moved = (inside != beta).nonzero()[0]
    if moved.shape[0]:
        product = product + problem.multiply(free[moved], (inside - beta)[moved])
    whole = xp.where(is_high, sign * bound, 0.0)
    whole[free] = inside
    lower, upper = xp.where(sign < 0, -bound, 0.0), xp.where(sign > 0, bound, 0.0)
    gradient = sign - product
    highest = xp.where(whole < upper, gradient, -math.inf).max()
    lowest = xp.where(whole > lower, gradient, math.inf).min()
    if highest - lowest > problem.tol:
        return None
    is_free = (whole > lower) & (whole < upper)
    offset = gradient[is_free].mean() if is_free.any() else 0.5 * (highest + lowest)
    return Point(whole, product, float(offset))
