"""Sorted lists: every rung against plain loops, and the compiled body against the array program."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arraylearn as al
from arraylearn.backend.dispatch import is_numba_installed, portable_only, tuned, use_compiled
from arraylearn.backend.namespace import HOST
from arraylearn.backend.threads import set_num_threads
from arraylearn.grow.sorted_lists.lists import ListSplits, SortedRows, divide_lists, search_lists
from tests.backends.assertions import assert_close

needs_numba = pytest.mark.skipif(not is_numba_installed(), reason="Numba is not installed")


def make_blocks(rng, n, n_blocks, n_classes, d, n_values):
    """Rows numbered by class, in random blocks, with a sorted list per column and block."""
    labels = np.sort(rng.integers(0, n_classes, n))
    columns = rng.integers(0, n_values, (d, n)).astype(float)
    block = rng.permutation(np.arange(n) % n_blocks)
    lists = np.stack([np.lexsort((np.arange(n), column, block)) for column in columns]).astype(np.int32)
    sizes = np.bincount(block, minlength=n_blocks)
    counts = np.zeros((n_blocks, n_classes), dtype=np.int64)
    np.add.at(counts, (block, labels), 1)
    return {
        "labels": labels,
        "columns": columns,
        "lists": lists,
        "starts": np.cumsum(sizes) - sizes,
        "block_at": np.repeat(np.arange(n_blocks), sizes),
        "counts": counts,
        "class_ends": np.searchsorted(labels, np.arange(n_classes), side="right").tolist(),
    }


def best_by_loops(blocks, least):
    """The best Gini gain and its position, by the definition."""
    d, (k, c) = blocks["lists"].shape[0], blocks["counts"].shape
    gain, position = np.full((d, k), -np.inf), np.full((d, k), -1)
    for j in range(d):
        for b in range(k):
            at = np.flatnonzero(blocks["block_at"] == b)
            rows = blocks["lists"][j, at]
            x, y = blocks["columns"][j, rows], blocks["labels"][rows]
            for i in range(least, len(rows) - least + 1):
                if i < len(rows) and x[i - 1] < x[i]:
                    sides = [np.bincount(part, minlength=c) for part in (y[:i], y[i:])]
                    whole = sides[0] + sides[1]
                    after = sum(s.sum() * (1 - ((s / s.sum()) ** 2).sum()) for s in sides) / whole.sum()
                    found = 1 - ((whole / whole.sum()) ** 2).sum() - after
                    if found > gain[j, b] + 1e-12:
                        gain[j, b], position[j, b] = found, at[0] + i - 1
    return gain, position


def on_rung(rung, blocks, weights=None):
    """The arguments of `search_lists`, at the rung's place."""
    lists, starts, block_at, counts = (
        rung.from_host(blocks[name]) for name in ("lists", "starts", "block_at", "counts")
    )
    columns = rung.from_host(blocks["columns"], rung.float_dtypes[-1])
    weights = None if weights is None else rung.from_host(weights, "int64")
    return SortedRows(lists, columns, blocks["class_ends"], weights), starts, block_at, counts


def weigh(blocks, weights):
    """Count the classes of the blocks by weight."""
    block_of = np.empty_like(blocks["block_at"])
    block_of[blocks["lists"][0]] = blocks["block_at"]
    counts = np.zeros_like(blocks["counts"])
    np.add.at(counts, (block_of, blocks["labels"]), weights)
    return blocks | {"counts": counts}


@pytest.mark.parametrize("n_classes", [1, 2, 3, 7])
@pytest.mark.parametrize(("least", "n_values"), [(1, 1000), (3, 6), (1, 2)])
def test_search_finds_the_best_split(rung, xp, n_classes, least, n_values):
    blocks = make_blocks(np.random.default_rng(n_classes), 120, 5, n_classes, 3, n_values)
    found = search_lists(xp, *on_rung(rung, blocks), least=least)
    line, score, position, left = (rung.to_host(part) for part in found)
    gains, positions = best_by_loops(blocks, least)
    k = np.arange(5)
    assert np.array_equal(score >= 0, np.isfinite(gains.max(axis=0)))
    split = np.flatnonzero(score >= 0)
    np.testing.assert_allclose(gains[line, k][split], gains.max(axis=0)[split], atol=1e-6)
    if "float64" not in rung.float_dtypes:
        return  # in float32 near equals may change places
    is_first = np.isclose(gains, gains.max(axis=0), rtol=1e-9, atol=1e-12).argmax(axis=0)
    assert np.array_equal(line[split], is_first[split])
    assert np.array_equal(position[split], positions[line, k][split])
    for b in split:
        rows = blocks["lists"][line[b], blocks["starts"][b] : position[b] + 1]
        assert np.array_equal(left[b], np.bincount(blocks["labels"][rows], minlength=n_classes))
    nothing = np.flatnonzero(score < 0)
    assert np.array_equal(position[nothing], blocks["starts"][nothing])
    assert not left[nothing].any()


