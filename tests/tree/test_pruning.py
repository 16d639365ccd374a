"""The prunings against hand-computed values, their definitions and scikit-learn, on every rung."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import special, stats
from sklearn import datasets as tables
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeClassifier as Peer

import arraylearn as al
from arraylearn.grow.cut import cut_at, sum_leaves_below
from arraylearn.grow.trees import tree_at, tree_on_host
from arraylearn.tree import pruning
from arraylearn.tree.pruning.confidence import c45_limit, confidence_cuts, normal_limit
from arraylearn.tree.pruning.cost_complexity import choose_alpha
from arraylearn.tree.pruning.independence import chi2_statistics
from arraylearn.tree.pruning.levels import choose_cuts
from arraylearn.tree.pruning.mdl import leaf_bits, split_bits
from arraylearn.tree.pruning.pessimistic import pessimistic_cuts
from arraylearn.tree.pruning.weakest_link import weakest_links
from tests.tree.small_trees import (
    from_scikit_learn,
    make_tree,
    place_of,
    random_tree,
    size_and_errors,
)


def subtree_cost(tree, i, leaf_cost, split_cost, slack, cuts):
    """The definition of `choose_cuts`, by recursion."""
    if tree.first_child[i] < 0:
        return leaf_cost[i]
    children = range(tree.first_child[i], tree.first_child[i] + tree.n_branches[i])
    below = split_cost[i] + sum(subtree_cost(tree, j, leaf_cost, split_cost, slack, cuts) for j in children)
    cuts[i] = leaf_cost[i] <= below + slack
    return leaf_cost[i] if cuts[i] else below


# ---- upper limits of the errors


def test_c45_limit_by_hand():
    # Quinlan's U25%(0, 6), U25%(0, 9), U25%(0, 1): 0.206, 0.143, 0.750 (C4.5, 1993, page 42)
    found = c45_limit(np.zeros(4), np.array([6.0, 9.0, 1.0, 0.0]), 0.25)
    np.testing.assert_allclose(found, [6 * 0.206299, 9 * 0.142757, 0.75, 0.0], rtol=1e-5)


def test_c45_limit_interpolates_and_saturates():
    values = [(0.0, 10.0), (0.5, 10.0), (1.0, 10.0), (1.0, 1.5), (3.0, 3.2), (0.3, 0.5)]
    found = c45_limit(*np.array(values).T, 0.25)
    z = stats.norm.ppf(0.75)
    f = 1.5 / 10
    one = 10 * (f + z**2 / 20 + z * math.sqrt(f / 10 - f * f / 10 + z**2 / 400)) / (1 + z**2 / 10)
    none = 10 * (1 - 0.25**0.1)
    small = 0.5 * (1 - 0.25**2)
    expected = [none, none + 0.5 * (one - none), one, 1.5, 3.2, small + 0.3 * (1 - small)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_normal_limit_solves_its_equation():
    errors, total = np.array([0.0, 1, 4, 30]), np.array([5.0, 20, 50, 100])
    p = normal_limit(errors, total, 0.8) / total
    f = (errors + 0.5) / total
    np.testing.assert_allclose((p - f) / np.sqrt(p * (1 - p) / total), stats.norm.ppf(0.9), rtol=1e-4)


# ---- the pass over the levels


@pytest.mark.parametrize("n_leaves", [1, 2, 3, 40])
def test_cuts_are_those_of_the_recursion(n_leaves):
    rng = np.random.default_rng(n_leaves)
    tree = random_tree(rng, n_leaves)
    leaf_cost, split_cost = rng.random(tree.n_nodes) * tree.depth.max(), 0.1 * rng.random(tree.n_nodes)
    expected = np.zeros(tree.n_nodes, dtype=bool)
    subtree_cost(tree, 0, leaf_cost, split_cost, 0.05, expected)
    found = choose_cuts(tree, leaf_cost, split_cost, slack=0.05)
    np.testing.assert_array_equal(found, expected)


def test_sums_of_leaves():
    tree = random_tree(np.random.default_rng(0), 30)
    # the class counts of inner nodes are sums of leaves
    np.testing.assert_allclose(sum_leaves_below(tree, tree.counts), tree.counts)


# ---- one method after the other


SMALL = [[[9, 1], [3, 3]], [[0, 8], [1, 0]]]


def test_pessimistic_by_hand(rung):
    # below the root: errors 1 + 3 = 4 as leaves, 4 as one leaf; then 0 + 0 against 1
    tree = make_tree(SMALL, rung)
    assert pruning.prune(tree, pruning.Pessimistic(0)).n_nodes == 5
    assert pruning.prune(tree, pruning.Pessimistic(0.5)).n_nodes == 5
    assert pruning.prune(tree, pruning.Pessimistic(1)).n_nodes == 3
    # 12 : 4 and 1 : 8 cost 5 + 2 r, the root 12 + r
    assert pruning.prune(tree, pruning.Pessimistic(6.5)).n_nodes == 3
    assert pruning.prune(tree, pruning.Pessimistic(7)).n_nodes == 1


def test_reduced_error_by_hand(rung):
    tree = make_tree(SMALL, rung)
    # held out: nothing speaks for the first split (says class 0, once right), much for the second
    held_out = np.array([[3.0, 5], [1, 1], [2, 4], [1, 0], [0, 1], [0, 4], [2, 0]])
    pruned = tree_on_host(pruning.prune(tree, pruning.ReducedError(), held_out=held_out))
    assert pruned.n_nodes == 5
    assert (~pruned.is_leaf).tolist() == [True, False, True, False, False]
    assert pruned.counts[1].tolist() == [12, 4]
    nothing = pruning.prune(tree, pruning.ReducedError(), held_out=np.zeros((7, 2)))
    assert nothing.n_nodes == 1


def test_errors_of_reduced_error_go_upward(rung):
    # each child alone looks worth keeping only while its grandchildren are; the root must see that
    tree = make_tree([[[5, 0], [0, 1]], [4, 0]], rung)
    held_out = np.array([[6.0, 0], [4, 0], [2, 0], [3, 0], [1, 0]])
    assert pruning.prune(tree, pruning.ReducedError(), held_out=held_out).n_nodes == 1


def test_bits_by_hand():
    tree = make_tree(SMALL)
    leaf = leaf_bits(tree.counts)
    # 1 for "leaf", 1 for its class, log2(17) for the number of exceptions, 4 rows of 16
    assert leaf[1] == pytest.approx(2 + math.log2(17) + math.log2(math.comb(16, 4)), rel=1e-5)
    split = split_bits(tree, (0, 3, 0))
    assert split[0] == pytest.approx(1 + math.log2(3) + math.log2(24), rel=1e-5)


def test_bits_between_whole_numbers():
    counts = np.array([[0.25, 0.5, 3.75], [1000.5, 20.25, 7.0]])
    total, errors = counts.sum(axis=1), counts.sum(axis=1) - counts.max(axis=1)
    choose = special.gammaln(total + 1) - special.gammaln(errors + 1) - special.gammaln(total - errors + 1)
    expected = 1 + np.log2(3) + np.log2(total + 1) + choose / np.log(2) + errors
    np.testing.assert_allclose(leaf_bits(counts), expected, rtol=1e-12)


def test_description_length_has_no_better_subtree(rung):
    """All ways to cut a small tree: none is shorter than the one found."""
    tree = random_tree(np.random.default_rng(3), 7)
    leaf = leaf_bits(tree.counts)
    split = split_bits(tree, (0, 0))
    inner = np.flatnonzero(~tree.is_leaf)

    def length(i, cut):
        if tree.first_child[i] < 0 or i in cut:
            return leaf[i]
        children = range(tree.first_child[i], tree.first_child[i] + tree.n_branches[i])
        return split[i] + sum(length(j, cut) for j in children)

    best = min(length(0, set(inner[list(chosen)])) for chosen in product([False, True], repeat=len(inner)))
    on = tree_at(tree, place_of(rung))
    pruned = tree_on_host(pruning.prune(on, pruning.DescriptionLength(), n_values=(0, 0)))
    leaf_sum = leaf_bits(pruned.counts)[pruned.is_leaf].sum()
    split_sum = split_bits(pruned, (0, 0))[~pruned.is_leaf].sum()
    assert leaf_sum + split_sum == pytest.approx(best, rel=1e-5)


def test_chi2_statistics_are_scipys(rung):
    tree = random_tree(np.random.default_rng(1), 25)
    statistic, freedom = chi2_statistics(tree)
    for i in np.flatnonzero(~tree.is_leaf):
        table = tree.counts[tree.first_child[i] : tree.first_child[i] + tree.n_branches[i]]
        table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
        expected = stats.chi2_contingency(table, correction=False) if min(table.shape) > 1 else None
        assert float(statistic[i]) == pytest.approx(expected.statistic if expected else 0, rel=1e-4, abs=1e-4)
        assert float(freedom[i]) == (expected.dof if expected else 0)
    pruned = pruning.prune(tree_at(tree, place_of(rung)), pruning.ChiSquare(0.2))
    assert 1 < pruned.n_nodes < tree.n_nodes


def test_stopping_by_test_equals_cutting(rung):
    X, y = tables.load_iris(return_X_y=True)
    model = al.DecisionTreeClassifier(pruning=pruning.ChiSquare(0.01))
    X = rung.from_host(X, rung.float_dtypes[-1])
    grown = al.DecisionTreeClassifier().fit(X, y)
    expected = pruning.prune(grown.tree_, pruning.ChiSquare(0.01))
    assert model.fit(X, y).tree_.n_nodes == expected.n_nodes < grown.tree_.n_nodes


# ---- weakest links


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits"])
def test_path_is_scikit_learns(rung, name):
    X, y = getattr(tables, f"load_{name}")(return_X_y=True)
    peer = Peer(random_state=0)
    expected = peer.cost_complexity_pruning_path(X, y)
    is_last = np.append(np.diff(expected.ccp_alphas) > 1e-12, True)
    tree = tree_at(from_scikit_learn(peer.fit(X, y)), place_of(rung))
    path = pruning.cost_complexity_path(tree)
    tolerance = 1e-12 if "float64" in rung.float_dtypes else 1e-5
    if "float64" in rung.float_dtypes:  # in float32 prices that nearly agree count as one
        np.testing.assert_allclose(path.ccp_alphas, expected.ccp_alphas[is_last], atol=tolerance)
        np.testing.assert_allclose(path.impurities, expected.impurities[is_last], atol=tolerance)
    middle = len(path.ccp_alphas) // 2
    alpha = float(path.ccp_alphas[middle : middle + 2].mean())
    pruned = pruning.prune(tree, pruning.CostComplexity(alpha))
    assert pruned.n_nodes == path.n_nodes[middle]
    assert pruned.n_nodes == Peer(random_state=0, ccp_alpha=alpha).fit(X, y).tree_.node_count


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer"])
def test_path_of_our_own_tree(name):
    X, y = getattr(tables, f"load_{name}")(return_X_y=True)
    expected = Peer(random_state=0).cost_complexity_pruning_path(X, y)
    path = pruning.cost_complexity_path(al.DecisionTreeClassifier().fit(X, y).tree_)
    np.testing.assert_allclose(path.ccp_alphas, expected.ccp_alphas, atol=1e-12)
    np.testing.assert_allclose(path.impurities, expected.impurities, atol=1e-12)


def one_link_after_the_other(tree, risk):
    """Breiman's algorithm: prune the weakest link, start again."""
    inner = {int(i) for i in np.flatnonzero(~tree.is_leaf)}
    alphas, found = [], {}

    def leaves(i):
        if i not in inner:
            return [i]
        children = range(tree.first_child[i], tree.first_child[i] + tree.n_branches[i])
        return [leaf for j in children for leaf in leaves(j)]

    def below(i):
        children = range(tree.first_child[i], tree.first_child[i] + tree.n_branches[i]) if i in inner else ()
        return {i}.union(*(below(j) for j in children))

    while inner:
        price = {i: (risk[i] - sum(risk[j] for j in leaves(i))) / (len(leaves(i)) - 1) for i in inner}
        weakest = min(price, key=lambda i: (round(price[i], 12), i))
        alphas.append(max(price[weakest], 0.0))
        found[weakest] = alphas[-1]
        inner -= below(weakest)
    return alphas, found


