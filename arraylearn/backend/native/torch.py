"""PyTorch bodies: scatters without a wait, `_ex` factorizations that report instead of raising."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from arraylearn.backend.native.torch_fused import gaussian_gram, polynomial_gram  # noqa: F401
from arraylearn.backend.native.torch_walks import (  # noqa: F401
    follow_thresholds,
    prepare_walk,
    sum_leaves,
    sum_shares,
)

Tensor = Any


def _accumulating(values: Tensor) -> Tensor:
    if not values.is_floating_point():
        return values.to(torch.int64)
    return values if values.device.type == "mps" else values.to(torch.float64)


def put(x: Tensor, idx: Tensor, values: Tensor) -> Tensor:
    return x.index_copy(0, idx, values)


def segment_sum(values: Tensor, segments: Tensor, n: int) -> Tensor:
    values = _accumulating(values)
    sums = torch.zeros((n, *values.shape[1:]), dtype=values.dtype, device=values.device)
    return sums.index_add_(0, segments.to(torch.int64), values)


def segment_max(values: Tensor, segments: Tensor, n: int) -> Tensor:
    lowest = -math.inf if values.is_floating_point() else torch.iinfo(values.dtype).min
    largest = torch.full((n,), lowest, dtype=values.dtype, device=values.device)
    return largest.scatter_reduce_(0, segments.to(torch.int64), values, reduce="amax")


def histogram(keys: Tensor, n: int, weights: Tensor | None) -> Tensor:
    batch, m = keys.shape[:-1], keys.shape[-1]
    n_batches = math.prod(batch)
    offsets = n * torch.arange(n_batches, dtype=torch.int64, device=keys.device)
    flat = (keys.to(torch.int64).reshape(n_batches, m) + offsets[:, None]).reshape(-1)
    if weights is None:
        weights = torch.ones((1,), dtype=torch.int64, device=keys.device)
    weights = _accumulating(weights).expand(keys.shape).reshape(-1)
    counts = torch.zeros(n_batches * n, dtype=weights.dtype, device=keys.device)
    return counts.scatter_add_(0, flat, weights).reshape(*batch, n)


def paired_histogram(
    columns: Tensor, keys: Tensor, n_values: int, n_keys: int, weights: Tensor | None
) -> Tensor:
    flat = keys.to(torch.int64)[None, :] * n_values + columns
    return histogram(flat, n_keys * n_values, weights).reshape(columns.shape[0], n_keys, n_values)


def compress(values: Tensor, keep: Tensor, size: int) -> Tensor:
    # every row is written: kept ones to their place, the others to one spare row that is cut off
    place = torch.where(keep, torch.cumsum(keep, 0, dtype=torch.int64) - 1, size)
    result = torch.zeros((size + 1, *values.shape[1:]), dtype=values.dtype, device=values.device)
    return result.index_copy_(0, place, values)[:size]


def partition(values: Tensor, first: Tensor) -> Tensor:
    rank_first = torch.cumsum(first, 0, dtype=torch.int64)
    rank_other = torch.cumsum(~first, 0, dtype=torch.int64)
    place = torch.where(first, rank_first - 1, rank_first[-1:] + rank_other - 1)
    return torch.zeros_like(values).index_copy_(0, place, values)


def top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    largest, indices = torch.sort(values, dim=-1, descending=True, stable=True)
    return largest[..., :k], indices[..., :k]


def argsort_rows(values: Tensor) -> Tensor:
    if values.is_floating_point():
        values = values + 0.0  # -0.0 beside 0.0
    return torch.sort(values, dim=-1, stable=True).indices


def bin_columns(x: Tensor, edges: Tensor, missing_bin: int, dtype: Any) -> Tensor:
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


def logsumexp(x: Tensor, axis: int, keepdims: bool) -> Tensor:
    return torch.logsumexp(x, dim=axis, keepdim=keepdims)


def block_index(sizes: Tensor, total: int) -> Tensor:
    return torch.repeat_interleave(sizes, output_size=total)


def block_max(values: Tensor, starts: Tensor, block_at: Tensor) -> Tensor:
    lowest = -math.inf if values.is_floating_point() else torch.iinfo(values.dtype).min
    shape = (values.shape[0], starts.shape[0])
    largest = torch.full(shape, lowest, dtype=values.dtype, device=values.device)
    return largest.scatter_reduce_(1, block_at.expand(values.shape), values, reduce="amax")


def scatter(values: Tensor, positions: Tensor, n: int) -> Tensor:
    result = torch.zeros(n, dtype=values.dtype, device=values.device)
    return result.index_copy_(0, positions.to(torch.int64), values)


def split_lists(lists: Tensor, branch: Tensor, sizes: Sequence[int]) -> Tensor:
    key = branch.take(lists.to(torch.int64))
    key = torch.where(key < 0, len(sizes), key)
    order = torch.sort(key, dim=-1, stable=True).indices
    return torch.take_along_dim(lists, order[:, : sum(sizes)], dim=-1)
