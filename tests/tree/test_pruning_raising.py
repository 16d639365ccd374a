"""Subtree raising against the recursion of C4.5's successors, and pruning through `fit`, on every rung."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn import datasets as tables

import arraylearn as al
from arraylearn.backend.namespace import to_host
from arraylearn.grow.trees import tree_on_host
from arraylearn.table import encode_labels, read_table
from arraylearn.tree import pruning
from arraylearn.tree.pruning.confidence import limited_errors
from arraylearn.tree.pruning.held_out import Sample
from arraylearn.tree.pruning.raising import prune_and_raise
from tests.tree.small_trees import place_of

# ---- the recursion


class Node:
    """A node of the recursion: its split, its children, its rows with their weights."""

    def __init__(self, tree, i, X):
        self.X, self.rows = X, {}
        self.is_leaf = tree.first_child[i] < 0
        self.feature, self.threshold = tree.feature[i], tree.threshold[i]
        self.is_nominal = tree.map_start[i] >= 0
        first = tree.first_child[i]
        self.children = [Node(tree, first + b, X) for b in range(tree.n_branches[i])]

    def split(self, rows):
        parts = [{} for _ in self.children]
        missing = []
        for row, weight in rows.items():
            value = self.X[row, self.feature]
            if np.isnan(value):
                missing.append(row)
            else:
                parts[int(value) if self.is_nominal else int(value > self.threshold)][row] = weight
        known = [sum(part.values()) for part in parts]
        for row in missing:
            for part, weight in zip(parts, known, strict=True):
                share = weight / sum(known) if sum(known) else 1 / len(parts)
                if share > 0:
                    part[row] = rows[row] * share
        return parts

    def send(self, rows):
        self.rows = rows
        if not self.is_leaf:
            for child, part in zip(self.children, self.split(rows), strict=True):
                child.send(part)

    def errors_with(self, rows, y):
        if self.is_leaf:
            return expected_errors(rows, y)
        parts = zip(self.children, self.split(rows), strict=True)
        return sum(child.errors_with(part, y) for child, part in parts)

    def prune(self, y):
        if self.is_leaf:
            return
        for child in self.children:
            child.prune(y)
        weights = [sum(child.rows.values()) for child in self.children]
        largest = max(range(len(weights)), key=lambda b: (round(weights[b], 6), b))
        as_branch = self.children[largest].errors_with(self.rows, y)
        as_leaf = expected_errors(self.rows, y)
        as_tree = self.errors(y)
        if as_leaf <= as_tree + 0.1 + 1e-6 and as_leaf <= as_branch + 0.1 + 1e-6:
            self.is_leaf, self.children = True, []
        elif as_branch <= as_tree + 0.1 + 1e-6:
            other = self.children[largest]
            self.is_leaf, self.children = other.is_leaf, other.children
            self.feature, self.threshold, self.is_nominal = other.feature, other.threshold, other.is_nominal
            self.send(self.rows)
            self.prune(y)

    def errors(self, y):
        return expected_errors(self.rows, y) if self.is_leaf else sum(c.errors(y) for c in self.children)

    def describe(self):
        if self.is_leaf:
            return round(sum(self.rows.values()), 3)
        return (int(self.feature), round(float(self.threshold), 4), *(c.describe() for c in self.children))


def expected_errors(rows, y, tail=0.25):
    total = sum(rows.values())
    if total <= 0:
        return 0.0
    by_class = {}
    for row, weight in rows.items():
        by_class[y[row]] = by_class.get(y[row], 0) + weight
    e = total - max(by_class.values())

    def added(e):
        if e < 1:
            base = total * (1 - tail ** (1 / total))
            return base + e * (added(1) - base) if e > 0 else base
        if e + 0.5 >= total:
            return max(total - e, 0)
        z, f = stats.norm.ppf(1 - tail), (e + 0.5) / total
        spread = math.sqrt(f / total - f * f / total + z * z / (4 * total**2))
        return total * (f + z * z / (2 * total) + z * spread) / (1 + z * z / total) - e

    return e + added(e)


def describe(tree, i=0):
    if tree.first_child[i] < 0:
        return round(float(tree.counts[i].sum()), 3)
    children = range(tree.first_child[i], tree.first_child[i] + tree.n_branches[i])
    return (int(tree.feature[i]), round(float(tree.threshold[i]), 4), *(describe(tree, j) for j in children))


def noisy_rows(seed, with_missing):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 12, (160, 4)).astype(float)
    X[:, 3] = rng.integers(0, 3, 160)
    y = ((X[:, 0] > 5) ^ (X[:, 1] > 8)).astype(int) + (X[:, 3] == 2)
    y = np.where(rng.random(160) < 0.25, rng.integers(0, 3, 160), y)
    if with_missing:
        X[rng.random(X.shape) < 0.08] = np.nan
    return X, y


@pytest.mark.parametrize("with_missing", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_raising_is_that_of_the_recursion(rung, seed, with_missing):
    X, y = noisy_rows(seed, with_missing)
    model = al.DecisionTreeClassifier(
        criterion="gain_ratio", min_samples_leaf=2, min_impurity_decrease=1e-6, categorical_features=[3]
    )
    grown = tree_on_host(model.fit(X, y).tree_)
    place = place_of(rung)
    sample = Sample(place, model.schema_, read_table(X, model.schema_, place), encode_labels(y).codes, None)
    found, steps = prune_and_raise(
        grown, sample, lambda counts, wrong: limited_errors(counts, confidence=0.25), slack=0.1
    )
    expected = Node(grown, 0, X)
    expected.send(dict.fromkeys(range(len(y)), 1.0))
    expected.prune(y)
    assert describe(found) == expected.describe()
    last = steps[-1].size
    assert (last.n_nodes, last.n_leaves) == (found.n_nodes, int(found.is_leaf.sum()))
    check_structure(found)


def check_structure(tree):
    """Level order, children side by side, class counts that add up."""
    assert (np.diff(tree.depth) >= 0).all()
    inner = np.flatnonzero(~tree.is_leaf)
    for i in inner:
        children = np.arange(tree.first_child[i], tree.first_child[i] + tree.n_branches[i])
        assert (tree.parent[children] == i).all()
        assert (tree.depth[children] == tree.depth[i] + 1).all()
        # parts of rows in float32, summed by differences of running sums
        np.testing.assert_allclose(tree.counts[children].sum(axis=0), tree.counts[i], rtol=1e-3, atol=1e-3)
    assert 1 + tree.n_branches.sum() == tree.n_nodes
    np.testing.assert_allclose(tree.probability.sum(axis=1), 1, rtol=1e-5)


def test_some_subtrees_are_raised():
    raised = 0
    for seed in range(5):
        X, y = noisy_rows(seed, False)
        model = al.c45().fit(X, y)
        raised += sum(step.n_raised for step in model.pruning_report_.steps)
    assert raised > 0


@pytest.mark.parametrize("method", ["reduced_error", "pessimistic", "confidence"])
def test_raising_never_expects_more_errors(rung, method):
    X, y = noisy_rows(7, True)
    X_on = rung.from_host(X, rung.float_dtypes[-1])
    sizes = []
    for raises in (False, True):
        model = al.DecisionTreeClassifier(
            pruning=pruning.PRUNINGS[method](raising=raises), random_state=0, categorical_features=[3]
        )
        model.fit(X_on, y)
        check_structure(tree_on_host(model.tree_))
        sizes.append(model.tree_.n_nodes)
        assert model.pruning_report_.after.n_nodes == model.tree_.n_nodes
        assert rung.to_host(model.predict_proba(X_on)).shape == (160, 3)
    assert sizes[0] < model.pruning_report_.before.n_nodes
    assert sizes[1] < model.pruning_report_.before.n_nodes


# ---- through fit


@pytest.mark.parametrize("method", [*pruning.PRUNINGS])
def test_fit_prunes(rung, method):
    X, y = tables.load_breast_cancer(return_X_y=True)
    X, y = X[::4, :6], y[::4]
    X_on = rung.from_host(X, rung.float_dtypes[-1])
    model = al.DecisionTreeClassifier(pruning=method, random_state=0).fit(X_on, y)
    full = al.DecisionTreeClassifier().fit(X_on, y)
    assert model.tree_.n_nodes < full.tree_.n_nodes
    assert np.mean(to_host(model.predict(X_on)) == y) > 0.85
    same = al.DecisionTreeClassifier(pruning=method, random_state=0).fit(X, y)
    if rung.float_dtypes[-1] == "float64":
        assert same.tree_.n_nodes == model.tree_.n_nodes


def test_cross_validated_alpha_is_kept():
    X, y = tables.load_breast_cancer(return_X_y=True)
    model = al.cart(random_state=3).fit(X, y)
    choice = model.alpha_choice_
    assert choice.errors.shape == choice.path.ccp_alphas.shape
    assert model.tree_.n_nodes == choice.path.n_nodes[choice.chosen]
    assert choice.chosen >= choice.best
    again = al.cart(random_state=3).fit(X, y)
    assert again.alpha_choice_.alpha == choice.alpha


def test_held_out_rows_with_new_categories_and_without_some_classes(rung):
    X = np.array([["a"], ["a"], ["b"], ["b"], ["c"], ["c"]], dtype=object)
    y = np.array([0, 0, 1, 1, 2, 2])
    model = al.DecisionTreeClassifier(pruning="reduced_error", categorical_features=[0], backend=None)
    if rung.name == "torch":
        model.set_params(backend="torch")
    unseen = (np.array([["a"], ["z"], ["b"]], dtype=object), [0, 0, 1])
    model.fit(X, y, validation=unseen)
    assert model.tree_.n_nodes == 4
    counts = pruning.count_held_out(model, *unseen)
    np.testing.assert_allclose(to_host(counts)[0], [2, 1, 0], rtol=1e-6)
    # the row without a known category is spread over the branches by their weight
    np.testing.assert_allclose(to_host(counts)[1], [4 / 3, 0, 0], rtol=1e-6)


def test_bad_settings():
    X, y = [[1.0], [2.0], [3.0]], [0, 1, 0]
    cases = {
        "`penalty` must be": lambda: pruning.Pessimistic(-1),
        "`confidence` must be a finite number above 0 and up to 0.5": lambda: pruning.Confidence(1.0),
        "`limit` must be 'c45' or 'normal'": lambda: pruning.Confidence(limit="exact"),
        "`raising` must be True or False": lambda: pruning.Confidence(raising=2),
        "`alpha` must be": lambda: pruning.CostComplexity(-0.1),
        "`risk` must be 'impurity' or 'error'": lambda: pruning.CostComplexity(risk="loss"),
        "`folds` must be an integer of at least 2": lambda: pruning.CostComplexity(folds=1),
        "`validation_fraction` must be a finite number above 0 and below 1": lambda: pruning.ReducedError(1),
        "`significance` must be a finite number above 0 and below 1": lambda: pruning.ChiSquare(0),
    }
    for message, make in cases.items():
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(ValueError, match=r"`pruning` must be None, 'chi2', .* or an object of `al.pruning`"):
        al.DecisionTreeClassifier(pruning="hard").fit(X, y)
    with pytest.raises(ValueError, match="`ccp_alpha` must be 0 where `pruning` is given"):
        al.DecisionTreeClassifier(pruning="mdl", ccp_alpha=0.1).fit(X, y)
    with pytest.raises(ValueError, match="`validation` needs `pruning` to be 'reduced_error'"):
        al.DecisionTreeClassifier().fit(X, y, validation=(X, y))
    model = al.DecisionTreeClassifier(pruning="reduced_error")
    with pytest.raises(ValueError, match=r"`validation` must be a tuple \(X, y\); got list"):
        model.fit(X, y, validation=[X, y])
    with pytest.raises(ValueError, match=r"`y` holds labels that are not among the classes \[0, 1\]: \[5\]"):
        model.fit(X, y, validation=(X, [0, 1, 5]))
    with pytest.raises(ValueError, match=r"`X` and `y` must have the same number of rows; .* \[3, 2\]"):
        model.fit(X, y, validation=(X, [0, 1]))
    assert not hasattr(model, "model_")


def test_surrogates_and_held_out_rows_with_missing_values(rung):
    """CART's trees are judged with the surrogates that they predict with."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((120, 3))
    X[:, 1] = X[:, 0] + 0.1 * rng.standard_normal(120)
    y = (X[:, 0] > 0).astype(int) ^ (rng.random(120) < 0.1)
    X[rng.random(X.shape) < 0.1] = np.nan
    X_on = rung.from_host(X, rung.float_dtypes[-1])
    model = al.cart(pruning=pruning.CostComplexity(risk="error", folds=3), random_state=0).fit(X_on, y)
    assert model.tree_.n_nodes == 3
    counts = to_host(pruning.count_held_out(model, X_on, y))
    np.testing.assert_allclose(counts[0], np.bincount(y), rtol=1e-6)
    right = counts[1:].max(axis=1).sum()
    assert right == pytest.approx((to_host(model.predict(X_on)) == y).sum())
    settings = {"missing": "surrogate", "nominal": "binary"}
    with pytest.raises(ValueError, match="cannot be raised where missing values follow surrogates"):
        al.DecisionTreeClassifier(pruning=pruning.Confidence(raising=True), **settings).fit(X_on, y)
