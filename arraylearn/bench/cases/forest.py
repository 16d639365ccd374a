"""Random forests and extremely randomized trees beside scikit-learn's: fit and prediction."""

from __future__ import annotations

from typing import Any

from arraylearn.bench.case import FIT, Case, Learners, TimedCalls, learner_case, shapes_of
from arraylearn.bench.data import curved
from arraylearn.bench.peers import peer_maker
from arraylearn.forest import ExtraTreesClassifier, RandomForestClassifier

__all__ = ["CASES"]


def _forest(
    n_trees: int, n_classes: int, bar: str, task: TimedCalls = FIT, kind: Any = RandomForestClassifier
) -> Case:
    settings: dict[str, Any] = {"n_estimators": n_trees, "random_state": 0}
    peer = peer_maker("sklearn.ensemble", kind.__name__, threads="n_jobs", **settings)
    about = "forest" if kind is RandomForestClassifier else "extra trees"
    return learner_case(
        "forest",
        f"{about}, {n_trees} trees, {n_classes} classes",
        Learners(lambda shape: kind(**settings), {"scikit-learn": peer}),
        bars=(bar,),
        shapes=shapes_of(10_000, 100_000, 1_000_000, 20, n_classes),
        data=curved,
        task=task,
    )


_PREDICT = TimedCalls("predict", "predict_proba")

CASES = [
    _forest(100, 2, "forest"),
    _forest(50, 3, "forest"),  # the time per tree does not depend on their number: half of them suffice
    _forest(50, 10, "forest"),
    _forest(50, 2, "extra trees", kind=ExtraTreesClassifier),
    _forest(50, 10, "extra trees", kind=ExtraTreesClassifier),
    _forest(100, 2, "forest prediction", _PREDICT),
    _forest(100, 3, "forest prediction", _PREDICT),
]
