"""The four policies for missing values against cases worked out by hand."""

import numpy as np
import pytest

import arraylearn as al
from arraylearn import datasets
from arraylearn.grow.trees import tree_on_host

NAN = np.nan


def fit(rung, X, y, **settings):
    estimator = al.DecisionTreeClassifier(**settings)
    return estimator.fit(rung.from_host(np.asarray(X, dtype=float), rung.float_dtypes[-1]), y)


def rows(rung, X):
    return rung.from_host(np.asarray(X, dtype=float), rung.float_dtypes[-1])


SPLITTERS = pytest.mark.parametrize("splitter", ["exact", "hist"])


@SPLITTERS
def test_known_fraction(rung, splitter):
    # of the four known rows, x <= 2.5 takes away 1 bit; 4 of 5 rows are known; both branches have two rows,
    # so that the missing one goes to the first
    X, y = [[1], [2], [3], [4], [NAN]], ["a", "a", "b", "b", "a"]
    tree = fit(rung, X, y, criterion="entropy", missing="known_fraction", splitter=splitter)
    grown = tree_on_host(tree.tree_)
    assert grown.gain[0] == pytest.approx(0.8, abs=1e-6)
    assert grown.threshold[0] == 2.5
    assert grown.counts[1:].tolist() == [[3, 0], [0, 2]]
    assert tree.predict(rows(rung, [[NAN], [9]])).tolist() == ["a", "b"]


@SPLITTERS
def test_fractional_shares(rung, splitter):
    # three known rows go left, one right: the missing one counts 3/4 left and 1/4 right
    X, y = [[1], [2], [3], [9], [NAN]], ["a", "a", "a", "b", "b"]
    tree = fit(rung, X, y, missing="fractional", splitter=splitter, max_depth=1)
    grown = tree_on_host(tree.tree_)
    assert grown.counts[1:] == pytest.approx(np.array([[3, 0.75], [0, 1.25]]))
    # Gini of the known rows 3/8, all of it gone; 4 of 5 are known
    assert grown.gain[0] == pytest.approx(0.8 * 3 / 8, abs=1e-6)
    # left: 3 of 3.75 are "a"; right: none; the row is 3/4 left
    shares = rung.to_host(tree.predict_proba(rows(rung, [[NAN], [1]])))
    assert shares == pytest.approx(np.array([[0.6, 0.4], [0.8, 0.2]]), abs=1e-6)


def test_fractional_is_that_of_the_c45_book(rung):
    # the play data with one unknown outlook: gain 13/14 * (0.961 - 0.747) = 0.199, split information 1.809
    data = datasets.load_tennis()
    X = data.X.copy()
    case = np.flatnonzero((X[:, 0] == "overcast") & (X[:, 1] == "mild"))[0]
    X[case, 0] = None
    backend = "torch" if rung.name == "torch" else None
    tree = al.DecisionTreeClassifier(
        criterion="gain_ratio", require_average_gain=True, max_depth=1, backend=backend
    ).fit(X[:, :1], data.y)
    grown = tree_on_host(tree.tree_)
    assert grown.gain[0] == pytest.approx(0.199 / 1.809, abs=5e-4)
    # overcast, rain, sunny; no, yes
    expected = [[0, 3 + 3 / 13], [2, 3 + 5 / 13], [3, 2 + 5 / 13]]
    assert grown.counts[1:] == pytest.approx(np.array(expected))
    share = np.array([3, 5, 5]) / 13
    by_branch = np.array(expected) / np.array(expected).sum(axis=1, keepdims=True)
    weight = np.array(expected).sum(axis=1) / 14
    assert weight == pytest.approx(share)
    shares = tree.predict_proba(np.array([[None]], dtype=object))
    assert np.asarray(shares) == pytest.approx((weight[:, None] * by_branch).sum(axis=0)[None, :])


def test_fractional_rows_go_on_down(rung):
    # the missing row is in both children of the root and split again there by the second column
    X = [[1, 1], [1, 2], [5, 1], [5, 2], [NAN, 1]]
    y = ["a", "b", "b", "a", "a"]
    tree = fit(rung, X, y, missing="fractional")
    grown = tree_on_host(tree.tree_)
    assert grown.counts[0].sum() == 5
    is_leaf = grown.is_leaf
    assert grown.counts[is_leaf].sum() == pytest.approx(5)


