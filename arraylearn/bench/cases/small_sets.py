"""Small sets, and predictions of one row, beside scikit-learn: what a call costs whatever the rows."""

from __future__ import annotations

from functools import partial
from typing import Any

from arraylearn.bayes import FullBayesClassifier, NaiveBayesClassifier
from arraylearn.bench.case import Case, Learners, TimedCalls, learner_case
from arraylearn.bench.data import Shape, known_set
from arraylearn.bench.peers import peer_maker
from arraylearn.boosting import AdaBoostClassifier, GradientBoostingClassifier
from arraylearn.forest import ExtraTreesClassifier, RandomForestClassifier
from arraylearn.svm import SVC
from arraylearn.tree import DecisionTreeClassifier

__all__ = ["CASES", "PAIRS"]

_discriminant = partial(peer_maker, "sklearn.discriminant_analysis", "QuadraticDiscriminantAnalysis")
# name -> our learner, and its counterpart of scikit-learn's
PAIRS: dict[str, tuple[Any, Any]] = {
    "naive Bayes": (NaiveBayesClassifier, peer_maker("sklearn.naive_bayes", "GaussianNB")),
    "full Bayes": (partial(FullBayesClassifier, reg_param=0.001), _discriminant(reg_param=0.001)),
    "tree": (DecisionTreeClassifier, peer_maker("sklearn.tree", "DecisionTreeClassifier")),
    "forest": (RandomForestClassifier, peer_maker("sklearn.ensemble", "RandomForestClassifier")),
    "extra trees": (ExtraTreesClassifier, peer_maker("sklearn.ensemble", "ExtraTreesClassifier")),
    "AdaBoost": (AdaBoostClassifier, peer_maker("sklearn.ensemble", "AdaBoostClassifier")),
    "boosting": (
        GradientBoostingClassifier,
        peer_maker("sklearn.ensemble", "HistGradientBoostingClassifier", early_stopping=False),
    ),
    "SVC": (SVC, peer_maker("sklearn.svm", "SVC")),
}
_SETS = {
    "iris": Shape(100, 4, 3),
    "wine": Shape(120, 13, 3),
    "breast cancer": Shape(380, 30, 2),
    "digits": Shape(1200, 64, 10),
}


def _case(learner: str, name: str, bar: str, task: TimedCalls, recorded: dict[str, float]) -> Case:
    ours, peer = PAIRS[learner]
    return learner_case(
        "small_sets",
        f"{learner}, {name}",
        Learners(lambda shape: ours(), {"scikit-learn": peer}, recorded),
        bars=(bar,),
        shapes={"small": _SETS[name.removesuffix(", one row")]},
        data=known_set,
        task=task,
    )


CASES = [
    *(
        _case(learner, name, "few rows", TimedCalls(job, n_queries=lambda shape: shape.n_rows), {})
        for learner in PAIRS
        for name in _SETS
        for job in ("fit", "predict")
    ),
    *(
        _case(
            learner,
            "breast cancer, one row",
            "one row",
            TimedCalls("predict", n_queries=lambda shape: 1),
            {"150 us": 150e-6},
        )
        for learner in PAIRS
    ),
]
