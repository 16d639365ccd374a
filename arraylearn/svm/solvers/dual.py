r"""The records that all solvers share: a kernel matrix, the dual problem on it, settings, a solution.

All support vector machines here are one problem, a concave quadratic over a box with one equality, written in
signed multipliers:

.. math:: \max_\beta\; p^T\beta - \tfrac12 \beta^T K \beta
          \quad\text{with}\quad l_i \le \beta_i \le u_i,\; \textstyle\sum_i \beta_i = s

- classification: :math:`\beta_i = y_i\alpha_i`, :math:`p = y`, :math:`s = 0`, box :math:`[0, C_i]` or
  :math:`[-C_i, 0]` by the sign of :math:`y_i`;
- one class, nu form: :math:`p = 0`, box :math:`[0, 1]`, :math:`s = \nu n`;
- data description: :math:`p = \tfrac12\operatorname{diag}K`, box :math:`[0, C]`, :math:`s = 1`.

The kernel matrix K need not fit in memory: blocks of it are computed on request, and rows of it are cached.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import array_api_compat

from arraylearn._typing import Array, Dtype, HostArray, Namespace
from arraylearn.backend.arrays.gather import combine_rows, gather_block
from arraylearn.backend.memory import row_chunks, scratch
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host
from arraylearn.backend.threads import small_products
from arraylearn.kernels.objects import Kernel, Linear, Precomputed

__all__ = [
    "NO_LIMIT",
    "DualProblem",
    "DualSolution",
    "KernelMatrix",
    "KernelRows",
    "Settings",
    "SolverName",
    "StallRule",
    "classification_at",
    "extremes",
    "find_offset",
    "make_rows",
    "objective",
    "product",
    "refuse_nan",
]

SolverName = Literal["auto", "decomposition", "newton", "dense"]

_ROWS_AT_ONCE = 256  # kernel rows that are computed in one call
_CELLS_AT_ONCE = 500_000  # kernel values that a product computes in one call
_LARGE_BOUND = 1000.0  # from this bound on, kernel rows are kept in float64
_EMPTY = -1  # in place of a row's position: the buffer holds no row there
_BETTER = 0.9  # a gap below this share of the best one so far is an improvement
# A relative growth of the objective by more than this is an improvement. It is measured from the last
# improvement on, because rounding alone can also raise the objective.
_GROWTH = 1e-10


# ---- the problem and its solution


class DualProblem(NamedTuple):
    """A dual problem with a feasible point, in the accumulator's dtype."""

    linear: Array  # (..., n): p
    lower: Array  # (..., n): l
    upper: Array  # (..., n): u
    start: Array  # (..., n): sums to s, exactly on a bound where it touches one


class DualSolution(NamedTuple):
    """The point at which a solver stopped, and why it did."""

    beta: Array  # (..., n): exactly on a bound where it touches one
    gradient: Array  # (..., n): p - K beta
    gap: float  # largest violation of the optimality conditions, from a float64 gradient
    n_iter: int  # steps
    is_converged: bool  # whether the gap is within the tolerance
    is_stalled: bool = False  # whether rounding kept the gap above the tolerance


def classification_at(
    place: Place, sign: HostArray, bound: HostArray, start: HostArray | None = None
) -> DualProblem:
    """State soft-margin classification from arrays of the host.

    Parameters
    ----------
    place : Place
        Where to compute.
    sign : NumPy array (..., n)
        +1 or -1 for each row; 0 for a row that is left out.
    bound : NumPy array (..., n)
        The finite C of each row.
    start : NumPy array (..., n), optional
        A feasible point; default: 0.
    """
    xp, dtype = place.xp, accumulator_dtype(place)
    signs, bounds = (from_host(values, place, dtype) for values in (sign, bound))
    zero = xp.zeros_like(signs)
    lower, upper = xp.where(signs < 0, -bounds, zero), xp.where(signs > 0, bounds, zero)
    return DualProblem(signs, lower, upper, zero if start is None else from_host(start, place, dtype))


