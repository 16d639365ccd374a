"""CPU body of `arraylearn.walk.leaves`: rows walk in lanes.

A block of rows passes tree after tree, so that a tree stays in the cache while all of them go down. Eight
rows go side by side: a step is bound by the latency of memory, and does not depend on those of other rows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.cpu.jit import Host, entry, part
from arraylearn.backend.cpu.portions import even_portions
from arraylearn.backend.cpu.unsigned import index
from arraylearn.backend.threads import parallel_map
from arraylearn.backend.tuning import get_tuning
from arraylearn.walk.packed import PackedTrees

Int = Any

__all__ = ["walk_trees"]

_LANES = 8
# Steps (rows x trees x levels) that a thread must have, or it costs more than it brings.
_LEAST_STEPS = 500_000


class NodeFields(NamedTuple):
    """The integers of nodes, and where their fields lie: see `PackedTrees`."""

    record: Host  # (m,) int64
    root: Host  # (t,) int64
    n_features: int
    feature_bits: int
    cut_shift: int
    child_shift: int
    missing_bin: int  # -1: none


def walk_trees(rows: Host, trees: PackedTrees, table: Host | None, n_outputs: int) -> Host:
    """Return leaves, or the sums of what they hold: see `arraylearn.walk.leaves`."""
    over_bins = trees.cut is None
    n, n_trees = rows.shape[1 if over_bins else 0], trees.root.shape[0]
    n_columns = 0 if table is None else table.shape[1]
    leaves = np.empty((n_trees, n if table is None else 0), dtype=np.int64)
    sums = np.zeros((n, n_outputs * n_columns), dtype=np.int64)
    held = np.zeros((0, 0), dtype=np.int32) if table is None else np.ascontiguousarray(table, dtype=np.int32)
    nodes = NodeFields(
        trees.record,
        trees.root,
        rows.shape[0 if over_bins else 1],
        trees.feature_bits,
        trees.cut_shift,
        trees.child_shift,
        -1 if trees.missing_bin is None else trees.missing_bin,
    )
    cuts, subsets = _choose_loops(rows, trees)

    def walk(block: tuple[int, int]) -> None:
        first, last = block
        if over_bins:
            lines = np.empty((last - first, nodes.n_features), dtype=np.int16)
            lines[...] = rows[:, first:last].T
        else:
            lines = np.ascontiguousarray(rows[first:last])
        reached = leaves if table is None else np.empty((1, last - first), dtype=np.int64)
        start = first if table is None else 0
        _walk(lines.reshape(-1), nodes, cuts, subsets, start, reached, held, sums[first:last])

    portions = even_portions(n, _LEAST_STEPS // max(1, n_trees * trees.depth))
    parallel_map(walk, [block for portion in portions for block in _blocks(*portion)])
    return leaves if table is None else sums.T


def _choose_loops(rows: Host, trees: PackedTrees) -> tuple[Host | None, Host | None]:
    """Return cuts and subsets: loops are compiled without what is None."""
    if trees.cut is not None:
        cuts = trees.cut.astype(rows.dtype)
        # numbers of 32 bits are above a cut of 64 where they are above the next such number below it
        is_above = cuts > trees.cut
        cuts[is_above] = np.nextafter(cuts[is_above], rows.dtype.type(-np.inf))
        return cuts, None
    if trees.goes_right is not None:
        return None, np.ascontiguousarray(trees.goes_right)
    return None, None if trees.missing_bin is None else np.zeros((0, 1), dtype=np.bool_)


def _blocks(first: int, last: int) -> list[tuple[int, int]]:
    """Cut rows into blocks of about equal size."""
    n_blocks = max(1, -(-(last - first) // get_tuning().walk_block_rows))
    return list(pairwise(first + (last - first) * i // n_blocks for i in range(n_blocks + 1)))


@entry
def _walk(
    lines: Host,
    nodes: NodeFields,
    cuts: Host | None,
    subsets: Host | None,
    start: Int,
    leaves: Host,
    table: Host,
    sums: Host,
) -> None:
    """Walk rows down all trees: write their leaves from `start` on, and add what these hold to `sums`."""
    m, width = sums.shape[0], table.shape[1]
    n_outputs = sums.shape[1] // max(1, width)
    for tree in range(nodes.root.shape[0]):
        reached = leaves[tree % leaves.shape[0]][start : start + m]
        _go_down(lines, nodes, cuts, subsets, nodes.record[nodes.root[tree]], nodes.root[tree], reached)
        if width:
            column = tree % n_outputs * width
            for i in range(m):
                for c in range(width):
                    sums[i, column + c] += table[index(reached[i]), c]


@part
def _go_down(
    lines: Host,
    nodes: NodeFields,
    cuts: Host | None,
    subsets: Host | None,
    root: Int,
    tree: Int,
    leaves: Host,
) -> None:
    """Send rows down one tree, eight side by side, then the rest one by one."""
    n, d, is_leaf, shift = leaves.shape[0], nodes.n_features, 1 << nodes.feature_bits, nodes.child_shift
    records = nodes.record
    c = _cut_at(cuts, index(tree))
    n_lanes = n // _LANES * _LANES
    for i in range(0, n_lanes, _LANES):
        a = i * d
        r0 = r1 = r2 = r3 = r4 = r5 = r6 = r7 = root
        c0 = c1 = c2 = c3 = c4 = c5 = c6 = c7 = c
        while not r0 & r1 & r2 & r3 & r4 & r5 & r6 & r7 & is_leaf:
            node = _step(lines, nodes, cuts, subsets, r0, c0, a)
            r0, c0 = records[node], _cut_at(cuts, node)
            node = _step(lines, nodes, cuts, subsets, r1, c1, a + d)
            r1, c1 = records[node], _cut_at(cuts, node)
            node = _step(lines, nodes, cuts, subsets, r2, c2, a + 2 * d)
            r2, c2 = records[node], _cut_at(cuts, node)
            node = _step(lines, nodes, cuts, subsets, r3, c3, a + 3 * d)
            r3, c3 = records[node], _cut_at(cuts, node)
            node = _step(lines, nodes, cuts, subsets, r4, c4, a + 4 * d)
            r4, c4 = records[node], _cut_at(cuts, node)
            node = _step(lines, nodes, cuts, subsets, r5, c5, a + 5 * d)
            r5, c5 = records[node], _cut_at(cuts, node)
            node = _step(lines, nodes, cuts, subsets, r6, c6, a + 6 * d)
            r6, c6 = records[node], _cut_at(cuts, node)
            node = _step(lines, nodes, cuts, subsets, r7, c7, a + 7 * d)
            r7, c7 = records[node], _cut_at(cuts, node)
        leaves[i], leaves[i + 1], leaves[i + 2], leaves[i + 3] = (
            r0 >> shift,
            r1 >> shift,
            r2 >> shift,
            r3 >> shift,
        )
        leaves[i + 4], leaves[i + 5], leaves[i + 6], leaves[i + 7] = (
            r4 >> shift,
            r5 >> shift,
            r6 >> shift,
            r7 >> shift,
        )
    for i in range(n_lanes, n):
        r0, c0 = root, c
        while not r0 & is_leaf:
            node = _step(lines, nodes, cuts, subsets, r0, c0, i * d)
            r0, c0 = records[node], _cut_at(cuts, node)
        leaves[i] = r0 >> shift


@part
def _cut_at(cuts: Host | None, node: Int) -> Any:
    if cuts is None:
        return 0
    return cuts[node]


@part
def _step(
    lines: Host, nodes: NodeFields, cuts: Host | None, subsets: Host | None, record: Int, cut: Any, line: Int
) -> Int:
    """Return the child to which a row goes; a leaf is its own child."""
    value = lines[index(line + (record & ((1 << nodes.feature_bits) - 1)))]
    if cuts is None:
        bin_at = np.int64(value)
        if subsets is not None:
            flags = record >> (nodes.feature_bits + 1)
            if flags & 2:
                width = nodes.child_shift - nodes.cut_shift
                row = (record >> nodes.cut_shift) & ((1 << width) - 1)
                return index((record >> nodes.child_shift) + np.int64(subsets[index(row), index(bin_at)]))
            if flags & 1 and bin_at == nodes.missing_bin:
                bin_at = np.int64(0)
        return index((record + (bin_at << nodes.cut_shift)) >> nodes.child_shift)
    is_right = value > cut
    if value != value:
        is_right = (record >> (nodes.feature_bits + 1)) & 1 != 0
    return index((record >> nodes.child_shift) + np.int64(is_right))
