"""Compiled body of `argsort_rows`: a radix sort, eleven bits at a time.

keys of a row, here of two digits    31 12 22 11 32
sorted by the last digit             31 11 12 22 32
then by the one before it            11 12 22 31 32      positions move along, equal digits keep their order
"""

from __future__ import annotations

import numpy as np

from arraylearn.backend.cpu.jit import Host, entry, part
from arraylearn.backend.cpu.portions import even_portions
from arraylearn.backend.cpu.unsigned import index
from arraylearn.backend.threads import parallel_map

__all__ = ["argsort_rows"]

_BITS = 11
_DIGITS = 1 << _BITS
# Rows of up to this length are sorted by NumPy: clearing the counters would cost as much.
_SHORT = 512
# Values that a thread must have, or it costs more than it brings.
_LEAST_VALUES = 50_000


def argsort_rows(values: Host) -> Host:
    """Sort rows as the program does."""
    d, m = values.shape
    if m <= _SHORT or m >= 2**31:
        return np.argsort(values, axis=-1, kind="stable")
    is_float = values.dtype.kind == "f"
    if values.dtype.itemsize < 4 or values.dtype.kind == "b":
        values = values.astype(np.float32 if is_float else np.int32)
    elif values.dtype.kind == "u":
        # the same order among signed integers of the same size
        values = values ^ values.dtype.type(1 << (8 * values.dtype.itemsize - 1))
    is_long = values.dtype.itemsize == 8
    bits = np.ascontiguousarray(values).view(np.uint64 if is_long else np.uint32)
    order = np.empty((d, m), dtype=np.int64)

    def sort(rows: tuple[int, int]) -> None:
        keys = np.empty((2, m), np.uint64)
        if is_long:
            positions, counts = np.empty((2, m), np.uint32), np.empty((6, _DIGITS), np.int64)
            _sort_long(bits, rows, is_float, keys, positions, counts, order)
        else:
            _sort_short(bits, rows, is_float, keys, np.empty((3, _DIGITS), np.int64), order)

    parallel_map(sort, even_portions(d, _LEAST_VALUES // m))
    return order


@entry
def _sort_short(
    bits: Host, rows: tuple[int, int], is_float: bool, keys: Host, counts: Host, order: Host
) -> None:
    """Sort key << 32 | position by the three digits of the key."""
    n, low, half = index(bits.shape[1]), np.uint64(_DIGITS - 1), np.uint64(32)
    sign = np.uint32(1 << 31)
    for f in range(rows[0], rows[1]):
        counts[:] = 0
        row, old, new = bits[f], keys[0], keys[1]
        for i in range(n):
            word = row[i]
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
            old[i] = (wide << half) | np.uint64(i)
        for digit in range(3):
            starts = counts[digit]
            if _to_starts(starts, n):
                shift = half + np.uint64(digit * _BITS)
                for i in range(n):
                    own = (old[i] >> shift) & low
                    new[index(starts[own])] = old[i]
                    starts[own] += 1
                old, new = new, old
        target, mask = order[f], np.uint64((1 << 32) - 1)
        for i in range(n):
            target[i] = np.int64(old[i] & mask)


@entry
def _sort_long(
    bits: Host,
    rows: tuple[int, int],
    is_float: bool,
    keys: Host,
    positions: Host,
    counts: Host,
    order: Host,
) -> None:
    """Sort keys of six digits together with their positions."""
    n, low = index(bits.shape[1]), np.uint64(_DIGITS - 1)
    sign, infinity = np.uint64(1 << 63), np.uint64(0x7FF0000000000000)
    for f in range(rows[0], rows[1]):
        counts[:] = 0
        row, old, new, at_old, at_new = bits[f], keys[0], keys[1], positions[0], positions[1]
        for i in range(n):
            word = row[i]
            if is_float and (word & ~sign) > infinity:
                key = ~np.uint64(0)
            elif is_float and word & sign:
                key = ~word if word != sign else sign
            else:
                key = word ^ sign
            old[i], at_old[i] = key, np.uint32(i)
            for digit in range(6):
                counts[digit, key & low] += 1
                key >>= np.uint64(_BITS)
        for digit in range(6):
            starts = counts[digit]
            if _to_starts(starts, n):
                shift = np.uint64(digit * _BITS)
                for i in range(n):
                    own = (old[i] >> shift) & low
                    at = index(starts[own])
                    new[at], at_new[at] = old[i], at_old[i]
                    starts[own] += 1
                old, new, at_old, at_new = new, old, at_new, at_old
        target = order[f]
        for i in range(n):
            target[i] = np.int64(at_old[i])


@part
def _to_starts(counts: Host, n: int) -> bool:
    """Turn the counts of digits into where each begins; return whether there is more than one digit."""
    total, is_mixed = 0, True
    for j in range(counts.shape[0]):
        size = counts[j]
        is_mixed = is_mixed and size != n
        counts[j] = total
        total += size
    return is_mixed
