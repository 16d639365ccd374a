"""Numbers of NumPy are numbers wherever Python's are, and truth values are none; names in messages."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import arraylearn as al
from arraylearn.checks import check_choice, check_integer, check_number, count_features, is_number, list_some

NUMBERS = [
    2,
    np.int8(2),
    np.uint64(2),
    0.5,
    np.float32(0.5),
    np.float64(0.5),
    np.float16(0.5),
    Fraction(1, 2),
]
OTHERS = [True, np.True_, "2", np.str_("2"), None, 1j, np.complex64(1), Decimal(2), np.array(2), [2]]


def test_is_number():
    assert all(map(is_number, NUMBERS))
    assert not any(map(is_number, OTHERS))


def test_kinds_of_numbers():
    for value in NUMBERS:
        check_number("x", value, 0, 3)
    for value in NUMBERS[:3]:
        check_integer("x", value, 1, 2)
        assert count_features(value, 5) == 2
    for value in NUMBERS[3:7]:
        assert count_features(value, 5) == 2
    for value in OTHERS:
        with pytest.raises(ValueError, match="`x`"):
            check_number("x", value)
        with pytest.raises(ValueError, match="`x`"):
            check_integer("x", value, 0)


def test_choices():
    for value in (True, np.True_, np.False_):
        check_choice("x", value, (True, False))
    check_choice("x", np.str_("a"), ("a", "b"))
    check_choice("x", np.int64(2), (1, 2))
    for value in ("c", 1.5, np.float64(3), [1], np.array([1, 2])):
        with pytest.raises(ValueError, match="`x` must be"):
            check_choice("x", value, ("a", 1, 2))


SETTINGS = [
    (al.FullBayesClassifier, {"shrinkage": 0.125}),
    (al.FullBayesClassifier, {"shrinkage": 1}),
    (
        al.NaiveBayesClassifier,
        {"alpha": 0.5, "m_estimate": 2, "var_smoothing": 0.25, "smooth_priors": True},
    ),
    (al.DecisionTreeClassifier, {"max_depth": 2, "min_samples_leaf": 3, "min_samples_split": 7}),
    (
        al.RandomForestClassifier,
        {"n_estimators": 3, "max_features": 2, "random_state": 0, "bootstrap": False},
    ),
    (al.AdaBoostClassifier, {"n_estimators": 3}),
    (al.GradientBoostingClassifier, {"n_estimators": 3, "learning_rate": 0.5, "l2_regularization": 2}),
    (al.RipperClassifier, {"random_state": 3}),
    (al.SVC, {"C": 2, "gamma": 0.25, "max_iter": 10_000}),
    (al.SVC, {"kernel": "poly", "degree": 2, "coef0": 0.5}),
]


@pytest.mark.parametrize(("kind", "settings"), SETTINGS)
def test_parameters_of_estimators(kind, settings):
    iris = al.datasets.load_iris()
    small = {bool: np.bool_, int: np.int16, float: np.float32}
    numpy = {name: small.get(type(value), str)(value) for name, value in settings.items()}
    found, expected = (
        kind(**each).fit(iris.X, iris.y).predict_proba(iris.X)
        if hasattr(kind, "predict_proba") and kind is not al.SVC
        else kind(**each).fit(iris.X, iris.y).decision_function(iris.X)
        for each in (numpy, settings)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "kind", [al.DecisionTreeClassifier, al.RandomForestClassifier, al.GradientBoostingClassifier, al.SVC]
)
def test_weights_of_classes_are_named_in_one_way(kind):
    for value in ("balanced_subsample", [1, 2], 2.0):
        with pytest.raises(ValueError, match=r"`class_weight` must be a mapping .*'balanced' or None; got"):
            kind(class_weight=value).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])


def test_parameters_of_kernels_and_samplers():
    x = np.array([[0.0, 1.0], [2.0, 0.0]])
    for scale in (np.float32(0.5), np.int64(2)):
        for kernel, same in (
            (scale * al.kernels.Linear(), float(scale) * al.kernels.Linear()),
            (al.kernels.Gaussian(scale), al.kernels.Gaussian(float(scale))),
        ):
            np.testing.assert_array_equal(al.kernels.gram(x, kernel=kernel), al.kernels.gram(x, kernel=same))
    X, y = np.arange(20.0).reshape(10, 2), [0] * 7 + [1] * 3
    for ratio in (np.float32(1), np.int64(1)):
        _, labels = al.resample.SMOTE(
            sampling_strategy=ratio, k_neighbors=np.int64(2), random_state=0
        ).fit_resample(X, y)
        assert np.bincount(labels).tolist() == [7, 7]


def test_list_some():
    assert list_some("ab") == "'a', 'b'"
    assert list_some("abcd", 2) == "'a', 'b' and 2 more"
