"""A kernel matrix that problems share: its products equal dense algebra."""

from __future__ import annotations

import numpy as np

from arraylearn.backend.namespace import HOST
from arraylearn.svm.paths.shared_matrix import SharedMatrix


def test_exact_products_of_a_narrow_matrix():
    x = np.random.default_rng(0).normal(size=(80, 3))
    matrix = np.exp(-((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=2)) + 0.1 * np.eye(80)
    store = SharedMatrix(HOST, matrix.astype("float32"), np.dtype("float32"))
    wide = store.matrix.x.astype("float64")
    columns, weights = np.arange(3, 70), np.linspace(-1, 1, 67)
    np.testing.assert_allclose(store.exact_product(None, columns, weights), wide[:, columns] @ weights)
    rows = np.array([5, 1])
    np.testing.assert_allclose(
        store.exact_product(rows, columns, weights), wide[np.ix_(rows, columns)] @ weights
    )
    part = store.between(np.array([2, 7, 9]))
    np.testing.assert_array_equal(part.matrix.x, store.matrix.x[np.ix_([2, 7, 9], [2, 7, 9])])
