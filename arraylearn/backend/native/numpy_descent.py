"""NumPy body for `arraylearn.backend.ops.descent`: bits for the first levels, then gathers of live rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.native.numpy_planes import find_leaves

Host = np.ndarray[Any, Any]

__all__ = ["follow_thresholds"]

# Bytes and rows of a block, which stays in the second-level cache. Blocks go one after the other: the calls
# are so short that several threads would spend more time asleep before the interpreter lock than they save.
_BLOCK_BYTES = 1 << 20
_BLOCK_ROWS = 10_240
_FEWEST_ROWS = 1_024
# Levels that are taken by bits: a condition costs as much as a gather and serves one node only.
_TOP = 3
# Finished rows are looked for after so many levels, and drop out where they are more than this share.
_LEVELS = 3
_MANY_DONE = 0.2
# A block stops when fewer rows are under way: they go on together with those of the other blocks.
_FEW = 0.1
_SMALL = 2_048


class Nodes(NamedTuple):
    """A tree in two tables."""

    record: Host  # (t,) int64: first child, whether a leaf, column
    threshold: Host  # (t,)
    side: Host | None  # (t,) bool: where NaN goes
    column_bits: int


class Top(NamedTuple):
    """The first levels, completed."""

    condition: list[tuple[int, Any]]  # column and threshold of each node
    below: Host  # (2**n_levels,) the nodes that follow
    n_levels: int


def follow_thresholds(
    x: Host, feature: Host, threshold: Host, child: Host, n_levels: int, default: Host | None
) -> Host:
    n, d = x.shape
    leaf = np.zeros(n, dtype=np.int64)
    if d == 0 or n_levels == 0 or n == 0:
        return leaf
    x = np.ascontiguousarray(x)
    if default is not None and not np.isnan(x.max()):
        default = None
    if x.dtype == np.float32:
        narrow = threshold.astype(np.float32)
        threshold = narrow if np.array_equal(narrow, threshold) else threshold
    nodes = _pack(feature, threshold, child, default, d)
    flat = x.reshape(-1)
    top = None
    if default is None and n >= _FEWEST_ROWS:
        top = _complete(feature, threshold, child, min(_TOP, n_levels))

    def start(rows: slice) -> tuple[Host, Host]:
        row = np.arange(rows.start, rows.stop)
        node = np.zeros(row.shape[0], dtype=np.int64) if top is None else _take_top(x[rows], top)
        return _advance(row, node, flat, d, nodes, leaf)

    def go_on(rows: slice) -> tuple[Host, Host]:
        return _advance(row[rows], node[rows], flat, d, nodes, leaf)

    left = [start(rows) for rows in _blocks(n, d * x.dtype.itemsize)]
    row, node = (np.concatenate(parts) for parts in zip(*left, strict=True))
    while row.shape[0]:
        left = [go_on(rows) for rows in _blocks(row.shape[0], 64)]
        row, node = (np.concatenate(parts) for parts in zip(*left, strict=True))
    return leaf


def _blocks(n: int, bytes_per_row: int) -> list[slice]:
    size = max(_FEWEST_ROWS, min(_BLOCK_ROWS, _BLOCK_BYTES // bytes_per_row))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _pack(feature: Host, threshold: Host, child: Host, default: Host | None, d: int) -> Nodes:
    column_bits = d.bit_length()
    child = child.astype(np.int64)
    is_leaf = child == np.arange(child.shape[0])
    record = (((child << 1) | is_leaf) << column_bits) | feature
    return Nodes(record, threshold, None if default is None else default.astype(bool), column_bits)


def _complete(feature: Host, threshold: Host, child: Host, n_levels: int) -> Top:
    heap = np.zeros(1, dtype=np.int64)
    condition: list[tuple[int, Any]] = []
    for _ in range(n_levels):
        condition += zip(feature[heap].tolist(), threshold[heap], strict=True)
        first = child[heap].astype(np.int64)
        heap = np.stack((first, first + (first != heap)), axis=1).reshape(-1)  # a leaf is its own children
    return Top(condition, heap, n_levels)


def _take_top(x: Host, top: Top) -> Host:
    """Return the nodes of rows after the first levels."""
    m = x.shape[0]
    packed = np.zeros((len(top.condition), 8 * (-(-m // 64))), dtype=np.uint8)
    for line, (column, threshold) in zip(packed, top.condition, strict=True):
        line[: -(-m // 8)] = np.packbits(x[:, column] > threshold)
    plane = np.arange(len(top.condition))[None, :]
    return top.below.take(find_leaves(packed.view(np.uint64), plane, top.n_levels)[0, :m])


def _advance(row: Host, node: Host, flat: Host, d: int, nodes: Nodes, leaf: Host) -> tuple[Host, Host]:
    """Send rows down until most of them have arrived; write their leaves and return the others."""
    m = row.shape[0]
    few = int(_FEW * m) if m > _SMALL else 0
    column_mask, leaf_bit = (1 << nodes.column_bits) - 1, 1 << nodes.column_bits
    room = np.empty((2, m), dtype=np.int64)
    values, flags = np.empty(m, dtype=flat.dtype), np.empty(m, dtype=bool)
    thresholds = np.empty(m, dtype=nodes.threshold.dtype)
    line = row * d
    while True:
        m = row.shape[0]
        record, cell, value, threshold, is_right = (
            room[0, :m],
            room[1, :m],
            values[:m],
            thresholds[:m],
            flags[:m],
        )
        for _ in range(_LEVELS):
            nodes.record.take(node, out=record, mode="clip")
            np.bitwise_and(record, column_mask, out=cell)
            cell += line
            flat.take(cell, out=value, mode="clip")
            nodes.threshold.take(node, out=threshold, mode="clip")
            np.greater(value, threshold, out=is_right)
            if nodes.side is not None:
                np.copyto(is_right, nodes.side.take(node), where=np.isnan(value))
            np.right_shift(record, nodes.column_bits + 1, out=node)
            node += is_right
        nodes.record.take(node, out=record, mode="clip")
        record &= leaf_bit
        is_done = np.not_equal(record, 0, out=is_right)
        n_done = int(np.count_nonzero(is_done))
        if m - n_done > few and n_done <= _MANY_DONE * m:
            continue
        done = np.flatnonzero(is_done)
        leaf[row.take(done)] = node.take(done)
        live = np.flatnonzero(np.logical_not(is_done, out=is_done))
        row, node = row.take(live), node.take(live)
        if row.shape[0] <= few:
            return row, node
        line = line.take(live)
