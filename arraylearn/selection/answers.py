"""What a fitted classifier says of the rows it is judged on, and what scorers make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer
from sklearn.metrics._scorer import _BaseScorer
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

from arraylearn.backend.namespace import HOST, from_host, is_array, to_host

__all__ = ["RESPONSES", "Answers", "Scorers", "needs_the_model", "open_scoring"]

Host = Any  # a NumPy array
Scorers = dict[str, Callable[..., Any]]
RESPONSES = ("predict", "predict_proba", "predict_log_proba", "decision_function")


def _answered(name: str) -> Callable[[Callable[..., Host]], Callable[..., Host]]:
    """Give a method to the objects that know its answer."""
    return available_if(lambda self: name in self.responses)  # type: ignore[no-any-return]


class Answers(ClassifierMixin, BaseEstimator):
    """A classifier whose answers for the rows at hand are known, so that any metric can be taken of them.

    Parameters
    ----------
    classes : array (k,)
        The classes it knows.
    responses : mapping
        From names of methods ("predict", "predict_proba", ...) to functions that make the answer; each is
        called at most once.
    """

    def __init__(self, classes: Host, responses: Mapping[str, Callable[[], Host]]) -> None:
        self.classes = classes
        self.responses = responses
        self.classes_ = classes
        self._known: dict[str, Host] = {}

    @classmethod
    def of(cls, estimator: Any, X: Any) -> Answers:
        """Ask a fitted classifier of any library about rows, when an answer is wanted."""
        known = [name for name in RESPONSES if hasattr(estimator, name)]
        return cls(
            getattr(estimator, "classes_", None),
            {name: lambda name=name: getattr(estimator, name)(X) for name in known},  # type: ignore[misc]
        )

    def answer(self, name: str) -> Host:
        """Return the answer of a method as a NumPy array."""
        if name not in self._known:
            value = self.responses[name]()
            self._known[name] = to_host(value) if is_array(value) else from_host(value, HOST)
        return self._known[name]

    @_answered("predict")
    def predict(self, X: Any = None) -> Host:
        """Return what is known, whatever rows are passed."""
        return self.answer("predict")

    @_answered("predict_proba")
    def predict_proba(self, X: Any = None) -> Host:
        """Return what is known, whatever rows are passed."""
        return self.answer("predict_proba")

    @_answered("predict_log_proba")
    def predict_log_proba(self, X: Any = None) -> Host:
        """Return what is known, whatever rows are passed."""
        return self.answer("predict_log_proba")

    @_answered("decision_function")
    def decision_function(self, X: Any = None) -> Host:
        """Return what is known, whatever rows are passed."""
        return self.answer("decision_function")


def open_scoring(estimator: Any, scoring: Any) -> Scorers:
    """Turn what users pass as ``scoring`` into functions by name; a single one is named ``"score"``.

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
        raise ValueError(
            f"`scoring` must be the name of a metric, a scorer, or a list or dict of them; got {scoring!r}."
        )
    return named


def _own_score(estimator: Any, X: Any, y: Any) -> float:
    return float(estimator.score(X, y))


def needs_the_model(scorers: Scorers) -> bool:
    """Whether a scorer is a function that may look at more of the model than its answers."""
    return not all(isinstance(scorer, _BaseScorer) for scorer in scorers.values())
