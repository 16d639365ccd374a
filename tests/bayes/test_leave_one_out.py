"""Leave-one-out of Bayes classifiers: rank-one updates give what a fit per row gives."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import arraylearn as al
from arraylearn.bayes.folds import leave_one_out
from arraylearn.bayes.folds.leave_one_out import leave_out_bayes_rows
from arraylearn.folds import open_sample
from arraylearn.table.subsets import take_rows
from tests.bayes.test_folds import mixed, numbers

FULL = [
    {},
    {"variance": "ml"},
    {"covariance": "shared"},
    {"covariance": "diagonal"},
    {"shrinkage": 0.3},
    {"covariance": "shared", "shrinkage": 0.2},
    {"shrinkage": 1.0},
    {"priors": [0.2, 0.3, 0.5]},
]
NAIVE = [
    {},
    {"alpha": 0.5, "variance": "ml", "smooth_priors": True},
    {"m_estimate": 2.0, "smooth_priors": True},
    {"m_estimate": 2.0, "value_priors": "marginal"},
    {"m_estimate": 3.0, "value_priors": {"b": {"u": 0.5, "v": 0.25, "w": 0.25}}},
    {"alpha": 0.0},
    {"priors": {0: 0.2, 1: 0.3, 2: 0.5}, "var_smoothing": 0.01},
]


def one_by_one(estimator, sample):
    """Log posteriors of each row by a fit of its own."""
    rows = np.arange(sample.n_rows)
    return np.stack(
        [
            sample.fit(clone(estimator), rows[rows != i]).predict_log_proba(
                take_rows(sample.X, rows[i : i + 1])
            )[0]
            for i in rows
        ]
    )


def assert_same_as_loop(estimator, X, y, weight=None):
    sample = open_sample(X, y, weight)
    found = leave_out_bayes_rows(estimator, sample)
    expected = one_by_one(estimator, sample)
    np.testing.assert_allclose(found.answer("predict_log_proba"), expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(found.answer("predict"), np.unique(y)[expected.argmax(axis=1)])
    np.testing.assert_allclose(found.answer("predict_proba").sum(axis=1), 1.0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", FULL, ids=str)
def test_full_bayes(options, weighted):
    X, y = numbers(40)
    assert_same_as_loop(
        al.FullBayesClassifier(**options), X, y, np.linspace(0.5, 2, 40) if weighted else None
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", NAIVE, ids=str)
def test_naive_bayes(options, weighted):
    X, y = mixed(40)
    assert_same_as_loop(
        al.NaiveBayesClassifier(**options), X, y, np.linspace(0.5, 2, 40) if weighted else None
    )


@pytest.mark.parametrize("floor", [1e-9, 0.1])
def test_a_constant_column_lives_on_the_floor(floor):
    """The floor under the variances changes with the row that leaves; a constant column shows it."""
    X, y = numbers(50)
    X[:, 1] = 7.0
    found = leave_out_bayes_rows(al.NaiveBayesClassifier(var_smoothing=floor), open_sample(X, y))
    expected = np.stack([in_extended_precision(X, y, i, floor) for i in range(50)])
    np.testing.assert_allclose(found.answer("predict_log_proba"), expected, rtol=1e-10, atol=1e-10)


def in_extended_precision(X, y, i, floor):
    """Naive Bayes without row i, by the book."""
    is_left = np.arange(len(y)) != i
    A, b = X[is_left].astype(np.longdouble), y[is_left]
    added = floor * A.var(axis=0).max()
    joint = []
    for c in range(3):
        rows = A[b == c]
        var = rows.var(axis=0, ddof=1) + added
        terms = np.log(2 * np.longdouble(np.pi) * var) + (X[i] - rows.mean(axis=0)) ** 2 / var
        joint.append(np.log(np.longdouble(len(rows)) / len(A)) - terms.sum() / 2)
    joint = np.array(joint) - max(joint)
    return (joint - np.log(np.exp(joint).sum())).astype(float)


def test_two_classes_and_their_log_odds():
    X, y = numbers(60)
    y = y > 0
    sample = open_sample(X, y)
    found = leave_out_bayes_rows(al.FullBayesClassifier(), sample)
    expected = one_by_one(al.FullBayesClassifier(), sample)
    np.testing.assert_allclose(found.answer("decision_function"), expected[:, 1] - expected[:, 0], rtol=1e-10)


def test_rows_without_an_exact_update_get_a_fit_of_their_own(monkeypatch):
    X, y = mixed(60)
    X.loc[[4, 17], "b"] = ["once", "also once"]
    X.loc[8, "a"] = 300.0  # nearly all of its class's scatter
    fitted = []
    original = leave_one_out._fit_without

    def recorded(estimator, sample, to_fit, known):
        fitted.extend(to_fit.tolist())
        original(estimator, sample, to_fit, known)

    monkeypatch.setattr(leave_one_out, "_fit_without", recorded)
    assert_same_as_loop(al.NaiveBayesClassifier(), X, y)
    assert fitted == [4, 8, 17]


def test_a_covariance_that_hangs_on_one_row(monkeypatch):
    X, y = numbers(60)
    X[y == 0, 2] = 1.0
    first = int(np.flatnonzero(y == 0)[0])
    X[first, 2] = 2.0
    with pytest.warns(al.bayes.SingularCovarianceWarning):
        assert_same_as_loop(al.FullBayesClassifier(), X, y)


def test_declined():
    X, y = numbers(40)
    assert leave_out_bayes_rows(al.FullBayesClassifier(shrinkage="auto"), open_sample(X, y)) is None
    lonely = y.copy()
    lonely[0] = 9
    assert leave_out_bayes_rows(al.FullBayesClassifier(), open_sample(X, lonely)) is None
    assert leave_out_bayes_rows(al.FullBayesClassifier(), open_sample(np.where(X > 55, np.nan, X), y)) is None


def test_the_report(rung):
    X, y = numbers(24)
    name = rung.float_dtypes[-1]
    A, b = rung.from_host(X - 50, name), rung.from_host(y)
    for estimator in (
        al.NaiveBayesClassifier(),
        al.FullBayesClassifier(),
        al.FullBayesClassifier(covariance="shared"),
    ):
        fast = al.leave_one_out(estimator, A, b, scoring=["accuracy", "neg_log_loss"])
        slow = al.leave_one_out(estimator, A, b, scoring=["accuracy", "neg_log_loss"], fast=False)
        np.testing.assert_array_equal(fast.confusion, slow.confusion)
        rtol = 1e-3 if name == "float32" else 1e-9
        assert fast.mean["neg_log_loss"] == pytest.approx(slow.mean["neg_log_loss"], rel=rtol)


def test_frames_and_text_labels():
    X, y = mixed(45)
    names = np.array(["one", "two", "three"])[y]
    fast = al.leave_one_out(al.NaiveBayesClassifier(), X, pd.Series(names))
    slow = al.leave_one_out(al.NaiveBayesClassifier(), X, names, fast=False)
    np.testing.assert_array_equal(np.concatenate(fast.predictions), np.concatenate(slow.predictions))
    assert fast.classifier.predict(X).shape == (45,)
