"""Cuts of drawn columns by hand on every backend; the compiled growth is that of the array program."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arraylearn.backend.dispatch import Tuning, is_numba_installed, use_compiled
from arraylearn.backend.namespace import HOST, locate
from arraylearn.grow.drawn_columns import drawn
from arraylearn.grow.drawn_columns.cuts import CutRules, Draws, best_cuts
from arraylearn.grow.formulas import splitmix
from arraylearn.grow.trees import LEAF, Limits
from arraylearn.measures import MEASURES

ENOUGH = Tuning().compiled_forest
needs_numba = pytest.mark.skipif(not is_numba_installed(), reason="not installed: numba")


def nodes_of(n_classes, sizes, n_bins=9, weights_below=4, seed=None):
    """Rows of some nodes with random bins, weights and classes."""
    rng = np.random.default_rng(n_classes if seed is None else seed)
    n, class_bits = sum(sizes), (n_classes - 1).bit_length()
    bins = rng.integers(0, n_bins, (n, 4)).astype(np.int16)
    bins[:, 3] = 2  # constant
    codes, weights = rng.integers(0, n_classes, n), rng.integers(1, weights_below, n)
    rows = rng.permutation(n)
    payload_bits = class_bits + int(weights.max()).bit_length()
    entries = (rows << payload_bits) | (weights[rows] << class_bits) | codes[rows]
    blocks = np.split(rows, np.cumsum(sizes)[:-1])
    counts = np.array([np.bincount(codes[b], weights[b], minlength=n_classes) for b in blocks]).astype(int)
    rules = CutRules(n_bins, class_bits, payload_bits)
    return bins, codes, weights, entries, blocks, counts, rules


def found_cuts(rung, xp, sizes, rules, *arrays, draws=None):
    """The cuts of `best_cuts`, on the host; no sync on the way."""
    bins, *others = arrays
    bins, entries, features, counts = (rung.from_host(part) for part in (bins.T.copy(), *others))
    drawn = None if draws is None else Draws(*(rung.from_host(part) for part in draws))
    with rung.forbid_syncs():
        found = best_cuts(xp, bins, entries, sizes, features, counts, rules, drawn)
    score = rung.to_host(found[0])
    assert score.dtype == np.float32
    return [rung.to_host(part) for part in found]


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("least", [1, 3])
@pytest.mark.parametrize("weights_below", [4, 30_000])  # the sum of the latter needs more than 16 bits
def test_best_cuts_against_all_of_them(rung, xp, n_classes, least, weights_below):
    sizes = [20, 3, 1, 36]
    bins, codes, weights, entries, blocks, counts, rules = nodes_of(
        n_classes, sizes, weights_below=weights_below
    )
    features = np.array([[0, 1], [2, 3], [1, 0], [3, 3]])
    rules = rules._replace(min_side=least)
    score, column, cut = found_cuts(rung, xp, sizes, rules, bins, entries, features, counts)
    for node, block in enumerate(blocks):
        columns = bins[block][:, features[node]].T
        wanted = best_by_hand(columns, codes[block], weights[block], n_classes, least)
        assert (score[node] > 0) == (wanted > 0)
        if wanted > 0:
            assert column[node] in features[node]
            right = bins[block, column[node]] > cut[node]
            assert score_of(right, codes[block], weights[block], n_classes) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_large_nodes_look_at_groups_of_bins(rung, xp, n_classes):
    sizes = [600, 40, 1500]
    bins, codes, weights, entries, blocks, counts, rules = nodes_of(n_classes, sizes, n_bins=3000, seed=5)
    features = np.array([[0, 1], [1, 2], [2, 0]])
    rules = rules._replace(large=500)
    _, column, cut = found_cuts(rung, xp, sizes, rules, bins, entries, features, counts)
    for node, (block, n_groups) in enumerate(zip(blocks, [128, 3000, 256], strict=True)):
        best = 0.0
        for j in features[node]:
            values = bins[block, j]
            width = 1
            while (values.max() - values.min()) // width >= n_groups:
                width *= 2
            groups = (values - values.min()) // width
            best = max(best, best_by_hand(groups[None], codes[block], weights[block], n_classes, 1))
        right = bins[block, column[node]] > cut[node]
        assert score_of(right, codes[block], weights[block], n_classes) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("least", [1, 4])
def test_drawn_cuts(rung, xp, n_classes, least):
    sizes = [20, 3, 1, 36]
    bins, codes, weights, entries, blocks, counts, rules = nodes_of(n_classes, sizes)
    features = np.array([[0, 1], [2, 3], [1, 0], [3, 2]])
    numbers = np.random.default_rng(7).integers(0, 2**32, features.shape)
    places = np.array([0, 1, 2, 30, 31, 31, 31, 90, 99])  # of the nine bins
    draws = (numbers, (np.arange(4)[:, None] * 1000 + places).reshape(-1))
    rules = rules._replace(min_side=least)
    score, column, cut = found_cuts(rung, xp, sizes, rules, bins, entries, features, counts, draws=draws)
    for node, block in enumerate(blocks):
        offers = []
        for j, number in zip(features[node], numbers[node], strict=True):
            values = bins[block, j].astype(int)
            low, high = places[values.min()], places[values.max()]
            at = np.flatnonzero(places <= low + int((high - low) * (number / 2**32)))[-1]
            at = max(min(at, values.max() - 1), values.min())
            right = values > at
            sides = [weights[block][side].sum() for side in (right, ~right)]
            is_allowed = values.min() < values.max() and min(sides) >= least
            offers.append((score_of(right, codes[block], weights[block], n_classes) if is_allowed else 0, at))
        best = max(offers)
        assert (score[node] > 0) == (best[0] > 0)
        if best[0] > 0:
            here = features[node].tolist().index(column[node])
            assert offers[here][0] == pytest.approx(best[0], rel=1e-6)
            assert cut[node] == offers[here][1]


def test_a_cut_without_gain_is_better_than_none(rung, xp):
    bins = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.int16)
    entries = (np.arange(4) << 2) | (1 << 1) | np.array([0, 1, 1, 0])
    features, counts = np.array([[0, 1]]), np.array([[2, 2]])
    rules = CutRules(2, 1, 2)
    score, column, cut = found_cuts(rung, xp, [4], rules, bins, entries, features, counts)
    assert 0 < score[0] < 1e-20
    assert (column[0], cut[0]) == (0, 0)
    rules = rules._replace(min_side=3)
    assert found_cuts(rung, xp, [4], rules, bins, entries, features, counts)[0][0] == 0


def score_of(right, codes, weights, n_classes):
    sides = [np.bincount(codes[s], weights[s], minlength=n_classes) for s in (right, ~right)]
    return sum((side**2).sum() / side.sum() for side in sides)


def best_by_hand(columns, codes, weights, n_classes, least):
    best = 0.0
    for column in columns:
        for cut in np.unique(column)[:-1]:
            right = column > cut
            if min(weights[right].sum(), weights[~right].sum()) >= least:
                best = max(best, score_of(right, codes, weights, n_classes))
    return best


# ---- the body


def grow_both(bins, codes, bags, plan):
    """Grow by the array program and by the compiled body."""
    with use_compiled("always"):
        body = drawn.choose_body(HOST, 1, plan, int(bags.weights.sum()))
    by_column, by_row = np.ascontiguousarray(bins.T), np.asfortranarray(bins.T)
    return [drawn.grow_trees(HOST, by_column, codes, bags, plan), body(HOST, by_row, codes, bags, plan)]


def assert_same_trees(one, other):
    for name, a, b in zip(one._fields, one, other, strict=True):
        if a is None:
            assert b is None, name
        else:
            np.testing.assert_array_equal(a, b, err_msg=name)
            assert a.dtype == b.dtype, name


def random_plan(rng, n_bins, n_classes, n_columns, is_drawn, criterion="gini", **limits):
    """A plan that looks at some of the columns, and at drawn cuts if that is asked for."""
    n_features = int(rng.integers(1, n_columns + 1))
    columns = np.argsort(rng.random((64, n_columns)), axis=1)[:, :n_features].copy()
    steps = rng.integers(0, 1 << 20, (n_columns, n_bins))  # bins may share a position
    positions = np.cumsum(steps * (rng.random(steps.shape) < 0.8), axis=1)
    positions += np.arange(n_columns)[:, None] * (1 << 33)
    drawn_cuts = positions.reshape(-1) if is_drawn else None
    return drawn.DrawnPlan(n_bins, n_classes, Limits(**limits), columns, drawn_cuts, criterion)


def random_bags(rng, n, n_trees, most_weight):
    rows = [np.flatnonzero(rng.random(n) < 0.8) for _ in range(n_trees)]
    rows = [some if some.shape[0] else np.arange(n) for some in rows]
    sizes = np.array([some.shape[0] for some in rows])
    weights = rng.integers(1, most_weight + 1, sizes.sum())
    seeds = splitmix(rng.integers(0, 2**63, n_trees).astype(np.uint64))
    return drawn.Bags(np.concatenate(rows), weights, sizes, seeds)


@pytest.mark.parametrize("criterion", MEASURES)
@needs_numba
@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    n=st.sampled_from([2, 9, 40, 41, 150, 700, 2200]),
    n_bins=st.sampled_from([2, 3, 40, 256, 1500, 4095]),
    n_classes=st.sampled_from([1, 2, 3, 10, 130]),
    most_weight=st.sampled_from([1, 3, 60, 40_000, 700_000]),
    is_drawn=st.booleans(),
    limits=st.fixed_dictionaries(
        {
            "max_depth": st.sampled_from([None, None, 1, 4]),
            "min_samples_split": st.sampled_from([2, 2, 30]),
            "min_samples_leaf": st.sampled_from([1, 1, 7, 1000]),
            "least_rows": st.sampled_from([0, 0, 20]),
            "side_rows": st.sampled_from([1, 1, 2, 7]),
        }
    ),
)
def test_the_body_grows_the_trees_of_the_array_program(
    criterion, seed, n, n_bins, n_classes, most_weight, is_drawn, limits
):
    rng = np.random.default_rng(seed)
    bins = rng.integers(0, n_bins, (n, 11))  # more columns than are gathered at a time
    bins[:, 2:4] = rng.integers(0, 2, (n, 2))
    bins[:, 4:9] = 1  # nodes often find nothing in the columns that they draw
    bins = bins.astype(np.uint8 if n_bins <= 256 else np.int16)
    codes = (bins[:, 0].astype(int) * n_classes // n_bins + rng.integers(0, 2, n)) % n_classes
    bags = random_bags(rng, n, 3, most_weight)
    plan = random_plan(rng, n_bins, n_classes, 11, is_drawn, criterion, **limits)
    assert_same_trees(*grow_both(bins, codes, bags, plan))


@needs_numba
def test_a_tree_of_one_leaf_and_one_of_a_single_split():
    bins, codes = np.array([[0, 3], [1, 3], [1, 3]], dtype=np.uint8), np.array([0, 1, 1])
    bags = drawn.Bags(
        np.array([0, 1, 2, 1, 2]), np.array([2, 1, 1, 5, 5]), np.array([3, 2]), np.uint64([1, 2])
    )
    plan = drawn.DrawnPlan(4, 2, Limits(), np.array([[1], [0]]))
    for trees in grow_both(bins, codes, bags, plan):
        assert trees.roots.tolist() == [0, 3]
        assert trees.feature.tolist() == [0, LEAF, LEAF, LEAF]
        assert trees.threshold[0] == 0
        assert trees.first_child.tolist() == [1, LEAF, LEAF, LEAF]
        assert trees.depth.tolist() == [0, 1, 1, 0]
        assert trees.sums.tolist() == [[2, 2], [2, 0], [0, 2], [0, 10]]
        assert trees.gain.tolist() == [2, 0, 0, 0]


@pytest.mark.parametrize(
    ("mode", "work", "changes", "weight", "reason"),
    [
        ("auto", ENOUGH - 1, {}, 9, "less work than"),
        ("never", 10**9, {}, 9, "switched off"),
        ("always", 1, {"n_bins": 5000}, 9, "more than 4,096 bins"),
        ("always", 1, {"n_classes": 70_000}, 9, "65,536 classes"),
        ("always", 1, {}, 2**31, "weights of"),
        ("always", 1, {"criterion": MEASURES["gini"]}, 9, "a measure of the caller's"),
    ],
)
@needs_numba
def test_why_the_array_program_serves(mode, work, changes, weight, reason):
    plan = drawn.DrawnPlan(9, 2, Limits(), np.array([[0]]))._replace(**changes)
    with use_compiled(mode):
        assert reason in drawn.choose_body(HOST, work, plan, weight)


@needs_numba
def test_from_how_much_work_on_the_body_is_chosen():
    from arraylearn.grow.drawn_columns import drawn_cpu

    plan = drawn.DrawnPlan(9, 2, Limits(), np.array([[0]]))
    with use_compiled("auto"):
        assert drawn.choose_body(HOST, ENOUGH, plan, 9) is drawn_cpu.grow_trees


def test_other_libraries_run_the_array_program(rung):
    plan = drawn.DrawnPlan(9, 2, Limits(), np.array([[0]]))
    with use_compiled("auto"):
        body = drawn.choose_body(locate(rung.from_host(np.zeros(1, dtype=np.int64))), 10**9, plan, 9)
    assert isinstance(body, str) == (rung.name not in ("numpy", "compiled") or not is_numba_installed())


def test_splitmix_gives_the_numbers_of_its_authors():
    # the first outputs of splitmix64 from the seed 1234567; its state grows by a constant
    golden = 0x9E3779B97F4A7C15
    states = np.array([(1234567 + i * golden) % 2**64 for i in range(3)], dtype=np.uint64)
    wanted = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert splitmix(states).tolist() == wanted
