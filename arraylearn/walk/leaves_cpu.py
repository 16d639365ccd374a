"""CPU body of `arraylearn.walk.leaves`: rows walk in lanes.

A large block of rows passes one tree after the other, so that a tree stays in the cache while all of them
walk down. Within a block 256 rows walk side by side, level by level: the steps of one level do not depend on
one another, so that the processor can overlap their reads from memory. For as many levels as most rows need,
all rows take a step (a leaf leads to itself); after that, rows that have reached a leaf are removed::

    lane    0 1 2 3 4 5        if rows b and e are at leaves:
    row     a b c d e f   ->   a c d f
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from arraylearn.backend.cpu.jit import Host, Int, entry, index, part
from arraylearn.backend.dispatch import get_tuning
from arraylearn.backend.threads import even_portions, parallel_map
from arraylearn.walk.packed import NO_BIN, PackedTrees

__all__ = ["walk_trees"]

_LANES = 256


class NodeFields(NamedTuple):
    """Nodes packed into integers, and the positions of their fields: see `PackedTrees`."""

    record: Host  # (m,) int64 over bins; over values (2 m,): each integer with its cut beside it
    roots: Host  # (t,) int64
    n_features: int
    n_common: int  # levels that most rows walk
    feature_bits: int
    cut_shift: int
    child_shift: int
    missing_bin: int  # or NO_BIN


def walk_trees(rows: Host, trees: PackedTrees, table: Host | None, n_outputs: int) -> Host:
    """Return leaves, or the sums of what they hold: see `arraylearn.walk.leaves`."""
    over_bins = trees.cut is None
    n, n_trees = rows.shape[1 if over_bins else 0], trees.roots.shape[0]
    n_columns = 0 if table is None else table.shape[1]
    leaves = np.empty((n_trees, n if table is None else 0), dtype=np.int64)
    sums = np.zeros((n, n_outputs * n_columns), dtype=np.int64)
    held = np.zeros((0, 0), dtype=np.int32) if table is None else np.ascontiguousarray(table, dtype=np.int32)
    record, cuts, subsets = _choose_loops(rows, trees)
    nodes = NodeFields(
        record,
        trees.roots,
        rows.shape[0 if over_bins else 1],
        min(trees.height, (trees.record.shape[0] // max(1, n_trees)).bit_length()),
        trees.feature_bits,
        trees.cut_shift,
        trees.child_shift,
        NO_BIN if trees.missing_bin is None else trees.missing_bin,
    )

    def walk(block: tuple[int, int]) -> None:
        first, last = block
        if over_bins:
            cells = np.empty((last - first, nodes.n_features), dtype=np.int16)
            cells[...] = rows[:, first:last].T
        else:
            cells = np.ascontiguousarray(rows[first:last])
        reached, shift = (leaves, first) if table is None else (np.empty((1, last - first), np.int64), 0)
        arrays = WalkBlock(
            cells.reshape(-1), np.empty((2, _LANES), np.uint32), reached, shift, held, sums[first:last]
        )
        _walk(arrays, nodes, cuts, subsets)

    portions = even_portions(n, get_tuning().walk_thread_steps // max(1, n_trees * trees.height))
    parallel_map(walk, [block for portion in portions for block in _blocks(*portion)])
    return leaves if table is None else sums.T


class WalkBlock(NamedTuple):
    """A block of m rows."""

    cells: Host  # (m * d,) values or bins, row by row
    # (2, _LANES) uint32: rows that walk side by side, by their number in the block, and their nodes
    lanes: Host
    leaves: Host  # (t, n): of every tree; or a buffer (1, m) for one tree at a time
    first: int  # where the block begins in `leaves`
    table: Host  # (nodes, w) int32: what leaves hold; w is 0 where the leaves are asked for
    sums: Host  # (m, n_outputs * w) int64


def _choose_loops(rows: Host, trees: PackedTrees) -> tuple[Host, Host | None, Host | None]:
    """Return records, cuts and subsets; loops are compiled without those that are None.

    Cuts are None over bins; subsets, where no node has one and missing values are compared like all others.
    """
    subsets = np.zeros((0, 1), dtype=np.bool_) if trees.flips else None
    if trees.goes_right is not None:
        subsets = np.ascontiguousarray(trees.goes_right)
    if trees.cut is None:
        return trees.record, None, subsets
    m = trees.record.shape[0]
    is_short = rows.dtype == np.float32 and m.bit_length() + trees.child_shift < 32
    record = np.empty((m, 2), dtype=np.int32 if is_short else np.int64)
    record[:, 0] = trees.record
    pairs = record.view(np.float32 if is_short else np.float64)
    cuts = trees.cut.astype(rows.dtype)
    # a float32 is above a float64 cut exactly if it is above the largest float32 that is not above the cut
    is_above = cuts > trees.cut
    cuts[is_above] = np.nextafter(cuts[is_above], rows.dtype.type(-np.inf))
    pairs[:, 1] = cuts
    return record.reshape(-1), pairs.reshape(-1), subsets


def _blocks(first: int, last: int) -> list[tuple[int, int]]:
    """Cut rows into blocks of about equal size."""
    n_blocks = max(1, -(-(last - first) // get_tuning().walk_block_rows))
    return list(pairwise(first + (last - first) * i // n_blocks for i in range(n_blocks + 1)))


@entry
def _walk(block: WalkBlock, nodes: NodeFields, cuts: Host | None, subsets: Host | None) -> None:
    """Walk rows down all trees: write their leaves, and add the table's rows of these leaves to the sums."""
    table, sums = block.table, block.sums
    m, width = sums.shape[0], table.shape[1]
    n_outputs = sums.shape[1] // max(1, width)
    for tree in range(nodes.roots.shape[0]):
        reached = block.leaves[tree % block.leaves.shape[0]][block.first : block.first + m]
        for first in range(0, m, _LANES):
            last = min(first + _LANES, m)
            d = nodes.n_features
            cells = block.cells[first * d : last * d]
            _go_down(cells, nodes, cuts, subsets, nodes.roots[tree], block.lanes, reached[first:last])
        if width:
            column = index(tree % n_outputs * width)
            for i in range(m):
                leaf = index(reached[i])
                for c in range(index(width)):
                    sums[i, column + c] += table[leaf, c]


