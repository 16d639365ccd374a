"""The one-class support vector machine in the nu form of Schölkopf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.namespace import HOST, accumulator_dtype, from_host
from arraylearn.checks import check_number
from arraylearn.kernels import Kernel
from arraylearn.svm.parameters import check_shared
from arraylearn.svm.solvers.dual import DualProblem, find_offset
from arraylearn.svm.unlabelled import OneClassEstimator, fill
from arraylearn.weights import read_weights

__all__ = ["OneClassSVM"]


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
        self._check_parameters()
        with self._fitting():
            batch = self._open_rows(X)
            weight = read_weights(sample_weight, batch.table.n_rows, HOST)
            weight = np.ones((batch.table.n_rows,)) if weight is None else weight
            kernel, matrix = self._make_matrix(batch)
            dtype = accumulator_dtype(batch.place)
            upper = from_host(weight, batch.place, dtype)
            start = from_host(fill(weight, self.nu * float(weight.sum())), batch.place, dtype)
            zero = batch.place.xp.zeros_like(upper)
            problem = DualProblem(zero, zero, upper, start)
            solution = self._solve(kernel, matrix, problem)
            # the gradient is -K beta, and the equality's multiplier is minus LIBSVM's rho
            rho = -float(find_offset(batch.place.xp, solution.beta, solution.gradient, problem))
            self.offset_, self.intercept_ = rho, np.asarray([-rho])
            self._keep(kernel, matrix, problem, solution)
        return self

    def _check_parameters(self) -> None:
        check_shared(self)
        check_number("nu", self.nu, 0.0, 1.0, closed="right")

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
