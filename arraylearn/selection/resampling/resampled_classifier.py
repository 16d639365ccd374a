"""A classifier that is trained on resampled rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from arraylearn.estimator import all_or_nothing, forget_fit

__all__ = ["ResampledClassifier"]


@dataclass(eq=False, repr=False)
class ResampledClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A classifier that is trained on resampled rows; predictions are not resampled.

    Parameters
    ----------
    estimator : classifier
        The classifier to train.
    sampler : object with ``fit_resample``
        Balances the training rows; of `al.resample` or of imbalanced-learn.

    Attributes
    ----------
    estimator_ : classifier
        Fitted on the resampled rows.

    Examples
    --------
    >>> import arraylearn as al
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> model = al.resample.ResampledClassifier(GaussianNB(), al.resample.SMOTE(random_state=0))
    >>> model.fit(X[:120], y[:120]).predict(X[[0, 60, 110]])
    array([0, 1, 2])
    """

    estimator: Any
    sampler: Any

    def fit(self, X: Any, y: Any) -> Self:
        """Resample the rows, then fit the classifier."""
        with all_or_nothing(lambda: forget_fit(self)):
            X_new, y_new = clone(self.sampler).fit_resample(X, y)
            self.estimator_ = clone(self.estimator).fit(X_new, y_new)
            self.classes_ = self.estimator_.classes_
            for name in ("n_features_in_", "feature_names_in_"):
                if hasattr(self.estimator_, name):
                    setattr(self, name, getattr(self.estimator_, name))
        return self

    def predict(self, X: Any) -> Any:
        """Predict class labels."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Predict class probabilities."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @available_if(lambda self: hasattr(self.estimator, "predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Predict logarithms of class probabilities."""
        check_is_fitted(self)
        return self.estimator_.predict_log_proba(X)

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Return the decision values."""
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__()
        tags.input_tags = inner.input_tags
        tags.array_api_support = inner.array_api_support
        return tags
