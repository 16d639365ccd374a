"""Walks down trees for tensors in the host's memory: NumPy's bodies on the same memory, nothing is copied.

A gather of torch costs about as much as one of NumPy, but NumPy's bodies take the first levels by bits and
keep blocks of rows in the cache. Tensors on a GPU run the portable bodies: None says so.
"""

from __future__ import annotations

from typing import Any

import torch

from arraylearn.backend.native import numpy_descent, numpy_planes, numpy_walks

Tensor = Any

__all__ = ["follow_thresholds", "prepare_walk", "sum_leaves", "sum_shares"]


def _on_host(part: Any) -> Any:
    return part.detach().numpy() if isinstance(part, torch.Tensor) else part


def follow_thresholds(
    x: Tensor, feature: Tensor, threshold: Tensor, child: Tensor, n_levels: int, default: Tensor | None
) -> Tensor | None:
    if x.device.type != "cpu":
        return None
    nodes = _on_host(feature), _on_host(threshold), _on_host(child)
    return torch.from_numpy(numpy_descent.follow_thresholds(_on_host(x), *nodes, n_levels, _on_host(default)))


def prepare_walk(walk: Any, n_columns: int) -> Any:
    if walk.record.device.type != "cpu":
        return None
    on_host = walk._replace(**{name: _on_host(getattr(walk, name)) for name in ("record", "shares", "root")})
    return numpy_walks.prepare_walk(on_host, n_columns)


def sum_shares(bins: Tensor, walk: Any) -> Tensor | None:
    if bins.device.type != "cpu" or walk.native is None:
        return None
    return torch.from_numpy(numpy_walks.sum_shares(_on_host(bins), walk))


def sum_leaves(bins: Tensor, trees: Any, n_outputs: int) -> Tensor | None:
    if bins.device.type != "cpu":
        return None
    on_host = trees._replace(**{name: _on_host(getattr(trees, name)) for name in trees._fields})
    sums = numpy_planes.sum_leaves(_on_host(bins), on_host, n_outputs)
    return None if sums is None else torch.from_numpy(sums)
