"""Working-set decomposition: a large dual problem, solved a few hundred rows at a time.

Each outer step

1. chooses the rows that violate optimality most, and part of the last working set;
2. fetches their kernel rows, computed or cached;
3. improves the small problem between them (`arraylearn.svm.solvers.pairs.solve_block`);
4. updates the gradient of all rows.

The host reads one packed array per outer step, from which it chooses the next working set.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from arraylearn._typing import Array
from arraylearn.backend.arrays.gather import put, top_k
from arraylearn.backend.namespace import accumulator_dtype, to_host
from arraylearn.backend.threads import small_products
from arraylearn.svm.solvers.dual import (
    DualProblem,
    DualSolution,
    KernelRows,
    Settings,
    StallRule,
    extremes,
    objective,
    refuse_nan,
)
from arraylearn.svm.solvers.pairs import Block, solve_block

__all__ = ["decompose"]

_LEAST_SET = 384  # fewest rows in a working set
_MOST_SET = 768  # most rows in a working set at first
_LIMIT_SET = 4096  # most rows where convergence is slow and many rows are free
_PAIRS_PER_ROW = 1.5  # pair steps per row of the working set before a Newton step
_INNER_SHARE = 0.2  # the inner problem is solved to this share of the gap,
_EXACT_SHARE = 1e-3  # or to this one after an inner solve that changed nothing
_PATIENCE = 50  # outer steps without an improvement after which the solve counts as stalled by rounding


class _Reading(NamedTuple):
    """What the host reads in one outer step."""

    highest: float  # largest gradient of multipliers that may rise
    lowest: float  # smallest gradient of multipliers that may fall
    n_free: int  # multipliers strictly inside their box
    n_steps: int  # pair steps so far
    rising: list[int]  # rows that may rise and violate optimality, the worst first
    falling: list[int]  # rows that may fall and violate optimality, the worst first
    old_is_free: list[bool]  # whether each row of the last working set is free
    change: float  # largest move of the last inner solve
    objective: float


def decompose(rows: KernelRows, problem: DualProblem, settings: Settings) -> DualSolution:
    """Solve one dual problem; a start other than zero costs its kernel products."""
    with small_products(rows.matrix.place.xp):  # kernels use threads of their own
        return _Decomposition(rows, problem, settings).run()


class _Decomposition:
    """One solve: the point and its gradient on the device, the working set on the host."""

    def __init__(self, rows: KernelRows, problem: DualProblem, settings: Settings) -> None:
        self.rows, self.problem, self.settings = rows, problem, settings
        self.place = rows.matrix.place
        self.xp = self.place.xp
        self.beta = problem.start
        self.gradient = self._exact_gradient(self._support())
        self.is_exact = True  # whether the gradient was computed anew since the last step
        self.set_idx: Array = self.rows.matrix.positions([])
        self.set_rows: list[int] = []
        self.block: Array = None  # kernel matrix of the last working set
        self.change: Array = self.xp.sum(self.beta[:0])  # 0-d: largest move of the last inner solve
        self.n_steps: Array = self.xp.sum(self.set_idx)  # 0-d: pair steps so far
        self.size = min(_LEAST_SET, rows.n_kept)  # of the next working set
        self.most = _MOST_SET  # limit of the size
        self.share = _INNER_SHARE  # of the gap, to which the inner problem is solved
        self.gaps: list[float] = []  # after each outer step
        self.stall_rule = StallRule(_PATIENCE)
        self.grown_at = 0  # outer step at which the limit of the size was last raised
        self.n_refreshed = 0  # how often the gradient was computed anew

    def run(self) -> DualSolution:
        """Take outer steps until the tolerance, the limit of steps or the precision is reached."""
        while True:
            reading = self._read()
            gap = reading.highest - reading.lowest
            if self.settings.report is not None:
                self.settings.report(reading.n_steps, gap)
            is_stalled = self.stall_rule.is_stalled(gap, reading.objective)
            if not gap > self.settings.tol and not is_stalled:
                exact = gap if self.is_exact else self._check()
                if not exact > self.settings.tol:
                    return self._solution(reading, exact, is_stalled=False)
                continue
            left = self.settings.step_limit(self.beta.shape[0]) - reading.n_steps
            is_over = left <= 0
            is_stalled = is_stalled or (not is_over and self._is_stuck(reading))
            if is_stalled and not is_over and self._sharpen():
                continue
            if is_over or is_stalled:
                self._refresh(self._support())
                highest, lowest = extremes(self.xp, self.beta, self.gradient, self.problem)
                return self._solution(reading, float(highest - lowest), is_stalled=is_stalled)
            self._adapt(reading, gap)
            self._step(self._choose(reading), gap, left)

    def _solution(self, reading: _Reading, gap: float, *, is_stalled: bool) -> DualSolution:
        """Return the current point as the result."""
        is_converged = gap <= self.settings.tol
        is_stalled = is_stalled and not is_converged
        return DualSolution(self.beta, self.gradient, gap, reading.n_steps, is_converged, is_stalled)

    # ---- reading the state

    def _read(self) -> _Reading:
        """Read the state of the solve: the one sync of an outer step."""
        xp, problem = self.xp, self.problem
        k = min(max(2, self.size // 2), self.beta.shape[0])
        slopes, ids = self._steepest(k)
        is_free = (self.beta < problem.upper) & (self.beta > problem.lower)
        dtype = self.gradient.dtype
        n_free = xp.sum(xp.astype(is_free, dtype))
        nan_flag = 0.0 * xp.sum(self.gradient)  # NaN if a kernel value was not finite, else 0
        value = objective(xp, self.beta, self.gradient, problem)
        change = xp.astype(self.change, dtype) + nan_flag
        head = xp.stack([n_free, xp.astype(self.n_steps, dtype), change, value])
        old_is_free = xp.astype(xp.take(is_free, self.set_idx, axis=0), dtype)
        packed = to_host(xp.concat([head, slopes, xp.astype(ids, dtype), old_is_free])).tolist()
        refuse_nan(packed[2])
        high, low, rising_ids, falling_ids = (packed[4 + i * k : 4 + (i + 1) * k] for i in range(4))
        margin = 0.5 * self.settings.tol
        return _Reading(
            highest=high[0],
            lowest=-low[0],
            n_free=int(packed[0]),
            n_steps=int(packed[1]),
            rising=[int(row) for row, value in zip(rising_ids, high, strict=True) if value > margin - low[0]],
            falling=[
                int(row) for row, value in zip(falling_ids, low, strict=True) if value > margin - high[0]
            ],
            old_is_free=[flag > 0 for flag in packed[4 + 4 * k :]],
            change=packed[2],
            objective=packed[3],
        )

    def _steepest(self, k: int) -> tuple[Array, Array]:
        """Return the steepest slopes (2 k,) of rows that may rise, then of rows that may fall, and the rows.

        The slope is the gradient of a row that may rise, and minus the gradient of one that may fall.
        """
        xp, problem = self.xp, self.problem
        rising = xp.where(self.beta < problem.upper, self.gradient, -math.inf)
        falling = xp.where(self.beta > problem.lower, -self.gradient, -math.inf)
        slopes, ids = top_k(xp, xp.stack([rising, falling]), k)
        return xp.reshape(slopes, (-1,)), xp.reshape(ids, (-1,))

    def _is_stuck(self, reading: _Reading) -> bool:
        """Whether the inner solver no longer changes the point, even at its smallest tolerance."""
        if not self.set_rows or reading.change > 0:
            return False
        if self.share > _EXACT_SHARE:
            self.share = _EXACT_SHARE
            return False
        refuse_nan(0.0 * float(self.xp.sum(self.block)))
        return True

    # ---- the next working set

    def _adapt(self, reading: _Reading, gap: float) -> None:
        """Fit the size of the working set to the number of free rows; raise its limit if progress is slow."""
        self.gaps.append(gap)
        n_outer = len(self.gaps)
        is_slow = n_outer >= 9 and gap > 0.5 * min(self.gaps[-9:-4])
        if is_slow and n_outer - self.grown_at >= 8 and 1.3 * reading.n_free > self.size:
            self.most, self.grown_at = min(_LIMIT_SET, 2 * self.most), n_outer
        wanted = max(_LEAST_SET, min(self.most, int(1.3 * reading.n_free)))
        self.size = min(wanted, self.rows.n_kept, self.beta.shape[0])

    def _choose(self, reading: _Reading) -> list[int]:
        """Choose the worst violators of either side, then free rows of the last set, then its others."""
        n_each = max(1, self.size // (4 if self.set_rows else 2))
        chosen = dict.fromkeys(reading.rising[:n_each] + reading.falling[:n_each])
        for wanted in (True, False):
            for row, is_free in zip(self.set_rows, reading.old_is_free, strict=True):
                if len(chosen) >= self.size:
                    break
                if is_free is wanted:
                    chosen[row] = None
        return list(chosen)

    # ---- the step

    def _step(self, chosen: list[int], gap: float, limit: int) -> None:
        """Solve the problem between the chosen rows, and update the point and the gradient of all rows."""
        xp, problem = self.xp, self.problem
        self.set_rows = chosen
        self.set_idx, kept = self.rows.fetch(chosen)
        self.block = block = self.rows.block(kept, self.set_idx)
        before, gradient, lower, upper = (
            xp.take(values, self.set_idx, axis=0)[None, :]
            for values in (self.beta, self.gradient, problem.lower, problem.upper)
        )
        tol = max(0.5 * self.settings.tol, self.share * gap)
        after, n_steps = solve_block(
            xp,
            Block(block[None, :, :], lower, upper),
            gradient,
            before,
            tol=tol,
            max_steps=int(_PAIRS_PER_ROW * len(chosen)),
            limit=limit,
        )
        move = (after - before)[0, :]
        self.beta = put(xp, self.beta, self.set_idx, after[0, :])
        self.gradient = self.gradient - self.rows.combine(kept, move)
        self.is_exact = False
        self.change = xp.max(xp.abs(move))
        self.n_steps = self.n_steps + n_steps[0]

    # ---- exactness

    def _check(self) -> float:
        """Return the gap, with float64 gradients of the rows that decide it: two syncs.

        Where these differ too much from the gradients so far, all are computed anew: the gap is then infinite
        until it is read again.
        """
        xp = self.xp
        nearest, support = self._nearest_and_support(64)
        exact = xp.take(self.problem.linear, nearest, axis=0) - self.rows.exact_product(
            nearest, support, xp.take(self.beta, support, axis=0)
        )
        error = xp.max(xp.abs(exact - xp.take(self.gradient, nearest, axis=0)))
        gradient = put(xp, self.gradient, nearest, exact)
        found = xp.stack((error, *extremes(xp, self.beta, gradient, self.problem)))
        largest_error, highest, lowest = to_host(found).tolist()
        if largest_error > 0.05 * self.settings.tol:
            self._refresh(support)
            return math.inf
        self.gradient = gradient
        return float(highest - lowest)

    def _nearest_and_support(self, k: int) -> tuple[Array, Array]:
        """Return the k rows of either side with the most extreme gradients, and the support: one sync."""
        xp, dtype = self.xp, self.beta.dtype
        k = min(k, self.beta.shape[0])
        _, ids = self._steepest(k)
        read = to_host(xp.concat((xp.astype(ids, dtype), self.beta)))
        nearest = dict.fromkeys(int(row) for row in read[: 2 * k].tolist())
        return self.rows.matrix.positions(list(nearest)), self.rows.matrix.positions(
            read[2 * k :].nonzero()[0]
        )

    def _refresh(self, support: Array) -> None:
        """Compute the gradient anew in float64; the second time, change to float64 kernel rows too."""
        self.gradient = self._exact_gradient(support)
        self.is_exact = True
        self.n_refreshed += 1
        if self.n_refreshed == 2:
            self.rows = self.rows.widened()

    def _sharpen(self) -> bool:
        """Change from float32 to float64 kernel rows; return False if they are float64 already."""
        if self.rows.dtype == accumulator_dtype(self.place):
            return False
        self.gradient = self._exact_gradient(self._support())
        self.is_exact = True
        self.rows = self.rows.widened()
        self.size = min(self.size, self.rows.n_kept)
        self.stall_rule, self.set_rows, self.set_idx = (
            StallRule(_PATIENCE),
            [],
            self.rows.matrix.positions([]),
        )
        return True

    def _exact_gradient(self, support: Array) -> Array:
        """Return the gradient of all rows, computed anew in the accumulator's dtype."""
        if support.shape[0] == 0:
            return self.problem.linear
        weights = self.xp.take(self.beta, support, axis=0)
        return self.problem.linear - self.rows.exact_product(None, support, weights)

    def _support(self) -> Array:
        """Return the rows whose multiplier is not 0: one sync."""
        return self.rows.matrix.positions(to_host(self.beta).nonzero()[0])
