"""What the two forms of one class share: the dual over one set of rows, and its machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import OutlierMixin

from arraylearn._typing import Array
from arraylearn.backend.namespace import read_flags
from arraylearn.estimator import ArrayEstimator, Batch
from arraylearn.kernels import Kernel, Linear
from arraylearn.svm.dual import DualProblem, DualSolution, objective
from arraylearn.svm.machine import Machine, assemble, decide, host_vectors
from arraylearn.svm.parameters import is_precomputed, make_matrix, make_settings
from arraylearn.svm.rows import KernelMatrix
from arraylearn.svm.solve import DENSE_ROWS, solve_large, solve_small
from arraylearn.svm.unfinished import warn_unfinished

__all__ = ["OneClassEstimator", "fill"]

Host = Any  # a NumPy array


class OneClassEstimator(OutlierMixin, ArrayEstimator):
    """What the two forms share: the dual over one set of rows, and its machine."""

    _accepts_missing: ClassVar[bool] = False
    _accepts_nominal: ClassVar[bool] = False

    kernel: str | Kernel | Callable[[Any, Any], Any]
    degree: int
    gamma: float | Literal["scale", "auto"]
    coef0: float
    tol: float
    max_iter: int
    cache_size: float
    kernel_: Kernel
    model_: Machine

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags

    def _matrix(self, batch: Batch) -> KernelMatrix:
        """Make the kernel of these rows, after the checks that need the rows."""
        self._refuse_bad(*read_flags(batch.place, batch.is_bad))
        self.kernel_, matrix = make_matrix(self, batch.place, batch.table.numeric)
        return matrix

    def _solve(self, matrix: KernelMatrix, problem: DualProblem) -> DualSolution:
        """Solve, warn where the tolerance was not met, and keep what people read of the solution."""
        settings = make_settings(self)
        is_linear = isinstance(self.kernel_, Linear)
        if matrix.n <= DENSE_ROWS:
            everyone = matrix.place.xp.arange(
                matrix.n, dtype=matrix.place.xp.int64, device=matrix.place.device
            )
            solution = solve_small(matrix, [everyone], [problem], settings, is_linear=is_linear)[0]
        else:
            solution = solve_large(matrix, problem, settings, solver="auto", is_linear=is_linear)
        warn_unfinished(self, [solution])
        xp = matrix.place.xp
        self.objective_ = float(objective(xp, solution.beta, solution.gradient, problem))
        self.gap_, self.n_iter_ = solution.gap, solution.n_iter
        return solution

    def _keep(self, matrix: KernelMatrix, beta: Host, scale: float, intercept: float) -> None:
        """Keep the machine whose decision is ``scale * sum of beta K + intercept``."""
        self.support_ = beta.nonzero()[0]
        self.dual_coef_ = beta[self.support_][None, :]
        offset = np.asarray([intercept])
        self.model_ = assemble(
            matrix.place, self.kernel_, matrix.x, self.support_, scale * self.dual_coef_, offset
        )
        self.support_vectors_ = host_vectors(self.model_)

    def _sums(self, batch: Batch) -> Array:
        """Return the machine's value (n,) of rows."""
        model: Machine = self._model_at(batch.place)
        x = batch.place.xp.astype(batch.table.numeric, model.weights.dtype, copy=False)
        return decide(batch.place.xp, model, x)[:, 0]

    def _signs(self, inside: Array, batch: Batch) -> Array:
        """Return +1 where a value is not negative and -1 elsewhere, at home, as integers."""
        xp = batch.place.xp
        return self._deliver(2 * xp.astype(inside >= 0, xp.int64) - 1, batch)


def fill(bound: Host, total: float) -> Host:
    """Return multipliers with a sum, the first rows at their bounds, as LIBSVM starts."""
    before = bound.cumsum() - bound
    return np.minimum(np.maximum(total - before, 0.0), bound)
