"""Compile the bodies for NumPy ahead of time, by small fits of every learner that has compiled bodies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from arraylearn.backend.dispatch import use_compiled
from arraylearn.backend.random import as_generator

__all__ = ["compile_bodies"]

_ROWS, _COLUMNS, _VALUES = 600, 4, 9


def compile_bodies(on_learner: Callable[[str], None] | None = None) -> dict[str, float]:
    """Fit and predict with every learner that has compiled bodies; return the seconds each took.

    `on_learner` is called with the name of each learner when it is done. Without Numba this raises
    BackendUnavailableError.
    """
    seconds = {}
    with use_compiled("always"):
        for name, make in _learners():
            start = time.perf_counter()
            for X, y in _tables():
                make().fit(X, y).predict(X)
            seconds[name] = time.perf_counter() - start
            if on_learner is not None:
                on_learner(name)
    return seconds


def _learners() -> Iterator[tuple[str, Callable[[], Any]]]:
    import arraylearn as al

    yield "exact trees", al.DecisionTreeClassifier
    yield "binned trees", lambda: al.DecisionTreeClassifier(splitter="hist")
    yield "trees on drawn columns", lambda: al.DecisionTreeClassifier(max_features=2, random_state=0)
    yield "forests", lambda: al.RandomForestClassifier(n_estimators=2, random_state=0)
    yield "extremely randomized trees", lambda: al.ExtraTreesClassifier(n_estimators=2, random_state=0)
    yield "AdaBoost", lambda: al.AdaBoostClassifier(n_estimators=2)
    yield "boosting", lambda: al.GradientBoostingClassifier(n_estimators=2)
    yield "boosting, best first", lambda: al.GradientBoostingClassifier(n_estimators=2, max_leaf_nodes=4)
    yield "rules", lambda: al.RipperClassifier(random_state=0)
    yield "support vectors", al.SVC
    yield "support vectors of large problems", lambda: al.SVC(solver="decomposition")


def _tables() -> Iterator[tuple[Any, Any]]:
    """Two and three classes, in both float dtypes, with many distinct values and with few."""
    rng = as_generator(0)
    for n_classes in (2, 3):
        y = rng.integers(0, n_classes, _ROWS)
        for dtype in (np.float32, np.float64):
            numbers = rng.normal(size=(_ROWS, _COLUMNS)) + y[:, None]
            yield np.astype(numbers, dtype), y
            yield np.astype(np.round(numbers * (_VALUES / 6)), dtype), y
