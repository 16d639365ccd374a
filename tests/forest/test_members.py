"""Forests as scikit-learn's: criteria, limits, and the trees one by one."""

from __future__ import annotations

import numpy as np
import pytest

import arraylearn as al
from arraylearn.forest.bags import draw_bags
from arraylearn.measures import MEASURES
from tests.boosting.data import holes, nominal_frame, stripes
from tests.forest.test_forest import assert_same_bits, small

_ALONE = {"n_estimators": 1, "bootstrap": False, "max_features": None, "random_state": 0}


def rows(n=300):
    rng = np.random.default_rng(4)
    X = rng.integers(0, 40, (n, 5)).astype(float)
    return X, (X[:, 0] + X[:, 1] > 40).astype(int) + (rng.random(n) < 0.1)


@pytest.mark.parametrize("criterion", [*MEASURES, "log_loss"])
def test_a_node_has_the_best_cut_by_the_criterion(criterion):
    X, y = rows()
    X = X + np.random.default_rng(1).random(X.shape)
    forest = al.RandomForestClassifier(**_ALONE, criterion=criterion, max_depth=3).fit(X, y)
    tree = al.DecisionTreeClassifier(criterion=criterion, max_depth=3).fit(X, y).tree_
    (member,) = forest.estimators_
    found = member.tree_
    measure = MEASURES.get(criterion, MEASURES["entropy"])
    assert measure(np, found.counts[1:3]) == pytest.approx(tree.gain[0])
    assert found.counts[found.is_leaf].sum() == 300
    if criterion in ("gini", "entropy", "gain_ratio", "chi2"):  # no two cuts are equally good
        np.testing.assert_allclose(forest.predict_proba(X), tree.probability[member.apply(X)], atol=1e-5)


@pytest.mark.parametrize("kind", [al.RandomForestClassifier, al.ExtraTreesClassifier])
def test_criteria_on_every_backend(rung, kind):
    X, y = stripes(120, k=3)
    X = holes(X).astype(np.float32)
    for criterion in ("entropy", "chi2"):
        settings = {"n_estimators": 2, "random_state": 0, "max_depth": 4, "criterion": criterion}
        reference = kind(**settings).fit(X, y)
        assert_same_bits(kind(**settings).fit(rung.from_host(X), rung.from_host(y)), reference)
    other = kind(n_estimators=2, random_state=0, max_depth=4).fit(X, y)
    assert not np.array_equal(other.predict_proba(X), reference.predict_proba(X))


@pytest.mark.parametrize(
    "settings",
    [
        {"max_leaf_nodes": 6},
        {"min_impurity_decrease": 0.01},
        {"min_impurity_decrease": 0.004, "max_leaf_nodes": 6},
        {"ccp_alpha": 0.01},
        {"min_weight_fraction_leaf": 0.1},
        {"min_samples_leaf": 0.05},
        {"min_samples_leaf": 1.0},
        {"min_samples_split": 0.3},
        {"min_samples_split": 1.0, "criterion": "entropy"},
    ],
    ids=str,
)
def test_limits_are_those_of_trees(settings):
    X, y = rows()
    X = X + np.random.default_rng(1).random(X.shape)
    forest = al.RandomForestClassifier(**_ALONE, **settings).fit(X, y)
    tree = al.DecisionTreeClassifier(**settings).fit(X, y)
    assert forest.estimators_[0].get_n_leaves() == tree.get_n_leaves() < 60
    np.testing.assert_allclose(forest.predict_proba(X), tree.predict_proba(X), atol=1e-5)
    many = small(max_leaf_nodes=4).fit(X, y)
    assert [member.get_n_leaves() for member in many.estimators_] == [4] * 5


@pytest.mark.parametrize("kind", [al.RandomForestClassifier, al.ExtraTreesClassifier])
def test_members_are_the_forest(kind):
    X, y = nominal_frame(300)
    X[::7, 0] = X[::5, 1] = None
    forest = kind(n_estimators=4, random_state=0, max_depth=6).fit(X, y)
    members = forest.estimators_
    assert members is forest.estimators_
    assert len(members) == len(forest) == forest.n_trees_
    assert [*forest] == members
    assert forest[1] is members[1]
    assert members[1].max_depth == 6
    shares = np.mean([member.predict_proba(X) for member in members], axis=0)
    np.testing.assert_allclose(shares, forest.predict_proba(X), atol=1e-5)
    leaves = forest.apply(X)
    assert leaves.shape == (300, 4)
    np.testing.assert_array_equal(leaves, np.stack([member.apply(X) for member in members], axis=1))
    path, ends = forest.decision_path(X)
    assert path.shape == (300, ends[-1])
    for i, member in enumerate(members):
        assert (path[:, ends[i] : ends[i + 1]] != member.decision_path(X)).nnz == 0
    importances = np.mean([member.feature_importances_ for member in members], axis=0)
    np.testing.assert_allclose(forest.feature_importances_, importances, atol=1e-6)
    assert al.tree.tree_text(members[0])


def test_samples_of_another_size():
    X, y = stripes(200)
    for share, n_draws in ((0.3, 60), (25, 25), (1.0, 200), (1, 1), (1.5, 300)):
        model = small(max_samples=share).fit(X, y)
        weights = [member.tree_.counts[0].sum() for member in model.estimators_]
        assert weights == [n_draws] * 5
    bag = draw_bags([np.random.default_rng(0)], 200, None, 60)
    assert bag.weights.sum() == 60
    with pytest.raises(ValueError, match="`max_samples` must be None where `bootstrap` is False"):
        small(bootstrap=False, max_samples=5).fit(X, y)


def test_threads_of_one_forest():
    X, y = stripes(300, k=3)
    expected = small().fit(X, y)
    before = al.get_num_threads()
    for n_jobs in (1, 3, -1):
        model = al.RandomForestClassifier(5, random_state=0, n_jobs=n_jobs).fit(X, y)
        assert_same_bits(model, expected)
        np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    assert al.get_num_threads() == before


def test_columns_of_a_node_follow_from_the_seed_alone():
    """The root of tree i looks at the same column whatever the labels and the rows are."""
    rng = np.random.default_rng(0)
    X = rng.random((200, 6))

    def roots(X, y, **more):
        model = al.RandomForestClassifier(8, max_features=1, max_depth=1, random_state=3, **more).fit(X, y)
        return [int(member.tree_.feature[0]) for member in model.estimators_]

    expected = roots(X, X[:, 0] > 0.5)
    assert len(set(expected)) > 2
    assert roots(X[:90] ** 2, X[:90, 5] > 0.3) == expected
    assert roots(X, X[:, 2] > 0.5, bootstrap=False, n_jobs=1) == expected
