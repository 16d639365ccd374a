"""The decision tree classifier against scikit-learn, itself on other backends, and bad input."""

import numpy as np
import pytest
from sklearn import datasets
from sklearn.tree import DecisionTreeClassifier as Reference

import arraylearn as al
from arraylearn.grow.trees import tree_on_host


def random_rows(n, d, n_classes, *, seed=0, n_values=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) if n_values is None else rng.integers(0, n_values, (n, d)).astype(float)
    score = X @ rng.standard_normal((d, n_classes)) + rng.standard_normal((n, n_classes))
    return X, score.argmax(axis=1)


SETS = {
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "breast_cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "random": lambda: random_rows(3000, 8, 3),
    "few_values": lambda: random_rows(3000, 6, 7, n_values=5),
}


def impurity_decrease(tree):
    """Impurity of the root minus that of the leaves, by weight."""
    tree = tree_on_host(tree)
    weight = tree.counts.sum(axis=1) / tree.counts[0].sum()
    is_leaf = tree.is_leaf
    return tree.impurity[0] - (weight * tree.impurity)[is_leaf].sum()


def reference_decrease(fitted):
    tree = fitted.tree_
    weight = tree.weighted_n_node_samples / tree.weighted_n_node_samples[0]
    is_leaf = tree.children_left < 0
    return tree.impurity[0] - (weight * tree.impurity)[is_leaf].sum()


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("measure", ["gini", "entropy"])
@pytest.mark.parametrize("max_depth", [2, 8])
def test_equals_scikit_learn(name, measure, max_depth):
    X, y = SETS[name]()
    ours = al.DecisionTreeClassifier(criterion=measure, max_depth=max_depth).fit(X, y)
    theirs = Reference(criterion=measure, max_depth=max_depth, random_state=0).fit(X, y)
    # several splits can gain the same and lead to different trees below: hence not to the last digit
    assert impurity_decrease(ours.tree_) == pytest.approx(reference_decrease(theirs), rel=0.01)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=0.01)
    assert ours.get_n_leaves() == pytest.approx(theirs.get_n_leaves(), rel=0.05, abs=1)
    assert ours.get_depth() == theirs.get_depth()


def test_full_tree_has_no_errors():
    X, y = random_rows(2000, 5, 4)
    tree = al.DecisionTreeClassifier().fit(X, y)
    assert tree.score(X, y) == 1.0
    assert np.array_equal(tree.predict(X), Reference(random_state=0).fit(X, y).predict(X))


def assert_same_tree(actual, expected):
    actual, expected = tree_on_host(actual), tree_on_host(expected)
    for name, a, b in zip(actual._fields, actual, expected, strict=True):
        if a is None or isinstance(a, tuple):
            continue
        assert np.array_equal(a, b), name


@pytest.mark.parametrize("measure", ["gini", "entropy"])
@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.rungs("float64")  # thresholds of float64 data differ where there is none
def test_same_tree_on_every_backend(rung, xp, measure, n_classes):
    X, y = random_rows(400, 5, n_classes, n_values=30)
    expected = al.DecisionTreeClassifier(criterion=measure).fit(X, y)
    found = al.DecisionTreeClassifier(criterion=measure).fit(rung.from_host(X), y)
    assert_same_tree(found.tree_, expected.tree_)
    leaves = found.apply(rung.from_host(X))
    assert np.array_equal(rung.to_host(leaves), expected.apply(X))
    assert np.array_equal(rung.to_host(found.predict_proba(rung.from_host(X))), expected.predict_proba(X))


@pytest.mark.parametrize("measure", ["gini", "gain_ratio"])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_whole_weights_equal_repeated_rows(measure, n_classes):
    X, y = random_rows(300, 4, n_classes, n_values=12)
    weight = np.random.default_rng(1).integers(0, 4, 300)
    settings = {"criterion": measure, "min_weight_fraction_leaf": 0.01}
    weighted = al.DecisionTreeClassifier(**settings).fit(X, y, sample_weight=weight)
    repeated = al.DecisionTreeClassifier(**settings).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_same_tree(weighted.tree_, repeated.tree_)


