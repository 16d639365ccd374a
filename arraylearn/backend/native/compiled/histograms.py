"""Compiled body of `arraylearn.backend.arrays.segments`: counts of pairs without an array of keys."""

from __future__ import annotations

import numpy as np

from arraylearn.backend.cpu.jit import Host, compiled
from arraylearn.backend.cpu.portions import even_portions
from arraylearn.backend.native import numpy as plain
from arraylearn.backend.threads import parallel_map

__all__ = ["paired_histogram"]

# Values that a thread must have, or it costs more than it brings.
_LEAST_VALUES = 500_000
# Rows whose keys stay in the first-level cache for all columns.
_CHUNK = 1024


def paired_histogram(columns: Host, keys: Host, n_values: int, n_keys: int, weights: Host | None) -> Host:
    d, m = columns.shape
    if weights is not None and weights.dtype.kind == "f":  # sums in another order have other bits
        return plain.paired_histogram(columns, keys, n_values, n_keys, weights)
    counts = np.zeros((d, n_keys * n_values), dtype=np.int64)
    table, base = np.ascontiguousarray(columns), keys.astype(np.int64) * n_values
    heavy = np.empty(0, dtype=np.int64) if weights is None else weights.astype(np.int64)
    is_fine = parallel_map(
        lambda some: _count(table, base, heavy, weights is not None, *some, counts),
        even_portions(d, _LEAST_VALUES // max(1, m)),
    )
    if not all(is_fine):  # values out of range: NumPy refuses them
        return plain.paired_histogram(columns, keys, n_values, n_keys, weights)
    return counts.reshape(d, n_keys, n_values)


@compiled
def _count(
    columns: Host, base: Host, weights: Host, has_weights: bool, first: int, last: int, counts: Host
) -> bool:
    """Count the columns `first` to `last`; return whether all values are in range."""
    m, n = base.shape[0], np.uint64(counts.shape[1])
    for start in range(0, m, _CHUNK):
        stop = min(start + _CHUNK, m)
        for j in range(first, last):
            column, own = columns[j], counts[j]
            for i in range(start, stop):
                cell = np.uint64(base[i] + np.int64(column[i]))
                if cell >= n:
                    return False
                own[cell] += weights[i] if has_weights else 1
    return True
