"""GridSearch: scikit-learn's interface and results."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import sklearn
from scipy.stats import loguniform
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.metrics import cohen_kappa_score, make_scorer
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


def test_scores_of_other_rows_take_what_scikit_learn_routes():
    found = al.GridSearch(GaussianNB(), {"var_smoothing": [1e-9]}, cv=2).fit(X, Y)
    with pytest.raises(ValueError, match="is only supported if"):
        found.score(X, Y, sample_weight=np.ones(len(Y)))


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
    with pytest.warns(FitFailedWarning), pytest.raises(ValueError, match=r"All the 4 fits failed.*max_depth"):
        al.GridSearch(DecisionTreeClassifier(), {"max_depth": [-1, -2]}, cv=2).fit(X, Y)


def test_clusterers_with_labels():
    grid = {"n_clusters": [2, 3]}
    clusters = KMeans(random_state=0, init="random", n_init=1)
    found, expected = (
        kind(clusters, grid, scoring="adjusted_rand_score", cv=3).fit(X, Y)
        for kind in (al.GridSearch, GridSearchCV)
    )
    assert_same_results(found.cv_results_, expected.cv_results_)


def test_weights_groups_processes_and_nesting():
    weight = np.linspace(0.1, 2, 150)
    grid = {"var_smoothing": [1e-9, 1e-2]}
    found = al.GridSearch(GaussianNB(), grid, n_jobs=2).fit(X, Y, sample_weight=weight)
    expected = GridSearchCV(GaussianNB(), grid).fit(X, Y, sample_weight=weight)
    assert_same_results(found.cv_results_, expected.cv_results_)
    np.testing.assert_allclose(found.best_estimator_.theta_, expected.best_estimator_.theta_)
    nested = al.evaluate(al.GridSearch(GaussianNB(), grid, scoring="f1_macro"), X, Y, cv=3)
    expected = cross_val_score(GridSearchCV(GaussianNB(), grid, scoring="f1_macro"), X, Y, cv=3)
    np.testing.assert_allclose(nested.scores["score"], expected)


def test_folds_as_masks():
    numbers = list(StratifiedKFold(3).split(X, Y))
    masks = [tuple(np.isin(np.arange(150), rows) for rows in fold) for fold in numbers]
    for estimator, grid in SEARCHES:
        found, expected = (al.GridSearch(estimator, grid, cv=cv).fit(X, Y) for cv in (masks, numbers))
        assert_same_results(found.cv_results_, expected.cv_results_)


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
    assert not [name for name in vars(search) if name.endswith("_")]
    Interrupting.left = 7
    assert hasattr(search.fit(X, Y), "best_estimator_")
    Interrupting.left = 5
    with pytest.warns(UserWarning, match="2 of 3 candidates"):
        search.fit(X, Y)
    assert not hasattr(search, "best_estimator_")
    model = al.resample.ResampledClassifier(search, al.resample.RandomOverSampler())
    Interrupting.left = 7
    assert model.fit(X, Y).predict(X).shape == (150,)
    Interrupting.left = 1
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert not [name for name in vars(model) if name.endswith("_")]


# ---- functions as scores, failures


def two_scores(model, X, y):
    return {"right": model.score(X, y), "leaves": 1.0 / model.get_n_leaves()}


@pytest.mark.parametrize("refit", ["right", "leaves", False])
@pytest.mark.parametrize("depths", [[1, 3], [-1, 1, 3]], ids=["all fit", "first fails"])
def test_a_function_that_returns_several_scores(refit, depths):
    options = {"scoring": two_scores, "refit": refit, "cv": 3, "return_train_score": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = both(DecisionTreeClassifier(random_state=0), {"max_depth": depths}, **options)
    assert_same_results(found.cv_results_, expected.cv_results_)
    assert found.multimetric_
    assert found.scorer_ is two_scores
    if refit:
        assert found.best_params_ == expected.best_params_
        assert found.best_score_ == expected.best_score_
        assert found.score(X, Y) == expected.score(X, Y)


class NoClasses(ClassifierMixin, BaseEstimator):
    """A classifier that keeps no list of the classes it knows, and whose `fit` returns nothing."""

    def __init__(self, label=0):
        self.label = label

    def fit(self, X, y):
        self.fitted_ = True

    def predict(self, X):
        return np.full(len(X), self.label)

    def predict_proba(self, X):
        return np.full((len(X), 3), 1 / 3)


def test_scores_that_fail():
    """The error score and a warning, as in scikit-learn; or the error itself."""
    options = {"scoring": ["accuracy", "neg_log_loss"], "refit": False, "cv": 2}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found, expected = both(NoClasses(), {"label": [0, 1]}, **options)
    assert any("Scoring failed" in str(warning.message) for warning in caught)
    assert_same_results(found.cv_results_, expected.cv_results_)
    assert np.isnan(found.cv_results_["mean_test_neg_log_loss"]).all()
    with pytest.raises(AttributeError, match="classes_"):
        al.GridSearch(NoClasses(), {}, error_score="raise", **options).fit(X, Y)


def inside(model, X, y=None):
    return float(np.mean(model.predict(X) == 1))


@pytest.mark.parametrize("estimator", [al.OneClassSVM(gamma=0.1), al.SVDD(gamma=0.1)])
def test_one_class_learners_need_no_labels(estimator):
    grid = {"nu": [0.1, 0.3, 0.5]} if "nu" in estimator.get_params() else {"C": [0.1, 0.05, 0.02]}
    options = {"scoring": inside, "cv": 3}
    found = al.GridSearch(estimator, grid, **options).fit(X)
    expected = GridSearchCV(estimator, grid, **options).fit(X)
    assert_same_results(found.cv_results_, expected.cv_results_)
    assert found.best_params_ == expected.best_params_
    assert found.score(X) == expected.score(X)
    few = al.GridSearch(estimator, grid, n_iter=2, random_state=0, **options).fit(X, None)
    assert len(few.cv_results_["params"]) == 2
    assert few.is_complete_


class Noting(GaussianNB):
    """Keeps what its `fit` was given besides."""

    def fit(self, X, y, sample_weight=None, *, notes=None):
        self.notes_ = notes
        return super().fit(X, y, sample_weight)


def length_of_notes(model, X, y):
    return len(model.notes_)


def test_parameters_of_fit():
    grid, notes = {"var_smoothing": [1e-9, 1e-2]}, np.arange(150)
    weight = np.linspace(0.5, 2, 150)
    found = al.GridSearch(Noting(), grid, scoring=length_of_notes, cv=3).fit(X, Y, notes=notes)
    assert found.cv_results_["mean_test_score"].tolist() == [100, 100]  # cut with the rows
    np.testing.assert_array_equal(found.best_estimator_.notes_, notes)
    found = al.GridSearch(Noting(), grid, cv=3).fit(X, Y, notes=notes, sample_weight=weight)
    expected = GridSearchCV(Noting(), grid, cv=3).fit(X, Y, notes=notes, sample_weight=weight)
    assert_same_results(found.cv_results_, expected.cv_results_)


def test_routed_metadata():
    grid, weight = {"var_smoothing": [1e-9, 1e-2]}, np.linspace(0.5, 2, 150)
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = GaussianNB().set_fit_request(sample_weight=True)
        scorer = make_scorer(cohen_kappa_score).set_score_request(sample_weight=False)
        found, expected = (
            kind(estimator, grid, scoring=scorer).fit(X, Y, sample_weight=weight)
            for kind in (al.GridSearch, GridSearchCV)
        )
        assert_same_results(found.cv_results_, expected.cv_results_)
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError):
            al.GridSearch(GaussianNB(), grid).fit(X, Y, sample_weight=weight)


def test_not_fitted():
    search = al.GridSearch(GaussianNB(), {})
    for method in (search.score, search.predict):
        with pytest.raises(NotFittedError):
            method(X)
    with pytest.raises(AttributeError, match="no refitted candidate"):
        al.GridSearch(GaussianNB(), {}, refit=False).fit(X, Y).score(X, Y)


# ---- a drop-in for scikit-learn's: the same with our classifiers, where fast paths answer

SEARCHES = [
    (al.NaiveBayesClassifier(), {"var_smoothing": [1e-9, 1e-2, 0.5]}),
    (al.FullBayesClassifier(), {"shrinkage": [0.0, 0.3, 0.9], "variance": ["ml", "unbiased"]}),
    (al.DecisionTreeClassifier(), {"max_depth": [1, 2, None], "min_samples_leaf": [1, 9]}),
    (al.GradientBoostingClassifier(max_depth=2, min_samples_leaf=5), {"n_estimators": [1, 4]}),
    (al.SVC(gamma=0.3), {"C": [0.01, 1.0, 30.0]}),
]
every = pytest.mark.parametrize(("estimator", "grid"), SEARCHES, ids=lambda part: type(part).__name__)
METRICS = {"accuracy": "accuracy", "kappa": make_scorer(cohen_kappa_score), "recall": "recall_macro"}


def fewest_errors_of_recall(results):
    return int(np.argmax(results["mean_test_recall"]))


@every
@pytest.mark.parametrize("refit", ["kappa", False, fewest_errors_of_recall], ids=["str", "False", "callable"])
def test_our_classifiers_give_the_results_of_scikit_learn(estimator, grid, refit):
    options = {"scoring": METRICS, "refit": refit, "cv": StratifiedKFold(3, shuffle=True, random_state=1)}
    found, expected = both(estimator, grid, **options)
    assert_same_results(found.cv_results_, expected.cv_results_)
    for name in ("best_index_", "best_params_", "best_score_"):
        assert getattr(found, name, None) == getattr(expected, name, None)
    assert hasattr(found, "best_estimator_") == bool(refit)
    assert found.multimetric_
    assert sorted(found.scorer_) == sorted(expected.scorer_)
    if refit:
        np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def test_random_candidates_of_a_fast_path():
    grid = {"C": loguniform(1e-2, 1e2), "gamma": [0.1, 0.3]}
    options = {"n_iter": 8, "random_state": 5, "cv": 3}
    found = al.GridSearch(al.SVC(), grid, **options).fit(X, Y)
    expected = RandomizedSearchCV(al.SVC(), grid, **options).fit(X, Y)
    assert_same_results(found.cv_results_, expected.cv_results_)
    assert found.best_params_ == expected.best_params_


@pytest.mark.parametrize("error_score", [np.nan, 0.0])
def test_a_candidate_that_fails_in_a_fast_path(error_score):
    grid = {"max_depth": [2, -1, 4]}
    searches = [
        kind(al.DecisionTreeClassifier(), grid, cv=2, error_score=error_score)
        for kind in (al.GridSearch, GridSearchCV)
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found, expected = (search.fit(X, Y) for search in searches)
    assert sum(issubclass(warning.category, FitFailedWarning) for warning in caught) >= 2
    assert_same_results(found.cv_results_, expected.cv_results_)
    with pytest.raises(ValueError, match="max_depth"):
        al.GridSearch(al.DecisionTreeClassifier(), grid, cv=2, error_score="raise").fit(X, Y)


def test_progress_shows_the_time_left(capsys):
    al.GridSearch(GaussianNB(), {"var_smoothing": [1e-9, 1e-2]}, cv=3, verbose=1).fit(X, Y)
    shown = capsys.readouterr().err
    assert "candidates x folds" in shown
    assert "6/6" in shown
    assert re.search(r"\d:\d\d:\d\d", shown)
