"""Counts of cells, and the best of them: against a loop, without a sync; NumPy runs a body of its own."""

from __future__ import annotations

import numpy as np
import pytest

from arraylearn.backend.namespace import Place
from arraylearn.rules.counts import (
    Counts,
    Target,
    count_cells,
    count_columns,
    pack_weights,
    rows_of,
    units_of,
    weigh,
)
from arraylearn.rules.find_literal import Scoring, best_cells


def draw(rung, n, d, n_cells, is_weighted):
    rng = np.random.default_rng(0)
    cells = rng.integers(0, n_cells + 1, size=(d, n)).astype(np.int32)
    live, positive = rng.random((2, n)) < 0.6
    weights = rng.integers(1, 9, n) if is_weighted else np.ones(n, dtype=np.int64)
    given = pack_weights(weights, Place(rung.load(), rung.device))[0] if is_weighted else None
    target = Target(rung.from_host(positive), given, 0.25 if is_weighted else 1.0)
    return cells, live, positive, weights, target


def group_of(rung, cells, n_cells):
    return count_columns(rung.load(), rung.from_host(np.where(cells == n_cells, -1, cells)), n_cells)


@pytest.mark.parametrize(
    ("n", "d", "n_cells"), [(1, 1, 1), (63, 2, 3), (64, 1, 64), (200, 5, 7), (150, 2, 300)]
)
@pytest.mark.parametrize("is_weighted", [False, True])
def test_count_cells(rung, xp, n, d, n_cells, is_weighted):
    cells, live, positive, weights, target = draw(rung, n, d, n_cells, is_weighted)
    group, is_live = group_of(rung, cells, n_cells), rung.from_host(live)
    with rung.forbid_syncs():
        found = count_cells(xp, group, is_live, target)
    for result, mask in zip(found, (live & positive, live), strict=True):
        inside = [[mask & (line == value) for value in range(n_cells)] for line in cells]
        sums = rung.to_host(result)
        rows = rows_of(sums) if is_weighted else sums
        np.testing.assert_array_equal(rows, [[one.sum() for one in by_value] for by_value in inside])
        if is_weighted:
            expected = [[weights[one].sum() for one in by_value] for by_value in inside]
            np.testing.assert_array_equal(units_of(sums), expected)


@pytest.mark.parametrize("n_cells", [4, 90])
@pytest.mark.parametrize("gain", ["foil", "accuracy"])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_best_cells(rung, xp, n_cells, gain, is_weighted):
    cells, live, positive, weights, target = draw(rung, 300, 6, n_cells, is_weighted)
    cells[2] = n_cells  # nothing known
    least, weights = 4, weights * target.unit
    before = Counts(float(weights[live & positive].sum()), float(weights[live].sum()))
    unit = target.unit if is_weighted else None
    scoring = Scoring(Place(xp, rung.device), gain, before, int(live.sum()), least, unit)
    group, is_live = group_of(rung, cells, n_cells), rung.from_host(live)
    with rung.forbid_syncs():
        found = best_cells(xp, group, is_live, target, scoring)
    found = rung.to_host(found)
    best, column = (-np.inf, -np.inf), None
    for j, line in enumerate(cells):
        for value in range(n_cells):
            mask = live & (line == value)
            p, covered = weights[mask & positive].sum(), weights[mask].sum()
            if (mask & positive).sum() >= least:
                share = p / covered
                score = share if gain == "accuracy" else p * np.log2(share / (before[0] / before[1]))
                if (score, covered) > best:
                    best, column, expected = (score, covered), j, [score, p, covered, value]
    assert found[2, column] == expected[2]
    np.testing.assert_allclose(found[:, column], expected, rtol=1e-5)
    assert found[0].max() <= found[0, column]
    assert found[0, 2] == -np.inf


def test_rows_of_masks_are_weighed(rung):
    rng = np.random.default_rng(0)
    masks, positive, units = rng.random((3, 70)) < 0.5, rng.random(70) < 0.5, rng.integers(1, 9, 70)
    arrays = [rung.from_host(mask) for mask in masks]
    packed = pack_weights(units, Place(rung.load(), rung.device))[0]
    for given, unit, w in ((None, 1.0, np.ones(70)), (packed, 0.25, units / 4)):
        found = weigh(rung.load(), Target(rung.from_host(positive), given, unit), arrays)
        both = [(mask & positive, mask) for mask in masks]
        assert found == [((w[p].sum(), w[n].sum()), (p.sum(), n.sum())) for p, n in both]
