"""The worked examples on every rung: gains, chosen attributes, trees."""

import numpy as np
import pytest

import arraylearn as al
from arraylearn import datasets
from arraylearn.backend.namespace import Place
from arraylearn.grow.branches.nominal import scan_nominal
from arraylearn.grow.loop import presort
from arraylearn.grow.rows import Entries, level_of, prepare_rows
from arraylearn.grow.sorted_lists.thresholds import scan_counts
from arraylearn.grow.split import SplitRule
from arraylearn.grow.trees import tree_on_host
from arraylearn.table import encode_labels, learn_schema, read_table


@pytest.fixture
def place(rung, xp):
    return Place(xp, rung.device)


def root_candidates(place, data, measure, *, rows=None):
    """The best split of each column at the root (of some rows): gains by name."""
    X, y = (data.X, data.y) if rows is None else (data.X[rows], data.y[rows])
    schema = learn_schema(X, data.categorical_features)
    labels = encode_labels(y)
    prepared = prepare_rows(place, read_table(X, schema, place), labels.codes, len(labels.classes), None)
    rule = SplitRule(measure=measure)
    counts = np.bincount(labels.codes)[None, :]
    lists = presort(place, prepared)
    level = level_of(
        place, np.zeros(1, int), counts, np.array([len(y)]), 0, lists, Entries(prepared.labels, None)
    )
    gains = {}
    if schema.numeric_idx:
        found = scan_counts(place, prepared, level, rule)
        gains |= {data.feature_names[j]: float(found.gain[i, 0]) for i, j in enumerate(schema.numeric_idx)}
        gains["thresholds"] = {
            data.feature_names[j]: float(found.threshold[i, 0]) for i, j in enumerate(schema.numeric_idx)
        }
    if schema.nominal_idx:
        found = scan_nominal(place, prepared, level, rule)
        gains |= {data.feature_names[j]: float(found.gain[i, 0]) for i, j in enumerate(schema.nominal_idx)}
    return gains


def fit(rung, data, estimator):
    """Fit on the rung: plain numbers as its arrays, tables with text through the estimator's backend."""
    estimator.set_params(categorical_features=list(data.categorical_features))
    X = data.X
    if not data.categorical_features:
        X = rung.from_host(X.astype(float), rung.float_dtypes[-1])
    elif rung.name == "torch":
        estimator.set_params(backend="torch")
    return estimator.fit(X, data.y), X


def splits(data, estimator):
    """The inner nodes as nested (attribute, children)."""
    tree = tree_on_host(estimator.tree_)

    def describe(i):
        if tree.first_child[i] < 0:
            return str(estimator.classes_[tree.probability[i].argmax()])
        children = [describe(tree.first_child[i] + b) for b in range(tree.n_branches[i])]
        return (data.feature_names[tree.feature[i]], *children)

    return describe(0)


def test_drug(rung, place):
    data = datasets.load_drug()
    sex, age, pressure = data.feature_names
    gains = root_candidates(place, data, "entropy")
    assert gains[sex] == pytest.approx(0, abs=1e-6)
    assert gains[pressure] == pytest.approx(0.5, abs=1e-6)
    assert gains[age] == pytest.approx(0.1909, abs=5e-5)
    assert gains["thresholds"][age] == 57.5
    normal = np.flatnonzero(data.X[:, 2] == "normal")
    inside = root_candidates(place, data, "entropy", rows=normal)
    assert inside[age] == pytest.approx(1.0, abs=1e-6)
    assert inside["thresholds"][age] == 41
    assert inside[sex] == pytest.approx(0.0817, abs=5e-5)
    rates = root_candidates(place, data, "accuracy")
    assert rates[sex] == pytest.approx(0.5)
    assert rates[age] == pytest.approx(8 / 12)
    assert rates[pressure] == pytest.approx(0.75)
    tree, X = fit(rung, data, al.id3())
    assert splits(data, tree) == (pressure, "A", "B", (age, "A", "B"))
    assert tree.score(X, data.y) == 1.0


def test_tennis(rung, place):
    data = datasets.load_tennis()
    gains = root_candidates(place, data, "entropy")
    expected = {"outlook": 0.2467, "temperature": 0.0292, "humidity": 0.1518, "wind": 0.0481}
    assert gains == pytest.approx(expected, abs=5e-5)
    sunny = root_candidates(place, data, "entropy", rows=np.flatnonzero(data.X[:, 0] == "sunny"))
    assert sunny["humidity"] == pytest.approx(0.971, abs=5e-4)
    assert sunny["temperature"] == pytest.approx(0.571, abs=5e-4)
    assert sunny["wind"] == pytest.approx(0.020, abs=5e-4)
    tree, X = fit(rung, data, al.id3())
    # branches in the order of the domains: overcast, rain, sunny; high, normal; strong, weak
    assert splits(data, tree) == ("outlook", "yes", ("wind", "no", "yes"), ("humidity", "no", "yes"))
    assert tree.score(X, data.y) == 1.0


def test_electronics(place):
    data = datasets.load_electronics()
    names = data.feature_names
    gains = root_candidates(place, data, "entropy")
    assert [gains[name] for name in names] == pytest.approx([0.2467, 0.0292, 0.1518, 0.0481], abs=5e-5)
    ratios = root_candidates(place, data, "gain_ratio")
    assert [ratios[name] for name in names] == pytest.approx([0.1564, 0.0188, 0.1518, 0.0488], abs=5e-5)


def test_hire(place):
    data = datasets.load_hire()
    gains = root_candidates(place, data, "entropy")
    expected = [0.1488, 0.1891, 0.2578, 0.0]
    assert [gains[name] for name in data.feature_names] == pytest.approx(expected, abs=5e-5)


def test_hire_numeric(rung):
    data = datasets.load_hire_numeric()
    tree, X = fit(rung, data, al.id3())
    assert tree.score(X, data.y) == 1.0


def test_two_flags(rung, place):
    data = datasets.load_two_flags()
    gains = root_candidates(place, data, "entropy")
    assert gains == pytest.approx({"A": 0.2813, "B": 0.2564}, abs=5e-5)
    gains = root_candidates(place, data, "gini")
    assert gains == pytest.approx({"A": 0.1371, "B": 0.1633}, abs=5e-5)
    for measure, first in (("entropy", "A"), ("gini", "B")):
        tree, _ = fit(rung, data, al.DecisionTreeClassifier(criterion=measure))
        assert splits(data, tree)[0] == first


def test_cart_toy(rung, place):
    data = datasets.load_cart_toy()
    gains = root_candidates(place, data, "gini")
    assert gains["salary"] == pytest.approx(0.4444, abs=5e-5)
    assert gains["age"] == pytest.approx(0.4444 - 0.2667, abs=1e-4)
    assert gains["thresholds"] == {"age": 26.5, "salary": 50.0}
    tree, _ = fit(rung, data, al.cart(pruning=None))
    assert splits(data, tree) == ("salary", "B", "G")
    assert float(tree_on_host(tree.tree_).threshold[0]) == 50.0
    assert float(tree_on_host(tree.tree_).impurity[0]) == pytest.approx(0.4444, abs=5e-5)