def test_limits():
    X, y = random_rows(1000, 5, 3)
    tree = al.DecisionTreeClassifier(min_samples_leaf=20, min_samples_split=100, max_depth=6).fit(X, y).tree_
    weight = tree.counts.sum(axis=1)
    assert weight.min() >= 20
    assert weight[~tree.is_leaf].min() >= 100
    assert tree.depth.max() <= 6
    few = al.DecisionTreeClassifier(min_impurity_decrease=0.05).fit(X, y).tree_
    assert few.gain[~few.is_leaf].min() >= 0.05


@pytest.mark.parametrize("n_leaves", [2, 7, 30])
def test_max_leaf_nodes_is_best_first(n_leaves):
    X, y = random_rows(1500, 5, 3)
    ours = al.DecisionTreeClassifier(max_leaf_nodes=n_leaves).fit(X, y)
    theirs = Reference(max_leaf_nodes=n_leaves, random_state=0).fit(X, y)
    assert ours.get_n_leaves() == n_leaves
    assert impurity_decrease(ours.tree_) == pytest.approx(reference_decrease(theirs), rel=1e-9)


@pytest.mark.parametrize("splitter", ["exact", "hist"])
def test_a_child_may_gain_more_than_its_parent(splitter):
    # of two classes on a chess board the first cuts gain next to nothing, those below them all
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = np.round(rng.normal(size=(300, 4)), 2)
        y = ((X[:, 0] * X[:, 1] > 0) ^ (rng.random(300) < 0.1)).astype(int)
        for n_leaves in (3, 4, 5, 7, 10):
            ours = al.DecisionTreeClassifier(splitter=splitter, max_bins=1000, max_leaf_nodes=n_leaves).fit(
                X, y
            )
            theirs = Reference(max_leaf_nodes=n_leaves, random_state=0).fit(X, y)
            assert impurity_decrease(ours.tree_) == pytest.approx(reference_decrease(theirs), rel=1e-9)


def test_max_features_draws_the_same_columns_for_a_seed():
    X, y = random_rows(500, 9, 2)
    first, second = (
        al.DecisionTreeClassifier(max_features="sqrt", random_state=3).fit(X, y) for _ in range(2)
    )
    assert_same_tree(first.tree_, second.tree_)
    assert first.score(X, y) == 1.0
    other = al.DecisionTreeClassifier(max_features=1, random_state=4).fit(X, y)
    assert not np.array_equal(other.tree_.feature, first.tree_.feature)


def test_class_weight_balances():
    X, y = random_rows(500, 3, 2)
    y = y * (np.random.default_rng(0).random(500) < 0.2)
    weights = len(y) / (2 * np.bincount(y))
    ours = al.DecisionTreeClassifier(class_weight="balanced", max_depth=4).fit(X, y)
    theirs = Reference(class_weight="balanced", max_depth=4, random_state=0).fit(X, y)
    assert impurity_decrease(ours.tree_) == pytest.approx(reference_decrease(theirs), rel=1e-6)
    assert ours.tree_.counts[0] == pytest.approx(np.bincount(y) * weights)


def test_decision_path_and_apply():
    X, y = random_rows(200, 4, 3)
    ours, theirs = (
        al.DecisionTreeClassifier(max_depth=4).fit(X, y),
        Reference(max_depth=4, random_state=0).fit(X, y),
    )
    path = ours.decision_path(X)
    assert path.shape == (200, ours.tree_.n_nodes)
    assert np.array_equal(
        np.asarray(path.sum(axis=1)).ravel(), np.asarray(theirs.decision_path(X).sum(axis=1)).ravel()
    )
    assert np.all(path[np.arange(200), ours.apply(X)])


def test_importances_equal_scikit_learn():
    X, y = SETS["wine"]()
    ours, theirs = (
        al.DecisionTreeClassifier(max_depth=3).fit(X, y),
        Reference(max_depth=3, random_state=0).fit(X, y),
    )
    assert ours.feature_importances_ == pytest.approx(theirs.feature_importances_, abs=1e-9)


def test_tree_moves(rung):
    X, y = random_rows(50, 3, 2)
    tree = al.DecisionTreeClassifier().fit(X, y).tree_
    if rung.name == "torch":
        moved = tree.to("torch")
        assert type(moved.feature).__module__ == "torch"
        assert_same_tree(moved, tree)


