"""NumPy bodies of the gram matrices: tiles that stay in cache, half of them where the matrix is symmetric."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from arraylearn.backend.blas import parallel_blocks

Host = np.ndarray[Any, Any]
Finish = Callable[[Host], None]

# Rows per block; a symmetric matrix is cut into tiles that stay in cache from the product to the mirror.
_ROWS, _COLUMNS = 256, 512
# A transposed copy of this many rows at a time reads whole cache lines.
_MIRROR = 64
# Below this many values a matrix is one tile.
_SMALL = 65_536


def gaussian_gram(x: Host, z: Host | None, gamma: Any) -> Host:
    center = x.mean(axis=-2, keepdims=True)
    rows = x - center
    columns = rows if z is None else z - center
    factor = np.asarray(gamma, dtype=x.dtype)[..., None, None]
    # (2 g x, -g |x|^2, 1) . (z, 1, -g |z|^2) = -g |x - z|^2: the product alone gives the exponent
    norms = np.einsum("...ij,...ij->...i", rows, rows)[..., None]
    other = norms if z is None else np.einsum("...ij,...ij->...i", columns, columns)[..., None]
    left = _widened(2 * factor * rows, -factor * norms, first=True)
    right = _widened(columns, -factor * other, first=False)
    return _gram(left, right, _exponential, is_symmetric=z is None, diagonal=1.0)


def _widened(rows: Host, squares: Host, *, first: bool) -> Host:
    """Append the two columns that make a product of rows a squared distance."""
    batch = np.broadcast_shapes(rows.shape[:-1], squares.shape[:-1])
    wide = np.ones((*batch, rows.shape[-1] + 2), dtype=rows.dtype)
    wide[..., :-2] = rows
    wide[..., -2 if first else -1] = squares[..., 0]
    return wide


def _exponential(tile: Host) -> None:
    if tile.max(initial=0) > 0:  # a rounded distance below 0, which is rare: to look is cheaper than to clip
        np.minimum(tile, 0, out=tile)
    np.exp(tile, out=tile)


def polynomial_gram(x: Host, z: Host | None, gamma: Any, coef0: float, degree: int) -> Host:
    factor = np.asarray(gamma, dtype=x.dtype)[..., None, None]

    def power(tile: Host) -> None:
        tile += tile.dtype.type(coef0)
        _raise(tile, degree)

    return _gram(factor * x, x if z is None else z, power, is_symmetric=z is None)


def _raise(base: Host, degree: int) -> None:
    """Raise to an integer power in place, by squaring."""
    if degree == 0:
        base[...] = 1
        return
    result: Host | None = None
    square = base if degree & (degree - 1) == 0 else base.copy()
    while degree:
        if degree & 1:
            if result is None:
                result = base
                result[...] = square
            else:
                result *= square
        degree >>= 1
        if degree:
            square *= square


def _gram(
    left: Host, right: Host, finish: Finish, *, is_symmetric: bool, diagonal: float | None = None
) -> Host:
    """Multiply rows by rows and finish each tile of the product in place, for every leading axis."""
    n, m = left.shape[-2], right.shape[-2]
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    if n * m <= _SMALL or not batch:
        out = np.empty((*batch, n, m), dtype=left.dtype)
        _fill(out, left, np.swapaxes(right, -1, -2), finish, is_symmetric)
    else:
        out = np.empty((math.prod(batch), n, m), dtype=left.dtype)
        lefts = np.broadcast_to(left, (*batch, *left.shape[-2:])).reshape(-1, *left.shape[-2:])
        rights = np.broadcast_to(right, (*batch, *right.shape[-2:])).reshape(-1, *right.shape[-2:])
        for i in range(out.shape[0]):
            _fill(out[i], lefts[i], rights[i].T, finish, is_symmetric)
        out = out.reshape(*batch, n, m)
    if is_symmetric and diagonal is not None:
        np.einsum("...ii->...i", out)[...] = diagonal
    return out


def _fill(out: Host, left: Host, right: Host, finish: Finish, is_symmetric: bool) -> None:
    n, m = out.shape[-2:]
    if n * m <= _SMALL:
        np.matmul(left, right, out=out)
        finish(out)
        if is_symmetric:
            _mirror(out)
        return
    right = np.ascontiguousarray(right)

    def fill_rows(start: int) -> None:
        rows = out[start : start + _ROWS]
        np.matmul(left[start : start + _ROWS], right, out=rows)
        finish(rows)

    def fill_lower(start: int) -> None:
        _fill_lower(out, left, right, finish, start, min(start + _ROWS, n))

    # the long rows of a lower triangle first, so that threads end together
    parallel_blocks(fill_lower if is_symmetric else fill_rows, reversed(range(0, n, _ROWS)))


def _fill_lower(out: Host, left: Host, right: Host, finish: Finish, start: int, stop: int) -> None:
    """Fill some rows left of and at the diagonal, and the columns that mirror them."""
    buffer = np.empty((stop - start, _COLUMNS), dtype=out.dtype)
    for first in range(0, start, _COLUMNS):
        last = min(first + _COLUMNS, start)
        tile = buffer[:, : last - first]
        np.matmul(left[start:stop], right[:, first:last], out=tile)
        finish(tile)
        out[start:stop, first:last] = tile
        for at in range(first, last, _MIRROR):
            until = min(at + _MIRROR, last)
            out[at:until, start:stop] = tile[:, at - first : until - first].T
    square = out[start:stop, start:stop]
    np.matmul(left[start:stop], right[:, start:stop], out=square)
    finish(square)
    _mirror(square)


def _mirror(square: Host) -> None:
    """Copy the lower triangle to the upper: rounding differs between the two."""
    lower = np.tril(square)
    strict = np.tril(square, -1)
    np.add(lower, np.swapaxes(strict, -1, -2), out=square)
