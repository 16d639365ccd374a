"""The primitives of boosting: values by hand, native against portable, no sync."""

from __future__ import annotations

import numpy as np
import pytest

from arraylearn.backend.dispatch import portable_only
from arraylearn.boosting.log_loss import (
    SCORE_BITS,
    gradient_tables,
    log_loss_gradients,
)
from arraylearn.grow.bounds import Constraint
from arraylearn.grow.formulas import GRADIENT_BITS, unpack
from arraylearn.grow.histograms.gradient_splits import best_splits
from tests.backends.assertions import assert_close

UNIT = 1 << SCORE_BITS


def both(rung, function):
    """The results of a primitive without a sync, after checking the portable body against the native one."""
    with rung.forbid_syncs():
        result = function()
        with portable_only():
            portable = function()
    for one, other in zip(result, portable, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert_close(one, other, rtol=0, atol=0)
    return result


def many(n):
    """So many rows where they take no seconds; elsewhere the small sizes say the same."""
    return pytest.param(n, marks=pytest.mark.rungs("quick"))


def packed_weights(rng, shape):
    return (rng.integers(0, 1 << 12, shape) << 32) + rng.integers(-(1 << 12), 1 << 12, shape)


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [1, 5, many(40_000)])
def test_log_loss_gradients(rung, xp, k, weighted, n):
    rng = np.random.default_rng(n)
    scores = np.round(rng.normal(size=(k, n)) * 2 * UNIT).astype(np.int32)
    codes = rng.integers(0, max(k, 2), n)
    weights = rng.random(n).astype(np.float32) if weighted else None
    s, c = rung.from_host(scores), rung.from_host(codes)
    w = None if weights is None else rung.from_host(weights)
    tables = gradient_tables(xp, rung.device, k)
    found = both(rung, lambda: log_loss_gradients(xp, tables, s, c, w))
    packed, shifts = (rung.to_host(part) for part in found)
    real = scores / UNIT
    if k == 1:
        p = 1 / (1 + np.exp(-real))
        is_class = codes[None, :] == 1
    else:
        p = np.exp(real) / np.exp(real).sum(axis=0)
        is_class = codes[None, :] == np.arange(k)[:, None]
    heavy = 1.0 if weights is None else weights
    gradient, hessian = unpack(packed)
    units = 2.0 ** (shifts - GRADIENT_BITS)
    np.testing.assert_allclose(gradient * units[:, None], (p - is_class) * heavy, atol=5e-5)
    np.testing.assert_allclose(hessian * units[:, None], p * (1 - p) * heavy, atol=5e-5)
    assert np.abs(gradient).sum(axis=1).max() < 2**31
    assert hessian.sum(axis=1).max() < 2**31


def test_far_scores_have_no_gradient_left(rung, xp):
    scores = rung.from_host(np.array([[100 * UNIT, -100 * UNIT, 2**31 - 1, -(2**31)]], dtype=np.int32))
    codes = rung.from_host(np.array([1, 0, 0, 1]))
    tables = gradient_tables(xp, rung.device, 1)
    packed, shifts = (rung.to_host(part) for part in log_loss_gradients(xp, tables, scores, codes, None))
    gradient = unpack(packed)[0] * 2.0 ** (shifts - GRADIENT_BITS)
    np.testing.assert_allclose(gradient, [[0, 0, 1, -1]], atol=1e-8)


@pytest.mark.parametrize("has_missing", [False, True])
@pytest.mark.parametrize("n_numeric", [3, 1])
@pytest.mark.parametrize("ridge", [0.0, 3.0])
def test_best_splits_against_all_of_them(rung, xp, has_missing, n_numeric, ridge):
    rng = np.random.default_rng(5)
    k, d, n_bins = 4, 3, 6
    sums = packed_weights(rng, (k, d, n_bins))
    if not has_missing:
        sums[:, :, -1] = 0
    sums[:, 1:, 0] += sums[:, :1, :].sum(axis=2) - sums[:, 1:, :].sum(axis=2)  # one total per node
    regular = rung.from_host(np.array([ridge, 1.0, 10.0, 3.0], dtype=np.float32))
    missing = range(d) if has_missing else ()
    s, share = rung.from_host(sums.cumsum(axis=2)), rung.from_host(np.full(k, 1e-3, dtype=np.float32))
    best = both(
        rung,
        lambda: best_splits(xp, s, regular, share, None, n_numeric=n_numeric, missing=missing),
    )
    cell, left, total, *sides = (None if part is None else rung.to_host(part) for part in best)
    feature, position = cell // n_bins, cell % n_bins
    for node in range(k):
        assert total[node] == sums[node, 0].sum()
        if sides[1] is None:
            assert not has_missing
            right = np.arange(n_bins) > position[node]
        else:
            right = sides[1][node]
            assert right[-1] != sides[0][node]
        assert left[node] == sums[node, feature[node]][~right].sum()
        least = max(1.0, 1e-3 * (total[node] >> 32))
        # a nominal column pays for its categories beyond two
        price = [3.0 * max(np.count_nonzero(sums[node, j, :-1]) - 2, 0) * (j >= n_numeric) for j in range(d)]
        gains = [
            gain_of(sums[node, j], side, ridge, least) - price[j]
            for j in range(d)
            for side in sides_of(sums[node, j], j >= n_numeric, has_missing)
        ]
        found = gain_of(sums[node, feature[node]], right, ridge, least) - price[feature[node]]
        assert found == pytest.approx(max(gains), rel=1e-5)