@pytest.mark.parametrize("n", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_chain_as_deep_as_the_rows(n):
    X = np.arange(n, dtype=float)[:, None]
    y = np.arange(n) % 2
    tree = al.DecisionTreeClassifier(criterion=_first_row_alone).fit(X, y)
    assert tree.get_depth() == n - 1
    assert tree.score(X, y) == 1.0


def _first_row_alone(xp, counts):
    """A measure that loves lopsided splits."""
    return 1.0 / (1.0 + xp.sum(counts[..., 0, :], axis=-1))


def test_a_measure_of_ones_own(rung, xp):
    X, y = random_rows(60, 2, 2)
    tree = al.DecisionTreeClassifier(criterion=_first_row_alone).fit(
        rung.from_host(X, rung.float_dtypes[-1]), y
    )
    assert tree.get_depth() > 20


# ---- parameters that mean what they mean in scikit-learn


@pytest.mark.parametrize(
    "settings",
    [
        {"min_impurity_decrease": 0.01},
        {"min_impurity_decrease": 0.01, "criterion": "log_loss"},
        {"min_impurity_decrease": 0.004, "max_leaf_nodes": 6},
        {"ccp_alpha": 0.01},
        {"min_samples_leaf": 0.05},
        {"min_samples_split": 0.3},
        {"min_samples_split": 1.0},
        {"min_weight_fraction_leaf": 0.1},
    ],
    ids=str,
)
@pytest.mark.parametrize("splitter", ["exact", "hist"])
def test_limits_mean_what_they_mean_in_scikit_learn(settings, splitter):
    rng = np.random.default_rng(4)
    X = rng.integers(0, 40, (300, 5)).astype(float)
    y = (X[:, 0] + X[:, 1] > 40).astype(int) + (rng.random(300) < 0.1)
    ours = al.DecisionTreeClassifier(splitter=splitter, **settings).fit(X, y)
    peer = Reference(random_state=0, **settings).fit(X, y)
    assert ours.get_n_leaves() == peer.get_n_leaves() < 60
    # columns that are equally good may be split in either order
    assert ours.score(X, y) == pytest.approx(peer.score(X, y), abs=0.02)


def test_fitted_attributes_are_those_of_scikit_learn(rung):
    X, y = datasets.load_iris(return_X_y=True)
    X_on = rung.from_host(X, rung.float_dtypes[-1])
    ours = al.DecisionTreeClassifier(max_features="sqrt", random_state=0).fit(X_on, y)
    assert (ours.n_classes_, ours.max_features_) == (3, 2)
    assert isinstance(ours.tree_.threshold, np.ndarray)
    assert ours.tree_ is ours.tree_  # made on first access
    path = al.DecisionTreeClassifier(max_depth=3).cost_complexity_pruning_path(X, y)
    expected = Reference(max_depth=3, random_state=0).cost_complexity_pruning_path(X, y)
    assert path.impurities[[0, -1]] == pytest.approx(expected.impurities[[0, -1]])


def test_progress_of_a_tree_is_shown(capsys):
    X, y = datasets.load_iris(return_X_y=True)
    al.cart(pruning=al.pruning.CostComplexity(folds=3), random_state=0).set_params(verbose=1).fit(X, y)
    assert "growing" in (shown := capsys.readouterr().err)
    assert "4/4" in shown  # the tree and one without each fold


@pytest.mark.rungs("numpy")
def test_auto_notes_once_where_it_counts_bins(caplog):
    X, y = np.arange(500_001.0)[:, None] % 1000, np.arange(500_001) % 2
    for n, notes in ((500_000, 0), (500_001, 1), (500_001, 1)):
        al.DecisionTreeClassifier(max_depth=1).fit(X[:n], y[:n])
        assert [record.name for record in caplog.records] == ["arraylearn.tree"] * notes
    assert "500,000 rows" in caplog.text


# ---- drawn cuts


def test_drawn_cuts_are_spread_over_the_values():
    X, y = np.arange(101.0)[:, None], np.arange(101) > 50

    def cut(seed):
        tree = al.DecisionTreeClassifier(splitter="random", max_depth=1, random_state=seed).fit(X, y)
        return float(tree.tree_.threshold[0])

    cuts = np.sort([cut(seed) for seed in range(60)])
    assert cut(3) == cut(3)
    assert cuts[0] < 12 < 88 < cuts[-1]
    assert abs(cuts.mean() - 50) < 15  # a searched cut is at 50.5


def test_trees_of_drawn_cuts(rung):
    X, y = random_rows(150, 4, 3)
    X[::9, 1] = np.nan
    X[:, 3] = np.round(X[:, 3])
    settings = {"splitter": "random", "random_state": 0, "categorical_features": [3]}
    X = X.astype(np.float32)
    model = al.DecisionTreeClassifier(**settings).fit(X, y)
    assert model.score(X, y) == 1.0
    on_rung = al.DecisionTreeClassifier(**settings).fit(rung.from_host(X), y)
    for name in ("feature", "threshold", "first_child", "counts"):
        np.testing.assert_array_equal(getattr(on_rung.tree_, name), getattr(model.tree_, name))
    np.testing.assert_array_equal(rung.to_host(on_rung.predict(rung.from_host(X))), model.predict(X))
    small = al.DecisionTreeClassifier(**settings, max_leaf_nodes=5, criterion="entropy").fit(X, y)
    assert small.get_n_leaves() == 5
    weight = np.random.default_rng(0).integers(1, 3, 150)
    weighed = al.DecisionTreeClassifier(**settings).fit(X, y, weight)
    repeated = al.DecisionTreeClassifier(**settings).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_array_equal(weighed.predict_proba(X), repeated.predict_proba(X))


# ---- bad input


def test_bad_settings_say_what_is_accepted():
    X, y = random_rows(10, 2, 2)
    for settings, message in (
        ({"criterion": "gin"}, "`criterion` must be one of"),
        ({"splitter": "first"}, "`splitter` must be 'auto'"),
        ({"nominal": "both"}, "`nominal` must be 'multiway' or 'binary'"),
        ({"missing": "drop"}, "`missing` must be 'fractional'"),
        ({"missing": "surrogate", "categorical_features": [0]}, "nominal='binary'"),
        ({"max_depth": 0}, "`max_depth` must be an integer of at least 1, or None"),
        ({"max_leaf_nodes": 1}, "`max_leaf_nodes` must be an integer of at least 2, or None"),
        ({"min_samples_leaf": 0}, "`min_samples_leaf` must be an integer of at least 1, or a float above 0"),
        ({"min_samples_leaf": 1.5}, "up to 1.0, a share of all rows; got 1.5"),
        ({"min_samples_split": 1}, "`min_samples_split` must be an integer of at least 2"),
        ({"min_weight_fraction_leaf": 0.6}, "`min_weight_fraction_leaf` must be"),
        ({"ccp_alpha": -0.1}, "`ccp_alpha` must be"),
        ({"splitter": "random", "require_average_gain": True}, "`require_average_gain` compares"),
        ({"min_impurity_decrease": "x"}, "`min_impurity_decrease` must be a finite number"),
        ({"max_features": 0}, "`max_features` must be"),
        ({"max_features": "third"}, "`max_features` must be None, 'sqrt'"),
    ):
        with pytest.raises(ValueError, match=message.replace("(", r"\(")):
            al.DecisionTreeClassifier(**settings).fit(X, y)


@pytest.mark.parametrize("nominal", ["multiway", "binary"])
def test_odd_tables(nominal):
    nan = np.nan
    make = lambda: al.DecisionTreeClassifier(nominal=nominal)  # noqa: E731
    one_row = make().fit([[1.0, 2.0]], ["a"])
    assert one_row.predict([[5.0, nan]]).tolist() == ["a"]
    one_class = make().fit([[1.0], [2.0]], ["a", "a"])
    assert one_class.get_n_leaves() == 1
    constant = make().fit([[1.0], [1.0]], ["a", "b"])
    assert constant.get_n_leaves() == 1
    assert constant.predict_proba([[1.0]]).tolist() == [[0.5, 0.5]]
    all_missing = make().fit([[nan, 1.0], [nan, 2.0]], ["a", "b"])
    assert all_missing.predict([[nan, 1.0], [3.0, 2.0]]).tolist() == ["a", "b"]
    no_word = (
        make()
        .set_params(categorical_features=[0])
        .fit(np.array([[None, 1.0], [None, 2.0]], dtype=object), ["a", "b"])
    )
    assert no_word.predict(np.array([["new", 1.0], [None, 2.0]], dtype=object)).tolist() == ["a", "b"]
    names = [[f"row {i}"] for i in range(8)]
    own_values = make().fit(names, ["a", "b"] * 4)
    assert own_values.score(names, ["a", "b"] * 4) == 1.0
    assert own_values.predict([["never seen"]]).tolist() in (["a"], ["b"])


def test_infinity_and_wrong_columns():
    X, y = random_rows(10, 2, 2)
    with pytest.raises(ValueError, match="infinity"):
        al.DecisionTreeClassifier().fit(np.where(X > 0, np.inf, X), y)
    tree = al.DecisionTreeClassifier().fit(X, y)
    with pytest.raises(ValueError, match="infinity"):
        tree.predict(np.full((2, 2), np.inf))
    with pytest.raises(ValueError, match="features"):
        tree.predict(X[:, :1])


def test_wrong_names_of_columns():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": [20.0, 30.0, 40.0], "city": ["a", "b", "a"]})
    tree = al.DecisionTreeClassifier().fit(frame, [0, 1, 1])
    assert tree.predict(frame).tolist() == [0, 1, 1]
    with pytest.raises(ValueError, match="names"):
        tree.predict(frame.rename(columns={"city": "town"}))


# ---- bins


@pytest.mark.parametrize("measure", ["gini", "entropy"])
@pytest.mark.parametrize("n_classes", [2, 6])
def test_bins_of_single_values_give_the_exact_splits(rung, measure, n_classes):
    X, y = random_rows(500, 4, n_classes, n_values=20)
    X = rung.from_host(X, rung.float_dtypes[-1])
    exact, binned = (
        al.DecisionTreeClassifier(splitter=splitter, criterion=measure, max_depth=6).fit(X, y)
        for splitter in ("exact", "hist")
    )
    exact, binned = tree_on_host(exact.tree_), tree_on_host(binned.tree_)
    # the thresholds may stand elsewhere between the same two values
    for name in ("kind", "feature", "first_child", "counts"):
        assert np.array_equal(getattr(exact, name), getattr(binned, name)), name


@pytest.mark.parametrize(
    ("missing", "n_categories", "seeds"), [("fractional", 7, [0, 10, 56]), ("direction", 6, [0, 11])]
)
def test_of_few_categories_all_sets_are_tried(rung, missing, n_categories, seeds):
    """The Gini gain is the largest of all divisions of the categories; a missing value is one of them.

    A column of many categories, which says nothing, may stand beside it.
    """
    for seed in seeds:
        rng = np.random.default_rng(seed)
        codes = rng.integers(0, n_categories, 60).astype(np.float32)
        y = rng.permutation(np.arange(60) % 5)
        if missing == "direction":
            codes[rng.random(60) < 0.2] = np.nan
        settings = {"nominal": "binary", "missing": missing, "max_depth": 1}
        model = al.DecisionTreeClassifier(categorical_features=[0], **settings)
        model.fit(rung.from_host(codes[:, None]), y)
        many = np.stack((np.repeat(codes, 12), np.tile(np.arange(12), 60)), axis=1).astype(np.float32)
        beside = al.DecisionTreeClassifier(categorical_features=[0, 1], **settings)
        beside.fit(rung.from_host(many), np.repeat(y, 12))
        places = np.where(np.isnan(codes), n_categories, codes).astype(int)
        counts = np.zeros((n_categories + 1, 5))
        np.add.at(counts, (places, y), 1)
        sets = (np.arange(1, 2 ** (n_categories + 1) - 1)[:, None] >> np.arange(n_categories + 1)) % 2
        sides = np.stack((sets @ counts, (1 - sets) @ counts))
        sizes = sides.sum(axis=2)
        kept = ((sides**2).sum(axis=2)[:, sizes.all(axis=0)] / sizes[:, sizes.all(axis=0)]).sum(axis=0).max()
        for tree, times in ((model.tree_, 1), (beside.tree_, 12)):
            children = tree_on_host(tree).counts[1:]
            np.testing.assert_allclose((children**2).sum(axis=1) @ (1 / children.sum(axis=1)), times * kept)


@pytest.mark.parametrize("splitter", ["exact", "hist"])
def test_below_a_branch_grows_the_tree_of_its_rows_alone(rung, splitter):
    # one category is pure: its siblings have rows that are not those of their parent less one another's
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, (900, 3)).astype(np.float32)
    X[:, 0] = rng.integers(0, 3, 900)
    y = np.where(X[:, 0] == 2, 2, (X[:, 1] + rng.normal(size=900) > 3.5).astype(int))

    def grow(X, y, nominal):
        model = al.DecisionTreeClassifier(splitter=splitter, categorical_features=nominal, max_depth=6)
        return model.set_params(max_depth=6 if nominal else 5).fit(rung.from_host(X), y)

    whole = grow(X, y, [0])
    assert whole.tree_.feature[0] == 0
    n_nodes = 1
    for category in range(3):
        rows = X[:, 0] == category
        alone = grow(X[rows, 1:], y[rows], [])
        n_nodes += alone.tree_.n_nodes
        found = rung.to_host(whole.predict_proba(rung.from_host(X[rows])))
        wanted = rung.to_host(alone.predict_proba(rung.from_host(X[rows, 1:])))
        np.testing.assert_array_equal(found[:, alone.classes_], wanted)
    assert whole.tree_.n_nodes == n_nodes


