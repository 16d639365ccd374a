"""Compiled body of `backend.ops.distinct.number_values`: a small table of hashes for each column."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled
from arraylearn.backend.cpu.unsigned import index
from arraylearn.backend.native.compiled.gini_split import line_groups
from arraylearn.backend.threads import parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["number_values"]

_SLOTS_BITS = 10
_MISSING = 255


def number_values(columns: Host, most: int) -> tuple[Host, Host] | None:
    d, n = columns.shape
    columns = np.ascontiguousarray(columns)
    words = columns.view(f"u{columns.dtype.itemsize}")
    codes, values = np.empty((d, n), np.uint8), np.full((d, most), np.inf, columns.dtype)
    sizes = np.empty(d, np.int64)

    def number(group: tuple[int, int]) -> bool:
        return _number_lines(*group, columns, words, codes, values, sizes)

    groups = line_groups(d, n)
    if not all(parallel_map(number, groups)) or not (width := int(sizes.max())):
        return None
    order = values.argsort(axis=1)
    ranks = np.empty((d, 256), np.uint8)
    np.put_along_axis(ranks, order, np.arange(most, dtype=np.uint8)[None, :], axis=1)
    ranks[:, _MISSING] = width

    def rank(group: tuple[int, int]) -> None:
        _look_up(*group, ranks, codes)

    parallel_map(rank, groups)
    return codes, np.take_along_axis(values, order[:, :width], axis=1)


@compiled
def _number_lines(
    first: int, stop: int, columns: Host, words: Host, codes: Host, values: Host, sizes: Host
) -> bool:
    """Give the values of some columns numbers as they appear; tell whether they are few."""
    last, one = index((1 << _SLOTS_BITS) - 1), index(1)
    keys, numbers = np.empty(1 << _SLOTS_BITS, np.uint64), np.empty(1 << _SLOTS_BITS, np.uint8)
    spread, shift, half = np.uint64(0x9E3779B97F4A7C15), np.uint64(64 - _SLOTS_BITS), np.uint64(32)
    for f in range(first, stop):
        numbers[:] = _MISSING
        column, word, code, found, n_found = columns[f], words[f], codes[f], values[f], 0
        for i in range(index(columns.shape[1])):
            if column[i] != column[i]:
                code[i] = _MISSING
                continue
            key = np.uint64(word[i]) if column[i] != 0 else np.uint64(0)  # -0.0 is 0.0
            slot = index(((key ^ (key >> half)) * spread) >> shift)
            while numbers[slot] != _MISSING and keys[slot] != key:
                slot = (slot + one) & last
            if numbers[slot] == _MISSING:
                if n_found == found.shape[0]:
                    return False
                keys[slot], numbers[slot], found[n_found] = key, n_found, column[i]
                n_found += 1
            code[i] = numbers[slot]
        sizes[f] = n_found
    return True


@compiled
def _look_up(first: int, stop: int, ranks: Host, codes: Host) -> None:
    """Replace numbers by ranks."""
    for f in range(first, stop):
        code, rank = codes[f], ranks[f]
        for i in range(index(codes.shape[1])):
            code[i] = rank[code[i]]
