"""Pruning of the worked examples on every rung, and beside J48 on the reference data."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedKFold

import arraylearn as al
from arraylearn import datasets
from arraylearn.backend.namespace import to_host
from arraylearn.grow.cut import cut_at
from arraylearn.grow.trees import tree_on_host
from arraylearn.tree import pruning
from tests.reference_data import ACCURACIES, ON_IRIS, accuracy_on_iris, load_reference
from tests.tree.small_trees import size_and_errors

# ---- iris


def grow_iris(rung, **settings):
    """Gain ratio, two rows in each branch: the tree of the literature, 11 nodes with 2 errors."""
    X, y = load_iris(return_X_y=True)
    X = rung.from_host(X, rung.float_dtypes[-1])
    model = al.DecisionTreeClassifier(criterion="gain_ratio", min_samples_leaf=2, collapse=True, **settings)
    return model.fit(X, y)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (11, 2)),
        ({"pruning": pruning.Confidence(0.8, limit="normal")}, (7, 4)),
        ({"pruning": pruning.Pessimistic(2)}, (5, 6)),
    ],
)
def test_iris(rung, settings, expected):
    model = grow_iris(rung, **settings)
    assert size_and_errors(tree_on_host(model.tree_)) == expected
    if settings:
        report = model.pruning_report_
        assert (report.before.n_nodes, report.before.errors) == (11, 2)
        assert (report.after.n_nodes, report.after.errors) == expected


def test_smallest_iris_tree(rung):
    """Petal length or width sets one class apart, petal width at 1.75 the other two."""
    tree = tree_on_host(grow_iris(rung, pruning=pruning.Pessimistic(2)).tree_)
    inner = np.flatnonzero(~tree.is_leaf)
    splits = [(int(tree.feature[i]), round(float(tree.threshold[i]), 3)) for i in inner]
    assert splits in ([(2, 2.45), (3, 1.75)], [(3, 0.8), (3, 1.75)])


# ---- soccer


def test_soccer(rung):
    data = datasets.load_soccer()
    rows = {"categorical_features": list(data.categorical_features)}
    if rung.name == "torch":
        rows["backend"] = "torch"
    held_out = (data.validation.X, data.validation.y)
    grown = al.id3(**rows).fit(data.X, data.y)
    assert grown.score(*held_out) == pytest.approx(0.4)
    counts = pruning.count_held_out(grown, *held_out)
    pruned = tree_on_host(pruning.prune(grown.tree_, pruning.ReducedError(), held_out=counts))
    inner = [data.feature_names[j] for j in pruned.feature[~pruned.is_leaf]]
    assert "wind" not in inner  # rain says yes now
    grown.model_ = pruned
    assert grown.score(*held_out) >= 0.6
    assert grown.predict([["rain", "cool", "normal", "strong"]]).tolist() == ["yes"]


def test_cutting_the_wind_node_alone(rung):
    """What the example does by hand: only the wind node becomes a leaf."""
    data = datasets.load_soccer()
    model = al.id3(categorical_features=list(data.categorical_features)).fit(data.X, data.y)
    tree = tree_on_host(model.tree_)
    model.model_ = cut_at(tree, tree.feature == data.feature_names.index("wind"))
    assert model.score(data.validation.X, data.validation.y) == pytest.approx(0.6)


# ---- noise and depth


def test_depth_limit_restores_the_clean_tree(rung):
    """Grown out, the tree learns the two flipped labels; one level deep it does not notice them."""
    clean, noisy = datasets.load_pruning_depth(), datasets.load_pruning_depth(noisy=True)
    X = rung.from_host(clean.X.astype(float), rung.float_dtypes[-1])
    flipped = np.flatnonzero(clean.y != noisy.y)

    def predictions(y, **settings):
        return to_host(al.DecisionTreeClassifier(criterion="entropy", **settings).fit(X, y).predict(X))

    assert (predictions(clean.y) == clean.y).all()
    assert (predictions(noisy.y) == noisy.y).all()
    limited = predictions(noisy.y, max_depth=1)
    assert (limited == predictions(clean.y, max_depth=1)).all()
    assert (limited[flipped] == clean.y[flipped]).all()


# ---- J48

# pruned leaves and nodes of J48 on all rows
SIZES = {
    "vote": (6, 11),
    "breast.cancer": (4, 6),
    "credit.a": (30, 42),
    "hepatitis": (11, 21),
    "labor": (3, 5),
    "glass": (30, 59),
    "balance.scale": (52, 103),
    "vowel": (106, 198),
    "segment": (39, 77),
    "splice": (184, 229),
    "kr.vs.kp": (31, 59),
    "mushroom": (25, 30),
}


@pytest.mark.parametrize("name", SIZES)
def test_size_is_that_of_j48(name):
    data = load_reference(name)
    model = al.c45().fit(data.X, data.y)
    assert (model.get_n_leaves(), model.tree_.n_nodes) == SIZES[name]


def test_size_on_iris_is_that_of_j48():
    iris = datasets.load_iris()
    model = al.c45().fit(iris.X, iris.y)
    assert (model.get_n_leaves(), model.tree_.n_nodes) == (5, 9)
    assert int((model.predict(iris.X) != iris.y).sum()) == 3


def test_accuracy_on_iris_is_that_of_j48():
    assert abs(accuracy_on_iris(lambda seed: al.c45()) - ON_IRIS[0]) < 1.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
def test_accuracy_is_that_of_j48():
    differences = []
    for name in SIZES:
        data = load_reference(name)
        folds = StratifiedKFold(10, shuffle=True, random_state=0).split(data.X, data.y)
        right = sum(
            (al.c45().fit(data.X.iloc[a], data.y[a]).predict(data.X.iloc[b]) == data.y[b]).sum()
            for a, b in folds
        )
        differences.append(100 * right / len(data.y) - ACCURACIES[name][0])
    assert abs(np.mean(differences)) < 1