def test_binned_tree_grows_out(rung):
    X, y = random_rows(800, 4, 3)
    X = rung.from_host(X, rung.float_dtypes[-1])
    tree = al.DecisionTreeClassifier(splitter="hist", max_bins=250).fit(X, y)
    grown = tree_on_host(tree.tree_)
    is_leaf = grown.is_leaf
    assert np.all(grown.counts[is_leaf].max(axis=1) == grown.counts[is_leaf].sum(axis=1))
    assert np.mean(rung.to_host(tree.predict(X)) == y) == 1.0


def test_binned_accuracy_is_near_the_exact_one():
    X, y = random_rows(20_000, 10, 3)
    exact, binned = (
        al.DecisionTreeClassifier(splitter=splitter, max_depth=8).fit(X[:10_000], y[:10_000])
        for splitter in ("exact", "hist")
    )
    assert binned.score(X[10_000:], y[10_000:]) > exact.score(X[10_000:], y[10_000:]) - 0.02


def test_bins_refuse_what_counts_thresholds():
    X, y = random_rows(10, 2, 2)
    with pytest.raises(ValueError, match="use splitter='exact'"):
        al.DecisionTreeClassifier(splitter="hist", penalize_thresholds=True).fit(X, y)
    with pytest.raises(ValueError, match="`max_bins` must be"):
        al.DecisionTreeClassifier(splitter="hist", max_bins=1).fit(X, y)


