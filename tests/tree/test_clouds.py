"""CLOUDS against the exact splitter."""

import numpy as np
import pytest

import arraylearn as al
from arraylearn.grow.trees import tree_on_host
from tests.tree.test_decision_tree import random_rows


def root_gains(X, y, **settings):
    return float(tree_on_host(al.DecisionTreeClassifier(max_depth=1, **settings).fit(X, y).tree_).gain[0])


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_estimation_finds_the_exact_gini_of_nearly_all_nodes(n_classes):
    n_nodes, n_found, n_missed_by_sampling = 60, 0, 0
    for seed in range(n_nodes):
        X, y = random_rows(1500, 4, n_classes, seed=seed)
        exact = root_gains(X, y, splitter="exact")
        n_found += root_gains(X, y, splitter="clouds", max_bins=40) == pytest.approx(exact, abs=1e-7)
        n_missed_by_sampling += root_gains(X, y, splitter="clouds_sampling", max_bins=40) < exact - 1e-7
    assert n_found >= 0.97 * n_nodes
    assert n_missed_by_sampling > 0.5 * n_nodes


def test_report_of_surviving_intervals():
    X, y = random_rows(5000, 6, 2)
    tree = al.DecisionTreeClassifier(splitter="clouds", max_depth=4).fit(X, y)
    report = tree.clouds_report_
    assert report.n_intervals > 6 * 60
    assert 0 < report.n_survived < 0.1 * report.n_intervals
    assert report.survival_ratio == report.n_survived / report.n_intervals
    assert report.n_searched_rows < 0.1 * report.n_rows


def test_whole_tree_is_that_of_the_exact_splitter():
    X, y = random_rows(6000, 5, 2)
    exact, clouds = (
        tree_on_host(al.DecisionTreeClassifier(splitter=splitter, max_depth=6).fit(X, y).tree_)
        for splitter in ("exact", "clouds")
    )
    assert np.array_equal(exact.feature, clouds.feature)
    assert np.array_equal(exact.counts, clouds.counts)


@pytest.mark.parametrize("splitter", ["clouds", "clouds_sampling"])
@pytest.mark.rungs("float64")  # thresholds of float64 data differ where there is none
def test_same_tree_on_every_backend(rung, splitter):
    X, y = random_rows(600, 3, 3)
    settings = {"splitter": splitter, "max_bins": 8, "max_depth": 5}
    expected = tree_on_host(al.DecisionTreeClassifier(**settings).fit(X, y).tree_)
    found = tree_on_host(al.DecisionTreeClassifier(**settings).fit(rung.from_host(X), y).tree_)
    for name in ("kind", "feature", "threshold", "counts"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


def test_missing_values_and_weights():
    X, y = random_rows(2000, 4, 2)
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    weight = np.random.default_rng(1).integers(1, 4, 2000)
    exact, clouds = (
        tree_on_host(
            al.DecisionTreeClassifier(splitter=splitter, max_depth=2, missing="known_fraction")
            .fit(X, y, sample_weight=weight)
            .tree_
        )
        for splitter in ("exact", "clouds")
    )
    assert np.array_equal(exact.feature, clouds.feature)
    assert clouds.gain == pytest.approx(exact.gain)


def test_what_clouds_refuses():
    X, y = random_rows(10, 2, 2)
    with pytest.raises(ValueError, match="must be 'gini'"):
        al.DecisionTreeClassifier(splitter="clouds", criterion="entropy").fit(X, y)
    with pytest.raises(ValueError, match="must not be 'direction'"):
        al.DecisionTreeClassifier(splitter="clouds", missing="direction").fit(X, y)
