"""NumPy bodies of `arraylearn.backend.arrays.gather`, and of `inverse_definite`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from arraylearn.backend.blas import one_thread_per_product

Host = np.ndarray[Any, Any]

_CHUNK_ROWS = 32  # rows that stay in the cache while they are added


def put(x: Host, idx: Host, values: Host) -> Host:
    result = x.copy()
    result[idx] = values
    return result


def gather_block(rows: Host, slots: Host, columns: Host) -> Host:
    block = np.empty((slots.shape[0], columns.shape[0]), dtype=rows.dtype)
    # row by row: numpy's two-dimensional gather costs twice as much
    for k, slot in enumerate(slots.tolist()):
        rows[slot].take(columns, out=block[k], mode="clip")
    return block


def combine_rows(rows: Host, slots: Host, weights: Host) -> Host:
    used = np.flatnonzero(weights)
    slots, weights = slots[used], weights[used]
    total = np.zeros(rows.shape[1], dtype=weights.dtype)
    # in pieces that stay in the cache, instead of one copy of all rows
    piece = np.empty((min(_CHUNK_ROWS, slots.shape[0]), rows.shape[1]), dtype=rows.dtype)
    with one_thread_per_product():
        for start in range(0, slots.shape[0], _CHUNK_ROWS):
            some = slots[start : start + _CHUNK_ROWS]
            taken = piece[: some.shape[0]]
            rows.take(some, axis=0, out=taken, mode="clip")
            total += weights[start : start + _CHUNK_ROWS].astype(rows.dtype) @ taken
    return total


def inverse_definite(matrix: Host) -> Host:
    lapack: Any = linalg.get_lapack_funcs(("potrf", "potri"), (matrix,))
    potrf, potri = lapack
    factor, info = potrf(matrix.T, lower=1, clean=0)
    if info == 0:
        inverse, info = potri(factor, lower=1, overwrite_c=1)
    if info != 0:
        return np.full_like(matrix, np.nan)
    lower: Host = np.tril(inverse, -1)
    full: Host = lower + lower.T + np.diag(inverse.diagonal())
    return full