@pytest.mark.parametrize("seed", range(4))
def test_links_are_those_of_breimans_algorithm(seed):
    tree = random_tree(np.random.default_rng(seed), 40)
    shares = tree.counts.sum(axis=1) / tree.counts[0].sum()
    risk = tree.impurity * shares
    _, expected = one_link_after_the_other(tree, risk)
    alpha = weakest_links(tree, risk).alpha
    found = {i: alpha[i] for i in np.flatnonzero(np.isfinite(alpha))}
    assert set(found) <= set(expected)
    for i in found:
        assert found[i] == pytest.approx(expected[i], abs=1e-6)


def test_errors_of_all_prices_at_once():
    """The running sum over prices against pruning and predicting at each of them."""
    X, y = tables.load_breast_cancer(return_X_y=True)
    halves = np.arange(len(y)) % 2
    trained = [al.DecisionTreeClassifier().fit(X[halves != i], y[halves != i]) for i in (0, 1)]
    held = [pruning.count_held_out(model, X[halves == i], y[halves == i]) for i, model in enumerate(trained)]
    path = pruning.cost_complexity_path(al.DecisionTreeClassifier().fit(X, y).tree_, risk="error")
    folds = [(model.tree_, counts) for model, counts in zip(trained, held, strict=True)]
    choice = choose_alpha(path, folds, risk="error")
    prices = np.append(np.sqrt(path.ccp_alphas[:-1] * path.ccp_alphas[1:]), 10.0)
    wrong = np.zeros(len(prices))
    for k, price in enumerate(prices):
        for i in (0, 1):
            model = al.DecisionTreeClassifier(pruning=pruning.CostComplexity(float(price), risk="error"))
            model.fit(X[halves != i], y[halves != i])
            wrong[k] += (model.predict(X[halves == i]) != y[halves == i]).sum()
    np.testing.assert_allclose(choice.errors * len(y), wrong, atol=1e-9)
    least = choice.errors.min()
    spread = math.sqrt(least * (1 - least) / len(y))
    assert choice.chosen == np.flatnonzero(choice.errors <= least + spread + 1e-12).max()
    assert choice.alpha == path.ccp_alphas[choice.chosen]


