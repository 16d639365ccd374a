"""Compiled body of `arraylearn.backend.arrays.order.argsort_rows`: a radix sort, eleven bits at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled
from arraylearn.backend.cpu.unsigned import index
from arraylearn.backend.native import numpy as plain
from arraylearn.backend.native.compiled.gini_split import line_groups
from arraylearn.backend.threads import parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["argsort_rows"]

_BITS = 11
_DIGITS = 1 << _BITS
# Rows of up to this length are sorted by NumPy: clearing the counters would cost as much.
_SHORT = 512


def argsort_rows(values: Host) -> Host:
    d, m = values.shape
    if m <= _SHORT or m >= 2**31:
        return plain.argsort_rows(values)
    is_float = values.dtype.kind == "f"
    if values.dtype.itemsize < 4 or values.dtype.kind == "b":
        values = values.astype(np.float32 if is_float else np.int32)
    elif values.dtype.kind == "u":
        # the same order among signed integers of the same size
        values = values ^ values.dtype.type(1 << (8 * values.dtype.itemsize - 1))
    is_long = values.dtype.itemsize == 8
    bits = np.ascontiguousarray(values).view(np.uint64 if is_long else np.uint32)
    order = np.empty((d, m), dtype=np.int64)
    sort = _sort_long if is_long else _sort_short

    def sort_group(group: tuple[int, int]) -> None:
        sort(*group, bits, is_float, order)

    parallel_map(sort_group, line_groups(d, m))
    return order


@compiled
def _sort_short(first: int, stop: int, bits: Host, is_float: bool, order: Host) -> None:
    """Sort key << 32 | position by the three digits of the key."""
    n, low = index(bits.shape[1]), np.uint64(_DIGITS - 1)
    keys, other = np.empty(n, np.uint64), np.empty(n, np.uint64)
    counts = np.empty((3, _DIGITS), np.int64)
    sign, shift = np.uint32(1 << 31), np.uint64(32)
    for f in range(first, stop):
        counts[:] = 0
        line = bits[f]
        for i in range(n):
            word = line[i]
            if is_float and (word & ~sign) > np.uint32(0x7F800000):
                key = ~np.uint32(0)  # NaN is last
            elif is_float and word & sign:
                key = ~word if word != sign else sign  # -0.0 beside 0.0
            else:
                key = word ^ sign
            wide = np.uint64(key)
            counts[0, wide & low] += 1
            counts[1, (wide >> np.uint64(_BITS)) & low] += 1
            counts[2, wide >> np.uint64(2 * _BITS)] += 1
            keys[i] = (wide << shift) | np.uint64(i)
        for digit in range(3):
            if _to_starts(counts[digit], n):
                move = shift + np.uint64(digit * _BITS)
                starts = counts[digit]
                for i in range(n):
                    key = keys[i]
                    own = (key >> move) & low
                    other[index(starts[own])] = key
                    starts[own] += 1
                keys, other = other, keys
        target, mask = order[f], np.uint64((1 << 32) - 1)
        for i in range(n):
            target[i] = np.int64(keys[i] & mask)


@compiled
def _sort_long(first: int, stop: int, bits: Host, is_float: bool, order: Host) -> None:
    """Sort keys of six digits together with their positions."""
    n, low = index(bits.shape[1]), np.uint64(_DIGITS - 1)
    keys, other = np.empty(n, np.uint64), np.empty(n, np.uint64)
    rows, spare = np.empty(n, np.uint32), np.empty(n, np.uint32)
    counts = np.empty((6, _DIGITS), np.int64)
    sign, largest = np.uint64(1 << 63), np.uint64(0x7FF0000000000000)
    for f in range(first, stop):
        counts[:] = 0
        line = bits[f]
        for i in range(n):
            word = line[i]
            if is_float and (word & ~sign) > largest:
                key = ~np.uint64(0)
            elif is_float and word & sign:
                key = ~word if word != sign else sign
            else:
                key = word ^ sign
            keys[i], rows[i] = key, np.uint32(i)
            for digit in range(6):
                counts[digit, key & low] += 1
                key >>= np.uint64(_BITS)
        for digit in range(6):
            if _to_starts(counts[digit], n):
                move = np.uint64(digit * _BITS)
                starts = counts[digit]
                for i in range(n):
                    key = keys[i]
                    own = (key >> move) & low
                    at = index(starts[own])
                    other[at], spare[at] = key, rows[i]
                    starts[own] += 1
                keys, other, rows, spare = other, keys, spare, rows
        target = order[f]
        for i in range(n):
            target[i] = np.int64(rows[i])


@compiled
def _to_starts(counts: Host, n: int) -> bool:
    """Turn the counts of digits into where each begins; tell whether there is more than one."""
    total, is_mixed = 0, True
    for j in range(counts.shape[0]):
        size = counts[j]
        is_mixed = is_mixed and size != n
        counts[j] = total
        total += size
    return is_mixed
