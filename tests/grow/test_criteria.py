"""Criteria of splits: values by hand, logarithms from the table, and the bodies beside the array program."""

from __future__ import annotations

from decimal import Decimal, localcontext
from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import arraylearn as al
from arraylearn.backend.dispatch import portable_only, tuned, use_compiled
from arraylearn.backend.namespace import HOST, Place
from arraylearn.backend.threads import set_num_threads
from arraylearn.grow.criteria import CRITERIA, log_table, make_criterion, n_log_n, score_counts
from arraylearn.grow.finder import choose_body
from arraylearn.grow.formulas import CHI2, WEIGHT_BITS
from arraylearn.grow.loop import presort
from arraylearn.grow.rows import Entries, level_of, prepare_rows
from arraylearn.grow.split import SplitRule, prepare_rule
from arraylearn.grow.trees import Limits
from arraylearn.measures import MEASURES
from arraylearn.table.schema import Table, numeric_schema
from tests.backends.assertions import assert_close


@pytest.fixture
def place(rung, xp):
    return Place(xp, rung.device)


on_the_host = pytest.mark.rungs("host")  # subtrees are grown at once on NumPy only


def entropy(*shares: float) -> float:
    return -sum(p * log2(p) for p in shares if p)


# ten rows, six of class 0: left (5, 1), right (1, 3)
GAINED = entropy(0.6, 0.4) - 0.6 * entropy(5 / 6, 1 / 6) - 0.4 * entropy(1 / 4, 3 / 4)
BY_HAND = {
    "gini": 0.48 - 0.6 * (10 / 36) - 0.4 * (6 / 16),
    "accuracy": 0.8,
    "error": 0.2,
    # the surplus of class 0 on the left is 5 - 3.6
    "chi2": 1.4**2 * (1 / 3.6 + 1 / 2.4 + 1 / 2.4 + 1 / 1.6),
    "entropy": GAINED,
    "gain_ratio": GAINED / entropy(0.6, 0.4),
    "symmetric_gain_ratio": GAINED / entropy(0.5, 0.1, 0.1, 0.3),
    "symmetric_gain_ratio_sum": GAINED / (2 * entropy(0.6, 0.4)),
}


@pytest.mark.parametrize("measure", MEASURES)
def test_values_by_hand(rung, xp, place, measure):
    assert set(BY_HAND) == set(MEASURES) == set(CRITERIA)
    criterion = make_criterion(place, measure, 10)
    counts = rung.from_host(np.asarray([[5, 1], [1, 3]]), rung.float_dtypes[-1])
    assert_close(score_counts(xp, criterion, counts), BY_HAND[measure], dtype=rung.float_dtypes[-1])
    X = np.asarray([[0.0]] * 6 + [[1.0]] * 4)
    y = np.asarray([0, 0, 0, 0, 0, 1, 0, 1, 1, 1])
    for splitter in ("exact", "hist"):
        tree = al.DecisionTreeClassifier(criterion=measure, splitter=splitter, max_depth=1)
        found = tree.fit(rung.from_host(X, rung.float_dtypes[-1]), rung.from_host(y)).tree_.gain
        assert float(found[0]) == pytest.approx(BY_HAND[measure], rel=1e-6)


@pytest.mark.parametrize("largest", [1, 5_000, 300_000, 2**27, 2**WEIGHT_BITS - 1])
def test_logarithms_are_at_most_a_unit_off(rung, xp, place, largest):
    draw = np.random.default_rng(0)
    powers = {2**bit + step for bit in range(WEIGHT_BITS) for step in (-1, 0, 1)}
    chosen = {largest, *range(9), *powers, *draw.integers(0, largest + 1, 300).tolist()}
    weights = np.asarray(sorted(n for n in chosen if n <= largest))
    logs = make_criterion(place, "entropy", largest).logs
    found = rung.to_host(n_log_n(xp, logs, rung.from_host(weights)))
    with localcontext() as context:
        context.prec = 40
        for n, units in zip(weights.tolist(), found.tolist(), strict=True):
            exact = (n * Decimal(n).ln() / Decimal(2).ln() if n else Decimal(0)) * 2**logs.bits
            assert abs(units - exact) < Decimal("0.53")
            if n & (n - 1) == 0:
                assert units == (n * (n.bit_length() - 1)) << logs.bits if n else units == 0


@on_the_host
def test_tables_and_the_formula_agree(rung):
    table = log_table(70_000)
    computed = table._replace(values=None)
    np.testing.assert_array_equal(
        table.values, n_log_n(np, computed, np.arange(table.values.shape[0])), strict=True
    )
    assert log_table(2**30).values is None


@given(
    arrays(np.int64, st.tuples(st.integers(2, 4), st.integers(2, 5)), elements=st.integers(0, 60)),
    st.sampled_from(sorted(MEASURES)),
)
def test_scores_are_the_measures(counts, measure):
    criterion = make_criterion(HOST, measure, counts.sum())
    if np.count_nonzero(counts.sum(axis=1)) >= 2:
        found = score_counts(np, criterion, counts.astype(float))
        assert found == pytest.approx(MEASURES[measure](np, counts.astype(float)), rel=1e-6, abs=1e-8)


@given(arrays(np.int64, 4, elements=st.integers(0, 50)), arrays(np.int64, 3, elements=st.integers(1, 50)))
def test_independence_is_exactly_zero(shares, sizes):
    table = (sizes[:, None] * shares[None, :]).astype(float)
    for measure in ("entropy", "gain_ratio", "symmetric_gain_ratio", "symmetric_gain_ratio_sum"):
        assert score_counts(np, make_criterion(HOST, measure, table.sum()), table) == 0


