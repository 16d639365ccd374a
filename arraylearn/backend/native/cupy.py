"""CuPy bodies: atomic additions without a wait; its silent factorizations are checked by multiplying back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import cupy
import cupyx
from cupyx.scipy import linalg

from arraylearn.backend.gpu.launch import CudaKernel
from arraylearn.backend.native.cupy_fused import gaussian_gram  # noqa: F401
from arraylearn.backend.native.cupy_walks import follow_thresholds, sum_leaves, sum_shares  # noqa: F401

Gpu = Any

# `_ordered_integers` of -inf
_ORDERED_MINUS_INFINITY = -9_218_868_437_227_405_313


def _accumulating(values: Gpu) -> Gpu:
    return values.astype(cupy.float64 if values.dtype.kind == "f" else cupy.int64, copy=False)


def put(x: Gpu, idx: Gpu, values: Gpu) -> Gpu:
    result = x.copy()
    result[idx] = values
    return result


def launch(kernel: CudaKernel, n_blocks: int, arguments: Sequence[Any]) -> None:
    contiguous = (cupy.ascontiguousarray(v) if isinstance(v, cupy.ndarray) else v for v in arguments)
    _compile(kernel.source, kernel.name)((n_blocks,), (kernel.n_threads,), tuple(contiguous))


@cache
def _compile(source: str, name: str) -> Any:
    return cupy.RawKernel(source, name)


def segment_sum(values: Gpu, segments: Gpu, n: int) -> Gpu:
    values = _accumulating(values)
    sums = cupy.zeros((n, *values.shape[1:]), dtype=values.dtype)
    cupy.add.at(sums, segments, values)
    return sums


def segment_max(values: Gpu, segments: Gpu, n: int) -> Gpu:
    if values.dtype.kind != "f":
        largest = cupy.full((n,), cupy.iinfo(values.dtype).min, dtype=values.dtype)
        cupy.maximum.at(largest, segments, values)
        return largest
    # maximum.at rounds float64 to float32; integers of the same order keep every bit
    keys = _ordered_integers(values.astype(cupy.float64))
    largest = cupy.full((n,), _ORDERED_MINUS_INFINITY, dtype=cupy.int64)
    cupy.maximum.at(largest, segments, keys)
    return _ordered_floats(largest).astype(values.dtype)


def _ordered_integers(values: Gpu) -> Gpu:
    bits = (values + 0.0).view(cupy.int64)  # no negative zero
    return cupy.where(bits < 0, bits ^ cupy.int64(2**63 - 1), bits)


def _ordered_floats(keys: Gpu) -> Gpu:
    return cupy.where(keys < 0, keys ^ cupy.int64(2**63 - 1), keys).view(cupy.float64)


def histogram(keys: Gpu, n: int, weights: Gpu | None) -> Gpu:
    batch, m = keys.shape[:-1], keys.shape[-1]
    n_batches = math.prod(batch)
    flat = keys.astype(cupy.int64, copy=False).reshape(n_batches, m)
    flat = (flat + n * cupy.arange(n_batches)[:, None]).ravel()
    if weights is None:
        counts = cupy.zeros(n_batches * n, dtype=cupy.int64)
        cupy.add.at(counts, flat, 1)
    else:
        weights = _accumulating(cupy.broadcast_to(weights, keys.shape)).ravel()
        counts = cupy.zeros(n_batches * n, dtype=weights.dtype)
        cupy.add.at(counts, flat, weights)
    return counts.reshape(*batch, n)


def paired_histogram(columns: Gpu, keys: Gpu, n_values: int, n_keys: int, weights: Gpu | None) -> Gpu:
    flat = keys.astype(cupy.int64, copy=False)[None, :] * n_values + columns
    return histogram(flat, n_keys * n_values, weights).reshape(columns.shape[0], n_keys, n_values)


def compress(values: Gpu, keep: Gpu, size: int) -> Gpu:
    # every row is written: kept ones to their place, the others to one spare row that is cut off
    place = cupy.where(keep, cupy.cumsum(keep, dtype=cupy.int64) - 1, size)
    result = cupy.zeros((size + 1, *values.shape[1:]), dtype=values.dtype)
    result[place] = values
    return result[:size]


def partition(values: Gpu, first: Gpu) -> Gpu:
    rank_first = cupy.cumsum(first, dtype=cupy.int64)
    rank_other = cupy.cumsum(~first, dtype=cupy.int64)
    place = cupy.where(first, rank_first - 1, rank_first[-1:] + rank_other - 1)
    result = cupy.empty_like(values)
    result[place] = values
    return result


def top_k(values: Gpu, k: int) -> tuple[Gpu, Gpu]:
    # sorted from the back, so that reversing puts the first of equals first
    order = cupy.argsort(values[..., ::-1], axis=-1, kind="stable")[..., ::-1][..., :k]
    indices = (values.shape[-1] - 1 - order).astype(cupy.int64, copy=False)
    return cupy.take_along_axis(values, indices, axis=-1), indices


def argsort_rows(values: Gpu) -> Gpu:
    if values.dtype.kind == "f":
        values = values + values.dtype.type(0)  # -0.0 beside 0.0; NaN is last in CuPy too
    return cupy.argsort(values, axis=-1, kind="stable").astype(cupy.int64, copy=False)


# One launch for all columns, where a search of standard calls takes several for each halving.
_bin = cupy.ElementwiseKernel(
    "raw T x, raw T edges, raw int64 n_edges, int64 m, int64 d, int64 width, int64 missing_bin",
    "B bin",
    """
    long long column = i / m;
    T value = x[(i % m) * d + column];
    if (value != value) {
        bin = (B)missing_bin;
    } else {
        long long low = 0, high = n_edges[column];
        while (low < high) {
            long long middle = (low + high) / 2;
            if (edges[column * width + middle] < value) low = middle + 1; else high = middle;
        }
        bin = (B)low;
    }
    """,
    "arraylearn_bin_columns",
)


def bin_columns(x: Gpu, edges: Gpu, missing_bin: int, dtype: Any) -> Gpu:
    (m, d), width = x.shape, edges.shape[1]
    bins = cupy.empty((d, m), dtype=dtype)
    n_edges = cupy.isfinite(edges).sum(axis=1, dtype=cupy.int64)
    x, edges = cupy.ascontiguousarray(x), cupy.ascontiguousarray(edges)
    return _bin(x, edges, n_edges, m, d, width, missing_bin, bins)


def cholesky(a: Gpu) -> tuple[Gpu, Gpu]:
    with cupyx.errstate(linalg="ignore"):
        factor = cupy.tril(cupy.linalg.cholesky(a))
    # a failed factorization is finite garbage: only the product tells
    lower = cupy.tril(a)
    error = cupy.abs(cupy.tril(factor @ cupy.swapaxes(factor, -1, -2)) - lower).max(axis=(-2, -1))
    scale = cupy.abs(lower).max(axis=(-2, -1))
    tolerance = 10 * a.shape[-1] * float(cupy.finfo(a.dtype).eps)
    return factor, error <= tolerance * scale  # False for NaN


def solve_triangular(factor: Gpu, right: Gpu, upper: bool) -> Gpu:
    if factor.ndim == 2:
        return linalg.solve_triangular(factor, right, lower=not upper)
    batch = factor.shape[:-2]
    factors = factor.reshape(-1, *factor.shape[-2:])
    rights = right.reshape(-1, *right.shape[-2:])
    solutions = [
        linalg.solve_triangular(factors[i], rights[i], lower=not upper) for i in range(factors.shape[0])
    ]
    return cupy.stack(solutions).reshape(*batch, *right.shape[-2:])


def logsumexp(x: Gpu, axis: int, keepdims: bool) -> Gpu:
    largest = cupy.max(x, axis=axis, keepdims=True)
    shift = cupy.where(cupy.isfinite(largest), largest, x.dtype.type(0))
    total = cupy.sum(cupy.exp(x - shift), axis=axis, keepdims=True)
    result = cupy.log(total) + shift  # the log of zero is -inf here, without a warning
    return result if keepdims else cupy.squeeze(result, axis=axis)


def block_index(sizes: Gpu, total: int) -> Gpu:
    return cupy.searchsorted(cupy.cumsum(sizes), cupy.arange(total), side="right")


def block_max(values: Gpu, starts: Gpu, block_at: Gpu) -> Gpu:
    d, k = values.shape[0], starts.shape[0]
    keys = block_at[None, :] + k * cupy.arange(d)[:, None]
    return segment_max(values.ravel(), keys.ravel(), d * k).reshape(d, k)


def scatter(values: Gpu, positions: Gpu, n: int) -> Gpu:
    result = cupy.zeros(n, dtype=values.dtype)
    result[positions] = values
    return result
