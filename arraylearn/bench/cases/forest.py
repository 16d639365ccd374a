"""Random forests beside scikit-learn's: fit and prediction."""

from __future__ import annotations

from arraylearn.bench.case import FIT, Case, Learners, TimedCalls, learner_case, shapes_of
from arraylearn.bench.data import curved
from arraylearn.bench.peers import peer_maker
from arraylearn.forest import RandomForestClassifier

__all__ = ["CASES"]


def _forest(n_trees: int, n_classes: int, bar: str, task: TimedCalls = FIT) -> Case:
    return learner_case(
        "forest",
        f"forest, {n_trees} trees, {n_classes} classes",
        Learners(
            lambda shape: RandomForestClassifier(n_estimators=n_trees, random_state=0),
            {
                "scikit-learn": peer_maker(
                    "sklearn.ensemble",
                    "RandomForestClassifier",
                    threads="n_jobs",
                    n_estimators=n_trees,
                    random_state=0,
                )
            },
        ),
        bar=bar,
        shapes=shapes_of(10_000, 100_000, 1_000_000, 20, n_classes),
        data=curved,
        task=task,
    )


_PREDICT = TimedCalls("predict", "predict_proba")

CASES = [
    _forest(100, 2, "forest"),
    _forest(50, 3, "forest"),  # the time per tree does not depend on their number: half of them suffice
    _forest(50, 10, "forest"),
    _forest(100, 2, "forest prediction", _PREDICT),
    _forest(100, 3, "forest prediction", _PREDICT),
]
