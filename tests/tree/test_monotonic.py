"""Monotonic constraints of trees and forests."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier as ScikitTree

import arraylearn as al
from arraylearn.backend.dispatch import portable_only, use_compiled
from arraylearn.backend.threads import limited_threads

WAYS = [1, -1, 0, 0, 1]


def draw_rows(seed, n=900, missing=0.0):
    X, y = make_classification(n, n_features=5, n_informative=5, n_redundant=0, flip_y=0.2, random_state=seed)
    rng = np.random.default_rng(seed)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y, rng.integers(1, 4, n)


def gain_at(tree, node, counts, child):
    """Return the decrease of the Gini impurity at a node, times its rows."""

    def held(at):
        return counts[at].sum() - (counts[at] ** 2).sum() / counts[at].sum()

    return held(node) - held(child) - held(child + 1)


@pytest.mark.parametrize("mode", ["always", "never"])
@pytest.mark.parametrize("seed", range(6))
def test_the_tree_is_that_of_scikit_learn(mode, seed):
    X, y, _ = draw_rows(seed)
    theirs = ScikitTree(max_depth=5, monotonic_cst=WAYS, random_state=0).fit(X, y).tree_
    with use_compiled(mode):
        model = al.DecisionTreeClassifier(max_depth=5, monotonic_cst=WAYS, splitter="exact").fit(X, y)
    ours, n_same, nodes = model.tree_, 0, [(0, 0)]
    while nodes:
        their, our = nodes.pop()
        np.testing.assert_allclose(theirs.value[their, 0], ours.probability[our], atol=1e-12)
        counts = theirs.value[:, 0] * theirs.weighted_n_node_samples[:, None]
        if theirs.feature[their] < 0:
            assert ours.feature[our] < 0
            continue
        left, right = theirs.children_left[their], theirs.children_right[their]
        if ours.feature[our] == theirs.feature[their]:
            np.testing.assert_allclose(ours.threshold[our], theirs.threshold[their], rtol=1e-6)
            n_same += 1
            nodes += [(left, ours.first_child[our]), (right, ours.first_child[our] + 1)]
            continue
        # of equal gains scikit-learn draws one
        before, *after = (
            theirs.impurity[at] * theirs.weighted_n_node_samples[at] for at in (their, left, right)
        )
        np.testing.assert_allclose(
            gain_at(ours, our, ours.counts, ours.first_child[our]), before - sum(after)
        )
        assert counts.shape[1] == 2
    assert n_same > 5


@pytest.mark.parametrize("measure", ["gini", "entropy", "accuracy", "chi2"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_body_grows_the_tree_of_the_array_program(measure, missing, threads):
    for n, depth, weighs in ((700, None, False), (400, 4, True)):
        X, y, weights = draw_rows(n, n, missing)
        options = {"splitter": "hist", "max_bins": 40, "missing": "direction", "max_depth": depth}
        options |= {"criterion": measure, "monotonic_cst": WAYS}
        trees = []
        for choose in (lambda: use_compiled("always"), portable_only):
            with choose(), limited_threads(threads):
                fitted = al.DecisionTreeClassifier(**options).fit(X, y, weights if weighs else None)
            trees.append(fitted.tree_)
        for name, left, right in zip(trees[0]._fields, *trees, strict=True):
            assert (left is None) == (right is None), name
            if left is not None:
                np.testing.assert_array_equal(left, right, strict=True, err_msg=name)
        free = al.DecisionTreeClassifier(**{**options, "monotonic_cst": None}).fit(X, y).tree_
        assert free.n_nodes != trees[0].n_nodes


def moves(model, X, column):
    """Return how the probability of class 1 changes along a grid of values of a column."""
    grid = np.linspace(-4, 4, 25)
    rows = np.repeat(X, grid.shape[0], axis=0)
    rows[:, column] = np.tile(grid, X.shape[0])
    return np.diff(model.predict_proba(rows)[:, 1].reshape(X.shape[0], -1), axis=1)


LEARNERS = {
    "exact": (al.DecisionTreeClassifier, {"splitter": "exact"}),
    "few values": (al.DecisionTreeClassifier, {"splitter": "exact", "min_samples_leaf": 3}),
    "hist": (al.DecisionTreeClassifier, {"splitter": "hist", "max_leaf_nodes": 30}),
    "random": (al.DecisionTreeClassifier, {"splitter": "random", "random_state": 0}),
    "pruned": (al.DecisionTreeClassifier, {"ccp_alpha": 0.002}),
    "forest": (al.RandomForestClassifier, {"n_estimators": 7, "random_state": 0}),
    "extra trees": (al.ExtraTreesClassifier, {"n_estimators": 7, "random_state": 0}),
    "entropy": (al.RandomForestClassifier, {"n_estimators": 3, "random_state": 0, "criterion": "entropy"}),
}


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_probabilities_go_one_way(name, missing):
    X, y, weights = draw_rows(3, 300, missing)
    X = np.round(X) if name == "few values" else X
    learner, options = LEARNERS[name]
    rows = draw_rows(4, 40)[0]
    free, bound = (learner(**options, monotonic_cst=ways).fit(X, y, weights) for ways in (None, WAYS))
    assert moves(free, rows, 0).min() < 0 < moves(free, rows, 1).max()
    assert moves(bound, rows, 0).min() >= 0 >= moves(bound, rows, 1).max()
    assert moves(bound, rows, 4).min() >= 0
    assert moves(bound, rows, 2).min() < 0 < moves(bound, rows, 2).max()  # no trend
    np.testing.assert_allclose(bound.predict_proba(rows).sum(axis=1), 1.0)


@pytest.mark.parametrize("name", ["exact", "few values", "hist", "random", "forest", "extra trees"])
def test_every_backend_grows_the_same_trees(rung, name):
    X, y, _ = draw_rows(5, 200)
    X = (np.round(X) if name == "few values" else X).astype("float32")
    learner, options = LEARNERS[name]
    found = learner(**options, monotonic_cst=WAYS).fit(rung.from_host(X), y)
    with portable_only():
        expected = learner(**options, monotonic_cst=WAYS).fit(X, y)
    shares = rung.to_host(found.predict_proba(rung.from_host(X)))
    np.testing.assert_allclose(shares, expected.predict_proba(X), rtol=1e-5)  # delivered in float32


@example(seed=1902831, missing="known_fraction")  # missing values move a child out of the bounds of its node
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), missing=st.sampled_from(["fractional", "direction", "known_fraction"]))
def test_any_rows_go_one_way(seed, missing):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 60))
    X, y = np.floor(rng.normal(size=(n, 3)) * rng.choice([1, 4])), rng.integers(0, 2, n)
    X[rng.random(X.shape) < 0.15] = np.nan
    y[:2] = 0, 1
    ways = rng.integers(-1, 2, 3)
    tree = al.DecisionTreeClassifier(missing=missing, monotonic_cst=ways).fit(X, y)
    rows = np.floor(rng.normal(size=(20, 3)) * 3)
    for column, way in enumerate(ways.tolist()):
        assert (way * moves(tree, rows, column)).min() >= -1e-12


def test_cuts_beyond_the_bounds_are_not_made():
    # one column; the shares of class 1 at its values are 0, 1/2, 1/4, 1: the third value falls back
    X = np.repeat([0.0, 1.0, 2.0, 3.0], 4)[:, None]
    y = [0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1]
    tree = al.DecisionTreeClassifier(monotonic_cst=[1]).fit(X, y)
    np.testing.assert_allclose(tree.predict_proba([[0], [1], [2], [3]])[:, 1], [0, 3 / 8, 3 / 8, 1])
    np.testing.assert_allclose(
        al.DecisionTreeClassifier().fit(X, y).predict_proba([[1], [2]])[:, 1], [0.5, 0.25]
    )


def test_what_constraints_refuse():
    X, y, _ = draw_rows(0, 60)
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(np.where(X[:, 1] > 0, "x", "y"))})
    named = al.DecisionTreeClassifier(monotonic_cst={"a": 1}).fit(frame, y)
    assert named.tree_.n_nodes > 1
    for learner in (al.DecisionTreeClassifier, al.RandomForestClassifier, al.ExtraTreesClassifier):
        for ways, labels, rule in (
            ([1, 0], y, "a number for each of 5 columns; got 2"),
            ([1, 0, 0, 0, 0.8], y, "-1, 0 and 1; got 0.8"),
            (WAYS, np.arange(60) % 3, "more than two classes; got 3"),
        ):
            with pytest.raises(ValueError, match=f"`monotonic_cst`.*{rule}"):
                learner(monotonic_cst=ways).fit(X, labels)
        with pytest.raises(ValueError, match="0 for nominal columns"):
            learner(monotonic_cst={"b": 1}).fit(frame, y)
    for other in ({"splitter": "clouds"}, {"missing": "surrogate"}):
        with pytest.raises(ValueError, match="`monotonic_cst`"):
            al.DecisionTreeClassifier(monotonic_cst=WAYS, **other).fit(X, y)
