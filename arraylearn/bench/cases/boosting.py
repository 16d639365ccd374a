"""Boosted trees beside LightGBM, XGBoost and scikit-learn; AdaBoost beside scikit-learn's."""

from __future__ import annotations

from functools import partial
from typing import Any

from arraylearn.bench.case import FIT, Case, Learners, TimedCalls, learner_case, shapes_of
from arraylearn.bench.data import curved, mixed_categories
from arraylearn.bench.peers import peer_maker
from arraylearn.boosting import AdaBoostClassifier, GradientBoostingClassifier

__all__ = ["CASES", "boosted_learners"]

_TREES, _COLUMNS = 100, 20
_QUERIES = {10_000: 100_000, 100_000: 200_000, 1_000_000: 1_000_000}  # rows to learn from -> rows to predict


def boosted_learners() -> Learners:
    """Return 100 rounds of trees of depth 6 with at most 64 leaves: ours and three peers'."""
    limits: dict[str, Any] = {"n_estimators": _TREES, "max_depth": 6}
    return Learners(
        lambda shape: GradientBoostingClassifier(n_estimators=_TREES),
        {
            "lightgbm": peer_maker(
                "lightgbm", "LGBMClassifier", threads="n_jobs", **limits, num_leaves=64, verbose=-1
            ),
            "xgboost": peer_maker(
                "xgboost",
                "XGBClassifier",
                threads="n_jobs",
                **limits,
                learning_rate=0.1,
                tree_method="hist",
                enable_categorical=True,
            ),
            "scikit-learn": peer_maker(
                "sklearn.ensemble",
                "HistGradientBoostingClassifier",
                max_iter=_TREES,
                max_depth=6,
                max_leaf_nodes=64,
                early_stopping=False,
                categorical_features="from_dtype",
            ),
        },
    )


def _nominal_learners() -> Learners:
    """Return 100 rounds with default limits: ours and two peers', all with nominal columns."""
    columns = list(range(_COLUMNS // 2))
    return Learners(
        lambda shape: GradientBoostingClassifier(n_estimators=_TREES, categorical_features=columns),
        {
            "lightgbm": peer_maker(
                "lightgbm",
                "LGBMClassifier",
                threads="n_jobs",
                n_estimators=_TREES,
                categorical_feature=columns,
                verbose=-1,
            ),
            "xgboost": peer_maker(
                "xgboost",
                "XGBClassifier",
                threads="n_jobs",
                n_estimators=_TREES,
                tree_method="hist",
                enable_categorical=True,
                feature_types=["c"] * len(columns) + ["q"] * (_COLUMNS - len(columns)),
            ),
        },
    )


_ADABOOST = peer_maker("sklearn.ensemble", "AdaBoostClassifier", random_state=0)
_shapes = partial(shapes_of, 10_000, 100_000, 1_000_000, _COLUMNS)


def _boosted(name: str, bar: str, n_classes: int, task: TimedCalls = FIT) -> Case:
    shapes = _shapes(n_classes)
    return learner_case(
        "boosting", name, boosted_learners(), bars=(bar,), shapes=shapes, data=curved, task=task
    )


CASES = [
    _boosted("boosting, 100 trees, 2 classes", "boosting", 2),
    _boosted("boosting, 100 trees, 3 classes", "boosting", 3),
    _boosted(
        "boosting, 100 trees",
        "boosted prediction",
        2,
        TimedCalls("predict", "predict_proba", lambda shape: _QUERIES.get(shape.n_rows, shape.n_rows)),
    ),
    learner_case(
        "boosting",
        "boosting, 100 trees, 10 nominal columns",
        _nominal_learners(),
        bars=("nominal boosting",),
        shapes=_shapes(2),
        data=mixed_categories,
    ),
    learner_case(
        "boosting",
        "AdaBoost, 50 stumps",
        Learners(lambda shape: AdaBoostClassifier(random_state=0), {"scikit-learn": _ADABOOST}),
        bars=(),
        shapes=_shapes(2),
        data=curved,
    ),
]
