"""The record of trees: what follows from its fields, and grown trees as a model keeps them."""

from __future__ import annotations

import numpy as np
import pytest

from arraylearn.backend.namespace import HOST, Place
from arraylearn.grow.trees import LEAF, NOMINAL, NOTHING, NUMERIC, Trees, join_trees, tree_at, tree_on_host
from tests.backends.assertions import assert_close


def at_rung(rung, trees):
    return tree_at(trees, Place(rung.load(), rung.device))


def ints(*values):
    return np.array(values, dtype=np.int32)


# node 0 has three branches; of its children 1, 2 and 3 the third is split, and its children come first
MULTIWAY = Trees(
    roots=ints(0),
    feature=ints(1, 0, -1, 0, -1, -1, -1, -1),
    threshold=np.zeros(8, dtype=np.float32),
    first_child=ints(1, 6, -1, 4, -1, -1, -1, -1),
    n_branches=ints(3, 2, 0, 2, 0, 0, 0, 0),
    map_start=ints(0, -1, -1, -1, -1, -1, -1, -1),
    category_branch=ints(0, 1, 2),
)
# a tree of five nodes, one of a single leaf, one of three nodes
THREE = Trees(
    roots=ints(0, 5, 6),
    feature=ints(2, -1, 0, -1, -1, -1, 1, -1, -1),
    threshold=ints(*range(9)),
    first_child=ints(1, -1, 3, -1, -1, -1, 7, -1, -1),
)


def test_what_nodes_ask(rung):
    with rung.forbid_syncs():
        found = at_rung(rung, MULTIWAY).kind, at_rung(rung, THREE).kind
    assert_close(found[0], np.array([NOMINAL, NUMERIC, NOTHING, NUMERIC, *[NOTHING] * 4], dtype=np.int8))
    assert_close(found[1], np.array([NUMERIC, 0, NUMERIC, 0, 0, 0, NUMERIC, 0, 0], dtype=np.int8))


@pytest.mark.parametrize(
    ("trees", "parents"),
    [
        (MULTIWAY, [-1, 0, 0, 0, 3, 3, 1, 1]),
        (THREE, [-1, 0, 0, 2, 2, -1, -1, 6, 6]),
        (Trees(ints(0), ints(-1), ints(0), ints(-1)), [-1]),
    ],
)
def test_parents(rung, trees, parents):
    with rung.forbid_syncs():
        found = at_rung(rung, trees).parent
    assert_close(found, ints(*parents))


def test_there_and_back(rung):
    back = tree_on_host(at_rung(rung, MULTIWAY._replace(height=2)))
    assert (back.height, back.depth, back.surrogates) == (2, None, None)
    for name in ("roots", "feature", "threshold", "first_child", "n_branches", "category_branch"):
        before, after = getattr(MULTIWAY, name), getattr(back, name)
        assert after.dtype == before.dtype
        np.testing.assert_array_equal(after, before)


def test_grown_trees_become_a_model():
    # bins 0 to 3; column 1 is nominal, and its bins 0 and 3 go right in node 2 of the first tree
    sets = np.zeros((5, 4), dtype=bool)
    sets[2, [0, 3]] = True
    first = Trees(
        roots=np.zeros(1, dtype=np.int64),
        feature=ints(0, -1, 1, -1, -1),
        threshold=ints(2, -1, 1, -1, -1),
        first_child=ints(1, -1, 3, -1, -1),
        depth=ints(0, 1, 1, 2, 2),
        default_branch=np.array([True, True, False, True, True]),
        value=np.arange(5),
        sets=sets,
    )
    leaf = Trees(
        *(np.zeros(1, dtype=np.int64), ints(-1), ints(-1), ints(-1), ints(0)),
        default_branch=np.array([False]),
        value=np.array([7]),
        sets=np.zeros((1, 4), dtype=bool),
    )
    model = join_trees(HOST, [leaf, first, leaf], 1, 4)
    expected = {
        "roots": ints(0, 1, 6),
        "feature": ints(LEAF, 0, LEAF, 1, LEAF, LEAF, LEAF),
        "threshold": ints(0, 2, 0, 1, 0, 0, 0),
        "first_child": ints(LEAF, 2, LEAF, 4, LEAF, LEAF, LEAF),
        "default_branch": np.array([0, 1, 0, 0, 0, 0, 0], dtype=np.int8),
        "map_start": ints(-1, -1, -1, 0, -1, -1, -1),
        "category_branch": np.array([1, 0, 0, 1], dtype=np.int8),
        "value": ints(7, 0, 1, 2, 3, 4, 7),
    }
    assert model.height == 2
    for name, field in model._asdict().items():
        if name in expected:
            assert field.dtype == expected[name].dtype, name
            np.testing.assert_array_equal(field, expected[name])
        else:
            assert name == "height" or field is None