# ---- what a GPU would feel, and the report


@pytest.mark.rungs("syncs")
def test_waits_do_not_grow_with_the_tree(rung):
    waits = []
    for n_leaves in (4, 200):
        tree = random_tree(np.random.default_rng(0), n_leaves, rung=rung)
        before = rung.counts()["syncs"]
        pruning.prune(tree, pruning.Confidence())
        waits.append(rung.counts()["syncs"] - before)
    # the errors, and the tree in one copy
    assert waits[1] <= waits[0] <= 3


def test_report():
    grown = make_tree(SMALL)
    report = pruning.pruning_report(grown, pruning.prune(grown, pruning.Pessimistic(1)))
    assert report.before == (7, 4, 4.0)
    assert report.after == (3, 2, 5.0)
    (step,) = report.steps
    assert (step.depth, step.n_cut, step.n_raised) == (1, 2, 0)
    assert str(report).splitlines()[1].split() == ["before", "7", "4", "4"]
    with pytest.raises(ValueError, match="its splits differ"):
        pruning.pruning_report(pruning.prune(grown, pruning.Pessimistic(1)), grown)


@pytest.mark.parametrize("way", [pruning.Pessimistic(2.0), "confidence"])
def test_report_of_a_fit_shows_every_step(way):
    """Also the cuts below nodes that were cut later: sizes as if each level were pruned for itself."""
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(300, 3)), 1)
    y = (X[:, 0] > 0) ^ (rng.random(300) < 0.2)
    grown = al.DecisionTreeClassifier().fit(X, y).tree_
    report = al.DecisionTreeClassifier(pruning=way).fit(X, y).pruning_report_
    depths = [step.depth for step in report.steps]
    assert depths == sorted(depths, reverse=True)
    assert report.steps[-1].size == report.after
    if way == "confidence":
        is_cut = confidence_cuts(grown, pruning.Confidence())
    else:
        is_cut = pessimistic_cuts(grown, way)
    assert sum(step.n_cut for step in report.steps) == is_cut.sum()
    by_hand = [
        pruning.pruning_report(grown, cut_at(grown, is_cut & (grown.depth >= depth))).after
        for depth in depths
    ]
    assert [step.size for step in report.steps] == by_hand
    seen = pruning.pruning_report(grown, cut_at(grown, is_cut))
    assert len(seen.steps) < len(report.steps)  # some cuts went with later ones


