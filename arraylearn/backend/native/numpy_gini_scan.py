"""Gini scores of presorted lists in float32, for NumPy: which positions may be the best of their block.

With the surplus of class c over its share as ``q_c = l_c - m p_c``, the score is
``sum_c q_c^2 / (m (M - m))``, the Gini gain up to a factor of the block.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

Host = np.ndarray[Any, Any]

__all__ = ["Blocks", "Hits", "Piece", "choose_hits", "cut_into_pieces", "scan_lists", "worth_a_look"]

_EPSILON = 2.0**-22


def _prefix_counts() -> tuple[Host, Host]:
    """Make the numbers of ones among the first 1, 2, ... 8 bits of each byte, four to a 64-bit word."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    words = np.cumsum(bits, axis=1, dtype=np.uint16).view(np.uint64)
    return np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1])


_FIRST_FOUR, _LAST_FOUR = _prefix_counts()
_IN_ALL_FIELDS = np.uint64(0x0001_0001_0001_0001)


class Blocks(NamedTuple):
    """The blocks and their classes."""

    starts: Host  # (k,)
    sizes: Host  # (k,)
    counts: Host  # (k, c)
    below: Host  # (c - 1, k) rows of class c or less
    ends: list[int]  # (c - 1,) rows below it have class c or less
    least: int


class Piece(NamedTuple):
    """A run of whole blocks, or a part of one large block."""

    first: int
    stop: int
    blocks: slice
    is_whole: bool


class Hits(NamedTuple):
    """Positions that may be the best of their block: arrays (h,) and the counts (c - 1, h) left of them."""

    line: Host
    position: Host
    block: Host
    score: Host
    below: Host


class _Memory(threading.local):
    """Arrays that are used again, one set per thread."""

    def __init__(self) -> None:
        self._kept: dict[str, Host] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> Host:
        size = math.prod(shape)
        kept = self._kept.get(name)
        if kept is None or kept.shape[0] < size:
            kept = self._kept[name] = np.empty(size, dtype=dtype)
        return kept[:size].reshape(shape)


_memory = _Memory()


def cut_into_pieces(blocks: Blocks, block_at: Host, size: int) -> list[Piece]:
    """Cut the positions into pieces of about `size`."""
    m = block_at.shape[0]
    if m <= size:
        return [Piece(0, m, slice(0, blocks.starts.shape[0]), True)]
    ends = blocks.starts + blocks.sizes
    pieces, block = [], 0
    while block < ends.shape[0]:
        first = int(blocks.starts[block])
        stop = max(block + 1, int(np.searchsorted(ends, first + size, side="right")))
        end = int(ends[stop - 1])
        step = size if stop == block + 1 else end - first
        is_whole = step >= end - first
        pieces += [
            Piece(a, min(end, a + step), slice(block, stop), is_whole) for a in range(first, end, step)
        ]
        block = stop
    return pieces


def worth_a_look(top: Host, blocks: Blocks, some: slice, size: int) -> Host:
    """Return the score that the best position of some blocks has at least, given the best one seen."""
    total = blocks.sizes[some].astype(np.float64)
    wrong = _EPSILON * blocks.counts.shape[1] * np.minimum(total, size)
    found = np.maximum(top, 0.0)
    # a surplus that is wrong by e makes a score s wrong by 2 e sqrt(s / (m (M - m)))
    margin = 2.0 * wrong * np.sqrt(found / np.maximum(total - 1.0, 1.0))
    enough: Host = np.maximum(0.0, found * (1.0 - 1e-6) - margin)
    return enough


def scan_lists(
    lists: Host,
    columns: Host,
    blocks: Blocks,
    block_at: Host,
    pieces: list[Piece],
    size: int,
    lines: slice,
    is_tied: Sequence[bool],
    allowed: Host | None,
) -> tuple[Host, list[Hits]]:
    """Scan some lists; return the best score (k,) of each block and the positions near it."""
    n_lines = lines.stop - lines.start
    top = np.full(blocks.starts.shape[0], -1.0, dtype=np.float32)
    carried = np.zeros((len(blocks.ends), n_lines))
    hits = []
    for piece in pieces:
        rows = lists[lines, piece.first : piece.stop]
        is_whole = piece.is_whole
        if piece.first == blocks.starts[piece.blocks.start]:
            carried[:] = 0.0
        block, expected, inverse = _shared(blocks, block_at, piece)
        below = _count_below(rows, blocks, piece, block)
        scores = _scores(below, expected, inverse, None if is_whole else _surplus(blocks, piece, carried))
        for f in range(lines.start, lines.stop):
            if is_tied[f]:
                values = columns[f].take(lists[f, piece.first : piece.stop + 1])
                is_same = values[1:] == values[:-1]
                np.copyto(scores[f - lines.start, : is_same.shape[0]], -1.0, where=is_same)
        local = np.maximum(blocks.starts[piece.blocks] - piece.first, 0)
        best = np.maximum.reduceat(scores, local, axis=1)
        if allowed is not None:
            best = np.where(allowed[lines, piece.blocks], best, np.float32(-1.0))
        seen = top[piece.blocks]
        np.maximum(seen, best.max(axis=0), out=seen)
        enough = worth_a_look(seen, blocks, piece.blocks, size).astype(np.float32)
        np.copyto(enough, np.float32(np.inf), where=seen < 0)
        is_hit = scores >= np.nextafter(enough, np.float32(-1.0)).take(block)
        (at,) = is_hit.ravel().nonzero()
        line = at // rows.shape[1]
        position = at - line * rows.shape[1]
        # the lines of `below` end in a few unused positions
        padded = (below.shape[0], below.shape[1] * below.shape[2])
        counted = below.reshape(padded).take(line * below.shape[2] + position, axis=1).astype(np.float64)
        if not is_whole:
            counted += carried.take(line, axis=1)
            carried += below[:, :, rows.shape[1] - 1]
        found = Hits(
            line + lines.start,
            position + piece.first,
            block.take(position) + piece.blocks.start,
            scores.ravel().take(at),
            counted,
        )
        if allowed is not None:
            found = choose_hits(found, allowed[found.line, found.block])
        hits.append(found)
    return top, hits


