"""Rules by hand and from trees, conflicts, explanations, bad rules."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import arraylearn as al
from arraylearn.rules import Literal, Rule, measure_rules, rules_from_tree
from tests.contract.test_contract import BACKEND_NAMES

X = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [np.nan, np.nan]])
Y = np.array(["a", "b", "c", "a", "b"])
RULES = ["x0 > 0 -> a", "x0 > 0 and x1 <= 0 -> b", "x1 > 0 -> c"]


@pytest.mark.parametrize(
    ("conflict", "expected"),
    [
        ("first", ["a", "a", "c", "b", "b"]),
        ("strictest", ["a", "b", "c", "b", "b"]),
        # ties go to the more frequent class of the training rows
        ("vote", ["a", "b", "c", "b", "b"]),
    ],
)
def test_conflicts(rung, conflict, expected):
    y = np.array(["b", "b", "c", "a", "b"])
    clf = al.RuleSetClassifier(RULES, default="b", conflict=conflict, backend=BACKEND_NAMES[rung.name])
    clf.fit(X, y)
    np.testing.assert_array_equal(clf.predict(X[1:]), expected[1:])
    probability = clf.predict_proba(X)
    np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(clf.classes_[probability.argmax(axis=1)], clf.predict(X))


def test_majority_of_those_that_fire():
    rules = ["x0 > 0 -> a", "x0 > 0.5 -> b", "x1 > 0 -> b", "x1 > 0.5 -> a", "x1 > 0.7 -> b"]
    clf = al.RuleSetClassifier(rules, conflict="vote", default="c").fit(X, Y)
    assert clf.predict(X).tolist() == ["b", "a", "b", "c", "c"]
    explained = clf.fired_rules(X[:2])
    assert explained[0] == ("b", None, (0, 1, 2, 3, 4))
    assert explained[1] == ("a", None, (0, 1))


def test_explanations(rung):
    for conflict, decided in (("first", 0), ("strictest", 1)):
        clf = al.RuleSetClassifier(RULES, default="b", conflict=conflict, backend=BACKEND_NAMES[rung.name])
        explained = clf.fit(X, Y).fired_rules(X)
        assert [one.fired for one in explained] == [(0, 2), (0, 1), (2,), (), ()]
        assert explained[1].rule == decided
        assert explained[3] == ("b", None, ())


def test_default():
    uncovered = al.RuleSetClassifier("x0 > 0 -> a").fit(X, ["a", "a", "c", "c", "b"])
    assert uncovered.default_ == "c"
    stated = al.RuleSetClassifier(["x0 > 0 -> a", "otherwise -> b"]).fit(X, Y)
    assert (stated.default_, len(stated.rules_)) == ("b", 1)
    both = al.RuleSetClassifier(["x0 > 0 -> a", "otherwise -> b"], default="c").fit(X, Y)
    assert both.default_ == "c"


def test_rules_are_shown_as_given():
    rules = [Rule((Literal("x1", ">", 0), Literal("x0", ">", 0)), "a"), "x1 <= 0 and x1 <= -0.5 -> b"]
    clf = al.RuleSetClassifier(rules).fit(X, Y)
    assert [str(rule) for rule in clf.rules_] == ["x0 > 0 and x1 > 0 -> a", "x1 <= -0.5 -> b"]
    again = al.RuleSetClassifier(clf.to_text()).fit(X, Y)
    assert again.rules_ == clf.rules_


def test_classes_that_are_numbers():
    clf = al.RuleSetClassifier("x0 > 0 -> 1\nx1 > 0 -> 2").fit(X, [1, 1, 2, 3, 3])
    assert clf.predict(X).tolist() == [1, 1, 2, 3, 3]


@pytest.mark.parametrize(
    ("rules", "error", "message"),
    [
        ("x0 > 0 -> z", ValueError, "rule 'x0 > 0 -> z' names the class 'z'; the classes are 'a', 'b', 'c'"),
        ("x9 > 0 -> a", ValueError, "names the column 'x9'; the columns are 'x0', 'x1'"),
        ("x0 = 1 -> a", ValueError, "the column is numeric"),
        ("x0 > 1 and x0 <= 0 -> a", ValueError, "can never match"),
        ("nonsense", ValueError, "cannot read the rule 'nonsense'"),
        ("", ValueError, "`rules` must hold at least one rule"),
        ([], ValueError, "`rules` must hold at least one rule"),
        ([3], TypeError, "`rules` must hold rules and texts; got int"),
        (3, TypeError, "`rules` must be text or a sequence of rules; got int"),
    ],
)
def test_bad_rules(rules, error, message):
    with pytest.raises(error) as caught:
        al.RuleSetClassifier(rules).fit(X, Y)
    assert message in str(caught.value)


def test_bad_default():
    with pytest.raises(ValueError, match="`default` names the class 'z'"):
        al.RuleSetClassifier(RULES, default="z").fit(X, Y)


def test_category_that_is_not_there():
    people = al.datasets.load_people()
    clf = al.RuleSetClassifier(["x1 in {Green, Red} -> C1", "x1 = Grey -> C1"])
    with pytest.warns(UserWarning, match="x1 in {Green, Red}, x1 = Grey; these literals match no row"):
        clf.fit(people.X, people.y)
    assert clf.coverage_.tolist() == [1.0, 0.0]
    assert np.isnan(clf.accuracy_[1])


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (al.id3, "tennis"),  # the only one whose columns are all nominal
        *itertools.product([al.c45, al.DecisionTreeClassifier], ["drug", "iris", "tennis", "loans"]),
    ],
)
def test_unpruned_rules_decide_as_the_tree(make, name):
    data = getattr(al.datasets, f"load_{name}")()
    tree = make().fit(data.X, data.y)
    clf = al.RuleSetClassifier(make(), post_prune=False).fit(data.X, data.y)
    np.testing.assert_array_equal(clf.predict(data.X), tree.predict(data.X))
    # a tree that is one leaf is the default
    assert set(clf.rules_) == {rule for rule in rules_from_tree(tree) if rule.literals}


def test_post_pruning_shortens_and_keeps_accuracy():
    wine = al.datasets.load_wine()
    full = al.RuleSetClassifier(al.DecisionTreeClassifier(), post_prune=False).fit(wine.X, wine.y)
    pruned = al.RuleSetClassifier(al.DecisionTreeClassifier()).fit(wine.X, wine.y)
    assert sum(map(len, pruned.rules_)) < sum(map(len, full.rules_))
    assert pruned.score(wine.X, wine.y) > 0.95


def test_measures_with_weights():
    found = measure_rules(RULES, X, Y, sample_weight=[1, 2, 3, 4, 0])
    assert [one.weight for one in found] == [3.0, 2.0, 4.0]
    assert found[0].coverage == pytest.approx(0.3)
    assert found[0].accuracy == pytest.approx(1 / 3)
    assert measure_rules([], X, Y) == []
    with pytest.raises(ValueError, match="5 rows and `y` 4"):
        measure_rules(RULES, X, Y[:-1])


def test_rules_of_a_tree_that_parts_known_from_missing_values(tmp_path):
    """The cut after the last bin is at infinity: no literal, and a model file that can be read."""
    x = np.column_stack([np.arange(12.0), np.tile([0.0, 1.0], 6)])
    x[8:, 0] = np.nan
    y = np.where(np.isnan(x[:, 0]), 2, x[:, 1]).astype(int)
    tree = al.DecisionTreeClassifier(splitter="hist", missing="direction").fit(x, y)
    assert tree.tree_.threshold[0] == np.inf
    assert [str(rule) for rule in rules_from_tree(tree)] == ["x1 <= 0.5 -> 0", "x1 > 0.5 -> 1"]
    al.save(tree, tmp_path / "tree")
    np.testing.assert_array_equal(al.load(tmp_path / "tree").predict(x), y)
