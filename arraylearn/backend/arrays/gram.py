"""Gram matrices: a matrix product and its cheap epilogue, in one pass through memory."""

from __future__ import annotations

import array_api_compat
import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.dispatch import native, numpy_body
from arraylearn.backend.threads import parallel_blocks

__all__ = ["gaussian_gram", "integer_power", "polynomial_gram"]


# Rows per block of a gram matrix; a symmetric one is cut into tiles that stay in cache to be mirrored.
_ROWS, _COLUMNS = 256, 512
# A transposed copy of this many rows at a time reads whole cache lines.
_MIRROR = 64
# Below this many values a matrix is one tile.
_SMALL = 65_536


def gaussian_gram(xp: Namespace, x: Array, z: Array | None, gamma: Array | float) -> Array:
    r"""Return :math:`\exp(-\gamma \lVert x_i - z_j \rVert^2)` (..., n, m) for all pairs of rows.

    Rows are floats `x` (..., n, d) and `z` (..., m, d) of one dtype, leading axes broadcast; where `z` is
    None or `x` itself, the diagonal is exactly 1. `gamma` is not negative: a float, or an array (...) of that
    dtype. Distances come from a product of rows centred at the mean of `x`, so that a common offset costs no
    digits.
    """
    if x.shape[-2] == 0 or (z is not None and z.shape[-2] == 0):
        return x @ xp.matrix_transpose(x if z is None else z)  # nothing to centre; right shape, no values
    if fast := native(xp, "gaussian_gram"):
        return fast(x, None if z is x else z, gamma)
    center = xp.mean(x, axis=-2, keepdims=True)
    rows = x - center
    columns = rows if z is None or z is x else z - center
    square = xp.vecdot(rows, rows)[..., :, None] + xp.vecdot(columns, columns)[..., None, :]
    square = square - 2.0 * (rows @ xp.matrix_transpose(columns))
    square = xp.where(square < 0, 0.0, square)
    if columns is rows:
        is_same = xp.eye(x.shape[-2], dtype=x.dtype, device=array_api_compat.device(x)) > 0
        square = xp.where(is_same, 0.0, square)
    if not isinstance(gamma, float):
        gamma = gamma[..., None, None]
    return xp.exp(-gamma * square)


def polynomial_gram(
    xp: Namespace, x: Array, z: Array | None, gamma: Array | float, coef0: float, degree: int
) -> Array:
    r"""Return :math:`(\gamma \langle x_i, z_j \rangle + c)^p` for all pairs of rows, see `gaussian_gram`.

    The power, at least 0, is taken by repeated multiplication, so that bases may be negative.
    """
    if fast := native(xp, "polynomial_gram"):
        return fast(x, None if z is x else z, gamma, coef0, degree)
    if not isinstance(gamma, float):
        gamma = gamma[..., None, None]
    base = (gamma * x) @ xp.matrix_transpose(x if z is None else z) + coef0
    return integer_power(xp, base, degree)


def integer_power(xp: Namespace, base: Array, degree: int) -> Array:
    """Raise to an integer of at least 0 by squaring: about as many products as the degree has bits."""
    result = None
    while degree:
        if degree & 1:
            result = base if result is None else result * base
        degree >>= 1
        if degree:
            base = base * base
    return xp.ones_like(base) if result is None else result


# ---- NumPy: tiles that stay in cache


@numpy_body
def _gaussian_gram(x: HostArray, z: HostArray | None, gamma: float | Array) -> HostArray:
    factor = np.asarray(gamma, dtype=x.dtype)[..., None, None]
    if z is not None and x.shape[-2] == 1:  # differences take fewer passes than a product does
        away = z - x
        square: HostArray = np.einsum("...ij,...ij->...i", away, away)[..., None, :]
        np.exp(-factor * square, out=square)
        return square
    center = x.mean(axis=-2, keepdims=True)
    rows = x - center
    columns = rows if z is None else z - center
    # (2 g x, -g |x|^2, 1) . (z, 1, -g |z|^2) = -g |x - z|^2: the product alone gives the exponent
    norms = np.einsum("...ij,...ij->...i", rows, rows)[..., None]
    other = norms if z is None else np.einsum("...ij,...ij->...i", columns, columns)[..., None]
    left = _widened(2 * factor * rows, -factor * norms, first=True)
    right = _widened(columns, -factor * other, first=False)
    return _gram(left, right, is_symmetric=z is None)


