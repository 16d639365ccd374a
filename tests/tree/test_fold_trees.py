"""Trees on folds: one grown tree gives what the loop gives."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import ShuffleSplit, StratifiedKFold

import arraylearn as al
from arraylearn.backend.arrays.order import argsort_rows
from arraylearn.folds import open_sample
from arraylearn.grow.sorted_lists import thresholds as exact
from arraylearn.selection.splitting import make_folds
from arraylearn.table.subsets import take_rows
from arraylearn.tree import pruning, shared_order
from arraylearn.tree.fold_trees import judge_tree_folds

DEPTHS = [{"max_depth": depth} for depth in (1, 2, 4, 7, None)]
PRUNINGS = [
    {},
    {"pruning": "pessimistic"},
    {"pruning": pruning.Confidence(0.1)},
    {"pruning": pruning.Confidence(0.4, raising=True)},
    {"pruning": "mdl"},
    {"ccp_alpha": 0.01},
    {"pruning": pruning.CostComplexity(0.03), "max_depth": 4},
    {"pruning": "reduced_error", "random_state": 0},
    {"pruning": "chi2"},
    {"collapse": True},
]


def rows(n=150, k=3):
    X, y = make_classification(n, 6, n_informative=4, n_classes=k, flip_y=0.2, random_state=0)
    return X.round(1), y


def mixed():
    X, y = rows()
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.05, np.nan, X)
    return pd.DataFrame(X[:, :4]).assign(c=np.array(["u", "v", "w"])[(y + (X[:, 5] > 0)) % 3]).rename(
        columns=str
    ), y


def assert_equals_the_loop(judge, estimator, candidates, X, y, n_left=0):
    sample = open_sample(X, y)
    folds = make_folds(sample, estimator, StratifiedKFold(3))
    found = {(c, f): model for c, f, model in judge(estimator, candidates, sample, folds)}
    assert len(found) == (len(candidates) - n_left) * len(folds)
    for (c, f), model in found.items():
        loop = sample.fit(clone(estimator).set_params(**candidates[c]), folds[f].train)
        test = take_rows(X, folds[f].test)
        np.testing.assert_array_equal(model.predict_proba(test), loop.predict_proba(test))
        np.testing.assert_array_equal(model.predict(test), loop.predict(test))
        if hasattr(loop, "tree_"):
            assert model.tree_.n_nodes == loop.tree_.n_nodes


@pytest.mark.parametrize(
    "options", [{}, {"criterion": "entropy"}, {"splitter": "hist"}, {"min_samples_leaf": 4}], ids=str
)
def test_depths(options):
    assert_equals_the_loop(judge_tree_folds, al.DecisionTreeClassifier(**options), DEPTHS, *rows())


@pytest.mark.parametrize("missing", ["fractional", "known_fraction", "direction"])
def test_depths_of_mixed_columns(missing):
    assert_equals_the_loop(judge_tree_folds, al.DecisionTreeClassifier(missing=missing), DEPTHS, *mixed())


def test_prunings():
    assert_equals_the_loop(judge_tree_folds, al.DecisionTreeClassifier(), PRUNINGS, *rows())


def test_prunings_of_one_seed():
    assert_equals_the_loop(judge_tree_folds, al.DecisionTreeClassifier(random_state=0), PRUNINGS, *rows())


def test_one_tree_is_grown_per_fold(monkeypatch):
    X, y = rows()
    n_grown = []
    grow = al.DecisionTreeClassifier._grow

    def counted(self, *arguments):
        n_grown.append(self.max_depth)
        return grow(self, *arguments)

    grid = {"max_depth": [1, 2, 3, 5], "pruning": [None, "pessimistic"]}
    expected = al.GridSearch(al.DecisionTreeClassifier(), grid, cv=3, fast=False).fit(X, y)
    monkeypatch.setattr(al.DecisionTreeClassifier, "_grow", counted)
    found = al.GridSearch(al.DecisionTreeClassifier(), grid, cv=3, refit=False).fit(X, y)
    assert n_grown == [5, 5, 5]
    np.testing.assert_array_equal(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
    )
    assert found.best_params_ == expected.best_params_


GROWTHS = [{"min_samples_leaf": 1}, {"min_samples_leaf": 6}, {"criterion": "entropy", "max_depth": 3}]


@pytest.mark.parametrize("data", [rows, mixed], ids=["numeric", "mixed"])
def test_columns_are_sorted_once_for_all_folds(data, monkeypatch):
    X, y = data()
    assert_equals_the_loop(judge_tree_folds, al.DecisionTreeClassifier(splitter="exact"), GROWTHS, X, y)
    # many values in every column, or they would be counted instead
    X = np.random.default_rng(0).normal(size=(600, 4)).round(3)
    y = (X[:, 0] + X[:, 1] ** 2 > 0.7).astype(int)
    assert_equals_the_loop(judge_tree_folds, al.DecisionTreeClassifier(), GROWTHS, X, y)
    n_sorted = []
    for module in (shared_order, exact):
        monkeypatch.setattr(
            module, "argsort_rows", lambda xp, values: n_sorted.append(1) or argsort_rows(xp, values)
        )
    al.GridSearch(al.DecisionTreeClassifier(), {"min_samples_leaf": [1, 6]}, cv=3, refit=False).fit(X, y)
    assert len(n_sorted) == 1


def test_folds_in_another_order_sort_for_themselves():
    X = np.random.default_rng(0).normal(size=(400, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    splits = ShuffleSplit(3, test_size=0.3, random_state=0)
    fast, loop = (al.evaluate(al.DecisionTreeClassifier(), X, y, cv=splits, fast=f) for f in (1, 0))
    np.testing.assert_array_equal(np.concatenate(fast.predictions), np.concatenate(loop.predictions))


def test_what_is_left_to_the_loop():
    X, y = rows(60)
    sample = open_sample(X, y)
    folds = make_folds(sample, al.DecisionTreeClassifier(), 3)
    for options in ({"max_features": 2}, {"max_leaf_nodes": 4}, {"random_state": np.random.default_rng(0)}):
        assert not list(judge_tree_folds(al.DecisionTreeClassifier(**options), DEPTHS, sample, folds))
    binned = [{"max_depth": 2, "splitter": "hist"}, {"max_bins": 9, "splitter": "hist"}]
    assert not list(judge_tree_folds(al.DecisionTreeClassifier(), binned, sample, folds))


def test_search_on_every_rung(rung):
    X, y = rows(60)
    A, b = rung.from_host(X, rung.float_dtypes[-1]), rung.from_host(y)
    grid = {"max_depth": [1, 3], "pruning": [None, "mdl"]}
    fast, loop = (
        al.GridSearch(al.DecisionTreeClassifier(), grid, cv=2, refit=False, fast=flag).fit(A, b).cv_results_
        for flag in (True, False)
    )
    np.testing.assert_array_equal(fast["mean_test_score"], loop["mean_test_score"])
