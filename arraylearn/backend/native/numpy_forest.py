"""NumPy bodies for `arraylearn.backend.ops.forest`: 32-bit keys in pieces that stay in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from arraylearn.backend.threads import parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["best_cuts", "reach_leaves"]

# Keys of one piece, and rows that go down a tree together.
_PIECE = 32_768
_ROWS = 16_384


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
    d, n = bins.shape
    is_leaf = trees.left == trees.right
    result = np.empty((trees.root.shape[0], n), dtype=np.int32)
    # one record for a node: left child, column and threshold; siblings are neighbours
    record = (trees.left.astype(np.int64) << 32) | (trees.feature.astype(np.int64) << 16)
    record |= np.minimum(trees.threshold, 65_535)

    def walk(start: int) -> None:
        chunk = slice(start, min(start + _ROWS, n))
        lines = np.ascontiguousarray(bins[:, chunk].T).reshape(-1)
        first = np.arange(chunk.stop - chunk.start) * d
        for t, root in enumerate(trees.root.tolist()):
            node = np.full(first.shape[0], root)
            active, base, level = None, first, 0
            out = result[t, chunk]
            while True:
                if level % 3 == 0:
                    is_done = is_leaf.take(node)
                    if active is None:
                        out[...] = node
                        active = np.flatnonzero(~is_done)
                        kept = active
                    else:
                        out[active] = node
                        kept = np.flatnonzero(~is_done)
                        active = active.take(kept)
                    node, base = node.take(kept), base.take(kept)
                    if not node.shape[0]:
                        break
                here = record.take(node)
                cell = (here >> 16) & 0xFFFF
                cell += base
                right = lines.take(cell) > (here & 0xFFFF)
                node = here >> 32
                node += right
                level += 1

    parallel_map(walk, range(0, n, _ROWS))
    return result
