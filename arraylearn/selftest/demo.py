"""`arraylearn demo`: each learner trained and judged on built-in data, with its times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from arraylearn.selftest.shown_learners import learners

__all__ = ["DemoRow", "run_demo"]


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
        model = learner.make(backend)
        model.fit(X, y)  # not timed: the first call also imports and compiles
        start = time.perf_counter()
        model.fit(X, y)
        fitted = time.perf_counter()
        predicted = model.predict(X)
        finished = time.perf_counter()
        accuracy = float((predicted == y).mean())
        yield DemoRow(learner.name, learner.data.name, accuracy, fitted - start, finished - fitted)
