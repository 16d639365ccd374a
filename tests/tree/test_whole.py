"""Trees grown at once: the same to the last bit as level by level with the portable bodies."""

import numpy as np
import pytest

import arraylearn as al
from arraylearn.backend.arrays.order import argsort_rows, number_values
from arraylearn.backend.arrays.segments import split_lists
from arraylearn.backend.dispatch import native, portable_only, tuned, use_compiled
from arraylearn.backend.threads import set_num_threads

on_the_host = pytest.mark.rungs("host")  # subtrees are grown at once on NumPy only


@pytest.fixture(params=[1, 3])
def threads(request):
    """One thread, or three however small the work is."""
    set_num_threads(request.param)
    with tuned(growth_thread_cells=40, list_thread_values=40):
        yield request.param
    set_num_threads(None)


def draw_rows(seed, n, n_classes, n_values, dtype="float32"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = (np.floor(2 * X[:, 0] - X[:, 1] ** 2) + rng.integers(0, 2, n)).astype(int) % n_classes
    if n_values is not None:
        X = np.floor(X * n_values / 5)
    return X.astype(dtype), y


def assert_same_tree(one, other):
    for name, left, right in zip(one._fields, one, other, strict=True):
        assert (left is None) == (right is None), name
        if left is not None:
            np.testing.assert_array_equal(left, right, strict=True, err_msg=name)


def fit_both(settings, X, y):
    found = al.DecisionTreeClassifier(**settings).fit(X, y).tree_
    with portable_only(), use_compiled("never"):
        expected = al.DecisionTreeClassifier(**settings).fit(X, y).tree_
    return found, expected


@pytest.mark.parametrize("n_values", [None, 4, 60])
@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 12])
@pytest.mark.parametrize("splitter", ["exact", "hist", "clouds"])
@on_the_host
def test_trees_are_those_of_levels(rung, threads, splitter, n_classes, n_values):
    X, y = draw_rows(n_classes, 700, n_classes, n_values)
    found, expected = fit_both({"splitter": splitter, "max_bins": 30}, X, y)
    assert found.n_nodes > 50
    assert_same_tree(found, expected)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_depth": 1},
        {"max_depth": 4},
        {"min_samples_leaf": 7},
        {"min_samples_split": 30},
        {"min_impurity_decrease": 0.01},
        {"min_impurity_decrease": 2.0},
        {"missing": "direction", "max_depth": 5},
        {"max_leaf_nodes": 9},
        {"max_features": 2, "random_state": 3},
    ],
)
@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@on_the_host
def test_limits_are_those_of_levels(rung, threads, settings, splitter, dtype):
    for n_values in (None, 5):
        X, y = draw_rows(1, 400, 3, n_values, dtype)
        assert_same_tree(*fit_both(settings | {"splitter": splitter, "max_bins": 40}, X, y))


@on_the_host
def test_equal_values_everywhere(rung, threads):
    X = np.zeros((50, 3), dtype="float32")
    y = np.arange(50) % 2
    found, expected = fit_both({"splitter": "exact"}, X, y)
    assert found.n_nodes == 1
    assert_same_tree(found, expected)
    X[7, 1] = 1
    assert_same_tree(*fit_both({"splitter": "exact"}, X, y))


@on_the_host
def test_one_row_off_at_a_time(rung, threads):
    # the deepest tree there is: the blocks that wait must not outgrow their room
    X = np.arange(600, dtype="float64")[:, None]
    y = np.cumsum(np.arange(600) % 3 == 0) % 2
    found, expected = fit_both({"splitter": "exact"}, X, y)
    assert_same_tree(found, expected)


