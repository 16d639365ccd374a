"""Turn the argument ``scoring`` into functions by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sklearn.base import ClassifierMixin
from sklearn.metrics import get_scorer
from sklearn.metrics._scorer import _BaseScorer
from sklearn.pipeline import Pipeline

from arraylearn.checks import refuse

__all__ = ["Scorers", "needs_model", "open_scoring"]

Scorers = dict[str, Callable[..., Any]]


def open_scoring(estimator: Any, scoring: Any) -> Scorers:
    """Turn the argument ``scoring`` into functions by name; a single one is named ``"score"``.

    Parameters
    ----------
    estimator : classifier
        Its own ``score`` is used where `scoring` is None; for most that is the accuracy.
    scoring : str, callable, list of str, dict or None
        As in scikit-learn.
    """
    if scoring is None:
        is_accuracy = getattr(type(estimator), "score", None) in (ClassifierMixin.score, Pipeline.score)
        return {"score": get_scorer("accuracy") if is_accuracy else _own_score}
    if isinstance(scoring, str) or callable(scoring):
        return {"score": get_scorer(scoring)}
    if isinstance(scoring, Mapping):
        named = {name: get_scorer(scorer) for name, scorer in scoring.items()}
    elif isinstance(scoring, Iterable):
        named = {name: get_scorer(name) for name in scoring}
    else:
        named = {}
    if not named:
        raise refuse(
            "scoring", "must be the name of a metric, a scorer, or a list or dict of them", repr(scoring)
        )
    return named


def _own_score(estimator: Any, X: Any, y: Any) -> float:
    return float(estimator.score(X, y))


def needs_model(scorers: Scorers) -> bool:
    """Whether a scorer is a function that may read more of the model than its predictions."""
    return not all(isinstance(scorer, _BaseScorer) for scorer in scorers.values())