def extremes(xp: Namespace, beta: Array, gradient: Array, problem: DualProblem) -> tuple[Array, Array]:
    """Return the largest gradient of multipliers that may rise and the smallest of those that may fall.

    Their difference is LIBSVM's stopping quantity: a point is optimal exactly when it is not positive.
    """
    highest = xp.max(xp.where(beta < problem.upper, gradient, -math.inf), axis=-1)
    lowest = xp.min(xp.where(beta > problem.lower, gradient, math.inf), axis=-1)
    return highest, lowest


def objective(xp: Namespace, beta: Array, gradient: Array, problem: DualProblem) -> Array:
    r"""Return :math:`p^T\beta - \tfrac12\beta^T K\beta`, from the gradient :math:`p - K\beta`."""
    return 0.5 * xp.sum(beta * (problem.linear + gradient), axis=-1)


def find_offset(xp: Namespace, beta: Array, gradient: Array, problem: DualProblem) -> Array:
    """Return the multiplier of the equality, as LIBSVM does.

    The mean gradient of the free rows; where none is free, the middle of the interval between the extremes.
    """
    is_free = (beta > problem.lower) & (beta < problem.upper)
    n_free = xp.sum(xp.astype(is_free, beta.dtype), axis=-1)
    mean = xp.sum(xp.where(is_free, gradient, 0.0), axis=-1) / xp.where(n_free > 0, n_free, 1.0)
    highest, lowest = extremes(xp, beta, gradient, problem)
    # one side is empty where no multiplier may rise, or none may fall: then the other side is the offset
    highest, lowest = (
        xp.where(xp.isfinite(highest), highest, lowest),
        xp.where(xp.isfinite(lowest), lowest, highest),
    )
    return xp.where(n_free > 0, mean, 0.5 * (highest + lowest))


def refuse_nan(*numbers: float) -> None:
    """Raise if one of the numbers is NaN, which is what kernel values that are not finite lead to."""
    if any(math.isnan(number) for number in numbers):
        raise ValueError(
            "the kernel gave NaN or infinity for some pair of training rows. Scale the columns of `X`, or "
            "check the kernel's parameters."
        )


# ---- when to stop

# `Settings.max_iter`, and `max_iter` of the estimators.
NO_LIMIT = -1


class Settings(NamedTuple):
    """Stopping rule, memory, progress callback and choice of solver."""

    tol: float = 1e-3  # largest violation of the optimality conditions
    max_iter: int = NO_LIMIT  # steps (of pairs, or of Newton)
    cache_bytes: int = 200 << 20  # memory for kernel values
    report: Callable[[int, float], None] | None = None  # called with the steps so far and the gap
    solver: SolverName = "auto"  # which solver is asked for, see `arraylearn.svm.solvers.stages`

    @property
    def is_limited(self) -> bool:
        """Whether the caller has set a limit of steps."""
        return self.max_iter != NO_LIMIT

    def step_limit(self, n: int) -> int:
        """Return how many pair steps n rows may take; LIBSVM's limit where the caller has set none."""
        return self.max_iter if self.is_limited else max(10_000_000, 100 * n)

    def at_most(self, n_steps: int) -> Settings:
        """Return these settings with a limit of `n_steps`, or the caller's if that is lower."""
        return self._replace(max_iter=min(n_steps, self.max_iter) if self.is_limited else n_steps)

    def after(self, n_steps: int) -> Settings:
        """Return these settings with the limit that is left after `n_steps`."""
        return self._replace(max_iter=max(self.max_iter - n_steps, 0)) if self.is_limited else self


