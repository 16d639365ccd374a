"""Support vector data description: one class as the sphere of Tax and Duin."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.namespace import HOST, accumulator_dtype, from_host, to_host
from arraylearn.checks import refuse
from arraylearn.estimator import Batch
from arraylearn.kernels import Kernel, Linear
from arraylearn.svm.decision import Machine
from arraylearn.svm.kernel_matrix import KernelMatrix
from arraylearn.svm.parameters import check_price, check_shared, is_precomputed
from arraylearn.svm.solvers.dual import DualProblem, find_offset
from arraylearn.svm.unlabelled import OneClassEstimator, fill
from arraylearn.weights import read_weights

__all__ = ["SVDD"]

Host = Any  # a NumPy array


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
        -R^2: ``decision_function(X) == score_samples(X) - offset_``.
    objective_, gap_, n_iter_
        Dual objective (half of R^2 + C sum of slacks), remaining violation, steps.

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

    def __init__(
        self,
        *,
        C: float | None = None,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: float | Literal["scale", "auto"] = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = -1,
        cache_size: float = 200,
        verbose: bool | Callable[[int, float], None] = False,
        backend: str | None = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.verbose = verbose
        self.backend = backend

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the sphere around unlabelled rows.

        Parameters
        ----------
        X : array-like (n, d)
            Numbers; for a precomputed kernel the kernel values (n, n).
        y : ignored
            Present for pipelines.
        sample_weight : array-like (n,), optional
            Factors of C, row by row.
        """
        self._check_parameters()
        with self._fitting():
            batch = self._open_rows(X)
            n = batch.table.n_rows
            weight = read_weights(sample_weight, n, HOST)
            weight = np.ones((n,)) if weight is None else weight
            bound = weight * (2.0 / float(weight.sum()) if self.C is None else min(float(self.C), 1e12))
            if bound.sum() < 1.0 - 1e-12:
                raise refuse("C", f"must be at least 1 / n = {1 / weight.sum():.4g} (weights count)", self.C)
            kernel, matrix = self._make_matrix(batch)
            self._fit_sphere(kernel, matrix, bound)
        return self

    def _check_parameters(self) -> None:
        check_shared(self)
        if self.C is not None:
            check_price(self.C)

    def _fit_sphere(self, kernel: Kernel, matrix: KernelMatrix, bound: Host) -> None:
        """Solve the dual and set the fitted attributes."""
        xp, dtype = matrix.place.xp, accumulator_dtype(matrix.place)
        diagonal = kernel.diagonal(xp, matrix.of_dtype(dtype).x)
        upper = from_host(bound, matrix.place, dtype)
        start = from_host(fill(bound, 1.0), matrix.place, dtype)
        problem = DualProblem(0.5 * diagonal, xp.zeros_like(upper), upper, start)
        solution = self._solve(kernel, matrix, problem)
        # on the sphere K_ii - 2 (K beta)_i + |a|^2 = R^2, and there the gradient K_ii / 2 - (K beta)_i is the
        # equality's multiplier
        offset = float(find_offset(xp, solution.beta, solution.gradient, problem))
        square_center = float(xp.sum(solution.beta * (problem.linear - solution.gradient)))
        square_radius = max(2.0 * offset + square_center, 0.0)
        self.radius_, self.offset_ = math.sqrt(square_radius), -square_radius
        self._keep(kernel, matrix, problem, solution, scale=-2.0, intercept=square_center)

    @property
    def center_(self) -> Host:
        """The centre (d,), for the linear kernel."""
        if not isinstance(self.__dict__.get("kernel_", Linear()), Linear):
            raise AttributeError("`center_` exists for the linear kernel only.")
        return -0.5 * to_host(self.model_.direction)[0, :]

    def distance_to_center(self, X: Any) -> Array:
        """Return the distance (n,) of rows to the centre, in the space of the kernel."""
        batch = self._open(X)
        square = self._square_distances(batch)
        zero = batch.place.xp.zeros_like(square)
        return self._deliver(batch.place.xp.sqrt(batch.place.xp.maximum(square, zero)), batch)

    def score_samples(self, X: Any) -> Array:
        """Return minus the squared distance (n,) to the centre: larger is more usual."""
        batch = self._open(X)
        return self._deliver(-self._square_distances(batch), batch)

    def decision_function(self, X: Any) -> Array:
        """Return :math:`R^2` minus the squared distance to the centre (n,): positive inside."""
        batch = self._open(X)
        return self._deliver(-self.offset_ - self._square_distances(batch), batch)

    def predict(self, X: Any) -> Array:
        """Return +1 for rows inside the sphere and -1 for outliers."""
        batch = self._open(X)
        return self._signs(-self.offset_ - self._square_distances(batch), batch)

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
        return self.kernel_.diagonal(xp, x) + self._sums(batch)
