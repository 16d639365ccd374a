"""Many problems on one kernel matrix: the splitting method against single fits, on every rung."""

from __future__ import annotations

import numpy as np
from sklearn import svm as libsvm
from sklearn.datasets import make_classification

import arraylearn as al
from arraylearn.backend.namespace import HOST, Place
from arraylearn.svm.paths.operator_splitting import solve_columns
from arraylearn.svm.solvers.dual import Settings

PRICES = (0.1, 1.0, 10.0)


def folds_and_prices(n, n_folds=3):
    fold = np.arange(n) % n_folds
    bound = np.array([np.where(fold != f, C, 0.0) for f in range(n_folds) for C in PRICES])
    return fold, bound


def test_folds_and_prices_equal_single_fits(rung, xp):
    X, y = make_classification(120, 6, flip_y=0.1, random_state=0)
    dtype = getattr(xp, rung.float_dtypes[-1])
    gram = al.kernels.gram(X, gamma=0.2)
    fold, bound = folds_and_prices(len(y))
    sign = np.broadcast_to(2.0 * y - 1, bound.shape).copy()
    tol = 1e-3 if "float64" in rung.float_dtypes else 5e-3
    place = Place(xp, rung.device)
    found = solve_columns(place, rung.from_host(gram, dtype), sign, bound, Settings(tol=tol))
    assert found.is_converged.all()
    assert found.gap.max() <= tol
    decisions = rung.to_host(found.beta) @ gram + rung.to_host(found.offset)[:, None]
    for k, C in enumerate(PRICES * 3):
        rows = fold != k // len(PRICES)
        alone = libsvm.SVC(C=C, kernel="precomputed", tol=1e-5).fit(gram[np.ix_(rows, rows)], y[rows])
        wanted = alone.decision_function(gram[:, rows])
        np.testing.assert_allclose(decisions[k], wanted, atol=20 * tol)


def test_problems_may_differ_in_signs_and_weights():
    X, y = make_classification(90, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    gram = al.kernels.gram(X, gamma=0.3)
    sign = np.array([np.where(y == c, 1.0, -1.0) for c in range(3)])
    bound = np.where(sign > 0, 2.0, 1.0)
    found = solve_columns(HOST, gram, sign, bound, Settings(tol=1e-4))
    for c in range(3):
        alone = libsvm.SVC(kernel="precomputed", class_weight={True: 2.0}, tol=1e-6).fit(gram, y == c)
        np.testing.assert_allclose(
            found.beta[c] @ gram + found.offset[c], alone.decision_function(gram), atol=2e-3
        )
