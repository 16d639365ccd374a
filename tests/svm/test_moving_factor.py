"""Systems of rows that join and leave, and shared products: equal to dense algebra."""

from __future__ import annotations

import numpy as np
import pytest

from arraylearn.backend.dispatch import tuned
from arraylearn.backend.namespace import HOST
from arraylearn.svm.paths.moving_factor import MovingFactor
from arraylearn.svm.paths.shared_matrix import Request, SharedMatrix, run_side_by_side


def store_of(n=80, dtype="float64", seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 3))
    matrix = np.exp(-((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=2)) + 0.1 * np.eye(n)
    return SharedMatrix(HOST, matrix.astype(dtype), np.dtype(dtype)), matrix


def solved(matrix, rows, right):
    """Solve as it is meant: a millionth of the diagonal is added to it."""
    block = matrix[np.ix_(rows, rows)]
    return np.linalg.solve(block + 1e-6 * block.max() * np.eye(rows.size), right)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@tuned(svm_refactor_cost=0.0)
def test_systems_near_the_base_need_no_new_factor(dtype):
    store, matrix = store_of(dtype=dtype)
    rng = np.random.default_rng(1)
    factor = MovingFactor(store)
    free = np.sort(rng.choice(80, 50, replace=False))
    right = rng.normal(size=(80, 2))
    for joins, leaves in [(0, 0), (3, 0), (0, 3), (2, 2), (1, 4)]:
        others = np.setdiff1d(np.arange(80), free)
        free = np.sort(np.concatenate([rng.choice(free, free.size - leaves, replace=False), others[:joins]]))
        found = factor.at(free).solve(right[free])
        expected = solved(matrix, free, right[free])
        np.testing.assert_allclose(found, expected, atol=1e-9 if dtype == "float64" else 1e-3)
    assert factor.n_factored == 1


@tuned(svm_refactor_cost=0.0)
def test_a_row_that_comes_back_costs_nothing():
    store, _ = store_of()
    factor = MovingFactor(store)
    few, more = np.arange(0, 40), np.arange(0, 42)
    for rows in (few, more, few, more):
        factor.at(rows)
    assert factor.base.border.shape == (40, 2)
    assert factor.n_factored == 1


def test_far_sets_and_forgetting_make_a_new_factor():
    store, matrix = store_of()
    factor = MovingFactor(store)
    factor.at(np.arange(0, 30))
    found = factor.at(np.arange(40, 80)).solve(np.ones((40, 1)))
    assert factor.n_factored == 2
    np.testing.assert_allclose(found, solved(matrix, np.arange(40, 80), np.ones((40, 1))), atol=1e-9)
    factor.forget()
    factor.at(np.arange(40, 80))
    assert factor.n_factored == 3


def test_a_matrix_that_is_not_definite_is_refused():
    matrix = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert MovingFactor(SharedMatrix(HOST, matrix, matrix.dtype)).at(np.arange(2)) is None


@pytest.mark.parametrize("n_routines", [1, 3])
def test_routines_get_their_own_products(n_routines):
    store, matrix = store_of()

    def routine(seed):
        rng = np.random.default_rng(seed)
        total = np.zeros(80)
        for _ in range(seed + 1):  # they end at different times
            rows = np.sort(rng.choice(80, 20, replace=False))
            weights = rng.normal(size=20)
            found = yield Request(rows, weights)
            np.testing.assert_allclose(found, matrix[:, rows] @ weights)
            total += found
        return seed, total

    assert [seed for seed, _ in run_side_by_side(store, [routine(s) for s in range(n_routines)])] == list(
        range(n_routines)
    )


def test_exact_products_of_a_narrow_matrix():
    store, _ = store_of(dtype="float32")
    wide = store.matrix.x.astype("float64")
    columns, weights = np.arange(3, 70), np.linspace(-1, 1, 67)
    np.testing.assert_allclose(store.exact_product(None, columns, weights), wide[:, columns] @ weights)
    rows = np.array([5, 1])
    np.testing.assert_allclose(
        store.exact_product(rows, columns, weights), wide[np.ix_(rows, columns)] @ weights
    )
    part = store.between(np.array([2, 7, 9]))
    np.testing.assert_array_equal(part.matrix.x, store.matrix.x[np.ix_([2, 7, 9], [2, 7, 9])])
