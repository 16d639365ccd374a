"""Our classifiers inside scikit-learn's own model selection."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
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
    assert theirs.best_score_ > 0.9
    assert RandomizedSearchCV(estimator, grid, n_iter=2, cv=2, random_state=0).fit(X, Y).best_score_ > 0.8


@every
def test_pipelines(estimator, grid):
    model = Pipeline([("scale", StandardScaler()), ("model", estimator)])
    assert cross_val_score(model, X, Y, cv=3).mean() > 0.85
    inner = {f"model__{name}": values for name, values in grid.items()}
    assert al.GridSearch(model, inner, cv=3).fit(X, Y).best_score_ > 0.9
    assert al.cross_validate(model, X, Y, cv=3).error < 0.15


@every
def test_predictions_and_calibration(estimator, grid):
    predicted = cross_val_predict(estimator, X, Y, cv=3)
    report = al.cross_validate(estimator, X, Y, cv=3, refit=False)
    mine = np.empty_like(predicted)
    for rows, labels in zip(report.test_rows, report.predictions, strict=True):
        mine[rows] = labels
    assert (mine != predicted).sum() <= 1
    calibrated = CalibratedClassifierCV(estimator, cv=3).fit(X, Y)
    assert calibrated.score(X, Y) > 0.9
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1.0)


def test_more_of_it():
    estimator = al.FullBayesClassifier(covariance="shared")
    found = cross_validate(estimator, X, Y, scoring=["accuracy", "neg_log_loss"], return_train_score=True)
    assert found["test_accuracy"].mean() > 0.95
    _, _, scores = learning_curve(estimator, X, Y, cv=3, train_sizes=[0.5, 1.0], shuffle=True, random_state=0)
    assert scores.shape == (2, 3)
    assert (cross_val_predict(estimator, X, Y, cv=LeaveOneOut()) == Y).mean() == 1 - al.leave_one_out(
        estimator, X, Y
    ).error
    assert OneVsRestClassifier(al.SVC()).fit(X, Y).score(X, Y) > 0.9
    resampled = al.resample.ResampledClassifier(estimator, al.resample.SMOTE(random_state=0))
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), resampled), {"resampledclassifier__sampler__k_neighbors": [2, 4]}
    )
    assert grid.fit(X[:130], Y[:130]).best_score_ > 0.9


def test_our_search_inside_theirs():
    search = al.GridSearch(al.NaiveBayesClassifier(), {"variance": ["unbiased", "ml"]}, cv=3)
    assert cross_val_score(search, X, Y, cv=3).mean() > 0.9
    assert CalibratedClassifierCV(search, cv=3).fit(X, Y).score(X, Y) > 0.9
    assert make_pipeline(StandardScaler(), search).fit(X, Y).score(X, Y) > 0.9