@pytest.mark.parametrize("missing", ["fractional", "direction", "known_fraction", "surrogate"])
@pytest.mark.parametrize("measure", ["gini", "entropy"])
@pytest.mark.parametrize(
    ("seed", "weights"), [(2, None), (4, None), (11, None), (9, "whole"), (2, "parts"), (5, "parts")]
)
def test_counting_distinct_values_gives_the_tree_of_sorted_lists(
    monkeypatch, missing, measure, seed, weights
):
    from arraylearn.grow import loop as grow

    rng = np.random.default_rng(seed)
    X = rng.integers(0, 9, (400, 4)).astype(float)
    y = (X[:, 0] + rng.integers(0, 4, 400) + 3 * (X[:, 1] > 4)).astype(int) % 5
    X[rng.random(X.shape) < 0.08] = np.nan
    weight = {None: None, "whole": rng.integers(1, 4, 400), "parts": rng.random(400) + 0.1}[weights]
    settings = {"missing": missing, "criterion": measure, "nominal": "binary", "max_depth": 7}
    counted = al.DecisionTreeClassifier(**settings).fit(X, y, sample_weight=weight)
    monkeypatch.setattr(grow, "number_values", lambda xp, columns, most: None)
    listed = al.DecisionTreeClassifier(**settings).fit(X, y, sample_weight=weight)
    for name in ("feature", "kind", "first_child", "default_branch"):
        assert np.array_equal(getattr(counted.tree_, name), getattr(listed.tree_, name)), name
    np.testing.assert_allclose(counted.tree_.threshold, listed.tree_.threshold)
    np.testing.assert_allclose(counted.tree_.counts, listed.tree_.counts, rtol=1e-9, atol=1e-12)


