"""Compiled body of `paired_histogram`: counts of pairs without an array of keys."""

from __future__ import annotations

import numpy as np

from arraylearn.backend.cpu.jit import Host, entry
from arraylearn.backend.cpu.portions import even_portions
from arraylearn.backend.threads import parallel_map

__all__ = ["paired_histogram"]

# Values that a thread must have, or it costs more than it brings.
_LEAST_VALUES = 500_000
# Rows whose keys stay in the first-level cache for all columns.
_CHUNK = 1024


def paired_histogram(columns: Host, keys: Host, n_values: int, n_keys: int, weights: Host | None) -> Host:
    """Count as the program does; each cell adds its rows in their order, so that float sums are the same."""
    d, m = columns.shape
    dtype = np.float64 if weights is not None and weights.dtype.kind == "f" else np.int64
    counts = np.zeros((d, n_keys * n_values), dtype=dtype)
    table, base = np.ascontiguousarray(columns), keys.astype(np.int64) * n_values
    heavy = np.ones(1, dtype) if weights is None else np.ascontiguousarray(weights, dtype)
    is_fine = parallel_map(
        lambda some: _count(table, base, heavy, some[0], some[1], counts),
        even_portions(d, _LEAST_VALUES // max(1, m)),
    )
    if not all(is_fine):
        raise ValueError(f"values must be in range({n_values}) and keys in range({n_keys})")
    return counts.reshape(d, n_keys, n_values)


@entry
def _count(columns: Host, base: Host, weights: Host, first: int, stop: int, counts: Host) -> bool:
    """Count the columns `first` to `stop`; return whether all values are in range. One weight serves all."""
    m, n, has_weights = base.shape[0], np.uint64(counts.shape[1]), weights.shape[0] > 1
    for start in range(0, m, _CHUNK):
        end = min(start + _CHUNK, m)
        for j in range(first, stop):
            column, own = columns[j], counts[j]
            for i in range(start, end):
                cell = np.uint64(base[i] + np.int64(column[i]))
                if cell >= n:
                    return False
                own[cell] += weights[i if has_weights else 0]
    return True
