"""CuPy bodies: atomic additions without a sync; its silent factorizations are checked by multiplying back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import cupy
import cupyx
from cupyx.scipy import linalg

from arraylearn._typing import Dtype
from arraylearn.backend.gpu.driver import OPTIONS
from arraylearn.backend.gpu.launch import CudaKernel

Gpu = Any

# `_ordered_integers` of -inf
_ORDERED_MINUS_INFINITY = -9_218_868_437_227_405_313


def _accumulating(values: Gpu) -> Gpu:
    return values.astype(cupy.float64 if values.dtype.kind == "f" else cupy.int64, copy=False)


def put(x: Gpu, idx: Gpu, values: Gpu) -> Gpu:
    result = x.copy()
    result[idx] = values
    return result


def launch(kernel: CudaKernel, n_blocks: int | tuple[int, int], arguments: Sequence[Any]) -> None:
    contiguous = (cupy.ascontiguousarray(v) if isinstance(v, cupy.ndarray) else v for v in arguments)
    blocks = n_blocks if isinstance(n_blocks, tuple) else (n_blocks,)
    _compile(kernel.source, kernel.name)(blocks, (kernel.n_threads,), tuple(contiguous))


@cache
def _compile(source: str, name: str) -> Any:
    return cupy.RawKernel(source, name, OPTIONS)


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


def bin_columns(x: Gpu, edges: Gpu, missing_bin: int, dtype: Dtype) -> Gpu:
    (m, d), width = x.shape, edges.shape[1]
    bins = cupy.empty((d, m), dtype=dtype)
    n_edges = cupy.isfinite(edges).sum(axis=1, dtype=cupy.int64)
    x, edges = cupy.ascontiguousarray(x), cupy.ascontiguousarray(edges)
    return _bin(x, edges, n_edges, m, d, width, missing_bin, bins)


def cholesky(a: Gpu) -> tuple[Gpu, Gpu]:
    with cupyx.errstate(linalg="ignore"):
        factor = cupy.tril(cupy.linalg.cholesky(a))
    # a failed factorization is finite garbage: only the product shows it
    lower = cupy.tril(a)
    error = cupy.abs(cupy.tril(factor @ cupy.swapaxes(factor, -1, -2)) - lower).max(axis=(-2, -1))
    scale = cupy.abs(lower).max(axis=(-2, -1))
    tolerance = 10 * a.shape[-1] * float(cupy.finfo(a.dtype).eps)
    return factor, error <= tolerance * scale  # False for NaN


def solve_triangular(factor: Gpu, right: Gpu, upper: bool) -> Gpu:
    if factor.ndim == 2:
        return linalg.solve_triangular(factor, right, lower=not upper)
    pairs = zip(factor.reshape(-1, *factor.shape[-2:]), right.reshape(-1, *right.shape[-2:]), strict=True)
    solutions = [linalg.solve_triangular(one, other, lower=not upper) for one, other in pairs]
    return cupy.stack(solutions).reshape(right.shape)


# A gram matrix is a product, then one kernel in place.
_exponential = cupy.ElementwiseKernel(
    "T product, T left, T right, T factor",
    "T value",
    """
    T square = left + right - 2 * product;
    value = exp(-factor * (square > 0 ? square : T(0)));
    """,
    "arraylearn_gaussian_gram",
)


def gaussian_gram(x: Gpu, z: Gpu | None, gamma: float | Gpu) -> Gpu:
    center = x.mean(axis=-2, keepdims=True)
    rows = x - center
    columns = rows if z is None else z - center
    factor = x.dtype.type(gamma) if isinstance(gamma, float) else gamma[..., None, None]
    left = (rows * rows).sum(axis=-1)[..., :, None]
    right = (columns * columns).sum(axis=-1)[..., None, :]
    values = _exponential(cupy.matmul(rows, cupy.swapaxes(columns, -1, -2)), left, right, factor)
    if z is None:
        n = x.shape[-2]
        values.reshape(-1, n * n)[:, :: n + 1] = 1
    return values
