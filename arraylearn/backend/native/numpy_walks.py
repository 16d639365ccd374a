"""NumPy bodies for `arraylearn.backend.ops.walks`: bits for the first levels, then packed records.

A block of rows, column-major, stays in the second-level cache while all trees pass over it. The first levels
of a group of trees are taken by planes of bits (see `numpy_planes`); then rows x trees go down together by
two gathers a level, one for the node and one for the bin, and those at a leaf drop out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.native.numpy_planes import Planes, compile_planes, find_leaves
from arraylearn.backend.ops.binned_trees import BinnedTrees
from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["prepare_walk", "reach_leaves", "sum_shares"]

# Bins of a block, and most rows: together with the records of a few trees they fill the second-level cache.
_BLOCK_BINS = 1 << 18
_BLOCK_ROWS = 8_192
# Columns of a block are so much longer, as lines a power of two apart would share their place in the cache.
_PADDING = 16
# Rows x trees that go down together. Several threads take longer pieces: each call hands the interpreter lock
# back and forth, and whoever finds it taken sleeps for longer than a short call lasts.
_TOGETHER = 32_768
# The first levels of so many trees at a time are taken by bit planes, if there are rows enough for that.
_TOP = 5
_GROUP = 16
_MANY_ROWS = 1_024
# Rows at a leaf are looked for after so many levels, and drop out where they are more than this share.
_LEVELS = 3
_MANY_DONE = 0.3
# Two classes share a word of 64 bits until so many trees are added up.
_TREES_PER_WORD = 1_024


class Nodes(NamedTuple):
    """Nodes of trees, field by field, all int64 (m,)."""

    column: Host
    missing: Host  # from the threshold to all ones
    is_leaf: Host
    left: Host


class Top(NamedTuple):
    """The first levels of a group of trees."""

    trees: slice
    planes: Planes  # whose leaves hold the records with which rows go on
    bounds: list[int]  # first plane of each column


class Compiled(NamedTuple):
    """Trees with records for blocks of a certain number of rows."""

    record: Host  # (m,) int64: child, complement of the threshold, whether a leaf, first cell of the column
    root: Host  # (t,) int64
    tops: tuple[Top, ...]
    words: Host  # (c / 2, m) int64: the shares of two classes each
    block: int  # rows
    cell_bits: int
    threshold_bits: int


def prepare_walk(walk: Any, n_columns: int) -> Compiled:
    nodes = Nodes(
        walk.record & ((1 << walk.column_bits) - 1),
        (walk.record >> walk.bin_shift) & ((1 << walk.threshold_bits) - 1),
        (walk.record >> walk.column_bits) & 1,
        walk.record >> walk.child_shift,
    )
    shares = walk.shares
    if shares.shape[1] % 2:
        shares = np.concatenate((shares, np.zeros((shares.shape[0], 1), dtype=np.int32)), axis=1)
    words = np.ascontiguousarray(shares, dtype=np.int32).view(np.int64)
    compiled = _compile(nodes, walk.root, walk.depth, walk.threshold_bits, n_columns)
    return compiled._replace(words=np.ascontiguousarray(words.T))


def _compile(nodes: Nodes, root: Host, depth: int, threshold_bits: int, n_columns: int) -> Compiled:
    """Pack the records for blocks of rows, and compile the first levels of groups of trees."""
    block = max(64, min(_BLOCK_ROWS, _BLOCK_BINS // n_columns & ~63))
    free_bits = 62 - nodes.left.shape[0].bit_length() - threshold_bits
    while (n_columns * (block + _PADDING)).bit_length() > free_bits and block > 64:
        block //= 2
    stride = block + _PADDING
    cell_bits = (n_columns * stride).bit_length()
    record = (nodes.left << threshold_bits) | nodes.missing
    record = (((record << 1) | nodes.is_leaf) << cell_bits) | nodes.column * stride
    tops = []
    if depth > _TOP:
        head = _as_trees(nodes, record, root, threshold_bits)
        n_bins, has_missing = head.goes_right.shape[1], np.zeros(n_columns, dtype=bool)
        for start in range(0, root.shape[0], _GROUP):
            trees = slice(start, min(start + _GROUP, root.shape[0]))
            planes = compile_planes(head._replace(root=root[trees]), n_bins, has_missing)
            bounds = np.searchsorted(planes.feature, np.arange(n_columns + 1)).tolist()
            tops.append(Top(trees, planes, bounds))
    words = np.zeros((0, nodes.left.shape[0]), dtype=np.int64)
    return Compiled(record, root, tuple(tops), words, block, cell_bits, threshold_bits)


def _as_trees(nodes: Nodes, record: Host, root: Host, threshold_bits: int) -> BinnedTrees:
    """Return the first levels, with the records as values."""
    top, m = (1 << threshold_bits) - 1, record.shape[0]
    return BinnedTrees(
        feature=nodes.column,
        threshold=top - nodes.missing,
        is_missing_right=np.ones(m, dtype=bool),
        subset=np.full(m, -1),
        goes_right=np.zeros((0, top), dtype=bool),
        left=nodes.left,
        right=nodes.left + 1 - nodes.is_leaf,
        value=record,
        root=root,
        depth=_TOP,
    )


def sum_shares(bins: Host, walk: Any) -> Host:
    compiled: Compiled = walk.native or prepare_walk(walk, bins.shape[0])
    n, n_classes = bins.shape[1], walk.shares.shape[1]
    n_words = compiled.words.shape[0]
    sums = np.empty((n, n_classes), dtype=np.int64)

    def run(rows: slice) -> None:
        m = rows.stop - rows.start
        total = np.zeros((m, 2 * n_words), dtype=np.int64)
        words = np.zeros((n_words, m), dtype=np.int64)
        n_added = 0
        for trees, leaves in _walk_block(bins[:, rows], compiled):
            if n_added + trees.stop - trees.start > _TREES_PER_WORD:
                total += _open_words(words)
                words[...] = 0
                n_added = 0
            n_added += trees.stop - trees.start
            for word, table in zip(words, compiled.words, strict=True):
                for line in table.take(leaves):
                    word += line
        total += _open_words(words)
        sums[rows] = total[:, :n_classes]

    parallel_map(run, _blocks(n, compiled.block))
    return sums


def _open_words(words: Host) -> Host:
    """Return the classes (m, c) of words (c / 2, m)."""
    halves = words.view(np.int32).reshape(*words.shape, 2)
    return halves.transpose(1, 0, 2).reshape(words.shape[1], -1)


def reach_leaves(bins: Host, trees: Any) -> Host:
    d, n = bins.shape
    threshold_bits = trees.goes_right.shape[1].bit_length()
    top = (1 << threshold_bits) - 1
    is_leaf = trees.left == trees.right
    nodes = Nodes(
        np.where(is_leaf, 0, trees.feature).astype(np.int64),
        top - np.where(is_leaf, top, trees.threshold).astype(np.int64),
        is_leaf.astype(np.int64),
        trees.left.astype(np.int64),
    )
    compiled = _compile(nodes, trees.root.astype(np.int64), trees.depth, threshold_bits, d)
    result = np.empty((trees.root.shape[0], n), dtype=np.int32)

    def run(rows: slice) -> None:
        for few, leaves in _walk_block(bins[:, rows], compiled):
            result[few, rows] = leaves

    parallel_map(run, _blocks(n, compiled.block))
    return result


def _blocks(n: int, most: int) -> list[slice]:
    """Cut the rows into blocks of equal size, as many as threads at least where rows are many."""
    n_threads = get_num_threads()
    size = most
    if n_threads > 1 and n < n_threads * most:
        size = min(most, max(_MANY_ROWS, -(-n // n_threads)))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


class _Room(NamedTuple):
    """Memory that the pieces of a block use one after the other."""

    record: Host
    cell: Host
    bin: Host
    is_live: Host
    leaf: Host


def _walk_block(bins: Host, compiled: Compiled) -> Any:
    """Yield trees (slice) and the leaves (trees, rows) that the rows of a block reach."""
    d, m = bins.shape
    together = _TOGETHER if get_num_threads() == 1 else 2 * _TOGETHER
    n_trees = compiled.root.shape[0]
    step = max(1, min(n_trees, together // m, _TREES_PER_WORD))
    is_narrow = compiled.cell_bits + 1 + compiled.threshold_bits <= 31
    lines = np.empty((d, compiled.block + _PADDING), dtype=np.int32 if is_narrow else np.int64)
    np.left_shift(bins, compiled.cell_bits + 1, out=lines[:, :m], dtype=lines.dtype, casting="unsafe")
    flat = lines.reshape(-1)
    row = np.tile(np.arange(m), step)
    size = step * m
    room = _Room(
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=lines.dtype),
        np.empty(size, dtype=bool),
        np.empty(size, dtype=np.int64),
    )
    tops = compiled.tops if m >= _MANY_ROWS else ()
    for group in tops or (None,):
        trees = slice(0, n_trees) if group is None else group.trees
        side = None if group is None else _take_top(bins, group)
        for start in range(trees.start, trees.stop, step):
            few = slice(start, min(start + step, trees.stop))
            k = few.stop - few.start
            record = room.record[: k * m].reshape(k, m)
            if group is None or side is None:
                record[...] = compiled.record.take(compiled.root[few])[:, None]
            else:
                for i in range(k):
                    at = few.start - trees.start + i
                    group.planes.value[at].take(side[at, :m], out=record[i], mode="clip")
            _go_down(record.reshape(-1), row[: k * m], flat, compiled, room)
            yield few, room.leaf[: k * m].reshape(k, m)


def _take_top(bins: Host, top: Top) -> Host:
    """Return where each row (t, m or more) leaves the first levels of a group of trees."""
    m = bins.shape[1]
    threshold = np.minimum(top.planes.threshold, np.iinfo(bins.dtype).max).astype(bins.dtype)[:, None]
    packed = np.zeros((threshold.shape[0], 8 * (-(-m // 64))), dtype=np.uint8)
    width = -(-m // 8)
    for column, (first, last) in enumerate(zip(top.bounds, top.bounds[1:], strict=False)):
        if first < last:
            packed[first:last, :width] = np.packbits(bins[column] > threshold[first:last], axis=1)
    return find_leaves(packed.view(np.uint64), top.planes.of_node, top.planes.depth)


def _go_down(record: Host, row: Host, flat: Host, compiled: Compiled, room: _Room) -> None:
    """Send rows from the records of their nodes to the leaves, which go into the room."""
    table = compiled.record
    cell_mask, leaf_bit = (1 << compiled.cell_bits) - 1, 1 << compiled.cell_bits
    child_shift = compiled.cell_bits + 1 + compiled.threshold_bits
    place = None  # of the rows that are still under way
    while True:
        m = record.shape[0]
        cell, is_live = room.cell[:m], room.is_live[:m]
        np.bitwise_and(record, leaf_bit, out=cell)
        np.equal(cell, 0, out=is_live)
        n_live = int(np.count_nonzero(is_live))
        if n_live == 0 or n_live < (1 - _MANY_DONE) * m:
            live = np.flatnonzero(is_live)
            done = np.flatnonzero(np.logical_not(is_live, out=is_live))
            leaf = record.take(done)
            leaf >>= child_shift
            room.leaf[done if place is None else place.take(done)] = leaf
            if n_live == 0:
                return
            place = live if place is None else place.take(live)
            record, row, cell = record.take(live), row.take(live), room.cell[:n_live]
        found = room.bin[: record.shape[0]]
        for _ in range(_LEVELS):
            np.bitwise_and(record, cell_mask, out=cell)
            cell += row
            flat.take(cell, out=found, mode="clip")
            record += found
            record >>= child_shift
            table.take(record, out=record, mode="clip")
