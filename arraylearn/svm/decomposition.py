"""Working-set decomposition: a large dual problem, solved a few hundred rows at a time.

Each outer step takes the rows that violate optimality most, keeps part of the last working set, fetches
their kernel rows, improves the small problem (`backend.ops.quadratic.solve_box_block`), and brings the
gradient of all rows up to date. The host reads one packed array per step: it decides which rows come next.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from arraylearn._typing import Array
from arraylearn.backend.arrays.gather import put
from arraylearn.backend.arrays.order import top_k
from arraylearn.backend.namespace import accumulator_dtype, from_host, to_host
from arraylearn.backend.ops.quadratic import solve_box_block
from arraylearn.svm.dual import DualProblem, DualSolution, extremes, objective, refuse_nan
from arraylearn.svm.progress import Progress
from arraylearn.svm.rows import KernelMatrix, KernelRows
from arraylearn.svm.settings import Settings

__all__ = ["decompose", "make_rows"]

_LEAST_SET = 384  # rows in a working set
_MOST_SET = 768
_PAIRS_PER_ROW = 1.5  # pair steps per row of the working set before a Newton step
_LIMIT_SET = 4096  # where progress is slow and many rows are free
_PATIENCE = 50  # outer steps without any progress after which rounding is to blame
_STALLED = 1e-3  # share of the gap that the inner problem is solved to, once it stopped moving


class _Reading(NamedTuple):
    """What the host reads in one outer step."""

    highest: float
    lowest: float
    n_free: int
    n_steps: int
    rising: list[int]  # rows that may rise, most violating first
    falling: list[int]
    old_is_free: list[bool]  # of the last working set
    change: float  # largest move of the last inner solve
    objective: float


def decompose(rows: KernelRows, problem: DualProblem, settings: Settings) -> DualSolution:
    """Solve one dual problem; the start's kernel products are computed if it is not zero."""
    return _Decomposition(rows, problem, settings).run()