def test_pruning_keeps_the_tree_it_is_given(rung):
    tree = make_tree(SMALL, rung)
    pruning.prune(tree, pruning.Pessimistic(9))
    assert tree.n_nodes == 7
    assert size_and_errors(tree_on_host(tree)) == (7, 4.0)


# ---- bad input


def test_bad_arguments():
    tree = make_tree(SMALL)
    for wrong in (-0.5, math.nan, "much", None, True):
        with pytest.raises(ValueError, match="`penalty` must be a finite number of at least 0; got"):
            pruning.Pessimistic(wrong)
    for wrong in (0, 1, -0.1, 0.6, 2):
        with pytest.raises(
            ValueError, match=r"`confidence` must be a finite number above 0 and up to 0.5; got"
        ):
            pruning.Confidence(wrong)
    for wrong in (0, 1, 1.5):
        with pytest.raises(
            ValueError, match=r"`confidence` must be a finite number above 0 and below 1; got"
        ):
            pruning.Confidence(wrong, limit="normal")
        with pytest.raises(
            ValueError, match=r"`significance` must be a finite number above 0 and below 1; got"
        ):
            pruning.ChiSquare(wrong)
    with pytest.raises(ValueError, match="`limit` must be 'c45' or 'normal'; got 'exact'"):
        pruning.Confidence(limit="exact")
    with pytest.raises(ValueError, match="`alpha` must be a finite number of at least 0, or None; got -1"):
        pruning.CostComplexity(-1)
    with pytest.raises(ValueError, match="`risk` must be 'impurity' or 'error'; got 'loss'"):
        pruning.cost_complexity_path(tree, risk="loss")
    with pytest.raises(ValueError, match="`n_values` must have"):
        pruning.prune(tree, pruning.DescriptionLength(), n_values=[])
    with pytest.raises(ValueError, match=r"`held_out` must have a row per node .* \(7, 2\); got the shape"):
        pruning.prune(tree, pruning.ReducedError(), held_out=np.zeros((3, 2)))
    for way, message in {
        "mdl": "`pruning` must be an object of `al.pruning`; got 'mdl'",
        pruning.Confidence(raising=True): "`pruning` must not raise subtrees",
        pruning.CostComplexity(): "`alpha` must be a price where there are no rows to choose it by; got None",
        pruning.ReducedError(): "`held_out` must hold the counts of `count_held_out`",
    }.items():
        with pytest.raises(ValueError, match=message):
            pruning.prune(tree, way)


def test_pruning_before_fit():
    with pytest.raises(NotFittedError):
        pruning.count_held_out(al.DecisionTreeClassifier(), [[1.0]], [0])
    with pytest.raises(TypeError, match=r"`tree` must be the tree of a fitted .*got DecisionTreeClassifier"):
        pruning.prune(al.DecisionTreeClassifier(), pruning.Pessimistic())


def test_trees_of_a_forest_cannot_be_pruned():
    forest = al.RandomForestClassifier(n_estimators=1, random_state=0).fit([[1.0], [2.0]], [0, 1])
    with pytest.raises(TypeError, match="got trees that keep no class weights"):
        pruning.prune(forest.model_.groves[0].trees, pruning.Pessimistic())
