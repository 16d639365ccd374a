"""The support vector classifier."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self

from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from arraylearn._door import refuse
from arraylearn._typing import Array
from arraylearn.backend.namespace import HOST, from_host, read_flags, to_host
from arraylearn.backend.random import RandomState
from arraylearn.estimator import ArrayClassifier, Batch, read_weights
from arraylearn.kernels import Kernel, Linear
from arraylearn.svm.machine import Machine, decide, directions, one_vs_rest_scores
from arraylearn.svm.parameters import (
    check_choice,
    check_memory,
    check_positive,
    check_settings,
    class_factors,
    is_precomputed,
    make_matrix,
    make_settings,
)
from arraylearn.svm.probability import Sigmoids, calibrate, couple, squash
from arraylearn.svm.rows import KernelMatrix
from arraylearn.svm.solve import SOLVERS, SolverName
from arraylearn.svm.tasks import (
    LastFit,
    Task,
    TaskResult,
    class_tasks,
    lay_out,
    pair_tasks,
    restart,
    slacks,
    solve_tasks,
)

__all__ = ["SVC"]

Host = Any  # a NumPy array


def _learns_probabilities(estimator: Any) -> bool:
    """Whether the estimator has `predict_proba`."""
    if not estimator.probability:
        raise AttributeError("`predict_proba` needs `probability=True` at fit.")
    return True


class SVC(ArrayClassifier):
    r"""Support vector classifier with kernels, soft and hard margins, for two and more classes.

    Minimizes :math:`\tfrac12 \lVert w \rVert^2 + \sum_i C_i \xi_i` with
    :math:`y_i (\langle w, \phi(x_i) \rangle + b) \ge 1 - \xi_i`, through its dual, to LIBSVM's stopping rule.

    Parameters
    ----------
    C : float
        Price of a row on the wrong side of its margin; ``inf`` asks for a hard margin and raises where the
        rows are not separable. ``sample_weight`` and ``class_weight`` multiply it row by row.
    kernel : str, Kernel or callable
        ``"linear"``, ``"poly"``, ``"rbf"`` (``"gaussian"``), ``"sigmoid"``, ``"precomputed"`` (then `X` holds
        kernel values), a kernel object of `arraylearn.kernels` (sums and products too), or a function of two
        tables of rows.
    degree, gamma, coef0
        Of the kernel, see `arraylearn.kernels.as_kernel`; ``gamma="scale"`` is 1 / (columns x variance of X),
        ``"auto"`` 1 / columns.
    multiclass : {"ovo", "ova"}
        One against one: every pair of classes votes, equal votes are decided by the summed decision values.
        One against all: the largest decision value wins.
    probability : bool
        Whether to learn `predict_proba`: a sigmoid of each task's decision values, fitted to five-fold
        cross-validation (five more fits), and for one against one coupled over the pairs.
    decision_function_shape : {"ovr", "ovo"}
        For one against one: whether `decision_function` gives a score per class or a value per pair.
    solver : {"auto", "decomposition", "interior", "dense"}
        Working-set decomposition; interior point (linear kernel only); whole kernel matrices in memory,
        all tasks as one batch. "auto" takes "dense" for up to 700 rows, "interior" for a linear kernel
        that a short trial does not solve, and decomposition otherwise.
    tol : float
        Largest violation of the optimality conditions at which to stop (LIBSVM's ``eps``).
    max_iter : int
        Most steps per task (pairs of multipliers, or interior steps); -1 for no limit.
    cache_size : float
        Megabytes for kernel values.
    class_weight : dict, "balanced" or None
        Factors of C by class; "balanced" makes them inversely proportional to the classes' weights.
    warm_start : bool
        Start from the multipliers of the last fit where that had as many rows and the same tasks.
    random_state : int, Generator or None
        Deals the rows to the folds of `probability`.
    verbose : bool or callable
        True logs progress through ``logging.getLogger("arraylearn.svm")``; a callable receives the number of
        steps and the gap.
    backend : str, optional
        Where to compute; default: where the input lives.

    Attributes
    ----------
    classes_ : array (k,)
        The labels.
    support_ : array (s,)
        Positions of the support vectors, ordered by class.
    support_vectors_ : array (s, d)
        The support vectors; empty for a precomputed kernel.
    n_support_ : array (k,)
        Their number in each class.
    dual_coef_ : array (1, s), (k - 1, s) or (k, s)
        Signed multipliers: for two classes positive for ``classes_[1]``; for one against one in LIBSVM's
        layout; for one against all a row per class.
    intercept_ : array (p,)
        Of each of the p tasks.
    coef_ : array (p, d)
        Column weights; linear kernel only.
    margin_ : array (p,)
        Width 2 / ||w|| of the margin of each task.
    slack_ : array (n,) or (n, p)
        Slack of each training row in each task; 0 where it takes no part.
    objective_, gap_, n_iter_, converged_ : arrays (p,)
        Dual objective, remaining violation, steps, and whether the tolerance was met.

    References
    ----------
    C.-C. Chang, C.-J. Lin, LIBSVM: a library for support vector machines, 2011. R.-E. Fan, P.-H. Chen,
    C.-J. Lin, Working set selection using second order information, JMLR 2005.

    Examples
    --------
    >>> import arraylearn as al
    >>> X, y = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 2.0]], [1, 1, -1, -1]
    >>> clf = al.SVC(C=float("inf"), kernel="linear", tol=1e-6).fit(X, y)
    >>> clf.coef_.round(3), clf.intercept_.round(3), clf.margin_.round(3)
    (array([[-2., -2.]]), array([3.]), array([0.707]))
    """

    _accepts_missing: ClassVar[bool] = False
    _accepts_nominal: ClassVar[bool] = False

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: float | Literal["scale", "auto"] = "scale",
        coef0: float = 0.0,
        multiclass: Literal["ovo", "ova"] = "ovo",
        probability: bool = False,
        decision_function_shape: Literal["ovr", "ovo"] = "ovr",
        solver: SolverName = "auto",
        tol: float = 1e-3,
        max_iter: int = -1,
        cache_size: float = 200,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        warm_start: bool = False,
        random_state: RandomState = None,
        verbose: bool | Callable[[int, float], None] = False,
        backend: str | None = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.multiclass = multiclass
        self.probability = probability
        self.decision_function_shape = decision_function_shape
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.backend = backend

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from labelled rows.

        Parameters
        ----------
        X : array-like (n, d)
            Numbers; for a precomputed kernel the kernel values (n, n).
        y : array-like (n,)
            Labels of at least two classes.
        sample_weight : array-like (n,), optional
            Factors of C, row by row.
        """
        self._check_parameters()
        before = self.__dict__.get("_last_fit") if self.warm_start else None
        with self._fitting():
            batch, labels = self._open_fit(X, y)
            bound = self._bounds(labels.codes, sample_weight)
            codes = self._check_classes(labels.codes, bound)
            matrix = self._matrix(batch)
            tasks = (class_tasks if self.multiclass == "ova" else pair_tasks)(codes, self.classes_.shape[0])
            settings = make_settings(self)
            is_linear = isinstance(self.kernel_, Linear)
            starts = restart(before, tasks, bound)
            results = solve_tasks(
                matrix, tasks, bound, settings, solver=self.solver, is_linear=is_linear, starts=starts
            )
            self._keep(batch, codes, tasks, results)
            if self.probability:
                self.sigmoids_ = calibrate(
                    matrix, tasks, bound, settings,
                    solver=self.solver, is_linear=is_linear, random_state=self.random_state,
                )  # fmt: skip
        self._last_fit = (
            LastFit(tasks, [result.beta for result in results], bound) if self.warm_start else None
        )
        self._warn_unfinished(results)
        return self

    # ---- what goes in

    def _check_parameters(self) -> None:
        check_positive("C", self.C)
        check_settings(self)
        check_choice("multiclass", self.multiclass, ("ovo", "ova"))
        check_choice("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
        check_choice("solver", self.solver, SOLVERS)
        if self.solver == "interior" and not (self.kernel == "linear" or isinstance(self.kernel, Linear)):
            raise refuse("solver", "'interior' is for the linear kernel only", f"kernel={self.kernel!r}")

    def _bounds(self, codes: Host, sample_weight: Any) -> Host:
        """Return the C of each row, on the host."""
        weight = read_weights(sample_weight, codes.shape[0], HOST)
        weight = (codes >= 0).astype("float64") if weight is None else weight
        factor = class_factors(self.class_weight, self.classes_, codes, weight)
        bound = factor[codes] * weight
        # inf * 0 is nan: a row without weight takes no part, whatever C is
        bound[bound > 0] *= float(self.C)
        return bound

    def _check_classes(self, codes: Host, bound: Host) -> Host:
        """Refuse fewer than two classes with rows that count."""
        present = [c for c in range(self.classes_.shape[0]) if (bound[codes == c] > 0).any()]
        if len(present) < 2:
            raise ValueError(
                f"The number of classes has to be greater than one; got {len(present)} class"
                f"{'' if len(present) == 1 else 'es'} with positive weight in `y`."
            )
        return codes

    def _matrix(self, batch: Batch) -> KernelMatrix:
        """Make the kernel of these rows, after the checks that need the rows."""
        self._refuse_bad(*read_flags(batch.place, batch.is_bad))
        if self.solver == "dense":
            n_bytes = 24 * batch.table.n_rows**2
            remedy = "Raise it, or use solver='decomposition'."
            check_memory(n_bytes, self.cache_size, "solver='dense' with whole kernel matrices", remedy)
        self.kernel_, matrix = make_matrix(self, batch.place, batch.table.numeric)
        return matrix

    # ---- what comes out

    def _keep(self, batch: Batch, codes: Host, tasks: list[Task], results: list[TaskResult]) -> None:
        """Keep the machine and what people read of it."""
        layout = lay_out(codes, tasks, results, self.classes_.shape[0] if self._is_paired() else 0)
        is_support = (layout != 0).any(axis=0)
        by_class = [((codes == c) & is_support).nonzero()[0] for c in range(self.classes_.shape[0])]
        host = HOST.xp
        self.support_ = host.concat(by_class)
        self.n_support_ = host.asarray([idx.shape[0] for idx in by_class])
        self.dual_coef_ = layout[:, self.support_]
        self.intercept_ = host.asarray([result.intercept for result in results])
        self.margin_ = host.asarray([result.margin for result in results])
        self.objective_ = host.asarray([result.objective for result in results])
        self.gap_ = host.asarray([result.gap for result in results])
        self.n_iter_ = host.asarray([result.n_iter for result in results])
        self.converged_ = host.asarray([result.is_converged for result in results])
        self.slack_ = slacks(codes.shape[0], tasks, results)
        self.model_ = self._machine(batch)
        is_positions = is_precomputed(self.kernel)
        self.support_vectors_ = host.zeros((0, 0)) if is_positions else to_host(self.model_.vectors)

    def _is_paired(self) -> bool:
        return self.multiclass == "ovo" and self.classes_.shape[0] > 2

    def _machine(self, batch: Batch) -> Machine:
        """Assemble the decision rule where it was computed."""
        place, xp = batch.place, batch.place.xp
        x = batch.table.numeric
        support = from_host(self.support_, place, xp.int64)
        vectors = support if is_precomputed(self.kernel) else xp.take(x, support, axis=0)
        ends = tuple(self.n_support_.cumsum().tolist()) if self._is_paired() else ()
        weights = from_host(self.dual_coef_, place, x.dtype)
        intercept = from_host(self.intercept_, place, x.dtype)
        machine = Machine(self.kernel_, vectors, weights, intercept, None, ends)
        if not isinstance(self.kernel_, Linear):
            return machine
        return machine._replace(direction=directions(xp, machine))

    @property
    def coef_(self) -> Host:
        """Weights of the columns (p, d), for the linear kernel."""
        if not isinstance(self.__dict__.get("kernel_", Linear()), Linear):
            raise AttributeError("`coef_` exists for the linear kernel only.")
        check_is_fitted(self)
        return to_host(self.model_.direction)

    def _warn_unfinished(self, results: list[TaskResult]) -> None:
        unfinished = [result for result in results if not result.is_converged]
        if not unfinished:
            return
        worst = max(result.gap for result in unfinished)
        warnings.warn(
            f"{len(unfinished)} of {len(results)} problems stopped at a gap of up to {worst:.3g} > "
            f"tol={self.tol:g} (max_iter={self.max_iter}). Raise `max_iter`, scale the columns of "
            "`X`, or use another kernel.",
            ConvergenceWarning,
            stacklevel=3,
        )

    # ---- predictions

    def decision_function(self, X: Any) -> Array:
        """Return how far rows are from the decision boundaries.

        Parameters
        ----------
        X : array-like (n, d)
            Rows; for a precomputed kernel their kernel values with all training rows.

        Returns
        -------
        array (n,), (n, k) or (n, k (k - 1) / 2)
            Two classes: positive for ``classes_[1]``. One against all: a value per class. One against one: a
            score per class, or with ``decision_function_shape="ovo"`` a value per pair (i, j), i < j,
            positive for i.
        """
        batch = self._open(X)
        return self._deliver(self._scores(batch), batch)

    def predict(self, X: Any) -> Array:
        """Return the class of each row.

        Parameters
        ----------
        X : array-like (n, d)
            Rows; for a precomputed kernel their kernel values with all training rows.

        Returns
        -------
        array (n,)
            Labels. One against one: the class with the most votes, and of those the one with the largest sum
            of decision values.
        """
        batch = self._open(X)
        xp = batch.place.xp
        scores = self._scores(batch, per_class=True)
        codes = xp.astype(scores > 0, xp.int64) if scores.ndim == 1 else xp.argmax(scores, axis=1)
        return self._deliver_labels(codes, batch)

    @available_if(_learns_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class; needs ``probability=True`` at fit.

        Parameters
        ----------
        X : array-like (n, d)
            Rows; for a precomputed kernel their kernel values with all training rows.

        Returns
        -------
        array (n, k)
            Rows sum to 1. The most probable class is not always the one `predict` names.
        """
        batch = self._open(X)
        return self._deliver(self._probabilities(batch), batch)

    @available_if(_learns_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of `predict_proba`."""
        batch = self._open(X)
        tiny = float(batch.place.xp.finfo(batch.float_dtype).smallest_normal)
        floor = batch.place.xp.maximum(self._probabilities(batch), tiny)
        return self._deliver(batch.place.xp.log(floor), batch)

    def _probabilities(self, batch: Batch) -> Array:
        xp = batch.place.xp
        values = self._decisions(batch)
        sigmoids = Sigmoids(*(from_host(part, batch.place, values.dtype) for part in self.sigmoids_))
        p = squash(xp, sigmoids, values)
        k = self.classes_.shape[0]
        if k == 2:
            return xp.concat([1.0 - p, p], axis=1)
        if self.model_.ends:
            return couple(xp, p, k)
        return p / xp.sum(p, axis=1, keepdims=True)

    def _decisions(self, batch: Batch) -> Array:
        """Return the decision values (n, p) of all tasks."""
        model: Machine = self._model_at(batch.place)
        x = batch.place.xp.astype(batch.table.numeric, model.weights.dtype, copy=False)
        return decide(batch.place.xp, model, x)

    def _scores(self, batch: Batch, *, per_class: bool = False) -> Array:
        values = self._decisions(batch)
        k = self.classes_.shape[0]
        if k == 2:
            return values[:, 0]
        if self.model_.ends and (per_class or self.decision_function_shape == "ovr"):
            return one_vs_rest_scores(batch.place.xp, values, k)
        return values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags
