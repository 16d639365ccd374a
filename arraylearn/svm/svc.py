"""The support vector classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.namespace import HOST, is_on_host
from arraylearn.backend.random import RandomState
from arraylearn.checks import check_choice, check_class_weight, check_flag, refuse
from arraylearn.estimator import Batch
from arraylearn.kernels.objects import Linear
from arraylearn.progress import LONG_RUN, warn_of_cost
from arraylearn.svm.machine import assemble, check_memory, check_price, host_vectors, read_only
from arraylearn.svm.prediction import PredictingSVC
from arraylearn.svm.probability import calibrate
from arraylearn.svm.solvers.dual import KernelMatrix, Settings, SolverName
from arraylearn.svm.tasks import (
    LastFit,
    Task,
    TaskResult,
    lay_out_pairs,
    lay_out_tasks,
    make_tasks,
    restart,
    slacks,
    solve_tasks,
)
from arraylearn.weights import read_weights

__all__ = ["SVC"]

# A task of n rows with a kernel that is not linear takes about so many seconds times n squared: 1.2 s for
# 16,000 noisy rows of 50 columns.
_SECONDS_PER_PAIR = 4e-9
_CHEAPER = (
    "kernel='linear' and GradientBoostingClassifier take seconds; a tenth of the rows takes a hundredth of "
    "the time."
)


@dataclass(kw_only=True, eq=False, repr=False)
class SVC(PredictingSVC):
    r"""Support vector classifier with kernels, soft and hard margins, for two and more classes.

    Minimizes :math:`\tfrac12 \lVert w \rVert^2 + \sum_i C_i \xi_i` with
    :math:`y_i (\langle w, \phi(x_i) \rangle + b) \ge 1 - \xi_i`, through its dual, to LIBSVM's stopping rule.

    Parameters
    ----------
    C : float
        Price of the slack of a row, its distance beyond its margin; ``inf`` asks for a hard margin and raises
        where the rows are not separable. ``sample_weight`` and ``class_weight`` multiply it row by row.
    kernel : str, Kernel or callable
        ``"linear"``, ``"poly"``, ``"rbf"`` (``"gaussian"``), ``"sigmoid"``, ``"precomputed"`` (then `X` holds
        kernel values), a kernel object of `arraylearn.kernels` (sums and products too), or a function of two
        tables of rows.
    degree, gamma, coef0
        Of the kernel, see `arraylearn.kernels.as_kernel`; ``gamma="scale"`` is 1 / (columns x variance of X),
        ``"auto"`` 1 / columns.
    multiclass : {"ovo", "ovr"}
        How several classes are learned. One against one: every pair of classes votes. One against the rest:
        the largest decision value wins.
    probability : bool
        Whether to learn `predict_proba`: a sigmoid of each task's decision values, fitted to five-fold
        cross-validation (five more fits), and for one against one coupled over the pairs.
    decision_function_shape : {"ovr", "ovo"}
        For one against one: whether `decision_function` gives a score per class or a value per pair.
    break_ties : bool
        For one against one: whether the sums of the decision values decide between classes of equal votes, as
        they do in `decision_function`; else the first of them wins, as in LIBSVM. Not with
        ``decision_function_shape="ovo"``.
    solver : {"auto", "decomposition", "newton", "dense"}
        Working-set decomposition; Newton's method in the columns (linear kernel only); whole kernel
        matrices in memory, all tasks as one batch. "auto" takes the last for tasks of up to 700 rows (3,000
        where Numba compiles it and the kernel is not linear), "newton" for the linear kernel, decomposition
        otherwise, and Newton's method on a low-rank factor of the kernel matrix where pair steps converge
        slowly.
    tol : float
        Largest violation of the optimality conditions at which to stop (LIBSVM's ``eps``). Where rounding
        does not allow it, the solver stops with a warning that states the violation reached.
    max_iter : int
        Most steps per task (pairs of multipliers, or Newton steps); -1 for no limit.
    cache_size : float
        Megabytes for kernel values.
    class_weight : dict, "balanced" or None
        Factors of C by class; "balanced" makes them inversely proportional to the classes' weights.
    warm_start : bool
        Start from the multipliers of the last fit where that had as many rows and the same tasks.
    random_state : int, Generator or None
        Seed of the folds of `probability`.
    verbose : int or callable
        1: a progress bar with the gap; a callable receives the number of steps and the gap.
    backend : str, optional
        Where to compute; default: where the input is.

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
        layout; for one against the rest a row per class.
    intercept_ : array (p,)
        Of each of the p tasks.
    coef_ : array (p, d)
        Column weights; linear kernel only.
    margin_ : array (p,)
        Width 2 / ||w|| of the margin of each task.
    slack_ : array (n,) or (n, p)
        Slack of each training row in each task; 0 where it is not part of the task.
    objective_, gap_, n_iter_, converged_ : arrays (p,)
        Dual objective, remaining violation, steps, and whether the tolerance was met.
    last_fit_ : LastFit
        The tasks and multipliers from which the next fit starts; with ``warm_start=True`` only.

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

    C: float = 1.0
    multiclass: Literal["ovo", "ovr"] = "ovo"
    probability: bool = False
    decision_function_shape: Literal["ovr", "ovo"] = "ovr"
    break_ties: bool = False
    solver: SolverName = "auto"
    class_weight: dict[Any, float] | Literal["balanced"] | None = None
    warm_start: bool = False
    random_state: RandomState = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from labelled rows.

        Parameters
        ----------
        X : array-like (n, d)
            Numbers; for a precomputed kernel the kernel values (n, n).
        y : array-like (n,)
            Labels; of one class alone it learns to predict that.
        sample_weight : array-like (n,), optional
            Factors of C, row by row.
        """
        self._check_parameters()
        before: LastFit | None = getattr(self, "last_fit_", None) if self.warm_start else None
        with self._fitting():
            batch, labels = self._open_fit(X, y)
            bound = self._bounds(labels.codes, sample_weight)
            codes, k = labels.codes, self.classes_.shape[0]
            matrix, tasks = self._make_matrix(batch, bound), make_tasks(self.multiclass, codes, k)
            if not matrix.is_linear and is_on_host(batch.place):
                seconds = sum(_SECONDS_PER_PAIR * task.rows.shape[0] ** 2 for task in tasks)
                if seconds >= LONG_RUN:
                    warn_of_cost("SVC", seconds, _CHEAPER)
            with self._reporting() as settings:
                results = solve_tasks(matrix, tasks, bound, settings, restart(before, tasks, bound))
                self._keep(matrix, codes, tasks, results)
                if self.probability and k > 1:
                    self.sigmoids_ = calibrate(matrix, tasks, bound, settings, self.random_state)
            if self.warm_start:
                self.last_fit_ = LastFit(tasks, [result.beta for result in results], bound)
        self._warn_unfinished(results)
        return self

    # ---- before the solve

    def _check_parameters(self) -> None:
        check_price(self.C)
        super()._check_parameters()
        check_choice("multiclass", self.multiclass, ("ovo", "ovr"))
        check_choice("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
        check_flag("break_ties", self.break_ties)
        check_choice("solver", self.solver, get_args(SolverName))
        is_linear = isinstance(self.kernel, Linear) or (
            isinstance(self.kernel, str) and self.kernel == "linear"
        )
        if self.solver == "newton" and not is_linear:
            raise refuse("solver", "'newton' is for the linear kernel only", f"kernel={self.kernel!r}")

    def _settings(self) -> Settings:
        return super()._settings()._replace(solver=self.solver)

    def _bounds(self, codes: HostArray, sample_weight: Any) -> HostArray:
        """Return the C of each row, on the host."""
        weight = read_weights(sample_weight, codes.shape[0], HOST)
        weight = np.ones(codes.shape[0]) if weight is None else weight
        factor = _class_factors(self.class_weight, self.classes_, codes, weight)
        bound: HostArray = factor[codes] * weight
        # rows without weight are left out even where C is infinite (inf * 0 is NaN)
        bound[bound > 0] *= float(self.C)
        return bound

    def _make_matrix(self, batch: Batch, weight: HostArray | None) -> KernelMatrix:
        if self.solver == "dense":
            n_bytes = 24 * batch.table.n_rows**2
            remedy = "Raise it, or use solver='decomposition'."
            check_memory(n_bytes, self.cache_size, "solver='dense' with complete kernel matrices", remedy)
        return super()._make_matrix(batch, weight)

    # ---- after the solve

    def _keep(
        self, matrix: KernelMatrix, codes: HostArray, tasks: list[Task], results: list[TaskResult]
    ) -> None:
        """Set the fitted attributes."""
        k = self.classes_.shape[0]
        is_pairwise = self.multiclass == "ovo" and k > 2
        layout = (lay_out_pairs if is_pairwise else lay_out_tasks)(codes, tasks, results)
        is_support = (layout != 0).any(axis=0)
        by_class = [((codes == c) & is_support).nonzero()[0] for c in range(k)]
        support, sizes = np.concat(by_class), np.asarray([idx.shape[0] for idx in by_class])
        weights, intercept = layout[:, support], np.asarray([result.intercept for result in results])
        ends = tuple(sizes.cumsum().tolist()) if is_pairwise else ()
        machine = assemble(matrix, support, weights, intercept, ends=ends)
        self.kernel_, self.model_ = matrix.kernel, machine
        self.support_, self.n_support_, self.support_vectors_ = support, sizes, host_vectors(machine)
        self.dual_coef_, self.intercept_ = read_only(weights), read_only(intercept)
        self.margin_ = np.asarray([result.margin for result in results])
        self.slack_ = slacks(codes.shape[0], tasks, results)
        self.objective_ = np.asarray([result.objective for result in results])
        self.gap_ = np.asarray([result.gap for result in results])
        self.n_iter_ = np.asarray([result.n_iter for result in results])
        self.converged_ = np.asarray([result.is_converged for result in results])


def _class_factors(
    class_weight: dict[Any, float] | str | None, classes: HostArray, codes: HostArray, weight: HostArray
) -> HostArray:
    """Return the factor of C of each class (k,), on the host.

    For "balanced", the total weight over k times the weight of the class; 0 for a class without weight.
    """
    check_class_weight(class_weight)
    k = classes.shape[0]
    factors = np.ones((k,), dtype=np.float64)
    if class_weight is None:
        return factors
    if isinstance(class_weight, str):
        for c in range(k):
            total = weight[codes == c].sum()
            factors[c] = weight.sum() / (k * total) if total > 0 else 0.0
        return factors
    known = classes.tolist()
    for label, factor in class_weight.items():
        if label not in known:
            raise refuse("class_weight", "must name classes of `y`", repr(label))
        if not factor > 0:
            raise refuse("class_weight", "must hold positive numbers", f"{factor!r} for {label!r}")
        factors[known.index(label)] = float(factor)
    return factors
