"""PyTorch bodies of the gram matrices: a product, then passes in place."""

from __future__ import annotations

from typing import Any

import torch

Tensor = Any


def gaussian_gram(x: Tensor, z: Tensor | None, gamma: Any) -> Tensor:
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


def polynomial_gram(x: Tensor, z: Tensor | None, gamma: Any, coef0: float, degree: int) -> Tensor:
    factor = gamma if isinstance(gamma, float) else gamma[..., None, None]
    base = torch.matmul(factor * x, (x if z is None else z).mT)
    base.add_(coef0)
    if degree < 2:
        return base if degree else torch.ones_like(base)
    return base.pow_(degree)
