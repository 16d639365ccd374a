"""Boosted trees and forests beside LightGBM, XGBoost and scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from arraylearn.bench.case import Case, Size, learner_case
from arraylearn.bench.data import Shape, curved
from arraylearn.bench.peers import load_peer
from arraylearn.boosting import AdaBoostClassifier, GradientBoostingClassifier
from arraylearn.forest import RandomForestClassifier

__all__ = ["CASES"]

_TREES = 100
_SHAPES: dict[Size, Shape] = {
    "small": Shape(10_000, 20, 2),
    "medium": Shape(100_000, 20, 2),
    "large": Shape(1_000_000, 20, 2),
}


def _of_classes(n_classes: int) -> dict[Size, Shape]:
    return {size: shape._replace(n_classes=n_classes) for size, shape in _SHAPES.items()}


def _lightgbm(shape: Shape, n_threads: int) -> Any:
    return load_peer("lightgbm", "LGBMClassifier")(
        n_estimators=_TREES, max_depth=6, num_leaves=64, n_jobs=n_threads, verbose=-1
    )


def _xgboost(shape: Shape, n_threads: int) -> Any:
    return load_peer("xgboost", "XGBClassifier")(
        n_estimators=_TREES, max_depth=6, learning_rate=0.1, tree_method="hist", n_jobs=n_threads
    )


def _histogram(shape: Shape, n_threads: int) -> Any:
    return load_peer("sklearn.ensemble", "HistGradientBoostingClassifier")(
        max_iter=_TREES, max_depth=6, max_leaf_nodes=64, early_stopping=False
    )


def _forest(n_trees: int) -> Callable[[Shape, int], Any]:
    def make(shape: Shape, n_threads: int) -> Any:
        peer = load_peer("sklearn.ensemble", "RandomForestClassifier")
        return peer(n_trees, random_state=0, n_jobs=n_threads)

    return make


def _forest_fit(n_trees: int, n_classes: int) -> Case:
    return learner_case(
        "ensemble",
        f"forest, {n_trees} trees, {n_classes} classes",
        bar="forest",
        shapes=_of_classes(n_classes),
        data=curved,
        ours=lambda shape: RandomForestClassifier(n_estimators=n_trees, random_state=0),
        peers={"scikit-learn": _forest(n_trees)},
    )


def _forest_prediction(n_classes: int) -> Case:
    return learner_case(
        "ensemble",
        f"forest, {_TREES} trees, {n_classes} classes",
        bar="forest prediction",
        shapes=_of_classes(n_classes),
        data=curved,
        ours=lambda shape: RandomForestClassifier(n_estimators=_TREES, random_state=0),
        peers={"scikit-learn": _forest(_TREES)},
        job="predict",
        method="predict_proba",
    )


def _adaboost(shape: Shape, n_threads: int) -> Any:
    return load_peer("sklearn.ensemble", "AdaBoostClassifier")(random_state=0)


_BOOSTED = {"lightgbm": _lightgbm, "xgboost": _xgboost, "scikit-learn": _histogram}
_BARS: dict[Size, str] = {"small": "boosting, few rows", "medium": "boosting", "large": "boosting"}
_QUERIES = {10_000: 100_000, 100_000: 200_000, 1_000_000: 1_000_000}

CASES = [
    learner_case(
        "ensemble",
        "boosting, 100 trees, 2 classes",
        bar=_BARS,
        shapes=_SHAPES,
        data=curved,
        ours=lambda shape: GradientBoostingClassifier(n_estimators=_TREES),
        peers=_BOOSTED,
    ),
    learner_case(
        "ensemble",
        "boosting, 100 trees, 3 classes",
        bar=_BARS,
        shapes=_of_classes(3),
        data=curved,
        ours=lambda shape: GradientBoostingClassifier(n_estimators=_TREES),
        peers=_BOOSTED,
    ),
    learner_case(
        "ensemble",
        "boosting, 100 trees",
        bar="boosted prediction",
        shapes=_SHAPES,
        data=curved,
        ours=lambda shape: GradientBoostingClassifier(n_estimators=_TREES),
        peers=_BOOSTED,
        job="predict",
        method="predict_proba",
        n_queries=lambda shape: _QUERIES.get(shape.n_rows, shape.n_rows),
    ),
    _forest_fit(_TREES, 2),
    _forest_fit(_TREES // 2, 3),  # half of the trees say as much of the speed, in half of the time
    _forest_fit(_TREES // 2, 10),
    _forest_prediction(2),
    _forest_prediction(3),
    learner_case(
        "ensemble",
        "AdaBoost, 50 stumps",
        bar=None,
        shapes=_SHAPES,
        data=curved,
        ours=lambda shape: AdaBoostClassifier(random_state=0),
        peers={"scikit-learn": _adaboost},
    ),
]
