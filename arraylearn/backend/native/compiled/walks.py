"""Rows down a forest, in compiled loops: see `arraylearn.backend.ops.walks.sum_shares` and `reach_leaves`.

A block of rows passes tree after tree, so that a tree stays in the cache while all of them go down. Eight
rows go side by side: a step waits for the memory, but not for the steps of other rows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import Host, Whole, compiled_part
from arraylearn.backend.cpu.unsigned import index
from arraylearn.backend.threads import get_num_threads, parallel_map

__all__ = ["prepare_walk", "reach_leaves", "sum_shares"]

# Rows that pass a tree before the next one is fetched.
_BLOCK_ROWS = 65_536
_LANES = 8


def prepare_walk(walk: Any, n_columns: int) -> None:
    """Make nothing ready: the records serve as they are."""


def sum_shares(bins: Host, walk: Any) -> Host:
    n, n_classes = bins.shape[1], walk.shares.shape[1]
    sums = np.zeros((n, n_classes), dtype=np.int64)
    records, roots = (np.ascontiguousarray(part, dtype=np.int64) for part in (walk.record, walk.root))
    shares = np.ascontiguousarray(walk.shares, dtype=np.int32)

    def run(rows: slice) -> None:
        lines, leaves = _lay_out(bins, rows)
        _add_up(lines, records, roots, walk.column_bits, walk.child_shift, leaves, shares, sums[rows])

    parallel_map(run, _blocks(n))
    return sums


def reach_leaves(bins: Host, trees: Any) -> Host:
    d, n = bins.shape
    column_bits, threshold_bits = max(1, (d - 1).bit_length()), trees.goes_right.shape[1].bit_length()
    records = _pack(trees.feature, trees.threshold, trees.left, trees.right, column_bits, threshold_bits)
    child_shift = column_bits + 1 + threshold_bits
    result = np.empty((trees.root.shape[0], n), dtype=np.int32)

    def run(rows: slice) -> None:
        lines, leaves = _lay_out(bins, rows)
        for tree, root in enumerate(trees.root.tolist()):
            _go_down(lines, records, records[root], column_bits, child_shift, leaves)
            result[tree, rows] = leaves[: rows.stop - rows.start]

    parallel_map(run, _blocks(n))
    return result


def _blocks(n: int) -> list[slice]:
    """Cut the rows into blocks of about equal size, as many as threads at least."""
    n_blocks = max(-(-n // _BLOCK_ROWS), min(get_num_threads(), -(-n // _LANES)))
    ends = [n * i // max(n_blocks, 1) for i in range(n_blocks + 1)]
    return [slice(start, end) for start, end in pairwise(ends)]


def _lay_out(bins: Host, rows: slice) -> tuple[Host, Host]:
    """Return the bins row by row, with idle rows up to a multiple of the lanes, and room for the leaves."""
    m = rows.stop - rows.start
    width = -(-m // _LANES) * _LANES
    lines = np.empty((width, bins.shape[0]), dtype=np.int16)
    lines[:m] = bins[:, rows].T
    lines[m:] = 0
    return lines.reshape(-1), np.empty(width, dtype=np.int64)


def _pack(feature: Host, threshold: Host, left: Host, right: Host, column_bits: int, bits: int) -> Host:
    """Return the records of nodes: see `arraylearn.backend.ops.walks.ForestWalk`."""
    is_leaf, top = left == right, (1 << bits) - 1
    record: Host = left.astype(np.int64) << bits
    record += top - np.where(is_leaf, top, threshold)
    record = ((record << 1) + is_leaf) << column_bits
    record += np.where(is_leaf, 0, feature)
    return record


@compiled_part
def _add_up(
    lines: Host,
    records: Host,
    roots: Host,
    column_bits: Whole,
    child_shift: Whole,
    leaves: Host,
    shares: Host,
    sums: Host,
) -> None:
    """Add the shares of the leaves that rows reach in all trees to their sums."""
    for tree in range(roots.shape[0]):
        _go_down(lines, records, records[roots[tree]], column_bits, child_shift, leaves)
        for i in range(sums.shape[0]):
            for c in range(sums.shape[1]):
                sums[i, c] += shares[index(leaves[i]), c]


@compiled_part
def _go_down(
    lines: Host, records: Host, root: Whole, column_bits: Whole, child_shift: Whole, leaves: Host
) -> None:
    """Send rows down one tree, and write the leaves that they reach."""
    n_columns = lines.shape[0] // max(leaves.shape[0], 1)
    leaf = 1 << column_bits
    mask = leaf - 1
    for i in range(0, leaves.shape[0], _LANES):
        first = i * n_columns
        r0 = r1 = r2 = r3 = r4 = r5 = r6 = r7 = root
        while not r0 & r1 & r2 & r3 & r4 & r5 & r6 & r7 & leaf:
            r0 = _step(lines, records, r0, first, mask, column_bits, child_shift)
            r1 = _step(lines, records, r1, first + n_columns, mask, column_bits, child_shift)
            r2 = _step(lines, records, r2, first + 2 * n_columns, mask, column_bits, child_shift)
            r3 = _step(lines, records, r3, first + 3 * n_columns, mask, column_bits, child_shift)
            r4 = _step(lines, records, r4, first + 4 * n_columns, mask, column_bits, child_shift)
            r5 = _step(lines, records, r5, first + 5 * n_columns, mask, column_bits, child_shift)
            r6 = _step(lines, records, r6, first + 6 * n_columns, mask, column_bits, child_shift)
            r7 = _step(lines, records, r7, first + 7 * n_columns, mask, column_bits, child_shift)
        leaves[i], leaves[i + 1] = r0 >> child_shift, r1 >> child_shift
        leaves[i + 2], leaves[i + 3] = r2 >> child_shift, r3 >> child_shift
        leaves[i + 4], leaves[i + 5] = r4 >> child_shift, r5 >> child_shift
        leaves[i + 6], leaves[i + 7] = r6 >> child_shift, r7 >> child_shift


@compiled_part
def _step(
    lines: Host,
    records: Host,
    record: Whole,
    line: Whole,
    mask: Whole,
    column_bits: Whole,
    child_shift: Whole,
) -> Whole:
    """Return the record of the child to which a row goes; a leaf is its own child."""
    bin_at = np.int64(lines[index(line + (record & mask))])
    return records[index((record + (bin_at << (column_bits + 1))) >> child_shift)]
