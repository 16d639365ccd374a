"""One class: the nu form of Schölkopf, and the sphere of Tax and Duin."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self

from sklearn.base import OutlierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from arraylearn._door import refuse
from arraylearn._typing import Array
from arraylearn.backend.namespace import HOST, accumulator_dtype, from_host, read_flags, to_host
from arraylearn.estimator import ArrayClassifier, Batch, read_weights
from arraylearn.kernels import Kernel, Linear
from arraylearn.svm.dual import DualProblem, DualSolution, find_offset, objective
from arraylearn.svm.machine import Machine, decide, directions
from arraylearn.svm.parameters import (
    check_positive,
    check_settings,
    is_precomputed,
    make_matrix,
    make_settings,
)
from arraylearn.svm.rows import KernelMatrix
from arraylearn.svm.solve import DENSE_ROWS, solve_dense, solve_large
from arraylearn.table import learn_schema

__all__ = ["SVDD", "OneClassSVM"]

Host = Any  # a NumPy array


class OneClassEstimator(OutlierMixin, ArrayClassifier):  # type: ignore[misc]
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

    def _open_fit_rows(self, X: Any) -> Batch:
        """Read unlabelled training rows and learn their schema."""
        validate_data(self, X, skip_check_array=True)
        self.schema_ = learn_schema(X, "from_dtype")
        self._refuse_nominal()
        return self._read(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "outlier_detector"
        tags.classifier_tags = None
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
        if matrix.n <= DENSE_ROWS:
            everyone = matrix.place.xp.arange(
                matrix.n, dtype=matrix.place.xp.int64, device=matrix.place.device
            )
            solution = solve_dense(matrix, [everyone], [problem], settings)[0]
        else:
            is_linear = isinstance(self.kernel_, Linear)
            solution = solve_large(matrix, problem, settings, solver="auto", is_linear=is_linear)
        if not solution.is_converged:
            warnings.warn(
                f"the solver stopped at a gap of {solution.gap:.3g} > tol={self.tol:g} "
                f"(max_iter={self.max_iter}). Raise `max_iter`, scale the columns of `X`, or use another "
                "kernel.",
                ConvergenceWarning,
                stacklevel=4,
            )
        xp = matrix.place.xp
        self.objective_ = float(objective(xp, solution.beta, solution.gradient, problem))
        self.gap_, self.n_iter_ = solution.gap, solution.n_iter
        return solution

    def _keep(self, matrix: KernelMatrix, beta: Host, scale: float, intercept: float) -> None:
        """Keep the machine whose decision is ``scale * sum of beta K + intercept``."""
        place, xp = matrix.place, matrix.place.xp
        x = matrix.x
        self.support_ = beta.nonzero()[0]
        self.dual_coef_ = beta[self.support_][None, :]
        support = from_host(self.support_, place, xp.int64)
        vectors = support if is_precomputed(self.kernel) else xp.take(x, support, axis=0)
        weights = from_host(scale * self.dual_coef_, place, x.dtype)
        offset = from_host(HOST.xp.asarray([intercept]), place, x.dtype)
        machine = Machine(self.kernel_, vectors, weights, offset, None, ())
        if isinstance(self.kernel_, Linear):
            machine = machine._replace(direction=directions(xp, machine))
        self.model_ = machine
        self.support_vectors_ = HOST.xp.zeros((0, 0)) if is_precomputed(self.kernel) else to_host(vectors)

    def _sums(self, batch: Batch) -> Array:
        """Return the machine's value (n,) of rows."""
        model: Machine = self._model_at(batch.place)
        x = batch.place.xp.astype(batch.table.numeric, model.weights.dtype, copy=False)
        return decide(batch.place.xp, model, x)[:, 0]

    def _signs(self, inside: Array, batch: Batch) -> Array:
        """Return +1 where a value is not negative and -1 elsewhere, at home, as integers."""
        xp = batch.place.xp
        codes = xp.astype(inside >= 0, xp.int64)
        return self._deliver_labels(codes, batch)


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
    support_, support_vectors_, dual_coef_
        Positions, rows and multipliers of the support vectors.
    intercept_ : array (1,)
        Of the decision function.
    offset_ : float
        ``decision_function(X) == score_samples(X) - offset_``.
    objective_, gap_, n_iter_
        Dual objective, remaining violation, steps.

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

    def __init__(
        self,
        *,
        nu: float = 0.5,
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
        self.nu = nu
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
        """Learn the region of unlabelled rows.

        Parameters
        ----------
        X : array-like (n, d)
            Numbers; for a precomputed kernel the kernel values (n, n).
        y : ignored
            Present for pipelines.
        sample_weight : array-like (n,), optional
            The bound of each row's multiplier; 1 without it.
        """
        check_settings(self)
        check_positive("nu", self.nu)
        if self.nu > 1:
            raise refuse("nu", "must be at most 1: it is a share of the rows", repr(self.nu))
        with self._fitting():
            batch = self._open_fit_rows(X)
            self.classes_ = HOST.xp.asarray([-1, 1])
            weight = read_weights(sample_weight, batch.table.n_rows, HOST)
            weight = HOST.xp.ones((batch.table.n_rows,)) if weight is None else weight
            matrix = self._matrix(batch)
            dtype = accumulator_dtype(batch.place)
            upper = from_host(weight, batch.place, dtype)
            start = from_host(_fill(weight, self.nu * float(weight.sum())), batch.place, dtype)
            zero = batch.place.xp.zeros_like(upper)
            problem = DualProblem(zero, zero, upper, start)
            solution = self._solve(matrix, problem)
            # the gradient is -K beta, and the equality's multiplier is minus LIBSVM's rho
            rho = -float(find_offset(batch.place.xp, solution.beta, solution.gradient, problem))
            self.offset_, self.intercept_ = rho, HOST.xp.asarray([-rho])
            self._keep(matrix, to_host(solution.beta), 1.0, 0.0)
        return self

    def score_samples(self, X: Any) -> Array:
        """Return the unshifted score (n,) of rows: larger is more usual."""
        batch = self._open(X)
        return self._deliver(self._sums(batch), batch)

    def decision_function(self, X: Any) -> Array:
        """Return the signed distance (n,) to the boundary, not normalised: positive inside."""
        batch = self._open(X)
        return self._deliver(self._sums(batch) - self.offset_, batch)

    def predict(self, X: Any) -> Array:
        """Return +1 for rows inside the region and -1 for outliers."""
        batch = self._open(X)
        return self._signs(self._sums(batch) - self.offset_, batch)


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
        check_settings(self)
        if self.C is not None:
            check_positive("C", self.C)
        with self._fitting():
            batch = self._open_fit_rows(X)
            self.classes_ = HOST.xp.asarray([-1, 1])
            n = batch.table.n_rows
            weight = read_weights(sample_weight, n, HOST)
            weight = HOST.xp.ones((n,)) if weight is None else weight
            bound = weight * (2.0 / float(weight.sum()) if self.C is None else min(float(self.C), 1e12))
            if bound.sum() < 1.0 - 1e-12:
                raise refuse("C", f"must be at least 1 / n = {1 / weight.sum():.4g} (weights count)", self.C)
            self._fit_sphere(batch, self._matrix(batch), bound)
        return self

    def _fit_sphere(self, batch: Batch, matrix: KernelMatrix, bound: Host) -> None:
        xp, dtype = batch.place.xp, accumulator_dtype(batch.place)
        wide = matrix.of_dtype(dtype)
        diagonal = xp.linalg.diagonal(wide.x) if wide.cross is None else self.kernel_.diagonal(xp, wide.x)
        upper = from_host(bound, batch.place, dtype)
        start = from_host(_fill(bound, 1.0), batch.place, dtype)
        problem = DualProblem(0.5 * diagonal, xp.zeros_like(upper), upper, start)
        solution = self._solve(matrix, problem)
        # on the sphere K_ii - 2 (K beta)_i + |a|^2 = R^2, and there the gradient K_ii / 2 - (K beta)_i is the
        # equality's multiplier
        offset = float(find_offset(xp, solution.beta, solution.gradient, problem))
        square_center = float(xp.sum(solution.beta * (problem.linear - solution.gradient)))
        square_radius = max(2.0 * offset + square_center, 0.0)
        self.radius_, self.offset_ = math.sqrt(square_radius), -square_radius
        self._keep(matrix, to_host(solution.beta), -2.0, square_center)

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
        if is_precomputed(self.kernel):
            raise ValueError(
                "distances to the centre need the kernel of each row with itself, which a precomputed kernel "
                "between rows and training rows does not tell. Use a kernel object, or OneClassSVM."
            )
        model: Machine = self._model_at(batch.place)
        xp = batch.place.xp
        x = xp.astype(batch.table.numeric, model.weights.dtype, copy=False)
        return self.kernel_.diagonal(xp, x) + self._sums(batch)


def _fill(bound: Host, total: float) -> Host:
    """Return multipliers with a sum, the first rows at their bounds, as LIBSVM starts."""
    before = bound.cumsum() - bound
    return HOST.xp.minimum(HOST.xp.maximum(total - before, 0.0), bound)
