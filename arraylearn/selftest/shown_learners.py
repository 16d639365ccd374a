"""The learners that `arraylearn demo` and `arraylearn selftest` run, each with a built-in data set."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from arraylearn import datasets

__all__ = ["Learner", "learners"]


class Learner(NamedTuple):
    """A learner and the data that it is fitted to."""

    name: str
    make: Callable[..., Any]  # takes backend=
    data: Any


# (name, module, factory, options, data set)
_LEARNERS: list[tuple[str, str, str, dict[str, Any], str]] = [
    ("naive Bayes", "bayes", "NaiveBayesClassifier", {}, "mammals"),
    ("naive Bayes", "bayes", "NaiveBayesClassifier", {}, "iris"),
    ("full Bayes", "bayes", "FullBayesClassifier", {}, "wine"),
    ("decision tree", "tree", "DecisionTreeClassifier", {}, "breast_cancer"),
    ("ID3", "tree", "id3", {}, "tennis"),
    ("C4.5", "tree", "c45", {}, "drug"),
    ("CART", "tree", "cart", {}, "cart_toy"),
    ("sequential covering", "rules", "SequentialCoveringClassifier", {}, "people"),
    ("RIPPER", "rules", "RipperClassifier", {"random_state": 0}, "wine"),
    ("random forest", "forest", "RandomForestClassifier", {"n_estimators": 20, "random_state": 0}, "wine"),
    ("AdaBoost", "boosting", "AdaBoostClassifier", {"n_estimators": 10}, "breast_cancer"),
    ("gradient boosting", "boosting", "GradientBoostingClassifier", {"n_estimators": 10}, "wine"),
    ("SVC, gaussian", "svm", "SVC", {}, "iris"),
    ("SVC, linear", "svm", "SVC", {"kernel": "linear"}, "wine"),
]


def learners() -> Iterator[Learner]:
    """Yield every learner with its data."""
    for name, module, factory, options, data in _LEARNERS:
        made = getattr(importlib.import_module(f"arraylearn.{module}"), factory)
        dataset = getattr(datasets, f"load_{data}")()
        yield Learner(name, _bind(made, options, dataset), dataset)


def _bind(factory: Callable[..., Any], options: dict[str, Any], dataset: Any) -> Callable[..., Any]:
    def make(backend: str | None = None) -> Any:
        chosen = dict(options, backend=backend)
        if dataset.categorical_features:
            chosen["categorical_features"] = list(dataset.categorical_features)
        return factory(**chosen)

    return make
