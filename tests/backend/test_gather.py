"""Chosen rows and columns of a matrix: both bodies on every rung."""

from __future__ import annotations

import numpy as np
import pytest

from arraylearn.backend.arrays.gather import combine_rows, gather_block, put
from arraylearn.backend.dispatch import portable_only
from tests.backends.assertions import assert_close


@pytest.mark.parametrize("is_portable", [False, True])
@pytest.mark.parametrize("width", [11, 300], ids=["narrow", "wide"])
def test_put_gather_combine(rung, xp, dtype, width, is_portable):
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(7, width)), rng.normal(size=3)
    slots, columns = np.array([5, 0, 3]), np.array([10, 2, 2, 7])
    store, some, at = rung.from_host(rows, dtype), rung.from_host(slots), rung.from_host(columns)
    values = rung.from_host(weights, dtype)

    def run():
        return (
            gather_block(xp, store, some, at),
            combine_rows(xp, store, some, values),
            put(xp, rung.from_host(rows[:, 0], dtype), some, values),
        )

    if is_portable:
        with portable_only():
            block, combined, changed = run()
    else:
        block, combined, changed = run()
    expected = rows[:, 0].copy()
    expected[slots] = weights
    assert_close(block, rows[slots][:, columns], dtype=dtype)
    assert_close(combined, weights @ rows[slots], dtype=dtype, rtol=1e-5, atol=1e-6)
    assert_close(changed, expected, dtype=dtype)
