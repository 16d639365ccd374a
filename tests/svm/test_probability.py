"""Platt's sigmoids and their coupling: LIBSVM's procedure as the oracle, properties, every rung."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import optimize
from sklearn import svm as libsvm
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.preprocessing import StandardScaler

import arraylearn as al
from arraylearn.svm.probability import Sigmoids, couple, fit_sigmoids, squash
from tests.backends.assertions import assert_close


def test_sigmoid_is_the_maximum_of_the_likelihood(rung, xp, dtype):
    rng = np.random.default_rng(0)
    f = rng.normal(size=(2, 80))
    side = rng.random((2, 80)) < 1 / (1 + np.exp(-2 * f + 0.3))
    used = np.ones((2, 80), dtype=bool)
    used[1, 60:] = False
    fitted = fit_sigmoids(xp, rung.from_host(f, dtype), rung.from_host(side), rung.from_host(used))
    for k, m in ((0, 80), (1, 60)):
        n = side[k, :m].sum()
        target = np.where(side[k, :m], (n + 1) / (n + 2), 1 / (m - n + 2))

        def loss(ab, f=f[k, :m], target=target):
            z = ab[0] * f + ab[1]
            return np.sum(np.logaddexp(0, z) - (1 - target) * z)

        best = optimize.minimize(loss, [-1.0, 0.0], tol=1e-12).x
        found = [rung.to_host(part)[k] for part in fitted]
        np.testing.assert_allclose(found, best, rtol=2e-3, atol=2e-3)


def test_squash_does_not_overflow(rung, xp, dtype):
    sigmoids = Sigmoids(rung.from_host([-1.0], dtype), rung.from_host([0.0], dtype))
    values = rung.from_host([[-1e4], [0.0], [1e4]], dtype)
    assert_close(squash(xp, sigmoids, values), [[0.0], [0.5], [1.0]], dtype=dtype)


def test_coupling_recovers_a_distribution(rung, xp, dtype):
    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    pairwise = np.stack([p[:, i] / (p[:, i] + p[:, j]) for i, j in ((0, 1), (0, 2), (1, 2))], axis=1)
    assert_close(couple(xp, rung.from_host(pairwise, dtype), 3), p, dtype=dtype, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
@pytest.mark.parametrize("loader", [load_breast_cancer, load_wine])
def test_probabilities_are_near_libsvm(loader, multiclass):
    X, y = loader(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    is_train = np.arange(len(y)) % 3 > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer releases deprecate their parameter
        theirs = libsvm.SVC(probability=True, random_state=0).fit(X[is_train], y[is_train])
        wanted = theirs.predict_proba(X[~is_train])
    clf = al.SVC(probability=True, random_state=0, multiclass=multiclass).fit(X[is_train], y[is_train])
    found = clf.predict_proba(X[~is_train])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    # the folds are dealt by other random numbers
    assert np.abs(found - wanted).mean() < (0.02 if multiclass == "ovr" else 0.005)
    np.testing.assert_allclose(clf.predict_log_proba(X[~is_train]), np.log(found))
    again = al.SVC(probability=True, random_state=0, multiclass=multiclass).fit(X[is_train], y[is_train])
    np.testing.assert_array_equal(again.predict_proba(X[~is_train]), found)


def test_probabilities_on_every_rung(rung, xp, dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(45, 2)) + 2 * np.eye(3, 2)[np.arange(45) % 3]
    y = np.arange(45) % 3
    clf = al.SVC(kernel="linear", probability=True, random_state=0).fit(rung.from_host(X, dtype), y)
    reference = al.SVC(kernel="linear", probability=True, random_state=0).fit(X, y)
    found = clf.predict_proba(rung.from_host(X, dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(rung.to_host(found), reference.predict_proba(X), atol=5e-3)


def test_without_probability_there_is_no_method():
    clf = al.SVC().fit([[0.0], [1.0]], [0, 1])
    assert not hasattr(clf, "predict_proba")
    with pytest.raises(ValueError, match="at least two rows of each class"):
        al.SVC(probability=True).fit([[0.0], [1.0]], [0, 1])