class _Decomposition:
    """One solve: the state on the device, and the few numbers the host knows of it."""

    def __init__(self, rows: KernelRows, problem: DualProblem, settings: Settings) -> None:
        self.rows, self.problem, self.settings = rows, problem, settings
        self.place = rows.matrix.place
        self.xp = self.place.xp
        self.beta = problem.start
        self.gradient = self._exact_gradient()
        self.set_idx: Array = self._index([])
        self.set_rows: list[int] = []
        self.block: Array = None
        self.change: Array = self.xp.sum(self.beta[:0])
        self.n_steps: Array = self.xp.sum(self.set_idx)
        self.size = min(_LEAST_SET, rows.n_slots)
        self.most = _MOST_SET
        self.share = 0.2  # of the gap: how far the inner problem is solved
        self.gaps: list[float] = []
        self.progress = Progress(_PATIENCE)
        self.grown_at = 0
        self.n_refreshed = 0

    def run(self) -> DualSolution:
        while True:
            reading = self._read()
            gap = reading.highest - reading.lowest
            if self.settings.report is not None:
                self.settings.report(reading.n_steps, gap)
            is_stalled = self.progress.is_stalled(gap, reading.objective)
            if not gap > self.settings.tol and not is_stalled:
                exact = self._check()
                if not exact > self.settings.tol:
                    return self._solution(reading, exact, is_stalled=False)
                continue
            is_over = reading.n_steps >= self.settings.step_limit(self.beta.shape[0])
            is_stalled = is_stalled or (not is_over and self._is_stuck(reading))
            if is_stalled and not is_over and self._sharpen():
                continue
            if is_over or is_stalled:
                self._refresh()
                highest, lowest = extremes(self.xp, self.beta, self.gradient, self.problem)
                return self._solution(reading, float(highest - lowest), is_stalled=is_stalled)
            self._adapt(reading, gap)
            self._step(self._choose(reading, gap), gap)

    def _solution(self, reading: _Reading, gap: float, *, is_stalled: bool) -> DualSolution:
        is_converged = gap <= self.settings.tol
        is_stalled = is_stalled and not is_converged
        return DualSolution(self.beta, self.gradient, gap, reading.n_steps, is_converged, is_stalled)

    # ---- what the host learns

    def _read(self) -> _Reading:
        """Read the state of the solve: the one wait of an outer step."""
        xp, problem = self.xp, self.problem
        may_rise, may_fall = self.beta < problem.upper, self.beta > problem.lower
        k = min(max(2, self.size // 2), self.beta.shape[0])
        high, rising = top_k(xp, xp.where(may_rise, self.gradient, -math.inf), k)
        low, falling = top_k(xp, xp.where(may_fall, -self.gradient, -math.inf), k)
        is_free = may_rise & may_fall
        dtype = self.gradient.dtype
        n_free = xp.sum(xp.astype(is_free, dtype))
        spoilt = 0.0 * xp.sum(self.gradient)  # NaN where a kernel value was not finite
        value = objective(xp, self.beta, self.gradient, problem)
        change = xp.astype(self.change, dtype) + spoilt
        head = xp.stack([n_free, xp.astype(self.n_steps, dtype), change, value])
        old_is_free = xp.astype(xp.take(is_free, self.set_idx, axis=0), dtype)
        ids = (xp.astype(rising, dtype), xp.astype(falling, dtype))
        packed = to_host(xp.concat([head, high, low, *ids, old_is_free])).tolist()
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

    def _is_stuck(self, reading: _Reading) -> bool:
        """Whether the inner solver no longer moves, even when asked to be exact."""
        if not self.set_rows or reading.change > 0:
            return False
        if self.share > _STALLED:
            self.share = _STALLED
            return False
        refuse_nan(0.0 * float(self.xp.sum(self.block)))
        return True

    # ---- the next working set

    def _adapt(self, reading: _Reading, gap: float) -> None:
        """Let the working set hold the free rows, and more where progress is slow."""
        self.gaps.append(gap)
        n_outer = len(self.gaps)
        is_slow = n_outer >= 9 and gap > 0.5 * min(self.gaps[-9:-4])
        if is_slow and n_outer - self.grown_at >= 8 and 1.3 * reading.n_free > self.size:
            self.most, self.grown_at = min(_LIMIT_SET, 2 * self.most), n_outer
        wanted = max(_LEAST_SET, min(self.most, int(1.3 * reading.n_free)))
        self.size = min(wanted, self.rows.n_slots, self.beta.shape[0])

    def _choose(self, reading: _Reading, gap: float) -> list[int]:
        """Take the worst violators of either side, then the free rows of the last set, then its others."""
        n_each = max(1, self.size // (4 if self.set_rows else 2))
        chosen = dict.fromkeys(reading.rising[:n_each] + reading.falling[:n_each])
        for wanted in (True, False):
            for row, is_free in zip(self.set_rows, reading.old_is_free, strict=True):
                if len(chosen) >= self.size:
                    break
                if is_free is wanted:
                    chosen[row] = None
        return list(chosen)

    # ---- moves

    def _step(self, chosen: list[int], gap: float) -> None:
        xp, problem = self.xp, self.problem
        self.set_rows, self.set_idx = chosen, self._index(chosen)
        slots = self.rows.fetch(chosen)
        self.block = block = self.rows.block(slots, self.set_idx)
        before, gradient, lower, upper = (
            xp.take(values, self.set_idx, axis=0)[None, :]
            for values in (self.beta, self.gradient, problem.lower, problem.upper)
        )
        tol = max(0.5 * self.settings.tol, self.share * gap)
        after, n_steps = solve_box_block(
            xp,
            block[None, :, :],
            gradient,
            before,
            lower,
            upper,
            tol=tol,
            max_steps=int(_PAIRS_PER_ROW * len(chosen)),
        )
        move = (after - before)[0, :]
        self.beta = put(xp, self.beta, self.set_idx, after[0, :])
        self.gradient = self.gradient - self.rows.combine(slots, move)
        self.change = xp.max(xp.abs(move))
        self.n_steps = self.n_steps + n_steps[0]

    # ---- exactness

    def _check(self) -> float:
        """Return the gap from float64 gradients of the rows that decide it; where they disagree, of all."""
        xp = self.xp
        support = self._support()
        idx = self._index(list(dict.fromkeys(self._nearest(64))))
        exact = xp.take(self.problem.linear, idx, axis=0) - self.rows.exact_product(
            idx, support, xp.take(self.beta, support, axis=0)
        )
        error = float(xp.max(xp.abs(exact - xp.take(self.gradient, idx, axis=0))))
        if error <= 0.05 * self.settings.tol:
            self.gradient = put(xp, self.gradient, idx, exact)
        else:
            self._refresh()
        highest, lowest = extremes(xp, self.beta, self.gradient, self.problem)
        return float(highest - lowest)

    def _nearest(self, k: int) -> list[int]:
        """Rows of either side whose gradients are nearest to deciding the gap."""
        xp = self.xp
        k = min(k, self.beta.shape[0])
        _, rising = top_k(xp, xp.where(self.beta < self.problem.upper, self.gradient, -math.inf), k)
        _, falling = top_k(xp, xp.where(self.beta > self.problem.lower, -self.gradient, -math.inf), k)
        found: list[int] = to_host(xp.concat([rising, falling])).tolist()
        return found

    def _refresh(self) -> None:
        """Compute the gradient anew in float64; where float32 rows keep failing, keep float64 ones."""
        self.gradient = self._exact_gradient()
        self.n_refreshed += 1
        if self.n_refreshed == 2:
            self.rows = self.rows.widened()

    def _sharpen(self) -> bool:
        """Go on with float64 rows where float32 ones have come to their end; False where they are that."""
        if self.rows.dtype == accumulator_dtype(self.place):
            return False
        self.gradient = self._exact_gradient()
        self.rows = self.rows.widened()
        self.size = min(self.size, self.rows.n_slots)
        self.progress, self.set_rows, self.set_idx = Progress(_PATIENCE), [], self._index([])
        return True

    def _exact_gradient(self) -> Array:
        support = self._support()
        if support.shape[0] == 0:
            return self.problem.linear
        weights = self.xp.take(self.beta, support, axis=0)
        return self.problem.linear - self.rows.exact_product(None, support, weights)

    def _support(self) -> Array:
        """Read which rows have a multiplier."""
        return self._index(to_host(self.beta).nonzero()[0])

    def _index(self, positions: Any) -> Array:
        return from_host(positions, self.place, self.xp.int64)


def make_rows(matrix: KernelMatrix, bound: float, settings: Settings) -> KernelRows:
    """Make the store of rows: float32 where the multipliers are small enough for its rounding."""
    xp = matrix.place.xp
    wide = accumulator_dtype(matrix.place)
    dtype = wide if not bound < 1000 else xp.float32
    row_bytes = matrix.n * (4 if dtype == xp.float32 else 8)
    return KernelRows(matrix, dtype, max(2, settings.cache_bytes // row_bytes))
