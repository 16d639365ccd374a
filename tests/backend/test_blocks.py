"""The block primitives: every rung against plain loops, and against the portable body."""

import numpy as np
import pytest

from arraylearn.backend.arrays.blocks import block_index, block_max, first_in_block, scatter, split_lists
from arraylearn.backend.native import portable_only
from arraylearn.backend.ops.bins import gini_bins
from arraylearn.backend.ops.gini_split import gini_split, split_lists_at
from arraylearn.backend.threads import set_num_threads
from tests.backends.assertions import assert_close


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


def on_rung(rung, blocks):
    """The arguments of `gini_split`, at the rung's place."""
    lists, starts, block_at, counts = (
        rung.from_host(blocks[name]) for name in ("lists", "starts", "block_at", "counts")
    )
    columns = rung.from_host(blocks["columns"], rung.float_dtypes[-1])
    return lists, columns, blocks["class_ends"], starts, block_at, counts


@pytest.mark.parametrize("n_classes", [1, 2, 3, 7])
@pytest.mark.parametrize(("least", "n_values"), [(1, 1000), (3, 6), (1, 2)])
def test_gini_split_finds_the_best_split(rung, xp, n_classes, least, n_values):
    blocks = make_blocks(np.random.default_rng(n_classes), 120, 5, n_classes, 3, n_values)
    arguments = on_rung(rung, blocks)
    line, score, position, left = (
        rung.to_host(part) for part in gini_split(xp, *arguments, least=least, is_tied=[n_values < 10] * 3)
    )
    gains, positions = best_by_loops(blocks, least)
    k = np.arange(5)
    assert np.array_equal(score >= 0, np.isfinite(gains.max(axis=0)))
    found = np.flatnonzero(score >= 0)
    np.testing.assert_allclose(gains[line, k][found], gains.max(axis=0)[found], atol=1e-6)
    if "float64" not in rung.float_dtypes:
        return  # in float32 near equals may change places
    is_first = np.isclose(gains, gains.max(axis=0), rtol=1e-9, atol=1e-12).argmax(axis=0)
    assert np.array_equal(line[found], is_first[found])
    assert np.array_equal(position[found], positions[line, k][found])
    for b in found:
        rows = blocks["lists"][line[b], blocks["starts"][b] : position[b] + 1]
        assert np.array_equal(left[b], np.bincount(blocks["labels"][rows], minlength=n_classes))
    nothing = np.flatnonzero(score < 0)
    assert np.array_equal(position[nothing], blocks["starts"][nothing])
    assert not left[nothing].any()


@pytest.mark.parametrize("n_classes", [1, 2, 3, 4, 5, 30])
@pytest.mark.parametrize("n_values", [3, 300, 10**6])
def test_native_and_portable_splits_are_equal_to_the_last_bit(rung, xp, n_classes, n_values):
    rng = np.random.default_rng(0)
    for n, k, least, restricted in ((2_000, 137, 1, False), (2_000, 37, 2, True), (6_000, 3, 5, False)):
        blocks = make_blocks(rng, n, k, n_classes, 3, n_values)
        arguments = on_rung(rung, blocks)
        allowed = rung.from_host(rng.random((3, k)) < 0.4) if restricted else None
        for is_tied in ([True] * 3, [False] * 3):
            found = gini_split(xp, *arguments, least=least, is_tied=is_tied, allowed=allowed)
            with portable_only():
                expected = gini_split(xp, *arguments, least=least, is_tied=is_tied, allowed=allowed)
            is_split = rung.to_host(expected[1]) >= 0
            for ours, theirs in zip(found, expected, strict=True):
                assert np.array_equal(rung.to_host(ours)[is_split], rung.to_host(theirs)[is_split])
            assert np.array_equal(rung.to_host(found[1]), rung.to_host(expected[1]))


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("n_blocks", [3, 200])
@pytest.mark.rungs("numpy")  # whose body has pieces and threads
def test_gini_split_does_not_depend_on_threads_pieces_and_cells(rung, xp, monkeypatch, n_classes, n_blocks):
    blocks = make_blocks(np.random.default_rng(n_blocks), 9_000, n_blocks, n_classes, 7, 50_000)
    arguments = on_rung(rung, blocks)
    with portable_only():
        expected = gini_split(xp, *arguments, least=1, is_tied=[False] * 7)
    try:
        pieces = ((1, 10**6, 10**6), (1, 10_000, 10**6), (2, 10**6, 10**6), (3, 20_000, 10**6))
        for n_threads, piece, large in (*pieces, (1, 10**6, 40), (2, 10**6, 40)):
            monkeypatch.setattr("arraylearn.backend.native.numpy_gini_split._PIECE", piece)
            monkeypatch.setattr("arraylearn.backend.native.numpy_gini_split._LARGE", (large, large))
            set_num_threads(n_threads)
            found = gini_split(xp, *arguments, least=1, is_tied=[False] * 7)
            for ours, theirs in zip(found, expected, strict=True):
                assert np.array_equal(ours, theirs)
    finally:
        set_num_threads(None)


