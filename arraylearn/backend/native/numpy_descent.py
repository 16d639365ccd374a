"""NumPy body for `arraylearn.backend.ops.descent`: packed records, finished rows dropped."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["follow_thresholds"]

_PIECE = 8_192
# Finished rows are dropped after this many levels, and then after each such number again.
_LEVELS_BETWEEN = 3


def follow_thresholds(
    x: Host, feature: Host, threshold: Host, child: Host, n_levels: int, default: Host | None
) -> Host:
    n, d = x.shape
    leaf = np.zeros(n, dtype=np.int64)
    if d == 0 or n_levels == 0:
        return leaf
    x = np.ascontiguousarray(x)
    if x.dtype == np.float32:
        narrow = threshold.astype(np.float32)
        if np.array_equal(narrow, threshold):
            threshold = narrow
    packed = (child.astype(np.int64) << 32) | feature
    is_leaf = child == np.arange(child.shape[0])
    sides = None if default is None else default.astype(np.int64)

    def follow(rows: slice) -> None:
        leaf[rows] = _follow_piece(x[rows], packed, threshold, is_leaf, sides, n_levels)

    step = _PIECE if n >= 2 * _PIECE * get_num_threads() else max(512, -(-n // get_num_threads()))
    parallel_map(follow, [slice(start, min(n, start + step)) for start in range(0, n, step)])
    return leaf


def _follow_piece(
    x: Host, packed: Host, threshold: Host, is_leaf: Host, sides: Host | None, n_levels: int
) -> Host:
    n, d = x.shape
    flat = x.ravel()
    leaf = np.zeros(n, dtype=np.int64)
    line = np.arange(0, n * d, d)
    node = np.zeros(n, dtype=np.int64)
    active: Host | None = None
    for level in range(n_levels):
        record = packed.take(node)
        at = record & 0xFFFFFFFF
        at += line
        value = flat.take(at)
        is_right = value > threshold.take(node)
        record >>= 32
        if sides is not None:
            is_right = np.where(np.isnan(value), sides.take(node), is_right)
        record += is_right
        node = record
        if level % _LEVELS_BETWEEN == _LEVELS_BETWEEN - 1:
            is_done = is_leaf.take(node)
            n_done = int(np.count_nonzero(is_done))
            if 4 * n_done < node.shape[0]:
                continue
            stays = ~is_done
            if active is None:
                leaf[:] = node
                active = np.flatnonzero(stays)
            else:
                leaf[active.compress(is_done)] = node.compress(is_done)
                active = active.compress(stays)
            node, line = node.compress(stays), line.compress(stays)
            if node.shape[0] == 0:
                return leaf
    if active is None:
        return node
    leaf[active] = node
    return leaf
