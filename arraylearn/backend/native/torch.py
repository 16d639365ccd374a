"""PyTorch bodies: scatters without a sync, `_ex` factorizations that report failure instead of raising."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from arraylearn._typing import Dtype
from arraylearn.backend.gpu import driver
from arraylearn.backend.gpu.launch import CudaKernel

Tensor = Any


def _accumulating(values: Tensor) -> Tensor:
    if not values.is_floating_point():
        return values.to(torch.int64)
    return values if values.device.type == "mps" else values.to(torch.float64)


def put(x: Tensor, idx: Tensor, values: Tensor) -> Tensor:
    return x.index_copy(0, idx, values)


def launch(kernel: CudaKernel, n_blocks: int | tuple[int, int], arguments: Sequence[Any]) -> None:
    given = [v.contiguous() if isinstance(v, torch.Tensor) else v for v in arguments]
    device = next(v.device for v in given if isinstance(v, torch.Tensor))
    blocks = n_blocks if isinstance(n_blocks, tuple) else (n_blocks, 1)
    compiled = _compile(kernel.source, kernel.name, device.index)
    stream = torch.cuda.current_stream(device).cuda_stream
    values = [v.data_ptr() if isinstance(v, torch.Tensor) else v for v in given]
    with torch.cuda.device(device):
        driver.launch_kernel(compiled, blocks, kernel.n_threads, stream, values)


@cache
def _compile(source: str, name: str, device: int) -> driver.CompiledKernel:
    major, minor = torch.cuda.get_device_capability(device)
    image, _ = driver.compile_cuda(source, name, f"sm_{major}{minor}")
    with torch.cuda.device(device):
        return driver.load_kernel(image, name)


def segment_sum(values: Tensor, segments: Tensor, n: int) -> Tensor:
    values = _accumulating(values)
    sums = torch.zeros((n, *values.shape[1:]), dtype=values.dtype, device=values.device)
    return sums.index_add_(0, segments.to(torch.int64), values)


def segment_max(values: Tensor, segments: Tensor, n: int) -> Tensor:
    lowest = -math.inf if values.is_floating_point() else torch.iinfo(values.dtype).min
    largest = torch.full((n,), lowest, dtype=values.dtype, device=values.device)
    return largest.scatter_reduce_(0, segments.to(torch.int64), values, reduce="amax")


def bin_columns(x: Tensor, edges: Tensor, missing_bin: int, dtype: Dtype) -> Tensor:
    columns = x.T.contiguous()
    bounds = edges.clone(memory_format=torch.contiguous_format)  # small; searchsorted warns about any other
    found = torch.searchsorted(bounds, columns)
    n_edges = torch.isfinite(edges).sum(dim=1, keepdim=True)
    return torch.where(torch.isnan(columns), missing_bin, torch.minimum(found, n_edges)).to(dtype)


def cholesky(a: Tensor) -> tuple[Tensor, Tensor]:
    factor, info = torch.linalg.cholesky_ex(a, check_errors=False)
    return torch.tril(factor), info == 0


def solve_triangular(factor: Tensor, right: Tensor, upper: bool) -> Tensor:
    return torch.linalg.solve_triangular(factor, right, upper=upper)


def block_index(sizes: Tensor, total: int) -> Tensor:
    return torch.repeat_interleave(sizes, output_size=total)


def gaussian_gram(x: Tensor, z: Tensor | None, gamma: float | Tensor) -> Tensor:
    center = x.mean(dim=-2, keepdim=True)
    rows = x - center
    columns = rows if z is None else z - center
    factor = gamma if isinstance(gamma, float) else gamma[..., None, None]
    # (2 g x, -g |x|^2, 1) . (z, 1, -g |z|^2) = -g |x - z|^2: the product alone gives the exponent
    left = _widened(2 * factor * rows, -factor * (rows * rows).sum(dim=-1, keepdim=True), first=True)
    right = _widened(columns, -factor * (columns * columns).sum(dim=-1, keepdim=True), first=False)
    exponent = torch.matmul(left, right.mT)
    values = exponent.clamp_(max=0).exp_()
    if z is None:
        values.diagonal(dim1=-2, dim2=-1).fill_(1)
    return values


def _widened(rows: Tensor, squares: Tensor, *, first: bool) -> Tensor:
    """Append the two columns that make a product of rows a squared distance."""
    rows, squares = torch.broadcast_tensors(rows, squares)
    squares = squares[..., :1]
    ones = torch.ones_like(squares)
    return torch.cat([rows, squares, ones] if first else [rows, ones, squares], dim=-1)


def polynomial_gram(x: Tensor, z: Tensor | None, gamma: float | Tensor, coef0: float, degree: int) -> Tensor:
    factor = gamma if isinstance(gamma, float) else gamma[..., None, None]
    base = torch.matmul(factor * x, (x if z is None else z).mT)
    base.add_(coef0)
    if degree < 2:
        return base if degree else torch.ones_like(base)
    return base.pow_(degree)


# ---- functions of the standard


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    return torch.index_select(x, axis or 0, indices)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    return torch.take_along_dim(x, indices, dim=axis)


# In place of array_api_compat's: our indices are not negative, so that three launches a call are saved.
STANDARD = {"take": take, "take_along_axis": take_along_axis}