@pytest.mark.parametrize("n_classes", [1, 2, 3, 4, 5, 30])
@pytest.mark.parametrize("n_values", [3, 300, 10**6])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_body_finds_the_same(rung, xp, n_classes, n_values, weighted):
    rng = np.random.default_rng(0)
    for n, k, least, restricted in ((2_000, 137, 1, False), (2_000, 37, 2, True), (6_000, 3, 5, False)):
        blocks, weights = make_blocks(rng, n, k, n_classes, 3, n_values), None
        if weighted:
            weights = rng.integers(1, 6, n)
            blocks = weigh(blocks, weights)
        given = on_rung(rung, blocks, weights)
        allowed = rung.from_host(rng.random((3, k)) < 0.4) if restricted else None
        found = search_lists(xp, *given, least=least, allowed=allowed)
        with portable_only(), use_compiled("never"):
            expected = search_lists(xp, *given, least=least, allowed=allowed)
        is_split = rung.to_host(expected.score) >= 0
        for ours, theirs in zip(found, expected, strict=True):
            assert np.array_equal(rung.to_host(ours)[is_split], rung.to_host(theirs)[is_split])
        assert np.array_equal(rung.to_host(found.score), rung.to_host(expected.score))


def test_a_weight_is_a_repeated_row(rung, xp):
    rng = np.random.default_rng(3)
    for n_classes in (2, 3, 6):
        blocks = make_blocks(rng, 200, 4, n_classes, 3, 40)
        weights = rng.integers(1, 4, 200)
        weighted = search_lists(xp, *on_rung(rung, weigh(blocks, weights), weights), least=5)
        again = np.repeat(np.arange(200), weights)
        block_of = np.empty(200, dtype=int)
        block_of[blocks["lists"][0]] = blocks["block_at"]
        labels, columns, block = blocks["labels"][again], blocks["columns"][:, again], block_of[again]
        repeated = {
            "columns": columns,
            "lists": np.stack([np.lexsort((np.arange(len(again)), x, block)) for x in columns]).astype(
                "int32"
            ),
            "starts": np.searchsorted(np.sort(block), np.arange(4)),
            "block_at": np.sort(block),
            "counts": weigh(blocks, weights)["counts"],
            "class_ends": np.searchsorted(labels, np.arange(n_classes), side="right").tolist(),
        }
        expected = search_lists(xp, *on_rung(rung, repeated), least=5)
        for name in ("feature", "score", "left"):
            one, other = (rung.to_host(getattr(part, name)) for part in (weighted, expected))
            assert np.array_equal(one, other), name


@pytest.mark.parametrize("n", [60, 40_000])
def test_division_cuts_one_list_and_splits_all(rung, xp, n):
    rng = np.random.default_rng(n)
    blocks = make_blocks(rng, n, 4, 3, 3, 1000)
    line, sizes = rng.integers(0, 3, 4), np.bincount(blocks["block_at"])
    position = blocks["starts"] + rng.integers(0, sizes - 1)
    branches = np.array([[0, 1], [-1, 1], [0, -1], [-1, -1]])
    branch = np.full(n, -1)
    for b in range(4):
        at = np.flatnonzero(blocks["block_at"] == b)
        rows = blocks["lists"][line[b], at]
        branch[rows] = np.where(at <= position[b], branches[b, 0], branches[b, 1])
    expected = np.stack([np.concatenate([li[branch[li] == b] for b in (0, 1)]) for li in blocks["lists"]])
    lists, feature, at, block_at, to = (
        rung.from_host(part) for part in (blocks["lists"], line, position, blocks["block_at"], branches)
    )
    splits = ListSplits(feature, None, at, None)
    sizes = np.bincount(branch[branch >= 0]).tolist()
    assert_close(divide_lists(xp, lists, splits, block_at, to, sizes, n), expected)


# ---- all that is below a level


def fit(X, y, weights, mode, **options):
    with use_compiled(mode):
        model = al.DecisionTreeClassifier(splitter="exact", **options)
        return model.fit(X, y, sample_weight=weights).tree_


