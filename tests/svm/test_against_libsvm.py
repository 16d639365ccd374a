"""The whole grid against LIBSVM: data, kernels, prices and dtypes. Slow: ``pytest -m slow``."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from sklearn import svm as libsvm
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import arraylearn as al
from tests.svm.problems import TWO_CLASS_NAMES, dual_objective, two_class_data

pytestmark = pytest.mark.slow

PRICES = (0.01, 0.1, 1.0, 10.0, 100.0, 1e4)
# tanh has one solution for small factors only
KERNELS = {
    "linear": {},
    "poly": {"coef0": 1.0, "degree": 2},
    "rbf": {},
    "sigmoid": {"gamma": 0.005},
}


def fit_theirs(X, y, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf = libsvm.SVC(tol=1e-4, max_iter=1_000_000, cache_size=500, **parameters).fit(X, y)
    return clf, not np.any(clf.fit_status_)


def assert_same_side(ours, theirs, X, rows):
    """The same predictions, but for rows within 1e-3 of the boundary."""
    decision = theirs.decision_function(X)
    is_clear = np.abs(decision) > 1e-3
    differs = ours.predict(rows) != theirs.predict(X)
    assert not np.any(differs & is_clear)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", TWO_CLASS_NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_classes(name, kernel, dtype):
    X, y = two_class_data(name)
    X, y = X[:400].astype(np.float32).astype(np.float64), y[:400]
    for C in PRICES if kernel != "sigmoid" else PRICES[:3]:
        parameters = {"C": C, "kernel": kernel, **KERNELS[kernel]}
        theirs, is_solved = fit_theirs(X, y, **parameters)
        ours = al.SVC(tol=1e-4, **parameters).fit(X.astype(dtype), y)
        assert ours.converged_.all(), parameters
        gram = al.kernels.gram(
            X,
            kernel=kernel,
            gamma=theirs._gamma,
            degree=parameters.get("degree", 3),
            coef0=parameters.get("coef0", 0.0),
        )
        found, wanted = (dual_objective(clf, gram, y) for clf in (ours, theirs))
        assert found >= wanted - 1e-5 * abs(wanted), parameters
        if is_solved:  # where LIBSVM gives up, ours may be far ahead
            assert found == pytest.approx(wanted, rel=1e-5), parameters
            assert_same_side(ours, theirs, X, X.astype(dtype))


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_digits_pair_by_pair(kernel, C, dtype):
    X, y = load_digits(return_X_y=True)
    X = X / 16.0  # exact in float32
    parameters = {"C": C, "kernel": kernel}
    theirs, is_solved = fit_theirs(X, y, decision_function_shape="ovo", **parameters)
    assert is_solved
    ours = al.SVC(decision_function_shape="ovo", **parameters).fit(X.astype(dtype), y)
    assert ours.converged_.all()
    assert ours.objective_.shape == (45,)
    for p, (i, j) in enumerate(itertools.combinations(range(10), 2)):
        rows = (y == i) | (y == j)
        alone, _ = fit_theirs(X[rows], y[rows] == i, gamma=theirs._gamma, **parameters)
        gram = al.kernels.gram(X[rows], kernel=kernel, gamma=theirs._gamma)
        assert ours.objective_[p] == pytest.approx(dual_objective(alone, gram, y[rows] == i), rel=1e-5)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=5e-3)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wine(kernel, C, dtype):
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X).astype(np.float32).astype(np.float64)
    parameters = {"C": C, "kernel": kernel, **KERNELS[kernel]}
    theirs, is_solved = fit_theirs(X, y, decision_function_shape="ovo", **parameters)
    assert is_solved
    ours = al.SVC(decision_function_shape="ovo", **parameters).fit(X.astype(dtype), y)
    wanted = theirs.decision_function(X)
    np.testing.assert_allclose(ours.decision_function(X), wanted, atol=5e-3)
    is_clear = np.abs(wanted).min(axis=1) > 1e-3
    np.testing.assert_array_equal(ours.predict(X)[is_clear], theirs.predict(X)[is_clear])
