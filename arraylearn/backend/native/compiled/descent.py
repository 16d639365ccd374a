"""Compiled body of `backend.ops.descent.follow_thresholds`: a block of rows goes down level by level.

The rows of a block wait for the cache together. For as many levels as most rows need all of them go on, at a
leaf in a circle; then those at a leaf drop out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled
from arraylearn.backend.cpu.unsigned import index
from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["follow_thresholds"]

_BLOCK = 256
# Rows that a thread must have, or it costs more than it brings.
_WORTH_A_THREAD = 25_000


def follow_thresholds(
    x: Host, feature: Host, threshold: Host, child: Host, n_levels: int, default: Host | None
) -> Host:
    n, d = x.shape
    leaf = np.zeros(n, dtype=np.int64)
    if d == 0 or n_levels == 0 or n == 0:
        return leaf
    flat = np.ascontiguousarray(x).reshape(-1)
    words, cuts, n_bits = _pack(x.dtype, d, feature, threshold, child)
    side = np.empty(0, np.int8) if default is None else np.ascontiguousarray(default, dtype=np.int8)
    n_common = min(n_levels, child.shape[0].bit_length())
    n_parts = min(get_num_threads(), max(1, n // _WORTH_A_THREAD))

    def descend(part: int) -> None:
        rows = n * part // n_parts, n * (part + 1) // n_parts
        _descend(flat, d, words, cuts, n_bits, side, n_common, *rows, leaf)

    parallel_map(descend, range(n_parts))
    return leaf


def _pack(dtype: Any, d: int, feature: Host, threshold: Host, child: Host) -> tuple[Host, Host, int]:
    """Put child, column and threshold of each node side by side; also return how many bits a column has."""
    n_bits, t = d.bit_length(), child.shape[0]
    is_short = dtype == np.float32 and n_bits + t.bit_length() <= 32
    words = np.empty((t, 2), dtype=np.uint32 if is_short else np.uint64)
    words[:, 0] = (child.astype(np.int64) << n_bits) | feature
    cuts = words.view(np.float32 if is_short else np.float64)
    cuts[:, 1] = threshold
    if is_short and threshold.dtype != np.float32:
        # numbers of 32 bits are above the threshold where they are above the next such number below it
        is_above = cuts[:, 1] > threshold
        cuts[is_above, 1] = np.nextafter(cuts[is_above, 1], np.float32(-np.inf))
    return words.reshape(-1), cuts.reshape(-1), n_bits


@compiled
def _descend(
    flat: Host,
    d: int,
    words: Host,
    cuts: Host,
    n_bits: int,
    side: Host,
    n_common: int,
    first: int,
    stop: int,
    leaf: Host,
) -> None:
    """Find the leaves of some rows."""
    row, node = np.empty(_BLOCK, np.uint32), np.empty(_BLOCK, np.uint32)
    one, two, width, has_side = index(1), index(2), index(d), side.shape[0] > 0
    shift, mask = words.dtype.type(n_bits), words.dtype.type((1 << n_bits) - 1)
    for start in range(first, stop, _BLOCK):
        n_live, base = index(min(_BLOCK, stop - start)), index(start) * width
        for i in range(n_live):
            row[i], node[i] = i, 0
        for _ in range(n_common):
            for i in range(n_live):
                at = index(node[i])
                word = words[two * at]
                value = flat[base + i * width + index(word & mask)]
                right = value > cuts[two * at + one]
                if has_side and value != value:
                    right = side[at] > 0
                node[i] = np.uint32(word >> shift) + np.uint32(right)
        while n_live > index(0):
            n_left = index(0)
            for i in range(n_live):
                own, at = index(row[i]), index(node[i])
                word = words[two * at]
                value = flat[base + own * width + index(word & mask)]
                right = value > cuts[two * at + one]
                if has_side and value != value:
                    right = side[at] > 0
                down = np.uint32(word >> shift)
                leaf[index(start) + own] = down
                row[n_left] = np.uint32(own)
                node[n_left] = down + np.uint32(right)
                n_left += index(down != np.uint32(at))
            n_live = n_left
