"""The worked examples that Bayes classifiers must reproduce, on every rung."""

from __future__ import annotations

import numpy as np
import pytest

import arraylearn as al
from arraylearn.datasets import load_drug, load_hire, load_iris, load_mammals
from tests.backends.assertions import assert_close

# The rungs differ in where the numbers live: nominal columns travel as codes of the sorted values.


def coded(dataset, rung, dtype):
    """The table as numbers on the rung: each nominal value is its position among the sorted ones."""
    columns, values = [], {}
    for j in range(dataset.X.shape[1]):
        column = dataset.X[:, j].tolist()
        if j in dataset.categorical_features:
            values[j] = sorted(set(column))
            columns.append([float(values[j].index(value)) for value in column])
        else:
            columns.append([float(value) for value in column])
    return rung.from_host(np.array(columns).T, dtype), values


def row(dataset, values, rung, dtype, *cells):
    numbers = [float(values[j].index(cell)) if j in values else float(cell) for j, cell in enumerate(cells)]
    return rung.from_host([numbers], dtype)


def test_drug(rung, float_dtype_name):
    drug = load_drug()
    X, values = coded(drug, rung, float_dtype_name)
    clf = al.NaiveBayesClassifier(alpha=0, categorical_features=drug.categorical_features).fit(X, drug.y)
    table = clf.tables()
    age = dict(zip(table.numeric["class"], table.numeric["mean"], strict=True))
    variance = dict(zip(table.numeric["class"], table.numeric["variance"], strict=True))
    assert age == {"A": pytest.approx(36.33, abs=0.005), "B": pytest.approx(47.83, abs=0.005)}
    assert variance == {"A": pytest.approx(161.87, abs=0.005), "B": pytest.approx(310.97, abs=0.005)}
    rows = zip(*table.nominal.values(), strict=True)
    found = {(values[int(name[1])][int(value)], label): p for name, value, label, p in rows}
    assert found["low", "A"] == 0
    assert found["high", "B"] == 0
    others = [p for key, p in found.items() if key not in (("low", "A"), ("high", "B"))]
    assert others == [pytest.approx(0.5)] * 8
    cases = [
        (("male", 61, "normal"), [5.984e-4, 2.140e-3], [0.2185, 0.7815], "B"),
        (("female", 30, "normal"), [3.463e-3, 1.696e-3], [0.6713, 0.3287], "A"),
    ]
    for cells, joint, posterior, drug_given in cases:
        x = row(drug, values, rung, float_dtype_name, *cells)
        found = rung.load().exp(clf.predict_joint_log_proba(x))
        as_printed = {"dtype": float_dtype_name, "rtol": 2e-3 if float_dtype_name == "float32" else 5e-4}
        assert_close(found, np.array([joint]), **as_printed)
        assert_close(clf.predict_proba(x), np.array([posterior]), **as_printed)
        assert clf.predict(x).tolist() == [drug_given]


def test_drug_as_a_frame():
    drug = load_drug()
    clf = al.NaiveBayesClassifier(alpha=0).fit(drug.X, drug.y)
    np.testing.assert_allclose(clf.predict_proba([["male", 61, "normal"]]), [[0.2185, 0.7815]], atol=5e-5)


def test_iris_naive_makes_six_errors(rung, float_dtype_name):
    iris = load_iris()
    X = rung.from_host(iris.X, float_dtype_name)
    for variance in ("ml", "unbiased"):
        for classifier in (
            al.NaiveBayesClassifier(variance=variance),
            al.FullBayesClassifier(covariance="diagonal", variance=variance),
        ):
            predicted = classifier.fit(X, iris.y).predict(X)
            assert np.sum(_host(predicted, rung) != iris.y) == 6


def test_iris_full_makes_three_errors(rung, float_dtype_name):
    iris = load_iris()
    X = rung.from_host(iris.X, float_dtype_name)
    for variance in ("ml", "unbiased"):
        predicted = al.FullBayesClassifier(variance=variance).fit(X, iris.y).predict(X)
        assert np.sum(_host(predicted, rung) != iris.y) == 3


def _host(labels, rung):
    return labels if isinstance(labels, np.ndarray) else rung.to_host(labels)


def test_hire(rung, float_dtype_name):
    hire = load_hire()
    X, values = coded(hire, rung, float_dtype_name)
    clf = al.NaiveBayesClassifier(alpha=0, categorical_features=hire.categorical_features).fit(X, hire.y)
    x = row(hire, values, rung, float_dtype_name, "Masters", "UX Design", "Java", "TRUE")
    joint = rung.load().exp(clf.predict_joint_log_proba(x))
    no, yes = 6 / 14 * 1 / 6 * 2 / 6 * 1 / 6 * 3 / 6, 8 / 14 * 4 / 8 * 2 / 8 * 6 / 8 * 4 / 8
    assert_close(joint, np.array([[no, yes]]), dtype=float_dtype_name)
    assert (round(yes, 5), round(no, 5)) == (0.02679, 0.00198)
    assert clf.predict(x).tolist() == ["yes"]


def test_mammals(rung, float_dtype_name):
    mammals = load_mammals()
    X, values = coded(mammals, rung, float_dtype_name)
    clf = al.NaiveBayesClassifier(
        alpha=1, smooth_priors=True, categorical_features=mammals.categorical_features
    ).fit(X, mammals.y)
    cases = [
        (("yes", "no", "no", "yes"), [0.1058, 0.00799], 0.9298),
        (("no", "yes", "no", "yes"), [0.00294, 0.19971], 1 - 0.9855),
    ]
    for cells, joint, mammal in cases:
        x = row(mammals, values, rung, float_dtype_name, *cells)
        found = rung.load().exp(clf.predict_joint_log_proba(x))
        assert_close(found, np.array([joint]), dtype=float_dtype_name, rtol=2e-3)  # three digits are printed
        posterior = np.array([[mammal, 1 - mammal]])
        assert_close(clf.predict_proba(x), posterior, dtype=float_dtype_name, rtol=4e-3, atol=1e-4)


def test_bayes_rule(rung, float_dtype_name):
    prior = rung.from_host([0.008, 0.992], float_dtype_name)
    likelihood = rung.from_host([0.98, 0.03], float_dtype_name)
    expected = 0.008 * 0.98 / (0.008 * 0.98 + 0.992 * 0.03)
    assert round(expected, 4) == 0.2085
    assert_close(al.bayes_rule(prior, likelihood), np.array([expected, 1 - expected]), dtype=float_dtype_name)
    assert_close(
        al.bayes.bayes_rule([0.008, 0.992], likelihood),
        np.array([expected, 1 - expected]),
        dtype=float_dtype_name,
    )