class StallRule:
    """Decides from the gaps and objectives of one solve whether rounding is all that still changes them.

    A gap rises and falls during a solve, and far from the optimum only the objective improves. A solve is
    therefore stalled when neither has improved in `patience` observations in a row.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._gap = float("inf")
        self._objective: float | None = None
        self._n_vain = 0

    def is_stalled(self, gap: float, objective: float) -> bool:
        """Record one observation; return whether the solve has stalled."""
        before = objective if self._objective is None else self._objective
        is_better = gap < _BETTER * self._gap or objective > before + _GROWTH * abs(before)
        if is_better:
            self._gap = min(self._gap, gap)
        if is_better or self._objective is None:
            self._objective = max(before, objective)
        self._n_vain = 0 if is_better else self._n_vain + 1
        return self._n_vain >= self._patience


# ---- the kernel matrix


class KernelMatrix(NamedTuple):
    """The kernel matrix (n, n) between n rows, of which blocks are computed on request."""

    place: Place  # where it is computed
    x: Array  # (n, d) rows; for the kernel `Precomputed` the matrix (n, n) itself
    kernel: Kernel

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.x.shape[0])

    @property
    def is_linear(self) -> bool:
        """Whether the kernel is the inner product, so that a solver may work in the columns."""
        return isinstance(self.kernel, Linear)

    @property
    def is_precomputed(self) -> bool:
        """Whether `x` is the matrix."""
        return isinstance(self.kernel, Precomputed)

    def all_rows(self) -> Array:
        """Return the positions (n,) of all rows."""
        return self.place.xp.arange(self.n, dtype=self.place.xp.int64, device=self.place.device)

    def positions(self, rows: HostArray | list[int]) -> Array:
        """Return positions of rows, a list or an array of the host, as an array at the place."""
        return from_host(rows, self.place, self.place.xp.int64)

    def of_dtype(self, dtype: Dtype) -> KernelMatrix:
        """Return the same matrix, computed in another float dtype."""
        return self._replace(x=self.place.xp.astype(self.x, dtype, copy=False))

    def subset(self, idx: Array) -> KernelMatrix:
        """Return the matrix between some of the rows."""
        rows = self.place.xp.take(self.x, idx, axis=0)
        return self._replace(x=self.place.xp.take(rows, idx, axis=1) if self.is_precomputed else rows)

    def rows(self, idx: Array) -> Array:
        """Return complete rows (m, n)."""
        some = self.place.xp.take(self.x, idx, axis=0)
        return some if self.is_precomputed else self.kernel.gram(self.place.xp, some, self.x)

    def between(self, some: slice, others: slice) -> Array:
        """Return the matrix between two ranges of rows."""
        if self.is_precomputed:
            return self.x[some, others]
        return self.kernel.gram(self.place.xp, self.x[some, :], self.x[others, :])

    def diagonal(self) -> Array:
        """Return the kernel value (n,) of each row with itself."""
        return self.kernel.diagonal(self.place.xp, self.x)

    def block(self, row_idx: Array, column_idx: Array) -> Array:
        """Return the matrix between two sets of rows."""
        xp = self.place.xp
        some = xp.take(self.x, row_idx, axis=0)
        if self.is_precomputed:
            return xp.take(some, column_idx, axis=1)
        return self.kernel.gram(xp, some, xp.take(self.x, column_idx, axis=0))


def product(matrix: KernelMatrix, row_idx: Array | None, column_idx: Array, weights: Array) -> Array:
    """Return ``K[row_idx][:, column_idx] @ weights``, in strips; all rows where `row_idx` is None."""
    xp = matrix.place.xp
    wide = matrix.of_dtype(weights.dtype)
    n = matrix.n if row_idx is None else row_idx.shape[0]
    most = max(_ROWS_AT_ONCE, _CELLS_AT_ONCE // max(1, column_idx.shape[0]))
    columns = None if wide.is_precomputed else xp.take(wide.x, column_idx, axis=0)
    parts = []
    with small_products(xp):
        for chunk in row_chunks(n, 8 * column_idx.shape[0], most=most):
            some = wide.x[chunk, :] if row_idx is None else xp.take(wide.x, row_idx[chunk], axis=0)
            if columns is None:
                strip = xp.take(some, column_idx, axis=1)
            else:
                strip = wide.kernel.gram(xp, some, columns)
            parts.append(strip @ weights)
    return xp.concat(parts) if parts else weights[:0]


class KernelRows:
    """A cache of kernel rows in one buffer: new rows overwrite the oldest, and start again at its head.

    Rows that are missing are computed side by side. Of a buffer for six rows, where rows 7, 8 and 3 are
    requested and `next` is the place after the last one written::

        before   | 4 | 2 | 9 | 7 | 5 | 1 |     rows 8 and 3 are missing
                                   ^ next
        after    | 4 | 2 | 9 | 7 | 8 | 3 |     rows 5 and 1 are overwritten, next is the head of the buffer

    A requested row that would be overwritten counts as missing too: it is computed again.

    Parameters
    ----------
    matrix : KernelMatrix
        The matrix whose rows are kept.
    dtype : dtype
        The float dtype in which rows are computed and kept.
    n_kept : int
        How many rows are kept.
    """

    def __init__(self, matrix: KernelMatrix, dtype: Dtype, n_kept: int) -> None:
        self.source = matrix
        self._clear(dtype, n_kept)

    def _clear(self, dtype: Dtype, n_kept: int) -> None:
        """Empty the cache, and make a buffer for `n_kept` rows of this dtype."""
        matrix = self.source
        self.matrix = matrix.of_dtype(dtype)
        self.n_kept = min(n_kept, matrix.n)
        self.dtype = dtype
        self._buffer: Array = None  # frees the old buffer before the new one is allocated
        device = array_api_compat.device(matrix.x)
        self._buffer = scratch(matrix.place.xp, (self.n_kept, matrix.n), dtype, device)
        self._kept_at: dict[int, int] = {}  # where in the buffer each row is
        self._row_at: list[int] = [_EMPTY] * self.n_kept
        self._next = 0

    def widened(self) -> KernelRows:
        """Change to the accumulator's dtype, within the same memory, and return the cache itself."""
        wide = accumulator_dtype(self.matrix.place)
        if self.dtype != wide:
            self._clear(wide, max(2, self.n_kept // 2))
        return self

    def fetch(self, rows: list[int]) -> tuple[Array, Array]:
        """Compute the rows that are missing; return all rows' positions, and where in the buffer they are."""
        missing, start = [row for row in rows if row not in self._kept_at], 0
        if missing:
            missing, start = self._claim(rows, missing)
        # one copy to the device for all three
        packed = self.matrix.positions([*rows, *(self._kept_at[row] for row in rows), *missing])
        self._compute(packed[2 * len(rows) :], start)
        return packed[: len(rows)], packed[len(rows) : 2 * len(rows)]

    def _claim(self, rows: list[int], missing: list[int]) -> tuple[list[int], int]:
        """Give missing rows adjacent places in the buffer; return what to compute, and the first place."""
        wanted = set(rows)
        start = self._next
        while True:
            if start + len(missing) > self.n_kept:
                start = 0
            overwritten = self._row_at[start : start + len(missing)]
            again = [row for row in overwritten if row in wanted and row not in missing]
            if not again:
                break
            missing = missing + again
        for row in overwritten:
            self._kept_at.pop(row, None)
        self._next = start + len(missing)
        self._row_at[start : self._next] = missing
        self._kept_at |= zip(missing, range(start, self._next), strict=True)
        return missing, start

    def _compute(self, idx: Array, start: int) -> None:
        """Compute rows into the buffer from `start` on."""
        for first in range(0, idx.shape[0], _ROWS_AT_ONCE):
            last = min(first + _ROWS_AT_ONCE, idx.shape[0])
            self._buffer[start + first : start + last, :] = self.matrix.rows(idx[first:last])

    def block(self, kept: Array, idx: Array) -> Array:
        """Return some columns of the rows at `kept` in the buffer."""
        return gather_block(self.matrix.place.xp, self._buffer, kept, idx)

    def combine(self, kept: Array, weights: Array) -> Array:
        """Return the weighted sum of the rows at `kept` in the buffer."""
        return combine_rows(self.matrix.place.xp, self._buffer, kept, weights)

    def exact_product(self, row_idx: Array | None, column_idx: Array, weights: Array) -> Array:
        """Multiply rows of the matrix by weights in the accumulator's dtype, computed anew."""
        wide = self.matrix.place.xp.astype(weights, accumulator_dtype(self.matrix.place))
        return product(self.source, row_idx, column_idx, wide)


def make_rows(matrix: KernelMatrix, bound: float, settings: Settings) -> KernelRows:
    """Make the cache of kernel rows: float32 where `bound`, the largest multiplier, allows its rounding."""
    xp = matrix.place.xp
    wide = accumulator_dtype(matrix.place)
    dtype = xp.float32 if bound < _LARGE_BOUND else wide
    row_bytes = matrix.n * (4 if dtype == xp.float32 else 8)
    return KernelRows(matrix, dtype, max(2, settings.cache_bytes // row_bytes))
