"""One class without labels: the nu form of Schölkopf, and the sphere of Tax and Duin."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin

from arraylearn._typing import Array, HostArray
from arraylearn.backend.namespace import HOST, accumulator_dtype, from_host, to_host
from arraylearn.checks import check_number, refuse
from arraylearn.estimator import Batch
from arraylearn.svm.machine import (
    Machine,
    MachineEstimator,
    assemble,
    check_price,
    host_vectors,
    is_precomputed,
)
from arraylearn.svm.solvers.dual import DualProblem, DualSolution, KernelMatrix, find_offset, objective
from arraylearn.svm.solvers.stages import solve_problems
from arraylearn.weights import read_weights

__all__ = ["SVDD", "OneClassSVM"]


class OneClassEstimator(OutlierMixin, MachineEstimator):
    """Base of `OneClassSVM` and `SVDD`: the dual over one set of rows, and its machine."""

    offset_: float

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from unlabelled rows.

        Parameters
        ----------
        X : array-like (n, d)
            Numbers; for a precomputed kernel the kernel values (n, n).
        y : ignored
            Present for pipelines.
        sample_weight : array-like (n,), optional
            Factors of the bounds of the multipliers, row by row: in `SVDD` of C.
        """
        self._check_parameters()
        with self._fitting():
            batch = self._open_rows(X)
            weight = read_weights(sample_weight, batch.table.n_rows, HOST)
            matrix = self._make_matrix(batch, weight)
            self._learn(matrix, np.ones(batch.table.n_rows) if weight is None else weight)
        return self

    @abstractmethod
    def _learn(self, matrix: KernelMatrix, weight: HostArray) -> None:
        """Solve the dual for rows of these weights and set the fitted attributes."""

    @abstractmethod
    def _usual(self, batch: Batch) -> Array:
        """Return how usual rows are (n,)."""

    def _solve(
        self, matrix: KernelMatrix, linear: Array | None, bound: HostArray, total: float
    ) -> tuple[DualProblem, DualSolution]:
        """Solve the dual with multipliers from 0 to `bound` that add up to `total`; `linear` None is 0."""
        dtype = accumulator_dtype(matrix.place)
        # LIBSVM's start: the first rows are at their bounds
        start = np.minimum(np.maximum(total - (bound.cumsum() - bound), 0.0), bound)
        upper, begun = (from_host(values, matrix.place, dtype) for values in (bound, start))
        zero = matrix.place.xp.zeros_like(upper)
        problem = DualProblem(zero if linear is None else linear, zero, upper, begun)
        widest = float(bound.max())
        with self._reporting() as settings:
            found = solve_problems(matrix, [matrix.all_rows()], [problem], settings, bound=widest)
        self._warn_unfinished(found)
        return problem, found[0]

    def _keep(
        self,
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
        # rounding in float32 may take rows of the boundary further out than `tol`
        wide = matrix.of_dtype(accumulator_dtype(matrix.place))
        machine = assemble(wide, support, scale * weights, offset)
        self.kernel_, self.model_ = matrix.kernel, machine
        self.support_, self.support_vectors_ = support, host_vectors(machine)
        self.dual_coef_ = weights
        self.objective_ = float(objective(matrix.place.xp, solution.beta, solution.gradient, problem))
        self.gap_, self.n_iter_ = solution.gap, solution.n_iter

    def score_samples(self, X: Any) -> Array:
        """Return how usual rows are (n,): the larger, the more so."""
        batch = self._open(X)
        return self._deliver(batch.place.xp.astype(self._usual(batch), batch.float_dtype), batch)

    def decision_function(self, X: Any) -> Array:
        """Return `score_samples` less `offset_` (n,): not negative inside."""
        batch = self._open(X)
        values = self._usual(batch) - self.offset_
        return self._deliver(batch.place.xp.astype(values, batch.float_dtype), batch)

    def predict(self, X: Any) -> Array:
        """Return +1 for rows inside and -1 for outliers."""
        batch = self._open(X)
        xp = batch.place.xp
        is_inside = self._usual(batch) - self.offset_ >= 0
        return self._deliver(2 * xp.astype(is_inside, xp.int64) - 1, batch)


@dataclass(kw_only=True, eq=False, repr=False)
class OneClassSVM(OneClassEstimator):
    r"""One-class support vector machine in the nu form: the region that holds most of the rows.

    Solves :math:`\min_\alpha \tfrac12 \alpha^T K \alpha` with :math:`0 \le \alpha_i \le 1` and
    :math:`\sum \alpha_i = \nu n` (LIBSVM's scaling).

    Parameters
    ----------
    nu : float
        In (0, 1]: at most this share of the training rows lies outside, at least this share are support
        vectors.
    kernel, degree, gamma, coef0, tol, max_iter, cache_size, verbose, backend
        As in `SVC`.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_
        Positions, rows, number and multipliers of the support vectors.
    intercept_ : array (1,)
        Of the decision function.
    coef_ : array (1, d)
        Column weights, for the linear kernel.
    offset_ : float
        ``decision_function(X) == score_samples(X) - offset_``; the boundary less `tol`.
    objective_, gap_, n_iter_
        Dual objective, remaining violation, steps.

    Notes
    -----
    The solution is known up to `tol`, and support vectors lie on the boundary: rows within `tol` of it count
    as inside, on every backend and in every dtype. Values are computed in float64, where the device has it.

    See Also
    --------
    SVDD : the sphere around the rows; for the gaussian kernel the same region.

    References
    ----------
    B. Schölkopf et al., Estimating the support of a high-dimensional distribution, Neural Computation 2001.

    Examples
    --------
    >>> import arraylearn as al
    >>> clf = al.OneClassSVM(nu=0.5, gamma=1.0).fit([[0.0], [0.1], [0.2], [3.0]])
    >>> clf.predict([[0.1], [9.0]])
    array([ 1, -1])
    """

    nu: float = 0.5

    @property
    def n_support_(self) -> HostArray:
        """Number (1,) of support vectors."""
        return np.asarray([self.support_.shape[0]])

    @property
    def coef_(self) -> HostArray:
        """Column weights (1, d), for the linear kernel."""
        return self._column_weights("coef_")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("nu", self.nu, 0.0, 1.0, closed="right")

    def _learn(self, matrix: KernelMatrix, weight: HostArray) -> None:
        problem, solution = self._solve(matrix, None, weight, self.nu * float(weight.sum()))
        # the gradient is -K beta, and the equality's multiplier is minus LIBSVM's rho
        rho = -float(find_offset(matrix.place.xp, solution.beta, solution.gradient, problem))
        self.offset_ = rho - float(self.tol)
        self.intercept_ = np.asarray([-self.offset_])
        self._keep(matrix, problem, solution)

    def _usual(self, batch: Batch) -> Array:
        return self._decisions(batch)[:, 0]


@dataclass(kw_only=True, eq=False, repr=False)
class SVDD(OneClassEstimator):
    r"""Support vector data description: the smallest soft sphere around the rows.

    Minimizes :math:`R^2 + C \sum_i \xi_i` with :math:`\lVert \phi(x_i) - a \rVert^2 \le R^2 + \xi_i`.

    Parameters
    ----------
    C : float, optional
        Price of a row outside the sphere, at least 1 / n (below, no sphere is feasible); at least 1 encloses
        all rows. Default: ``1 / (nu n)`` with nu = 0.5.
    kernel, degree, gamma, coef0, tol, max_iter, cache_size, verbose, backend
        As in `SVC`.

    Attributes
    ----------
    radius_ : float
        R.
    center_ : array (d,)
        The centre a; linear kernel only.
    support_, support_vectors_, dual_coef_
        Positions, rows and multipliers of the support vectors; the centre is their weighted sum.
    offset_ : float
        -R^2 - 2 tol: ``decision_function(X) == score_samples(X) - offset_``.
    objective_, gap_, n_iter_
        Dual objective (half of R^2 + C sum of slacks), remaining violation, steps.

    Notes
    -----
    The solution is known up to `tol`, and support vectors lie on the sphere: rows whose squared distance
    exceeds that of the sphere by no more than 2 `tol` count as inside, on every backend and in every dtype.
    Values are computed in float64, where the device has it.

    See Also
    --------
    OneClassSVM : for the gaussian kernel and ``C = 1 / (nu n)`` the same region.

    References
    ----------
    D. M. J. Tax, R. P. W. Duin, Support vector data description, Machine Learning 2004.

    Examples
    --------
    >>> import arraylearn as al
    >>> ball = al.SVDD(C=1.0, kernel="linear", tol=1e-6).fit([[0.0, 1.0], [2.0, 1.0], [1.0, 1.5]])
    >>> round(ball.radius_, 3), ball.center_.round(3)
    (1.0, array([1., 1.]))
    """

    C: float | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.C is not None:
            check_price(self.C)

    def _learn(self, matrix: KernelMatrix, weight: HostArray) -> None:
        bound = weight * (2.0 / float(weight.sum()) if self.C is None else min(float(self.C), 1e12))
        if bound.sum() < 1.0 - 1e-12:
            raise refuse("C", f"must be at least 1 / n = {1 / weight.sum():.4g} (weights count)", self.C)
        xp = matrix.place.xp
        diagonal = matrix.of_dtype(accumulator_dtype(matrix.place)).diagonal()
        problem, solution = self._solve(matrix, 0.5 * diagonal, bound, 1.0)
        # on the sphere K_ii - 2 (K beta)_i + |a|^2 = R^2, and there the gradient K_ii / 2 - (K beta)_i is the
        # equality's multiplier
        offset = float(find_offset(xp, solution.beta, solution.gradient, problem))
        square_center = float(xp.sum(solution.beta * (problem.linear - solution.gradient)))
        square_radius = max(2.0 * offset + square_center, 0.0)
        # the gradient is half a squared distance, and so is what `tol` allows
        self.radius_, self.offset_ = math.sqrt(square_radius), -square_radius - 2.0 * float(self.tol)
        self._keep(matrix, problem, solution, scale=-2.0, intercept=square_center)

    @property
    def center_(self) -> HostArray:
        """The centre (d,), for the linear kernel."""
        return -0.5 * self._column_weights("center_")[0, :]

    def distance_to_center(self, X: Any) -> Array:
        """Return the distance (n,) of rows to the centre, in the space of the kernel."""
        batch = self._open(X)
        square = self._square_distances(batch)
        zero = batch.place.xp.zeros_like(square)
        distance = batch.place.xp.sqrt(batch.place.xp.maximum(square, zero))
        return self._deliver(batch.place.xp.astype(distance, batch.float_dtype), batch)

    def _usual(self, batch: Batch) -> Array:
        return -self._square_distances(batch)

    def _square_distances(self, batch: Batch) -> Array:
        """Return the squared distance (n,) of rows to the centre, in the space of the kernel."""
        if is_precomputed(self.kernel_):
            raise ValueError(
                "distances to the centre need the kernel of each row with itself, which a precomputed kernel "
                "between rows and training rows does not contain. Use a kernel object, or OneClassSVM."
            )
        model: Machine = self._model_at(batch.place)
        xp = batch.place.xp
        x = xp.astype(batch.table.numeric, model.weights.dtype, copy=False)
        return self.kernel_.diagonal(xp, x) + self._decisions(batch)[:, 0]
