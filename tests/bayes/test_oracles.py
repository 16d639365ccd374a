"""scikit-learn as the oracle: the same probabilities where both are defined."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.covariance import LedoitWolf, ShrunkCovariance
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import CategoricalNB, GaussianNB
from sklearn.preprocessing import StandardScaler

import arraylearn as al
from arraylearn.bayes import SingularCovarianceWarning
from arraylearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

SETS = {"iris": load_iris, "wine": load_wine, "digits": load_digits, "breast_cancer": load_breast_cancer}
TOLERANCE = 1e-6


@pytest.fixture(params=SETS, ids=str)
def data(request):
    loaded = SETS[request.param]()
    return request.param, loaded.X, loaded.y


def assert_same_posterior(ours, theirs, X):
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def half(X, y):
    """Rows to fit on and rows to predict."""
    return X[::2], y[::2], X[1::2]


def test_naive_equals_gaussian_nb(data):
    _, X, y = data
    X_fit, y_fit, X_new = half(X, y)
    ours, theirs = (
        al.NaiveBayesClassifier(variance="ml", var_smoothing=1e-9).fit(X_fit, y_fit),
        GaussianNB().fit(X_fit, y_fit),
    )
    for rows in (X_fit, X_new):
        assert_same_posterior(ours, theirs, rows)
    np.testing.assert_allclose(
        ours.predict_joint_log_proba(X_new), theirs.predict_joint_log_proba(X_new), rtol=1e-8, atol=1e-6
    )


def test_naive_with_weights_and_priors_equals_gaussian_nb(data):
    _, X, y = data
    weights = np.random.default_rng(0).integers(1, 4, X.shape[0])
    k = len(np.unique(y))
    priors = np.arange(1, k + 1) / np.arange(1, k + 1).sum()
    # scikit-learn takes its floor from the unweighted variances: repeat the rows instead
    X_twice, y_twice = np.repeat(X, weights, axis=0), np.repeat(y, weights)
    ours = al.NaiveBayesClassifier(variance="ml", priors=priors, var_smoothing=1e-9).fit(
        X, y, sample_weight=weights
    )
    assert_same_posterior(ours, GaussianNB(priors=priors).fit(X_twice, y_twice), X)


@pytest.mark.parametrize("alpha", [1.0, 0.1, 3])
def test_naive_equals_categorical_nb(data, alpha):
    _, X, y = data
    edges = np.quantile(X, [0.2, 0.4, 0.6, 0.8], axis=0)
    codes = (X[:, None, :] > edges[None]).sum(axis=1)
    ours = al.NaiveBayesClassifier(alpha=alpha, categorical_features=range(X.shape[1])).fit(codes, y)
    # a category between others that never occurs counts as one there, not here
    present = [np.unique(column) for column in codes.T]
    dense = np.stack([np.searchsorted(p, column) for p, column in zip(present, codes.T, strict=True)], axis=1)
    theirs = CategoricalNB(alpha=alpha).fit(dense, y)
    np.testing.assert_allclose(ours.predict_proba(codes), theirs.predict_proba(dense), rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(
        ours.predict_joint_log_proba(codes), theirs.predict_joint_log_proba(dense), rtol=1e-10
    )


def test_full_equals_qda(data):
    name, X, y = data
    ours = al.FullBayesClassifier(variance="ml")
    if name == "digits":
        with pytest.raises(np.linalg.LinAlgError, match="not full rank"):
            QuadraticDiscriminantAnalysis().fit(X, y)
        with pytest.warns(SingularCovarianceWarning, match="class 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 is"):
            ours.fit(X, y)
        proba = ours.predict_proba(X)
        assert np.isfinite(proba).all()
        assert np.mean(ours.predict(X) == y) > 0.98
        return
    theirs = QuadraticDiscriminantAnalysis(tol=0).fit(X, y)
    ours.fit(X, y)
    assert_same_posterior(ours, theirs, X)
    # theirs leaves out the constant of the normal density, which cancels in the odds of two classes
    constant = 0.5 * X.shape[1] * np.log(2 * np.pi) if len(ours.classes_) > 2 else 0.0
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X) - constant, rtol=1e-6, atol=1e-6
    )


def test_full_unbiased_equals_scaled_qda():
    """QDA divides by n; the unbiased matrices of equal classes give the same boundary, others do not."""
    iris = load_iris()
    X, y = iris.X, iris.y
    ours = al.FullBayesClassifier(variance="unbiased").fit(X, y)
    for c in range(3):
        np.testing.assert_allclose(ours.model_.covariance[c], np.cov(X[y == c].T), rtol=1e-10)


@pytest.mark.parametrize("shrinkage", [0.1, 0.5, 1.0, "auto"])
def test_full_with_shrinkage_equals_qda(data, shrinkage):
    _, X, y = data
    theirs = QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=shrinkage, tol=0)
    theirs.set_params(store_covariance=True)
    ours = al.FullBayesClassifier(variance="ml", shrinkage=shrinkage)
    try:
        theirs.fit(X, y)
    except np.linalg.LinAlgError:
        with pytest.warns(SingularCovarianceWarning):
            ours.fit(X, y)
        return  # a column is constant in a class, and scikit-learn refuses it
    ours.fit(X, y)
    np.testing.assert_allclose(ours.model_.covariance, np.stack(theirs.covariance_), rtol=1e-9, atol=1e-12)
    assert_same_posterior(ours, theirs, X)


@pytest.mark.parametrize("reg_param", [1e-4, 0.3, 1.0])
def test_full_with_reg_param_equals_qda(data, reg_param):
    _, X, y = data
    theirs = QuadraticDiscriminantAnalysis(reg_param=reg_param, tol=0).fit(X, y)
    ours = al.FullBayesClassifier(variance="ml", reg_param=reg_param).fit(X, y)
    assert_same_posterior(ours, theirs, X)


def test_diagonal_with_reg_param():
    X, y = load_iris().X, load_iris().y
    ours = al.FullBayesClassifier(covariance="diagonal", variance="ml", reg_param=0.25).fit(X, y)
    for c in range(3):
        np.testing.assert_allclose(ours.model_.var[c], 0.75 * X[y == c].var(axis=0) + 0.25, rtol=1e-6)


@pytest.mark.parametrize("estimator", [LedoitWolf(), ShrunkCovariance(shrinkage=0.4)], ids=repr)
def test_full_with_an_estimator_of_covariances_equals_qda(estimator):
    X, y = load_wine().X, load_wine().y
    options = {"covariance_estimator": estimator}
    theirs = QuadraticDiscriminantAnalysis(solver="eigen", store_covariance=True, **options).fit(X, y)
    for variance in ("ml", "unbiased"):
        ours = al.FullBayesClassifier(variance=variance, **options).fit(X, y)
        np.testing.assert_allclose(ours.model_.covariance, np.stack(theirs.covariance_), rtol=1e-9)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)


def test_an_estimator_of_covariances_on_every_rung_and_in_folds(rung):
    X, y = load_iris().X.astype(np.float32), load_iris().y
    model = al.FullBayesClassifier(covariance="shared", covariance_estimator=LedoitWolf())
    found = clone(model).fit(rung.from_host(X), rung.from_host(y))
    covariance = rung.to_host(found.model_.covariance)[0]
    each = [LedoitWolf().fit(X[y == c].astype(np.float64)).covariance_ for c in range(3)]
    np.testing.assert_allclose(covariance, np.mean(each, axis=0), rtol=1e-4, atol=1e-5)
    folds = [(np.arange(i % 2, 150, 2), np.arange(1 - i % 2, 150, 2)) for i in range(2)]
    errors = al.evaluate(model, X, y, cv=folds).errors
    expected = [1 - clone(model).fit(X[a], y[a]).score(X[b], y[b]) for a, b in folds]
    np.testing.assert_allclose(errors, expected)


def test_what_an_estimator_of_covariances_does_not_go_with():
    X, y = load_iris().X, load_iris().y
    for options, rule in (
        ({"covariance": "diagonal"}, "`covariance_estimator` must be None with covariance='diagonal'"),
        ({"shrinkage": 0.1}, "`shrinkage` must be None with a `covariance_estimator`"),
        ({"covariance_estimator": StandardScaler()}, "`covariance_estimator` must have `covariance_`"),
        ({"reg_param": 2}, "`reg_param` must be .* up to 1"),
    ):
        with pytest.raises(ValueError, match=rule):
            al.FullBayesClassifier(**{"covariance_estimator": LedoitWolf(), **options}).fit(X, y)
    model = al.FullBayesClassifier(covariance_estimator=LedoitWolf())
    with pytest.raises(ValueError, match="`sample_weight` must be None with a `covariance_estimator`"):
        model.fit(X, y, np.ones(150))
    model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="`covariance_estimator` must be None for partial_fit"):
        model.partial_fit(X, y)


@pytest.mark.parametrize("least", [7, [1, 2, 3, 9]])
def test_min_categories_equal_categorical_nb(least):
    codes = np.random.default_rng(0).integers(0, [2, 3, 4, 5], (60, 4))
    y = codes.sum(axis=1) % 3
    theirs = CategoricalNB(min_categories=np.maximum(least, [2, 3, 4, 5])).fit(codes, y)
    ours = al.NaiveBayesClassifier(min_categories=least, categorical_features=range(4)).fit(codes, y)
    np.testing.assert_allclose(ours.predict_proba(codes), theirs.predict_proba(codes), atol=1e-12)
    left_out = al.leave_one_out(ours, codes, y)
    one = al.NaiveBayesClassifier(min_categories=least, categorical_features=range(4)).fit(codes[1:], y[1:])
    assert left_out.predictions[0][0] == one.predict(codes[:1])[0]


@pytest.mark.parametrize("least", [-1, 1.5, [1, 2], "some"])
def test_wrong_min_categories(least):
    with pytest.raises(ValueError, match="`min_categories` must be an integer"):
        al.NaiveBayesClassifier(min_categories=least, categorical_features=range(3)).fit(
            [[0, 0, 0], [1, 1, 1]], [0, 1]
        )


# without shrinkage the matrix of digits is singular: three pixels are always blank
@pytest.mark.parametrize(
    ("data", "shrinkage"),
    [(name, s) for name in SETS for s in (None, 0.3, "auto") if (name, s) != ("digits", None)],
    indirect=["data"],
)
def test_shared_equals_lda(data, shrinkage):
    name, X, y = data
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if name == "digits" else "error")
        ours = al.FullBayesClassifier(covariance="shared", variance="ml", shrinkage=shrinkage).fit(X, y)
    assert_same_posterior(ours, theirs, X)


@pytest.mark.parametrize("variance", ["ml", "unbiased"])
def test_diagonal_covariance_is_naive_bayes(data, variance):
    _, X, y = data
    naive = al.NaiveBayesClassifier(variance=variance, var_smoothing=1e-9).fit(X, y)
    diagonal = al.FullBayesClassifier(covariance="diagonal", variance=variance).fit(X, y)
    np.testing.assert_allclose(
        diagonal.predict_joint_log_proba(X), naive.predict_joint_log_proba(X), rtol=1e-12, atol=1e-9
    )
    np.testing.assert_array_equal(diagonal.predict(X), naive.predict(X))
    np.testing.assert_allclose(diagonal.explain(X), naive.explain(X), rtol=1e-9, atol=1e-9)
