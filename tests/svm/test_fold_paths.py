"""Support vector classifiers on folds: one kernel matrix gives what the loop gives, within the tolerance."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC as LIBSVM

import arraylearn as al
from arraylearn.backend.dispatch import is_numba_installed, tuned, use_compiled
from arraylearn.backend.namespace import HOST
from arraylearn.folds import open_sample
from arraylearn.selection.splitting import make_folds
from arraylearn.svm.paths.fold_paths import judge_svc_folds
from arraylearn.svm.paths.rising_prices import follow_path
from arraylearn.svm.paths.shared_matrix import SharedMatrix
from arraylearn.svm.solvers.dual import Settings
from arraylearn.table.subsets import take_rows

PRICES = [0.1, 0.5, 1.0, 3.0, 10.0, 50.0]


@pytest.fixture(autouse=True)
def _share_small_pairs_too():
    with tuned(svm_path_rows=0, svm_splitting_rows=0):
        yield


def rows(n=120, k=2, seed=0):
    X, y = make_classification(
        n,
        6,
        n_informative=4,
        n_classes=k,
        n_clusters_per_class=1,
        class_sep=0.7,
        flip_y=0.1,
        random_state=seed,
    )
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_path_meets_the_optimality_conditions(dtype):
    """Every point of the path is feasible and within the tolerance of LIBSVM's stopping rule."""
    X, y = rows(300)
    sign = 2.0 * y - 1.0
    matrix = np.exp(-0.2 * ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2))
    share = np.where(np.arange(300) % 5 == 0, 0.0, 1.0 + 0.5 * (y == 1))
    store = SharedMatrix(HOST, matrix.astype(dtype), np.dtype(dtype))
    points = follow_path(store, sign, share, PRICES, Settings(tol=1e-3))
    for price, point in zip(PRICES, points, strict=True):
        bound = price * share
        assert abs(point.beta.sum()) < 1e-8 * bound.sum()
        assert (sign * point.beta >= 0).all()
        assert (abs(point.beta) <= bound).all()
        gradient = sign - matrix @ point.beta
        upper, lower = np.where(sign > 0, bound, 0), np.where(sign < 0, -bound, 0)
        gap = gradient[point.beta < upper].max() - gradient[point.beta > lower].min()
        assert gap < 1.2e-3
        np.testing.assert_allclose(point.product, matrix @ point.beta, atol=1e-3)


def test_a_bound_that_nothing_reaches_may_rise():
    X, y = rows(60)
    matrix = np.exp(-20 * ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2))
    store = SharedMatrix(HOST, matrix, matrix.dtype)
    first, second = follow_path(store, 2.0 * y - 1.0, np.ones(60), [10.0, 20.0], Settings(tol=1e-6))
    assert second is first
    assert abs(first.beta).max() < 10.0


OPTIONS = [
    {},
    {"gamma": 0.1},
    {"gamma": "auto", "kernel": "poly", "degree": 2, "coef0": 1.0},
    {"gamma": 0.3, "class_weight": "balanced"},
    {"kernel": al.kernels.Gaussian(0.2) + 0.1 * al.kernels.Linear()},
]


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_answers_are_those_of_the_loop(options, k):
    X, y = rows(150, k)
    # the decision values of a polynomial are larger by the size of its diagonal
    scale = 10.0 if options.get("kernel") == "poly" else 1.0
    for tol in (1e-3, 1e-6):
        assert_equals_the_loop(
            al.SVC(tol=tol, **options), X, y, [{"C": price} for price in PRICES], scale=scale
        )


@pytest.mark.parametrize("options", [{"multiclass": "ovr"}, {"decision_function_shape": "ovo"}], ids=str)
def test_ways_to_join_classes(options):
    X, y = rows(150, 4)
    assert_equals_the_loop(al.SVC(gamma=0.2, tol=1e-5, **options), X, y, [{"C": price} for price in PRICES])


@pytest.mark.parametrize("options", [{"gamma": 0.2}, {"gamma": 0.2, "multiclass": "ovr"}], ids=str)
def test_few_rows_in_one_batch(options):
    """Solved by splitting, in as many batches as the memory asks for."""
    X, y = rows(150, 3 if "multiclass" in options else 2)
    try:
        al.set_memory_budget(400_000)  # for the kernel matrix, and for one or two of the three folds
        with tuned(svm_splitting_rows=700):
            assert_equals_the_loop(al.SVC(**options), X, y, [{"C": price} for price in PRICES])
    finally:
        al.set_memory_budget(None)


@pytest.mark.skipif(not is_numba_installed(), reason="not installed: numba")
@pytest.mark.rungs("compiled")
@pytest.mark.parametrize("k", [2, 3])
def test_compiled_pair_steps_solve_all_folds_together(k):
    X, y = rows(90, k, seed=3)
    sample = open_sample(X, y)
    folds = make_folds(sample, al.SVC(), 3)
    with use_compiled("always"), tuned(svm_path_rows=500, svm_splitting_rows=700):
        found = judge_svc_folds(al.SVC(), [{"C": 3.0}, {"C": 1.0}], sample, folds)
        assert sorted((c, f) for c, f, _ in found) == [(c, f) for c in (0, 1) for f in range(3)]
        assert_equals_the_loop(al.SVC(), X, y, [{"C": 0.3}, {"C": 30.0}, {"C": 3.0}])


