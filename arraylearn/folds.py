"""Records of cross-validation that the families share with `selection`: rows, folds, candidates, answers.

A family that can compute several candidates or folds together offers a function

``(estimator, candidates, sample, folds) -> iterator of (candidate, fold, model or Answers)``

It may yield in any order. A pair (candidate, fold) that it does not yield is fitted by the ordinary loop of
`selection`, which also raises the errors of invalid input and parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from arraylearn._typing import HostArray
from arraylearn.backend.namespace import is_array, to_host
from arraylearn.table import Labels, encode_labels
from arraylearn.table.subsets import count_rows, take_columns, take_rows

__all__ = [
    "Answers",
    "Candidate",
    "Fold",
    "LabelledRows",
    "group_alike",
    "open_sample",
    "set_candidate",
    "shallow_copy",
]

Candidate = dict[str, Any]  # values of parameters to try
RESPONSES = ("predict", "predict_proba", "predict_log_proba", "decision_function")


class Fold(NamedTuple):
    """Row numbers, on the host."""

    train: HostArray
    test: HostArray


class LabelledRows(NamedTuple):
    """The rows that models are judged on, as the user passed them."""

    X: Any
    y: Any
    labels: Labels  # of y, on the host
    sample_weight: HostArray | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.labels.codes.shape[0])

    def fit(self, estimator: Any, rows: HostArray | None = None) -> Any:
        """Fit an estimator on some of the rows (default: all) and return it."""
        X, y, weight = self.X, self.y, self.sample_weight
        if rows is not None:
            X, y, weight = self.training_rows(estimator, rows)
        estimator.fit(X, y, **({} if weight is None else {"sample_weight": weight}))
        return estimator  # `fit` of other libraries may return nothing

    def training_rows(self, estimator: Any, rows: HostArray) -> tuple[Any, Any, HostArray | None]:
        """Return X, y and the weights of some rows, as the estimator's `fit` takes them."""
        weight = None if self.sample_weight is None else self.sample_weight.take(rows)
        return self.rows(estimator, rows, rows), take_rows(self.y, rows), weight

    def rows(self, estimator: Any, rows: HostArray, train: HostArray) -> Any:
        """Return X of some rows, as an estimator fitted on the rows `train` takes it."""
        some = take_rows(self.X, rows)
        # a kernel matrix has a column per training row
        return take_columns(some, train) if get_tags(estimator).input_tags.pairwise else some

    def host_labels(self, rows: HostArray) -> HostArray:
        """Return the labels of some rows on the host."""
        return self.labels.classes.take(self.labels.codes.take(rows))


def open_sample(X: Any, y: Any, sample_weight: Any = None) -> LabelledRows:
    """Check that rows, labels and weights belong together."""
    labels = encode_labels(y)
    n = labels.codes.shape[0]
    if count_rows(X) != n:
        raise ValueError(
            "`X` and `y` must have as many rows; found input variables with inconsistent numbers of samples: "
            f"{[count_rows(X), n]}."
        )
    if sample_weight is not None:
        sample_weight = to_host(sample_weight) if is_array(sample_weight) else np.asarray(sample_weight)
        if sample_weight.shape != (n,):
            raise ValueError(
                f"`sample_weight` must have one number per row ({n}); got shape {sample_weight.shape}."
            )
    return LabelledRows(X, y, labels, sample_weight)


# ---- candidates


def set_candidate(estimator: Any, candidate: Candidate) -> Any:
    """Return an unfitted copy of an estimator with a candidate's parameters."""
    return clone(estimator).set_params(**clone(candidate, safe=False))


def group_alike(models: Sequence[Any], free: set[str]) -> list[list[int]]:
    """Group the positions of models that agree in all parameters except the free ones."""
    groups: dict[str, list[int]] = {}
    for c, model in enumerate(models):
        fixed = {name: value for name, value in model.get_params(deep=False).items() if name not in free}
        groups.setdefault(repr(fixed), []).append(c)
    return list(groups.values())


def shallow_copy(estimator: Any) -> Any:
    """Return another object with the same parameters and fitted attributes (``copy`` may move them)."""
    twin = object.__new__(type(estimator))
    twin.__dict__.update(estimator.__dict__)
    twin.__dict__.pop("_cache", None)  # forms of the model that were made for predictions are not shared
    return twin


# ---- answers


def _answering(name: str) -> Any:
    """Make the method of this name, which exists only for objects that have its answer."""

    def answer(self: Answers, X: Any = None) -> HostArray:
        """Return the known result; `X` is not read."""
        return self.answer(name)

    answer.__name__ = name  # scikit-learn's scorers look methods up by this name
    return available_if(lambda self: name in self.responses)(answer)


class Answers(ClassifierMixin, BaseEstimator):
    """A classifier whose predictions for the test rows are already known, so that any metric can be computed.

    `classes` (k,) is None for an estimator without `classes_`. `responses` maps names of methods ("predict",
    "predict_proba", ...) to functions that compute the result; each is called at most once.
    """

    def __init__(self, classes: HostArray | None, responses: Mapping[str, Callable[[], HostArray]]) -> None:
        self.classes = classes
        self.responses = responses
        if classes is not None:
            self.classes_ = classes
        self._known: dict[str, HostArray] = {}

    @classmethod
    def of(cls, estimator: Any, X: Any) -> Answers:
        """Make the answers of a fitted classifier of any library; each is computed on first use."""
        known = [name for name in RESPONSES if hasattr(estimator, name)]
        return cls(
            getattr(estimator, "classes_", None),
            {name: lambda name=name: getattr(estimator, name)(X) for name in known},  # type: ignore[misc]
        )

    def answer(self, name: str) -> HostArray:
        """Return the result of a method as a NumPy array."""
        if name not in self._known:
            value = self.responses[name]()
            self._known[name] = to_host(value) if is_array(value) else np.asarray(value)
        return self._known[name]

    predict = _answering("predict")
    predict_proba = _answering("predict_proba")
    predict_log_proba = _answering("predict_log_proba")
    decision_function = _answering("decision_function")
