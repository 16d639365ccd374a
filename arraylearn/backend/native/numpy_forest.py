"""NumPy bodies for `arraylearn.backend.ops.forest`: 32-bit keys in pieces that stay in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from arraylearn.backend.native.numpy_planes import Planes, compile_planes, fill_planes, find_leaves
from arraylearn.backend.threads import parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["best_cuts", "reach_leaves"]

# Keys of one piece, and rows that go down a tree together.
_PIECE = 32_768
_ROWS = 8_192
# The first levels of so many trees at a time are taken by bit planes, if there are rows enough.
_TOP = 7
_GROUP = 16
_MANY_ROWS = 1_024


def best_cuts(
    bins: Host,
    rows: Host,
    payload: Host,
    sizes: Sequence[int],
    features: Host,
    counts: Host,
    n_bins: int,
    class_bits: int,
    least: int,
) -> tuple[Host, Host, Host]:
    k, f = features.shape
    size = np.asarray(sizes)
    starts = np.concatenate(([0], np.cumsum(size)))
    score, slot, cut = np.empty(k), np.empty(k, dtype=np.int64), np.empty(k, dtype=np.int64)
    bin_bits = n_bins.bit_length()
    # as few bits for the weight as there are, so that node, bin and payload fit 32 bits
    weight_bits = int(payload.max() >> class_bits).bit_length()
    free = 32 - bin_bits - class_bits - weight_bits
    most = 1 << max(free, 0)
    limit = max(1, _PIECE // f)
    pieces, first = [], 0
    while first < k:
        last = int(np.searchsorted(starts, starts[first] + limit, side="right")) - 1
        last = min(max(last, first + 1), first + most, k)
        pieces.append(slice(first, last))
        first = last

    def run(nodes: slice) -> None:
        part = slice(starts[nodes.start], starts[nodes.stop])
        found = _cut_piece(
            bins,
            rows[part],
            payload[part],
            size[nodes],
            features[nodes],
            counts[nodes],
            (bin_bits, class_bits, weight_bits),
            least,
        )
        score[nodes], slot[nodes], cut[nodes] = found

    if rows.shape[0] * f < 4 * _PIECE:
        for piece in pieces:
            run(piece)
    else:
        parallel_map(run, pieces)
    return score, slot, cut


def _cut_piece(
    bins: Host,
    rows: Host,
    payload: Host,
    size: Host,
    features: Host,
    counts: Host,
    bits: tuple[int, int, int],
    least: int,
) -> tuple[Host, Host, Host]:
    """Find the cuts of a few nodes."""
    k, f = features.shape
    m = rows.shape[0]
    bin_bits, class_bits, weight_bits = bits
    low = class_bits + weight_bits
    block = np.arange(k).repeat(size)
    # squares of weights up to here fit 32 bits
    whole: Any = np.int32 if int(counts.sum(axis=1).max()) <= 46_340 else np.int64
    kind: Any = np.uint32 if low + bin_bits + int(k - 1).bit_length() <= 32 else np.uint64
    cell = features.T.take(block, axis=1)
    cell *= bins.shape[1]
    cell += rows
    key = bins.reshape(-1).take(cell).astype(kind)
    key <<= kind(low)
    key |= (block.astype(kind) << kind(low + bin_bits)) | payload.astype(kind)
    key.sort(axis=1)
    low_half = key.astype(np.uint32) if kind is np.uint64 else key
    weight = ((low_half & np.uint32((1 << low) - 1)) >> np.uint32(class_bits)).astype(whole)
    code = (low_half & np.uint32((1 << class_bits) - 1)).astype(np.uint8 if class_bits <= 8 else np.int32)
    key >>= kind(low)
    n_left, n_right, left_squares, right_squares = _count_sides(weight, code, counts.astype(whole), block)
    is_allowed = np.empty((f, m), dtype=bool)
    np.not_equal(key[:, 1:], key[:, :-1], out=is_allowed[:, :-1])
    is_allowed[:, -1] = True
    is_allowed &= n_left >= least
    is_allowed &= n_right >= max(least, 1)
    np.maximum(n_left, 1, out=n_left)
    np.maximum(n_right, 1, out=n_right)
    scores = left_squares / n_left
    scores += right_squares / n_right
    scores *= is_allowed
    starts = np.cumsum(size) - size
    best = np.maximum.reduceat(scores, starts, axis=1)
    slot = best.argmax(axis=0)
    line = np.arange(k)
    score = best[slot, line]
    position = (slot * m).repeat(size)
    position += np.arange(m)
    hits = np.flatnonzero(scores.reshape(-1).take(position) == score.repeat(size))
    node = block.take(hits)
    is_first = np.ones(node.shape[0], dtype=bool)
    is_first[1:] = node[1:] != node[:-1]
    at = position.take(hits[is_first])
    flat = key.reshape(-1)
    mask = kind((1 << bin_bits) - 1)
    after = np.minimum(at + 1, flat.shape[0] - 1)
    cut = ((flat[at] & mask).astype(np.int64) + (flat[after] & mask).astype(np.int64)) >> 1
    return score, slot, np.where(score > 0, cut, 0)


def _count_sides(weight: Host, code: Host, counts: Host, block: Host) -> tuple[Host, Host, Host, Host]:
    """Return weight and sum of squared class weights of the left side and the right side of each position."""
    whole = weight.dtype
    total = counts.sum(axis=1, dtype=whole)
    n_left = np.cumsum(weight, axis=1, dtype=whole)
    n_left -= (np.cumsum(total, dtype=whole) - total).take(block)
    n_right = total.take(block) - n_left
    n_classes = counts.shape[1]
    rest = n_left.copy()
    squares = np.zeros(weight.shape, dtype=whole)
    mixed = np.zeros(weight.shape, dtype=whole)  # sum of class weights on the left times those of the node
    for c in range(n_classes):
        left = rest  # what the other classes left
        if c < n_classes - 1:
            left = np.cumsum(weight * (code == c), axis=1, dtype=whole)
            left -= (np.cumsum(counts[:, c], dtype=whole) - counts[:, c]).take(block)
            rest -= left
        mixed += left * counts[:, c].take(block)
        left *= left
        squares += left
    right_squares = (counts * counts).sum(axis=1, dtype=whole).take(block) - mixed
    right_squares -= mixed
    right_squares += squares
    return n_left, n_right, squares, right_squares


def reach_leaves(bins: Host, trees: Any) -> Host:
    n, n_trees = bins.shape[1], trees.root.shape[0]
    result = np.empty((n_trees, n), dtype=np.int32)
    is_leaf = trees.left == trees.right
    # one record for a node: left child, column and threshold; siblings are neighbours
    record = (trees.left.astype(np.int64) << 32) | (trees.feature.astype(np.int64) << 16)
    record |= trees.threshold
    top = _compile_top(trees, bins.shape[0]) if trees.depth and n >= _MANY_ROWS else None

    def walk(start: int) -> None:
        chunk = bins[:, start : start + _ROWS]
        m, d = chunk.shape[1], chunk.shape[0]
        lines = np.ascontiguousarray(chunk.T).reshape(-1)
        base = np.arange(m) * d
        found = result[:, start : start + m]
        if top is None:
            for t, root in enumerate(trees.root.tolist()):
                _go_down(np.full(m, root), lines, base, record, is_leaf, found[t])
            return
        for group, planes in top:
            leaf = find_leaves(fill_planes(chunk, trees.goes_right, planes), planes.of_node, planes.depth)
            for i, t in enumerate(range(group.start, group.stop)):
                node = planes.value[i].take(leaf[i, :m]).astype(np.int64)
                _go_down(node, lines, base, record, is_leaf, found[t])

    parallel_map(walk, range(0, n, _ROWS))
    return result


def _compile_top(trees: Any, d: int) -> list[tuple[slice, Planes]]:
    """Compile the first levels of groups of trees; their leaves are the numbers of the nodes below."""
    nodes = np.arange(trees.left.shape[0], dtype=np.int32)
    head = trees._replace(depth=min(trees.depth, _TOP), value=nodes)
    has_missing = np.zeros(d, dtype=bool)  # they are larger than all others anyway
    compiled = []
    for start in range(0, trees.root.shape[0], _GROUP):
        group = slice(start, min(start + _GROUP, trees.root.shape[0]))
        few = head._replace(root=trees.root[group])
        compiled.append((group, compile_planes(few, trees.goes_right.shape[1], has_missing)))
    return compiled


def _go_down(node: Host, lines: Host, base: Host, record: Host, is_leaf: Host, out: Host) -> None:
    """Send rows from their nodes to the leaves; every other level those that are there drop out."""
    out[...] = node
    active = np.flatnonzero(~is_leaf.take(node))
    node, base = node.take(active), base.take(active)
    while node.shape[0]:
        for _ in range(2):
            here = record.take(node)
            cell = here >> 16
            cell &= 0xFFFF
            cell += base
            node = here >> 32
            here &= 0xFFFF
            node += lines.take(cell) > here
        is_done = is_leaf.take(node)
        done = np.flatnonzero(is_done)
        out[active.take(done)] = node.take(done)
        kept = np.flatnonzero(np.logical_not(is_done, out=is_done))
        active, node, base = active.take(kept), node.take(kept), base.take(kept)
