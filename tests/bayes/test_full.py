"""Full Bayes: hand-made densities, singular covariances, what may go wrong."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.covariance import ledoit_wolf
from sklearn.preprocessing import StandardScaler

import arraylearn as al
from arraylearn.bayes import SingularCovarianceWarning, UndefinedVarianceWarning


def blobs(n=120, d=3, k=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    mix = rng.normal(size=(k, d, d))
    X = rng.normal(size=(k, d))[y] * 3 + np.einsum("nd,nde->ne", rng.normal(size=(n, d)), mix[y])
    return X, y


@pytest.mark.parametrize("variance", ["unbiased", "ml"])
def test_densities_are_those_of_scipy(rung, float_dtype_name, variance):
    X, y = blobs()
    X = X.astype(float_dtype_name)
    model = al.FullBayesClassifier(variance=variance).fit(rung.from_host(X), y)
    expected = np.stack(
        [
            math.log(np.mean(y == c))
            + multivariate_normal(X[y == c].mean(axis=0), np.cov(X[y == c].T, bias=variance == "ml")).logpdf(
                X
            )
            for c in range(3)
        ],
        axis=1,
    )
    found = rung.to_host(model.predict_joint_log_proba(rung.from_host(X)))
    close = {"rtol": 1e-9} if float_dtype_name == "float64" else {"rtol": 2e-4, "atol": 2e-3}
    np.testing.assert_allclose(found, expected, **close)


@pytest.mark.parametrize("variance", ["unbiased", "ml"])
def test_shared_covariance(rung, float_dtype_name, variance):
    X, y = blobs()
    X = X.astype(float_dtype_name)
    model = al.FullBayesClassifier(covariance="shared", variance=variance).fit(rung.from_host(X), y)
    deviation = (X - np.stack([X[y == c].mean(axis=0) for c in range(3)])[y]).astype(float)
    pooled = deviation.T @ deviation / (len(X) - (3 if variance == "unbiased" else 0))
    np.testing.assert_allclose(rung.to_host(model.model_.covariance)[0], pooled, rtol=1e-5)
    expected = np.stack(
        [
            math.log(np.mean(y == c)) + multivariate_normal(X[y == c].mean(axis=0), pooled).logpdf(X)
            for c in range(3)
        ],
        axis=1,
    )
    found = rung.to_host(model.predict_joint_log_proba(rung.from_host(X)))
    close = {"rtol": 1e-9} if float_dtype_name == "float64" else {"rtol": 2e-4, "atol": 2e-3}
    np.testing.assert_allclose(found, expected, **close)


def test_ledoit_wolf_on_every_rung(rung):
    X, y = blobs(n=45)
    model = al.FullBayesClassifier(variance="ml", shrinkage="auto")
    model.fit(rung.from_host(X, rung.float_dtypes[-1]), y)
    for c in range(3):
        scaler = StandardScaler().fit(X[y == c])
        shrunk = ledoit_wolf(scaler.transform(X[y == c]))[0]
        expected = scaler.scale_[:, None] * shrunk * scaler.scale_
        np.testing.assert_allclose(
            rung.to_host(model.model_.covariance)[c],
            expected,
            rtol=1e-8 if len(rung.float_dtypes) > 1 else 2e-3,
        )


# ---- singular


def singular_rows():
    """Class 1 holds a copy of a column; the others are regular."""
    X, y = blobs()
    X = np.c_[X, X[:, 0]]
    X[y != 1, 3] += np.random.default_rng(1).normal(size=np.sum(y != 1))
    return X, y


def test_a_singular_class_is_named_and_mended_by_the_stated_rule(rung):
    X, y = singular_rows()
    x = rung.from_host(X, rung.float_dtypes[-1])
    with pytest.warns(
        SingularCovarianceWarning, match=r"the covariance of class 1 is singular; 1% of"
    ) as caught:
        model = al.FullBayesClassifier().fit(x, y)
    assert len(caught) == 1
    pooled = sum((X[y == c] - X[y == c].mean(axis=0)).T ** 2 @ np.ones(40) for c in range(3)) / 120
    covariance = rung.to_host(model.model_.covariance)
    np.testing.assert_allclose(
        covariance[1], np.cov(X[y == 1].T) + 0.01 * np.diag(pooled), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(covariance[0], np.cov(X[y == 0].T), rtol=1e-4, atol=1e-5)
    proba = rung.to_host(model.predict_proba(x))
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
    assert np.mean(np.argmax(proba, axis=1) == y) > 0.85


def test_shared_covariance_that_is_singular(rung):
    X, y = blobs()
    x = rung.from_host(np.c_[X, X[:, 0], np.ones(len(X))], rung.float_dtypes[-1])
    with pytest.warns(SingularCovarianceWarning, match="the shared covariance is singular"):
        model = al.FullBayesClassifier(covariance="shared").fit(x, y)
    assert np.isfinite(rung.to_host(model.predict_log_proba(x))).all()
    regular = al.FullBayesClassifier(covariance="shared").fit(X, y)
    assert np.mean(rung.to_host(model.predict(x)) == regular.predict(X)) > 0.95


def test_a_class_with_one_row():
    X, y = blobs()
    X, y = np.r_[X, [[30.0, 30.0, 30.0]]], np.r_[y, 7]
    with pytest.warns(SingularCovarianceWarning, match="unbiased covariance needs two rows; class 7 has one"):
        model = al.FullBayesClassifier().fit(X, y)
    assert model.predict([[30.0, 30.0, 30.0]]).tolist() == [7]
    with pytest.warns(SingularCovarianceWarning, match="the covariance of class 7 is singular"):
        assert al.FullBayesClassifier(variance="ml").fit(X, y).predict(X[-1:]).tolist() == [7]
    with pytest.warns(UndefinedVarianceWarning, match="class 7 has one"):
        al.FullBayesClassifier(covariance="diagonal").fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        al.FullBayesClassifier(covariance="shared").fit(X, y)


def test_fewer_rows_than_columns():
    rng = np.random.default_rng(0)
    y = np.arange(20) % 2
    X = rng.normal(size=(20, 30)) + 3 * y[:, None]
    with pytest.warns(SingularCovarianceWarning, match="class 0, 1"):
        model = al.FullBayesClassifier().fit(X, y)
    assert np.mean(model.predict(X) == y) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        al.FullBayesClassifier(shrinkage="auto").fit(X, y)


def test_every_row_its_own_class_and_all_rows_alike():
    with pytest.warns(SingularCovarianceWarning):
        model = al.FullBayesClassifier().fit([[1.0, 2.0], [3.0, 1.0], [9.0, 9.0]], ["a", "b", "c"])
    assert model.predict([[1.0, 2.0], [3.0, 1.0], [9.0, 9.0]]).tolist() == ["a", "b", "c"]
    with pytest.warns(SingularCovarianceWarning):
        model = al.FullBayesClassifier().fit([[1.0, 2.0]] * 4, [0, 0, 1, 1])
    np.testing.assert_allclose(model.predict_proba([[1.0, 2.0], [5.0, 5.0]]), 0.5)


def test_one_class():
    X, _ = blobs()
    model = al.FullBayesClassifier().fit(X, ["a"] * len(X))
    assert set(model.predict(X)) == {"a"}
    np.testing.assert_allclose(model.predict_proba(X), 1.0)


def test_distant_classes_keep_their_digits():
    """Means a million standard deviations apart, and far from 0."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = 1e6 * np.array([[1.0, 1.0], [3.0, -1.0]])[y] + rng.normal(size=(60, 2))
    for classifier in (al.FullBayesClassifier(), al.NaiveBayesClassifier(var_smoothing=0)):
        model = classifier.fit(X, y)
        joint = model.predict_joint_log_proba(X)
        for c in range(2):
            rows = X[y == c]
            cov = np.cov(rows.T)
            if isinstance(classifier, al.NaiveBayesClassifier):
                cov = np.diag(np.diag(cov))
            expected = math.log(0.5) + multivariate_normal(rows.mean(axis=0), cov).logpdf(rows)
            np.testing.assert_allclose(joint[y == c, c], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"covariance": "tied"}, r"`covariance` must be 'full', 'shared' or 'diagonal'; got 'tied'"),
        ({"variance": "n"}, r"`variance` must be"),
        ({"shrinkage": 1.5}, r"`shrinkage` must be None, 'auto' or a number from 0 to 1; got 1.5"),
        ({"shrinkage": "lw"}, r"`shrinkage`"),
        (
            {"shrinkage": 0.1, "covariance": "diagonal"},
            r"`shrinkage` must be None with covariance='diagonal'",
        ),
        ({"priors": [0.2, 0.2, 0.2]}, r"`priors` must not be negative and must sum to 1"),
    ],
)
def test_parameters_that_break_a_rule(parameters, message):
    with pytest.raises(ValueError, match=message):
        al.FullBayesClassifier(**parameters).fit(*blobs())


