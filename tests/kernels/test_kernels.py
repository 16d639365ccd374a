"""Kernels: identities, scikit-learn, arithmetic, gaussian exactness, properties."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import pairwise

import arraylearn as al
from arraylearn.backend.dispatch import portable_only
from arraylearn.kernels import (
    Custom,
    Gaussian,
    Linear,
    Polynomial,
    Precomputed,
    Sigmoid,
    as_kernel,
    gram,
    resolve_gamma,
)
from tests.backends.assertions import assert_close

tables = arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 4)), elements=st.floats(-10, 10))


def rows(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


# ---- values


def test_gram_equals_scikit_learn(rung, dtype, no_sync):
    x, z = rows(0, 7, 3), rows(1, 5, 3)
    ours = rung.from_host(x, dtype), rung.from_host(z, dtype)
    cases = [
        (pairwise.linear_kernel(x, z), {"kernel": "linear"}),
        (
            pairwise.polynomial_kernel(x, z, degree=3, gamma=0.5, coef0=1),
            {"kernel": "poly", "gamma": 0.5, "coef0": 1.0},
        ),
        (pairwise.rbf_kernel(x, z, gamma=0.7), {"kernel": "rbf", "gamma": 0.7}),
        (pairwise.rbf_kernel(x, z), {"gamma": "auto"}),
        (
            pairwise.sigmoid_kernel(x, z, gamma=0.2, coef0=0.1),
            {"kernel": "sigmoid", "gamma": 0.2, "coef0": 0.1},
        ),
    ]
    for expected, options in cases:
        with no_sync():
            found = gram(*ours, **options)
        assert_close(found, expected, dtype=dtype, rtol=1e-4 if "32" in str(dtype) else None)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
def test_defaults_are_those_of_the_classifier(rung, dtype, kernel):
    x = 3.0 * rows(0, 12, 3)
    found = gram(rung.from_host(x, dtype), kernel=kernel)
    learned = al.SVC(kernel=kernel).fit(x, np.arange(12) % 2).kernel_
    assert_close(found, learned.gram(np, x), dtype=dtype, rtol=1e-4, atol=1e-5)


def phi(x):
    """The feature map of the inhomogeneous quadratic kernel in two dimensions."""
    a, b = x[:, 0], x[:, 1]
    root = np.sqrt(2)
    return np.stack([a * a, b * b, root * a, root * b, root * a * b, np.ones_like(a)], axis=1)


def test_quadratic_kernels_are_inner_products_of_features(rung):
    x = rows(0, 6, 2)
    dtype = rung.float_dtypes[-1]
    on = rung.from_host(x, dtype)
    inhomogeneous = gram(on, kernel="polynomial", gamma=1.0, degree=2, coef0=1.0)
    assert_close(inhomogeneous, phi(x) @ phi(x).T, dtype=dtype, rtol=1e-5, atol=1e-6)
    features = np.stack([x[:, 0] ** 2, np.sqrt(2) * x[:, 0] * x[:, 1], x[:, 1] ** 2], axis=1)
    homogeneous = gram(on, kernel="polynomial", gamma=1.0, degree=2)
    assert_close(homogeneous, features @ features.T, dtype=dtype, rtol=1e-5, atol=1e-6)


def test_width_is_one_over_gamma(rung, dtype):
    x = rung.from_host([[0.0, 0.0], [1.0, 1.0]], dtype)
    assert_close(gram(x, width=4.0), [[1, np.exp(-0.5)], [np.exp(-0.5), 1]], dtype=dtype)
    assert_close(gram(x, kernel="gaussian", gamma=0.25), gram(x, width=4.0))
    assert Gaussian(width=4.0) == Gaussian(0.25)


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("n", [5, 300])
def test_integer_powers(rung, dtype, degree, n):
    x, z = rows(0, n, 4), rows(1, 6, 4)
    options = {"gamma": 1.0, "degree": degree, "coef0": -0.5}
    found = gram(rung.from_host(x, dtype), rung.from_host(z, dtype), "poly", **options)
    tight = "64" in str(dtype)
    expected = (x @ z.T - 0.5) ** degree
    assert_close(found, expected, dtype=dtype, rtol=1e-9 if tight else 2e-3, atol=1e-9 if tight else 2e-3)


@pytest.mark.parametrize(
    "kernel", [Linear(), Polynomial(2, 1.0, 0.3), Gaussian(0.4), Sigmoid(0.1, 0.5), Linear() + Gaussian(1.0)]
)
def test_diagonal_and_batches(rung, dtype, no_sync, kernel):
    x, z = rows(0, 2, 3, 8, 4), rows(1, 2, 3, 5, 4)
    on_x, on_z = rung.from_host(x, dtype), rung.from_host(z, dtype)
    with no_sync():
        found = kernel.gram(rung.load(), on_x, on_z)
        diagonal = kernel.diagonal(rung.load(), on_x)
        square = kernel.gram(rung.load(), on_x)
    one_by_one = [[gram(x[i, j], z[i, j], kernel) for j in range(3)] for i in range(2)]
    assert_close(found, np.asarray(one_by_one), dtype=dtype, rtol=1e-4, atol=1e-5)
    by_matrix = np.diagonal(rung.to_host(square), axis1=-2, axis2=-1)
    assert_close(diagonal, by_matrix.astype(float), dtype=dtype, rtol=1e-4, atol=1e-5)


def test_one_gamma_per_problem(rung, dtype):
    x = rows(0, 3, 6, 4)
    gammas = np.asarray([0.1, 1.0, 3.0])
    for make in (Gaussian, lambda gamma: Polynomial(2, 1.0, gamma), Sigmoid):
        kernel = make(rung.from_host(gammas, dtype))
        expected = np.stack([gram(x[i], kernel=make(float(gammas[i]))) for i in range(3)])
        found = kernel.gram(rung.load(), rung.from_host(x, dtype))
        assert_close(found, expected, dtype=dtype, rtol=1e-4, atol=1e-5)


def test_shared_rows_and_many_gammas(rung, dtype):
    # one set of rows, three factors: the leading axes broadcast
    x, z = rows(0, 6, 4), rows(1, 5, 4)
    kernel = Gaussian(rung.from_host([0.1, 1.0, 3.0], dtype))
    found = kernel.gram(rung.load(), rung.from_host(x, dtype), rung.from_host(z, dtype))
    expected = np.stack([gram(x, z, gamma=g) for g in (0.1, 1.0, 3.0)])
    assert_close(found, expected, dtype=dtype, rtol=1e-4, atol=1e-5)


# ---- the gaussian kernel's exactness


@pytest.mark.parametrize("n", [1, 9, 1100])
def test_gaussian_diagonal_is_exactly_one(rung, dtype, n):
    x = rung.from_host(1000.0 + rows(0, n, 5), dtype)
    for options in ({"gamma": 3.0}, {"gamma": "scale"}, {"width": 1e-3}):
        for found in (gram(x, **options), gram(x, x, **options)):
            host = rung.to_host(found)
            assert np.all(np.diagonal(host) == 1)
            assert host.max() == 1
            assert host.min() >= 0


def test_gaussian_survives_an_offset(rung, dtype):
    x, z = rows(0, 40, 3), rows(1, 30, 3)
    offset = 2.0**20 if "64" in str(dtype) else 2.0**10
    shifted = rung.from_host(x + offset, dtype), rung.from_host(z + offset, dtype)
    exact = np.exp(-0.5 * ((x[:, None] - z[None]) ** 2).sum(-1))
    # what is left is the rounding of the shifted inputs themselves
    assert_close(gram(*shifted, gamma=0.5), exact, dtype=dtype, rtol=0, atol=4 * offset * eps(dtype))


def eps(dtype):
    return 2.3e-16 if "64" in str(dtype) else 1.2e-7


def test_duplicates_of_other_rows_do_not_exceed_one(rung, dtype):
    x = rows(0, 200, 6) * 30
    found = rung.to_host(gram(rung.from_host(x, dtype), rung.from_host(x.copy(), dtype), gamma=1.0))
    assert found.max() <= 1


@pytest.mark.parametrize(("n", "m", "d"), [(0, 3, 2), (3, 0, 2), (1, 1, 1), (700, 513, 7), (513, 1300, 120)])
def test_numpy_native_equals_portable(n, m, d):
    for dtype in ("float32", "float64"):
        x, z = rows(0, n, d).astype(dtype), rows(1, m, d).astype(dtype)
        for kernel in (Gaussian(1 / d), Polynomial(3, 1.0, 1 / d)):
            for other in (z, None):
                found = kernel.gram(np, x, other)
                with portable_only():
                    expected = kernel.gram(np, x, other)
                assert found.dtype == x.dtype
                tolerance = 1e-12 if dtype == "float64" else 2e-5
                np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_numpy_gram_of_one_table_is_exactly_symmetric():
    for dtype in ("float32", "float64"):
        found = gram(rows(0, 1500, 11).astype(dtype), gamma=0.1)
        assert np.array_equal(found, found.T)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_do_not_change_a_bit(threads):
    x = rows(0, 1300, 9)
    expected = gram(x, gamma=0.1), gram(x, kernel="poly", degree=3)
    al.set_num_threads(threads)
    try:
        found = gram(x, gamma=0.1), gram(x, kernel="poly", degree=3)
    finally:
        al.set_num_threads(None)
    for part, wanted in zip(found, expected, strict=True):
        assert np.array_equal(part, wanted)


def test_no_rows(rung, dtype):
    some, none = rung.from_host(rows(0, 3, 2), dtype), rung.from_host(rows(0, 0, 2), dtype)
    for kernel in (Linear(), Polynomial(2), Gaussian(1.0), Sigmoid()):
        assert gram(none, some, kernel).shape == (0, 3)
        assert gram(some, none, kernel).shape == (3, 0)
        assert gram(none, kernel=kernel).shape == (0, 0)


# ---- arithmetic, names, callables


def test_arithmetic(rung, dtype):
    x, z = rung.from_host(rows(0, 4, 3), dtype), rung.from_host(rows(1, 5, 3), dtype)
    a, b = Gaussian(0.3), Polynomial(2, 1.0)
    combined = gram(x, z, 2 * a + b * Linear() * 0.5)
    by_hand = 2 * gram(x, z, a) + gram(x, z, b) * gram(x, z, "linear") * 0.5
    assert_close(combined, by_hand)
    xp = rung.load()
    assert_close((2 * a + b).diagonal(xp, x), 2 * a.diagonal(xp, x) + b.diagonal(xp, x), dtype=dtype)
    assert_close((a * b).diagonal(xp, x), a.diagonal(xp, x) * b.diagonal(xp, x), dtype=dtype)


def test_names_and_objects():
    assert as_kernel("linear") == Linear()
    assert as_kernel("poly", degree=2, coef0=1.0, gamma=0.5) == Polynomial(2, 1.0, 0.5)
    assert as_kernel("polynomial") == Polynomial(3, 0.0, 1.0)
    assert as_kernel("rbf", gamma=2.0) == as_kernel("gaussian", gamma=2.0) == Gaussian(2.0)
    assert as_kernel("sigmoid", gamma=0.1, coef0=2.0) == Sigmoid(0.1, 2.0)
    assert as_kernel("precomputed") == Precomputed()
    kernel = Gaussian(1.0) + Linear()
    assert as_kernel(kernel) is kernel
    assert len({kernel, Gaussian(1.0) + Linear()}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        Linear().degree = 2


def test_callables(rung, dtype, no_sync):
    x, z = rows(0, 150, 3), rows(1, 5, 3)
    on_x, on_z = rung.from_host(x, dtype), rung.from_host(z, dtype)

    def histogram_like(a, b):
        xp = rung.load()
        return xp.abs(a @ xp.matrix_transpose(b))

    with no_sync():
        found = gram(on_x, on_z, histogram_like)
        diagonal = Custom(histogram_like).diagonal(rung.load(), on_x)
    assert_close(found, np.abs(x @ z.T), dtype=dtype, rtol=1e-4, atol=1e-5)
    assert_close(diagonal, (x * x).sum(1), dtype=dtype, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"must return \(5, 150\) values; got \(150, 5\)"):
        gram(on_z, on_x, lambda a, b: histogram_like(b, a))


def test_precomputed(rung, dtype):
    x = rung.from_host(rows(0, 4, 4), dtype)
    assert gram(x, kernel="precomputed") is x
    assert_close(Precomputed().diagonal(rung.load(), x), np.diagonal(rows(0, 4, 4)), dtype=dtype)
    with pytest.raises(ValueError, match="cannot be combined"):
        Precomputed() + Linear()
    with pytest.raises(ValueError, match="`Y` must be None"):
        gram(x, x + 1, kernel="precomputed")


def test_gamma(rung, dtype, no_sync):
    x = rows(0, 9, 4)
    on = rung.from_host(x, dtype)
    with no_sync():
        scale = resolve_gamma(rung.load(), on, "scale")
    assert_close(scale, 1 / (4 * x.var()), dtype=dtype)
    assert resolve_gamma(rung.load(), on, "auto") == 0.25
    assert resolve_gamma(rung.load(), on, 3) == 3.0
    constant = rung.from_host(np.ones((3, 2)), dtype)
    assert_close(resolve_gamma(rung.load(), constant, "scale"), 1.0, dtype=dtype)
    assert_close(
        gram(on, gamma="scale"), pairwise.rbf_kernel(x, gamma=1 / (4 * x.var())), dtype=dtype, rtol=1e-4
    )


def test_lists_and_integers_come_back_as_numpy():
    found = gram([[1, 2], [3, 4]], kernel="linear")
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [[5, 11], [11, 25]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gram([[1.0]], kernel="rfb"), "`kernel` must be one of 'linear'.*got 'rfb'"),
        (lambda: gram([[1.0]], [[1.0, 2.0]]), r"`Y` must have as many columns as `X` \(1\); got 2"),
        (lambda: gram([1.0]), "`X` must have the axes"),
        (lambda: gram([[1.0]], gamma="big"), "`gamma` must be 'scale', 'auto'"),
        (lambda: gram([[1.0]], gamma=-1.0), "`gamma` must be a finite number of at least 0; got -1.0"),
        (lambda: gram([[1.0]], width=0.0), "`width` must be a finite number above 0"),
        (lambda: gram([[1.0]], width=1.0, gamma=1.0), "`width` is for the gaussian kernel"),
        (lambda: gram([[1.0]], kernel="poly", degree=1.5), "`degree` must be an integer"),
        (lambda: Gaussian(), "either `gamma` or `width`"),
        (lambda: -1 * Linear(), "`factor` must be a finite number of at least 0"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_addition_of_something_else():
    with pytest.raises(TypeError):
        Linear() + 1


# ---- properties


@given(tables, st.sampled_from(["linear", "poly", "rbf", "combined"]))
def test_positive_semidefinite_and_symmetric(x, name):
    kernel = 0.5 * Gaussian(0.3) * Linear() + Polynomial(2, 1.0) if name == "combined" else name
    matrix = gram(x, kernel=kernel, gamma=0.1, coef0=1.0, degree=2)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-12)
    values = np.linalg.eigvalsh((matrix + matrix.T) / 2)
    assert values.min() >= -1e-9 * max(1.0, np.abs(values).max())


@given(tables, st.floats(0, 5))
def test_gaussian_is_translation_invariant_and_bounded(x, gamma):
    found = gram(x, gamma=gamma)
    assert found.min() >= 0
    assert found.max() <= 1
    np.testing.assert_allclose(gram(x + 3.0, gamma=gamma), found, atol=1e-8)
