"""The solvers on every rung: primitives against their portable bodies, optimality, waits of the host."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
from sklearn.datasets import make_classification

import arraylearn as al
from arraylearn.backend.dispatch import portable_only, use_compiled
from arraylearn.backend.namespace import HOST, Place
from arraylearn.kernels import Gaussian, Linear
from arraylearn.svm.solvers import pairs_cpu
from arraylearn.svm.solvers.decomposition import decompose
from arraylearn.svm.solvers.dual import (
    KernelMatrix,
    KernelRows,
    Settings,
    classification_at,
    make_rows,
    product,
)
from arraylearn.svm.solvers.pairs import (
    Block,
    choose_body,
    inverse_curvature_roots,
    make_block,
    pair_steps,
    project,
    solve_block,
    solve_block_by_arrays,
)
from tests.backends.assertions import assert_close


def block_problem(seed, b=3, m=24, bound=1.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(b, m, 3))
    matrix = np.exp(-0.5 * ((x[:, :, None] - x[:, None]) ** 2).sum(-1))
    sign = np.where(rng.random((b, m)) < 0.5, -1.0, 1.0)
    sign[:, :2] = 1.0, -1.0
    lower, upper = np.where(sign < 0, -bound, 0.0), np.where(sign > 0, bound, 0.0)
    lower[0, -4:] = upper[0, -4:] = 0.0  # padding
    return matrix, sign, lower, upper


def gap_of(matrix, linear, point, lower, upper):
    gradient = linear - np.einsum("bij,bj->bi", matrix, point)
    highest = np.where(point < upper, gradient, -np.inf).max(axis=1)
    return highest - np.where(point > lower, gradient, np.inf).min(axis=1)


@pytest.mark.parametrize("bound", [0.25, 8.0, float("inf")])
@pytest.mark.parametrize("solve", [solve_block, solve_block_by_arrays])
def test_a_block_reaches_optimality(rung, xp, dtype, bound, solve):
    arrays = block_problem(1, bound=bound)
    matrix, linear, lower, upper = (rung.from_host(values, dtype) for values in arrays)
    block = make_block(xp, matrix, lower, upper)
    point = xp.zeros_like(linear)
    for _ in range(5):
        gradient = linear - xp.matmul(matrix, point[..., None])[..., 0]
        point, _ = solve(xp, block, gradient, point, tol=1e-4, max_steps=48, limit=1000)
    point = rung.to_host(point)
    matrix, linear, lower, upper = arrays
    assert np.all((point >= lower) & (point <= upper))
    scale = max(1.0, np.abs(point).max())
    np.testing.assert_allclose(point.sum(axis=1), 0, atol=1e-5 * scale)
    assert gap_of(matrix, linear, point.astype(np.float64), lower, upper).max() < 2e-3 * scale


@pytest.mark.rungs("guarded")
def test_a_block_is_solved_without_a_sync(rung, xp, dtype, no_sync):
    arrays = block_problem(2)
    matrix, linear, lower, upper = (rung.from_host(values, dtype) for values in arrays)
    block = Block(matrix, lower, upper)
    with no_sync():
        point, _ = solve_block(xp, block, linear, xp.zeros_like(linear), tol=1e-3, max_steps=8, limit=100)
    found, start = rung.to_host(point).astype(np.float64), np.zeros(arrays[1].shape)
    assert np.all(gap_of(*arrays[:2], found, *arrays[2:]) < gap_of(*arrays[:2], start, *arrays[2:]))


def test_which_body_solves_a_block():
    assert choose_body(array_api_strict, 10**6) == "not on a CPU of NumPy"
    with use_compiled("auto"):
        small, large = (choose_body(HOST.xp, m * m) for m in (200, 250))
    assert (small.solve, large.solve) == (pairs_cpu.solve, pairs_cpu.solve_compiled)
    with use_compiled("never"):
        assert choose_body(HOST.xp, 10**6) == small
    with use_compiled("always"):
        assert choose_body(HOST.xp, 1) == large


@pytest.mark.parametrize("float_dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1, 5, 64, 65, 150, 200])
def test_numpy_and_numba_take_the_same_pair_steps(float_dtype, m):
    """Both run `climb`: the first steps are the same up to rounding, and both end at the optimum."""
    matrix, linear, lower, upper = (part[:1, ..., :m] for part in block_problem(4, 1, max(m, 5), bound=3.0))
    matrix = np.ascontiguousarray(matrix[:, :m]).astype(float_dtype)
    block = make_block(HOST.xp, matrix, lower, upper)
    one = Block(*(part[0] for part in block))
    few = [
        steps(one, linear[0], np.zeros(m), 1e-3, 3) for steps in (pairs_cpu._steps, pairs_cpu._compiled_steps)
    ]
    assert few[0][2] == few[1][2]
    for one_body, other in zip(few[0][:2], few[1][:2], strict=True):
        np.testing.assert_allclose(one_body, other, rtol=1e-4, atol=1e-5)
    for solve in (pairs_cpu.solve, pairs_cpu.solve_compiled):
        point, _ = solve(block, linear, np.zeros((1, m)), 1e-3, 10 * m, 1000 * m)
        assert gap_of(matrix, linear, point, lower, upper).max() <= 2e-3 or m == 1
        assert abs(point.sum()) < 1e-5


def both_bodies(rung, run):
    """Run a primitive by its native body, without a wait, and by its portable one."""
    with rung.forbid_syncs():
        found = run()
    with portable_only():
        return found, run()


@pytest.mark.parametrize(("b", "m"), [(1, 5), (3, 24), (2, 300)])
@pytest.mark.parametrize("n_steps", [2, 20])
def test_pair_steps_of_both_bodies(rung, xp, dtype, b, m, n_steps):
    arrays = block_problem(3, b, m)
    matrix, linear, lower, upper = (rung.from_host(values, dtype) for values in arrays)
    block = Block(matrix, lower, upper, inverse_curvature_roots(xp, matrix))
    found, expected = both_bodies(
        rung, lambda: pair_steps(xp, block, linear, xp.zeros_like(linear), tol=1e-2, n_steps=n_steps)
    )
    if n_steps == 2:  # later the rows of a pair are level, and rounding decides which comes first
        for one, other in zip(found, expected, strict=True):
            assert_close(one, rung.to_host(other), rtol=1e-5, atol=1e-5)
    points = [rung.to_host(point).astype(np.float64) for point, _, _ in (found, expected)]
    gains = [(arrays[1] * x - 0.5 * x * np.einsum("bij,bj->bi", arrays[0], x)).sum(axis=1) for x in points]
    np.testing.assert_allclose(gains[0], gains[1], rtol=1e-2)
    np.testing.assert_allclose(points[0].sum(axis=1), 0.0, atol=1e-5)
    assert np.all((points[0] >= arrays[2]) & (points[0] <= arrays[3]))


def test_pair_steps_end_at_once_where_nothing_violates(rung, xp, dtype):
    matrix, _, lower, upper = (rung.from_host(v, dtype) for v in block_problem(3))
    block, zero = Block(matrix, lower, upper, inverse_curvature_roots(xp, matrix)), xp.zeros_like(lower)
    point, _, n_steps = pair_steps(xp, block, zero, zero, tol=1e-3, n_steps=20)
    assert_close(n_steps, np.zeros(3, dtype=np.int64))
    assert_close(point, np.zeros(lower.shape), dtype=dtype)


def test_a_projection_keeps_the_sum_and_the_box(rung, xp, dtype):
    rng = np.random.default_rng(0)
    lower, upper = np.zeros((2, 150)), np.ones((2, 150))
    point, is_free = rng.random((2, 150)), rng.random((2, 150)) < 0.7
    move = rng.normal(size=(4, 2, 150))
    given = [rung.from_host(values, dtype) for values in (move, point, lower, upper)]
    free = rung.from_host(is_free)
    found, expected = both_bodies(rung, lambda: project(xp, *given, free))
    assert_close(found, rung.to_host(expected), rtol=1e-5, atol=1e-5)
    found = rung.to_host(found)
    assert found.min() >= 0
    assert found.max() <= 1
    np.testing.assert_allclose(found.sum(axis=-1) - point.sum(axis=-1), 0.0, atol=1e-4)
    np.testing.assert_array_equal(
        found[:, ~is_free], np.broadcast_to(point.astype(found.dtype), found.shape)[:, ~is_free]
    )


def problem_on(rung, n=500):
    X, y = make_classification(n, 5, n_informative=4, n_redundant=0, flip_y=0.1, random_state=0)
    place = Place(rung.load(), rung.device)
    problem = classification_at(place, 2.0 * y - 1, np.ones(n))
    return X, y, place, rung.from_host(X, problem.linear.dtype), problem


def assert_optimal(rung, X, y, solution, gram, bound, tol):
    beta = rung.to_host(solution.beta).astype(np.float64)
    sign = 2.0 * y - 1
    assert np.all((beta * sign >= 0) & (beta * sign <= bound))
    assert abs(beta.sum()) < 1e-4 * bound
    gap = gap_of(
        gram[None],
        sign[None],
        beta[None],
        np.where(sign < 0, -bound, 0)[None],
        np.where(sign > 0, bound, 0)[None],
    )
    assert gap[0] <= 1.1 * tol
    assert solution.is_converged


@pytest.mark.parametrize("cache_rows", [400, 500])
def test_decomposition(rung, cache_rows):
    X, y, place, x, problem = problem_on(rung)
    matrix = KernelMatrix(place, x, Gaussian(0.2))
    settings = Settings(tol=2e-3, cache_bytes=cache_rows * 500 * 4)
    rows = make_rows(matrix, 1.0, settings)
    assert rows.n_kept == cache_rows
    solution = decompose(rows, problem, settings)
    assert_optimal(rung, X, y, solution, al.kernels.gram(X, kernel=Gaussian(0.2)), 1.0, 2e-3)


def test_ring_recomputes_what_it_overwrites(rung, xp):
    X, _, place, x, _ = problem_on(rung, n=60)
    rows = KernelRows(KernelMatrix(place, x, Linear()), x.dtype, 10)
    gram = X @ X.T
    rng = np.random.default_rng(0)
    for _ in range(20):
        wanted = rng.choice(60, rng.integers(1, 11), replace=False).tolist()
        columns = rung.from_host(np.arange(60))
        idx, kept = rows.fetch(wanted)
        assert rung.to_host(idx).tolist() == wanted
        assert_close(rows.block(kept, columns), gram[wanted], dtype=x.dtype, rtol=1e-4, atol=1e-4)


def test_product_in_strips(rung, xp):
    X, _, place, x, _ = problem_on(rung, n=150)
    columns = np.arange(0, 150, 7)
    weights = np.random.default_rng(0).normal(size=columns.shape[0])
    matrix = KernelMatrix(place, x, Linear())
    found = product(matrix, None, rung.from_host(columns), rung.from_host(weights, x.dtype))
    assert_close(found, X @ X[columns].T @ weights, dtype=x.dtype, rtol=1e-4, atol=1e-4)


@pytest.mark.rungs("syncs")
def test_waits_per_outer_step(rung):
    _, _, place, x, problem = problem_on(rung)
    matrix = KernelMatrix(place, x, Gaussian(0.2))
    outer = []
    settings = Settings(tol=2e-3, report=lambda *_: outer.append(rung.counts()["syncs"]))
    decompose(make_rows(matrix, 1.0, settings), problem, settings)
    waits = np.diff(outer)
    assert len(waits) >= 3
    assert waits.max() <= 3
    assert np.median(waits) == 1


@pytest.mark.rungs("syncs")
def test_predict_waits_once(rung):
    X, y, *_ = problem_on(rung, n=60)
    clf = al.SVC().fit(rung.from_host(X), y)
    rows = rung.from_host(X)
    clf.predict(rows)
    before = rung.counts()["syncs"]
    clf.predict(rows)
    assert rung.counts()["syncs"] - before <= 1