def _shared(blocks: Blocks, block_at: Host, piece: Piece) -> tuple[Host, Host, Host]:
    """Return the block of each position, the expected counts (c - 1, p) and ``1 / (m (M - m))``.

    Expected are the counts at the shares of the block, from its start or that of the piece.
    """
    sizes = blocks.sizes[piece.blocks]
    block = block_at[piece.first : piece.stop] - piece.blocks.start
    start = blocks.starts[piece.blocks]
    n_left = np.arange(piece.first + 1, piece.stop + 1, dtype=np.float64)
    n_left -= start.take(block)
    inverse = sizes.astype(np.float64).take(block)
    inverse -= n_left
    is_bad = inverse < blocks.least
    if blocks.least > 1:
        is_bad |= n_left < blocks.least
    inverse *= n_left
    np.copyto(inverse, -1.0, where=is_bad)  # no score of such a position is above 0
    np.divide(1.0, inverse, out=inverse)
    share = blocks.below[:, piece.blocks] / sizes
    n_left -= max(0, piece.first - int(start[0]))
    expected = share.take(block, axis=1)
    expected *= n_left
    return block, expected.astype(np.float32), inverse.astype(np.float32)


def _surplus(blocks: Blocks, piece: Piece, carried: Host) -> Host:
    """Return the surplus (c - 1, lines) where a piece within a block begins."""
    at = piece.first - int(blocks.starts[piece.blocks.start])
    share = blocks.below[:, piece.blocks.start] / blocks.sizes[piece.blocks.start]
    surplus: Host = carried - (at * share)[:, None]
    return surplus


def _count_below(rows: Host, blocks: Blocks, piece: Piece, block: Host) -> Host:
    """Count the rows (c - 1, g, p or more) up to each position that are below the end of each class.

    From the start of the block, or of the piece. Eight positions make a byte, whose running counts are looked
    up: much faster than a sum from position to position.
    """
    g, p = rows.shape
    n_bytes = -(-p // 8)
    is_below = _memory.take("flags", (g, 8 * n_bytes), np.bool_)
    words = _memory.take("words", (len(blocks.ends), g, n_bytes, 2), np.uint64)
    fields = words.view(np.uint16).reshape(words.shape[0], g, 8 * n_bytes)
    before = blocks.below[:, piece.blocks]
    before = (np.cumsum(before, axis=1) - before).astype(np.uint16)
    is_below[:, p:] = False
    for c, end in enumerate(blocks.ends):
        np.less(rows, end, out=is_below[:, :p])
        packed = np.packbits(is_below.reshape(-1)).reshape(g, n_bytes)
        ones = np.bitwise_count(packed)
        running = np.cumsum(ones, axis=1, dtype=np.uint64)
        running -= ones
        running *= _IN_ALL_FIELDS
        np.add(_FIRST_FOUR.take(packed), running, out=words[c, :, :, 0])
        np.add(_LAST_FOUR.take(packed), running, out=words[c, :, :, 1])
        if before.shape[1] > 1:
            fields[c, :, :p] -= before[c].take(block)
    return fields


def _scores(below: Host, expected: Host, inverse: Host, surplus: Host | None) -> Host:
    """Score the positions (g, p); the result is overwritten by the next call."""
    g, p = below.shape[1], inverse.shape[0]
    scores, now, last = (_memory.take(name, (g, p), np.float32) for name in ("scores", "now", "last"))
    n_classes = expected.shape[0] + 1
    for c in range(expected.shape[0]):
        target = scores if n_classes == 2 else now
        np.copyto(target, below[c, :, :p])
        target -= expected[c]
        if surplus is not None:
            target += surplus[c].astype(np.float32)[:, None]
        if n_classes == 2:
            target *= target
        elif c == 0:
            np.multiply(now, now, out=scores)
        else:
            np.subtract(now, last, out=last)
            last *= last
            scores += last
        now, last = last, now
    if n_classes > 2:
        last *= last
        scores += last
    elif n_classes == 1:
        scores[:] = 0.0
    scores *= inverse
    return scores


def choose_hits(hits: Hits, keep: Host) -> Hits:
    return Hits(*(field.compress(keep, axis=-1) for field in hits))
