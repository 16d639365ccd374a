"""The block primitives: every rung against plain loops, and against the portable body."""

import numpy as np
import pytest

from arraylearn.backend.arrays.segments import block_index, block_max, first_in_block, scatter, split_lists
from arraylearn.backend.dispatch import portable_only
from arraylearn.grow.histograms.gini_bins import gini_bins
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
