"""Boosting on folds: candidates that differ in the number of rounds come from the longest run per fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sklearn.base import clone

from arraylearn.boosting.adaboost import AdaBoostClassifier
from arraylearn.boosting.boosted import first_rounds
from arraylearn.folds import Answers, Candidate, Fold, LabelledRows, group_alike, set_candidate, shallow_copy
from arraylearn.table.subsets import take_rows

__all__ = ["judge_boosting_folds"]


def judge_boosting_folds(
    estimator: Any, candidates: Sequence[Candidate], sample: LabelledRows, folds: Sequence[Fold]
) -> Iterator[tuple[int, int, Answers]]:
    """Yield the answers of models that differ in their number of rounds: longer runs begin as shorter ones.

    Left to the ordinary loop over fits: early stopping, random states that are not seeds, and candidates that
    differ in other parameters.
    """
    models = [set_candidate(estimator, candidate) for candidate in candidates]
    for group in group_alike(models, {"n_estimators"}):
        numbers = [models[c].n_estimators for c in group]
        if len(group) < 2 or not _is_staged(models[group[0]]) or not all(_is_count(m) for m in numbers):
            continue
        for f, fold in enumerate(folds):
            longest = clone(models[group[0]]).set_params(n_estimators=max(numbers))
            try:
                sample.fit(longest, fold.train)
            except ValueError:
                continue
            test = take_rows(sample.X, fold.test)
            for c, n_rounds in zip(group, numbers, strict=True):
                yield c, f, Answers.of(_shorten(longest, n_rounds), test)


def _is_staged(model: Any) -> bool:
    """Whether the first rounds of a longer run are those of a shorter one."""
    if isinstance(model, AdaBoostClassifier):
        is_drawn, runs_to_end = model.estimator is not None, True
    else:
        is_drawn, runs_to_end = model.subsample != 1 or model.max_features != 1, not model.early_stopping
    is_seeded = isinstance(model.random_state, int) or (model.random_state is None and not is_drawn)
    return is_seeded and runs_to_end


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _shorten(longest: Any, n_rounds: int) -> Any:
    """Return the classifier of the first rounds."""
    short = shallow_copy(longest)
    short.n_estimators = n_rounds
    if isinstance(longest, AdaBoostClassifier):
        short.model_ = longest.model_._replace(
            estimators=longest.model_.estimators[:n_rounds], weights=longest.model_.weights[:n_rounds]
        )
        return short
    k = short.n_trees_per_iteration_
    trees = first_rounds(longest.model_.trees, slice(0, n_rounds), k)
    short.model_ = longest.model_._replace(trees=trees)
    short.n_iter_ = n_rounds
    return short