@SPLITTERS
@pytest.mark.parametrize(("label", "branch"), [("b", 1), ("a", 0)])
def test_direction_is_learned(rung, splitter, label, branch):
    X = [[1], [2], [3], [4], [NAN], [NAN]]
    y = ["a", "a", "b", "b", label, label]
    tree = fit(rung, X, y, missing="direction", splitter=splitter)
    grown = tree_on_host(tree.tree_)
    assert grown.threshold[0] == 2.5
    assert grown.default_branch[0] == branch
    # nothing is mixed: the gain is the Gini impurity of 2 and 4, 1 - (1/9 + 4/9)
    assert grown.gain[0] == pytest.approx(4 / 9, abs=1e-6)
    assert tree.predict(rows(rung, [[NAN]])).tolist() == [label]


@SPLITTERS
@pytest.mark.parametrize("known", [[1, 1, 1], [1, 2, 3]])  # one bin; the last of several bins
def test_direction_may_part_known_from_missing(rung, splitter, known):
    X, y = [[value] for value in (*known, NAN, NAN)], ["a"] * 3 + ["b"] * 2
    tree = fit(rung, X, y, missing="direction", splitter=splitter)
    grown = tree_on_host(tree.tree_)
    assert grown.kind.tolist() == [1, 0, 0]
    assert tree.predict(rows(rung, [[1], [NAN], [-5]])).tolist() == ["a", "b", "a"]


SURROGATE_X = [
    # the first column decides; the second agrees on 7 of 8 rows, the third, upside down, on 6 of 8
    [1, 1, 9],
    [2, 2, 8],
    [3, 3, 7],
    [4, 9, 1],
    [5, 6, 6],
    [6, 7, 2],
    [7, 8, 3],
    [8, 10, 8.5],
]


@SPLITTERS
def test_surrogates_are_ranked_by_agreement(rung, splitter):
    y = ["a"] * 4 + ["b"] * 4
    tree = fit(rung, SURROGATE_X, y, missing="surrogate", nominal="binary", splitter=splitter, max_depth=1)
    grown = tree_on_host(tree.tree_)
    assert grown.feature[0] == 0
    surrogates = grown.surrogates
    assert surrogates.feature[0, :2].tolist() == [1, 2]
    assert surrogates.agreement[0, :2] == pytest.approx([7 / 8, 6 / 8])
    assert surrogates.low_branch[0, :2].tolist() == [0, 1]
    assert surrogates.threshold[0, :2].tolist() == [4.5, 6.5]
    # second column first, then the third, then the larger branch (the first of two equal ones)
    queries = [[NAN, 1, 1], [NAN, 8, 9], [NAN, NAN, 9], [NAN, NAN, 1], [NAN, NAN, NAN], [1, 8, 1]]
    assert tree.predict(rows(rung, queries)).tolist() == ["a", "b", "a", "b", "a", "a"]


@SPLITTERS
def test_surrogates_route_training_rows(rung, splitter):
    X = np.array(SURROGATE_X)
    X[0, 0] = X[7, 0] = NAN
    y = ["a"] * 4 + ["b"] * 4
    tree = fit(rung, X, y, missing="surrogate", nominal="binary", splitter=splitter, max_depth=1)
    grown = tree_on_host(tree.tree_)
    assert grown.feature[0] in (0, 1)
    if grown.feature[0] == 0:
        assert grown.counts[1:].tolist() == [[4, 0], [0, 4]]


def test_nominal_surrogates():
    X = np.array([["u", 1.0], ["u", 2.0], ["v", 3.0], ["w", 7.0], ["w", 8.0], ["v", 9.0]], dtype=object)
    y = ["a"] * 3 + ["b"] * 3
    tree = al.cart(max_depth=1).fit(X, y)
    grown = tree_on_host(tree.tree_)
    assert grown.feature[0] == 1
    assert grown.surrogates.feature[0, 0] == 0
    assert grown.surrogates.agreement[0, 0] == pytest.approx(5 / 6)
    assert tree.predict(np.array([["u", None], ["w", None]], dtype=object)).tolist() == ["a", "b"]


