"""Rows down trees of two branches: values by hand, every body alike, no sync."""

from __future__ import annotations

import numpy as np
import pytest

import arraylearn as al
from arraylearn.backend import dispatch
from arraylearn.backend.dispatch import is_numba_installed, tuned, use_compiled
from arraylearn.backend.namespace import HOST, Place
from arraylearn.grow.trees import LEAF, Trees, tree_at
from arraylearn.walk.leaves import choose_body, find_leaves, sum_leaves
from arraylearn.walk.packed import pack_trees
from tests.backends.assertions import assert_close

N_BINS = 6
on_the_host = pytest.mark.rungs("host")  # other libraries run the array program only


def random_nodes(rng, n_trees, depth, d, cuts, stops=0.15):
    """Trees with leaves at every depth, one after the other, siblings side by side."""
    feature, child, root = [], [], []
    for _ in range(n_trees):
        root.append(len(feature))
        level = [len(feature)]
        feature.append(LEAF)
        child.append(LEAF)
        for at in range(depth):
            above, level = level, []
            for i, node in enumerate(above):
                if i and at and rng.random() < stops:  # the first branch is as deep as the tree
                    continue
                child[node], feature[node] = len(feature), int(rng.integers(d))
                level += [len(feature), len(feature) + 1]
                child += [LEAF, LEAF]
                feature += [LEAF, LEAF]
    return Trees(np.array(root), np.array(feature), cuts(len(feature)), np.array(child), height=depth)


def binned_nodes(rng, n_trees, depth, d=4, kind="subsets"):
    """Trees over bins, `kind` "plain", "missing" (both directions) or "subsets" (and these)."""
    nodes = random_nodes(rng, n_trees, depth, d, lambda m: rng.integers(0, N_BINS - 1, m))
    m = nodes.n_nodes
    if kind != "plain":
        nodes = nodes._replace(default_branch=rng.integers(0, 2, m, dtype=np.int8))
    if kind == "subsets":
        start = np.where(rng.random(m) < 0.3, N_BINS * rng.integers(0, 3, m), -1)
        nodes = nodes._replace(map_start=start, category_branch=rng.integers(0, 2, 3 * N_BINS, dtype=np.int8))
    return nodes


def walk_by_hand(nodes, rows):
    """The leaves (t, n) of rows: values (n, d), or bins (d, n)."""
    over_values = rows.dtype.kind == "f"
    n = rows.shape[0 if over_values else 1]
    found = np.empty((nodes.n_trees, n), dtype=np.int64)
    for t, root in enumerate(nodes.roots):
        for i in range(n):
            node = root
            while nodes.first_child[node] != LEAF:
                value = rows[i, nodes.feature[node]] if over_values else rows[nodes.feature[node], i]
                is_right = value > nodes.threshold[node]
                is_missing = np.isnan(value) if over_values else value == N_BINS - 1
                if is_missing and nodes.default_branch is not None:
                    is_right = nodes.default_branch[node]
                if nodes.map_start is not None and nodes.map_start[node] >= 0:
                    is_right = nodes.category_branch[nodes.map_start[node] + value]
                node = nodes.first_child[node] + int(is_right)
            found[t, i] = node
    return found


def on(rung, nodes):
    return tree_at(nodes, Place(rung.load(), rung.device))


