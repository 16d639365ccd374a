"""The fast paths: which family answers which candidates together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from arraylearn.selection.answers import Answers
from arraylearn.selection.bayes_folds import is_bayes, judge_bayes_folds
from arraylearn.selection.bayes_leave_one_out import leave_out_bayes_rows
from arraylearn.selection.folds import Fold, Sample
from arraylearn.selection.svm_folds import is_support_vector_classifier, judge_svc_folds
from arraylearn.selection.tree_folds import (
    is_boosting,
    is_tree,
    judge_boosting_folds,
    judge_tree_folds,
)

__all__ = ["FastPath", "find_fast_path", "find_leave_one_out"]

Candidate = dict[str, Any]


class FastPath(NamedTuple):
    """How a family judges candidates on folds without fitting each of them on each."""

    applies: Callable[[Any], bool]  # to this estimator, whatever its parameters
    # (estimator, candidates, sample, folds) -> (candidate, fold, fitted model or Answers for the test rows),
    # in any order; what it leaves out is left to the loop
    judge: Callable[[Any, Sequence[Candidate], Sample, Sequence[Fold]], Iterator[tuple[int, int, Any]]]
    gives_models: bool  # whether what it yields are fitted classifiers, not Answers alone


_PATHS = (
    FastPath(is_bayes, judge_bayes_folds, gives_models=True),
    FastPath(is_support_vector_classifier, judge_svc_folds, gives_models=False),
    FastPath(is_tree, judge_tree_folds, gives_models=True),
    FastPath(is_boosting, judge_boosting_folds, gives_models=False),
)


def find_fast_path(estimator: Any, candidates: Sequence[Candidate], *, needs_model: bool) -> FastPath | None:
    """Return the fast path of an estimator's family for these candidates, or None."""
    known = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    if not all(name in known for candidate in candidates for name in candidate):
        return None
    for path in _PATHS:
        if path.applies(estimator) and (path.gives_models or not needs_model):
            return path
    return None


def find_leave_one_out(estimator: Any) -> Callable[[Any, Sample], Answers | None] | None:
    """Return the function that answers for every row left out in turn, or None."""
    return leave_out_bayes_rows if is_bayes(estimator) else None
