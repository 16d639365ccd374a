"""Naive Bayes: estimates by hand, missing values, what may go wrong."""

from __future__ import annotations

import math

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import arraylearn as al
from arraylearn.backend.arrays.ragged import count_categories, look_up_sums
from arraylearn.backend.dispatch import portable_only
from arraylearn.bayes import UndefinedVarianceWarning
from arraylearn.bayes.naive import cell_offsets
from arraylearn.bayes.posterior import most_probable
from tests.backends.assertions import assert_close

COLOURS = [["red"], ["red"], ["blue"], ["green"], ["red"], ["blue"]]
ANSWERS = ["no", "no", "no", "yes", "yes", "yes"]


def probabilities(model):
    """P(value | class) by (value, class)."""
    nominal = model.tables().nominal
    return {
        (value, label): p
        for value, label, p in zip(nominal["value"], nominal["class"], nominal["probability"], strict=True)
    }


# ---- estimates


@pytest.mark.parametrize("gamma", [0, 0.5, 1.0, 3])
def test_laplace(gamma):
    found = probabilities(al.NaiveBayesClassifier(alpha=gamma).fit(COLOURS, ANSWERS))
    counts = {("red", "no"): 2, ("blue", "no"): 1, ("red", "yes"): 1, ("blue", "yes"): 1, ("green", "yes"): 1}
    for value in ("red", "blue", "green"):
        for label in ("no", "yes"):
            n = counts.get((value, label), 0)
            assert found[value, label] == pytest.approx((n + gamma) / (3 + 3 * gamma))


def test_m_estimate_with_uniform_prior_is_laplace():
    m_estimate = al.NaiveBayesClassifier(m_estimate=3).fit(COLOURS, ANSWERS)
    laplace = al.NaiveBayesClassifier(alpha=1).fit(COLOURS, ANSWERS)
    assert probabilities(m_estimate) == pytest.approx(probabilities(laplace))


def test_m_estimate_with_given_and_marginal_prior():
    prior = {"red": 0.2, "blue": 0.3, "green": 0.5}
    given = al.NaiveBayesClassifier(m_estimate=2, value_priors={"x0": prior}).fit(COLOURS, ANSWERS)
    assert probabilities(given)["red", "no"] == pytest.approx((2 + 2 * 0.2) / (3 + 2))
    assert probabilities(given)["green", "no"] == pytest.approx(2 * 0.5 / (3 + 2))
    marginal = al.NaiveBayesClassifier(m_estimate=2, value_priors="marginal").fit(COLOURS, ANSWERS)
    assert probabilities(marginal)["red", "no"] == pytest.approx((2 + 2 * 3 / 6) / (3 + 2))


def test_priors():
    y = ["a", "a", "a", "b", "b", "b"]
    y[2] = "b"
    fit = {"X": COLOURS, "y": y}
    np.testing.assert_allclose(al.NaiveBayesClassifier().fit(**fit).class_prior_, [2 / 6, 4 / 6])
    smoothed = al.NaiveBayesClassifier(alpha=2, smooth_priors=True).fit(**fit)
    np.testing.assert_allclose(smoothed.class_prior_, [4 / 10, 6 / 10])
    smoothed = al.NaiveBayesClassifier(m_estimate=3, smooth_priors=True).fit(**fit)
    np.testing.assert_allclose(smoothed.class_prior_, [(2 + 1.5) / 9, (4 + 1.5) / 9])
    for priors in ([0.1, 0.9], np.array([0.1, 0.9]), {"b": 0.9, "a": 0.1}):
        np.testing.assert_allclose(al.NaiveBayesClassifier(priors=priors).fit(**fit).class_prior_, [0.1, 0.9])


def test_variance_and_its_floor():
    X, y = [[1.0, 0], [2.0, 0], [4.0, 0], [7.0, 0]], [0, 0, 1, 1]
    largest = np.var([1, 2, 4, 7])
    for variance, expected in (("unbiased", [0.5, 4.5]), ("ml", [0.25, 2.25])):
        model = al.NaiveBayesClassifier(variance=variance, var_smoothing=1e-9).fit(X, y)
        np.testing.assert_allclose(model.model_.var[:, 0], np.array(expected) + 1e-9 * largest, rtol=1e-15)
        np.testing.assert_allclose(model.model_.var[:, 1], 1e-9 * largest)
    model = al.NaiveBayesClassifier(var_smoothing=0.1, variance="ml").fit(X, y)
    np.testing.assert_allclose(model.model_.var[:, 1], 0.1 * largest)


