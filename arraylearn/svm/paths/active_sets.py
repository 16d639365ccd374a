r"""A two-class support vector machine for rising prices C, by Newton steps on the set of free multipliers.

Given which multipliers are 0, free, or at their bound, the free ones and the offset b solve a linear system,

.. math:: \begin{pmatrix} K_{FF} & 1 \\ 1^T & 0 \end{pmatrix} \begin{pmatrix} \beta_F \\ b \end{pmatrix} =
          \begin{pmatrix} y_F - K_{FU}\beta_U \\ -1^T \beta_U \end{pmatrix}

and its solution shows which sets were wrong (a semismooth Newton method). From the sets of the last price a
handful of steps is enough; where it is not, the working-set solver takes over.

References
----------
M. Hintermueller, K. Ito, K. Kunisch, "The primal-dual active set strategy as a semismooth Newton method",
SIAM J. Optimization 13, 2002. T. Hastie, S. Rosset, R. Tibshirani, J. Zhu, "The entire regularization path
for the support vector machine", JMLR 5, 2004.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.namespace import to_host
from arraylearn.svm.paths.moving_factor import MovingFactor, Solver
from arraylearn.svm.paths.shared_matrix import Request, Routine, SharedMatrix, run_side_by_side
from arraylearn.svm.solvers.decomposition import decompose
from arraylearn.svm.solvers.dual import Settings, classification_at, find_offset
from arraylearn.svm.tasks import rescale_start

__all__ = ["Point", "follow_paths"]


_MOST_STEPS = 40
_PATIENCE = 3  # so many steps may pass without fewer rows in wrong sets
# After so many steps with more wrong rows than this share of the free ones, the working-set solver is faster.
_TRIAL_STEPS, _HOPELESS = 3, 0.8
_MOST_CORRECTIONS = 3
_AHEAD = 0.7  # how far the sets are extrapolated along the path
# If clipping moves the multipliers by more than this many tolerances in all, the point is not checked.
_FAR = 100.0
_LOW, _FREE, _HIGH = 0, 1, 2  # the sets: multipliers at 0, free, at their bound


class Point(NamedTuple):
    """The solution for one price, on the host."""

    beta: HostArray  # (n,) signed multipliers
    product: HostArray  # (n,) K beta: the decision values of all rows, less the offset
    offset: float


class Problem(NamedTuple):
    """A two-class problem at one price."""

    store: SharedMatrix
    sign: HostArray  # (n,)
    bound: HostArray  # (n,); 0 for rows that take no part
    tol: float
    level: float  # mean diagonal of the matrix


def follow_paths(
    store: SharedMatrix,
    sign: HostArray,
    shares: Sequence[HostArray],
    prices: Sequence[float],
    settings: Settings,
) -> Iterator[list[Point]]:
    """Solve problems that differ in their bounds, side by side, for each of the ascending prices.

    Parameters
    ----------
    store : SharedMatrix
        The kernel matrix (n, n), where reading a number costs nothing.
    sign : NumPy array (n,)
        +1.0 or -1.0.
    shares : NumPy arrays (n,)
        For each problem the bound of each multiplier in units of the price; 0 for a row that takes no part.
    prices : ascending floats
        The values of C.
    settings : Settings
        When to stop.

    Yields
    ------
    list of Point
        For each price the solutions of all problems.
    """
    xp = store.matrix.place.xp
    level = float(xp.mean(xp.linalg.diagonal(store.matrix.x)))
    paths = [_Path(store, sign, share, level, settings) for share in shares]
    for price in prices:
        first = [] if paths[0].last is not None else run_side_by_side(store, [paths[0].solve(price, None)])
        # the other problems begin where the first one is
        hint = paths[0].traces[-1] if first else None
        rest = run_side_by_side(store, [path.solve(price, hint) for path in paths[len(first) :]])
        yield first + rest


class _Path:
    """One problem, solved for one price after the other."""

    def __init__(
        self, store: SharedMatrix, sign: HostArray, share: HostArray, level: float, settings: Settings
    ) -> None:
        self.store, self.sign, self.share = store, sign, share
        self.level, self.settings = level, settings
        self.factor = MovingFactor(store)
        self.pinned = _Pinned(sign * share)
        self.price = 0.0
        self.last: Point | None = None  # the solution for `price`
        self.traces: list[HostArray] = []  # of the last two solutions

    def solve(self, price: float, hint: HostArray | None) -> Routine[Point]:
        """Solve for a price; `hint` is the trace of a similar problem at this price."""
        problem = Problem(self.store, self.sign, price * self.share, self.settings.tol, self.level)
        point = None
        if self.last is not None and not _meets_bound(self.last, self.price * self.share):
            point = self.last  # no multiplier is at its bound, so a larger one changes nothing
        else:
            ahead = hint
            if len(self.traces) == 2:
                ahead = self.traces[-1] + _AHEAD * (self.traces[-1] - self.traces[-2])
            elif self.traces:
                ahead = self.traces[-1]
            if ahead is not None:
                point = yield from _newton(problem, price, self.factor, self.pinned, _sets_of(ahead))
        if point is None:
            beta = None if self.last is None else self.last.beta
            point = _decompose(problem, beta, self.price * self.share, self.settings)
        self.price, self.last = price, point
        self.traces = [*self.traces[-1:], _trace(problem, point)]
        return point


class _Pinned:
    """K times the multipliers at their bounds, for a price of 1; updated by the rows that change."""

    def __init__(self, weight: HostArray) -> None:
        self.weight = weight  # (n,): of a row at its bound
        self.is_high = np.zeros(weight.shape[0], dtype=bool)
        self.product = np.zeros(weight.shape[0])
        self.n_changed = 0

    def at(self, is_high: HostArray) -> Routine[HostArray]:
        """Return the product where these rows are at their bounds."""
        changed = (is_high != self.is_high).nonzero()[0]
        n_high = int(is_high.sum())
        self.n_changed += changed.shape[0]
        if self.n_changed > max(n_high, 1):
            # rounding must not add up, and this costs no more than the changes did
            rows = is_high.nonzero()[0]
            self.product, self.n_changed = (yield Request(rows, self.weight[rows])), 0
        elif changed.shape[0]:
            weight = np.where(is_high[changed], self.weight[changed], -self.weight[changed])
            self.product = self.product + (yield Request(changed, weight))
        self.is_high = is_high
        return self.product


def _meets_bound(point: Point, bound: HostArray) -> bool:
    return bool((abs(point.beta) >= bound)[bound > 0].any())


def _trace(problem: Problem, point: Point) -> HostArray:
    """Return a number per row: below 0 beyond the margin, 0 to 1 the share of the bound, above 1 at it."""
    bound = np.where(problem.bound > 0, problem.bound, 1.0)
    slack = 1.0 - problem.sign * (point.product + point.offset)
    return problem.sign * point.beta / bound + slack


def _sets_of(trace: HostArray) -> HostArray:
    return np.where(trace <= 0, _LOW, np.where(trace >= 1, _HIGH, _FREE)).astype("int8")


def _decompose(problem: Problem, last: HostArray | None, old_bound: HostArray, settings: Settings) -> Point:
    """Solve by working sets, from the multipliers of another price."""
    place = problem.store.matrix.place
    start = None if last is None else rescale_start(last, old_bound, problem.sign, problem.bound)
    stated = classification_at(place, problem.sign, problem.bound, start)
    found = decompose(problem.store, stated, settings)
    offset = float(find_offset(place.xp, found.beta, found.gradient, stated))
    return Point(to_host(found.beta), problem.sign - to_host(found.gradient), offset)


def _newton(
    problem: Problem, price: float, factor: MovingFactor, pins: _Pinned, sets: HostArray
) -> Routine[Point | None]:
    """Correct the sets until they are right; None if that fails, and the working-set solver is to be used."""
    sign, bound = problem.sign, problem.bound
    is_part = bound > 0
    fewest, n_vain = bound.shape[0], 0
    for n_steps in range(1, _MOST_STEPS + 1):
        free = ((sets == _FREE) & is_part).nonzero()[0]
        is_high = (sets == _HIGH) & is_part
        if free.shape[0] == 0:
            return None
        pinned = price * (yield from pins.at(is_high))
        total = float((sign * bound)[is_high].sum())
        step = yield from _solve_free(problem, free, pinned, total, factor.at(free))
        if step is None:
            factor.forget()  # a bordered factor is less exact than a new one
            step = yield from _solve_free(problem, free, pinned, total, factor.at(free))
        if step is None:
            return None
        beta, product, offset = step
        slack = 1.0 - sign * (product + offset)
        wrong = _wrong_sides(sets, slack, is_part)
        if wrong.max() <= problem.tol:
            point = yield from _rounded(problem, free, is_high, step)
            if point is not None:
                return point
        share = sign[free] * beta / bound[free]
        outside = np.maximum(-share, share - 1.0)
        n_wrong = int((wrong > 0.4 * problem.tol).sum() + (outside > 0).sum())
        if n_wrong == 0:
            return None
        if n_steps >= _TRIAL_STEPS and n_wrong > _HOPELESS * free.shape[0]:
            return None
        n_vain = 0 if n_wrong < fewest else n_vain + 1
        fewest = min(fewest, n_wrong)
        # if changing all wrong rows makes no progress, only the worst are changed
        least = 0.5 if n_vain > _PATIENCE else 0.0
        sets = sets.copy()
        sets[wrong > max(0.4 * problem.tol, least * float(wrong.max()))] = _FREE
        is_out = outside > max(0.0, least * float(outside.max()))
        sets[free[is_out]] = np.where(share[is_out] < 0, _LOW, _HIGH)
    return None


def _wrong_sides(sets: HostArray, slack: HostArray, is_part: HostArray) -> HostArray:
    """Return by how much rows at a bound (n,) are on the wrong side of their margin; 0 for the others."""
    amount = np.where(sets == _HIGH, -slack, np.where(sets == _LOW, slack, 0.0))
    return np.where(is_part & (amount > 0), amount, 0.0)


def _solve_free(
    problem: Problem, free: HostArray, pinned: HostArray, total: float, system: Solver | None
) -> Routine[tuple[HostArray, HostArray, float] | None]:
    """Solve for the free multipliers: return them, K times all multipliers, and the offset."""
    if system is None:
        return None
    target = (problem.sign - pinned)[free]
    ones = np.ones(free.shape[0])
    solved = system.solve(np.stack([target, ones], axis=1))
    across = solved[:, 1].sum()
    offset = float((solved[:, 0].sum() + total) / across)
    beta = solved[:, 0] - offset * solved[:, 1]
    # iterative refinement, because the factor is of low precision
    for n_corrections in range(_MOST_CORRECTIONS + 1):
        product = pinned + (yield Request(free, beta))
        rest = problem.sign[free] - product[free] - offset
        excess = float(beta.sum() + total)
        if abs(rest).max() <= 0.3 * problem.tol and abs(excess) <= 1e-9 * abs(problem.bound).sum():
            return beta, product, offset
        if n_corrections < _MOST_CORRECTIONS:
            move = system.solve(rest[:, None])[:, 0]
            shift = float((move.sum() + excess) / across)
            beta, offset = beta + move - shift * solved[:, 1], offset + shift
    return None


def _rounded(
    problem: Problem, free: HostArray, is_high: HostArray, step: tuple[HostArray, HostArray, float]
) -> Routine[Point | None]:
    """Clip the multipliers to their box; None if that is no solution within the tolerance."""
    sign, bound = problem.sign, problem.bound
    beta, product, _ = step
    limit = bound[free]
    inside = sign[free] * np.minimum(np.maximum(sign[free] * beta, 0.0), limit)
    if float(abs(inside - beta).sum()) * problem.level > _FAR * problem.tol:
        return None
    # the sum is restored by multipliers that are far from both ends of their interval
    spare = np.minimum(abs(inside), limit - abs(inside))
    excess = float(inside.sum() + (sign * bound)[is_high].sum())
    if not abs(excess) < 0.5 * spare.sum():
        return None
    inside = inside - (excess / spare.sum() if excess else 0.0) * spare
    moved = (inside != beta).nonzero()[0]
    if moved.shape[0]:
        product = product + (yield Request(free[moved], (inside - beta)[moved]))
    multipliers = np.where(is_high, sign * bound, 0.0)
    multipliers[free] = inside
    lower, upper = np.where(sign < 0, -bound, 0.0), np.where(sign > 0, bound, 0.0)
    gradient = sign - product
    highest = np.where(multipliers < upper, gradient, -math.inf).max()
    lowest = np.where(multipliers > lower, gradient, math.inf).min()
    if highest - lowest > problem.tol:
        return None
    is_free = (multipliers > lower) & (multipliers < upper)
    offset = gradient[is_free].mean() if is_free.any() else 0.5 * (highest + lowest)
    return Point(multipliers, product, float(offset))