# ---- the bodies


def draw_rows(seed, n, n_classes, n_values):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (np.floor(2 * X[:, 0] - X[:, 1] ** 2) + rng.integers(0, 2, n)).astype(int) % n_classes
    X = X if n_values is None else np.floor(X * n_values / 5)
    return X.astype("float32"), y, rng.integers(0, 5, n)


def assert_same_tree(one, other):
    for name, left, right in zip(one._fields, one, other, strict=True):
        assert (left is None) == (right is None), name
        if left is not None:
            np.testing.assert_array_equal(left, right, strict=True, err_msg=name)


def fit_both(settings, X, y, weights=None):
    found = al.DecisionTreeClassifier(**settings).fit(X, y, sample_weight=weights).tree_
    with portable_only(), use_compiled("never"):
        expected = al.DecisionTreeClassifier(**settings).fit(X, y, sample_weight=weights).tree_
    return found, expected


@pytest.fixture(params=[1, 3])
def threads(request):
    """One thread, or three however small the work is."""
    set_num_threads(request.param)
    with tuned(growth_thread_cells=40, list_thread_values=40):
        yield request.param
    set_num_threads(None)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("measure", MEASURES)
@on_the_host
def test_trees_are_those_of_levels(rung, threads, measure, splitter, n_classes):
    for n_values in (None, 50):  # every row a value of its own; ties
        X, y, weights = draw_rows(n_classes, 250, n_classes, n_values)
        gridded = np.random.default_rng(4).random(250)
        for given_weights in (None, weights) if n_values is None else (gridded,):
            settings = {"criterion": measure, "splitter": splitter, "max_bins": 40, "max_depth": 12}
            found, expected = fit_both(settings, X, y, given_weights)
            assert found.n_nodes > 20
            assert_same_tree(found, expected)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize(
    "measure", ["entropy", "gain_ratio", "symmetric_gain_ratio", "symmetric_gain_ratio_sum"]
)
@on_the_host
def test_long_lists_are_passed_over_where_nothing_is_better(rung, measure, n_classes):
    X, y, weights = draw_rows(n_classes, 2500, n_classes, None)
    settings = {"criterion": measure, "splitter": "exact", "max_depth": 3}
    for given_weights in (None, weights, np.random.default_rng(4).random(2500)):
        assert_same_tree(*fit_both(settings, X, y, given_weights))


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("measure", ["entropy", "chi2", "error"])
@on_the_host
def test_limits_and_missing_values_are_those_of_levels(rung, measure, splitter):
    X, y, _ = draw_rows(0, 300, 3, None)
    settings = {"criterion": measure, "splitter": splitter, "max_bins": 30}
    for limits in ({"min_samples_leaf": 7}, {"min_samples_split": 0.1}, {"min_impurity_decrease": 0.02}):
        assert_same_tree(*fit_both(settings | limits, X, y))
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    assert_same_tree(*fit_both(settings | {"missing": "direction", "max_depth": 9}, X, y))


@pytest.mark.parametrize("measure", MEASURES)
@on_the_host
def test_weights_are_repeated_rows(rung, measure):
    X, y, weights = draw_rows(3, 200, 3, 30)
    settings = {"criterion": measure, "splitter": "exact", "max_depth": 6}
    found = al.DecisionTreeClassifier(**settings).fit(X, y, sample_weight=weights).tree_
    repeated = al.DecisionTreeClassifier(**settings)
    expected = repeated.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).tree_
    for name in ("feature", "threshold", "gain", "counts"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


# ---- what the bodies leave to the array program


@pytest.mark.parametrize(
    ("changes", "limits", "reason"),
    [
        ({}, {}, "less work|few values"),
        ({"measure": MEASURES["gini"]}, {}, "a measure of the caller's"),
        ({"measure": "gain_ratio", "require_average_gain": True}, {}, "C4.5's corrections"),
        ({}, {"max_features": 1}, "columns drawn in each node"),
        ({"missing": "surrogate"}, {}, "surrogates"),
    ],
)
def test_why_the_array_program_serves(changes, limits, reason):
    X, y, _ = draw_rows(0, 40, 2, None)
    table = Table(X, np.empty((0, 40), dtype=np.int32), numeric_schema(4))
    rows = prepare_rows(HOST, table, y, 2, None)
    entries = Entries(rows.labels, None)
    counts = np.bincount(y)
    level = level_of(
        HOST, np.zeros(1, int), counts[None, :], np.asarray([40]), 0, presort(HOST, rows), entries
    )
    rule = prepare_rule(HOST, SplitRule(measure="entropy")._replace(**changes), counts, is_integral=True)
    with use_compiled("auto"):
        for by_lists in (True, False):
            said = choose_body(HOST, rows, level, rule, Limits(**limits), by_lists=by_lists)
            assert any(part in said for part in reason.split("|"))
    with use_compiled("never"):
        for by_lists in (True, False):
            assert isinstance(choose_body(HOST, rows, level, rule, Limits(), by_lists=by_lists), str)


def test_larger_weights_are_scored_in_floats():
    assert make_criterion(HOST, "entropy", 2**WEIGHT_BITS) is None
    assert make_criterion(HOST, "chi2", 2**WEIGHT_BITS).number == CHI2