def test_weights():
    X, y = rows(150)
    assert_equals_the_loop(
        al.SVC(gamma=0.2), X, y, [{"C": 1.0}, {"C": 10.0}], weight=np.linspace(0.1, 2, 150)
    )


def assert_equals_the_loop(estimator, X, y, candidates, weight=None, scale=1.0):
    sample = open_sample(X, y, weight)
    folds = make_folds(sample, estimator, StratifiedKFold(3))
    found = {(c, f): answers for c, f, answers in judge_svc_folds(estimator, candidates, sample, folds)}
    assert len(found) == len(candidates) * len(folds)
    for (c, f), answers in found.items():
        model = sample.fit(type(estimator)(**{**estimator.get_params(), **candidates[c]}), folds[f].train)
        test = take_rows(X, folds[f].test)
        values = model.decision_function(test)
        margin = 5 * estimator.tol * scale
        np.testing.assert_allclose(answers.answer("decision_function"), values, atol=margin)
        if values.ndim == 1:
            is_clear = abs(values) > margin
        else:
            is_clear = np.diff(np.sort(values, axis=1)[:, -2:], axis=1)[:, 0] > 2 * margin
        np.testing.assert_array_equal(answers.answer("predict")[is_clear], model.predict(test)[is_clear])


def test_search_agrees_with_libsvm():
    X, y = rows(200, 3)
    grid = {"C": PRICES, "gamma": [0.05, 0.2, "scale"]}
    found = al.GridSearch(al.SVC(), grid, cv=4).fit(X, y)
    expected = GridSearchCV(LIBSVM(), grid, cv=4).fit(X, y)
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], atol=1 / 200 + 1e-9
    )
    best = LIBSVM(**{name: getattr(found.best_estimator_, name) for name in grid}).fit(X, y)
    assert found.score(X, y) == pytest.approx(best.score(X, y), abs=1 / 200)


def test_reports_on_every_rung(rung):
    X, y = rows(60, 3)
    name = rung.float_dtypes[-1]
    search = al.GridSearch(al.SVC(gamma=0.2), {"C": [0.5, 5.0]}, cv=3, scoring=["accuracy"], refit=False)
    found = search.fit(rung.from_host(X, name), rung.from_host(y)).cv_results_
    expected = al.GridSearch(
        al.SVC(gamma=0.2), {"C": [0.5, 5.0]}, cv=3, scoring=["accuracy"], refit=False, fast=False
    )
    expected = expected.fit(X, y).cv_results_
    np.testing.assert_allclose(
        found["mean_test_accuracy"], expected["mean_test_accuracy"], atol=1 / 60 + 1e-9
    )


def test_what_is_left_to_the_loop(caplog):
    X, y = rows(60)
    sample = open_sample(X, y)
    folds = make_folds(sample, al.SVC(), 3)
    for candidate in (
        {"kernel": "linear"},
        {"max_iter": 5},
        {"warm_start": True},
        {"kernel": lambda a, b: a @ b.T},
    ):
        assert list(judge_svc_folds(al.SVC(), [candidate], sample, folds)) == []
    mixed = [{"kernel": "linear"}, {"C": 3.0}, {"C": 1.0}]
    assert sorted({c for c, _, _ in judge_svc_folds(al.SVC(), mixed, sample, folds)}) == [1, 2]
    al.set_memory_budget(1000)
    try:
        assert list(judge_svc_folds(al.SVC(), [{}], sample, folds)) == []
        assert "one candidate at a time" in caplog.text
    finally:
        al.set_memory_budget(None)
    three = rows(60, 3)
    with tuned(svm_path_rows=500):
        assert list(judge_svc_folds(al.SVC(), [{}], open_sample(*three), folds)) == []
    bad = open_sample(np.where(X > 2, np.nan, X), y)
    assert list(judge_svc_folds(al.SVC(), [{}], bad, folds)) == []


def test_the_precomputed_kernel_is_cut_both_ways():
    X, y = rows(80)
    matrix = X @ X.T
    expected = al.evaluate(al.SVC(kernel="linear"), X, y, cv=4)
    found = al.evaluate(al.SVC(kernel="precomputed"), matrix, y, cv=4)
    np.testing.assert_array_equal(found.confusion, expected.confusion)


@pytest.mark.parametrize(
    ("gamma", "stop", "kept"),
    [
        (0.2, (1, 1), "1 of 2 candidates;"),  # all folds of a candidate side by side
        ("scale", (0, 2), "2 of 2 candidates on 2 of 3 folds"),  # a kernel for each fold
    ],
)
def test_interrupted_search_keeps_what_can_be_compared(monkeypatch, gamma, stop, kept):
    X, y = rows(60)
    from arraylearn.selection import fast, grid_search, trials

    def interrupted(estimator, candidates, sample, folds):
        for found in judge_svc_folds(estimator, candidates, sample, folds):
            if found[:2] == stop:
                raise KeyboardInterrupt
            yield found

    path = fast.FastPath((al.SVC,), interrupted, gives_models=False)
    monkeypatch.setattr(trials, "find_fast_path", lambda *arguments, **options: path)
    model = grid_search.GridSearch(al.SVC(gamma=gamma), {"C": [0.5, 5.0]}, cv=3)
    with pytest.warns(UserWarning, match=kept):
        model.fit(X, y)
    assert model.n_splits_ == (3 if gamma == 0.2 else 2)
    assert len(model.cv_results_["params"]) == (1 if gamma == 0.2 else 2)
    assert not model.is_complete_
