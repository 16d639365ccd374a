"""What grows at once is the tree of the array program: missing values, limits on the leaves."""

from __future__ import annotations

import numpy as np
import pytest

import arraylearn as al
from arraylearn.backend.dispatch import portable_only, use_compiled
from arraylearn.grow import finder
from arraylearn.grow.histograms import bin_finder

pytest.importorskip("numba")

MEASURES = ("gini", "accuracy", "error", "chi2", "entropy", "gain_ratio", "symmetric_gain_ratio")


def draw_rows(seed, n, n_classes, n_values=None, missing=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (np.floor(2 * X[:, 0] - X[:, 1] ** 2) + rng.integers(0, 2, n)).astype(int) % n_classes
    X = X if n_values is None else np.floor(X * n_values / 5)
    X[:, :3][rng.random((n, 3)) < missing] = np.nan  # the last column has all its values
    # missing values that tell something
    X[:, 0] = np.where((y == 0) & (rng.random(n) < missing), np.nan, X[:, 0])
    return X.astype("float32"), y, rng.integers(1, 5, n)


def assert_same_trees(monkeypatch, settings, X, y, weights=None):
    """Compare with the array program, and see that a body grew the tree."""
    served, choose = [], finder.choose_body

    def spy(*given, **settings):
        served.append(choose(*given, **settings))
        return served[-1]

    for module in (finder, bin_finder):
        monkeypatch.setattr(module, "choose_body", spy)
    with use_compiled("always"):
        found = al.DecisionTreeClassifier(**settings).fit(X, y, sample_weight=weights).tree_
    assert any(callable(body) for body in served), served
    with portable_only():
        expected = al.DecisionTreeClassifier(**settings).fit(X, y, sample_weight=weights).tree_
    for name, left, right in zip(found._fields, found, expected, strict=True):
        assert (left is None) == (right is None), name
        if left is not None:
            np.testing.assert_array_equal(left, right, strict=True, err_msg=name)
    return found


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("n_values", [None, 20])
def test_the_side_of_missing_values_in_bins(monkeypatch, measure, n_classes, n_values):
    for n, missing, depth, is_weighted in ((250, 0.2, None, False), (600, 0.02, 4, True), (60, 0.5, 9, True)):
        X, y, weights = draw_rows(n_classes + n, n, n_classes, n_values, missing)
        for splitter in ("hist", "exact"):
            settings = {"criterion": measure, "splitter": splitter, "max_bins": 30, "missing": "direction"}
            settings |= {"max_depth": depth, "min_weight_fraction_leaf": 0 if depth is None else 0.01}
            assert_same_trees(monkeypatch, settings, X, y, weights if is_weighted else None)


@pytest.mark.parametrize("measure", ["gini", "entropy", "accuracy"])
@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("splitter", ["hist", "exact"])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_best_first_to_a_number_of_leaves(monkeypatch, measure, n_classes, splitter, missing):
    for n, n_values in ((500, None), (500, 12), (40, 3)):  # many equal gains in the last
        X, y, weights = draw_rows(n, n, n_classes, n_values, missing)
        for most in (2, 3, 7, 30, 10_000):
            settings = {"criterion": measure, "splitter": splitter, "max_bins": 30, "max_leaf_nodes": most}
            settings["missing"] = "direction"
            tree = assert_same_trees(monkeypatch, settings, X, y, weights if most == 7 else None)
            assert np.count_nonzero(tree.feature < 0) <= most


def test_equal_priorities_are_split_by_level():
    # one column, four blocks of the same classes: every split of depth 1 has the priority of the others
    X = np.repeat(np.arange(8.0), 4)[:, None].astype("float32")
    y = np.tile(np.repeat([0, 1], 4), 4)
    trees = []
    for mode in ("always", "never"):
        with use_compiled(mode):
            model = al.DecisionTreeClassifier(splitter="hist", max_leaf_nodes=4).fit(X, y)
        trees.append(model.tree_)
    assert np.count_nonzero(trees[0].feature < 0) == 4
    np.testing.assert_array_equal(trees[0].threshold, trees[1].threshold)
