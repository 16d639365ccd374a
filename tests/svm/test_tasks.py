"""What a warm start begins from."""

from __future__ import annotations

import numpy as np
import pytest

from arraylearn.svm.tasks import rescale_start

SIGN = np.array([1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0])


@pytest.mark.parametrize("error", [1e-16, -1e-16, 3e-16, 0.0])
@pytest.mark.parametrize("price", [1.0, 3.0])
def test_an_error_of_rounding_moves_no_row_off_its_bound(error, price):
    beta = np.array([1.0, 1.0, 0.3 + error, 0.0, -1.0, -1.0, -0.3])
    start = rescale_start(beta, np.ones(7), SIGN, np.full(7, price))
    np.testing.assert_array_equal(start[[0, 1, 3, 4, 5]], [price, price, 0.0, -price, -price])
    np.testing.assert_allclose(start[[2, 6]], [0.3 * price, -0.3 * price], rtol=1e-12)
    assert abs(start.sum()) <= 1e-15 * price


def test_rows_inside_the_box_give_first():
    bound = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 1.0])
    start = rescale_start(np.array([1.0, 0.4, 0.4, 0.0, -1.0, -0.5, -0.3]), np.ones(7), SIGN, bound)
    np.testing.assert_allclose(start, [1.0, 0.375, 0.375, 0.0, -1.0, -0.45, -0.3], rtol=1e-12)


def test_rows_at_the_bound_give_where_the_others_cannot():
    bound = np.array([1.0, 1.0, 1.0, 1.0, 0.1, 0.1, 0.1])
    start = rescale_start(np.array([1.0, 1.0, 0.2, 0.0, -1.0, -1.0, -0.2]), np.ones(7), SIGN, bound)
    np.testing.assert_allclose(start, [0.1, 0.1, 0.02, 0.0, -0.1, -0.1, -0.02], rtol=1e-12)
