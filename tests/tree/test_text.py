"""Trees to look at."""

import numpy as np
import pytest

import arraylearn as al
from arraylearn import datasets
from arraylearn.tree import graphviz_source, leaf_rules, tree_text


@pytest.fixture(scope="module")
def tennis():
    data = datasets.load_tennis()
    frame = data.frame("pandas")
    return al.id3().fit(frame.drop(columns=data.target), frame[data.target])


def test_c45_style(tennis):
    assert tree_text(tennis) == "\n".join(
        [
            "outlook = overcast: yes (4.0)",
            "outlook = rain",
            "|   wind = strong: no (2.0)",
            "|   wind = weak: yes (3.0)",
            "outlook = sunny",
            "|   humidity = high: no (3.0)",
            "|   humidity = normal: yes (2.0)",
        ]
    )
    assert tree_text(tennis, max_depth=1).splitlines()[1] == "outlook = rain: yes (5.0/2.0)"


def test_rpart_style(tennis):
    lines = tree_text(tennis, style="rpart").splitlines()
    assert lines[0] == "n= 14"
    assert lines[5] == "1) root 14 5 yes (0.3571 0.6429)"
    assert lines[6] == "  2) outlook = overcast 4 0 yes (0.0000 1.0000) *"
    with pytest.raises(ValueError, match="`style` must be"):
        tree_text(tennis, style="weka")


def test_rules_and_graph(tennis):
    assert leaf_rules(tennis) == [
        "outlook = overcast -> yes (4.0)",
        "outlook = rain and wind = strong -> no (2.0)",
        "outlook = rain and wind = weak -> yes (3.0)",
        "outlook = sunny and humidity = high -> no (3.0)",
        "outlook = sunny and humidity = normal -> yes (2.0)",
    ]
    source = graphviz_source(tennis)
    assert source.count("->") == tennis.tree_.n_nodes - 1
    assert 'n0 -> n1 [label="= overcast"];' in source


def test_sets_of_categories():
    X = np.array([["a"], ["b"], ["c"], ["d"]], dtype=object)
    tree = al.cart(pruning=None).fit(X, [0, 1, 0, 1])
    assert tree_text(tree).splitlines() == ["x0 in {a, c}: 0 (2.0)", "x0 in {b, d}: 1 (2.0)"]


def test_picture(tennis):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = al.plot.plot_tree(tennis)
    drawn = [text.get_text() for text in ax.texts]
    assert any(text.startswith("outlook") for text in drawn)
    assert sum("yes" in text or "no" in text.split("\n")[0] for text in drawn) >= 5
    matplotlib.pyplot.close(ax.figure)


def test_names_may_be_given_for_a_plain_array():
    tree = al.DecisionTreeClassifier().fit([[1.0], [2.0], [3.0]], ["a", "b", "b"])
    assert tree_text(tree, feature_names=["age"]).splitlines()[0] == "age <= 1.5: a (1.0)"
    assert leaf_rules(tree, feature_names=["age"])[1] == "age > 1.5 -> b (2.0)"
    assert 'label="age\\n3 rows' in graphviz_source(tree, feature_names=["age"])


@pytest.mark.parametrize("names", [["age", "height"], "age", []])
def test_wrong_names_are_refused(names):
    tree = al.DecisionTreeClassifier().fit([[1.0], [2.0]], ["a", "b"])
    with pytest.raises(ValueError, match="`feature_names` must hold one name for each of the 1 columns"):
        tree_text(tree, feature_names=names)
