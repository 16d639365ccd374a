"""Random forests: cuts by hand, the same trees everywhere, out of bag, warm start, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier as PeerExtra
from sklearn.ensemble import RandomForestClassifier as Peer
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score

import arraylearn as al
from arraylearn.backend.dispatch import portable_only, tuned, use_compiled
from arraylearn.backend.namespace import to_host
from arraylearn.backend.random import spawn
from arraylearn.forest import ExtraTreesClassifier, RandomForestClassifier
from arraylearn.forest.bags import draw_bags
from tests.boosting.data import holes, nominal_frame, stripes


def small(**changes):
    return RandomForestClassifier(**{"n_estimators": 5, "random_state": 0, **changes})


def bits(model):
    """The trees of a fitted forest, on the host."""
    fields = [field for grove in model.model_.groves for field in grove.trees]
    return [to_host(field) for field in fields if not isinstance(field, int | None)]


def assert_same_bits(one, other):
    for a, b in zip(bits(one), bits(other), strict=True):
        np.testing.assert_array_equal(a, b)


# ---- leaves


def test_prediction_in_small_chunks():
    X, y = stripes(600, k=3)
    model = small().fit(X, y)
    expected = model.predict_proba(X)
    al.set_memory_budget("64KB")
    try:
        with use_compiled("never"):
            np.testing.assert_array_equal(model.predict_proba(X), expected)
    finally:
        al.set_memory_budget(None)


# ---- the same trees everywhere


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("k", [2, 4])
def test_the_same_trees_on_every_backend(rung, k, kind):
    X, y = stripes(120, k=k)
    X = holes(X).astype(np.float32)
    reference = kind(n_estimators=3, random_state=0).fit(X, y)
    model = kind(n_estimators=3, random_state=0).fit(rung.from_host(X), rung.from_host(y))
    assert_same_bits(model, reference)
    np.testing.assert_array_equal(rung.to_host(model.predict(rung.from_host(X))), reference.predict(X))


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_native_bodies_and_threads_change_nothing(kind):
    X, y = stripes(3000, k=3)

    def small():
        return kind(n_estimators=5, random_state=0)

    model = small().fit(X, y)
    try:
        for n_threads in (1, 3):
            al.set_num_threads(n_threads)
            assert_same_bits(small().fit(X, y), model)
    finally:
        al.set_num_threads(None)
    with portable_only(), use_compiled("never"):
        other = small().fit(X, y)
        expected = other.predict_proba(holes(X))
    assert_same_bits(other, model)
    np.testing.assert_array_equal(model.predict_proba(holes(X)), expected)


def heavy(n):
    """Weights whose products do not fit 32 bits."""
    return np.random.default_rng(0).integers(1, 9000, n)


@pytest.mark.parametrize(
    ("n", "k", "settings", "weights"),
    [
        (40, 2, {}, None),  # few rows: each compared with each
        (1500, 2, {"bootstrap": False}, None),  # groups of bins
        (1500, 2, {"bootstrap": False}, heavy),
        (700, 3, {"bootstrap": False}, heavy),
        (3000, 3, {"bootstrap": False}, heavy),
        (2500, 3, {"bootstrap": False, "max_features": None}, None),
        (1200, 40, {}, None),
        (600, 3, {"max_depth": 3}, None),
        (600, 4, {"min_samples_leaf": 7, "min_samples_split": 30}, None),
        (600, 2, {"min_samples_leaf": 7}, None),
        (2, 2, {"bootstrap": False}, None),
        (30, 1, {}, None),
    ],
)
@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("n_values", [4, None])  # bins of one byte and of two
@pytest.mark.rungs("host")  # other libraries have portable levels only
def test_native_trees_are_those_of_portable_levels(rung, kind, n, k, settings, weights, n_values):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 11))  # more columns than are gathered at a time
    X = X if n_values is None else np.floor(n_values * rng.random((n, 11)))
    X[:, 1:4] = 5.0  # many nodes find nothing in the columns that they draw
    y = np.arange(n) % k if n_values else (X[:, 0] * k + rng.random(n)).astype(int) % k
    weight = None if weights is None else weights(n)
    model = kind(n_estimators=3, random_state=0, **settings).fit(X, y, weight)
    with portable_only(), use_compiled("never"):
        assert_same_bits(kind(n_estimators=3, random_state=0, **settings).fit(X, y, weight), model)


@pytest.mark.rungs("host")  # other libraries walk portably
@tuned(walk_block_rows=50)
def test_walks_of_blocks_and_threads(rung):
    X, y = stripes(333, k=3)
    model = small(oob_score=True, n_estimators=20).fit(X, y)
    with portable_only(), use_compiled("never"):
        other = small(oob_score=True, n_estimators=20).fit(X, y)
        expected = other.predict_proba(X)
    try:
        for n_threads in (1, 3):
            al.set_num_threads(n_threads)
            with tuned(walk_block_rows=50, walk_thread_steps=1):
                np.testing.assert_array_equal(model.predict_proba(X), expected)
                np.testing.assert_array_equal(model.predict_proba(X[:1]), expected[:1])
    finally:
        al.set_num_threads(None)
    np.testing.assert_array_equal(model.oob_decision_function_, other.oob_decision_function_)
    with pytest.raises(ValueError, match="0 sample"):
        model.predict_proba(X[:0])


def test_a_tree_does_not_depend_on_the_others():
    X, y = stripes(300, k=3)
    one = small(n_estimators=1).fit(X, y).predict_proba(X)
    many = small(n_estimators=4).fit(X, y)
    with tuned(forest_host_rows=600, forest_depth_first_rows=600):
        apart = small(n_estimators=4).fit(X, y)
    assert_same_bits(many, apart)
    (first,) = apart.model_.groves
    trees = first.trees._replace(roots=first.trees.roots[:1])
    apart.model_ = apart.model_._replace(groves=(first._replace(trees=trees),))
    np.testing.assert_array_equal(apart.predict_proba(X), one)


@pytest.mark.filterwarnings("ignore:.*rows are in every bag")
def test_warm_start_adds_trees():
    X, y = stripes(300)
    grown = small(n_estimators=2, warm_start=True).fit(X, y)
    grown.set_params(n_estimators=5, oob_score=True)
    grown.fit(X, y)
    whole = small(oob_score=True).fit(X, y)
    assert grown.n_trees_ == 5
    np.testing.assert_array_equal(grown.predict_proba(X), whole.predict_proba(X))
    np.testing.assert_array_equal(grown.oob_decision_function_, whole.oob_decision_function_)
    np.testing.assert_allclose(grown.feature_importances_, whole.feature_importances_)
    with pytest.warns(UserWarning, match="found the 5 trees that `n_estimators` asks for"):
        grown.fit(X, y)
    assert grown.n_trees_ == 5
    for rows, labels in ((X[:, 1:], y), (X, y + 1), (nominal_frame(300)[0], y)):
        with pytest.raises(ValueError, match="must have the columns, categories and classes"):
            grown.set_params(n_estimators=6).fit(rows, labels)
    np.testing.assert_array_equal(grown.predict_proba(X), whole.predict_proba(X))
    with pytest.raises(ValueError, match="at least the 5 trees there are already; got 3"):
        grown.set_params(n_estimators=3).fit(X, y)


# ---- what they learn


@pytest.mark.parametrize("k", [2, 5])
def test_as_good_as_scikit_learn(k):
    X, y = stripes(3000, k=k)
    new, truth = stripes(3000, k=k, seed=9)
    model = RandomForestClassifier(n_estimators=40, random_state=0, oob_score=True).fit(X, y)
    peer = Peer(n_estimators=40, random_state=0, oob_score=True).fit(X, y)
    assert model.score(new, truth) > peer.score(new, truth) - 0.02
    assert model.oob_score_ == pytest.approx(peer.oob_score_, abs=0.02)
    np.testing.assert_allclose(model.feature_importances_, peer.feature_importances_, atol=0.05)


def test_extra_trees_are_as_good_as_scikit_learn():
    X, y = stripes(3000, k=3)
    new, truth = stripes(3000, k=3, seed=9)
    scores = []
    for seed in range(4):  # the accuracy differs by two points from seed to seed
        settings = {"n_estimators": 20, "random_state": seed, "max_features": None}
        model, peer = (kind(**settings).fit(X, y) for kind in (ExtraTreesClassifier, PeerExtra))
        scores.append((model.score(new, truth), peer.score(new, truth)))
    ours, theirs = np.mean(scores, axis=0)
    assert ours > theirs - 0.03
    np.testing.assert_allclose(model.feature_importances_, peer.feature_importances_, atol=0.06)
    other = ExtraTreesClassifier(n_estimators=1, random_state=1, max_features=None).fit(X, y)
    same_rows = ExtraTreesClassifier(n_estimators=1, random_state=2, max_features=None).fit(X, y)
    assert any(not np.array_equal(a, b) for a, b in zip(bits(other), bits(same_rows), strict=True))


def test_whole_weights_are_repetitions_without_bootstrap():
    X, y = stripes(200, k=3)
    weights = np.random.default_rng(0).integers(1, 4, 200)
    for kind in (RandomForestClassifier, ExtraTreesClassifier):
        weighed = kind(n_estimators=3, bootstrap=False, random_state=0).fit(X, y, sample_weight=weights)
        repeated = kind(n_estimators=3, bootstrap=False, random_state=0)
        repeated.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
        np.testing.assert_array_equal(weighed.predict_proba(X), repeated.predict_proba(X))


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_parts_of_weights_without_bootstrap(kind):
    X, y = stripes(200, k=3)
    weights = np.random.default_rng(0).random(200) + 0.1
    forest = kind(n_estimators=2, bootstrap=False, max_depth=3, random_state=0).fit(X, y, weights)
    leaf = forest.apply(X)[:, 0]
    shares = forest[0].predict_proba(X)
    for node in np.unique(leaf):  # the classes of a leaf by the weights of its rows
        here = leaf == node
        held = np.bincount(y[here], weights[here], minlength=3)
        np.testing.assert_allclose(shares[here][0], held / held.sum(), atol=2e-6)
    balanced = kind(n_estimators=1, bootstrap=False, class_weight="balanced", max_depth=1, random_state=0)
    rare = np.concatenate((np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:7], np.flatnonzero(y == 2)[:11]))
    root = balanced.fit(X[rare], y[rare])[0].tree_.counts[0]
    np.testing.assert_allclose(root / root.sum(), 1 / 3, atol=1e-5)


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize("k", [2, 3])
def test_limits_count_rows_once_however_often_they_are_drawn(kind, criterion, k):
    X, y = stripes(300, k=k)
    forest = kind(
        n_estimators=3,
        criterion=criterion,
        bootstrap=True,
        min_samples_leaf=6,
        min_samples_split=20,
        random_state=0,
    ).fit(X, y)
    bags = draw_bags(spawn(forest.seed_, 3), 300, None, 300)
    ends = np.cumsum(bags.sizes)
    for tree, leaf, start, end in zip(forest, forest.apply(X).T, [0, *ends], ends, strict=False):
        n_rows = np.bincount(leaf[bags.rows[start:end]], minlength=tree.tree_.n_nodes)
        for node in range(tree.tree_.n_nodes - 1, 0, -1):
            n_rows[tree.tree_.parent[node]] += n_rows[node]
        assert 6 <= n_rows.min() <= 9
        assert 20 <= n_rows[~tree.tree_.is_leaf].min() <= 30


def test_full_trees_know_their_rows():
    X, y = stripes(200, k=3)
    _, first = np.unique(X, axis=0, return_index=True)
    X, y = X[first], y[first]
    model = small(bootstrap=False, max_features=1).fit(X, y)
    assert model.score(X, y) == 1.0
    np.testing.assert_allclose(model.predict_proba(X).max(axis=1), 1.0)


def test_limits():
    X, y = stripes(400)
    assert small(max_depth=2).fit(X, y).model_.groves[0].trees.height == 2
    (grove,) = small(n_estimators=1, min_samples_leaf=40, bootstrap=False).fit(X, y).model_.groves
    assert 2 < grove.trees.is_leaf.sum() <= 10


def test_constant_columns_are_looked_past():
    X, y = stripes(300)
    padded = np.concatenate((np.zeros((300, 30)), X), axis=1)
    model = small(max_features=1, bootstrap=False).fit(padded, y)
    assert model.score(padded, y) > 0.99


def test_nominal_columns_and_missing_values():
    X, y = nominal_frame(600)
    model = small(n_estimators=20).fit(X, y)
    assert model.score(X, y) > al.DecisionTreeClassifier(max_depth=1).fit(X, y).score(X, y) + 0.02
    assert model.feature_importances_.argmax() == 1
    unknown = X[:3].copy()
    unknown[:, 1] = "never seen"
    missing = X[:3].copy()
    missing[:, 1] = None
    np.testing.assert_array_equal(model.predict_proba(unknown), model.predict_proba(missing))


def test_weights_are_chances_to_be_drawn():
    X, y = stripes(400)
    weights = (y == 1).astype(float)
    weights[0] = 1e-9
    model = small().fit(X, y, sample_weight=weights)
    assert (model.predict(X) == 1).all()
    rare = np.concatenate((np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:15]))
    plain = small(max_depth=3, n_estimators=20).fit(X[rare], y[rare])
    balanced = small(max_depth=3, n_estimators=20, class_weight="balanced").fit(X[rare], y[rare])
    assert balanced.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.1


def test_out_of_bag_by_hand():
    X, y = stripes(60)
    with pytest.warns(UserWarning, match="rows are in every bag"):
        model = small(n_estimators=4, oob_score=True).fit(X, y)
    sums = np.zeros((60, 2))
    (grove,) = model.model_.groves
    for t, generator in enumerate(spawn(model.seed_, 4)):
        bag = draw_bags([generator], 60, None, 60)
        alone = small()
        alone.__dict__.update(model.__dict__)
        trees = grove.trees._replace(roots=grove.trees.roots[t : t + 1])
        alone.model_ = model.model_._replace(groves=(grove._replace(trees=trees),))
        is_out = ~np.isin(np.arange(60), bag.rows)
        sums[is_out] += alone.predict_proba(X)[is_out]
    is_known = sums.sum(axis=1) > 0
    shares = sums[is_known] / sums[is_known].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.oob_decision_function_[is_known], shares, atol=1e-5)
    assert np.isnan(model.oob_decision_function_[~is_known]).all()
    assert model.oob_score_ == pytest.approx((shares.argmax(axis=1) == y[is_known]).mean())


def test_out_of_bag():
    X, y = stripes(300)
    with pytest.warns(UserWarning, match="rows are in every bag"):
        model = small(n_estimators=1, oob_score=True).fit(X, y)
    is_known = ~np.isnan(model.oob_decision_function_[:, 0])
    assert 0.25 < is_known.mean() < 0.5
    with pytest.raises(ValueError, match="every row is in all of them"):
        small(n_estimators=1, oob_score=True, max_samples=3).fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="`oob_score` must be False where `bootstrap` is False"):
        small(bootstrap=False, oob_score=True).fit(X, y)
    judged = small(n_estimators=30, oob_score=lambda truth, found: 10 + accuracy_score(truth, found))
    plain = small(n_estimators=30, oob_score=True).fit(X, y)
    assert judged.fit(X, y).oob_score_ == 10 + plain.oob_score_


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("n_estimators", 0, "at least 1"),
        ("max_features", 0, "'sqrt'"),
        ("max_features", "cube", "'sqrt'"),
        ("max_depth", 0, "at least 1"),
        ("min_samples_split", 1, "at least 2"),
        ("min_samples_leaf", 0, "at least 1"),
        ("min_samples_leaf", 1.5, "a share of all rows"),
        ("max_samples", 0, "at least 1"),
        ("max_leaf_nodes", 1, "at least 2"),
        ("criterion", "gin", "'gini'"),
        ("max_bins", 5000, "4094"),
        ("n_jobs", 0, "-1 for all"),
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
    with pytest.raises(ValueError, match="infinity"):
        small().fit(np.where(X > 0, np.inf, X), y)
    model = small()
    with pytest.raises(NotFittedError):
        model.predict(X)
