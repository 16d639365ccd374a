"""PyTorch bodies of the quadratic and smoothed primitives: on the CPU the NumPy ones, on the same memory."""

from __future__ import annotations

from typing import Any

import torch
from array_api_compat import torch as torch_namespace

from arraylearn.backend.native import numpy_quadratic, numpy_smoothed
from arraylearn.backend.ops import quadratic, smoothed

Tensor = Any


def put(x: Tensor, idx: Tensor, values: Tensor) -> Tensor:
    return x.index_copy(0, idx, values)


def solve_box_block(
    matrix: Tensor,
    roots: Tensor | None,
    gradient: Tensor,
    point: Tensor,
    lower: Tensor,
    upper: Tensor,
    tol: float,
    max_steps: int,
) -> tuple[Tensor, Tensor]:
    if point.device.type != "cpu":
        return quadratic.solve_box_block_portable(
            torch_namespace, matrix, roots, gradient, point, lower, upper, tol, max_steps
        )
    found, n_steps = numpy_quadratic.solve_box_block(
        matrix.numpy(),
        None if roots is None else roots.numpy(),
        gradient.numpy(),
        point.numpy(),
        lower.numpy(),
        upper.numpy(),
        tol,
        max_steps,
    )
    return torch.from_numpy(found), torch.from_numpy(n_steps)


def minimize_smoothed(
    rows: Tensor,
    target: Tensor,
    lower: Tensor,
    upper: Tensor,
    pull: Tensor,
    start: Tensor,
    ridge: float,
    max_steps: int,
) -> tuple[Tensor, Tensor, Tensor]:
    arrays = (rows, target, lower, upper, pull, start)
    if rows.device.type != "cpu":
        return smoothed.minimize_smoothed_portable(torch_namespace, *arrays, ridge, max_steps)
    x, p, low, high, push, begin = (values.numpy() for values in arrays)
    found = numpy_smoothed.minimize_smoothed(x, p, low, high, push, begin, ridge, max_steps)
    point, n_steps, is_settled = (torch.from_numpy(values) for values in found)
    return point, n_steps, is_settled
