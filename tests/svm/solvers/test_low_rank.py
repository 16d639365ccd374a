"""Low-rank factors of kernel matrices, and the machines that need them."""

from __future__ import annotations

import numpy as np
import pytest

import arraylearn as al
from arraylearn.backend.namespace import HOST, Place
from arraylearn.kernels import Custom, Gaussian, Polynomial, Precomputed
from arraylearn.svm.solvers.dual import KernelMatrix
from arraylearn.svm.solvers.low_rank import factor_low_rank
from tests.svm.problems import two_class_data


def test_factor_reproduces_the_matrix(rung, xp):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    X[10:40] = X[50:80]  # equal rows have nothing left after the first of them
    dtype = getattr(xp, rung.float_dtypes[-1])
    error = 1e-9 if "float64" in rung.float_dtypes else 1e-3
    place = Place(xp, rung.device)
    matrix = KernelMatrix(place, rung.from_host(X, dtype), Polynomial(3, 1.0))
    factor = rung.to_host(factor_low_rank(matrix, error=error, max_bytes=1 << 20))
    assert 10 <= factor.shape[1] <= 14  # monomials of two columns up to degree three, and some rounding
    gram = al.kernels.gram(X, kernel=Polynomial(3, 1.0))
    np.testing.assert_allclose(factor @ factor.T, gram, atol=10 * error * np.abs(gram).max())


def test_no_factor_where_the_rank_is_high_or_the_memory_small():
    X = np.random.default_rng(0).normal(size=(60, 10))
    narrow = KernelMatrix(HOST, X, Gaussian(5.0))
    assert factor_low_rank(narrow, error=1e-9, max_bytes=1 << 20) is None
    wide = KernelMatrix(HOST, X, Polynomial(1, 1.0))
    assert factor_low_rank(wide, error=1e-9, max_bytes=1 << 20).shape[1] == 11
    assert factor_low_rank(wide, error=1e-9, max_bytes=8 * 60 * 9) is None


def test_a_high_rank_is_given_up_early():
    rows = []

    def gram(a, b):
        rows.append(a.shape[0])
        return Gaussian(1.0).gram(HOST.xp, a, b)

    X = np.random.default_rng(0).normal(size=(1400, 10))
    assert factor_low_rank(KernelMatrix(HOST, X, Custom(gram)), error=1e-9, max_bytes=1 << 30) is None
    assert sum(rows) - 1400 == 512  # of the diagonal, and of the columns that were tried; 700 were allowed


def test_an_indefinite_or_spoilt_matrix_has_no_factor():
    X = np.random.default_rng(0).normal(size=(60, 3))
    negative = KernelMatrix(HOST, X, Custom(lambda a, b: -(a @ b.T)))
    assert factor_low_rank(negative, error=1e-9, max_bytes=1 << 20) is None
    spoilt = KernelMatrix(HOST, X, Custom(lambda a, b: (a @ b.T) * np.nan))
    assert factor_low_rank(spoilt, error=1e-9, max_bytes=1 << 20) is None
    signs = np.diag(np.where(np.arange(60) % 2, 1.0, -1.0))
    assert factor_low_rank(KernelMatrix(HOST, signs, Precomputed()), error=1e-9, max_bytes=1 << 20) is None


@pytest.mark.parametrize(
    ("name", "kernel"), [("overlapping", "poly"), ("duplicated", "poly"), ("moons", "rbf")]
)
@pytest.mark.parametrize("n", [600, 800])  # as one block, and by working sets
def test_large_prices_take_few_steps(name, kernel, n):
    # by pairs alone these take from half a million to five million steps
    X, y = two_class_data(name)
    clf = al.SVC(kernel=kernel, C=1e4).fit(X[:n], y[:n])
    assert clf.converged_.all()
    assert clf.n_iter_[0] < 40 * n
    # the primal objective equals the dual one, up to tol times the sum of the multipliers
    gram = al.kernels.gram(X[:n], kernel=clf.kernel_)
    beta = np.zeros(n)
    beta[clf.support_] = clf.dual_coef_[0]
    primal = 0.5 * beta @ gram @ beta + 1e4 * clf.slack_.sum()
    assert primal == pytest.approx(clf.objective_[0], abs=1e-3 * np.abs(beta).sum())
