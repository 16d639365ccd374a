"""Moments and log densities: NumPy, SciPy and scikit-learn as oracles; offsets, weights, gaps, failures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.datasets import load_digits, load_iris
from sklearn.naive_bayes import GaussianNB

import arraylearn as al
from arraylearn.backend.arrays.moments import grouped_moments
from arraylearn.backend.dispatch import portable_only
from arraylearn.gaussian import (
    amplification,
    diagonal_log_density,
    factor_covariances,
    full_log_density,
    is_expansion_safe,
    log_density,
    merge_moments,
    moments,
)
from tests.backends.assertions import assert_close


def make_classes(seed, n=200, d=4, k=3, offset=0.0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, k, n)
    x = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 3.0 * codes[:, None] + offset
    root = rng.normal(size=(k, d, d + 2))
    return {
        "x": x,
        "codes": codes,
        "weights": rng.integers(0, 4, n).astype(float),
        "mean": rng.normal(size=(k, d)) + offset,
        "cov": root @ root.transpose(0, 2, 1) / d,
    }


def loose(rung):
    """Tolerances for sums of float32 where the device has nothing wider."""
    return {} if "float64" in rung.float_dtypes else {"rtol": 2e-4, "atol": 2e-4}


# ---- moments


@pytest.mark.parametrize("divisor", ["unbiased", "ml"])
@pytest.mark.parametrize("covariance", ["full", "shared", "diagonal"])
def test_moments_equal_numpy(rung, no_sync, divisor, covariance):
    data = make_classes(0)
    top = rung.float_dtypes[-1]
    x, codes = rung.from_host(data["x"], top), rung.from_host(data["codes"])
    with no_sync():
        found = moments(x, codes, 3, covariance=covariance, divisor=divisor)
    groups = [data["x"][data["codes"] == c] for c in range(3)]
    ddof = 1 if divisor == "unbiased" else 0
    matrices = np.stack([np.cov(group.T, ddof=ddof) for group in groups])
    sizes = np.asarray([len(group) for group in groups])
    expected = {
        "full": matrices,
        "shared": np.einsum("k,kij->ij", sizes - ddof, matrices) / (sizes - ddof).sum(),
        "diagonal": matrices.diagonal(axis1=1, axis2=2),
    }[covariance]
    assert_close(found.weight, sizes.astype(float), dtype=top)
    assert_close(found.mean, np.stack([group.mean(0) for group in groups]), dtype=top, **loose(rung))
    assert_close(found.covariance, expected, dtype=top, **loose(rung))


@pytest.mark.parametrize("covariance", ["full", "shared", "diagonal"])
def test_weights_are_repetitions(rung, dtype, covariance):
    data = make_classes(1)
    repeats = data["weights"].astype(int)
    found = moments(
        rung.from_host(data["x"], dtype),
        rung.from_host(data["codes"]),
        3,
        weights=rung.from_host(data["weights"], dtype),
        covariance=covariance,
    )
    expected = moments(
        rung.from_host(np.repeat(data["x"], repeats, axis=0), dtype),
        rung.from_host(np.repeat(data["codes"], repeats)),
        3,
        covariance=covariance,
    )
    for part, wanted in zip(found, expected, strict=True):
        assert_close(part, wanted, **loose(rung))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_too_few_rows(rung, n):
    found = moments(
        rung.from_host(np.ones((n, 2)), rung.float_dtypes[-1]), rung.from_host(np.zeros(n, dtype=int)), 2
    )
    assert_close(found.weight, [float(n), 0.0])
    assert_close(found.mean, [[float(n > 0)] * 2, [0.0, 0.0]])
    assert_close(found.covariance, np.zeros((2, 2, 2)).tolist())


def test_gaps_are_left_out(rung, no_sync):
    data = make_classes(2)
    x = data["x"].copy()
    x[np.random.default_rng(0).random(x.shape) < 0.3] = np.nan
    top = rung.float_dtypes[-1]
    arguments = rung.from_host(x, top), rung.from_host(data["codes"]), 3
    with no_sync():
        found = moments(*arguments, covariance="diagonal", missing="skip")
    groups = [x[data["codes"] == c] for c in range(3)]
    assert_close(found.weight, np.stack([(~np.isnan(g)).sum(0) for g in groups]).astype(float), dtype=top)
    assert_close(found.mean, np.stack([np.nanmean(g, axis=0) for g in groups]), dtype=top, **loose(rung))
    variances = np.stack([np.nanvar(g, axis=0, ddof=1) for g in groups])
    assert_close(found.covariance, variances, dtype=top, **loose(rung))


def test_a_column_of_gaps_alone(rung):
    x = rung.from_host([[np.nan, 1.0], [np.nan, 3.0]], rung.float_dtypes[-1])
    found = moments(x, rung.from_host([0, 0]), 1, covariance="diagonal", missing="skip")
    assert_close(found.weight, [[0.0, 2.0]])
    assert_close(found.mean, [[0.0, 2.0]])
    assert_close(found.covariance, [[0.0, 2.0]])


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.rungs("float64")  # float32 cannot hold the offset
def test_huge_offsets_cost_no_digits(rung, full):
    # eighths of small integers stay exact at an offset of 1e9, even where classes lie 2e9 apart
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 5_000)
    small = rng.integers(-40, 40, (5_000, 3)) / 8.0
    x = small + 1e9 + 1e9 * codes[:, None]
    found = grouped_moments(rung.load(), rung.from_host(x), rung.from_host(codes), 3, full=full)
    for c in range(3):
        group = small[codes == c]
        scatter = np.cov(group.T, ddof=0) * len(group)
        wanted = scatter if full else np.diagonal(scatter)
        np.testing.assert_allclose(rung.to_host(found.scatter)[c], wanted, rtol=1e-7, atol=1e-4)
        np.testing.assert_allclose(rung.to_host(found.mean)[c], group.mean(0) + 1e9 * (c + 1), rtol=1e-15)


@pytest.mark.parametrize("options", [{}, {"full": True}, {"skip_missing": True}], ids=str)
def test_merging_parts_gives_the_whole(rung, no_sync, options):
    data = make_classes(3)
    xp, top = rung.load(), rung.float_dtypes[-1]
    x, codes = rung.from_host(data["x"], top), rung.from_host(data["codes"])
    whole = grouped_moments(xp, x, codes, 4, **options)  # class 3 stays empty
    with no_sync():
        merged = merge_moments(
            xp,
            grouped_moments(xp, x[:70, :], codes[:70], 4, **options),
            grouped_moments(xp, x[70:, :], codes[70:], 4, **options),
        )
    for part, wanted in zip(merged, whole, strict=True):
        assert_close(part, wanted, **loose(rung))


@pytest.mark.parametrize("n", [3, 5_000, 40_000])
@pytest.mark.parametrize("options", [{}, {"full": True}, {"skip_missing": True}], ids=str)
def test_numpy_native_equals_portable(n, options):
    data = make_classes(n, n=n, d=7, k=5, offset=100.0)
    for dtype in ("float32", "float64"):
        x = data["x"].astype(dtype)
        if options.get("skip_missing"):
            x[np.random.default_rng(0).random(x.shape) < 0.2] = np.nan
        for weights in (None, data["weights"]):
            found = grouped_moments(np, x, data["codes"], 6, weights, **options)
            with portable_only():
                expected = grouped_moments(np, x, data["codes"], 6, weights, **options)
            for part, wanted in zip(found, expected, strict=True):
                assert part.dtype == np.float64
                np.testing.assert_allclose(part, wanted, rtol=1e-9, atol=1e-8)


@given(st.integers(0, 10_000), st.floats(-1e3, 1e3), st.floats(0.01, 100))
def test_shift_and_scale(seed, shift, scale):
    data = make_classes(seed, n=40)
    plain = moments(data["x"], data["codes"], 3)
    other = moments(data["x"] * scale + shift, data["codes"], 3)
    np.testing.assert_allclose(other.covariance, plain.covariance * scale**2, rtol=1e-6, atol=1e-6)
    occurs = plain.weight > 0
    np.testing.assert_allclose(other.mean[occurs], plain.mean[occurs] * scale + shift, rtol=1e-9, atol=1e-9)


# ---- full covariances


def test_log_density_equals_scipy(rung, dtype):
    data = make_classes(0)
    on = [rung.from_host(data[name], dtype) for name in ("x", "mean", "cov")]
    expected = scipy_log_density(data)
    # far rows have log densities in the hundreds
    assert_close(log_density(*on), expected, dtype=dtype, rtol=None if "64" in str(dtype) else 2e-3)


def scipy_log_density(data):
    pairs = zip(data["mean"], data["cov"], strict=True)
    return np.stack([stats.multivariate_normal(m, c).logpdf(data["x"]) for m, c in pairs], axis=1)


def test_the_kernels_do_not_sync(rung, no_sync):
    data = make_classes(0)
    xp, top = rung.load(), rung.float_dtypes[-1]
    x, mean, cov = (rung.from_host(data[name], top) for name in ("x", "mean", "cov"))
    with no_sync():
        model = factor_covariances(xp, mean, cov)
        found = full_log_density(xp, model, x)
    assert_close(
        found, scipy_log_density(data), dtype=top, rtol=1e-9 if "float64" in rung.float_dtypes else 2e-3
    )
    assert_close(model.is_definite, [True] * 3)


def test_shared_covariance_and_batches(rung, dtype):
    data = [make_classes(seed) for seed in (0, 1)]
    stacked = {name: np.stack([part[name] for part in data]) for name in ("x", "mean", "cov")}
    on = {name: rung.from_host(value, dtype) for name, value in stacked.items()}
    tolerance = {"rtol": 1e-9} if "64" in str(dtype) else {"rtol": 2e-3}
    found = log_density(on["x"], on["mean"], on["cov"])
    assert_close(found, np.stack([scipy_log_density(part) for part in data]), dtype=dtype, **tolerance)
    shared = log_density(on["x"], on["mean"], on["cov"][:, :1, :, :])
    alike = [{**part, "cov": np.repeat(part["cov"][:1], 3, axis=0)} for part in data]
    assert_close(shared, np.stack([scipy_log_density(part) for part in alike]), dtype=dtype, **tolerance)


def densities(model, var, x, gapped):
    """Every way to a log density."""
    yield full_log_density(np, model, x)
    for by_product in (False, True):
        yield diagonal_log_density(np, x, model.mean, var, by_product=by_product)
        yield diagonal_log_density(np, gapped, model.mean, var, by_product=by_product, skip_missing=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "d", "k"), [(0, 3, 2), (1, 1, 1), (3_000, 5, 3), (70_000, 3, 2)])
def test_numpy_squares_native_equals_portable(n, d, k, dtype):
    data = make_classes(0, n=n, d=d, k=k)
    cast = {name: data[name].astype(dtype) for name in ("x", "mean", "cov")}
    gapped = np.where(np.random.default_rng(1).random((n, d)) < 0.2, np.nan, cast["x"]).astype(dtype)
    model = factor_covariances(np, cast["mean"], cast["cov"])
    arguments = (model, cast["cov"].diagonal(axis1=1, axis2=2), cast["x"], gapped)
    found = list(densities(*arguments))
    with portable_only():
        expected = list(densities(*arguments))
    tolerance = {"rtol": 1e-9} if dtype == "float64" else {"rtol": 1e-3, "atol": 1e-3}
    for part, wanted in zip(found, expected, strict=True):
        assert part.dtype == dtype
        assert part.shape == (n, k)
        np.testing.assert_allclose(part, wanted, **tolerance)


@pytest.mark.rungs("float64")  # float32 cannot hold the offset
def test_offset_of_all_rows(rung):
    plain, far = make_classes(0), make_classes(0, offset=2.0**30)
    on = [rung.from_host(far[name]) for name in ("x", "mean", "cov")]
    assert_close(log_density(*on), scipy_log_density(plain), rtol=1e-4)


def test_singular_covariances_are_named(rung, no_sync):
    xp, top = rung.load(), rung.float_dtypes[-1]
    good, bad = np.eye(3), np.ones((3, 3))
    x, mean = rung.from_host(np.zeros((2, 3)), top), rung.from_host(np.zeros((3, 3)), top)
    cov = rung.from_host(np.stack([good, good, bad]), top)
    with no_sync():
        model = factor_covariances(xp, mean, cov)
        values = full_log_density(xp, model, x)
    assert_close(model.is_definite, [True, True, False])
    assert np.isfinite(rung.to_host(values)).all()
    with pytest.raises(ValueError, match=r"the covariance of class 2 is not\. Columns may be constant"):
        log_density(x, mean, cov)


# ---- diagonal covariances


@pytest.mark.parametrize("by_product", [False, True])
def test_diagonal_equals_scipy(rung, dtype, no_sync, by_product):
    data = make_classes(0)
    var = data["cov"].diagonal(axis1=1, axis2=2)
    on = [rung.from_host(value, dtype) for value in (data["x"], data["mean"], var)]
    with no_sync():
        found = diagonal_log_density(rung.load(), *on, by_product=by_product)
    pairs = zip(data["mean"], np.sqrt(var), strict=True)
    expected = np.stack([stats.norm(m, s).logpdf(data["x"]).sum(1) for m, s in pairs], axis=1)
    assert_close(found, expected, dtype=dtype, rtol=None if "64" in str(dtype) else 1e-3)


@pytest.mark.parametrize("by_product", [False, True])
def test_gaps_add_nothing(rung, dtype, no_sync, by_product):
    data = make_classes(0)
    var = data["cov"].diagonal(axis1=1, axis2=2)
    x = np.where(np.random.default_rng(0).random(data["x"].shape) < 0.3, np.nan, data["x"])
    on = [rung.from_host(value, dtype) for value in (x, data["mean"], var)]
    with no_sync():
        found = diagonal_log_density(rung.load(), *on, by_product=by_product, skip_missing=True)
    pairs = zip(data["mean"], np.sqrt(var), strict=True)
    expected = np.stack([np.nansum(stats.norm(m, s).logpdf(x), axis=1) for m, s in pairs], axis=1)
    assert_close(
        found,
        expected,
        dtype=dtype,
        rtol=None if "64" in str(dtype) else 1e-3,
        atol=1e-3 if "32" in str(dtype) else None,
    )


def is_safe(xp, mean, var, dtype):
    return is_expansion_safe(xp, float(amplification(xp, mean, var)), dtype)


@pytest.mark.parametrize("load", [load_iris, load_digits])
@pytest.mark.rungs("float64")  # the variance floor of digits is beyond float32
def test_posteriors_of_gaussian_naive_bayes(rung, load):
    x, y = load(return_X_y=True)
    peer = GaussianNB().fit(x, y)
    on = [rung.from_host(value) for value in (x, peer.theta_, peer.var_)]
    for by_product in {False, is_safe(rung.load(), on[1], on[2], on[0].dtype)}:
        joint = rung.to_host(diagonal_log_density(rung.load(), *on, by_product=by_product))
        joint = joint + np.log(peer.class_prior_)
        posterior = np.exp(joint - joint.max(axis=1, keepdims=True))
        posterior /= posterior.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(posterior, peer.predict_proba(x), atol=1e-6)


def test_products_are_chosen_where_they_are_safe(rung):
    xp, top = rung.load(), rung.float_dtypes[-1]
    near = rung.from_host([[0.0, 1.0], [1.0, 0.0]], top)
    assert_close(amplification(xp, near, xp.ones_like(near)), 0.5)
    assert is_safe(xp, near, xp.ones_like(near), near.dtype)
    tiny = rung.from_host([[1e-12, 1.0], [1.0, 1e-12]], top)
    assert not is_safe(xp, near, tiny, near.dtype)


@given(st.integers(0, 1000))
def test_products_agree_with_the_direct_way(seed):
    data = make_classes(seed, n=30)
    var = data["cov"].diagonal(axis1=1, axis2=2)
    if is_safe(np, data["mean"], var, np.float64):
        arguments = (np, data["x"], data["mean"], var)
        direct, product = (diagonal_log_density(*arguments, by_product=way) for way in (False, True))
        np.testing.assert_allclose(product, direct, rtol=1e-7, atol=1e-6)


# ---- the doors


def test_lists_and_mixed_places():
    assert log_density([[0]], [[0]], [[[1]]]).dtype == np.float64
    found = moments([[1], [2], [3]], [0, 0, 1], 2, covariance="diagonal", weights=[1, 1, 2])
    np.testing.assert_allclose(found.covariance, [[0.5], [0.0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: log_density([0.0], [[0.0]], [[[1.0]]]), "`X` must have the axes"),
        (
            lambda: log_density([[0.0]], [[0.0, 1.0]], [[[1.0]]]),
            r"`mean` must have the axes \(..., class, 1\)",
        ),
        (lambda: log_density([[0.0]], [[0.0]], [[1.0]]), r"`cov` must have the axes \(..., 1 or 1, 1, 1\)"),
        (lambda: moments([0.0], [0], 1), "`X` must have the axes"),
        (lambda: moments([[0.0]], [0, 1], 1), r"`codes` must have one entry per row \(1\)"),
        (lambda: moments([[0.0]], [0], 1, divisor="n"), "`divisor` must be 'unbiased' or 'ml'; got 'n'"),
        (lambda: moments([[0.0]], [0], 1, missing="skip"), "`missing` can be 'skip' for the diagonal"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_public_names():
    for name in al.gaussian.__all__:
        assert hasattr(al.gaussian, name)
