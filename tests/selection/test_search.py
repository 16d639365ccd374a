"""GridSearch: scikit-learn's interface and results."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import arraylearn as al

X, Y = load_iris(return_X_y=True)
GRID = {"max_depth": [1, 2, 3], "min_samples_leaf": [1, 5]}


def assert_same_results(found, expected):
    assert set(found) == set(expected)
    assert found["params"] == expected["params"]
    for key, values in expected.items():
        if key == "params" or key.endswith("_time"):
            continue
        if key.startswith("param_"):
            assert np.ma.isMaskedArray(found[key])
            assert found[key].tolist() == values.tolist()
        else:
            np.testing.assert_allclose(found[key], values)


def both(estimator, grid, **options):
    return (
        al.GridSearch(estimator, grid, **options).fit(X, Y),
        GridSearchCV(estimator, grid, **options).fit(X, Y),
    )


def test_results_are_those_of_scikit_learn():
    found, expected = both(DecisionTreeClassifier(random_state=0), GRID, cv=StratifiedKFold(4))
    assert_same_results(found.cv_results_, expected.cv_results_)
    assert found.best_params_ == expected.best_params_
    assert found.best_score_ == expected.best_score_
    assert found.best_index_ == expected.best_index_
    assert found.n_splits_ == 4
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))
    np.testing.assert_array_equal(found.classes_, expected.classes_)
    assert found.n_features_in_ == 4
    assert found.score(X, Y) == expected.score(X, Y)
    assert found.is_complete_
    assert isinstance(found, GridSearchCV)


def test_several_metrics_and_training_scores():
    options = {"scoring": ["accuracy", "neg_log_loss"], "refit": "neg_log_loss", "return_train_score": True}
    found, expected = both(DecisionTreeClassifier(random_state=0), GRID, **options)
    assert_same_results(found.cv_results_, expected.cv_results_)
    assert found.best_params_ == expected.best_params_
    assert found.score(X, Y) == pytest.approx(expected.score(X, Y))
    with pytest.raises(ValueError, match="`refit` must name one of"):
        al.GridSearch(GaussianNB(), {}, scoring=["accuracy", "f1_macro"]).fit(X, Y)


def test_refit_by_a_function_and_not_at_all():
    found, expected = both(DecisionTreeClassifier(random_state=0), GRID, refit=lambda results: 2)
    assert found.best_index_ == expected.best_index_ == 2
    none = al.GridSearch(GaussianNB(), {"var_smoothing": [1e-9]}, refit=False).fit(X, Y)
    assert not hasattr(none, "best_estimator_")
    with pytest.raises(AttributeError, match="no refitted candidate"):
        none.score(X, Y)


def test_pipelines_lists_of_grids_and_steps():
    model = Pipeline([("scale", StandardScaler()), ("tree", DecisionTreeClassifier(random_state=0))])
    grid = [{"tree__max_depth": [1, 3]}, {"scale": [MinMaxScaler(), None], "tree__min_samples_leaf": [4]}]
    found, expected = both(model, grid, cv=3)
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])
    assert found.cv_results_["param_tree__max_depth"].mask.tolist() == [False, False, True, True]


def test_random_candidates():
    grid = {"var_smoothing": loguniform(1e-9, 1)}
    found = al.GridSearch(GaussianNB(), grid, n_iter=6, random_state=3).fit(X, Y)
    expected = RandomizedSearchCV(GaussianNB(), grid, n_iter=6, random_state=3).fit(X, Y)
    assert_same_results(found.cv_results_, expected.cv_results_)
    assert len(found.cv_results_["params"]) == 6


def test_failing_candidates():
    grid = {"max_depth": [2, -1]}
    with pytest.warns(FitFailedWarning, match="max_depth"), pytest.warns(UserWarning, match="non-finite"):
        found = al.GridSearch(DecisionTreeClassifier(), grid, cv=2).fit(X, Y)
    assert np.isnan(found.cv_results_["mean_test_score"][1])
    assert found.best_params_ == {"max_depth": 2}
    with pytest.raises(ValueError, match="max_depth"):
        al.GridSearch(DecisionTreeClassifier(), grid, cv=2, error_score="raise").fit(X, Y)


def test_weights_groups_processes_and_nesting():
    weight = np.linspace(0.1, 2, 150)
    grid = {"var_smoothing": [1e-9, 1e-2]}
    found = al.GridSearch(GaussianNB(), grid, n_jobs=2).fit(X, Y, sample_weight=weight)
    expected = GridSearchCV(GaussianNB(), grid).fit(X, Y, sample_weight=weight)
    assert_same_results(found.cv_results_, expected.cv_results_)
    np.testing.assert_allclose(found.best_estimator_.theta_, expected.best_estimator_.theta_)
    nested = al.cross_validate(al.GridSearch(GaussianNB(), grid, scoring="f1_macro"), X, Y, cv=3)
    expected = cross_val_score(GridSearchCV(GaussianNB(), grid, scoring="f1_macro"), X, Y, cv=3)
    np.testing.assert_allclose(nested.scores["score"], expected)


def test_clone_and_parameters():
    search = al.GridSearch(GaussianNB(), GRID, cv=3, n_iter=4, random_state=1, fast=False)
    assert clone(search).get_params(deep=False).keys() == search.get_params(deep=False).keys()
    assert search.get_params()["estimator__var_smoothing"] == 1e-9


class Interrupting(GaussianNB):
    left = 5

    def fit(self, X, y, sample_weight=None):
        if Interrupting.left == 0:
            raise KeyboardInterrupt
        Interrupting.left -= 1
        return super().fit(X, y)


def test_interrupted():
    Interrupting.left = 5
    search = al.GridSearch(Interrupting(), {"var_smoothing": [1e-9, 1e-2, 1.0]}, cv=2)
    with pytest.warns(UserWarning, match="2 of 3 candidates"):
        search.fit(X, Y)
    assert not search.is_complete_
    assert len(search.cv_results_["params"]) == 2
    assert search.best_params_ in search.cv_results_["params"]
    assert not hasattr(search, "best_estimator_")
    Interrupting.left = 1
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, Y)