@pytest.mark.parametrize("kind", ["plain", "missing", "subsets"])
@pytest.mark.parametrize("depth", [0, 1, 3, 8, 9])
@pytest.mark.parametrize(
    ("n_outputs", "n", "width"), [(1, 0, 1), (1, 13, 3), (3, 300, 1), (2, 600, 1), (2, 70, 2)]
)
def test_rows_of_bins(rung, xp, kind, depth, n_outputs, n, width):
    rng = np.random.default_rng(depth)
    nodes = binned_nodes(rng, 3 * n_outputs, depth, kind=kind)
    bins = rng.integers(0, N_BINS, (4, n)).astype(np.uint8 if n % 2 else np.int16)
    table = rng.integers(-99, 99, (nodes.n_nodes, width)).astype(np.int32)
    expected = walk_by_hand(nodes, bins)
    with rung.forbid_syncs():
        packed = pack_trees(xp, on(rung, nodes), 4, N_BINS)
        reached = find_leaves(xp, rung.from_host(bins), packed)
        sums = sum_leaves(xp, rung.from_host(bins), packed, rung.from_host(table), n_outputs)
    assert_close(reached, expected)
    held = (
        table[expected].reshape(-1, n_outputs, n, width).sum(axis=0) if n else np.zeros((n_outputs, 0, width))
    )
    assert_close(sums, held.transpose(0, 2, 1).reshape(n_outputs * width, n).astype(np.int64))


@pytest.mark.parametrize("n", [0, 3, 515])
@pytest.mark.parametrize("with_missing", [False, True])
@pytest.mark.parametrize("n_trees", [1, 3])
def test_rows_of_values(rung, xp, float_dtype_name, n, with_missing, n_trees):
    rng = np.random.default_rng(n)
    nodes = random_nodes(rng, n_trees, 10, 5, lambda m: rng.standard_normal(m).astype(float_dtype_name), 0.4)
    x = rng.standard_normal((n, 5)).astype(float_dtype_name)
    x[::7, 2] = nodes.threshold[0]  # values at a cut
    if with_missing:
        x[rng.random((n, 5)) < 0.2] = np.nan
        nodes = nodes._replace(default_branch=rng.integers(0, 2, nodes.n_nodes))
    with rung.forbid_syncs():
        found = find_leaves(xp, rung.from_host(x), pack_trees(xp, on(rung, nodes), 5))
    assert_close(found, walk_by_hand(nodes, x))


def test_rows_without_features_stay_at_the_root(rung, xp):
    nothing = np.full(1, LEAF)
    root = Trees(np.zeros(1, np.int64), nothing, np.zeros(1, np.float32), nothing, height=0)
    found = find_leaves(xp, rung.from_host(np.zeros((3, 0), "float32")), pack_trees(xp, on(rung, root), 0))
    assert_close(found, np.zeros((1, 3), dtype=np.int64))


@on_the_host
def test_cuts_between_short_numbers(rung, xp):
    # rounding the cut up would send the number that it rounds to the wrong way
    low = np.float32(1.0)
    high = np.nextafter(low, np.float32(2))
    cut = np.array([(float(low) + 3 * float(high)) / 4, 0.0, 0.0])
    x = np.array([[low], [high], [np.float32("nan")]], dtype=np.float32)
    nodes = Trees(np.zeros(1, np.int64), np.array([0, -1, -1]), cut, np.array([1, -1, -1]), height=1)
    assert find_leaves(xp, x, pack_trees(xp, nodes, 1)).tolist() == [[1, 2, 1]]
    nodes = nodes._replace(default_branch=np.array([1, 0, 0]))
    assert find_leaves(xp, x, pack_trees(xp, nodes, 1)).tolist() == [[1, 2, 2]]


@pytest.mark.parametrize("mode", ["never", pytest.param("always", marks=pytest.mark.rungs("compiled"))])
def test_sums_of_many_trees_are_exact(rung, mode):
    nothing = np.full(1, LEAF)
    nodes = Trees(np.zeros(5000, dtype=np.int64), nothing, nothing, nothing, height=0)
    table = np.array([[1 << 20, 3, 1 << 20]], dtype=np.int32)
    with use_compiled(mode):
        found = sum_leaves(HOST.xp, np.zeros((2, 4), dtype=np.int16), pack_trees(HOST.xp, nodes, 2, 9), table)
    np.testing.assert_array_equal(found, np.broadcast_to(5000 * table.T.astype(np.int64), (3, 4)))


