"""CuPy bodies of the gram matrices: a product, then one kernel in place."""

from __future__ import annotations

from typing import Any

import cupy

Gpu = Any

_exponential = cupy.ElementwiseKernel(
    "T product, T left, T right, T factor",
    "T value",
    """
    T square = left + right - 2 * product;
    value = exp(-factor * (square > 0 ? square : T(0)));
    """,
    "arraylearn_gaussian_gram",
)


def gaussian_gram(x: Gpu, z: Gpu | None, gamma: Any) -> Gpu:
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
