"""The least deviation of a column: gaps by hand, parts joined in any order, rows left out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import arraylearn as al
from arraylearn.backend.dispatch import portable_only
from arraylearn.bayes import UndefinedVarianceWarning
from arraylearn.bayes.folds.leave_one_out import leave_out_bayes_rows
from arraylearn.bayes.precision import (
    MOST_VALUES,
    distinct_values,
    gaps_without_one,
    mean_gaps,
    merge_distinct,
)
from arraylearn.folds import open_sample
from tests.bayes.test_folds import assert_same_as_loop
from tests.bayes.test_leave_one_out import one_by_one

nan, inf = math.nan, math.inf
# columns: repeated values, one value with a gap, none known, ends that weigh nothing
X = np.array(
    [
        [1.0, 7.0, nan, -9.0],
        [4.0, nan, nan, 0.0],
        [1.0, 7.0, nan, 2.0],
        [2.0, 7.0, nan, 6.0],
        [2.0, 7.0, nan, 9.0],
    ]
)
WEIGHTS = np.array([0.0, 1.0, 1.0, 2.0, 0.5])


def test_by_hand(rung, xp, float_dtype_name):
    found = distinct_values(xp, rung.from_host(X, float_dtype_name))
    np.testing.assert_array_equal(rung.to_host(found.low), [1, 7, inf, -9])
    np.testing.assert_array_equal(rung.to_host(found.high), [4, 7, -inf, 9])
    np.testing.assert_array_equal(rung.to_host(found.number), [3, 1, 0, 5])
    values = [[1, 2, 4, inf, inf], [7, *[inf] * 4], [inf] * 5, [-9, 0, 2, 6, 9]]
    np.testing.assert_array_equal(rung.to_host(found.values), values)
    gaps = mean_gaps(xp, found, rung.from_host([10.0, 20.0, 30.0, 40.0], float_dtype_name))
    np.testing.assert_allclose(rung.to_host(gaps), [1.5, 20, 30, 4.5], rtol=1e-6)


def test_rows_without_weight_do_not_count(rung, xp, float_dtype_name):
    weights = rung.from_host(WEIGHTS, float_dtype_name)
    found = distinct_values(xp, rung.from_host(X, float_dtype_name), weights)
    expected = distinct_values(xp, rung.from_host(X[1:], float_dtype_name))
    for one, other in zip(found, expected, strict=True):
        one, other = rung.to_host(one), rung.to_host(other)
        np.testing.assert_array_equal(one[:, :4] if one.ndim == 2 else one, other)


def kinds_of_columns(n=5000):
    """Continuous numbers, few values, whole numbers, one number more and less than are counted, gaps."""
    rng = np.random.default_rng(0)
    columns = [
        rng.normal(size=n),
        rng.integers(0, 40, n) / 7,
        rng.poisson(30, n) * 1.0,
        np.arange(n) % MOST_VALUES,
        np.arange(n) % (MOST_VALUES - 1),
        np.where(rng.random(n) < 0.3, nan, rng.integers(-5, 5, n)),
        np.where(np.arange(n) < n - 1500, -0.0, rng.normal(size=n)),
    ]
    return np.column_stack(columns)


def test_parts_in_any_order_give_the_same(rung, xp, float_dtype_name):
    rows = kinds_of_columns().astype(float_dtype_name)
    with portable_only():
        expected = distinct_values(np, rows)
    parts = [
        distinct_values(xp, rung.from_host(part, float_dtype_name)) for part in np.split(rows, [100, 2500])
    ]
    joins = [distinct_values(xp, rung.from_host(rows, float_dtype_name))]
    for a, b, c in ((0, 1, 2), (2, 0, 1)):
        joins.append(merge_distinct(xp, merge_distinct(xp, parts[a], parts[b]), parts[c]))
    for found in joins:
        for name, wanted in expected._asdict().items():
            values = rung.to_host(getattr(found, name))
            if name == "values":  # columns of the table that hold inf alone may be left out
                assert np.isinf(wanted[:, values.shape[1] :]).all()
                wanted = wanted[:, : values.shape[1]]
                values = values[:, : wanted.shape[1]]
            np.testing.assert_array_equal(values, wanted)
    distinct = [len(np.unique(column[~np.isnan(column)])) for column in rows.T]
    np.testing.assert_array_equal(expected.number, np.minimum(distinct, MOST_VALUES))


def test_many_rows_are_read_block_by_block():
    """NumPy's body looks at 262,144 values at a time for the ends, and at fewer for the list of values."""
    rows = kinds_of_columns(40_001)
    found = distinct_values(np, rows)
    np.testing.assert_array_equal(found.low, np.nanmin(rows, axis=0))
    np.testing.assert_array_equal(found.high, np.nanmax(rows, axis=0))
    for column, number, values in zip(rows.T, found.number, found.values, strict=True):
        known = np.unique(column[~np.isnan(column)])
        assert number == min(len(known), MOST_VALUES)
        if number < MOST_VALUES:
            np.testing.assert_array_equal(values[:number], known)
        assert np.isinf(values[number if number < MOST_VALUES else 0 :]).all()


