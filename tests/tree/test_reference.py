"""Unpruned C4.5 trees against those of Weka's J48 -U, on data that lie beside the project."""

import pytest

import arraylearn as al
from tests.reference_data import load_reference

# leaves and size of J48 -U
EXPECTED = {
    "glass": (30, 59),
    "balance.scale": (60, 119),
    "vowel": (178, 277),
    "segment": (51, 101),
    "splice": (3597, 3707),
    "kr.vs.kp": (43, 82),
    # with missing values
    "vote": (19, 37),
    "breast.cancer": (152, 179),
    "credit.a": (101, 135),
    "hepatitis": (16, 31),
    "labor": (13, 22),
    "mushroom": (25, 30),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_unpruned_size(name):
    data = load_reference(name)
    tree = al.c45(pruning=None).fit(data.X, data.y)
    assert (tree.get_n_leaves(), tree.tree_.n_nodes) == EXPECTED[name]


# J48 finds nothing to prune in either: its figures without -U are the same
@pytest.mark.parametrize(("name", "expected"), [("tennis", (5, 8)), ("iris", (5, 9))])
def test_unpruned_size_of_embedded_data(name, expected):
    data = getattr(al.datasets, f"load_{name}")()
    tree = al.c45(pruning=None).fit(data.X, data.y)
    assert (tree.get_n_leaves(), tree.tree_.n_nodes) == expected