def test_nothing_varies():
    model = al.NaiveBayesClassifier().fit([[3.0], [3.0], [3.0], [3.0]], [0, 0, 1, 1])
    np.testing.assert_allclose(model.predict_proba([[3.0], [4.0]]), 0.5)


def test_names_of_scikit_learn(rung):
    """Means, variances and counts; what is handed out is no part of the model."""
    name = rung.float_dtypes[-1]
    X = np.array([[1.0, 0, 2.5], [3.0, 1, 1.5], [4.0, 1, 7.0], [8.0, 0, 7.5], [9.0, 1, 5.0]])
    y, weights = [0, 0, 1, 1, 1], [1.0, 2.0, 1.0, 1.0, 3.0]
    model = al.NaiveBayesClassifier(variance="ml", var_smoothing=1e-9, categorical_features=[1])
    model.fit(rung.from_host(X, name), y, sample_weight=weights)
    # scikit-learn takes the largest variance, of which a billionth is added, without weights
    theirs = GaussianNB().fit(X[:, [0, 2]], y, sample_weight=weights)
    for attribute in ("theta_", "var_", "class_count_"):
        found = getattr(model, attribute)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, getattr(theirs, attribute), rtol=1e-6)
        found[...] = -1.0
        np.testing.assert_allclose(getattr(model, attribute), getattr(theirs, attribute), rtol=1e-6)


# ---- missing values


def test_missing_values_are_left_out(rung, float_dtype_name):
    nan = math.nan
    X = np.array([[0, 1.0], [0, nan], [1, 3.0], [nan, 10.0], [1, 12.0], [1, 17.0]])
    y = [0, 0, 0, 1, 1, 1]
    model = al.NaiveBayesClassifier(alpha=1, categorical_features=[0])
    model.fit(rung.from_host(X, float_dtype_name), y)
    table = np.exp(rung.to_host(model.model_.log_table))
    np.testing.assert_allclose(table[1:], [[3 / 5, 1 / 4], [2 / 5, 3 / 4]], rtol=1e-6)
    np.testing.assert_allclose(rung.to_host(model.model_.mean), [[2.0], [13.0]], rtol=1e-6)
    np.testing.assert_allclose(rung.to_host(model.model_.var), [[2.0], [13.0]], rtol=1e-6)
    queries = rung.from_host([[nan, nan], [1, nan], [nan, 2.0], [7, nan]], float_dtype_name)
    normal = [math.exp(-((2.0 - m) ** 2) / (2 * v)) / math.sqrt(v) for m, v in ((2.0, 2.0), (13.0, 13.0))]
    expected = [
        [0.5, 0.5],
        [2 / 5 / (2 / 5 + 3 / 4), 3 / 4 / (2 / 5 + 3 / 4)],
        [normal[0] / sum(normal), normal[1] / sum(normal)],
        [0.5, 0.5],  # a value never seen counts as missing
    ]
    assert_close(
        model.predict_proba(queries), np.array(expected), dtype=float_dtype_name, rtol=1e-5, atol=1e-5
    )


def test_a_row_that_is_impossible_in_every_class_keeps_the_prior(rung):
    X = rung.from_host([[0, 0], [0, 0], [1, 1]], rung.float_dtypes[-1])
    model = al.NaiveBayesClassifier(alpha=0, categorical_features=[0, 1]).fit(X, [0, 0, 1])
    query = rung.from_host([[0, 1]], rung.float_dtypes[-1])
    np.testing.assert_allclose(rung.to_host(model.predict_proba(query)), [[2 / 3, 1 / 3]], rtol=1e-6)
    assert rung.to_host(model.predict(query)).tolist() == [0]
    assert np.all(rung.to_host(model.predict_joint_log_proba(query)) == -np.inf)
    assert rung.to_host(model.decision_function(query)).tolist() == [pytest.approx(math.log(0.5), rel=1e-6)]


