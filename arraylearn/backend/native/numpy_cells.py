"""NumPy body of the counts of cells: one bit per row and value, counted 64 rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Host = np.ndarray[Any, Any]

# Up to this many values a bit per row and value is less to read than the value of each row.
_MOST_PACKED = 64
# Words that are counted at once stay in the cache.
_BLOCK = 1 << 16
_TOLERANCE = 64 * np.finfo(np.float64).eps


class Packed(NamedTuple):
    """Columns, and the same as bits where that pays."""

    cells: Host  # (d, n)
    bits: Host | None  # (l, n_words) uint64: the values that occur
    lines: Host  # (l,) which of the d * n_cells values these are
    ones: Host  # (n_words,) float32
    first: Host  # (d,) position of the first value of each column


def pack_cells(cells: Host, n_cells: int) -> Packed:
    d, n = cells.shape
    first = n_cells * np.arange(d)
    if n_cells > _MOST_PACKED or n >= 1 << 24:  # float32 counts up to there
        nothing = np.zeros(0, dtype=np.int64)
        return Packed(cells, None, nothing, nothing, first)
    bits = np.zeros((d, n_cells, -(-n // 64) * 8), dtype=np.uint8)
    for value in range(n_cells):
        bits[:, value, : -(-n // 8)] = np.packbits(cells == value, axis=1)
    words = bits.reshape(d * n_cells, -1).view(np.uint64)
    lines = np.flatnonzero(words.any(axis=1))
    return Packed(cells, words[lines], lines, np.ones(words.shape[1], dtype=np.float32), first)


def _words(mask: Host, n_words: int) -> Host:
    packed = np.zeros(n_words * 8, dtype=np.uint8)
    packed[: -(-mask.shape[0] // 8)] = np.packbits(mask)
    return packed.view(np.uint64)


def count_cells(
    packed: Packed, n_cells: int, is_live: Host, is_positive: Host, weights: Host | None
) -> tuple[Host, Host]:
    d = packed.cells.shape[0]
    if weights is None and packed.bits is not None:
        counts = _count_bits(packed, d * n_cells, (is_live & is_positive, is_live))
        positive, covered = counts.reshape(2, d, n_cells)
        return positive.astype(np.int64), covered.astype(np.int64)
    rows = np.flatnonzero(is_live)
    base = np.where(is_positive.take(rows), n_cells + 1, 0)
    part = None if weights is None else weights.take(rows)
    sums = np.empty((d, 2 * (n_cells + 1)), dtype=np.int64 if weights is None else np.float64)
    for j in range(d):
        keys = packed.cells[j].take(rows) + base
        sums[j] = np.bincount(keys, part, minlength=2 * (n_cells + 1))
    negative, positive = sums[:, :n_cells], sums[:, n_cells + 1 : -1]
    return positive, negative + positive


def _count_bits(packed: Packed, n: int, masks: tuple[Host, ...]) -> Host:
    """Count the rows of each value under each mask: float64 (k, n), exact."""
    bits, ones = packed.bits, packed.ones
    counts = np.zeros((len(masks), n))
    if bits is None:
        return counts
    step = max(1, _BLOCK // max(1, bits.shape[1]))
    for line, mask in zip(counts, masks, strict=True):
        words = _words(mask, bits.shape[1])
        for start in range(0, bits.shape[0], step):
            part = slice(start, start + step)
            line[packed.lines[part]] = np.bitwise_count(bits[part] & words).astype(np.float32) @ ones
    return counts


def best_cells(
    packed: Packed,
    n_cells: int,
    is_live: Host,
    is_positive: Host,
    weights: Host | None,
    score: Callable[[Host, Host], Host],
) -> tuple[Host, Host, Host, Host]:
    d = packed.cells.shape[0]
    if weights is None and packed.bits is not None:
        counts = _count_bits(packed, d * n_cells, (is_live & is_positive, is_live))
        p, covered = counts.reshape(2, d, n_cells)
    else:
        p, covered = count_cells(packed, n_cells, is_live, is_positive, weights)
        p, covered = p.astype(np.float64), covered.astype(np.float64)
    scores = score(p, covered)
    top = scores.max(axis=1, keepdims=True)
    is_tied = scores >= top - _TOLERANCE * np.abs(top)
    best = np.where(is_tied, covered, -1.0).argmax(axis=1)
    at = packed.first + best
    return scores.take(at), p.take(at), covered.take(at), best
