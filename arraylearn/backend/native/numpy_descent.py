"""NumPy body for `arraylearn.backend.ops.descent`: packed records, finished rows dropped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]
# nodes and first positions of their rows -> next nodes
Step = Callable[[Host, Host], Host]

__all__ = ["follow_thresholds"]

_PIECE = 16_384
# Fewer rows than this go all the way in one piece.
_SMALL = 2_048
# Finished rows are looked for after so many levels each.
_LEVELS_BETWEEN = 4
# A whole node in 64 bits: a float32 threshold below, feature and child above.
_FEATURE_BITS, _CHILD_BITS = 8, 23
_LOW_HALF = 0 if sys.byteorder == "little" else 1


def follow_thresholds(
    x: Host, feature: Host, threshold: Host, child: Host, n_levels: int, default: Host | None
) -> Host:
    n, d = x.shape
    leaf = np.zeros(n, dtype=np.int64)
    if d == 0 or n_levels == 0:
        return leaf
    x = np.ascontiguousarray(x)
    t = child.shape[0]
    narrow = threshold.astype(np.float32) if x.dtype == np.float32 else threshold
    is_exact = x.dtype == np.float32 and np.array_equal(narrow, threshold)
    is_small = d <= 1 << _FEATURE_BITS and t <= 1 << _CHILD_BITS
    if is_exact and is_small and default is None:
        records = _pack_whole(feature, narrow, child)
    else:
        records = (child.astype(np.int64) << 32) | feature
    is_packed = is_exact and is_small and default is None
    sides = None if default is None else default.astype(np.int64)
    is_leaf = child == np.arange(t)
    flat = x.ravel()
    step = (
        _packed_step(flat, records)
        if is_packed
        else _plain_step(flat, records, narrow if is_exact else threshold, sides)
    )

    def advance(piece: tuple[Host, Host]) -> tuple[Host, Host]:
        return _advance(*piece, d, step, is_leaf, leaf)

    row, node = np.arange(n), np.zeros(n, dtype=np.int64)
    while row.shape[0]:  # the rows that a piece is left with go on together with those of the other pieces
        m = row.shape[0]
        size = _PIECE if m >= 2 * _PIECE * get_num_threads() else max(512, -(-m // get_num_threads()))
        pieces = [(row[start : start + size], node[start : start + size]) for start in range(0, m, size)]
        left = parallel_map(advance, pieces)
        row, node = (np.concatenate(parts) for parts in zip(*left, strict=True))
    return leaf


def _pack_whole(feature: Host, threshold: Host, child: Host) -> Host:
    records = np.empty((child.shape[0], 2), dtype=np.int32)
    records[:, _LOW_HALF] = threshold.view(np.int32)
    records[:, 1 - _LOW_HALF] = (child.astype(np.int64) << _FEATURE_BITS) | feature
    return records.view(np.int64).ravel()


def _packed_step(flat: Host, records: Host) -> Step:
    def step(node: Host, line: Host) -> Host:
        record = records.take(node)
        threshold = record.view(np.float32)[_LOW_HALF::2]
        upper = record >> 32
        at = upper & ((1 << _FEATURE_BITS) - 1)
        at += line
        is_right = flat.take(at) > threshold
        upper >>= _FEATURE_BITS
        upper += is_right
        return upper

    return step


def _plain_step(flat: Host, records: Host, threshold: Host, sides: Host | None) -> Step:
    def step(node: Host, line: Host) -> Host:
        record = records.take(node)
        at = record & 0xFFFFFFFF
        at += line
        value = flat.take(at)
        is_right = value > threshold.take(node)
        record >>= 32
        if sides is not None:
            is_right = np.where(np.isnan(value), sides.take(node), is_right)
        record += is_right
        return record

    return step


def _advance(row: Host, node: Host, d: int, step: Step, is_leaf: Host, leaf: Host) -> tuple[Host, Host]:
    """Send rows down until most of them have arrived; write their leaves and return the others."""
    line = row * d
    few = row.shape[0] // 8 if row.shape[0] > _SMALL else 0
    level = 0
    while row.shape[0] > few:
        node = step(node, line)
        level += 1
        if level % _LEVELS_BETWEEN:
            continue
        is_done = is_leaf.take(node)
        if 4 * int(np.count_nonzero(is_done)) < node.shape[0]:
            continue
        leaf[row.compress(is_done)] = node.compress(is_done)
        stays = ~is_done
        row, node, line = row.compress(stays), node.compress(stays), line.compress(stays)
    return row, node
