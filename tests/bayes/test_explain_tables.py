"""Explanations add up, tables read like a text book, Bayes' rule stands alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

import arraylearn as al
from arraylearn.datasets import load_drug, load_iris

TEXT_BOOK = """\
P(class)
    A    B
----------
  0.5  0.5

P(sex | class)
sex       A    B
----------------
female  0.5  0.5
male    0.5  0.5

P(age | class)
age            A       B
------------------------
mean       36.33   47.83
variance  161.87  310.97

P(blood_pressure | class)
blood_pressure    A    B
------------------------
high            0.5    0
low               0  0.5
normal          0.5  0.5"""


def drug_frame():
    drug = load_drug()
    return drug.frame("pandas")[list(drug.feature_names)], drug.y


# ---- explanations


def test_shares_of_two_classes_add_up_to_the_log_odds(rung):
    name = rung.float_dtypes[-1]
    iris = load_iris()
    X = rung.from_host(iris.X[50:], name)
    for classifier in (
        al.NaiveBayesClassifier(priors=[0.3, 0.7]),
        al.FullBayesClassifier(priors=[0.3, 0.7]),
        al.FullBayesClassifier(priors=[0.3, 0.7], covariance="shared"),
        al.FullBayesClassifier(priors=[0.3, 0.7], covariance="diagonal"),
    ):
        model = classifier.fit(X, iris.y[50:])
        shares = rung.to_host(model.explain(X))
        assert shares.shape == (100, 4)
        total = shares.sum(axis=1) + math.log(0.7 / 0.3)
        close = {"rtol": 1e-9, "atol": 1e-9} if name == "float64" else {"rtol": 1e-3, "atol": 1e-3}
        np.testing.assert_allclose(total, rung.to_host(model.decision_function(X)), **close)


def test_shares_of_three_classes(rung):
    name = rung.float_dtypes[-1]
    iris = load_iris()
    X = rung.from_host(iris.X, name)
    close = {"rtol": 1e-9, "atol": 1e-9} if name == "float64" else {"rtol": 2e-3, "atol": 1e-2}
    for classifier in (al.NaiveBayesClassifier(), al.FullBayesClassifier()):
        model = classifier.fit(X, iris.y)
        joint = rung.to_host(model.predict_joint_log_proba(X))
        shares = rung.to_host(model.explain(X))
        assert shares.shape == (150, 4, 3)
        np.testing.assert_allclose(shares.mean(axis=2), 0, atol=close["atol"])
        np.testing.assert_allclose(shares.sum(axis=1), joint - joint.mean(axis=1, keepdims=True), **close)
        against = rung.to_host(model.explain(X, against=1))
        np.testing.assert_allclose(against[..., 1], 0, atol=0)
        np.testing.assert_allclose(against.sum(axis=1), joint - joint[:, 1:2], **close)


def test_shares_of_mixed_attributes_in_the_order_of_the_columns():
    X, y = drug_frame()
    model = al.NaiveBayesClassifier(alpha=0).fit(X, y)
    shares = model.explain(X.iloc[:3])
    assert shares[0, 0] == pytest.approx(0.0)  # sex says nothing
    assert shares[2, 2] == -math.inf  # a high blood pressure rules out B
    assert shares[0, 1] == pytest.approx(
        -0.5
        * ((20 - 47.8333) ** 2 / 310.9667 - (20 - 36.3333) ** 2 / 161.8667 + math.log(310.9667 / 161.8667)),
        rel=1e-4,
    )
    X = X.astype({"age": float})
    X.loc[0, "age"] = math.nan
    assert model.explain(X)[0, 1] == 0


def test_what_no_class_knows_says_nothing():
    model = al.NaiveBayesClassifier(alpha=0, categorical_features=[0]).fit([[0], [1], [2]], ["a", "b", "c"])
    np.testing.assert_array_equal(model.explain([[1], [9]])[1], [[0, 0, 0]])
    np.testing.assert_array_equal(model.explain([[1]])[0], [[-math.inf, 0, -math.inf]])


# ---- tables


def test_printed_like_in_a_text_book():
    X, y = drug_frame()
    model = al.NaiveBayesClassifier(alpha=0).fit(X, y)
    assert str(model.tables()) == TEXT_BOOK


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", None])
def test_tables_as_data_frames(library):
    if library:
        pytest.importorskip(library)
    X, y = drug_frame()
    frames = al.NaiveBayesClassifier(alpha=0).fit(X, y).tables().to_frames(library)
    assert set(frames) == {"priors", "nominal", "numeric", "covariance"}
    nominal, numeric = frames["nominal"], frames["numeric"]
    columns = nominal.column_names if library == "pyarrow" else list(nominal.columns)
    assert columns == ["attribute", "value", "class", "probability"]
    assert len(nominal) == 2 * (2 + 3)
    assert [round(float(v), 2) for v in list(numeric["variance"])[:2]] == [
        161.87,
        310.97,
    ] or library == "pyarrow"
    if library == "pandas":
        low = nominal.query("attribute == 'blood_pressure' and value == 'low'")
        assert low.set_index("class")["probability"].to_dict() == {"A": 0.0, "B": 0.5}


def test_tables_of_covariances():
    iris = load_iris()
    tables = al.FullBayesClassifier().fit(iris.X, iris.y).tables()
    entries = dict(
        zip(
            zip(*list(tables.covariance.values())[:3], strict=True),
            tables.covariance["covariance"],
            strict=True,
        )
    )
    expected = np.cov(iris.X[iris.y == 2].T)
    assert entries[2, "x1", "x3"] == pytest.approx(expected[1, 3])
    assert len(entries) == 3 * 16
    assert "P(x0, x1, x2, x3 | class = 2)" in str(tables)
    with pytest.raises(ValueError, match="`library` must be one of"):
        tables.to_frames("arrow")


def test_tables_live_on_any_rung(rung):
    iris = load_iris()
    for classifier in (al.NaiveBayesClassifier(), al.FullBayesClassifier(covariance="shared")):
        model = classifier.fit(rung.from_host(iris.X, rung.float_dtypes[-1]), iris.y)
        assert model.tables().numeric["mean"][0] == pytest.approx(5.006, rel=1e-5)


# ---- Bayes' rule


def test_bayes_rule_takes_many_pieces_of_evidence():
    found = al.bayes_rule([0.5, 0.5], [[0.2, 0.6], [1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(found, [[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]])


def test_bayes_rule_with_tiny_numbers():
    np.testing.assert_allclose(al.bayes_rule([1e-300, 1.0], [1.0, 1e-300]), [0.5, 0.5])


@pytest.mark.parametrize(
    ("prior", "likelihood", "message"),
    [
        ([0.5, 0.6], [1, 1], "`prior` must hold probabilities"),
        ([-0.5, 1.5], [1, 1], "`prior` must hold probabilities"),
        ([0.5, 0.5], [1, -1], "`likelihood` must hold finite numbers"),
        ([0.5, 0.5], [1, math.inf], "`likelihood` must hold finite numbers"),
        ([0.5, 0.5], [1, math.nan], "`likelihood` must hold finite numbers"),
        ([0.5, 0.5], [1, 1, 1], r"`likelihood` must have one entry per hypothesis of `prior` \(2\)"),
    ],
)
def test_bayes_rule_refuses(prior, likelihood, message):
    with pytest.raises(ValueError, match=message):
        al.bayes_rule(prior, likelihood)