def _widened(rows: HostArray, squares: HostArray, *, first: bool) -> HostArray:
    """Append the two columns that make a product of rows a squared distance."""
    batch = np.broadcast_shapes(rows.shape[:-1], squares.shape[:-1])
    wide = np.ones((*batch, rows.shape[-1] + 2), dtype=rows.dtype)
    wide[..., :-2] = rows
    wide[..., -2 if first else -1] = squares[..., 0]
    return wide


def _exponential(tile: HostArray) -> None:
    if tile.max(initial=0) > 0:  # rounding made a squared distance negative, which is rare
        np.minimum(tile, 0, out=tile)
    np.exp(tile, out=tile)


def _gram(left: HostArray, right: HostArray, *, is_symmetric: bool) -> HostArray:
    """Multiply rows by rows and take the exponential of each tile in place, for every leading axis."""
    n, m = left.shape[-2], right.shape[-2]
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    out = np.empty((*batch, n, m), dtype=left.dtype)
    if n * m <= _SMALL:
        _fill(out, left, np.swapaxes(right, -1, -2), is_symmetric)
    else:
        lefts = np.broadcast_to(left, (*batch, *left.shape[-2:]))
        rights = np.broadcast_to(right, (*batch, *right.shape[-2:]))
        for i in np.ndindex(batch):
            _fill(out[i], lefts[i], rights[i].T, is_symmetric)
    if is_symmetric:
        np.einsum("...ii->...i", out)[...] = 1
    return out


def _fill(out: HostArray, left: HostArray, right: HostArray, is_symmetric: bool) -> None:
    n, m = out.shape[-2:]
    if n * m <= _SMALL:
        np.matmul(left, right, out=out)
        _exponential(out)
        if is_symmetric:
            _mirror(out)
        return
    if n > _ROWS:  # it is read more than once
        right = np.ascontiguousarray(right)

    def fill_rows(start: int) -> None:
        rows = out[start : start + _ROWS]
        np.matmul(left[start : start + _ROWS], right, out=rows)
        _exponential(rows)

    def fill_lower(start: int) -> None:
        _fill_lower(out, left, right, start, min(start + _ROWS, n))

    # the long rows of a lower triangle first, so that threads end together
    parallel_blocks(fill_lower if is_symmetric else fill_rows, reversed(range(0, n, _ROWS)))


def _fill_lower(out: HostArray, left: HostArray, right: HostArray, start: int, stop: int) -> None:
    """Fill some rows left of and at the diagonal, and the columns that mirror them."""
    buffer = np.empty((stop - start, _COLUMNS), dtype=out.dtype)
    for first in range(0, start, _COLUMNS):
        last = min(first + _COLUMNS, start)
        tile = buffer[:, : last - first]
        np.matmul(left[start:stop], right[:, first:last], out=tile)
        _exponential(tile)
        out[start:stop, first:last] = tile
        for at in range(first, last, _MIRROR):
            until = min(at + _MIRROR, last)
            out[at:until, start:stop] = tile[:, at - first : until - first].T
    square = out[start:stop, start:stop]
    np.matmul(left[start:stop], right[:, start:stop], out=square)
    _exponential(square)
    _mirror(square)


def _mirror(square: HostArray) -> None:
    """Copy the lower triangle to the upper: rounding differs between the two."""
    lower = np.tril(square)
    strict = np.tril(square, -1)
    np.add(lower, np.swapaxes(strict, -1, -2), out=square)
