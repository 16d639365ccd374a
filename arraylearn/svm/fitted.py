"""A fitted support vector classifier: what people read of it, and its predictions."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from arraylearn._typing import Array
from arraylearn.backend.namespace import from_host, to_host
from arraylearn.estimator import ArrayClassifier, Batch
from arraylearn.kernels import Kernel, Linear
from arraylearn.svm.machine import Machine, assemble, decide, host_vectors, one_vs_rest_scores
from arraylearn.svm.parameters import is_precomputed
from arraylearn.svm.probability import Sigmoids, couple, squash
from arraylearn.svm.tasks import Task, TaskResult, lay_out, slacks

__all__ = ["FittedMachine"]

Host = Any  # a NumPy array


def _learns_probabilities(estimator: Any) -> bool:
    """Whether the estimator has `predict_proba`."""
    if not estimator.probability:
        raise AttributeError("`predict_proba` needs `probability=True` at fit.")
    return True


class FittedMachine(ArrayClassifier):
    """Base of the support vector classifier: all that follows from solved tasks."""

    _accepts_missing: ClassVar[bool] = False
    _accepts_nominal: ClassVar[bool] = False

    kernel: Any
    kernel_: Kernel
    multiclass: Literal["ovo", "ova"]
    decision_function_shape: Literal["ovr", "ovo"]
    probability: bool
    sigmoids_: Sigmoids

    # ---- what comes out

    def _keep(self, batch: Batch, codes: Host, tasks: list[Task], results: list[TaskResult]) -> None:
        """Keep the machine and what people read of it."""
        layout = lay_out(codes, tasks, results, self.classes_.shape[0] if self._is_paired() else 0)
        is_support = (layout != 0).any(axis=0)
        by_class = [((codes == c) & is_support).nonzero()[0] for c in range(self.classes_.shape[0])]
        self.support_ = np.concat(by_class)
        self.n_support_ = np.asarray([idx.shape[0] for idx in by_class])
        self.dual_coef_ = layout[:, self.support_]
        self.intercept_ = np.asarray([result.intercept for result in results])
        self.margin_ = np.asarray([result.margin for result in results])
        self.objective_ = np.asarray([result.objective for result in results])
        self.gap_ = np.asarray([result.gap for result in results])
        self.n_iter_ = np.asarray([result.n_iter for result in results])
        self.converged_ = np.asarray([result.is_converged for result in results])
        self.slack_ = slacks(codes.shape[0], tasks, results)
        self.model_ = self._machine(batch)
        self.support_vectors_ = host_vectors(self.model_)

    def _is_paired(self) -> bool:
        return self.multiclass == "ovo" and self.classes_.shape[0] > 2

    def _machine(self, batch: Batch) -> Machine:
        """Assemble the decision rule where it was computed."""
        ends = tuple(self.n_support_.cumsum().tolist()) if self._is_paired() else ()
        x = batch.table.numeric
        return assemble(
            batch.place, self.kernel_, x, self.support_, self.dual_coef_, self.intercept_, ends=ends
        )

    @property
    def coef_(self) -> Host:
        """Weights of the columns (p, d), for the linear kernel."""
        if not isinstance(self.__dict__.get("kernel_", Linear()), Linear):
            raise AttributeError("`coef_` exists for the linear kernel only.")
        check_is_fitted(self)
        return to_host(self.model_.direction)

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
        if "sigmoids_" not in self.__dict__:
            raise NotFittedError("`predict_proba` needs `probability=True` at fit, not only afterwards.")
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
