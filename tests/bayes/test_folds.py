"""Bayes on folds: one pass gives what the loop gives."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, ShuffleSplit, StratifiedKFold

import arraylearn as al
from arraylearn.bayes.folds.k_folds import judge_bayes_folds, partitions
from arraylearn.folds import open_sample
from arraylearn.selection.splitting import make_folds
from arraylearn.table.subsets import take_rows

FULL = [
    {},
    {"covariance": "shared"},
    {"covariance": "diagonal"},
    {"shrinkage": 0.3},
    {"shrinkage": "auto"},
    {"covariance": "shared", "shrinkage": 0.1, "variance": "ml"},
    {"priors": [0.2, 0.3, 0.5]},
]
NAIVE = [{}, {"m_estimate": 2.0, "value_priors": "marginal"}, {"alpha": 0.0, "smooth_priors": True}]


def numbers(n=120, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return rng.normal(size=(n, 4)) @ rng.normal(size=(4, 4)) + 2.0 * y[:, None] + 50.0, y


def mixed(n=120, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "a": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n) + y),
            "b": rng.choice(["u", "v", "w"], n),
            "c": np.where(
                rng.random(n) < 0.1, None, np.array(["x", "y", "z"])[(y + rng.integers(0, 2, n)) % 3]
            ),
        }
    )
    return frame, y


def assert_same_as_loop(estimator, X, y, cv, weight=None, tolerance=1e-10):
    """The log posteriors of every test row agree, and every fold was answered."""
    sample = open_sample(X, y, weight)
    folds = make_folds(sample, estimator, cv)
    found = {f: model for _, f, model in judge_bayes_folds(estimator, [{}], sample, folds)}
    assert set(found) == set(range(len(folds)))
    for f, (train, test) in enumerate(folds):
        loop = sample.fit(type(estimator)(**estimator.get_params()), train)
        rows = take_rows(X, test)
        np.testing.assert_allclose(
            found[f].predict_joint_log_proba(rows),
            loop.predict_joint_log_proba(rows),
            rtol=tolerance,
            atol=tolerance,
        )
        np.testing.assert_array_equal(found[f].predict(rows), loop.predict(rows))


@pytest.mark.parametrize("options", FULL, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_full_bayes(options, weighted):
    X, y = numbers()
    weight = np.linspace(0.5, 2, len(y)) if weighted else None
    assert_same_as_loop(al.FullBayesClassifier(**options), X, y, StratifiedKFold(5), weight)


@pytest.mark.parametrize("options", NAIVE, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_naive_bayes(options, weighted):
    X, y = mixed()
    weight = np.linspace(0.5, 2, len(y)) if weighted else None
    assert_same_as_loop(al.NaiveBayesClassifier(**options), X, y, StratifiedKFold(5), weight)


@pytest.mark.parametrize(
    "cv", [KFold(7), RepeatedKFold(n_splits=4, n_repeats=2, random_state=0)], ids=["k", "repeated"]
)
def test_kinds_of_folds(cv):
    assert_same_as_loop(al.NaiveBayesClassifier(), *mixed(), cv)


def test_partitions():
    X, y = numbers(40)
    sample = open_sample(X, y)
    estimator = al.FullBayesClassifier()
    repeated = make_folds(sample, estimator, RepeatedKFold(n_splits=4, n_repeats=2, random_state=0))
    assert partitions(repeated, 40) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    some = make_folds(sample, estimator, ShuffleSplit(3, test_size=0.25, random_state=0))
    assert [f for part in partitions(some, 40) for f in part] == [0, 1, 2]
    partial = make_folds(sample, estimator, ShuffleSplit(3, test_size=0.25, train_size=0.5, random_state=0))
    assert partitions(partial, 40) == []


def test_the_report_equals_that_of_the_loop(rung):
    """Same scores from the fast path and the loop, on every library."""
    X, y = numbers(90)
    name = rung.float_dtypes[-1]
    A, b = rung.from_host(X - 50.0, name), rung.from_host(y)
    for estimator in (
        al.NaiveBayesClassifier(),
        al.FullBayesClassifier(),
        al.FullBayesClassifier(covariance="shared"),
    ):
        fast = al.evaluate(estimator, A, b, cv=4, scoring=["accuracy", "neg_log_loss"])
        loop = al.evaluate(estimator, A, b, cv=4, scoring=["accuracy", "neg_log_loss"], fast=False)
        np.testing.assert_array_equal(fast.confusion, loop.confusion)
        rtol = 1e-4 if name == "float32" else 1e-10
        np.testing.assert_allclose(fast.scores["neg_log_loss"], loop.scores["neg_log_loss"], rtol=rtol)


def test_search_shares_the_statistics(monkeypatch):
    X, y = mixed()
    passes = []
    take = al.NaiveBayesClassifier._take_statistics

    def counted(self, batch, classes, weights):
        passes.append(batch.table.n_rows)
        return take(self, batch, classes, weights)

    grid = {"alpha": [0.0, 0.5, 1.0, 2.0], "variance": ["unbiased", "ml"]}
    expected = al.GridSearch(al.NaiveBayesClassifier(), grid, cv=5, fast=False, scoring="neg_log_loss").fit(
        X, y
    )
    monkeypatch.setattr(al.NaiveBayesClassifier, "_take_statistics", counted)
    found = al.GridSearch(al.NaiveBayesClassifier(), grid, cv=5, refit=False, scoring="neg_log_loss").fit(
        X, y
    )
    assert sum(passes) == 120
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-10
    )
    assert found.cv_results_["params"] == expected.cv_results_["params"]


def test_a_category_that_only_the_test_rows_have_goes_through_the_loop():
    X, y = mixed()
    X.loc[3, "b"] = "once"
    sample = open_sample(X, y)
    folds = make_folds(sample, al.NaiveBayesClassifier(), KFold(4))
    found = [f for _, f, _ in judge_bayes_folds(al.NaiveBayesClassifier(), [{}], sample, folds)]
    assert found == [1, 2, 3]
    fast = al.evaluate(al.NaiveBayesClassifier(), X, y, cv=KFold(4), scoring="neg_log_loss")
    loop = al.evaluate(al.NaiveBayesClassifier(), X, y, cv=KFold(4), scoring="neg_log_loss", fast=False)
    np.testing.assert_allclose(fast.scores["score"], loop.scores["score"], rtol=1e-10)


def test_a_class_that_only_the_test_rows_have():
    X, y = numbers(60)
    y = np.sort(y)
    report = al.evaluate(al.FullBayesClassifier(), X, y, cv=GroupKFold(3), groups=y)
    assert report.error == 1.0


def test_bad_input_fails_as_in_the_loop():
    X, y = numbers(60)
    X[5, 0] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        al.evaluate(al.FullBayesClassifier(), X, y)
    with pytest.raises(ValueError, match="alpha"):
        al.evaluate(al.NaiveBayesClassifier(alpha=-1.0), X, y)


def test_scorers_that_look_at_the_model():
    X, y = numbers(60)
    scoring = {"mean": lambda model, X, y: float(model.model_.mean[0, 0])}
    fast, loop = (al.evaluate(al.FullBayesClassifier(), X, y, scoring=scoring, fast=f) for f in (True, False))
    np.testing.assert_allclose(fast.scores["mean"], loop.scores["mean"], rtol=1e-12)
