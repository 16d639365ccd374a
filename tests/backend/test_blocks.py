"""The block primitives: every rung against plain loops, and against the portable body."""

import numpy as np
import pytest

from arraylearn.backend.arrays.blocks import block_index, block_max, first_in_block, scatter, split_lists
from arraylearn.backend.native import portable_only
from arraylearn.backend.ops.descent import follow_thresholds
from arraylearn.grow.gini_bins import gini_bins
from tests.backends.assertions import assert_close


@pytest.mark.parametrize("n_branches", [1, 2, 3, 20, 300])
@pytest.mark.parametrize("m", [40, 50_000])
def test_split_lists_is_a_stable_partition(rung, xp, n_branches, m):
    rng = np.random.default_rng(m)
    branch = rng.integers(-1, n_branches, m)
    lists = np.stack([rng.permutation(m) for _ in range(3)]).astype(np.int32)
    sizes = np.bincount(branch[branch >= 0], minlength=n_branches).tolist()
    expected = [np.concatenate([line[branch[line] == b] for b in range(n_branches)]) for line in lists]
    found = split_lists(xp, rung.from_host(lists), rung.from_host(branch), sizes)
    assert_close(found, np.stack(expected))


def test_block_index_and_block_max_and_scatter(rung, xp):
    index = block_index(xp, rung.from_host([2, 0, 3]), 5)
    assert_close(index, np.array([0, 0, 2, 2, 2]))
    values = rung.from_host([[1.0, 5.0, 2.0], [4.0, 3.0, -1.0]], rung.float_dtypes[-1])
    starts, block_at = rung.from_host([0, 2]), rung.from_host([0, 0, 1])
    assert_close(block_max(xp, values, starts, block_at), [[5.0, 2.0], [4.0, -1.0]])
    hits = rung.from_host([[False, True, False]])
    assert_close(first_in_block(xp, hits, starts, block_at), np.array([[1, -1]]))
    assert_close(scatter(xp, rung.from_host([7, 8]), rung.from_host([3, 0]), 5), np.array([8, 0, 0, 7, 0]))


@pytest.mark.parametrize("n_classes", [1, 2, 3, 6])
@pytest.mark.parametrize("weighted", [False, True])
def test_gini_bins(rung, xp, n_classes, weighted):
    rng = np.random.default_rng(n_classes)
    histogram = rng.integers(0, 4, (3, 40, n_classes, 9))
    name = rung.float_dtypes[-1] if weighted else "int64"
    on_rung = rung.from_host(histogram, name)
    best, cut = gini_bins(xp, on_rung, 2)
    with portable_only():
        expected, expected_cut = gini_bins(xp, on_rung, 2)
    assert np.array_equal(rung.to_host(best), rung.to_host(expected))
    assert np.array_equal(rung.to_host(cut), rung.to_host(expected_cut))
    left = histogram.cumsum(axis=-1)
    right = left[..., -1:] - left
    is_allowed = (left.sum(axis=2) >= 2) & (right.sum(axis=2) >= 2)
    assert np.array_equal(rung.to_host(best) >= 0, is_allowed.any(axis=-1))


@pytest.mark.parametrize("with_missing", [False, True])
@pytest.mark.parametrize("n", [5, 40_000])
def test_follow_thresholds(rung, xp, with_missing, n):
    # three levels: node 0 asks column 1, its right child column 0
    feature, child = np.array([1, 0, 0, 0, 0]), np.array([1, 1, 3, 3, 4])
    threshold = np.array([0.5, np.inf, -0.25, np.inf, np.inf])
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, 2)).astype("float32")
    default = None
    if with_missing:
        x[::3] = np.nan
        default = rung.from_host([1, 0, 0, 0, 0])
    found = follow_thresholds(
        xp,
        rung.from_host(x),
        rung.from_host(feature),
        rung.from_host(threshold, rung.float_dtypes[-1]),
        rung.from_host(child),
        2,
        default,
    )
    first = np.where(np.isnan(x[:, 1]), 1, x[:, 1] > 0.5)
    second = np.where(np.isnan(x[:, 0]), 0, x[:, 0] > -0.25)
    assert_close(found, np.where(first == 0, 1, 3 + second).astype(np.int64))


def random_tree(rng, n_nodes, d):
    """A tree of thresholds in the form of `follow_thresholds`, its depth, and the sides of NaN."""
    feature, child = rng.integers(0, d, n_nodes), np.arange(n_nodes)
    threshold = np.full(n_nodes, np.inf)
    depth, side = np.zeros(n_nodes, dtype=int), np.zeros(n_nodes, dtype=int)
    open_nodes, first = [0], 1
    while first + 2 <= n_nodes:
        node = open_nodes.pop(int(rng.integers(len(open_nodes))))
        child[node], threshold[node] = first, np.float32(rng.standard_normal())
        side[node] = rng.integers(2)
        depth[first : first + 2] = depth[node] + 1
        open_nodes += [first, first + 1]
        first += 2
    return feature, threshold, child, int(depth.max()), side


# many rows are cut into blocks on NumPy only
@pytest.mark.parametrize("n", [3, 1030, pytest.param(25_000, marks=pytest.mark.rungs("numpy"))])
@pytest.mark.parametrize("with_missing", [False, True])
def test_follow_thresholds_down_a_deep_tree(rung, xp, dtype, n, with_missing):
    rng = np.random.default_rng(n)
    feature, threshold, child, depth, side = random_tree(rng, 401, 5)
    assert depth > 8
    name = str(dtype).rpartition(".")[2].strip("'<> ")
    x = rng.standard_normal((n, 5)).astype(name)
    if with_missing:
        x[rng.random((n, 5)) < 0.2] = np.nan
    node = np.zeros(n, dtype=np.int64)
    for _ in range(depth):
        value = x[np.arange(n), feature[node]]
        right = np.where(np.isnan(value), side[node], value > threshold[node])
        node = child[node] + np.where(child[node] == node, 0, right)
    on = [rung.from_host(part) for part in (feature, threshold.astype(name), child)]
    default = rung.from_host(side) if with_missing else None
    with rung.forbid_syncs():
        found = follow_thresholds(xp, rung.from_host(x), *on, depth, default)
    assert_close(found, node)