def test_a_node_must_fit_its_integer():
    nothing = np.full(1, LEAF)
    nodes = Trees(np.zeros(1, dtype=np.int64), nothing, nothing, nothing, height=0)
    with pytest.raises(ValueError, match="63 bits"):
        pack_trees(HOST.xp, nodes, 1 << 50, 1 << 12)


def test_chunks_of_the_array_program():
    rng = np.random.default_rng(0)
    nodes = binned_nodes(rng, 3, 5)
    bins = rng.integers(0, N_BINS, (4, 300)).astype(np.uint8)
    packed, table = pack_trees(HOST.xp, nodes, 4, N_BINS), np.arange(nodes.n_nodes, dtype=np.int32)
    expected = walk_by_hand(nodes, bins)
    al.set_memory_budget("8KB")
    try:
        with use_compiled("never"):
            np.testing.assert_array_equal(find_leaves(HOST.xp, bins, packed), expected)
            sums = sum_leaves(HOST.xp, bins, packed, table[:, None])
    finally:
        al.set_memory_budget(None)
    np.testing.assert_array_equal(sums, expected.sum(axis=0)[None, :])


# ---- the bodies for CPUs


def test_the_choice_of_a_body(monkeypatch):
    xp = HOST.xp
    shallow = pack_trees(xp, binned_nodes(np.random.default_rng(0), 10, 5), 4, N_BINS)
    bins = np.zeros((4, 3_000), dtype=np.uint8)  # of 10 trees of five levels
    with use_compiled("never"):
        assert choose_body(xp, bins, shallow, 1) == "compiled bodies are switched off"
    with use_compiled("auto"):
        if is_numba_installed():
            assert choose_body(xp, bins[:, 1:], shallow, 1) == "less work than 150,000"
            assert choose_body(xp, bins, shallow, 1).__module__ == "arraylearn.walk.planes_cpu"
            for trees, width in ((shallow, 0), (shallow, 2), (shallow._replace(height=9), 1)):
                assert choose_body(xp, bins, trees, width).__module__ == "arraylearn.walk.leaves_cpu"
        monkeypatch.setattr(dispatch, "is_numba_installed", lambda: False)
        monkeypatch.setattr(dispatch, "_has_warned", True)  # once is enough
        assert choose_body(xp, bins, shallow, 1) == "Numba is not installed"


@pytest.mark.rungs("compiled")
@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("depth", [1, 6, 8, 9])
@pytest.mark.parametrize("n", [1, 511, 512, 2113])
@tuned(thread_share=0, walk_block_rows=50)
def test_threads_and_blocks_change_nothing(rung, n_threads, depth, n):
    rng = np.random.default_rng(depth)
    bins = rng.integers(0, N_BINS, (4, n)).astype(np.uint8)
    al.set_num_threads(n_threads)
    try:
        with tuned(walk_thread_steps=1, walk_block_rows=50):
            check_bodies(rng, bins, depth)
    finally:
        al.set_num_threads(None)


def check_bodies(rng, bins, depth):
    """Every body gives what the array program gives."""
    for kind in ("plain", "missing", "subsets"):
        nodes = binned_nodes(rng, 14, depth, kind=kind)
        packed = pack_trees(HOST.xp, nodes, 4, N_BINS)
        table = rng.integers(-99, 99, (nodes.n_nodes, 1)).astype(np.int32)
        for columns in (bins, np.minimum(bins, N_BINS - 2)):  # with missing values, and without
            for n_outputs in (1, 2):
                found = sum_leaves(HOST.xp, columns, packed, table, n_outputs)
                reached = find_leaves(HOST.xp, columns, packed)
                with use_compiled("never"):
                    np.testing.assert_array_equal(
                        found, sum_leaves(HOST.xp, columns, packed, table, n_outputs)
                    )
                    np.testing.assert_array_equal(reached, find_leaves(HOST.xp, columns, packed))
