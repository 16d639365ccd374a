"""Counts of cells and masks: against a loop, native against portable, no wait for the device."""

from __future__ import annotations

import numpy as np
import pytest

from arraylearn.backend.native import portable_only
from arraylearn.backend.ops.cells import best_cells, count_cells, count_rows, pack_cells
from tests.backend.test_ops import both
from tests.backends.assertions import assert_close


def draw(rung, n, d, n_cells, seed=0):
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, n_cells + 1, size=(d, n)).astype(np.uint8 if n_cells < 256 else np.int32)
    live, positive = rng.random((2, n)) < 0.6
    weights = rng.integers(1, 9, n) / 4
    return cells, live, positive, weights


@pytest.mark.parametrize(
    ("n", "d", "n_cells"), [(1, 1, 1), (63, 2, 3), (64, 1, 64), (200, 5, 7), (150, 2, 300)]
)
@pytest.mark.parametrize("is_weighted", [False, True])
def test_count_cells(rung, xp, n, d, n_cells, is_weighted):
    cells, live, positive, weights = draw(rung, n, d, n_cells)
    accumulator = rung.float_dtypes[-1]
    given = rung.from_host(weights, accumulator) if is_weighted else None
    masks = rung.from_host(live), rung.from_host(positive)

    def count():
        packed = pack_cells(xp, rung.from_host(cells), n_cells)
        return count_cells(xp, packed, n_cells, *masks, given)

    found = both(rung, count)
    w = weights if is_weighted else np.ones(n)
    for result, mask in zip(found, (live & positive, live), strict=True):
        expected = [[w[mask & (line == value)].sum() for value in range(n_cells)] for line in cells]
        np.testing.assert_allclose(rung.to_host(result), expected, rtol=1e-6)


@pytest.mark.parametrize("n_cells", [4, 90])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_best_cells(rung, xp, n_cells, is_weighted):
    cells, live, positive, weights = draw(rung, 300, 6, n_cells)
    cells[2] = n_cells  # nothing known
    given = rung.from_host(weights, rung.float_dtypes[-1]) if is_weighted else None
    masks = rung.from_host(live), rung.from_host(positive)

    def score(p, covered):
        return xp.where(covered > 0, p * p / xp.where(covered > 0, covered, 1.0), -xp.inf)

    def search():
        packed = pack_cells(xp, rung.from_host(cells), n_cells)
        return best_cells(xp, packed, n_cells, *masks, given, score)

    with rung.forbid_syncs():
        found = search()
        with portable_only():
            portable = search()
    found, portable = rung.to_host(found), rung.to_host(portable)
    best = portable[0].argmax()
    assert found[0].argmax() == best
    np.testing.assert_allclose(found[:, best], portable[:, best], rtol=1e-6)
    assert found[0, 2] == portable[0, 2] == -np.inf
    w = weights if is_weighted else np.ones(300)
    sums = {
        value: (w[mask & positive].sum(), w[mask].sum())
        for value in range(n_cells)
        if (mask := live & (cells[best] == value)).any()
    }
    value = max(sums, key=lambda one: sums[one][0] ** 2 / sums[one][1])
    np.testing.assert_allclose(found[1:, best], [*sums[value], value], rtol=1e-6)


def test_count_rows(rung, xp):
    rng = np.random.default_rng(0)
    masks, positive = rng.random((3, 70)) < 0.5, rng.random(70) < 0.5
    arrays = [rung.from_host(mask) for mask in masks]
    found = both(rung, lambda: count_rows(xp, arrays, rung.from_host(positive)))
    assert_close(found, [[(mask & positive).sum(), mask.sum()] for mask in masks])