def test_nominal_columns_are_refused():
    with pytest.raises(ValueError, match=r"numeric columns only; FullBayesClassifier got nominal ones: 'x1'"):
        al.FullBayesClassifier().fit([[1.0, "a"], [2.0, "b"]], [0, 1])


@pytest.mark.parametrize("covariance", ["full", "shared", "diagonal"])
def test_means_and_covariances_are_handed_out(rung, covariance):
    """As scikit-learn names them, on the host; what is handed out is no part of the model."""
    X = np.random.default_rng(0).normal(size=(40, 3)) @ np.array([[1.0, 0.5, 0], [0, 2, 0.25], [0, 0, 0.5]])
    y = np.repeat([0, 1], [25, 15])
    model = al.FullBayesClassifier(covariance=covariance).fit(rung.from_host(X, rung.float_dtypes[-1]), y)
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if rung.float_dtypes[-1] == "float32" else {"atol": 1e-8}
    by_class = np.stack([np.cov(X[y == c].T) for c in (0, 1)])
    pooled = np.average(by_class, axis=0, weights=[24, 14])
    wanted = {"full": by_class, "shared": np.stack([pooled, pooled]), "diagonal": by_class * np.eye(3)}
    np.testing.assert_allclose(model.covariance_, wanted[covariance], **tolerance)
    np.testing.assert_allclose(model.means_, [X[:25].mean(axis=0), X[25:].mean(axis=0)], **tolerance)
    model.covariance_[:], model.means_[:] = 0, 0
    assert model.covariance_.any()
    assert model.means_.any()
