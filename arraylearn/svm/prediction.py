"""Predictions of a fitted support vector classifier."""

from __future__ import annotations

from typing import Any, Literal

from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if

from arraylearn._typing import Array, HostArray
from arraylearn.backend.namespace import from_host
from arraylearn.estimator import ArrayClassifier, Batch
from arraylearn.svm.machine import MachineEstimator, score_pairs
from arraylearn.svm.probability import Sigmoids, couple, squash

__all__ = ["PredictingSVC"]


def _learns_probabilities(estimator: Any) -> bool:
    """Return True if the estimator has `predict_proba`; raise AttributeError, as `hasattr` needs, if not."""
    if not estimator.probability:
        raise AttributeError("`predict_proba` needs `probability=True` at fit.")
    return True


class PredictingSVC(MachineEstimator, ArrayClassifier):
    """Base of the support vector classifier: what a fitted one computes for new rows."""

    decision_function_shape: Literal["ovr", "ovo"]
    break_ties: bool
    probability: bool
    sigmoids_: Sigmoids

    @property
    def coef_(self) -> HostArray:
        """Column weights (p, d), for the linear kernel."""
        return self._column_weights("coef_")

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
            Two classes: positive for ``classes_[1]``. One against the rest: a value per class. One
            against one: a score per class, or with ``decision_function_shape="ovo"`` a value per pair (i, j),
            i < j, positive for i.
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
            Labels. One against one: the class with the most votes; of several the first one, or with
            `break_ties` the one with the largest sum of decision values.
        """
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError(
                "`break_ties` must be False with decision_function_shape='ovo', which scores no class; "
                "got True. Use decision_function_shape='ovr'."
            )
        batch = self._open(X)
        xp = batch.place.xp
        scores = self._scores(batch, for_labels=True)
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
        """Return the probability (n, k) of each class."""
        if len(self.classes_) == 1:
            return batch.place.xp.ones_like(self._decisions(batch))
        if "sigmoids_" not in self.__dict__:
            raise NotFittedError("`predict_proba` needs `probability=True` at fit, not only afterwards.")
        xp = batch.place.xp
        values = self._decisions(batch)
        sigmoids = Sigmoids(*(from_host(part, batch.place, values.dtype) for part in self.sigmoids_))
        p = squash(xp, sigmoids, values)
        k = self.classes_.shape[0]
        if k == 2:
            return xp.concat([1.0 - p, p], axis=1)
        if self.model_.is_pairwise:
            return couple(xp, p, k)
        return p / xp.sum(p, axis=1, keepdims=True)

    def _scores(self, batch: Batch, *, for_labels: bool = False) -> Array:
        """Return what `decision_function` does, or scores (n, k) that are largest for the predicted class."""
        values = self._decisions(batch)
        if self.classes_.shape[0] == 2:
            return values[:, 0]
        pairs = self._pairs_at(batch.place, self._model_at(batch.place))
        if pairs is not None and (for_labels or self.decision_function_shape == "ovr"):
            votes, scores = score_pairs(batch.place.xp, values, pairs)
            return votes if for_labels and not self.break_ties else scores
        return values
