"""Quantile edges and bins: the same on every rung, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from arraylearn.backend.dispatch import tuned
from arraylearn.table import bin_table, binning, quantile_edges
from tests.backends.assertions import assert_close

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.1, 5e-324, 1e-40, 1.0000001, 3.4e38, -3.4e38, 1e30, 2.0, 3.0]


def edges_of(x, n_bins=255):
    x = np.asarray(x)
    found = quantile_edges(np, x if x.ndim == 2 else x[:, None], n_bins)
    return [row[np.isfinite(row)].tolist() for row in found]


def test_few_values_have_an_edge_between_any_two():
    assert edges_of([3.0, 1.0, np.nan, 7.0, 3.0]) == [[2.0, 5.0]]
    assert edges_of([[1.0, 5.0], [2.0, 5.0]]) == [[1.5], []]
    assert edges_of([1.0, 2.0, 3.0], n_bins=3) == [[1.5, 2.5]]
    assert edges_of([np.nan, np.nan]) == [[]]
    assert edges_of([-np.inf, 1.0, 2.0, np.inf]) == [[1.5]]


def test_many_values_have_bins_of_equal_size():
    assert edges_of(np.arange(100.0), n_bins=4) == [[24.5, 49.5, 74.5]]
    x = np.random.default_rng(0).normal(size=(10_000, 1))
    bins = bin_table(np, x, quantile_edges(np, x, 50)).codes[0]
    assert set(np.bincount(bins)) == {200}


def test_frequent_values_leave_their_bins_to_the_others():
    rng = np.random.default_rng(0)
    x = np.concatenate((np.zeros(9_000), rng.uniform(1, 2, size=1_000)))
    edges = np.array(edges_of(x, n_bins=100)[0])
    assert edges.shape[0] > 90
    assert edges[0] < 1
    most = np.concatenate((np.full(100_000, 7.0), rng.uniform(0, 1, size=300)))
    assert len(edges_of(most, n_bins=100)[0]) > 90
    assert edges_of(most, n_bins=2)[0][0] > 0.4


def test_edges_lie_between_neighbours_of_any_size():
    huge = np.finfo(np.float64).max
    assert edges_of([-huge, huge]) == [[0.0]]
    assert edges_of([0.9 * huge, huge]) == [[pytest.approx(0.95 * huge)]]
    one, next_one = 1.0, np.nextafter(1.0, 2.0)
    assert edges_of([one, next_one]) == [[one]]
    tiny = np.nextafter(0.0, 1.0)
    assert edges_of([0.0, tiny]) == [[0.0]]
    assert edges_of(np.array([-tiny, 0.0])) == [[-tiny]]


def test_every_rung_agrees_to_the_last_bit(rung, xp, dtype, float_dtype_name):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(500, 6))
    x[:, 1] = np.round(x[:, 1], 1)
    x[:, 2] = rng.choice(SPECIAL, 500)
    x[rng.uniform(size=x.shape) < 0.1] = np.nan
    x = x.astype(float_dtype_name)
    for n_bins in (2, 16, 255, 300):
        expected = quantile_edges(np, x, n_bins)
        found = quantile_edges(xp, rung.from_host(x), n_bins)
        assert_close(found, expected, dtype=dtype, rtol=0, atol=0)
        bins = bin_table(xp, rung.from_host(x), found)
        assert_close(bins.codes, bin_table(np, x, expected).codes)
        assert bins.missing_bin == n_bins
        assert bins.n_bins == n_bins + 1


@tuned(binning_sample=300)
def test_large_tables_are_sampled(rung, xp):
    x = np.sort(np.random.default_rng(0).normal(size=(1_000, 2)), axis=0).astype(np.float32)
    expected = quantile_edges(np, x, 10)
    assert_close(quantile_edges(xp, rung.from_host(x), 10), expected, rtol=0, atol=0)
    bins = bin_table(np, x, expected).codes
    assert np.all(np.abs(np.bincount(bins[0]) - 100) < 15)
    rows = binning._sample_rows(1_000, 300)
    assert np.all(np.diff(rows) > 0)
    assert 0 <= rows[0] < rows[-1] < 1_000


@pytest.mark.rungs("guarded")
def test_binning_does_not_sync(rung, xp, no_sync):
    x = rung.from_host(np.random.default_rng(0).normal(size=(50, 3)), "float32")
    edges = quantile_edges(xp, x, 8)
    with no_sync():
        codes = bin_table(xp, x, edges).codes
    values, cuts = rung.to_host(x), rung.to_host(edges)
    counted = (values.T[:, :, None] > cuts[:, None, :]).sum(axis=2)
    np.testing.assert_array_equal(rung.to_host(codes), counted)


@settings(max_examples=80)
@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64]),
        st.tuples(st.integers(1, 60), st.integers(1, 2)),
        elements=st.sampled_from([np.nan, *np.float32(SPECIAL).tolist()]) | st.floats(-1e6, 1e6, width=32),
    ),
    st.integers(2, 20),
)
def test_edges_ascend_and_part_the_values(x, n_bins):
    edges = quantile_edges(np, x, n_bins)
    assert edges.shape == (x.shape[1], n_bins - 1)
    assert edges.dtype == x.dtype
    bins = bin_table(np, x, edges)
    for j in range(x.shape[1]):
        finite = edges[j][np.isfinite(edges[j])]
        assert np.all(np.diff(finite) > 0)
        assert np.all(np.isinf(edges[j][len(finite) :]))
        values = x[~np.isnan(x[:, j]), j]
        if len(np.unique(values)) <= n_bins:
            assert len(finite) == max(len(np.unique(values)) - 1, 0)
        # every bin up to the last holds something, and bin <= i exactly when x <= edge i
        assert set(bins.codes[j][~np.isnan(x[:, j])]) == (
            set(range(len(finite) + 1)) if len(values) else set()
        )
        for i, edge in enumerate(finite):
            np.testing.assert_array_equal(bins.codes[j] <= i, x[:, j] <= edge)
    np.testing.assert_array_equal(bins.codes == bins.missing_bin, np.isnan(x.T))


def test_quantiles_of_weights(rung, xp):
    rng = np.random.default_rng(2)
    x = np.round(rng.normal(size=(300, 3)), 2)
    x[::17, 1] = np.nan
    times = rng.integers(0, 4, 300)
    expected = quantile_edges(np, np.repeat(x, times, axis=0), 9)
    given = rung.from_host(x, rung.float_dtypes[-1])
    if "float64" in rung.float_dtypes:
        for factor in (1, 4, 0.37):
            assert_close(quantile_edges(xp, given, 9, factor * times), expected, rung=rung, rtol=0, atol=0)
        assert_close(quantile_edges(xp, given, 9, np.full(300, 2.5)), quantile_edges(np, x, 9), rung=rung)
    heavy = np.where(x[:, 0] > 1, 1e6, 1.0)
    assert (rung.to_host(quantile_edges(xp, given, 9, heavy))[0, :7] > 0.9).all()