@part
def _go_down(
    cells: Host,
    nodes: NodeFields,
    cuts: Host | None,
    subsets: Host | None,
    root: Int,
    lanes: Host,
    leaves: Host,
) -> None:
    """Send some rows down one tree."""
    row, node, d, n_live = lanes[0], lanes[1], index(nodes.n_features), index(leaves.shape[0])
    for i in range(n_live):
        row[i], node[i] = i, root
    for _ in range(nodes.n_common):
        for i in range(n_live):
            node[i] = _step(cells, nodes, cuts, subsets, index(node[i]), i * d)
    while n_live > index(0):
        n_left = index(0)
        for i in range(n_live):
            own, at = index(row[i]), index(node[i])
            child = _step(cells, nodes, cuts, subsets, at, own * d)
            leaves[own] = np.int64(at)
            row[n_left], node[n_left] = np.uint32(own), np.uint32(child)
            n_left += index(child != at)
        n_live = n_left


@part
def _step(
    cells: Host, nodes: NodeFields, cuts: Host | None, subsets: Host | None, node: Int, start: Int
) -> Int:
    """Return the child to which a row goes; a leaf is its own child."""
    if cuts is not None:
        record: Int = np.int64(nodes.record[index(2) * node])
        value = cells[start + index(record & ((1 << nodes.feature_bits) - 1))]
        is_right = value > cuts[index(2) * node + index(1)]
        if subsets is not None and value != value:
            is_right = (record >> (nodes.feature_bits + 1)) & 1 != 0
        return index(record >> nodes.child_shift) + index(is_right)
    record = nodes.record[node]
    bin_at = np.int64(cells[start + index(record & ((1 << nodes.feature_bits) - 1))])
    if subsets is not None:
        flags = record >> (nodes.feature_bits + 1)
        if flags & 2:
            n_bits = nodes.child_shift - nodes.cut_shift
            chosen = index((record >> nodes.cut_shift) & ((1 << n_bits) - 1))
            return index(record >> nodes.child_shift) + index(subsets[chosen, index(bin_at)])
        if flags & 1 and bin_at == nodes.missing_bin:
            bin_at = np.int64(0)
    return index((record + (bin_at << nodes.cut_shift)) >> nodes.child_shift)
