"""Gradient boosting: the same bits everywhere, what its parameters mean, and what it refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score

import arraylearn as al
from arraylearn.backend.dispatch import portable_only, use_compiled
from arraylearn.backend.namespace import to_host
from arraylearn.boosting.log_loss import SCORE_BITS
from arraylearn.datasets import load_iris
from tests.boosting.data import holes, nominal_frame, slopes, stripes

SETTINGS = {
    "plain": {},
    "deep": {"max_depth": 9},
    "best first": {"max_depth": None, "max_leaf_nodes": 6},
    "drawn": {"subsample": 0.6, "max_features": 0.5, "random_state": 3},
    "early": {"early_stopping": True, "random_state": 3, "n_iter_no_change": 2},
    "free": {"l2_regularization": 0.0, "min_child_hessian": 0.0, "learning_rate": 0.5},
}


def small(**changes):
    return al.GradientBoostingClassifier(
        **{
            "n_estimators": 5,
            "max_depth": 3,
            "min_samples_leaf": 0,
            "l2_regularization": 1.0,
            **changes,
        }
    )


def bits(model):
    """Everything a fitted model consists of, on the host."""
    trees = model.model_.trees
    arrays = [part for part in trees if not isinstance(part, int | None)]
    arrays += [model.model_.start, model.model_.binning.category_bin]
    return [to_host(part) for part in arrays], trees.height


def assert_same_bits(one, other):
    (first, height), (second, other_height) = bits(one), bits(other)
    assert height == other_height
    for a, b in zip(first, second, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


# ---- the same model everywhere


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("k", [2, 3])
def test_the_same_bits_on_every_backend(rung, setting, k):
    X, y = stripes(200, k=k)
    X = holes(X).astype(np.float32)
    reference = small(**SETTINGS[setting]).fit(X, y)
    model = small(**SETTINGS[setting]).fit(rung.from_host(X), rung.from_host(y))
    assert_same_bits(model, reference)
    assert model.n_iter_ == reference.n_iter_
    np.testing.assert_array_equal(rung.to_host(model.predict(rung.from_host(X))), reference.predict(X))


def test_the_same_bits_on_every_backend_with_nominal_columns(rung):
    X, y = nominal_frame()
    codes = np.array([np.nan if v is None else ord(v) - 97 for v in X[:, 1]])
    numbers = np.column_stack((X[:, 0].astype(float), codes)).astype(np.float32)
    weights = np.random.default_rng(0).random(y.shape[0])
    reference = small(categorical_features=[1]).fit(numbers, y, weights)
    assert (to_host(reference.model_.trees.map_start) >= 0).any()
    model = small(categorical_features=[1]).fit(rung.from_host(numbers), y, weights)
    assert_same_bits(model, reference)


@pytest.mark.parametrize("fitting", [[0, 1] * 8 + [1, 0] * 2, [0, 1, 1, 0] * 5])
def test_rounds_without_a_split_beside_splits_by_category(fitting):
    """The shares of two categories are learned after some rounds, or there is nothing to learn at all."""
    X, y = np.array([[0.0], [1.0]] * 10), np.array(fitting)
    settings = {"n_estimators": 60, "learning_rate": 1.0, "l2_regularization": 0.0}
    model = small(**settings, categorical_features=[0]).fit(X, y)
    shares = [[(y[X[:, 0] == code] == label).mean() for label in (0, 1)] for code in (0, 1)]
    np.testing.assert_allclose(model.predict_proba([[0.0], [1.0]]), shares, atol=1e-5)


def test_the_same_bits_on_every_backend_under_constraints(rung):
    X, y = slopes(200)
    X = holes(X).astype(np.float32)
    options = {"monotonic_cst": [1, -1, 0, 0], "max_depth": 4}
    reference = small(**options).fit(X, y)
    assert_same_bits(small(**options).fit(rung.from_host(X), rung.from_host(y)), reference)


@pytest.mark.parametrize("k", [2, 4])
def test_native_bodies_and_threads_change_nothing(k):
    X, y = stripes(9000, k=k)
    model = small().fit(X, y)
    al.set_num_threads(1)
    try:
        assert_same_bits(small().fit(X, y), model)
    finally:
        al.set_num_threads(None)
    with portable_only():
        other = small().fit(X, y)
        expected = other.predict_proba(holes(X))
    assert_same_bits(other, model)
    np.testing.assert_array_equal(model.predict_proba(holes(X)), expected)


def test_the_order_of_rows_changes_nothing():
    X, y = stripes(500, k=3)
    shuffled = np.random.default_rng(0).permutation(500)
    assert_same_bits(small().fit(X[shuffled], y[shuffled]), small().fit(X, y))


# ---- what it learns


@pytest.mark.parametrize(("l2", "leaf"), [(0.0, 1 / 5), (1.0, 1 / 15)])
def test_one_split_by_hand(l2, leaf):
    X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    model = al.GradientBoostingClassifier(
        n_estimators=1, max_depth=1, min_samples_leaf=0, l2_regularization=l2
    )
    model.fit(X, y)
    # p = 1/2: each side has G = +-1, H = 1/2, so the leaves are -+ 0.1 * 1 / (0.5 + l2)
    np.testing.assert_allclose(model.decision_function(X), [-leaf, -leaf, leaf, leaf], atol=1e-5)
    assert float(model.model_.binning.edges[0, int(model.model_.trees.threshold[0])]) == 1.5
    np.testing.assert_allclose(model.feature_importances_, [1.0])


def test_against_scikit_learn_tree_by_tree():
    X, y = stripes(400)
    options = {"max_leaf_nodes": None, "min_samples_leaf": 1, "early_stopping": False}
    peer = HistGradientBoostingClassifier(max_iter=20, max_depth=3, l2_regularization=1.0, **options)
    peer.fit(X, y)
    model = small(n_estimators=20, max_bins=254, min_child_hessian=1e-3).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=2e-3)


def test_best_first_is_what_one_leaf_at_a_time_would_give():
    X, y = stripes(400)
    options = {"max_depth": None, "max_leaf_nodes": 7}
    peer = HistGradientBoostingClassifier(
        max_iter=10, min_samples_leaf=1, l2_regularization=1.0, early_stopping=False, **options
    ).fit(X, y)
    model = small(n_estimators=10, max_bins=254, min_child_hessian=1e-3, **options).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=2e-3)


def test_learns_stripes():
    X, y = stripes(3000, k=3)
    new, truth = stripes(3000, k=3, seed=9)
    model = al.GradientBoostingClassifier().fit(X, y)
    peer = HistGradientBoostingClassifier(max_depth=6, max_leaf_nodes=None, early_stopping=False).fit(X, y)
    assert model.score(new, truth) > peer.score(new, truth) - 0.03
    assert model.feature_importances_.argsort()[-2:].tolist() in ([0, 1], [1, 0])
    np.testing.assert_allclose(model.feature_importances_.sum(), 1.0)


def test_iris():
    data = load_iris()
    options = {"max_depth": 6, "max_leaf_nodes": None, "max_iter": 30, "early_stopping": False}
    models = al.GradientBoostingClassifier(n_estimators=30), HistGradientBoostingClassifier(**options)
    ours, theirs = (cross_val_score(model, data.X, data.y, cv=5).mean() for model in models)
    assert ours > theirs - 1.5 / 150


@pytest.mark.parametrize("limits", [{"max_depth": 4}, {"max_depth": None, "max_leaf_nodes": 9}])
def test_scores_go_one_way_under_constraints(limits):
    X, y = slopes(1500)
    options = {"n_estimators": 30, "max_bins": 254, "min_child_hessian": 1e-3, **limits}
    free = small(**options).fit(X, y)
    bound = small(monotonic_cst=[1, -1, 0, 0], **options).fit(X, y)
    # along a grid in one column, with the others from the rows
    grid = np.linspace(-3, 3, 60)
    moves = {}
    for name, model in (("free", free), ("bound", bound)):
        for column in (0, 1):
            rows = np.repeat(X[:40], grid.shape[0], axis=0)
            rows[:, column] = np.tile(grid, 40)
            moves[name, column] = np.diff(model.decision_function(rows).reshape(40, -1), axis=1)
    assert moves["bound", 0].min() >= 0 > moves["free", 0].min()
    assert moves["bound", 1].max() <= 0 < moves["free", 1].max()
    # scikit-learn scores bounded values as -G v, without the second order: ours fits no worse
    peer = constrained_peer(**{"max_leaf_nodes": None, **limits}).fit(X, y)
    losses = [log_loss(y, model.predict_proba(X)) for model in (bound, peer)]
    assert losses[0] < losses[1] + 0.005


def constrained_peer(**options):
    return HistGradientBoostingClassifier(
        max_iter=30,
        min_samples_leaf=1,
        l2_regularization=1.0,
        early_stopping=False,
        monotonic_cst=[1, -1, 0, 0],
        **options,
    )


def test_constrained_stumps_against_scikit_learn():
    X, y = slopes(1500)
    options = {"n_estimators": 30, "max_bins": 254, "min_child_hessian": 1e-3, "max_depth": 1}
    model = small(monotonic_cst=[1, -1, 0, 0], **options).fit(X, y)
    peer = constrained_peer(max_depth=1, max_leaf_nodes=None).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=2e-3)


def test_constraints_by_name_and_what_they_refuse():
    X, y = slopes(300)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    named = small(monotonic_cst={"b": -1}).fit(frame, y)
    assert_same_bits(named, small(monotonic_cst=[0, -1, 0, 0]).fit(X, y))
    assert_same_bits(small(monotonic_cst=np.zeros(4)).fit(X, y), small().fit(X, y))
    for wrong, rule in (
        ([1, 0], "each of 4 columns; got 2"),
        ([2, 0, 0, 0], "-1, 0 and 1; got 2"),
        ({"a": 1}, "without names"),
    ):
        with pytest.raises(ValueError, match=f"`monotonic_cst`.*{rule}"):
            small(monotonic_cst=wrong).fit(X, y)
    with pytest.raises(ValueError, match="name columns of `X`; got 'e'"):
        small(monotonic_cst={"e": 1}).fit(frame, y)
    with pytest.raises(ValueError, match="more than two classes; got 3"):
        small(monotonic_cst=[1, 0, 0, 0]).fit(X, np.arange(300) % 3)
    X, y = nominal_frame()
    with pytest.raises(ValueError, match="0 for nominal columns; got 1 for column 1"):
        small(monotonic_cst=[0, 1]).fit(X, y)


def test_missing_values_have_a_side():
    X, y = stripes(1000)
    X = X[:, :1].copy()
    y = (X[:, 0] > 0.5).astype(int)
    X[(np.arange(1000) % 3 == 0) & (y == 1)] = np.nan
    model = small(n_estimators=30).fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.predict([[np.nan]]).tolist() == [1]
    # without missing values in training they go where most rows are
    y = (np.arange(1000) >= 800).astype(int)
    model = small(n_estimators=30).fit(np.arange(1000.0)[:, None], y)
    assert model.predict([[np.nan]]).tolist() == [0]


def test_categories_are_split_into_sets():
    X, y = nominal_frame(800)
    stump = al.DecisionTreeClassifier(max_depth=1).fit(X, y)  # one split of the categories into two sets
    model = small(n_estimators=40).fit(X, y)
    assert model.score(X, y) > stump.score(X, y) + 0.02
    # one split is enough for what thresholds on codes would need many for
    one = small(n_estimators=40, max_depth=1, min_child_hessian=0).fit(X[:, 1:], y)
    assert one.score(X[:, 1:], y) >= stump.score(X, y)
    unknown = X[:3].copy()
    unknown[:, 1] = "never seen"
    missing = X[:3].copy()
    missing[:, 1] = None
    np.testing.assert_array_equal(model.predict_proba(unknown), model.predict_proba(missing))


def test_more_categories_than_bins():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 400, 4000)
    X = np.array([f"c{code}" for code in codes], dtype=object)[:, None]
    y = (codes % 3 == 0).astype(int)
    model = small(n_estimators=30, max_bins=254, categorical_smoothing=0, min_child_hessian=0).fit(X, y)
    # 253 categories have a bin of their own and are told apart; the others share one, whose class is 0
    bin_of = to_host(model.model_.binning.category_bin)[0, 1:]
    is_alone = np.bincount(bin_of)[bin_of] == 1
    assert is_alone.sum() == 253
    domain = model.schema_.columns[0].domain
    expected = {
        name: int(name[1:]) % 3 == 0 if alone else 0 for name, alone in zip(domain, is_alone, strict=False)
    }
    found = model.predict(X)
    np.testing.assert_array_equal(found, [expected[name] for name in X[:, 0]])


@pytest.mark.parametrize("k", [2, 3])
def test_weights_are_repetitions(k):
    X, y = stripes(900, k=k)
    times = np.random.default_rng(0).integers(0, 4, 900)
    options = {"max_bins": 254, "min_child_hessian": 20.0}  # small nodes have ties, which rounding decides
    weighted = small(**options).fit(X, y, sample_weight=times)
    repeated = small(**options).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    X = X[times > 0]  # the others may lie on either side of a split between two that count
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-4)


def test_weights_reach_a_limit_that_the_repeated_rows_reach():
    # a quarter of 39 rows on each side; 7 / 10 is less than that in float32
    times = np.tile([1, 7, 7, 7, 7, 10], 2)
    X, y = np.repeat([0.0, 1.0], 6)[:, None], np.repeat([0, 1], 6)
    for limit, height in ((39 / 4, 1), (39 / 4 + 1e-4, 0)):
        model = small(n_estimators=1, min_child_hessian=limit)
        assert model.fit(X, y, times).model_.trees.height == height
        repeated = model.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
        assert repeated.model_.trees.height == height


def test_class_weight():
    X, y = stripes(600)
    rare = np.concatenate((np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:20]))
    plain = small(n_estimators=20).fit(X[rare], y[rare])
    balanced = small(n_estimators=20, class_weight="balanced").fit(X[rare], y[rare])
    assert balanced.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.1


def test_staged_predictions_end_at_the_whole():
    X, y = stripes(300, k=3)
    model = small().fit(X, y)
    stages = list(model.staged_predict_proba(X))
    assert len(stages) == 5
    np.testing.assert_array_equal(stages[-1], model.predict_proba(X))
    losses = [log_loss(y, stage) for stage in stages]
    assert losses == sorted(losses, reverse=True)


def test_early_stopping_keeps_the_best_rounds():
    X, y = stripes(1500, k=3)
    model = al.GradientBoostingClassifier(
        n_estimators=200, learning_rate=0.3, early_stopping=True, n_iter_no_change=5, random_state=0
    ).fit(X, y)
    assert model.n_iter_ < 100
    assert model.n_iter_ == int(np.argmax(model.validation_score_))
    assert model.validation_score_.shape[0] == model.n_iter_ + 1 + 5


@pytest.mark.parametrize("is_nominal", [False, True])
def test_as_many_bins_as_a_byte_holds(is_nominal):
    """With missing values 256: every value of the table of bins is in use."""
    rng = np.random.default_rng(0)
    x = np.concatenate((np.repeat(np.arange(255.0), 4), np.full(20, np.nan)))
    y = np.concatenate((np.repeat(rng.integers(0, 2, 255), 4), np.ones(20, dtype=int)))
    options = {"max_bins": 255, "n_estimators": 3, "min_child_hessian": 0, "max_depth": None}
    options |= {"categorical_features": [0]} if is_nominal else {}
    X = np.column_stack((x, rng.integers(0, 2, 1040)))
    model = small(**options).fit(X, y)
    assert model.model_.binning.n_bins == 256
    with use_compiled("always"):
        assert_same_bits(small(**options).fit(X, y), model)
        np.testing.assert_array_equal(small(**options).fit(X, y).predict_proba(X), model.predict_proba(X))
    assert model.predict([[np.nan, 0]]).tolist() == [1]
    if not is_nominal:
        assert model.score(X, y) > 0.99


def test_limits_of_trees():
    X, y = stripes(500)
    model = al.GradientBoostingClassifier(n_estimators=3, max_depth=None, max_leaf_nodes=5).fit(X, y)
    trees = model.model_.trees
    assert trees.is_leaf.sum() == 15
    heavy = al.GradientBoostingClassifier(n_estimators=1, min_child_hessian=1e6).fit(X, y)
    assert heavy.model_.trees.height == 0
    np.testing.assert_allclose(heavy.predict_proba(X)[:, 1], y.mean(), atol=1e-5)


@pytest.mark.rungs("compiled")
def test_the_default_shortens_the_steps_of_leaves_of_next_to_no_hessian():
    """They make new rows of a class too sure: log losses of 0.86 and 1.02."""
    data = load_digits()
    X, new, y, truth = data.data[:300], data.data[300:600], data.target[:300], data.target[300:600]
    options = {"n_estimators": 40, "learning_rate": 0.3}
    losses = [
        log_loss(truth, al.GradientBoostingClassifier(**options, **limit).fit(X, y).predict_proba(new))
        for limit in ({}, {"l2_regularization": 0})
    ]
    assert losses[0] < 0.9 * losses[1]


def test_leaves_have_enough_rows():
    X, y = stripes(1000)
    # in the first round all rows have the same hessian, so that this counts rows
    model = al.GradientBoostingClassifier(n_estimators=1, min_samples_leaf=120).fit(X, y)
    leaves, counts = np.unique(model.decision_function(X), return_counts=True)
    assert counts.min() >= 120
    assert len(leaves) > 2


def test_constant_columns():
    model = small().fit(np.ones((20, 2)), np.arange(20) % 2)
    np.testing.assert_allclose(model.predict_proba(np.ones((3, 2))), 0.5, atol=1e-6)
    np.testing.assert_array_equal(model.feature_importances_, [0, 0])


def test_scores_are_in_units_of_the_sum():
    X, y = stripes(300)
    model = small().fit(X, y)
    scores = model.decision_function(X) * (1 << SCORE_BITS)
    np.testing.assert_array_equal(scores, np.round(scores))


def test_progress(capsys):
    X, y = stripes(100)
    small(verbose=1).fit(X, y)
    shown = capsys.readouterr().err
    assert "5/5" in shown
    assert "loss 0." in shown


def test_rows_and_columns_may_be_shares_or_names():
    X, y = np.random.default_rng(0).normal(size=(200, 9)), np.arange(200) % 2

    def scores(**options):
        return small(n_estimators=3, random_state=0, **options).fit(X, y).decision_function(X)

    for one, same in (
        ({"max_features": "sqrt"}, {"max_features": 3}),
        ({"max_features": "log2"}, {"max_features": 0.4}),
        ({"max_features": None}, {"max_features": 1.0}),
        ({"min_samples_leaf": 0.1}, {"min_samples_leaf": 20}),
        ({"min_samples_leaf": np.float64(0.25)}, {"min_samples_leaf": 50}),
    ):
        np.testing.assert_array_equal(scores(**one), scores(**same))
    for n_rows, least in ((200, 20), (57, 11), (4, 0)):
        models = [
            small(n_estimators=3, min_samples_leaf=value).fit(X[:n_rows], y[:n_rows])
            for value in ("auto", least)
        ]
        np.testing.assert_array_equal(*(model.decision_function(X) for model in models))
    assert small(max_features="sqrt").fit(X, y).max_features_ == 3
    assert (scores(max_features=1) != scores(max_features=1.0)).any()
    assert (scores(min_samples_leaf=1.0) == scores(min_samples_leaf=1.0)[0]).all()  # all rows are in one leaf


# ---- what it refuses


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("n_estimators", 0, "at least 1"),
        ("n_estimators", 2.5, "integer"),
        ("learning_rate", 0.0, "above 0"),
        ("learning_rate", float("nan"), "above 0"),
        ("max_depth", 0, "at least 1"),
        ("max_leaf_nodes", 1, "at least 2"),
        ("max_bins", 256, "from 2 to 255"),
        ("subsample", 0.0, "above 0 and up to 1"),
        ("max_features", 1.5, "above 0 and up to 1"),
        ("min_samples_leaf", 2.5, "at least 0, or a float above 0 and up to 1.0"),
        ("min_samples_leaf", "most", "or 'auto'"),
        ("l2_regularization", -1.0, "at least 0"),
        ("min_child_hessian", "1", "at least 0"),
        ("validation_fraction", 0.95, "above 0 and up to 0.9"),
        ("n_iter_no_change", 0, "at least 1"),
    ],
)
def test_bad_parameters(name, value, rule):
    X, y = stripes(20)
    with pytest.raises(ValueError, match=rf"`{name}` must be .*{rule}.*got"):
        small(**{name: value}).fit(X, y)


def test_bad_data():
    X, y = stripes(30)
    with pytest.raises(ValueError, match="all weights are zero"):
        small().fit(X, y, sample_weight=np.zeros(30))
    with pytest.raises(ValueError, match="validation part must hold at least two classes"):
        small(early_stopping=True).fit(X, np.arange(30) == 4)
    model = small()
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, y)
    with pytest.raises(ValueError, match="all weights are zero"):
        model.fit(X, y, sample_weight=np.zeros(30))
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.rungs("numpy", "compiled")
def test_mixed_categories_are_not_learned_by_heart():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 200, size=(6_000, 4)).astype(float)
    effects = rng.normal(0, 0.6, (4, 200))
    score = sum(effects[j][X[:, j].astype(int)] for j in range(4))
    y = (rng.random(6_000) < 1 / (1 + np.exp(-score))).astype(int)
    model = al.GradientBoostingClassifier(30, categorical_features=range(4)).fit(X[:4_000], y[:4_000])
    own, new = (
        log_loss(y[rows], model.predict_proba(X[rows])) for rows in (slice(4_000), slice(4_000, None))
    )
    assert new - own < 0.1  # 0.75 where categories cost nothing
    assert new < 0.67  # 0.81


@pytest.mark.rungs("numpy", "compiled")
def test_two_categories_are_split_as_two_numbers():
    X = np.random.default_rng(0).integers(0, 2, size=(200, 4)).astype(float)
    y = (X[:, 0] + X[:, 1] + X[:, 2] * X[:, 3] > 1).astype(int)
    y[::9] = 1 - y[::9]
    as_numbers = al.GradientBoostingClassifier(5, min_samples_leaf=5).fit(X, y)
    for smoothing in (0.0, 10.0):
        model = al.GradientBoostingClassifier(
            5, min_samples_leaf=5, categorical_features=range(4), categorical_smoothing=smoothing
        ).fit(X, y)
        np.testing.assert_array_equal(model.predict_proba(X), as_numbers.predict_proba(X))