# ---- weights have no scale


def weighted_rows(missing=0.0):
    rng = np.random.default_rng(3)
    X = np.round(rng.normal(size=(80, 3)), 1)
    y = ((X[:, 0] + X[:, 1] > 0) ^ (rng.random(80) < 0.2)).astype(int)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y, rng.random(80) + 0.05


def rows_below(tree, X):
    """Rows that pass each node, counted by their leaves."""
    n_rows = np.bincount(tree.apply(X), minlength=tree.tree_.n_nodes)
    for node in range(tree.tree_.n_nodes - 1, 0, -1):
        n_rows[tree.tree_.parent[node]] += n_rows[node]
    return n_rows


@pytest.mark.parametrize("splitter", ["exact", "hist", "clouds", "clouds_sampling", "random"])
@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_limits_count_rows_whatever_they_weigh(splitter, criterion):
    if criterion != "gini" and splitter.startswith("clouds"):
        return
    X, y, weight = weighted_rows()
    settings = {"splitter": splitter, "criterion": criterion, "random_state": 0, "max_bins": 20}
    for limits, leaf, split in (({"min_samples_leaf": 5}, 5, 10), ({"min_samples_leaf": 0.1}, 8, 16)):
        model = al.DecisionTreeClassifier(**settings, **limits).fit(X, y, sample_weight=weight / 1000)
        n_rows, is_leaf = rows_below(model, X), model.tree_.is_leaf
        assert leaf <= n_rows.min() <= leaf + 4
        assert n_rows[~is_leaf].min() >= split
    model = al.DecisionTreeClassifier(**settings, min_samples_split=9).fit(X, y, sample_weight=weight)
    n_rows, is_leaf = rows_below(model, X), model.tree_.is_leaf
    assert n_rows[~is_leaf].min() >= 9
    assert n_rows[is_leaf].min() < 4
    model = al.DecisionTreeClassifier(**settings, min_weight_fraction_leaf=0.1)
    model.fit(X, y, sample_weight=1000 * weight)
    assert model.tree_.counts.sum(axis=1).min() >= 100 * weight.sum()


