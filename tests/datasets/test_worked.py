"""The typed-in tables give the published numbers, computed here in plain Python."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from arraylearn import datasets
from arraylearn.backend.namespace import HOST
from arraylearn.table import encode_labels, learn_schema, read_table

LOADERS = [name for name in datasets.__all__ if name.startswith("load_")]
SHAPES = {
    "drug": (12, 3),
    "tennis": (14, 4),
    "soccer": (14, 4),
    "electronics": (14, 4),
    "hire": (14, 4),
    "hire_numeric": (14, 4),
    "two_flags": (10, 2),
    "mammals": (15, 4),
    "cart_toy": (6, 2),
    "loans": (10, 3),
    "people": (8, 3),
    "svm_toy": (4, 2),
    "pruning_depth": (15, 5),
    "iris": (150, 4),
    "wine": (178, 13),
    "digits": (1797, 64),
    "breast_cancer": (569, 30),
}


def entropy(labels):
    n = len(labels)
    return -sum(count / n * math.log2(count / n) for count in Counter(labels).values())


def gini(labels):
    n = len(labels)
    return 1 - sum((count / n) ** 2 for count in Counter(labels).values())


def branches(values, labels):
    return [[c for v, c in zip(values, labels, strict=True) if v == value] for value in sorted(set(values))]


def weighted(impurity, parts):
    n = sum(map(len, parts))
    return sum(len(part) / n * impurity(part) for part in parts)


def gains(dataset, impurity=entropy):
    y = dataset.y.tolist()
    return [impurity(y) - weighted(impurity, branches(column.tolist(), y)) for column in dataset.X.T]


def at_threshold(dataset, name, threshold):
    values = dataset.X[:, dataset.feature_names.index(name)]
    return [dataset.y[values <= threshold].tolist(), dataset.y[values > threshold].tolist()]


# ---- all of them


@pytest.mark.parametrize("loader", LOADERS)
def test_every_table_is_whole(loader):
    dataset = getattr(datasets, loader)()
    assert dataset.name == loader.removeprefix("load_")
    assert dataset.X.shape == SHAPES[dataset.name]
    assert dataset.y.shape == (dataset.X.shape[0],)
    assert len(dataset.feature_names) == dataset.X.shape[1]
    assert dataset.description.endswith(".")
    schema = learn_schema(dataset.X)
    assert schema.nominal_idx == dataset.categorical_features
    table = read_table(dataset.X, schema, HOST)
    assert not np.isnan(table.numeric).any()
    assert not np.any(table.codes < 0)
    assert len(encode_labels(dataset.y).classes) >= 2


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("loader", ["load_drug", "load_hire", "load_svm_toy", "load_iris"])
def test_frames(loader, library):
    pytest.importorskip(library)
    dataset = getattr(datasets, loader)()
    frame = dataset.frame(library)
    assert type(frame).__module__.startswith(library)
    schema = learn_schema(frame)
    assert schema.names == (*dataset.feature_names, dataset.target)
    is_text = dataset.y.dtype.kind == "U"
    assert schema.nominal_idx == (*dataset.categorical_features, *([dataset.X.shape[1]] if is_text else []))
    numeric = read_table(frame, schema, HOST).numeric
    expected = read_table(dataset.X, learn_schema(dataset.X), HOST).numeric
    np.testing.assert_array_equal(numeric[:, : expected.shape[1]], expected)


def test_frame_chooses_an_installed_library():
    assert hasattr(datasets.load_tennis().frame(), "columns")


def test_frame_without_a_library(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="install pandas, polars or pyarrow"):
        datasets.load_tennis().frame()


def test_tables_are_fresh():
    datasets.load_tennis().X[0, 0] = "snow"
    assert datasets.load_tennis().X[0, 0] == "sunny"


# ---- each against its numbers


def test_drug():
    drug = datasets.load_drug()
    ages = {c: [row[1] for row, label in zip(drug.X, drug.y, strict=True) if label == c] for c in "AB"}
    means = {c: sum(v) / len(v) for c, v in ages.items()}
    variances = {c: sum((a - means[c]) ** 2 for a in v) / (len(v) - 1) for c, v in ages.items()}
    assert means == pytest.approx({"A": 36.33, "B": 47.83}, abs=0.005)
    assert variances == pytest.approx({"A": 161.87, "B": 310.97}, abs=0.005)
    assert gains(drug)[0] == pytest.approx(0, abs=1e-12)
    assert gains(drug)[2] == pytest.approx(0.5)
    for threshold, gain in ((39.5, 0.0817), (57.5, 0.1909)):
        assert 1 - weighted(entropy, at_threshold(drug, "age", threshold)) == pytest.approx(gain, abs=5e-5)
    right = [
        sum(max(Counter(part).values()) for part in parts) / 12
        for parts in (
            branches(drug.X[:, 0].tolist(), drug.y.tolist()),
            at_threshold(drug, "age", 39.5),
            branches(drug.X[:, 2].tolist(), drug.y.tolist()),
        )
    ]
    assert right == pytest.approx([0.5, 8 / 12, 0.75])


def test_tennis():
    tennis = datasets.load_tennis()
    assert entropy(tennis.y.tolist()) == pytest.approx(0.940, abs=5e-4)
    assert gains(tennis) == pytest.approx([0.2467, 0.0292, 0.1518, 0.0481], abs=6e-5)
    sunny = tennis.X[:, 0] == "sunny"
    y = tennis.y[sunny].tolist()
    inside = [entropy(y) - weighted(entropy, branches(tennis.X[sunny, j].tolist(), y)) for j in (2, 1, 3)]
    assert inside == pytest.approx([0.971, 0.571, 0.020], abs=5e-4)


def test_soccer():
    soccer = datasets.load_soccer()

    def grown(outlook, _, humidity, wind):
        leaf = {"overcast": True, "sunny": humidity == "normal", "rain": wind == "weak"}[outlook]
        return "yes" if leaf else "no"

    def pruned(outlook, _, humidity, wind):
        return "yes" if outlook == "rain" else grown(outlook, _, humidity, wind)

    def accuracy(tree, dataset):
        return np.mean([tree(*row) == label for row, label in zip(dataset.X, dataset.y, strict=True)])

    assert accuracy(grown, soccer) == 1.0
    assert accuracy(grown, soccer.validation) == pytest.approx(0.4)
    assert accuracy(pruned, soccer.validation) == pytest.approx(0.6)


def test_electronics():
    electronics = datasets.load_electronics()
    found = gains(electronics)
    assert found == pytest.approx([0.2467, 0.0292, 0.1518, 0.0481], abs=6e-5)
    ratios = [gain / entropy(column.tolist()) for gain, column in zip(found, electronics.X.T, strict=True)]
    assert ratios == pytest.approx([0.1564, 0.0188, 0.1518, 0.0488], abs=6e-5)


def test_hire():
    hire = datasets.load_hire()
    assert gains(hire) == pytest.approx([0.1488, 0.1891, 0.2578, 0.0], abs=6e-5)
    joint = {}
    for label in ("yes", "no"):
        rows = hire.X[hire.y == label]
        joint[label] = len(rows) / 14
        for j, value in enumerate(("Masters", "UX Design", "Java", "TRUE")):
            joint[label] *= np.mean(rows[:, j] == value)
    assert joint == pytest.approx({"yes": 0.02679, "no": 0.00198}, abs=6e-6)


def test_hire_numeric():
    numeric, nominal = datasets.load_hire_numeric(), datasets.load_hire()
    assert (numeric.X[:, 3] == nominal.X[:, 3]).all()
    assert (numeric.y == nominal.y).all()
    assert numeric.X[:, :3].astype(float).sum(axis=0).tolist() == pytest.approx([61, 68, 48.15])


def test_two_flags():
    flags = datasets.load_two_flags()
    assert gains(flags) == pytest.approx([0.2813, 0.2564], abs=6e-5)
    assert gains(flags, gini) == pytest.approx([0.1371, 0.1633], abs=6e-5)


@pytest.mark.parametrize(
    ("animal", "joint_m", "joint_n", "posterior"),
    [
        (("yes", "no", "no", "yes"), 0.1058, 0.00799, ("M", 0.9298)),
        (("no", "yes", "no", "yes"), 0.00294, 0.19971, ("N", 0.9855)),
    ],
)
def test_mammals(animal, joint_m, joint_n, posterior):
    mammals = datasets.load_mammals()
    joint = {}
    for label in ("M", "N"):
        rows = mammals.X[mammals.y == label]
        joint[label] = (len(rows) + 1) / (15 + 2)
        for j, value in enumerate(animal):
            joint[label] *= (np.sum(rows[:, j] == value) + 1) / (len(rows) + 2)
    assert joint == pytest.approx({"M": joint_m, "N": joint_n}, abs=6e-5)
    assert joint[posterior[0]] / sum(joint.values()) == pytest.approx(posterior[1], abs=6e-5)


def test_cart_toy():
    toy = datasets.load_cart_toy()
    assert gini(toy.y.tolist()) == pytest.approx(0.4444, abs=5e-5)
    published = {
        "age": {26.5: 0.2667, 35: 0.4167, 42.5: 0.4444, 50: 0.4167},
        "salary": {27.5: 0.2667, 50: 0.0, 62.5: 0.2222, 70: 0.3333, 87.5: 0.4},
    }
    for name, thresholds in published.items():
        found = {t: weighted(gini, at_threshold(toy, name, t)) for t in thresholds}
        assert found == pytest.approx(thresholds, abs=5e-5)


def test_loans():
    loans = datasets.load_loans()
    single = loans.X[:, 1] == "Single"
    assert single.mean() == pytest.approx(0.4)
    assert (loans.y[single] == "No").mean() == pytest.approx(0.5)


def test_people():
    people = datasets.load_people()
    share = {
        value: np.mean(people.y[people.X[:, j] == value] == "C1")
        for j in range(3)
        for value in set(people.X[:, j])
    }
    expected = {
        "Short": 1 / 3,
        "Tall": 2 / 5,
        "Blonde": 1 / 2,
        "Red": 1,
        "Dark": 0,
        "Blue": 3 / 5,
        "Brown": 0,
    }
    assert share == pytest.approx(expected)


def test_svm_toy():
    toy = datasets.load_svm_toy()
    # the conditions of optimality of the hard margin: in the proportions 0 : 1 : 3/4 : 1/4, and b = 3
    alpha = np.array([0, 4, 3, 1])
    w = (alpha * toy.y) @ toy.X
    assert alpha @ toy.y == 0
    np.testing.assert_allclose(w, [-2, -2])
    np.testing.assert_allclose((toy.X @ w + 3) * toy.y, [3, 1, 1, 1])


def test_pruning_depth():
    clean, noisy = datasets.load_pruning_depth(), datasets.load_pruning_depth(noisy=True)
    assert Counter(clean.y.tolist()) == {"A": 7, "B": 8}
    assert Counter(noisy.y.tolist()) == {"A": 5, "B": 10}
    assert np.flatnonzero(clean.y != noisy.y).tolist() == [3, 8]
    np.testing.assert_array_equal(clean.X[:, 2], clean.X[:, 0])
    np.testing.assert_array_equal(clean.X[:, 4], 2 * clean.X[:, 3])
