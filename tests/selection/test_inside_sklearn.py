"""Our classifiers inside scikit-learn's own model selection."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    LeaveOneOut,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as LIBSVM

import arraylearn as al

X, Y = load_iris(return_X_y=True)
GRIDS = [
    (al.NaiveBayesClassifier(), {"variance": ["unbiased", "ml"]}),
    (al.FullBayesClassifier(), {"covariance": ["full", "shared"], "shrinkage": [None, 0.1]}),
    (al.DecisionTreeClassifier(), {"max_depth": [1, 3]}),
    (al.GradientBoostingClassifier(n_estimators=3, min_samples_leaf=5), {"max_depth": [1, 2]}),
    (al.SVC(), {"C": [0.1, 1.0]}),
]
every = pytest.mark.parametrize(("estimator", "grid"), GRIDS, ids=lambda part: type(part).__name__)


@every
def test_grid_search_is_ours(estimator, grid):
    theirs = GridSearchCV(estimator, grid, cv=3).fit(X, Y)
    ours = al.GridSearch(estimator, grid, cv=3).fit(X, Y)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1 / 150 + 1e-9
    )
    drawn = RandomizedSearchCV(estimator, grid, n_iter=2, cv=2, random_state=0).fit(X, Y)
    again = al.evaluate(drawn.best_estimator_, X, Y, cv=2)
    assert drawn.best_score_ == pytest.approx(1 - again.error, abs=1 / 150 + 1e-9)


@every
def test_pipelines(estimator, grid):
    model = Pipeline([("scale", StandardScaler()), ("model", estimator)])
    scores = cross_val_score(model, X, Y, cv=3)
    np.testing.assert_allclose(al.evaluate(model, X, Y, cv=3).scores["score"], scores, atol=1 / 50)
    inner = {f"model__{name}": values for name, values in grid.items()}
    ours, theirs = (kind(model, inner, cv=3).fit(X, Y) for kind in (al.GridSearch, GridSearchCV))
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=1 / 150 + 1e-9)


@every
def test_predictions_and_calibration(estimator, grid):
    predicted = cross_val_predict(estimator, X, Y, cv=3)
    report = al.evaluate(estimator, X, Y, cv=3, refit=False)
    mine = np.empty_like(predicted)
    for rows, labels in zip(report.test_rows, report.predictions, strict=True):
        mine[rows] = labels
    assert (mine != predicted).sum() <= 1
    calibrated = CalibratedClassifierCV(estimator, cv=3).fit(X, Y)
    assert log_loss(Y, calibrated.predict_proba(X)) < 0.5 * np.log(3)  # half of that of the class shares


def test_more_of_it():
    estimator = al.FullBayesClassifier(covariance="shared")
    scoring = ["accuracy", "neg_log_loss"]
    ours, theirs = (
        cross_validate(model, X, Y, scoring=scoring, return_train_score=True)
        for model in (estimator, LinearDiscriminantAnalysis(solver="lsqr"))
    )
    for name in ("test_accuracy", "train_accuracy"):
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-12)
    _, _, scores = learning_curve(estimator, X, Y, cv=3, train_sizes=[0.5, 1.0], shuffle=True, random_state=0)
    assert scores.shape == (2, 3)
    assert (cross_val_predict(estimator, X, Y, cv=LeaveOneOut()) == Y).mean() == 1 - al.leave_one_out(
        estimator, X, Y
    ).error
    ours, theirs = (OneVsRestClassifier(kind()).fit(X, Y).predict(X) for kind in (al.SVC, LIBSVM))
    assert (ours != theirs).sum() <= 1
    resampled = al.resample.ResampledClassifier(estimator, al.resample.SMOTE(random_state=0))
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), resampled), {"resampledclassifier__sampler__k_neighbors": [2, 4]}
    )
    found = grid.fit(X[:130], Y[:130])
    assert found.best_score_ == found.cv_results_["mean_test_score"].max() > 0.95


def test_our_search_inside_theirs():
    search = al.GridSearch(al.NaiveBayesClassifier(), {"variance": ["unbiased", "ml"]}, cv=3)
    peer = GridSearchCV(al.NaiveBayesClassifier(), search.param_grid, cv=3)
    for wrap in (
        lambda inner: inner,
        lambda inner: CalibratedClassifierCV(inner, cv=3),
        lambda inner: make_pipeline(StandardScaler(), inner),
    ):
        ours, theirs = (wrap(inner).fit(X, Y).predict(X) for inner in (search, peer))
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(cross_val_score(search, X, Y, cv=3), cross_val_score(peer, X, Y, cv=3))