def make_blocks(rng, n, n_classes, n_bins, n_blocks):
    labels = np.sort(rng.integers(0, n_classes, n))
    bins = rng.integers(0, n_bins, (4, n)).astype(np.uint8)
    block = np.sort(rng.integers(0, n_blocks, n))
    rows = rng.permutation(n)
    rows = rows[np.lexsort((rows, block))].astype(np.int32)
    block_of = np.empty(n, dtype=np.int64)
    block_of[rows] = block
    lists = np.stack([np.lexsort((np.arange(n), column, block_of)) for column in bins]).astype(np.int32)
    counts = np.zeros((n_blocks, n_classes), dtype=np.int64)
    np.add.at(counts, (block_of, labels), 1)
    ends = np.searchsorted(labels, np.arange(n_classes), side="right").tolist()
    return rows, bins, lists, ends, np.searchsorted(block, np.arange(n_blocks)), counts


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int32", "int64", "uint8", "uint32", "bool"]
)
@pytest.mark.parametrize("n", [1, 100, 3000])
@on_the_host
def test_sorted_rows_are_stable(rung, xp, dtype, n):
    rng = np.random.default_rng(n)
    values = rng.normal(size=(3, n)) * 1e3
    if dtype.startswith("float"):
        values[rng.random(values.shape) < 0.1] = np.nan
        values[rng.random(values.shape) < 0.1] = -0.0
        values[rng.random(values.shape) < 0.1] = 0.0
        values[0, -1], values[1, 0] = np.inf, -np.inf
    else:
        values = abs(values) if dtype.startswith("u") else values
        values = values % 256 if dtype == "uint8" else values
    values = values.astype(dtype)
    found = argsort_rows(xp, values)
    with portable_only():
        expected = argsort_rows(xp, values)
    assert found.dtype == np.int64
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@on_the_host
def test_numbered_values(rung, xp, dtype):
    rng = np.random.default_rng(0)
    columns = np.stack([rng.integers(-3, 4, 500), rng.integers(0, 100, 500) / 7, np.zeros(500)]).astype(dtype)
    columns[rng.random(columns.shape) < 0.1] = np.nan
    columns[0, :9] = -0.0
    codes, values = number_values(xp, columns, 128)
    with portable_only():
        expected_codes, expected_values = number_values(xp, columns, 128)
    assert codes.dtype == np.uint8
    assert values.dtype == columns.dtype
    assert np.array_equal(codes, expected_codes)
    assert np.array_equal(values, expected_values)
    assert number_values(xp, columns, 99) is None
    assert number_values(xp, np.full((2, 5), np.nan, dtype=dtype), 128) is None
    one_missing = np.stack([np.full(6, np.nan), np.arange(6)]).astype(dtype)
    codes, values = number_values(xp, one_missing, 6)
    assert codes.tolist() == [[6] * 6, list(range(6))]
    assert np.isinf(values[0]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [3, 400])
@on_the_host
@tuned(thread_share=0)
def test_rows_go_down_one_tree(rung, threads, dtype, d):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(900, d)).astype(dtype)
    y = ((X[:, 0] > 0) + (X[:, 1] * X[:, 2] > 0.1)) % 2
    model = al.DecisionTreeClassifier(missing="known_fraction").fit(X, y)
    tree = model.tree_
    asked = np.concatenate([X, X])
    # values at thresholds, and just beside them
    split = np.flatnonzero(tree.kind)
    edges = tree.threshold[split].astype(dtype)
    for shift, part in enumerate((edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf))):
        asked[shift * 100 + np.arange(split.shape[0]) % 100, tree.feature[split]] = part
    asked[rng.random(asked.shape) < 0.05] = np.nan
    for rows in (asked, asked[:1], X):
        with tuned(walk_thread_steps=100):
            found = model.apply(rows)
        with use_compiled("never"):
            assert np.array_equal(found, model.apply(rows))


@on_the_host
def test_lists_are_split_into_any_branches(rung, xp, threads):
    rng = np.random.default_rng(0)
    lists = np.stack([rng.permutation(200) for _ in range(6)]).astype(np.int32)
    branch = rng.integers(-1, 5, 200)
    sizes = [int((branch == b).sum()) for b in range(5)]
    found = split_lists(xp, lists, branch, sizes)
    for line, expected in zip(found, lists, strict=True):
        kept = expected[branch[expected] >= 0]
        assert np.array_equal(line, kept[np.argsort(branch[kept], kind="stable")])


def test_compiled_bodies_are_there(rung, xp):
    if rung.name == "compiled":
        assert native(xp, "split_lists")