@pytest.mark.parametrize("missing", ["direction", "surrogate", "known_fraction"])
def test_sides_have_rows_enough_with_those_whose_value_is_missing(missing):
    X, y, weight = weighted_rows(0.15)
    model = al.DecisionTreeClassifier(missing=missing, min_samples_leaf=5).fit(X, y, sample_weight=weight)
    assert 5 <= rows_below(model, X).min() <= 8
    colours = np.array(["a", "b", "c", "d", "e"])[np.arange(80) % 5]
    nominal = np.stack([colours, np.where(y == 1, "x", colours)], axis=1).astype(object)
    for shape in ("multiway", "binary"):
        model = al.DecisionTreeClassifier(nominal=shape, min_samples_leaf=5)
        model.fit(nominal, y, sample_weight=weight)
        is_leaf = model.tree_.is_leaf
        n_rows = rows_below(model, nominal)
        children = [n_rows[model.tree_.parent == node] for node in np.flatnonzero(~is_leaf)]
        assert all(np.sum(of_node >= 5) >= 2 for of_node in children)


@pytest.mark.parametrize("make", [al.c45, al.cart, al.id3], ids=lambda make: make.__name__)
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_a_common_factor_changes_no_tree(make, missing):
    X, y, weight = weighted_rows(missing)
    settings = {"random_state": 0} if make is al.cart else {}
    one = make(**settings).fit(X, y, sample_weight=weight).tree_
    assert one.n_nodes >= 3
    for factor in (4.0, 1 / weight.sum()):
        other = make(**settings).fit(X, y, sample_weight=factor * weight).tree_
        for name in ("feature", "threshold", "first_child", "default_branch"):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name
        np.testing.assert_allclose(other.counts, factor * one.counts, rtol=1e-12)


def test_balanced_classes_weigh_the_same_with_the_weights_of_the_rows():
    X, y, weight = weighted_rows()
    counts = al.DecisionTreeClassifier(class_weight="balanced").fit(X, y, sample_weight=weight).tree_.counts
    np.testing.assert_allclose(counts[0], weight.sum() / 2)
