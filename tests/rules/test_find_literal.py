"""The threshold search of the array program: by hand and against a plain loop, without a sync."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arraylearn.backend.namespace import Place
from arraylearn.rules.counts import Counts, Target, pack_weights
from arraylearn.rules.find_literal import Scoring, best_thresholds


def accuracy_of(rung, total, n, unit=None):
    """Accuracy of a side that is not everything."""
    return Scoring(Place(rung.load(), rung.device), "accuracy", Counts(total, total), n, 0.0, unit)


def lists_of(x):
    """Sorted rows and dense ranks of (n, d) numbers."""
    order = np.argsort(x, axis=0, kind="stable").T.astype(np.int32)
    ranks = np.full(x.T.shape, -1, dtype=np.int32)
    for j, column in enumerate(x.T):
        known = ~np.isnan(column)
        ranks[j, known] = np.unique(column[known], return_inverse=True)[1]
    return order, ranks


def best_by_loop(column, positive, weights):
    """The best accuracy over all cuts and sides, its positive weight and its coverage."""
    best = (-np.inf, 0.0, 0.0)
    total = weights.sum()
    for value in np.unique(column[~np.isnan(column)])[:-1]:
        for side in (column <= value, column > value):
            p, covered = weights[side & (positive > 0)].sum(), weights[side].sum()
            if p > 0 and covered < total:
                best = max(best, (p / covered, covered, p))
    return best


def test_by_hand(rung, xp):
    x = np.array([[1.0], [2.0], [2.0], [3.0], [4.0]])
    order, ranks = (rung.from_host(part) for part in lists_of(x))
    positive = rung.from_host(np.array([0, 1, 0, 1, 1]) > 0)
    with rung.forbid_syncs():
        found = best_thresholds(xp, order, ranks, Target(positive, None), accuracy_of(rung, 5.0, 5))
    score, p, covered, position = (rung.to_host(part).tolist() for part in found)
    assert (score, p, covered) == ([1.0], [2.0], [2.0])
    assert position == [5 + 2]  # beyond the third row: x > 2


@pytest.mark.parametrize("values", [[3.0, 3.0, 3.0], [np.nan, np.nan, np.nan], [1.0, np.nan, 1.0]])
def test_nothing_to_cut(rung, xp, values):
    order, ranks = (rung.from_host(part) for part in lists_of(np.array(values)[:, None]))
    positive = rung.from_host(np.array([1, 0, 1]) > 0)
    score = best_thresholds(xp, order, ranks, Target(positive, None), accuracy_of(rung, 3.0, 3))[0]
    assert rung.to_host(score).tolist() == [-np.inf]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_against_a_loop(rung, xp, data):
    n = data.draw(st.integers(2, 12))
    cell = st.sampled_from([0.0, 1.0, 2.0, 3.0, np.nan])
    x = np.array(data.draw(st.lists(st.tuples(cell, cell), min_size=n, max_size=n)))
    positive = np.array(data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
    weights = np.array(data.draw(st.lists(st.sampled_from([1, 2, 4]), min_size=n, max_size=n)))
    is_weighted = data.draw(st.booleans())
    order, ranks = (rung.from_host(part) for part in lists_of(x))
    given_weights = pack_weights(weights, Place(xp, rung.device))[0] if is_weighted else None
    weights = weights / 2 if is_weighted else np.ones(n)
    target = Target(rung.from_host(positive > 0), given_weights)
    scoring = accuracy_of(rung, float(weights.sum()), n, 0.5 if is_weighted else None)
    found = best_thresholds(xp, order, ranks, target, scoring)
    assert_equals_the_loop(rung, [rung.to_host(part).tolist() for part in found], x, order, positive, weights)


def assert_equals_the_loop(rung, found, x, order, positive, weights):
    n = x.shape[0]
    expected = [best_by_loop(x[:, j], positive, weights) for j in range(2)]
    best = max(expected)
    for j in range(2):
        if found[0][j] == -np.inf:
            assert expected[j] < best or best[0] == -np.inf
            continue
        np.testing.assert_allclose([found[0][j], found[2][j], found[1][j]], expected[j], rtol=1e-6)
        side, at = divmod(found[3][j], n)
        rows = rung.to_host(order)[j]
        covered = rows[: at + 1] if side == 0 else rows[at + 1 :]
        covered = covered[~np.isnan(x[covered, j])]
        np.testing.assert_allclose(weights[covered].sum(), expected[j][1], rtol=1e-6)
