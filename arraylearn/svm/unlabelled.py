"""Base of the one-class estimators: the dual over one set of rows, and its machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import OutlierMixin

from arraylearn._typing import Array
from arraylearn.backend.namespace import read_flags, to_host
from arraylearn.estimator import ArrayEstimator, Batch
from arraylearn.kernels import Kernel, Linear
from arraylearn.svm.convergence import warn_unfinished
from arraylearn.svm.decision import Machine, assemble, decide, host_vectors
from arraylearn.svm.kernel_matrix import KernelMatrix
from arraylearn.svm.parameters import is_precomputed, make_matrix, make_settings
from arraylearn.svm.solvers.dual import DualProblem, DualSolution, objective
from arraylearn.svm.solvers.stages import DENSE_ROWS, solve_large, solve_small

__all__ = ["OneClassEstimator", "fill"]

Host = Any  # a NumPy array


class OneClassEstimator(OutlierMixin, ArrayEstimator):
    """Base of `OneClassSVM` and `SVDD`."""

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

    def _make_matrix(self, batch: Batch) -> tuple[Kernel, KernelMatrix]:
        """Make the kernel and its matrix, after the checks that need the rows."""
        self._refuse_bad(*read_flags(batch.place, batch.is_bad))
        return make_matrix(self, batch.place, batch.table.numeric)

    def _solve(self, kernel: Kernel, matrix: KernelMatrix, problem: DualProblem) -> DualSolution:
        """Solve the dual, and warn where the tolerance was not met."""
        settings = make_settings(self)
        is_linear = isinstance(kernel, Linear)
        if matrix.n <= DENSE_ROWS:
            members = [matrix.all_rows()]
            solution = solve_small(matrix, members, [problem], settings, is_linear=is_linear)[0]
        else:
            solution = solve_large(matrix, problem, settings, solver="auto", is_linear=is_linear)
        warn_unfinished(self, [solution])
        return solution

    def _keep(
        self,
        kernel: Kernel,
        matrix: KernelMatrix,
        problem: DualProblem,
        solution: DualSolution,
        *,
        scale: float = 1.0,
        intercept: float = 0.0,
    ) -> None:
        """Set the fitted attributes; the machine's value is ``scale * sum of beta K + intercept``."""
        beta = to_host(solution.beta)
        support = beta.nonzero()[0]
        weights = beta[support][None, :]
        offset = np.asarray([intercept])
        machine = assemble(matrix.place, kernel, matrix.x, support, scale * weights, offset)
        self.kernel_, self.model_ = kernel, machine
        self.support_, self.support_vectors_ = support, host_vectors(machine)
        self.dual_coef_ = weights
        self.objective_ = float(objective(matrix.place.xp, solution.beta, solution.gradient, problem))
        self.gap_, self.n_iter_ = solution.gap, solution.n_iter

    def _sums(self, batch: Batch) -> Array:
        """Return the machine's value (n,) of rows."""
        model: Machine = self._model_at(batch.place)
        x = batch.place.xp.astype(batch.table.numeric, model.weights.dtype, copy=False)
        return decide(batch.place.xp, model, x)[:, 0]

    def _signs(self, inside: Array, batch: Batch) -> Array:
        """Return the integers +1 where a value is not negative and -1 elsewhere, at home."""
        xp = batch.place.xp
        return self._deliver(2 * xp.astype(inside >= 0, xp.int64) - 1, batch)


def fill(bound: Host, total: float) -> Host:
    """Return multipliers that add up to `total`, with the first rows at their bounds: LIBSVM's start."""
    before = bound.cumsum() - bound
    return np.minimum(np.maximum(total - before, 0.0), bound)
