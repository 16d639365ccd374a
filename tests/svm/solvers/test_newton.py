"""Newton's method in the columns: the primitive on every rung, and linear machines against LIBSVM."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize
from sklearn import svm as libsvm

import arraylearn as al
from arraylearn.backend.namespace import Place
from arraylearn.svm.solvers import newton
from arraylearn.svm.solvers.dual import DualProblem, Settings, classification_at
from arraylearn.svm.solvers.newton import (
    SmoothedPrimal,
    minimize_by_arrays,
    minimize_smoothed,
    solve_newton,
)
from tests.svm.problems import TWO_CLASS_NAMES, two_class_data


def smooth_problem(seed, n=50, d=3):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    sign = np.where(x[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    rows = np.concatenate([x, np.ones((n, 1))], axis=1)
    pull = np.concatenate([0.3 * rng.normal(size=d), [0.1]])
    return rows, sign, np.where(sign < 0, -2.0, 0.0), np.where(sign > 0, 2.0, 0.0), pull


def smooth_value(v, rows, target, lower, upper, pull, ridge):
    residual = target - rows @ v
    beta = np.clip(residual / ridge, lower, upper)
    return 0.5 * v[:-1] @ v[:-1] + pull @ v + beta @ (residual - 0.5 * ridge * beta)


@pytest.mark.parametrize("minimize", [minimize_smoothed, minimize_by_arrays])
@pytest.mark.parametrize("ridge", [1.0, 0.05])
def test_the_minimum_is_found(rung, xp, minimize, ridge):
    arrays = smooth_problem(0)
    dtype = getattr(xp, rung.float_dtypes[-1])
    primal = SmoothedPrimal(*(rung.from_host(values, dtype) for values in arrays), ridge)
    point = xp.zeros_like(primal.pull)
    for _ in range(6):
        point, _, is_settled = minimize(xp, primal, point, max_steps=50)
    if "float64" in rung.float_dtypes:
        assert bool(rung.to_host(is_settled))
    wanted = optimize.minimize(smooth_value, np.zeros(4), args=(*arrays, ridge), method="BFGS", tol=1e-10)
    found = rung.to_host(point).astype(np.float64)
    value = smooth_value(found, *arrays, ridge)
    assert value <= wanted.fun + 1e-5 * abs(wanted.fun)
    np.testing.assert_allclose(found, wanted.x, atol=2e-3)


@pytest.mark.rungs("guarded")
def test_the_primitive_does_not_wait(rung, xp, dtype, no_sync):
    arrays = smooth_problem(1)
    primal = SmoothedPrimal(*(rung.from_host(values, dtype) for values in arrays), ridge=0.1)
    with no_sync():
        point = minimize_smoothed(xp, primal, xp.zeros_like(primal.pull), max_steps=20)[0]
    found = rung.to_host(point).astype(np.float64)
    assert smooth_value(found, *arrays, 0.1) < smooth_value(np.zeros_like(found), *arrays, 0.1)


def stated(rung, X, y, C):
    xp = rung.load()
    place = Place(xp, rung.device)
    problem = classification_at(place, 2.0 * y - 1, np.full(len(y), C))
    return place, rung.from_host(X, problem.linear.dtype), problem


@pytest.mark.parametrize("C", [0.1, 100.0])
def test_a_linear_machine_on_every_rung(rung, C):
    X, y = two_class_data("overlapping")
    X, y = X[:200], y[:200]
    is_wide = "float64" in rung.float_dtypes
    place, x, problem = stated(rung, X, y, C if is_wide else 0.1)
    tol = 1e-3 if is_wide else 2e-2
    found = solve_newton(place, x, problem, Settings(tol=tol))
    assert found.is_converged
    beta = rung.to_host(found.beta).astype(np.float64)
    assert abs(beta.sum()) <= 1e-4 * C
    sign = 2.0 * y - 1
    gradient = sign - X @ (X.T @ beta)
    upper, lower = rung.to_host(problem.upper), rung.to_host(problem.lower)
    assert np.all((beta >= lower) & (beta <= upper))
    gap = gradient[beta < upper].max() - gradient[beta > lower].min()
    assert gap <= 1.1 * tol


def test_a_band_with_no_row_near_it(rung):
    """Newton steps need a row: with none near the band, all are active, and nothing is left out."""
    X, y = two_class_data("overlapping")
    solve = newton._NewtonSolve(*stated(rung, X[:20], y[:20], 1.0), Settings())
    assert solve._near(np.zeros(20, dtype=bool), 0.1) is solve.all_rows
    assert solve._near(np.arange(20) < 3, 0.1).rows.shape[0] == 3


@pytest.mark.rungs("syncs")
def test_waits_per_visit(rung):
    X, y = two_class_data("overlapping")
    place, x, problem = stated(rung, X[:200], y[:200], 1.0)
    before = rung.counts()["syncs"]
    found = solve_newton(place, x, problem, Settings())
    n_visits = int(np.ceil(found.n_iter / 6))  # a device takes six Newton steps, then the host looks once
    # each visit reads once, and sends the rows near the next band once; first and last look besides
    assert rung.counts()["syncs"] - before <= 3 * n_visits + 3


@pytest.mark.parametrize("C", [0.01, 1.0, 1e4])
@pytest.mark.parametrize("name", TWO_CLASS_NAMES)
def test_primal_and_dual_objective_meet(name, C):
    """Their difference bounds the distance of either from the optimum: an oracle without another solver."""
    X, y = two_class_data(name)
    clf = al.SVC(kernel="linear", solver="newton", C=C, tol=1e-4).fit(X, y)
    assert clf.converged_.all()
    w, sign = clf.coef_[0], 2.0 * (y == clf.classes_[1]) - 1.0
    slack = np.maximum(1.0 - sign * (X @ w + clf.intercept_[0]), 0.0)
    primal = 0.5 * w @ w + C * slack.sum()
    beta = np.zeros(len(y))
    beta[clf.support_] = clf.dual_coef_[0]
    np.testing.assert_allclose(beta @ X, w, rtol=1e-6, atol=1e-8 * np.abs(w).max())
    dual = sign @ beta - 0.5 * w @ w
    assert abs(beta.sum()) <= 1e-8 * C * len(y)
    assert np.all((beta * sign >= 0) & (beta * sign <= C))
    assert clf.objective_[0] == pytest.approx(dual, rel=1e-6)
    assert dual - 1e-7 * abs(primal) <= primal <= dual + 1e-4 * C * len(y)


def test_a_sum_other_than_zero_and_fixed_rows():
    # the nu form: no targets, a sum of nu n; and rows whose box is a point
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)) + 1.0
    upper = np.ones(60)
    upper[:5] = 0.0
    start = np.zeros(60)
    start[5:23] = 1.0
    problem = DualProblem(np.zeros(60), np.zeros(60), upper, start)
    place = al.backend.namespace.HOST
    found = solve_newton(place, x, problem, Settings(tol=1e-6))
    assert found.is_converged
    assert found.beta.sum() == pytest.approx(18.0)
    assert not found.beta[:5].any()
    theirs = libsvm.OneClassSVM(kernel="linear", nu=18 / 55, tol=1e-8).fit(x[5:])
    np.testing.assert_allclose(found.beta @ x, theirs.coef_[0], rtol=1e-4)