@pytest.mark.parametrize("n", [2, 12, 1500])
def test_without_each_row(rung, xp, n):
    name = rung.float_dtypes[-1]
    rng = np.random.default_rng(n)
    x = np.column_stack(
        [
            rng.normal(size=n),
            rng.integers(0, 4, n),
            np.full(n, 3),
            np.where(rng.random(n) < 0.4, nan, rng.integers(0, 9, n)),
        ]
    ).astype(name)
    found, needs_fit = (
        rung.to_host(part)
        for part in gaps_without_one(xp, rung.from_host(x), rung.from_host(np.full(4, 5, name)))
    )
    for i in range(0, n, 1 + n // 100):
        number = [len(set(column[~np.isnan(column)])) for column in x.T]
        left = np.delete(x, i, axis=0)
        rest = [np.unique(column[~np.isnan(column)]) for column in left.T]
        assert needs_fit[i] == any(
            len(values) < min(2, before) for values, before in zip(rest, number, strict=True)
        )
        for j, values in enumerate(rest):
            gap = (values[-1] - values[0]) / (min(len(values), MOST_VALUES) - 1) if len(values) > 1 else 5
            np.testing.assert_allclose(found[i, j], gap, rtol=1e-6)


# ---- the classifier


def near_constant(n=240, seed=0):
    """Columns that hardly vary within a class: mostly zero, of few values, constant in one class, rounded."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    columns = [
        np.where(rng.random(n) < 0.02 + 0.2 * (y == 1), rng.integers(1, 30, n), 0),
        np.where(y == 0, 5.0, rng.normal(5, 2, n).round(1)),
        rng.integers(0, 2, n) * (y == 2),
        np.where(rng.random(n) < 0.1, nan, (rng.normal(size=n) + y).round(1)),
        rng.normal(size=n) * 1e3,
    ]
    return np.column_stack(columns).astype(float), y


def test_least_variance_by_hand(rung, float_dtype_name):
    rows = rung.from_host(
        [[0.0, 3.0], [0.0, 3.0], [0.0, 3.0], [2.0, 3.0], [0.0, 3.0], [12.0, 3.0]], float_dtype_name
    )
    model = al.NaiveBayesClassifier().fit(rows, [0, 0, 0, 1, 1, 1])
    gap = 12 / 2  # between 0, 2 and 12; a column of one value has the gap of that value
    expected = [[(gap / 6) ** 2, (3 / 6) ** 2], [(4 + 144 - 3 * (14 / 3) ** 2) / 2, (3 / 6) ** 2]]
    np.testing.assert_allclose(rung.to_host(model.model_.var), expected, rtol=1e-6)
    sums = [0.0, 12.0]
    density = [
        -0.5 * (math.log(2 * math.pi * v) + (12 - s / 3 * (14 / 12 if s else 0)) ** 2 / v)
        for s, v in zip(sums, (expected[0][0], expected[1][0]), strict=True)
    ]
    log_odds = density[1] - density[0]
    found = model.decision_function(rung.from_host([[12.0, 8.0]], float_dtype_name))
    np.testing.assert_allclose(rung.to_host(found), [log_odds], rtol=1e-5)


def test_a_value_that_a_class_never_had_does_not_rule_it_out():
    """Thirteen columns speak for class 0, which happens to be constant in another, close to the value."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    rows = rng.normal(size=(200, 14)) + 1.5 * y[:, None]
    rows[:, 0] = np.where(y == 0, 1.0, rng.choice([1.0, 1.1, 1.2], 200))
    query = np.full((1, 14), -0.5)
    query[0, 0] = 1.1
    assert al.NaiveBayesClassifier(var_smoothing=1e-9).fit(rows, y).predict(query).tolist() == [1]
    assert al.NaiveBayesClassifier().fit(rows, y).predict(query).tolist() == [0]


def test_units_and_the_order_of_rows_make_no_difference():
    rows, y = near_constant()
    found = al.NaiveBayesClassifier().fit(rows, y).predict_log_proba(rows)
    units = np.array([8.0, 0.25, 1024.0, 2.0**-30, 2.0**40])
    scaled = al.NaiveBayesClassifier().fit(rows * units, y).predict_log_proba(rows * units)
    np.testing.assert_allclose(scaled, found, rtol=1e-9, atol=1e-9)
    order = np.random.default_rng(1).permutation(len(y))
    mixed = al.NaiveBayesClassifier().fit(rows[order], y[order]).predict_log_proba(rows)
    np.testing.assert_allclose(mixed, found, rtol=1e-9, atol=1e-9)


def test_weights_are_repetitions_and_zero_is_removal():
    rows, y = near_constant()
    weights = np.random.default_rng(2).integers(0, 4, len(y))
    weights[np.argmax(rows[:, 0])] = 0  # the row that ends the range
    weighed = al.NaiveBayesClassifier().fit(rows, y, sample_weight=weights)
    repeated = al.NaiveBayesClassifier().fit(np.repeat(rows, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighed.model_.var, repeated.model_.var, rtol=1e-9)


@pytest.mark.parametrize("var_smoothing", [None, 0.0, 1e-9])
@pytest.mark.parametrize("bounds", [[80], [1, 2, 30, 200]])
@pytest.mark.filterwarnings(f"ignore::{UndefinedVarianceWarning.__module__}.UndefinedVarianceWarning")
def test_parts_end_with_the_variances_of_one_fit(rung, bounds, var_smoothing):
    rows, y = near_constant()
    name = rung.float_dtypes[-1]
    once = al.NaiveBayesClassifier(var_smoothing=var_smoothing).fit(
        rung.from_host(rows, name), rung.from_host(y)
    )
    parts = al.NaiveBayesClassifier(var_smoothing=var_smoothing)
    for some, labels in zip(np.split(rows, bounds), np.split(y, bounds), strict=True):
        parts.partial_fit(rung.from_host(some, name), rung.from_host(labels), classes=[0, 1, 2])
    rtol = 1e-9 if name == "float64" else 1e-3
    np.testing.assert_allclose(rung.to_host(parts.model_.var), rung.to_host(once.model_.var), rtol=rtol)
    for one, other in zip(parts._statistics.distinct[:3], once._statistics.distinct[:3], strict=True):
        np.testing.assert_array_equal(rung.to_host(one), rung.to_host(other))


# with 0 and fractional weights, a mean of equal numbers off by its last digit shows in the density
@pytest.mark.parametrize(
    ("var_smoothing", "weighted"),
    [(None, False), (None, True), (0.0, False), (1e-9, False), (1e-9, True), (0.1, True)],
)
def test_folds_and_rows_left_out(var_smoothing, weighted):
    rows, y = near_constant(90)
    weight = np.linspace(0.5, 2, 90) if weighted else None
    estimator = al.NaiveBayesClassifier(var_smoothing=var_smoothing)
    assert_same_as_loop(estimator, rows, y, 5, weight, tolerance=1e-7)
    sample = open_sample(rows, y, weight)
    found = leave_out_bayes_rows(estimator, sample)
    if found is None:
        assert var_smoothing == 0.0  # a class without any variance needs the loop
        return
    expected = one_by_one(estimator, sample)
    np.testing.assert_allclose(found.answer("predict_log_proba"), expected, rtol=1e-7, atol=1e-7)


# ---- the rule of scikit-learn


@pytest.mark.parametrize("share", [0, 1e-9, 0.3])
def test_var_smoothing_is_that_of_scikit_learn(share):
    for data in (al.datasets.load_iris(), al.datasets.load_wine()):
        ours = al.NaiveBayesClassifier(variance="ml", var_smoothing=share).fit(data.X, data.y)
        theirs = GaussianNB(var_smoothing=share).fit(data.X, data.y)
        np.testing.assert_allclose(ours.model_.var, theirs.var_, rtol=1e-10)
        np.testing.assert_allclose(
            ours.predict_joint_log_proba(data.X), theirs.predict_joint_log_proba(data.X), rtol=1e-9
        )


def test_nothing_added_to_a_variance_of_zero(rung, float_dtype_name):
    """scikit-learn divides by it; here it is the square of what rounding leaves open."""
    rows = rung.from_host([[2.0, 0.0], [2.0, 1.0], [2.0, 5.0], [3.0, 5.5]], float_dtype_name)
    model = al.NaiveBayesClassifier(variance="ml", var_smoothing=0).fit(rows, [0, 0, 1, 1])
    size = math.sqrt((3 * 4 + 9) / 4)  # root mean square of the column
    found = rung.to_host(model.model_.var)
    eps = 16 * np.finfo(found.dtype).eps
    np.testing.assert_allclose(found, [[(eps * size) ** 2, 0.25], [0.25, 0.0625]], rtol=1e-5)
    assert rung.to_host(model.predict(rows)).tolist() == [0, 0, 1, 1]
    assert np.isfinite(rung.to_host(model.predict_log_proba(rows))).all()
