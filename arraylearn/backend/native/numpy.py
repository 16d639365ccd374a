"""NumPy bodies: bincount, compress and LAPACK, on several threads where calls release the lock."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import linalg

from arraylearn.backend.blas import one_thread_per_product
from arraylearn.backend.native.numpy_fused import (  # noqa: F401
    diagonal_squares,
    gaussian_gram,
    whitened_exponents,
)
from arraylearn.backend.native.numpy_moments import grouped_moments  # noqa: F401
from arraylearn.backend.native.numpy_ragged import count_categories, look_up_sums  # noqa: F401
from arraylearn.backend.threads import parallel_map

Host = np.ndarray[Any, Any]

# Below this many elements a thread costs more than it brings.
_WORTH_A_THREAD = 50_000
# Rows of up to this length are sorted, not partitioned, for their largest values.
_SHORT_ROW = 1024
# From this size on SciPy's factorization is several times as fast as NumPy's.
_LARGE_FACTOR = 128
# Up to this size a batch of triangular matrices is solved faster by one call of NumPy's general solver.
_SMALL_FACTOR = 24
# Rows that stay in the cache while they are added.
_CHUNK_ROWS = 32


def segment_sum(values: Host, segments: Host, n: int) -> Host:
    is_float = values.dtype.kind == "f"
    if values.ndim == 1:
        return _weighted_bincount(segments, values, n)
    flat = values.reshape(values.shape[0], math.prod(values.shape[1:]))
    sums = np.empty((flat.shape[1], n), dtype=np.float64 if is_float else np.int64)
    for j in range(flat.shape[1]):
        sums[j] = _weighted_bincount(segments, flat[:, j], n)
    return np.ascontiguousarray(sums.T).reshape(n, *values.shape[1:])


def _weighted_bincount(keys: Host, weights: Host, n: int) -> Host:
    if weights.dtype.kind == "f":
        return np.bincount(keys, weights, minlength=n).astype(np.float64, copy=False)  # int if empty
    sums = np.zeros(n, dtype=np.int64)  # bincount would go through float64 and lose bits past 2**53
    np.add.at(sums, keys, weights)
    return sums


def segment_max(values: Host, segments: Host, n: int) -> Host:
    lowest = -np.inf if values.dtype.kind == "f" else np.iinfo(values.dtype).min
    largest = np.full(n, lowest, dtype=values.dtype)
    np.maximum.at(largest, segments, values)
    return largest


def histogram(keys: Host, n: int, weights: Host | None) -> Host:
    batch, m = keys.shape[:-1], keys.shape[-1]
    rows = keys.reshape(math.prod(batch), m)
    shared = weights is None or weights.ndim == 1
    by_row = None if shared else np.broadcast_to(weights, keys.shape).reshape(rows.shape)  # type: ignore[arg-type]

    def count(i: int) -> Host:
        if weights is None:
            return np.bincount(rows[i], minlength=n)
        return _weighted_bincount(rows[i], weights if by_row is None else by_row[i], n)

    counts = _map_rows(count, rows.shape[0], m)
    if not counts:
        is_float = weights is not None and weights.dtype.kind == "f"
        return np.zeros((*batch, n), dtype=np.float64 if is_float else np.int64)
    return np.stack(counts).reshape(*batch, n)


def _map_rows(function: Any, n: int, m: int) -> list[Any]:
    """Call ``function(i)`` for each of `n` rows of `m` elements, in threads where that pays."""
    if n < 2 or n * m < _WORTH_A_THREAD:
        return [function(i) for i in range(n)]
    return parallel_map(function, range(n))


def block_index(sizes: Host, total: int) -> Host:
    return np.repeat(np.arange(sizes.shape[0]), sizes)


def block_max(values: Host, starts: Host, block_at: Host) -> Host:
    return np.maximum.reduceat(values, starts, axis=1)


def compress(values: Host, keep: Host, size: int) -> Host:
    return values.compress(keep, axis=0)


def top_k(values: Host, k: int) -> tuple[Host, Host]:
    m = values.shape[-1]
    if k == 0 or m == 0:
        return values[..., :0], np.zeros((*values.shape[:-1], 0), dtype=np.int64)
    if m <= _SHORT_ROW:
        order = _descending(values)[..., :k]
        return np.take_along_axis(values, order, axis=-1), order
    kth = np.partition(values, m - k, axis=-1)[..., m - k, None]
    # all that exceed the k-th, and the first of those that equal it
    is_above, is_equal = values > kth, values == kth
    n_equal = k - np.count_nonzero(is_above, axis=-1, keepdims=True)
    chosen = is_above | (is_equal & (np.cumsum(is_equal, axis=-1) <= n_equal))
    indices = np.nonzero(chosen)[-1].reshape(*values.shape[:-1], k)
    largest = np.take_along_axis(values, indices, axis=-1)
    order = _descending(largest)
    return np.take_along_axis(largest, order, axis=-1), np.take_along_axis(indices, order, axis=-1)


def _descending(values: Host) -> Host:
    """Return a stable descending order: reverse, sort ascending, reverse back."""
    order = np.argsort(values[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    forward: Host = values.shape[-1] - 1 - order
    return forward


def cholesky(a: Host) -> tuple[Host, Host]:
    if a.ndim == 2 and a.shape[0] >= _LARGE_FACTOR:
        # the transpose lies in memory as LAPACK wants it, and its upper triangle is the lower one of `a`
        lapack: Any = linalg.get_lapack_funcs(("potrf",), (a,))
        factor, info = lapack[0](a.T, lower=0, clean=1)
        return factor.T, np.asarray(info == 0)
    try:
        return np.linalg.cholesky(a), np.ones(a.shape[:-2], dtype=bool)
    except np.linalg.LinAlgError:
        pass
    d = a.shape[-1]
    matrices = a.reshape(-1, d, d)
    factors = np.zeros_like(matrices)
    finished = np.zeros(matrices.shape[0], dtype=bool)
    for i, matrix in enumerate(matrices):
        try:
            factors[i] = np.linalg.cholesky(matrix)
            finished[i] = True
        except np.linalg.LinAlgError:
            continue
    return factors.reshape(a.shape), finished.reshape(a.shape[:-2])


def solve_triangular(factor: Host, right: Host, upper: bool) -> Host:
    if factor.ndim == 2:
        return _solve_one(factor, right, upper)
    if factor.shape[-1] <= _SMALL_FACTOR:
        return np.linalg.solve(np.triu(factor) if upper else np.tril(factor), right)
    batch = factor.shape[:-2]
    factors = factor.reshape(-1, *factor.shape[-2:])
    rights = right.reshape(-1, *right.shape[-2:])
    solutions = np.empty(rights.shape, dtype=right.dtype)
    for i in range(factors.shape[0]):
        solutions[i] = _solve_one(factors[i], rights[i], upper)
    return solutions.reshape(*batch, *right.shape[-2:])


def _solve_one(factor: Host, right: Host, upper: bool) -> Host:
    if right.shape[1] == 0 or right.shape[0] == 0:
        return right.copy()
    solution: Host = linalg.solve_triangular(factor, right, lower=not upper, check_finite=False)
    return solution


def put(x: Host, idx: Host, values: Host) -> Host:
    result = x.copy()
    result[idx] = values
    return result


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
