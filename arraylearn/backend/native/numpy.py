"""NumPy bodies: bincount, compress and packed keys, on several threads where calls release the lock."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import linalg

from arraylearn.backend.blas import one_thread_per_product as small_products  # noqa: F401
from arraylearn.backend.native.numpy_blocks import (  # noqa: F401
    block_index,
    block_max,
    scatter,
    split_lists,
)
from arraylearn.backend.native.numpy_boosting import (  # noqa: F401
    add_to_sides,
    block_histograms,
    histogram_cells,
    split_blocks,
)
from arraylearn.backend.native.numpy_cells import (  # noqa: F401
    best_cells,
    count_cells,
    count_rows,
    pack_cells,
)
from arraylearn.backend.native.numpy_cuts import best_cuts, divide_rows  # noqa: F401
from arraylearn.backend.native.numpy_descent import follow_thresholds  # noqa: F401
from arraylearn.backend.native.numpy_distinct import number_values  # noqa: F401
from arraylearn.backend.native.numpy_fused import gaussian_gram, polynomial_gram  # noqa: F401
from arraylearn.backend.native.numpy_gradients import log_loss_gradients  # noqa: F401
from arraylearn.backend.native.numpy_lookup import bin_columns  # noqa: F401
from arraylearn.backend.native.numpy_moments import grouped_moments  # noqa: F401
from arraylearn.backend.native.numpy_planes import sum_leaves  # noqa: F401
from arraylearn.backend.native.numpy_quadratic import (  # noqa: F401
    combine_rows,
    gather_block,
    inverse_curvature_roots,
    inverse_definite,
    put,
    solve_box_block,
)
from arraylearn.backend.native.numpy_ragged import count_categories, look_up_sums  # noqa: F401
from arraylearn.backend.native.numpy_smoothed import minimize_smoothed  # noqa: F401
from arraylearn.backend.native.numpy_splits import search_splits  # noqa: F401
from arraylearn.backend.native.numpy_squares import diagonal_squares, whitened_exponents  # noqa: F401
from arraylearn.backend.native.numpy_thresholds import best_thresholds  # noqa: F401
from arraylearn.backend.native.numpy_walks import prepare_walk, reach_leaves, sum_shares  # noqa: F401
from arraylearn.backend.threads import parallel_map
from arraylearn.backend.threads import parallel_map as map_apart  # noqa: F401

Host = np.ndarray[Any, Any]

# A chunk of keys of this many rows stays in the second-level cache together with its cells.
_CHUNK = 32_768
# Rows of up to this length are sorted by NumPy's own argsort.
_SHORT = 128
# Below this many elements a thread costs more than it brings.
_WORTH_A_THREAD = 50_000
# From this size on SciPy's factorization is several times as fast as NumPy's.
_LARGE_FACTOR = 128


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


def paired_histogram(columns: Host, keys: Host, n_values: int, n_keys: int, weights: Host | None) -> Host:
    d, m = columns.shape
    n = n_keys * n_values
    is_float = weights is not None and weights.dtype.kind == "f"
    counts = np.zeros((d, n), dtype=np.float64 if is_float else np.int64)
    base = keys.astype(np.int64) * n_values
    chunk = max(_CHUNK, n)  # adding up the cells must not cost more than counting the keys

    combined = np.empty(min(chunk, m), dtype=np.int64)
    for j in range(d):  # threads would wait for each other: short counts hold the interpreter lock
        for start in range(0, m, chunk):
            rows = slice(start, min(start + chunk, m))
            key = combined[: rows.stop - rows.start]
            np.add(base[rows], columns[j, rows], out=key, casting="unsafe")
            if weights is None:
                counts[j] += np.bincount(key, minlength=n)
            elif is_float:
                counts[j] += np.bincount(key, weights[rows], minlength=n)
            else:
                np.add.at(counts[j], key, weights[rows])
    return counts.reshape(d, n_keys, n_values)


def _map_rows(function: Any, n: int, m: int) -> list[Any]:
    """Call ``function(i)`` for each of `n` rows of `m` elements, in threads where that pays."""
    if n < 2 or n * m < _WORTH_A_THREAD:
        return [function(i) for i in range(n)]
    return parallel_map(function, range(n))


def compress(values: Host, keep: Host, size: int) -> Host:
    return values.compress(keep, axis=0)


def partition(values: Host, first: Host) -> Host:
    result = np.empty_like(values)
    n_first = int(np.count_nonzero(first))
    values.compress(first, axis=0, out=result[:n_first])
    values.compress(~first, axis=0, out=result[n_first:])
    return result


def top_k(values: Host, k: int) -> tuple[Host, Host]:
    m = values.shape[-1]
    if k == 0 or m == 0:
        return values[..., :0], np.zeros((*values.shape[:-1], 0), dtype=np.int64)
    kth = np.partition(values, m - k, axis=-1)[..., m - k, None]
    # all that exceed the k-th, and the first of those that equal it
    is_above, is_equal = values > kth, values == kth
    room = k - np.count_nonzero(is_above, axis=-1, keepdims=True)
    chosen = is_above | (is_equal & (np.cumsum(is_equal, axis=-1) <= room))
    indices = np.nonzero(chosen)[-1].reshape(*values.shape[:-1], k)
    largest = np.take_along_axis(values, indices, axis=-1)
    # a stable descending sort: reverse, sort ascending, reverse back
    order = k - 1 - np.argsort(largest[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return np.take_along_axis(largest, order, axis=-1), np.take_along_axis(indices, order, axis=-1)


def argsort_rows(values: Host) -> Host:
    d, m = values.shape
    # the packed key costs more than it brings for short rows; a row number of 33 bits does not fit it
    if m <= _SHORT or m >= 2**32:
        return np.argsort(values, axis=-1, kind="stable")
    order = np.empty((d, m), dtype=np.int64)

    def sort(j: int) -> None:
        order[j] = _packed_argsort(values[j])

    _map_rows(sort, d, m)
    return order


def _packed_argsort(values: Host) -> Host:
    """Sort value << 32 | position: a plain vectorized sort where argsort would chase indices."""
    bits = _ordered_bits(values)
    position = np.arange(values.shape[0], dtype=np.uint64)
    if bits.dtype.itemsize <= 4:
        return _sort_packed(bits.astype(np.uint64), position)
    by_low = _sort_packed(bits & np.uint64(0xFFFFFFFF), position)
    high = (bits >> np.uint64(32)).take(by_low)
    return by_low.take(_sort_packed(high, position))


def _sort_packed(key: Host, position: Host) -> Host:
    key <<= np.uint64(32)
    key |= position
    key.sort()
    key &= np.uint64(0xFFFFFFFF)
    return key.view(np.int64)


def _ordered_bits(values: Host) -> Host:
    """Map values to unsigned integers of the same order; NaN last, -0.0 beside 0.0."""
    if values.dtype.kind == "f":
        if values.dtype.itemsize < 4:
            values = values.astype(np.float32)
        unsigned = np.dtype(f"u{values.dtype.itemsize}")
        sign = unsigned.type(1 << (8 * unsigned.itemsize - 1))
        is_missing = np.isnan(values)
        plain = np.where(is_missing, np.array(np.inf, values.dtype), values) + values.dtype.type(0)
        bits: Host = plain.view(unsigned)
        bits = np.where(bits & sign, ~bits, bits | sign)
        return np.where(is_missing, np.iinfo(unsigned).max, bits).astype(unsigned, copy=False)
    if values.dtype.kind == "b":
        return values.view(np.uint8)
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    if values.dtype.kind == "u":
        return values.astype(unsigned)
    sign = unsigned.type(1 << (8 * unsigned.itemsize - 1))
    ordered: Host = values.view(unsigned) ^ sign
    return ordered


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


def logsumexp(x: Host, axis: int, keepdims: bool) -> Host:
    largest = np.max(x, axis=axis, keepdims=True)
    shift = np.where(np.isfinite(largest), largest, x.dtype.type(0))
    shifted = x - shift
    np.exp(shifted, out=shifted)
    total: Host = np.sum(shifted, axis=axis, keepdims=True)
    with np.errstate(divide="ignore"):
        np.log(total, out=total)
    total += shift
    return total if keepdims else np.squeeze(total, axis=axis)