# ---- many attributes


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ten_thousand_attributes_do_not_underflow(dtype):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 10_000)).astype(dtype) + y[:, None].astype(dtype) * np.float32(0.1)
    model = al.NaiveBayesClassifier().fit(X, y)
    joint = model.predict_joint_log_proba(X)
    assert np.isfinite(joint).all()
    assert joint.max() < -9_000  # far below what exp can hold
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.mean(model.predict(X) == y) == 1
    codes = (X > 0).astype(int)
    model = al.NaiveBayesClassifier(categorical_features=range(10_000)).fit(codes, y)
    assert np.isfinite(model.predict_log_proba(codes)).all()
    assert np.mean(model.predict(codes) == y) == 1


# ---- bad input


def test_one_class():
    model = al.NaiveBayesClassifier().fit([[1.0], [2.0]], ["a", "a"])
    assert model.predict([[9.0]]).tolist() == ["a"]
    np.testing.assert_allclose(model.predict_proba([[9.0]]), [[1.0]])


def test_a_class_with_one_row():
    X, y = [[1.0, 5.0], [2.0, 6.0], [9.0, 0.0]], ["a", "a", "b"]
    with pytest.warns(UndefinedVarianceWarning, match=r"class 'b' has fewer in column 'x0', 'x1'"):
        model = al.NaiveBayesClassifier().fit(X, y)
    np.testing.assert_allclose(model.model_.var[1], np.var(X, axis=0), rtol=1e-8)
    assert model.predict(X).tolist() == y
    al.NaiveBayesClassifier(variance="ml").fit(X, y)  # defined: no warning


def test_a_class_that_knows_nothing_of_a_column():
    X = [[1.0, math.nan], [2.0, math.nan], [3.0, 4.0], [5.0, 8.0]]
    with pytest.warns(UndefinedVarianceWarning, match=r"one known value; class 0 has fewer in column 'x1'"):
        model = al.NaiveBayesClassifier(variance="ml").fit(X, [0, 0, 1, 1])
    np.testing.assert_allclose(model.model_.mean[0, 1], 6.0)
    np.testing.assert_allclose(model.model_.var[0, 1], 4.0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": -1}, r"`alpha` must be a finite number of at least 0; got -1"),
        ({"alpha": math.nan}, r"`alpha`"),
        ({"m_estimate": -0.5}, r"`m_estimate`"),
        ({"variance": "biased"}, r"`variance` must be 'unbiased' or 'ml'; got 'biased'"),
        (
            {"var_smoothing": -1e-9},
            r"`var_smoothing` must be a finite number of at least 0, or None; got -1e-09",
        ),
        ({"value_priors": "flat"}, r"`value_priors` must be 'uniform', 'marginal'"),
        ({"value_priors": {"x7": {}}}, r"`value_priors` must name nominal columns"),
        ({"value_priors": {"x0": {"red": 1.0}}}, r"`value_priors\['x0'\]` must give each value"),
        ({"priors": [0.5, 0.6]}, r"`priors` must not be negative and must sum to 1; got .* sum 1.1"),
        ({"priors": [1.5, -0.5]}, r"`priors` must not be negative"),
        ({"priors": [1.0]}, r"`priors` must have one number per class \(2\); got 1"),
        ({"priors": {"no": 1.0}}, r"`priors` must have one entry for each of the classes"),
        ({"categorical_features": "all"}, r"`categorical_features`"),
    ],
)
def test_parameters_that_break_a_rule(parameters, message):
    with pytest.raises(ValueError, match=message):
        al.NaiveBayesClassifier(**parameters).fit(COLOURS, ANSWERS)


def test_bad_weights_on_a_device(rung):
    name = rung.float_dtypes[-1]
    X = rung.from_host([[1.0], [2.0], [3.0], [5.0]], name)
    for weights in ([1, -1, 1, 1], [1, np.nan, 1, 1], [0, 0, 0, 0]):
        with pytest.raises(ValueError, match="`sample_weight` must"):
            al.NaiveBayesClassifier().fit(X, [0, 0, 1, 1], sample_weight=rung.from_host(weights, name))
    model = al.NaiveBayesClassifier().fit(X, [0, 0, 1, 1], sample_weight=rung.from_host([2, 1, 1, 1], name))
    np.testing.assert_allclose(rung.to_host(model.model_.mean), [[4 / 3], [4.0]], rtol=1e-6)