@st.composite
def samples(draw):
    """Rows with ties and missing values, classes, integer weights and limits."""
    n, d = draw(st.integers(2, 60)), draw(st.integers(1, 4))
    n_classes, n_values = draw(st.integers(2, 6)), draw(st.sampled_from([2, 5, 1000]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.integers(0, n_values, (n, d)) * 0.37
    options = {
        "max_depth": draw(st.none() | st.integers(1, 4)),
        "min_samples_leaf": draw(st.integers(1, 5)),
        "min_samples_split": draw(st.sampled_from([2, 9, 0.2])),
        "min_impurity_decrease": draw(st.sampled_from([0.0, 0.05])),
    }
    if draw(st.booleans()):
        X[rng.random(X.shape) < draw(st.sampled_from([0.05, 0.5]))] = np.nan
        options["missing"] = "direction"
    weights = draw(st.sampled_from([None, 1, 9]))
    weights = None if weights is None else rng.integers(0, weights + 1, n) + (np.arange(n) < 2)
    return (
        X.astype(draw(st.sampled_from(["float32", "float64"]))),
        rng.integers(0, n_classes, n),
        weights,
        options,
    )


@needs_numba
@pytest.mark.rungs("host")
@given(samples())
@settings(max_examples=60, deadline=None)
def test_body_and_program_grow_the_same_tree(sample):
    X, y, weights, options = sample
    one, other = (fit(X, y, weights, mode, **options) for mode in ("always", "never"))
    for name, left, right in zip(one._fields, one, other, strict=True):
        if left is not None:
            np.testing.assert_array_equal(left, right, strict=True, err_msg=name)


@needs_numba
@pytest.mark.rungs("host")
@pytest.mark.parametrize("n_classes", [2, 4, 7])
@tuned(list_thread_values=40)
def test_threads_grow_the_same_tree(n_classes):
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(900, 5))
    y = (np.floor(2 * X[:, 0] - X[:, 1] ** 2) + rng.integers(0, 2, 900)).astype(int) % n_classes
    X[rng.random(X.shape) < 0.1] = np.nan
    weights = rng.integers(1, 4, 900)
    expected = fit(X, y, weights, "never", missing="direction")
    try:
        for n_threads in (1, 2, 5):
            set_num_threads(n_threads)
            found = fit(X, y, weights, "always", missing="direction")
            for name, left, right in zip(found._fields, found, expected, strict=True):
                if left is not None:
                    np.testing.assert_array_equal(left, right, strict=True, err_msg=name)
    finally:
        set_num_threads(None)


def test_the_choice_of_a_body_is_given_in_words():
    from arraylearn.grow.sorted_lists.lists import choose_search

    rows = SortedRows(np.zeros((2, 3), "int32"), np.zeros((2, 3)), (1, 3))
    counts = np.array([[1, 2]])
    with use_compiled("never"):
        assert choose_search(HOST.xp, rows, counts) == "few values, or nothing is to be compiled"
    if is_numba_installed():
        with use_compiled("always"):
            assert callable(choose_search(HOST.xp, rows, counts))
            assert choose_search(HOST.xp, rows, counts[:, :1]) == "one class"


def test_float_weights_are_put_on_a_grid():
    from arraylearn.weights import grid_weights

    rng = np.random.default_rng(0)
    weights = rng.random(1000) * 10.0 ** rng.integers(-20, 3, 1000)
    weights[3] = 0.0
    found, unit = grid_weights(weights)
    assert np.array_equal(found, found.round())
    assert np.array_equal(found > 0, weights > 0)
    assert 2**29 <= found.sum() < 2**31
    assert np.abs(found * unit - weights).max() <= unit
    assert np.array_equal(grid_weights(4 * weights)[0], found)
    assert np.abs(grid_weights(weights / weights.sum())[0] - found).max() <= 1
    for proportion in ([1, 2, 3], [2, 0, 3], [3, 3, 3], [1, 0, 7], [510, 300, 1700]):
        whole = np.array(proportion) // np.gcd.reduce(proportion)
        for factor in (1.0, 4.0, 0.37, 1 / 59, 1e-300):
            found, unit = grid_weights(factor * np.array(proportion))
            assert found.tolist() == whole.tolist()
            np.testing.assert_allclose(found * unit, factor * np.array(proportion), rtol=1e-14)
    again, one = grid_weights(np.array([1.0, 0.0, 7.0]))
    assert again.tolist() == [1, 0, 7]
    assert one == 1.0