@pytest.mark.parametrize("n", [60, 40_000])
def test_split_lists_at_cuts_one_list_and_splits_all(rung, xp, n):
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
    parts = (blocks["lists"], line, position, blocks["starts"], blocks["block_at"], branches)
    on = [rung.from_host(part) for part in parts]
    found = split_lists_at(xp, *on, np.bincount(branch[branch >= 0]).tolist(), n)
    assert_close(found, expected)


@pytest.mark.parametrize("n_branches", [1, 2, 3, 20, 300])
@pytest.mark.parametrize("m", [40, 50_000])
def test_split_lists_is_a_stable_partition(rung, xp, n_branches, m):
    rng = np.random.default_rng(m)
    branch = rng.integers(-1, n_branches, m)
    lists = np.stack([rng.permutation(m) for _ in range(3)]).astype(np.int32)
    sizes = np.bincount(branch[branch >= 0], minlength=n_branches).tolist()
    expected = [np.concatenate([line[branch[line] == b] for b in range(n_branches)]) for line in lists]
    found = split_lists(xp, rung.from_host(lists), rung.from_host(branch), sizes)
    assert_close(found, np.stack(expected))


def test_block_index_and_block_max_and_scatter(rung, xp):
    index = block_index(xp, rung.from_host([2, 0, 3]), 5)
    assert_close(index, np.array([0, 0, 2, 2, 2]))
    values = rung.from_host([[1.0, 5.0, 2.0], [4.0, 3.0, -1.0]], rung.float_dtypes[-1])
    starts, block_at = rung.from_host([0, 2]), rung.from_host([0, 0, 1])
    assert_close(block_max(xp, values, starts, block_at), [[5.0, 2.0], [4.0, -1.0]])
    hits = rung.from_host([[False, True, False]])
    assert_close(first_in_block(xp, hits, starts, block_at), np.array([[1, -1]]))
    assert_close(scatter(xp, rung.from_host([7, 8]), rung.from_host([3, 0]), 5), np.array([8, 0, 0, 7, 0]))


@pytest.mark.parametrize("n_classes", [1, 2, 3, 6])
@pytest.mark.parametrize("weighted", [False, True])
def test_gini_bins(rung, xp, n_classes, weighted):
    rng = np.random.default_rng(n_classes)
    histogram = rng.integers(0, 4, (3, 40, n_classes, 9))
    name = rung.float_dtypes[-1] if weighted else "int64"
    on_rung = rung.from_host(histogram, name)
    best, cut = gini_bins(xp, on_rung, 2)
    with portable_only():
        expected, expected_cut = gini_bins(xp, on_rung, 2)
    assert np.array_equal(rung.to_host(best), rung.to_host(expected))
    assert np.array_equal(rung.to_host(cut), rung.to_host(expected_cut))
    left = histogram.cumsum(axis=-1)
    right = left[..., -1:] - left
    is_allowed = (left.sum(axis=2) >= 2) & (right.sum(axis=2) >= 2)
    assert np.array_equal(rung.to_host(best) >= 0, is_allowed.any(axis=-1))
