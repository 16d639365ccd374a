"""CART beside rpart: the example of its manual (Therneau and Atkinson), with its default settings.

The 81 children are those of J. M. Chambers, T. J. Hastie, Statistical Models in S, 1992: age in months,
number of vertebrae and first vertebra of an operation, and whether a deformation was there afterwards.
"""

import numpy as np
import pytest

import arraylearn as al
from arraylearn.grow.trees import tree_on_host
from arraylearn.tree.pruning import CostComplexity, cost_complexity_path
from tests.tree.small_trees import size_and_errors

ABSENT = """
71 3 5, 158 3 14, 2 5 1, 1 4 15, 1 2 16, 61 2 17, 37 3 16, 113 2 16, 148 3 16, 18 5 2, 1 4 12,
168 3 18, 1 3 16, 78 6 15, 175 5 13, 80 5 16, 27 4 9, 22 2 16, 131 2 3, 9 5 13, 8 3 6, 100 3 14,
4 3 16, 151 2 16, 31 3 16, 125 2 11, 130 5 13, 112 3 16, 140 5 11, 93 3 16, 1 3 9, 20 6 9, 35 3 13,
143 9 3, 61 4 1, 97 3 16, 136 4 15, 131 5 13, 177 2 14, 68 5 10, 9 2 17, 2 2 17, 140 4 15, 72 5 15,
2 3 13, 51 7 9, 102 3 13, 81 4 1, 118 3 16, 118 4 16, 17 4 10, 195 2 17, 159 4 13, 18 4 11, 15 5 16,
158 5 14, 127 4 12, 87 4 16, 206 4 10, 11 3 15, 178 4 15, 26 7 13, 120 2 13, 36 4 13
"""
PRESENT = """
128 4 5, 59 6 12, 82 5 14, 105 6 5, 96 3 12, 15 7 2, 52 5 6, 91 5 12, 73 5 1, 139 3 10, 121 3 3,
139 10 6, 120 5 8, 130 4 1, 114 7 8, 157 3 13, 42 7 6
"""
COLUMNS = ("Age", "Number", "Start")


@pytest.fixture(scope="module")
def children():
    rows = [[[float(v) for v in row.split()] for row in text.split(",")] for text in (ABSENT, PRESENT)]
    y = np.repeat(["absent", "present"], [len(part) for part in rows])
    assert (len(rows[0]), len(rows[1])) == (64, 17)
    return np.array(rows[0] + rows[1]), y


def settings(**more):
    """rpart's minsplit and minbucket, and its loss."""
    return {
        "missing": "surrogate",
        "nominal": "binary",
        "min_samples_split": 20,
        "min_samples_leaf": 7,
    } | more


def describe(tree, i=0):
    if tree.first_child[i] < 0:
        return tuple(tree.counts[i].astype(int).tolist())
    name = COLUMNS[tree.feature[i]]
    return (f"{name} < {tree.threshold[i]:g}", *(describe(tree, tree.first_child[i] + b) for b in (0, 1)))


def test_tree_and_table_of_complexity(rung, children):
    X, y = children
    X = rung.from_host(X, rung.float_dtypes[-1])
    root_error = 17 / 81
    model = al.DecisionTreeClassifier(
        pruning=CostComplexity(0.01 * root_error, risk="error"), **settings()
    ).fit(X, y)
    # as rpart prints it: (absent, present) in the leaves, the smaller values first
    assert describe(tree_on_host(model.tree_)) == (
        "Start < 8.5",
        (8, 11),
        ("Start < 14.5", ("Age < 55", (12, 0), ("Age < 111", (3, 4), (12, 2))), (29, 0)),
    )
    path = cost_complexity_path(model.tree_, risk="error")
    np.testing.assert_allclose(path.ccp_alphas[1:] / root_error, [0.019608, 0.176471], atol=1e-6)
    assert path.n_leaves.tolist() == [5, 2, 1]
    np.testing.assert_allclose(path.impurities / root_error, [0.76471, 0.82353, 1.0], atol=1e-5)


def test_standard_errors(children):
    """rpart's xstd: relative errors of 1 and 0.94118 have 0.21559 and 0.21078."""
    X, y = children
    model = al.DecisionTreeClassifier(pruning=CostComplexity(risk="error"), random_state=0, **settings()).fit(
        X, y
    )
    choice, root_error = model.alpha_choice_, 17 / 81
    assert choice.errors[-1] / root_error == pytest.approx(1)
    assert choice.standard_errors[-1] / root_error == pytest.approx(0.21559, abs=1e-5)
    # about as many errors with as without the tree: the rule takes the root alone
    assert size_and_errors(tree_on_host(model.tree_)) == (1, 17)
