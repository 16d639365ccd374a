"""Counts of cells, and the best of them: against a loop, without a sync; NumPy runs a body of its own."""

from __future__ import annotations

import numpy as np
import pytest

from arraylearn.rules import literals_cpu
from arraylearn.rules.find_literal import GAINS, Scoring, best_cells
from arraylearn.rules.literals import Counts, Target, choose_body, count_cells, pack_cells, weigh


def draw(rung, n, d, n_cells, is_weighted):
    rng = np.random.default_rng(0)
    cells = rng.integers(0, n_cells + 1, size=(d, n)).astype(np.uint8 if n_cells < 256 else np.int32)
    live, positive = rng.random((2, n)) < 0.6
    weights = rng.integers(1, 9, n) / 4 if is_weighted else np.ones(n)
    given = rung.from_host(weights, rung.float_dtypes[-1]) if is_weighted else None
    return cells, live, positive, weights, Target(rung.from_host(positive), given)


@pytest.mark.parametrize(
    ("n", "d", "n_cells"), [(1, 1, 1), (63, 2, 3), (64, 1, 64), (200, 5, 7), (150, 2, 300)]
)
@pytest.mark.parametrize("is_weighted", [False, True])
def test_count_cells(rung, xp, n, d, n_cells, is_weighted):
    cells, live, positive, weights, target = draw(rung, n, d, n_cells, is_weighted)
    arrays = rung.from_host(cells), rung.from_host(live)
    with rung.forbid_syncs():
        found = count_cells(xp, pack_cells(xp, arrays[0], n_cells), n_cells, arrays[1], target)
    for result, mask in zip(found, (live & positive, live), strict=True):
        expected = [[weights[mask & (line == value)].sum() for value in range(n_cells)] for line in cells]
        np.testing.assert_allclose(rung.to_host(result), expected, rtol=1e-6)


@pytest.mark.parametrize("n_cells", [4, 90])
@pytest.mark.parametrize("gain", ["foil", "accuracy"])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_best_cells(rung, xp, n_cells, gain, is_weighted):
    cells, live, positive, weights, target = draw(rung, 300, 6, n_cells, is_weighted)
    cells[2] = n_cells  # nothing known
    before = Counts(float(weights[live & positive].sum()), float(weights[live].sum()))
    scoring = Scoring(GAINS[gain], before, 1.0)
    arrays = rung.from_host(cells), rung.from_host(live)
    with rung.forbid_syncs():
        found = best_cells(xp, pack_cells(xp, arrays[0], n_cells), n_cells, arrays[1], target, scoring)
    found = rung.to_host(found)
    best, column = (-np.inf, -np.inf), None
    for j, line in enumerate(cells):
        for value in range(n_cells):
            mask = live & (line == value)
            p, covered = weights[mask & positive].sum(), weights[mask].sum()
            if p >= 1.0:
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
    masks, positive, weights = rng.random((3, 70)) < 0.5, rng.random(70) < 0.5, rng.integers(1, 9, 70) / 4
    arrays = [rung.from_host(mask) for mask in masks]
    for given in (None, rung.from_host(weights, rung.float_dtypes[-1])):
        found = weigh(rung.load(), Target(rung.from_host(positive), given), arrays)
        w = np.ones(70) if given is None else weights
        expected = [((w[mask & positive].sum(), w[mask].sum()), mask.sum()) for mask in masks]
        assert found == expected


def test_the_choice_of_a_body_gives_its_reason(rung, xp):
    expected = literals_cpu if rung.name in ("numpy", "compiled") else "not on a CPU of NumPy"
    assert choose_body(xp) == expected
