"""NumPy body of the counts of cells: one bit per row and value, counted 64 rows at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Host = np.ndarray[Any, Any]

# Up to this many values a bit per row and value is less to read than the value of each row.
_MOST_PACKED = 64
# Words that are counted at once stay in the cache.
_BLOCK = 1 << 16


class Packed(NamedTuple):
    """Columns, and the same as bits where that pays."""

    cells: Host  # (d, n)
    bits: Host | None  # (d * n_cells, n_words) uint64


def pack_cells(cells: Host, n_cells: int) -> Packed:
    if n_cells > _MOST_PACKED:
        return Packed(cells, None)
    d, n = cells.shape
    bits = np.zeros((d, n_cells, -(-n // 64) * 8), dtype=np.uint8)
    for value in range(n_cells):
        bits[:, value, : -(-n // 8)] = np.packbits(cells == value, axis=1)
    return Packed(cells, bits.reshape(d * n_cells, -1).view(np.uint64))


def _words(mask: Host, n_words: int) -> Host:
    packed = np.zeros(n_words * 8, dtype=np.uint8)
    packed[: -(-mask.shape[0] // 8)] = np.packbits(mask)
    return packed.view(np.uint64)


def count_cells(
    packed: Packed, n_cells: int, is_live: Host, is_positive: Host, weights: Host | None
) -> tuple[Host, Host]:
    d = packed.cells.shape[0]
    if weights is None and packed.bits is not None:
        n_words = packed.bits.shape[1]
        live = np.stack((_words(is_live & is_positive, n_words), _words(is_live, n_words)))
        counts = _count_bits(packed.bits, live).reshape(d, n_cells, 2)
        return counts[:, :, 0], counts[:, :, 1]
    rows = np.flatnonzero(is_live)
    base = np.where(is_positive.take(rows), n_cells + 1, 0)
    part = None if weights is None else weights.take(rows)
    sums = np.empty((d, 2 * (n_cells + 1)), dtype=np.int64 if weights is None else np.float64)
    for j in range(d):
        keys = packed.cells[j].take(rows) + base
        sums[j] = np.bincount(keys, part, minlength=2 * (n_cells + 1))
    negative, positive = sums[:, :n_cells], sums[:, n_cells + 1 : -1]
    return positive, negative + positive


def _count_bits(bits: Host, masks: Host) -> Host:
    """Count the bits of each line (l, w) under each mask (k, w): (l, k)."""
    counts = np.empty((bits.shape[0], masks.shape[0]), dtype=np.int64)
    step = max(1, _BLOCK // max(1, bits.shape[1]))
    for start in range(0, bits.shape[0], step):
        lines = slice(start, start + step)
        for k, mask in enumerate(masks):
            np.bitwise_count(bits[lines] & mask).sum(axis=1, dtype=np.int64, out=counts[lines, k])
    return counts
