"""The learners that `arraylearn demo` and `arraylearn selftest` run, each with a built-in data set."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from arraylearn import datasets

__all__ = ["DemoRow", "Learner", "learners", "run_demo"]


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
        dataset = getattr(datasets, f"load_{data}")()
        if dataset.categorical_features:
            options = {**options, "categorical_features": list(dataset.categorical_features)}
        made = getattr(importlib.import_module(f"arraylearn.{module}"), factory)
        yield Learner(name, partial(made, **options), dataset)


class DemoRow(NamedTuple):
    """One line of the demo's table."""

    learner: str
    data: str
    accuracy: float  # on the training rows
    fit_seconds: float
    predict_seconds: float


def run_demo(backend: str | None = None) -> Iterator[DemoRow]:
    """Train each learner on `backend` (default NumPy) and return its accuracy on the training rows."""
    for learner in learners():
        X, y = learner.data.X, learner.data.y
        model = learner.make(backend=backend)
        model.fit(X, y)  # not timed: the first call also imports and compiles
        start = time.perf_counter()
        model.fit(X, y)
        fitted = time.perf_counter()
        predicted = model.predict(X)
        finished = time.perf_counter()
        accuracy = float((predicted == y).mean())
        yield DemoRow(learner.name, learner.data.name, accuracy, fitted - start, finished - fitted)
