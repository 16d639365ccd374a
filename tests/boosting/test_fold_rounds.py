"""Boosting on folds: the longest run gives what the loop gives."""

from __future__ import annotations

import numpy as np
import pytest

import arraylearn as al
from arraylearn.boosting.fold_rounds import judge_boosting_folds
from arraylearn.folds import open_sample
from arraylearn.selection.splitting import make_folds
from tests.tree.test_fold_trees import assert_equals_the_loop, rows


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("options", [{}, {"subsample": 0.7, "random_state": 3}], ids=str)
def test_boosting_rounds(options, k):
    rounds = [{"n_estimators": n} for n in (3, 1, 8)]
    estimator = al.GradientBoostingClassifier(max_depth=3, min_samples_leaf=5, **options)
    assert_equals_the_loop(judge_boosting_folds, estimator, rounds, *rows(k=k))


@pytest.mark.parametrize("options", [{}, {"random_state": 1}], ids=str)
def test_adaboost_rounds(options):
    rounds = [{"n_estimators": n} for n in (4, 1, 9)]
    base = al.DecisionTreeClassifier(max_depth=2, max_features=3) if options else None
    assert_equals_the_loop(judge_boosting_folds, al.AdaBoostClassifier(base, **options), rounds, *rows())


def test_early_stopping_is_left_to_the_loop():
    sample = open_sample(*rows(60))
    boosting = al.GradientBoostingClassifier(early_stopping=True)
    folds = make_folds(sample, boosting, 3)
    assert not list(judge_boosting_folds(boosting, [{"n_estimators": 2}, {"n_estimators": 3}], sample, folds))


def test_search_on_every_rung(rung):
    X, y = rows(60)
    A, b = rung.from_host(X, rung.float_dtypes[-1]), rung.from_host(y)
    estimator = al.GradientBoostingClassifier(max_depth=2, min_samples_leaf=5)
    grid = {"n_estimators": [1, 3]}
    fast, loop = (
        al.GridSearch(estimator, grid, cv=2, refit=False, fast=flag).fit(A, b).cv_results_
        for flag in (True, False)
    )
    np.testing.assert_array_equal(fast["mean_test_score"], loop["mean_test_score"])
