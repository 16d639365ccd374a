"""The fast paths: the families that compute several candidates and folds together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from arraylearn.bayes import FullBayesClassifier, NaiveBayesClassifier
from arraylearn.bayes.folds import judge_bayes_folds, leave_out_bayes_rows
from arraylearn.boosting import AdaBoostClassifier, GradientBoostingClassifier
from arraylearn.boosting.fold_rounds import judge_boosting_folds
from arraylearn.folds import Answers, Candidate, Fold, LabelledRows
from arraylearn.svm import SVC
from arraylearn.svm.paths import judge_svc_folds
from arraylearn.tree import DecisionTreeClassifier
from arraylearn.tree.fold_trees import judge_tree_folds

__all__ = ["FastPath", "find_fast_path", "find_leave_one_out"]


class FastPath(NamedTuple):
    """How a family judges candidates on folds without fitting every candidate on every fold."""

    estimators: tuple[type, ...]  # these classes exactly: a subclass may compute something else
    # see `arraylearn.folds`; candidates and folds that it does not yield are fitted one by one
    judge: Callable[[Any, Sequence[Candidate], LabelledRows, Sequence[Fold]], Iterator[tuple[int, int, Any]]]
    gives_models: bool  # whether it yields fitted classifiers, not Answers alone


_BAYES = (NaiveBayesClassifier, FullBayesClassifier)
_PATHS = (
    FastPath(_BAYES, judge_bayes_folds, gives_models=True),
    FastPath((SVC,), judge_svc_folds, gives_models=False),
    FastPath((DecisionTreeClassifier,), judge_tree_folds, gives_models=True),
    FastPath((GradientBoostingClassifier, AdaBoostClassifier), judge_boosting_folds, gives_models=False),
)


def find_fast_path(estimator: Any, candidates: Sequence[Candidate], *, needs_model: bool) -> FastPath | None:
    """Return the fast path of an estimator's family for these candidates; None if it has none."""
    known = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    if not all(name in known for candidate in candidates for name in candidate):
        return None
    for path in _PATHS:
        if type(estimator) in path.estimators and (path.gives_models or not needs_model):
            return path
    return None


def find_leave_one_out(estimator: Any) -> Callable[[Any, LabelledRows], Answers | None] | None:
    """Return the function that predicts every row from all others at once; None if the family has none."""
    return leave_out_bayes_rows if type(estimator) in _BAYES else None
