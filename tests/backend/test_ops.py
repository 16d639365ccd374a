"""Each primitive: its contract by hand, the native body against the portable one, no wait for the device."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arraylearn.backend.arrays.gather import top_k
from arraylearn.backend.arrays.linear import cholesky, logsumexp, solve_triangular
from arraylearn.backend.arrays.order import argsort_rows, bin_columns, compress
from arraylearn.backend.arrays.segments import histogram, paired_histogram, segment_max, segment_sum
from arraylearn.backend.dispatch import portable_only
from tests.backends.assertions import assert_close
from tests.backends.rungs import named

SHAPES = [(0, 3), (1, 1), (7, 1), (50, 4), (50, 1000)]  # (rows, segments); the last has empty segments


def by_hand_sum(values, segments, n):
    sums = np.zeros((n, *values.shape[1:]), dtype=values.dtype)
    for value, segment in zip(values, segments, strict=True):
        sums[segment] += value
    return sums


def both(rung, function):
    """The result of a primitive without a sync; where a native body may serve, that of both bodies."""
    with rung.forbid_syncs():
        result = function()
    if rung.name in named("library"):
        with rung.forbid_syncs(), portable_only():
            portable = function()
        pairs = zip(result, portable, strict=True) if isinstance(result, tuple) else [(result, portable)]
        for one, other in pairs:
            assert_close(one, other)
    return result


@pytest.mark.parametrize(("m", "n"), SHAPES)
@pytest.mark.parametrize("width", [(), (3,)])
def test_segment_sum(rung, xp, float_dtype_name, m, n, width):
    rng = np.random.default_rng(m)
    values = rng.normal(size=(m, *width)).astype(float_dtype_name)
    segments = rng.integers(0, n, m)
    x, s = rung.from_host(values), rung.from_host(segments)
    sums = both(rung, lambda: segment_sum(xp, x, s, n))
    accumulated = "float64" if "float64" in rung.float_dtypes else "float32"
    expected = by_hand_sum(values.astype("float64"), segments, n).astype(accumulated)
    assert_close(sums, expected, atol=1e-6 if accumulated == "float32" else 1e-12)


def test_segment_sum_of_integers_is_exact_past_the_mantissa(rung, xp):
    values = rung.from_host(np.array([2**53, 1, 1, -5], dtype=np.int64))
    segments = rung.from_host(np.array([1, 1, 1, 0]))
    assert_close(both(rung, lambda: segment_sum(xp, values, segments, 3)), [-5, 2**53 + 2, 0])


@pytest.mark.parametrize(("m", "n"), SHAPES)
@pytest.mark.parametrize("kind", ["int32", "int64", "float32"])
def test_segment_max(rung, xp, m, n, kind):
    rng = np.random.default_rng(m)
    values = (rng.normal(size=m) * 100).astype(kind)
    segments = rng.integers(0, n, m)
    lowest = -np.inf if kind == "float32" else np.iinfo(kind).min
    expected = np.full(n, lowest, dtype=kind)
    for value, segment in zip(values, segments, strict=True):
        expected[segment] = max(expected[segment], value)
    x, s = rung.from_host(values), rung.from_host(segments)
    assert_close(both(rung, lambda: segment_max(xp, x, s, n)), expected)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (0,)])
@pytest.mark.parametrize("weighted", ["counts", "integers", "floats", "floats per batch"])
@pytest.mark.parametrize("m", [0, 1, 40])
def test_histogram(rung, xp, batch, weighted, m):
    rng = np.random.default_rng(m)
    n = 5
    keys = rng.integers(0, n, (*batch, m))
    shape = keys.shape if weighted == "floats per batch" else (m,)
    weights = None
    if weighted == "integers":
        weights = rng.integers(-9, 9, shape)
    elif weighted != "counts":
        weights = rng.random(shape).astype(rung.float_dtypes[-1])
    w = np.broadcast_to(np.ones(m, dtype=np.int64) if weights is None else weights, keys.shape)
    expected = np.zeros((*batch, n), dtype=w.dtype)
    for index in np.ndindex(*batch):
        expected[index] = by_hand_sum(w[index], keys[index], n)
    k = rung.from_host(keys)
    on_device = None if weights is None else rung.from_host(weights)
    assert_close(both(rung, lambda: histogram(xp, k, n, on_device)), expected)


@pytest.mark.parametrize("kind", ["uint8", "int16", "int32"])
@pytest.mark.parametrize("weighted", [None, "int64", "float32"])
@pytest.mark.parametrize(("d", "m"), [(1, 1), (3, 0), (4, 200)])
def test_paired_histogram(rung, xp, kind, weighted, d, m):
    rng = np.random.default_rng(d)
    columns, keys = rng.integers(0, 6, (d, m)).astype(kind), rng.integers(0, 3, m)
    weights = None if weighted is None else rng.integers(0, 5, m).astype(weighted)
    expected = np.zeros((d, 3, 6), dtype=np.int64)
    for j in range(d):
        for i in range(m):
            expected[j, keys[i], columns[j, i]] += 1 if weights is None else int(weights[i])
    c, k = rung.from_host(columns), rung.from_host(keys)
    w = None if weights is None else rung.from_host(weights)
    counts = both(rung, lambda: paired_histogram(xp, c, k, 6, 3, w))
    if weighted == "float32":
        expected = expected.astype(rung.float_dtypes[-1])
    assert_close(counts, expected)


@pytest.mark.parametrize("mode", ["never", "auto"])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_paired_histogram_in_several_chunks_and_threads(monkeypatch, mode, n_threads):
    import array_api_compat.numpy as xp

    monkeypatch.setattr("arraylearn.backend.threads._num_threads", n_threads)
    monkeypatch.setattr("arraylearn.backend.dispatch._mode", mode)
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 9, (3, 100_003)).astype(np.uint8)
    keys, weights = rng.integers(0, 2, 100_003), rng.integers(0, 3, 100_003)
    for w in (None, weights, weights.astype(float)):
        with portable_only():
            expected = paired_histogram(xp, columns, keys, 9, 2, w)
        np.testing.assert_array_equal(paired_histogram(xp, columns, keys, 9, 2, w), expected)
    keys[-1] = 2
    with pytest.raises(ValueError, match=r"range|shape"):
        paired_histogram(xp, columns, keys, 9, 2)


@pytest.mark.parametrize("width", [(), (2,)])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("m", [1, 60])
def test_compress(rung, xp, width, share, m):
    rng = np.random.default_rng(m)
    values = rng.normal(size=(m, *width)).astype("float32")
    keep = rng.random(m) < share
    x, k = rung.from_host(values), rung.from_host(keep)
    assert_close(both(rung, lambda: compress(xp, x, k, int(keep.sum()))), values[keep])


def test_compress_of_nothing(rung, xp):
    x, k = rung.from_host(np.zeros(0, dtype=np.int64)), rung.from_host(np.zeros(0, dtype=bool))
    assert_close(both(rung, lambda: compress(xp, x, k, 0)), np.zeros(0, dtype=np.int64))


@pytest.mark.parametrize("kind", ["int64", "float32"])
@pytest.mark.parametrize("k", [0, 1, 4, 9])
def test_top_k_breaks_ties_by_position(rung, xp, kind, k):
    values = np.array([[3, 1, 3, 2, 3, 0, 2, 2, 1], [0, 0, 0, 0, 0, 0, 0, 0, 0]]).astype(kind)
    order = np.array([[0, 2, 4, 3, 6, 7, 1, 8, 5], range(9)])[:, :k]
    x = rung.from_host(values)
    largest, indices = both(rung, lambda: top_k(xp, x, k))
    assert_close(indices, order)
    assert_close(largest, np.take_along_axis(values, order, axis=1))


@pytest.mark.parametrize(
    "kind",
    [
        "float32",
        pytest.param("float64", marks=pytest.mark.rungs("float64")),
        "int8",
        "int32",
        "int64",
        "uint8",
    ],
)
def test_argsort_rows_is_stable(rung, xp, kind):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 9, (3, 200)).astype(kind)
    if kind.startswith("float"):
        values -= 4
        values[0, ::7] = np.nan
        values[1, ::5], values[1, 1::5] = -0.0, 0.0
        values[2, 3], values[2, 4] = np.inf, -np.inf
    elif not kind.startswith("u"):
        values -= 4
        values[1, :2] = np.iinfo(kind).min, np.iinfo(kind).max
    x = rung.from_host(values)
    assert_close(both(rung, lambda: argsort_rows(xp, x)), np.argsort(values, axis=1, kind="stable"))


@pytest.mark.rungs("host")
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=60))
def test_argsort_rows_sorts_any_double(rung, xp, values):
    x = np.resize(np.array([values, values[::-1]], dtype=np.float64), (2, 600))  # long enough to be compiled
    np.testing.assert_array_equal(argsort_rows(xp, x), np.argsort(x, axis=1, kind="stable"))


def bins_by_hand(x, edges, missing_bin):
    finite = [row[np.isfinite(row)] for row in edges]
    bins = np.stack([np.searchsorted(edge, x[:, j]) for j, edge in enumerate(finite)])
    return np.where(np.isnan(x.T), missing_bin, bins)


def test_bin_columns(rung, xp, float_dtype_name):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4)).astype(float_dtype_name)
    edges = np.sort(rng.normal(size=(4, 12)), axis=1).astype(float_dtype_name)
    edges[1, 5:], edges[2, :] = np.inf, np.inf
    x[:12, 0] = edges[0]  # on the edge: below
    x[::9, 3], x[1, 0], x[2, 0], x[3, 2] = np.nan, np.inf, -np.inf, np.inf
    values, bounds = rung.from_host(x), rung.from_host(edges)
    bins = both(rung, lambda: bin_columns(xp, values, bounds, missing_bin=13))
    assert_close(bins, bins_by_hand(x, edges, 13).astype("uint8"))
    wide = both(rung, lambda: bin_columns(xp, values, bounds, missing_bin=300))
    assert_close(wide, bins_by_hand(x, edges, 300).astype("int16"))


@pytest.mark.rungs("host")
@settings(max_examples=300)
@given(
    st.lists(
        st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20, unique=True
    ),
    st.lists(st.floats(width=32), min_size=1, max_size=40),
)
def test_bins_equal_a_search(rung, xp, edges, values):
    """The grid of the compiled body must be right for edges of any spacing, huge spreads included."""
    bounds = np.unique(np.array(edges, dtype=np.float32) + np.float32(0))[None, :]
    x = np.array([*values, *bounds[0]], dtype=np.float32)[:, None]
    bins = bin_columns(xp, x, bounds, missing_bin=99)
    np.testing.assert_array_equal(bins, bins_by_hand(x, bounds, 99))


def covariances(dtype):
    rng = np.random.default_rng(3)
    a = rng.normal(size=(4, 5, 9))
    a = a @ a.swapaxes(1, 2)
    a[1] = np.ones((5, 5))  # rank one
    a[2, 0, 0] = -1.0  # indefinite
    return a.astype(dtype)


def test_cholesky_reports_failure_as_a_value(rung, xp, float_dtype_name):
    a = covariances(float_dtype_name)
    factor, is_definite = both(rung, lambda: cholesky(xp, rung.from_host(a)))
    assert_close(is_definite, [True, False, False, True])
    expected = np.stack([np.linalg.cholesky(a[i]) if i in (0, 3) else np.eye(5) for i in range(4)])
    assert_close(
        factor, expected.astype(float_dtype_name), rtol=1e-3 if float_dtype_name == "float32" else None
    )
    single, is_definite = both(rung, lambda: cholesky(xp, rung.from_host(a[0])))
    assert_close(single, factor[0, ...])
    assert is_definite.shape == ()


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_cholesky_judges_by_the_scale_of_the_matrix(rung, xp, scale):
    a = (covariances("float64")[:2] * scale).astype(rung.float_dtypes[-1])
    assert_close(cholesky(xp, rung.from_host(a))[1], [True, False])


def test_cholesky_of_nan_fails(rung, xp):
    a = np.full((2, 3, 3), np.nan, dtype="float32")
    a[0] = np.eye(3)
    factor, is_definite = cholesky(xp, rung.from_host(a))
    assert_close(is_definite, [True, False])
    assert_close(factor, np.stack([np.eye(3, dtype="float32")] * 2))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("batches", [((), ()), ((3,), (3,)), ((3,), ()), ((), (3,)), ((2, 1), (1, 3))])
def test_solve_triangular(rung, xp, float_dtype_name, upper, batches):
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(*batches[0], 4, 4)) + 4 * np.eye(4)  # the other triangle must not be read
    right = rng.normal(size=(*batches[1], 4, 2))
    expected = np.linalg.solve(np.triu(factor) if upper else np.tril(factor), right)
    f, r = rung.from_host(factor.astype(float_dtype_name)), rung.from_host(right.astype(float_dtype_name))
    # no no_sync here: the portable body solves in general, and torch waits to raise in that
    solution = solve_triangular(xp, f, r, upper=upper)
    assert_close(
        solution, expected.astype(float_dtype_name), rtol=1e-3 if float_dtype_name == "float32" else None
    )
    with portable_only():
        assert_close(solve_triangular(xp, f, r, upper=upper), solution)


@pytest.mark.rungs("library")  # on the others the portable body is the standard's own solve
def test_native_solve_triangular_does_not_wait(rung, xp):
    f, r = (
        rung.from_host(np.eye(3)[None].astype("float32")),
        rung.from_host(np.ones((1, 3, 1), dtype="float32")),
    )
    with rung.forbid_syncs():
        solution = solve_triangular(xp, f, r)
    assert_close(solution, np.ones((1, 3, 1), dtype="float32"))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_logsumexp(rung, xp, float_dtype_name, axis):
    x = np.array([[-1e4, -1e4 + 1, -np.inf], [3.0, 700.0, 1e4], [-np.inf] * 3]).astype(float_dtype_name)
    on_device = rung.from_host(x)
    with np.errstate(divide="ignore"):
        big = x.astype("longdouble")
        expected = np.log(np.sum(np.exp(big), axis=axis)).astype(float_dtype_name)
    found = both(rung, lambda: logsumexp(xp, on_device, axis=axis))
    assert_close(found, expected)


@settings(max_examples=30)
@given(
    keys=st.lists(st.integers(0, 11), max_size=80),
    seed=st.integers(0, 2**16),
)
def test_natives_equal_the_portable_bodies_on_random_keys(rung, xp, keys, seed):
    rng = np.random.default_rng(seed)
    k = rung.from_host(np.array(keys, dtype=np.int64))
    integers = rung.from_host(rng.integers(-(10**12), 10**12, len(keys)))
    floats = rung.from_host(rng.random(len(keys)).astype("float32"))
    both(rung, lambda: histogram(xp, k, 12))
    both(rung, lambda: segment_sum(xp, integers, k, 12))
    both(rung, lambda: segment_max(xp, floats, k, 12))
    total = both(rung, lambda: histogram(xp, k, 12, integers))
    with_two = rung.from_host(np.stack([np.array(keys, dtype=np.int64)] * 2))
    stacked = both(rung, lambda: histogram(xp, with_two, 12, integers))
    assert_close(stacked[1, ...], total)
