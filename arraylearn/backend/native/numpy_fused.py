"""NumPy bodies of the fused products: tiles and chunks of rows that stay in cache."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from arraylearn.backend.blas import parallel_blocks

Host = np.ndarray[Any, Any]

# Rows per block of a gram matrix; a symmetric one is cut into tiles that stay in cache to be mirrored.
_ROWS, _COLUMNS = 256, 512
# A transposed copy of this many rows at a time reads whole cache lines.
_MIRROR = 64
# Below this many values a matrix is one tile.
_SMALL = 65_536
# Bytes of the largest buffer of a chunk: together with its neighbours it stays in the second-level cache.
_CACHE = 1 << 19
# Rows per piece of work for a thread: at most, and at least.
_PIECE, _LEAST_PIECE = 1 << 16, 1 << 12


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
    return _gram(left, right, is_symmetric=z is None)


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


def _gram(left: Host, right: Host, *, is_symmetric: bool) -> Host:
    """Multiply rows by rows and take the exponential of each tile in place, for every leading axis."""
    n, m = left.shape[-2], right.shape[-2]
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    if n * m <= _SMALL or not batch:
        out = np.empty((*batch, n, m), dtype=left.dtype)
        _fill(out, left, np.swapaxes(right, -1, -2), is_symmetric)
    else:
        out = np.empty((math.prod(batch), n, m), dtype=left.dtype)
        lefts = np.broadcast_to(left, (*batch, *left.shape[-2:])).reshape(-1, *left.shape[-2:])
        rights = np.broadcast_to(right, (*batch, *right.shape[-2:])).reshape(-1, *right.shape[-2:])
        for i in range(out.shape[0]):
            _fill(out[i], lefts[i], rights[i].T, is_symmetric)
        out = out.reshape(*batch, n, m)
    if is_symmetric:
        np.einsum("...ii->...i", out)[...] = 1
    return out


def _fill(out: Host, left: Host, right: Host, is_symmetric: bool) -> None:
    n, m = out.shape[-2:]
    if n * m <= _SMALL:
        np.matmul(left, right, out=out)
        _exponential(out)
        if is_symmetric:
            _mirror(out)
        return
    right = np.ascontiguousarray(right)

    def fill_rows(start: int) -> None:
        rows = out[start : start + _ROWS]
        np.matmul(left[start : start + _ROWS], right, out=rows)
        _exponential(rows)

    def fill_lower(start: int) -> None:
        _fill_lower(out, left, right, start, min(start + _ROWS, n))

    # the long rows of a lower triangle first, so that threads end together
    parallel_blocks(fill_lower if is_symmetric else fill_rows, reversed(range(0, n, _ROWS)))


def _fill_lower(out: Host, left: Host, right: Host, start: int, stop: int) -> None:
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


def _mirror(square: Host) -> None:
    """Copy the lower triangle to the upper: rounding differs between the two."""
    lower = np.tril(square)
    strict = np.tril(square, -1)
    np.add(lower, np.swapaxes(strict, -1, -2), out=square)


# ---- squared distances to centres: transposed, so that sums run along contiguous memory


def whitened_exponents(x: Host, maps: Host, shift: Host, center: Host, constant: Host) -> Host:
    k, r = shift.shape[-2:]
    d = x.shape[-1]
    # a column of ones takes the shift into the product
    wide = np.concatenate([-shift[..., None], maps.reshape(*shift.shape, d)], axis=-1)
    is_lower = r == d and not np.triu(wide[..., 1:], 1).any()
    bounds = _bands(r) if is_lower else [(0, r)]

    def fill(out: Host, x: Host, wide: Host, center: Host, constant: Host) -> None:
        # a lower triangle is cut into bands, whose rows end where the triangle does
        bands = [
            np.ascontiguousarray(wide.reshape(k, r, d + 1)[:, start:stop, : (stop if is_lower else d) + 1])
            for start, stop in bounds
        ]
        bands = [band.reshape(-1, band.shape[-1]) for band in bands]
        size = _chunk_rows(x, k * r)
        columns = np.ones((d + 1, size), dtype=x.dtype)
        buffer = np.empty((max(band.shape[0] for band in bands), size), dtype=x.dtype)
        for start in range(0, x.shape[0], size):
            rows = x[start : start + size]
            m = rows.shape[0]
            # a plain copy transposes faster than a subtraction
            columns[1:, :m] = rows.T
            columns[1:, :m] -= center.T
            exponents = np.repeat(constant.T, m, axis=1)
            for band in bands:
                z = np.matmul(band, columns[: band.shape[1], :m], out=buffer[: band.shape[0], :m])
                z = z.reshape(k, -1, m)
                exponents -= np.einsum("krm,krm->km", z, z)
            out[start : start + m] = exponents.T

    flat = wide.reshape(*wide.shape[:-3], k * r, d + 1)
    return _in_pieces(fill, x, k, (flat, center, constant[..., None, :]))


def _bands(d: int) -> list[tuple[int, int]]:
    """Cut the rows of a triangle so that little is multiplied by zero, and products stay large."""
    n = 1 if d < 20 else 2 if d < 32 else 3 if d < 64 else 4
    edges = [i * d // n for i in range(n + 1)]
    return list(pairwise(edges))


def diagonal_squares(
    x: Host, mean: Host, precision: Host, offset: Host, by_product: bool, skip_missing: bool
) -> Host:
    center = mean.mean(axis=-2, keepdims=True)
    fill = _fill_by_product if by_product else _fill_directly

    def fill_piece(out: Host, x: Host, mean: Host, precision: Host, offset: Host, center: Host) -> None:
        fill(out, x, mean - center, precision, offset, center, skip_missing)

    return _in_pieces(fill_piece, x, mean.shape[-2], (mean, precision, offset, center))


def _fill_by_product(
    out: Host, x: Host, mean: Host, precision: Host, offset: Host, center: Host, skip_missing: bool
) -> None:
    is_near = _is_near_zero(mean + center, precision)
    if is_near:  # centring would cost a pass and bring nothing
        mean = mean + center
    constant = precision * mean * mean + offset
    square_map, line_map = np.ascontiguousarray(precision.T), np.ascontiguousarray((-2 * precision * mean).T)
    total = constant.sum(axis=1)
    size = _chunk_rows(x, x.shape[1])
    buffer = np.empty((1 if is_near else 2, size, x.shape[1]), dtype=x.dtype)
    line = np.empty((size, out.shape[1]), dtype=x.dtype)
    for start in range(0, x.shape[0], size):
        values, result = x[start : start + size], out[start : start + size]
        m = values.shape[0]
        if not is_near:
            values = np.subtract(values, center, out=buffer[1, :m])
        np.matmul(np.multiply(values, values, out=buffer[0, :m]), square_map, out=result)
        # a gap anywhere in a row makes its sums NaN; without one there is nothing to skip
        if skip_missing and np.isnan(np.add.reduce(result, axis=None)):
            is_present = np.equal(values, values)
            values = np.where(is_present, values, x.dtype.type(0))
            np.matmul(np.multiply(values, values, out=buffer[0, :m]), square_map, out=result)
            result += is_present.astype(x.dtype) @ constant.T
        else:
            result += total
        result += np.matmul(values, line_map, out=line[:m])


def _is_near_zero(mean: Host, precision: Host) -> bool:
    """Whether squares expanded around 0 are as accurate as those around the centre are asked to be."""
    epsilon = np.finfo(mean.dtype).eps
    amplification = np.max(np.sum(precision * mean * mean, axis=-1), initial=0.0)
    return bool(4 * amplification * epsilon <= (1e-9 if epsilon < 1e-10 else 1e-4))


def _fill_directly(
    out: Host, x: Host, mean: Host, precision: Host, offset: Host, center: Host, skip_missing: bool
) -> None:
    d = x.shape[1]
    size = _chunk_rows(x, 2 * d)
    columns = np.empty((d, size), dtype=x.dtype)
    buffer = np.empty((d, size), dtype=x.dtype)
    for start in range(0, x.shape[0], size):
        rows = x[start : start + size]
        m = rows.shape[0]
        values, squares = columns[:, :m], buffer[:, :m]
        values[...] = rows.T
        values -= center.T
        has_gaps = skip_missing and bool(np.isnan(np.add.reduce(values, axis=None)))
        if has_gaps:
            is_present = np.equal(values, values)
            out[start : start + m] = is_present.T.astype(x.dtype) @ offset.T
        else:
            out[start : start + m] = offset.sum(axis=1)
        for c in range(mean.shape[0]):
            np.subtract(values, mean[c][:, None], out=squares)
            np.multiply(squares, squares, out=squares)
            if has_gaps:
                np.copyto(squares, 0, where=~is_present)
            out[start : start + m, c] += precision[c] @ squares


def _chunk_rows(x: Host, width: int) -> int:
    """How many rows of `width` numbers fit the cache."""
    fitting = _CACHE // (int(x.dtype.itemsize) * max(1, width))
    return max(1, min(int(x.shape[0]), max(64, fitting)))


def _in_pieces(fill: Callable[..., None], x: Host, k: int, parameters: tuple[Host, ...]) -> Host:
    """Call ``fill(out, rows, *parameters)`` for pieces of rows of every leading axis, on threads."""
    batch = np.broadcast_shapes(x.shape[:-2], *(p.shape[:-2] for p in parameters))
    n, d = x.shape[-2:]
    b = math.prod(batch)
    rows = np.broadcast_to(x, (*batch, n, d)).reshape(b, n, d)
    flat = [np.broadcast_to(p, (*batch, *p.shape[-2:])).reshape(b, *p.shape[-2:]) for p in parameters]
    out = np.empty((b, n, k), dtype=x.dtype)

    size = max(_LEAST_PIECE, min(_PIECE, -(-n // 8)))

    def work(piece: tuple[int, int]) -> None:
        i, start = piece
        stop = min(start + size, n)
        with np.errstate(over="ignore", invalid="ignore"):  # what is too far away is infinitely far away
            fill(out[i, start:stop], rows[i, start:stop], *(p[i] for p in flat))

    parallel_blocks(work, [(i, start) for i in range(b) for start in range(0, n, size)])
    return out.reshape(*batch, n, k)
