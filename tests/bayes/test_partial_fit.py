"""Any number of chunks gives what one pass gives."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import arraylearn as al
from arraylearn.bayes import UndefinedVarianceWarning

CLASSIFIERS = {
    "naive": al.NaiveBayesClassifier(),
    "naive_ml": al.NaiveBayesClassifier(variance="ml", smooth_priors=True),
    "full": al.FullBayesClassifier(),
    "shared": al.FullBayesClassifier(covariance="shared"),
    "diagonal": al.FullBayesClassifier(covariance="diagonal"),
    "shrunk": al.FullBayesClassifier(shrinkage=0.2),
    "ledoit_wolf": al.FullBayesClassifier(shrinkage="auto"),
    "ledoit_wolf_shared": al.FullBayesClassifier(shrinkage="auto", covariance="shared"),
}


@pytest.fixture(params=CLASSIFIERS, ids=str)
def classifier(request):
    return CLASSIFIERS[request.param]


def rows(n=400, d=5, k=3, offset=100.0):
    rng = np.random.default_rng(3)
    y = rng.integers(0, k, n)
    X = offset + rng.normal(size=(k, d))[y] * 3 + rng.normal(size=(n, d)) * np.array([1, 2, 0.1, 5, 1])
    return X, y, rng.random(n) + 0.5


def in_chunks(classifier, X, y, bounds, **fit_params):
    model = clone(classifier)
    for start, stop in pairwise(bounds):
        part = {name: values[start:stop] for name, values in fit_params.items()}
        model.partial_fit(X[start:stop], y[start:stop], classes=np.unique(y) if start == 0 else None, **part)
    return model


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bounds", [[0, 400], [0, 200, 400], [0, 50, 51, 60, 399, 400]], ids=len)
def test_chunks_equal_one_pass(classifier, bounds, weighted):
    X, y, weights = rows()
    params = {"sample_weight": weights} if weighted else {}
    once, chunked = classifier.fit(X, y, **params), in_chunks(classifier, X, y, bounds, **params)
    # means are a thousand deviations from 0: squares of 1e6, rounded to 2e-16 of themselves, cancel
    np.testing.assert_allclose(
        chunked.predict_joint_log_proba(X), once.predict_joint_log_proba(X), rtol=1e-10, atol=5e-9
    )
    for one, other in zip(once.model_, chunked.model_, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-10)


def test_on_every_rung(rung, classifier):
    X, y, _ = rows(offset=1.0)
    name = rung.float_dtypes[-1]
    model = clone(classifier)
    for start in (0, 150):
        part = slice(start, start + 250 if start else 150)
        model.partial_fit(rung.from_host(X[part], name), rung.from_host(y[part]), classes=[0, 1, 2])
    expected = clone(classifier).fit(X, y).predict_joint_log_proba(X)
    # float32 sums of 400 rows
    close = {"rtol": 1e-9, "atol": 1e-9} if name == "float64" else {"rtol": 2e-3, "atol": 1e-3}
    np.testing.assert_allclose(
        rung.to_host(model.predict_joint_log_proba(rung.from_host(X, name))), expected, **close
    )


def test_new_categories_join_the_domain():
    rng = np.random.default_rng(0)
    values = np.array(["a", "b", "c", "d"])
    y = np.arange(40) % 2
    X = np.empty((40, 2), dtype=object)
    X[:, 0] = values[np.where(np.arange(40) < 15, rng.integers(0, 2, 40) * 3, rng.integers(0, 4, 40))]
    X[:, 1] = rng.normal(size=40)
    once = al.NaiveBayesClassifier().fit(X, y)
    chunked = al.NaiveBayesClassifier()
    for start in (0, 15, 30):
        chunked.partial_fit(X[start : start + 15], y[start : start + 15], classes=[0, 1])
    assert chunked.schema_.domains == (("a", "b", "c", "d"),)
    np.testing.assert_allclose(chunked.predict_proba(X), once.predict_proba(X), rtol=1e-12)
    np.testing.assert_allclose(chunked.model_.log_table, once.model_.log_table, rtol=1e-12)


def test_missing_values_in_chunks():
    X, y, _ = rows()
    X[::3, 1] = np.nan
    X[::5, 4] = np.nan
    once = al.NaiveBayesClassifier().fit(X, y)
    chunked = in_chunks(al.NaiveBayesClassifier(), X, y, [0, 100, 250, 400])
    # see `test_chunks_equal_one_pass`
    np.testing.assert_allclose(
        chunked.predict_joint_log_proba(X), once.predict_joint_log_proba(X), rtol=1e-10, atol=5e-9
    )


def test_a_class_that_comes_later():
    X, y, _ = rows()
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    once = al.NaiveBayesClassifier().fit(X, y)
    chunked = al.NaiveBayesClassifier().partial_fit(X[:50], y[:50], classes=[0, 1, 2])
    assert set(chunked.predict(X).tolist()) == {0}
    np.testing.assert_array_equal(chunked.predict_proba(X)[:, 1:], 0)
    chunked.partial_fit(X[50:], y[50:])
    np.testing.assert_allclose(chunked.predict_proba(X), once.predict_proba(X), rtol=1e-9, atol=1e-12)


def test_more_classes_than_rows():
    with pytest.warns(UndefinedVarianceWarning):
        model = al.NaiveBayesClassifier().partial_fit([[1.0], [2.0]], ["a", "b"], classes=list("abcde"))
    assert model.predict([[1.0], [2.0]]).tolist() == ["a", "b"]
    assert np.isfinite(model.predict_proba([[5.0]])).all()


def test_what_must_not_happen(classifier):
    X, y, _ = rows()
    model = clone(classifier)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.partial_fit(X, y, classes=[0, 1, 2])
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X, y + 1)
    with pytest.raises(ValueError, match="`classes` must be those of the first call"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="is expecting 5 features"):
        model.partial_fit(X[:, :4], y)
    bad = X.copy()
    bad[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.partial_fit(bad, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.partial_fit(X, y[:-1])
    np.testing.assert_array_equal(model.predict_proba(X), before)