def sides_of(sums, is_nominal, has_missing):
    n_bins = sums.shape[0]
    gradient, hessian = unpack(sums)
    order = np.arange(n_bins - 1)
    if is_nominal:
        order = np.argsort((gradient / (hessian + 10.0))[:-1], kind="stable")
    for last in range(n_bins - 1):
        for is_missing_right in (True, False) if has_missing else (True,):
            right = np.ones(n_bins, dtype=bool)
            right[order[: last + 1]] = False
            right[-1] = is_missing_right
            yield right


def gain_of(sums, right, ridge, least):
    sides = [unpack(int(sums[mask].sum())) for mask in (~right, right)]
    if min(hessian for _, hessian in sides) < least:
        return 0.0
    return sum(gradient**2 / (hessian + ridge) for gradient, hessian in sides)


@pytest.mark.parametrize("missing", [(), (0, 2)])
def test_best_splits_uses_only_some_columns(rung, xp, missing):
    rng = np.random.default_rng(5)
    sums = packed_weights(rng, (5, 3, 6))
    sums[:, 1:, 0] += sums[:, :1, :].sum(axis=2) - sums[:, 1:, :].sum(axis=2)
    running = rung.from_host(sums.cumsum(axis=2))
    regular = rung.from_host(np.ones(4, dtype=np.float32))
    share = rung.from_host(np.zeros(5, dtype=np.float32))

    def find(is_used):
        used = rung.from_host(np.array([is_used]))
        return both(
            rung, lambda: best_splits(xp, running, regular, share, used, n_numeric=3, missing=missing)
        )

    assert (rung.to_host(find([False, True, False])[0]) // 6).tolist() == [1] * 5
    # where there is nothing to split, everything is on the left, however good the other columns are
    nothing = find([False, False, False])
    assert_close(nothing[1], rung.to_host(nothing[2]))


@pytest.mark.parametrize("trend", [1, -1])
def test_best_splits_under_a_constraint(rung, xp, trend):
    # gradients of four bins: the unconstrained optimum cuts after the first, where the value rises
    gradient, hessian = np.array([8, -2, -9, 3, 0]), np.array([10, 10, 10, 10, 0])
    running = ((hessian << 32) + gradient).cumsum()[None, None, :]
    low, high = -0.25, 0.3

    def value(g, h):
        return min(max(-g / (h + 1), low), high)

    def score(g, h):
        return -(2 * g + (h + 1) * value(g, h)) * value(g, h)

    scores = {}
    for last in range(3):
        sides = [
            (gradient[part].sum(), hessian[part].sum()) for part in (slice(last + 1), slice(last + 1, 5))
        ]
        if trend * (value(*sides[1]) - value(*sides[0])) >= 0:
            scores[last] = sum(score(*side) for side in sides)
    assert 0 < len(scores) < 3
    sums, regular = rung.from_host(running), rung.from_host(np.ones(4, dtype=np.float32))
    constraint = Constraint(
        rung.from_host(np.array([trend], dtype=np.float32)),
        rung.from_host(np.array([[low], [high]], dtype=np.float32)),
    )

    def find(least):
        share = rung.from_host(np.full(1, least, dtype=np.float32))
        return both(
            rung,
            lambda: best_splits(
                xp, sums, regular, share, None, n_numeric=1, missing=(), constraint=constraint
            )[:3],
        )

    assert int(rung.to_host(find(0.0)[0])[0]) == max(scores, key=scores.get)
    nothing = find(0.9)
    assert_close(nothing[1], rung.to_host(nothing[2]))