@pytest.mark.parametrize("splitter", ["exact", "hist", "clouds"])
def test_surrogates_on_the_only_numeric_column(rung, splitter):
    # the category decides; of the cuts of the numbers, "<= 3.5" agrees on 7 of 8 rows, and no other one does
    number, category = [7, 2, 5, 1, 8, 3, 6, 4], [1, 0, 1, 0, 1, 0, 0, 1]
    X, y = np.stack((number, category), axis=1), np.where(category, "b", "a")
    given = {"missing": "surrogate", "nominal": "binary", "categorical_features": [1], "max_depth": 1}
    tree = fit(rung, X, y, splitter=splitter, **given)
    grown = tree_on_host(tree.tree_)
    assert grown.feature[0] == 1
    assert grown.surrogates.feature[0, 0] == 0
    assert grown.surrogates.agreement[0, 0] == pytest.approx(7 / 8)
    assert grown.surrogates.threshold[0, 0] == 3.5
    assert tree.predict(rows(rung, [[3, NAN], [4, NAN]])).tolist() == ["a", "b"]


@SPLITTERS
def test_surrogates_beat_the_majority_of_all_rows_with_a_known_primary(rung, splitter):
    # the second column agrees on all four rows that have it, two on each side; sending all eight rows to the
    # larger branch is right for five of them
    second = [NAN, 1, 2, 3, 4, NAN, NAN, NAN]
    X, y = np.stack((np.arange(1, 9), second), axis=1), ["a"] * 3 + ["b"] * 5
    given = {"missing": "surrogate", "nominal": "binary", "splitter": splitter, "max_depth": 1}
    tree = fit(rung, X, y, **given)
    grown = tree_on_host(tree.tree_)
    assert (grown.feature[0], grown.threshold[0]) == (0, 3.5)
    assert grown.surrogates.feature[0].tolist() == [-1, -1]
    assert tree.predict(rows(rung, [[NAN, 1], [NAN, 4]])).tolist() == ["b", "b"]
    # with two rows more it agrees on six, which is better than five
    X[[0, 5], 1] = 0, 5
    better = tree_on_host(fit(rung, X, y, **given).tree_).surrogates
    assert (better.feature[0, 0], better.threshold[0, 0], better.agreement[0, 0]) == (1, 2.5, 1.0)


@SPLITTERS
def test_surrogates_need_no_binary_splits_where_all_columns_are_numeric(splitter):
    y = ["a"] * 4 + ["b"] * 4
    given = {"missing": "surrogate", "splitter": splitter}
    multiway = al.DecisionTreeClassifier(nominal="multiway", **given).fit(SURROGATE_X, y)
    binary = al.DecisionTreeClassifier(nominal="binary", **given).fit(SURROGATE_X, y)
    queries = [[NAN, 1, 1], [NAN, 8, 9], [NAN, NAN, 9], [NAN, NAN, 1], [NAN, NAN, NAN], [1, 8, 1]]
    assert multiway.predict(queries).tolist() == ["a", "b", "a", "b", "a", "a"]
    for mine, other in zip(multiway.tree_.surrogates, binary.tree_.surrogates, strict=True):
        np.testing.assert_array_equal(mine, other)
    tree = al.DecisionTreeClassifier(categorical_features=[0], **given)
    with pytest.raises(ValueError, match="nominal='binary'"):
        tree.fit(SURROGATE_X, y)
    assert not hasattr(tree, "model_")


@pytest.mark.parametrize("missing", ["fractional", "direction", "known_fraction", "surrogate"])
@SPLITTERS
def test_all_policies_on_mixed_tables(missing, splitter):
    rng = np.random.default_rng(0)
    n = 300
    number, other = rng.standard_normal((2, n))
    word = np.where(number + 0.3 * other > 0, "up", "down").astype(object)
    y = np.where(number > 0, "plus", "minus")
    X = np.empty((n, 3), dtype=object)
    X[:, 0] = np.where(rng.random(n) < 0.2, np.nan, number)
    X[:, 1] = np.where(rng.random(n) < 0.2, None, word)
    X[:, 2] = other
    tree = al.DecisionTreeClassifier(
        missing=missing, nominal="binary", splitter=splitter, max_depth=4, categorical_features=[1]
    ).fit(X, y)
    grown = tree_on_host(tree.tree_)
    is_leaf = grown.is_leaf
    assert grown.counts[is_leaf].sum(axis=0) == pytest.approx(
        np.array([(y == "minus").sum(), (y == "plus").sum()])
    )
    assert tree.score(X, y) > 0.85
    assert tree.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(n))
    leaves = tree.apply(X)
    assert np.all(is_leaf[leaves])
