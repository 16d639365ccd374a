"""Data and comparisons that the tests of the support vector machines share."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import svm as libsvm
from sklearn.datasets import load_breast_cancer, make_classification, make_moons
from sklearn.preprocessing import StandardScaler

import arraylearn as al

TWO_CLASS_NAMES = ("breast_cancer", "moons", "overlapping", "separable", "unbalanced", "duplicated")


def dual_objective(clf, gram, y):
    beta = np.zeros(len(y))
    beta[clf.support_] = clf.dual_coef_[0]
    return beta @ np.where(y == clf.classes_[1], 1.0, -1.0) - 0.5 * beta @ gram @ beta


def two_class_data(name):
    rng = np.random.default_rng(0)
    if name == "breast_cancer":
        X, y = load_breast_cancer(return_X_y=True)
    elif name == "moons":
        X, y = make_moons(1000, noise=0.3, random_state=0)
    elif name == "overlapping":
        X, y = make_classification(900, 10, n_informative=5, flip_y=0.1, class_sep=0.5, random_state=0)
    elif name == "separable":
        X, y = make_classification(600, 10, flip_y=0.0, class_sep=3.0, random_state=1)
    elif name == "unbalanced":
        X, y = make_classification(1000, 10, weights=[0.97], flip_y=0.02, random_state=2)
    else:  # duplicated, with contradiction
        X, y = make_classification(150, 6, flip_y=0.1, random_state=3)
        idx = rng.integers(0, 150, 800)
        X, y = X[idx], np.where(rng.random(800) < 0.05, 1 - y[idx], y[idx])
    return StandardScaler().fit_transform(X), y


def assert_equals_libsvm(X, y, *, tol=1e-3, dtype=np.float64, **parameters):
    theirs = libsvm.SVC(tol=1e-5, **parameters).fit(X, y)
    ours = al.SVC(tol=tol, **parameters).fit(X.astype(dtype), y)
    gram = al.kernels.gram(
        X,
        kernel=parameters.get("kernel", "rbf"),
        gamma=theirs._gamma,
        degree=parameters.get("degree", 3),
        coef0=parameters.get("coef0", 0.0),
    )
    found, wanted = (dual_objective(clf, gram, y) for clf in (ours, theirs))
    assert ours.converged_.all()
    assert found == pytest.approx(wanted, rel=1e-5)
    decision = theirs.decision_function(X)
    is_clear = np.abs(decision) > 1e-3 + np.abs(decision - ours.decision_function(X.astype(dtype)))
    np.testing.assert_array_equal(ours.predict(X.astype(dtype))[is_clear], theirs.predict(X)[is_clear])
    assert np.mean(is_clear) > 0.97
