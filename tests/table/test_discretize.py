"""Discretization by width, frequency and entropy tree."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arraylearn as al
from arraylearn.table import DISCRETIZERS, apply_edges, discretize
from tests.backends.assertions import assert_close

AGES = np.array([[20.0], [73], [37], [33], [48], [29], [52], [42], [61], [30], [26], [54]])


def finite(row):
    return row[np.isfinite(row)].tolist()


def test_width():
    found = discretize(AGES, method="width", n_bins=4)
    np.testing.assert_allclose(found.edges, [[33.25, 46.5, 59.75]])
    np.testing.assert_array_equal(found.codes[:, 0], [0, 3, 1, 0, 2, 0, 2, 1, 3, 0, 0, 2])


def test_width_of_hard_columns():
    huge = np.finfo(np.float64).max
    x = np.array(
        [[1.0, np.nan, -huge, 1.0], [1.0, np.nan, huge, np.nextafter(1.0, 2.0)], [np.nan, np.inf, 0.0, 1.0]]
    )
    edges = discretize(x, method="width", n_bins=4).edges
    assert [len(finite(row)) for row in edges] == [0, 0, 3, 1]
    assert finite(edges[2])[1] == 0.0


def test_frequency():
    found = discretize(AGES, method="frequency", n_bins=3)
    assert np.bincount(found.codes[:, 0]).tolist() == [4, 4, 4]
    assert finite(found.edges[0]) == [31.5, 50.0]
    ties = discretize(np.array([[1.0]] * 5 + [[2.0]] + [[3.0]] * 4), n_bins=2)
    assert finite(ties.edges[0]) == [1.5]


def mdl_accepts(left, right):
    """Fayyad and Irani's test, in plain Python."""

    def entropy(labels):
        n = len(labels)
        return -sum(labels.count(c) / n * math.log2(labels.count(c) / n) for c in set(labels))

    both = left + right
    n, k = len(both), len(set(both))
    gain = entropy(both) - len(left) / n * entropy(left) - len(right) / n * entropy(right)
    delta = math.log2(3**k - 2) - (
        k * entropy(both) - len(set(left)) * entropy(left) - len(set(right)) * entropy(right)
    )
    return gain, gain > (math.log2(n - 1) + delta) / n


def plain_tree_edges(x, y):
    """All accepted cuts of one column, recursively, in plain Python."""
    rows = sorted(zip(x, y, strict=True))
    values = [value for value, _ in rows]
    labels = [label for _, label in rows]
    splits = [i for i in range(1, len(rows)) if values[i - 1] < values[i]]
    if not splits:
        return []
    best = max(splits, key=lambda i: round(mdl_accepts(labels[:i], labels[i:])[0], 12))
    if not mdl_accepts(labels[:best], labels[best:])[1]:
        return []
    left = plain_tree_edges(values[:best], labels[:best])
    right = plain_tree_edges(values[best:], labels[best:])
    return [*left, (values[best - 1] + values[best]) / 2, *right]


def test_tree_finds_the_classes():
    x = np.arange(90.0)[:, None]
    y = np.repeat(["a", "b", "c"], 30)
    found = discretize(x, y, method="tree", n_bins=10)
    assert finite(found.edges[0]) == [29.5, 59.5]
    assert finite(discretize(x, y, method="tree", n_bins=2).edges[0]) in ([29.5], [59.5])
    assert finite(discretize(x, np.arange(90) % 2, method="tree").edges[0]) == []


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 3)), min_size=2, max_size=60))
def test_tree_against_plain_python(rows):
    # classes follow the value, with some noise, so that splits are found
    x = np.array([float(value) for value, _, _ in rows])
    y = np.array([value // 4 if noise else other for value, other, noise in rows])
    found = finite(discretize(x[:, None], y, method="tree", n_bins=20).edges[0])
    assert found == plain_tree_edges(x.tolist(), y.tolist())


def test_tree_on_iris():
    datasets = pytest.importorskip("sklearn.datasets")
    x, y = datasets.load_iris(return_X_y=True)
    edges = discretize(x, y, method="tree").edges
    for j in range(4):
        assert finite(edges[j]) == pytest.approx(plain_tree_edges(x[:, j].tolist(), y.tolist()))


@pytest.mark.parametrize("method", DISCRETIZERS)
def test_every_rung_agrees(rung, xp, dtype, float_dtype_name, method):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 3))
    y = (x[:, 0] + x[:, 1] > 0).astype(np.int64)
    x[:, 2] = np.round(x[:, 2])
    x[rng.uniform(size=x.shape) < 0.1] = np.nan
    x = x.astype(float_dtype_name)
    expected = discretize(x, y, method=method, n_bins=7)
    found = discretize(rung.from_host(x), rung.from_host(y), method=method, n_bins=7)
    assert_close(found.edges, expected.edges, dtype=dtype, rtol=0, atol=0)
    assert_close(found.codes, expected.codes)
    assert_close(apply_edges(rung.from_host(x), found.edges), expected.codes)
    np.testing.assert_array_equal(expected.codes == -1, np.isnan(x))


def test_the_chosen_backend_computes():
    pytest.importorskip("torch")
    with al.use_backend("torch"):
        found = discretize(AGES, n_bins=3)
    assert isinstance(found.codes, np.ndarray)
    np.testing.assert_array_equal(found.codes, discretize(AGES, n_bins=3).codes)


def test_refusals():
    with pytest.raises(ValueError, match="`method` must be 'width', 'frequency' or 'tree'; got 'mdl'"):
        discretize(AGES, method="mdl")
    for n_bins in (1, 2.0, True, 40_000):
        with pytest.raises(ValueError, match="`n_bins` must be an integer from 2 to 32766"):
            discretize(AGES, n_bins=n_bins)
    with pytest.raises(ValueError, match="`method='tree'` needs the class labels: pass `y`"):
        discretize(AGES, method="tree")
    with pytest.raises(ValueError, match="`y` has 3 labels for 12 rows"):
        discretize(AGES, [0, 1, 1], method="tree")
    with pytest.raises(ValueError, match="`edges` must have a row for each of the 1 columns"):
        apply_edges(AGES, np.ones((2, 3)))
    with pytest.raises(ValueError, match="`labels` must hold the class codes"):
        DISCRETIZERS["tree"](np, AGES, 3, None)