@pytest.mark.parametrize(("dtype", "far", "too_far"), [("float64", 1e149, 1e151), ("float32", 1e17, 1e19)])
def test_very_large_numbers(dtype, far, too_far):
    y = np.arange(60) % 3
    X = (np.random.default_rng(0).normal(size=(60, 2)) + y[:, None]).astype(dtype)
    for classifier in (
        al.NaiveBayesClassifier(),
        al.FullBayesClassifier(),
        al.FullBayesClassifier(covariance="shared"),
        al.FullBayesClassifier(covariance="diagonal"),
    ):
        model = classifier.fit(X, y)
        proba = model.predict_proba(np.array([[far, 0], [-far, far]], dtype=dtype))
        np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-6)
        for method in (model.predict, model.predict_proba):
            with pytest.raises(ValueError, match="a value too large for its dtype"):
                method(np.array([[too_far, 0]], dtype=dtype))
        with pytest.raises(ValueError, match="a value too large for its dtype"):
            classifier.fit(np.concatenate([X, np.array([[0, too_far]], dtype=dtype)]), np.append(y, 0))


# ---- primitives


@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=40)
def test_native_counts_and_sums_equal_the_portable_ones(data):
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=6))
    n, k = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 7))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    xp = al.backend.namespace.HOST.xp
    offsets = cell_offsets(sizes)
    codes = np.stack([rng.integers(-1, size, n) for size in sizes]).astype(np.int32)
    keys = rng.integers(0, k, n)
    for weights in (None, rng.random(n), rng.integers(0, 5, n)):
        found = count_categories(xp, codes, offsets, keys, k, weights)
        with portable_only():
            expected = count_categories(xp, codes, offsets, keys, k, weights)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    table = np.log(rng.random((offsets[-1], k)))
    found = look_up_sums(xp, codes, offsets, table)
    with portable_only():
        np.testing.assert_allclose(found, look_up_sums(xp, codes, offsets, table), rtol=1e-12)


@pytest.mark.parametrize("k", [2, 3, 5, 9, 17])
def test_native_sums_of_many_rows(k):
    rng = np.random.default_rng(0)
    sizes = [8, 3, 8, 200, 5000, 2, 2, 8, 8, 8, 1]
    offsets = cell_offsets(sizes)
    codes = np.stack([rng.integers(-1, size, 40_000) for size in sizes]).astype(np.int32)
    xp = al.backend.namespace.HOST.xp
    for dtype in ("float64", "float32"):
        table = np.log(rng.random((offsets[-1], k))).astype(dtype)
        table[5, 0] = -np.inf
        found = look_up_sums(xp, codes, offsets, table)
        with portable_only():
            expected = look_up_sums(xp, codes, offsets, table)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-4 if dtype == "float32" else 1e-12)
    keys = rng.integers(0, k, 40_000)
    found = count_categories(xp, codes, offsets, keys, k)
    with portable_only():
        np.testing.assert_array_equal(found, count_categories(xp, codes, offsets, keys, k))


def test_counts_on_every_rung(rung, no_sync):
    codes = rung.from_host([[0, 1, -1, 1], [2, -1, 0, 2]], "int32")
    keys = rung.from_host([0, 1, 1, 0], "int64")
    offsets = cell_offsets([2, 3])
    table = rung.from_host(np.arange(14).reshape(7, 2), rung.float_dtypes[-1])
    with no_sync():
        counts = count_categories(rung.load(), codes, offsets, keys, 2)
        sums = look_up_sums(rung.load(), codes, offsets, table)
    assert_close(counts, np.array([[0, 1], [1, 0], [1, 1], [0, 1], [0, 1], [0, 0], [2, 0]]))
    assert_close(
        sums,
        np.array([[2 + 12, 3 + 13], [4 + 6, 5 + 7], [0 + 8, 1 + 9], [4 + 12, 5 + 13]], dtype=float),
        dtype=rung.float_dtypes[-1],
    )


def test_the_best_class_of_many_rows(rung, xp):
    """Threads share the rows; of equals the first class is chosen, and a class may be impossible."""
    joint = np.random.default_rng(0).integers(-3, 1, (70_000, 4)).astype("float64")
    joint[:, 2] = -np.inf
    found = most_probable(xp, rung.from_host(joint, "float32"))
    np.testing.assert_array_equal(rung.to_host(found), joint.argmax(axis=1))
