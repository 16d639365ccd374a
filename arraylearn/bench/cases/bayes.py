"""Bayes classifiers beside scikit-learn's: fit and predict together."""

from __future__ import annotations

from functools import partial
from typing import Any

from arraylearn.bayes import FullBayesClassifier, NaiveBayesClassifier
from arraylearn.bench.case import Case, Learners, TimedCalls, learner_case, shapes_of
from arraylearn.bench.data import Shape, nominal_rows, normal
from arraylearn.bench.peers import peer_maker

__all__ = ["CASES"]


def _case(name: str, data: Any, ours: Any, peer: Any) -> Case:
    return learner_case(
        "bayes",
        name,
        Learners(ours, {"scikit-learn": peer}),
        bars=("bayes", "large bayes"),
        shapes=shapes_of(10_000, 100_000, 1_000_000, 50, 5),
        data=data,
        task=TimedCalls("fit + predict"),
    )


def _naive(shape: Shape) -> Any:
    return NaiveBayesClassifier()


_GAUSSIAN = peer_maker("sklearn.naive_bayes", "GaussianNB")
_QUADRATIC = peer_maker("sklearn.discriminant_analysis", "QuadraticDiscriminantAnalysis")

CASES = [
    _case("naive Bayes, float64", normal, _naive, _GAUSSIAN),
    _case("naive Bayes, float32", partial(normal, dtype="float32"), _naive, _GAUSSIAN),
    _case(
        "naive Bayes, nominal",
        nominal_rows,
        lambda shape: NaiveBayesClassifier(categorical_features=range(shape.n_columns)),
        peer_maker("sklearn.naive_bayes", "CategoricalNB"),
    ),
    _case("full Bayes, float64", normal, lambda shape: FullBayesClassifier(), _QUADRATIC),
]
