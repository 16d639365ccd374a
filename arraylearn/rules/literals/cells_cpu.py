"""NumPy body of the counts of cells: one bit per row and value, counted 64 rows at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.namespace import HOST
from arraylearn.rules.literals.gains import Scoring
from arraylearn.rules.literals.target import Target

__all__ = ["best_cells", "count_cells", "pack_cells"]

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


def pack_cells(cells: Host, n_cells: int) -> Packed:
    """Pack each value of each column into one bit per row, where there are few values."""
    d, n = cells.shape
    if n_cells > _MOST_PACKED or n >= 1 << 24:  # float32 counts up to there
        nothing = np.zeros(0, dtype=np.int64)
        return Packed(cells, None, nothing, nothing)
    bits = np.zeros((d, n_cells, -(-n // 64) * 8), dtype=np.uint8)
    for value in range(n_cells):
        bits[:, value, : -(-n // 8)] = np.packbits(cells == value, axis=1)
    words = bits.reshape(d * n_cells, -1).view(np.uint64)
    lines = np.flatnonzero(words.any(axis=1))
    return Packed(cells, words[lines], lines, np.ones(words.shape[1], dtype=np.float32))


def _count_bits(bits: Host, ones: Host, is_live: Host, is_positive: Host) -> Host:
    """Count the positive live rows and the live rows of each line: float32 (2, l), exact."""
    n_words = bits.shape[1]
    masks = np.zeros((2, 64 * n_words), dtype=bool)
    np.logical_and(is_live, is_positive, out=masks[0, : is_live.shape[0]])
    masks[1, : is_live.shape[0]] = is_live
    words = np.packbits(masks, axis=1).view(np.uint64)[:, None, :]
    step = max(1, _BLOCK // max(1, n_words))
    if step >= bits.shape[0]:
        counts: Host = np.bitwise_count(bits & words).astype(np.float32) @ ones
        return counts
    parts = [
        np.bitwise_count(bits[start : start + step] & words).astype(np.float32) @ ones
        for start in range(0, bits.shape[0], step)
    ]
    return np.concatenate(parts, axis=1)


def count_cells(packed: Packed, n_cells: int, is_live: Host, target: Target) -> tuple[Host, Host]:
    """Weigh rows by value as the program does."""
    d, (is_positive, weights) = packed.cells.shape[0], target
    if weights is None and packed.bits is not None:
        counts = np.zeros((2, d * n_cells), dtype=np.int64)
        counts[:, packed.lines] = _count_bits(packed.bits, packed.ones, is_live, is_positive)
        both = counts.reshape(2, d, n_cells)
        return both[0], both[1]
    rows = np.flatnonzero(is_live)
    base = np.where(is_positive.take(rows), n_cells + 1, 0)
    part = None if weights is None else weights.take(rows)
    sums = np.empty((d, 2 * (n_cells + 1)), dtype=np.int64 if weights is None else np.float64)
    for j in range(d):
        keys = packed.cells[j].take(rows) + base
        sums[j] = np.bincount(keys, part, minlength=2 * (n_cells + 1))
    negative, positive = sums[:, :n_cells], sums[:, n_cells + 1 : -1]
    return positive, negative + positive


def best_cells(packed: Packed, n_cells: int, is_live: Host, target: Target, scoring: Scoring) -> Host:
    """Find the best value as the program does."""
    found = np.full((4, packed.cells.shape[0]), -np.inf)
    lines: Host | None = None
    if target.weights is None and packed.bits is not None:
        lines = packed.lines
        p, covered = _count_bits(packed.bits, packed.ones, is_live, target.is_positive).astype(np.float64)
    else:
        p, covered = count_cells(packed, n_cells, is_live, target)
        p, covered = p.ravel().astype(np.float64), covered.ravel().astype(np.float64)
    scores = scoring.score(HOST.xp, p, covered)
    top = float(scores.max()) if scores.shape[0] else -np.inf
    if top == -np.inf:
        return found
    # only what can be the best of all columns is looked up, so that most columns cost nothing
    for i in (scores >= top - _TOLERANCE * abs(top)).nonzero()[0].tolist():
        j, value = divmod(i if lines is None else int(lines[i]), n_cells)
        if covered[i] > found[2, j]:
            found[:, j] = scores[i], p[i], covered[i], value
    return found
