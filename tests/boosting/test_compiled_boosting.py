"""Compiled bodies of boosting and binning: the bits of the portable ones, whatever the number of threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import array_api_strict
import numpy as np
import pytest

import arraylearn as al
from arraylearn.backend.arrays.order import bin_columns
from arraylearn.backend.dispatch import portable_only, tuned, use_compiled
from arraylearn.backend.namespace import HOST
from arraylearn.boosting.log_loss import gradient_tables, log_loss_gradients
from arraylearn.boosting.rounds import boosting_work, choose_body
from arraylearn.grow.histograms.newton_trees import NewtonRule
from tests.backends.assertions import assert_close
from tests.boosting.data import holes, slopes, stripes
from tests.boosting.test_boosting_ops import UNIT
from tests.boosting.test_gradient import SETTINGS, assert_same_bits, small

pytest.importorskip("numba")

from arraylearn.boosting import rounds_cpu


@pytest.fixture(params=[1, 2, 5], ids=lambda n: f"{n} threads")
def n_threads(request):
    """Compiled bodies only, with so many threads, which share whatever there is."""
    al.set_compiled("always")
    al.set_num_threads(request.param)
    with tuned(growth_thread_cells=1, thread_share=0):
        yield request.param
    al.set_num_threads(None)
    al.set_compiled(None)


def test_which_body_derives_and_steps():
    free = NewtonRule(0.0, 0.0, 0.0)
    with use_compiled("auto"):
        small, large = boosting_work(0, 29), boosting_work(10_000, 15)  # a tree counts as 10,000 cells more
        assert choose_body(HOST, small, free) == "less work than 300,000"
        assert choose_body(HOST, large, free).derive is rounds_cpu.log_loss_gradients
        assert choose_body(HOST._replace(xp=array_api_strict), large, free) == (
            "the rows are computed with by array_api_strict"
        )
    with use_compiled("never"):
        assert choose_body(HOST, large, free) == "compiled bodies are switched off"
    with use_compiled("always"):
        assert choose_body(HOST, small, free).step is rounds_cpu.add_steps
        grouped = free._replace(groups=((0,), (1,)))
        assert choose_body(HOST, large, grouped) == "columns that may not stand on one path"


def assert_equals_portable(function):
    """The results of compiled bodies, which are those of the portable ones."""
    found = function()
    with portable_only():
        expected = function()
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, rtol=0, atol=0)
    return found


BLOCKS = {
    "all rows": ([0], [500]),
    "one row": ([7], [1]),
    "nothing": ([3], [0]),
    "several": ([400, 0, 60, 60, 401], [1, 60, 0, 340, 99]),
}


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("d", [1, 6])
def test_steps_of_blocks(n_threads, blocks, d):
    rng = np.random.default_rng(0)
    n, n_bins = 500, 9
    columns = rng.integers(0, n_bins, (d, n)).astype(np.uint8)
    order = rng.permutation(n)
    starts, sizes = BLOCKS[blocks]
    features = rng.integers(0, d, len(sizes)).tolist()
    # thresholds, sets, and no row on one of the sides
    thresholds = [(3, -1, 8, 5, 0)[i] for i in range(len(sizes))]
    goes_right = rng.random((2, n_bins)) < 0.5
    moves = rounds_cpu.BlockSplits(starts, sizes, features, thresholds, goes_right)
    values = ([5, -7, 3, 3, 9][: len(sizes)], [6, 2, 3, -1, 9][: len(sizes)])
    scores = rng.integers(-9, 9, n).astype(np.int32)
    expected = scores.copy()
    for j, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        for row in order[start : start + size]:
            bin_at = columns[features[j], row]
            right = goes_right[j, bin_at] if thresholds[j] < 0 else bin_at > thresholds[j]
            expected[row] += values[int(right)][j]
    assert_close(rounds_cpu.add_to_sides(scores, columns, order, moves, values), expected)


@pytest.mark.parametrize("k", [1, 2, 7])
@pytest.mark.parametrize("n", [1, 255, 256, 1000])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients(n_threads, k, n, weighted):
    rng = np.random.default_rng(n)
    scores = np.round(rng.normal(size=(k, n)) * 9 * UNIT).astype(np.int32)
    codes = rng.integers(0, max(k, 2), n)
    weights = rng.random(n).astype(np.float32) if weighted else None
    tables = gradient_tables(np, "cpu", k)
    expected = log_loss_gradients(np, tables, scores, codes, weights)
    found = rounds_cpu.log_loss_gradients(*tables, scores, codes, weights)
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, rtol=0, atol=0)


EDGES = {
    "even": np.arange(40.0),
    "one": np.array([0.5]),
    "none": np.zeros(0),
    "crowded": np.concatenate((1e-30 * np.arange(60), [1.0, 1e30])),
    "far apart": np.array([-3e38, 0.0, 3e38]),
    "as close as can be": np.array([1.0, np.nextafter(np.float32(1), np.float32(2))]),
    "many": np.arange(5000.0) ** 2,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", EDGES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_bins(n_threads, dtype, kind, order):
    rng = np.random.default_rng(0)
    mine = EDGES[kind].astype(dtype)
    edges = np.full((2, mine.shape[0]), np.inf, dtype=dtype)
    edges[0], edges[1, : mine.shape[0] // 2] = mine, mine[: mine.shape[0] // 2]
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 3.4e38, -3.4e38, 1e-45])
    near = np.concatenate(
        (mine, np.nextafter(mine, np.inf), np.nextafter(mine, -np.inf), special.astype(dtype))
    )
    x = np.stack((near, rng.permutation(near)), axis=1).astype(dtype)
    x = np.asarray(np.concatenate((x, rng.normal(size=(300, 2)).astype(dtype) * 50)), order=order)
    for missing in (mine.shape[0] + 1, 300):
        assert_equals_portable(lambda m=missing: (bin_columns(np, x, edges, missing_bin=m),))
    assert_equals_portable(lambda: (bin_columns(np, x[:0], edges, missing_bin=9),))


# ---- whole trees


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("has_holes", [False, True])
def test_whole_trees_are_those_of_the_levels(n_threads, setting, k, has_holes):
    X, y = stripes(700, k=k)
    X = holes(X).astype(np.float32) if has_holes else X.astype(np.float32)
    weights = np.random.default_rng(0).random(700)

    def fit():
        return small(**SETTINGS[setting]).fit(X, y, weights)

    model = fit()
    with portable_only():
        assert_same_bits(model, fit())
    al.set_compiled("never")
    assert_same_bits(model, fit())


@pytest.mark.parametrize("max_depth", [1, 3, None])
@pytest.mark.parametrize("subsample", [1.0, 0.7])
def test_threads_share_the_rows_of_large_nodes(n_threads, max_depth, subsample):
    n = 4123
    X, y = stripes(n, k=3)
    X = holes(X).astype(np.float32)
    options = {
        "n_estimators": 2,
        "max_depth": max_depth,
        "subsample": subsample,
        "min_child_hessian": 0.0,
        "random_state": 0,
    }
    model = small(**options).fit(X, y)
    al.set_compiled("never")
    assert_same_bits(model, small(**options).fit(X, y))


def test_trees_grow_while_all_threads_are_busy():
    """Fits that fill the thread pool end: the main thread never blocks on a worker that has not started."""
    X, y = stripes(3000, k=3)
    al.set_compiled("always")
    al.set_num_threads(2)
    try:
        with tuned(growth_thread_cells=1, thread_share=0):
            model = small(max_depth=4).fit(X, y)
            with ThreadPoolExecutor(6) as users:
                fits = [users.submit(lambda: small(max_depth=4).fit(X, y)) for _ in range(12)]
                for fit in fits:
                    assert_same_bits(fit.result(timeout=120), model)
    finally:
        al.set_num_threads(None)
        al.set_compiled(None)


@pytest.mark.parametrize("n", [2, 3, 20])
def test_whole_trees_of_few_rows(n_threads, n):
    X, y = np.arange(float(n))[:, None], np.arange(n) % 2
    model = small(min_child_hessian=0.0, max_depth=None).fit(X, y)
    with portable_only():
        assert_same_bits(small(min_child_hessian=0.0, max_depth=None).fit(X, y), model)


@pytest.mark.parametrize("options", [{"max_depth": 4}, {"max_depth": None, "max_leaf_nodes": 9}], ids=str)
@pytest.mark.parametrize("trend", [None, [1, -1, 0, 0]], ids=["free", "monotone"])
@pytest.mark.parametrize("nominal", [[], [2, 3]], ids=["numbers", "categories"])
def test_constraints_categories_and_leaves(n_threads, options, trend, nominal):
    X, y = slopes(600)
    X = holes(X)
    for j in nominal:
        X[:, j] = np.floor(3 * X[:, j]) % 7

    def fit():
        return small(**options, monotonic_cst=trend, categorical_features=nominal).fit(X, y)

    model = fit()
    with portable_only():
        assert_same_bits(fit(), model)


@pytest.mark.parametrize("max_leaf_nodes", [2, 3, 30])
def test_the_largest_gain_goes_first(n_threads, max_leaf_nodes):
    X, y = stripes(900, k=3)
    options = {"n_estimators": 3, "max_depth": None, "max_leaf_nodes": max_leaf_nodes}
    model = small(**options).fit(X, y)
    with portable_only():
        assert_same_bits(small(**options).fit(X, y), model)


def test_the_deepest_tree_needs_few_tables(n_threads):
    # each cut takes one row off: growth must not run out of tables or of places on its stack
    n = 700
    X, y = np.arange(float(n))[:, None] ** 1.5, (np.arange(n) % 2).astype(int)
    options = {"n_estimators": 1, "max_depth": None, "min_child_hessian": 0.0, "min_samples_leaf": 1}
    model = small(**options, max_bins=254).fit(X, y)
    with portable_only():
        assert_same_bits(small(**options, max_bins=254).fit(X, y), model)
