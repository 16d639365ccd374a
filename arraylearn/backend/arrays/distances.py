"""Squared distances of rows to centres, as the exponents of gaussian densities: products in one pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import array_api_compat
import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.dispatch import native, numpy_body
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.threads import one_thread_per_product, parallel_blocks

__all__ = ["diagonal_squares", "whitened_exponents"]


# Bytes of the largest buffer of a chunk. Smaller chunks are no faster on one thread, and two threads would
# wait for the interpreter lock, which they need between the calls of NumPy.
_CACHE = 1 << 21
# Rows per piece of work for a thread: at most, and at least.
_PIECE, _LEAST_PIECE = 1 << 16, 1 << 12


def whitened_exponents(xp: Namespace, x: Array, whitening: Array, mean: Array, constant: Array) -> Array:
    r"""Return :math:`c_k - \tfrac12 \lVert W_k (x_i - \mu_k) \rVert^2` (..., n, k) for all rows and classes.

    All arguments are floats of one dtype, leading axes broadcast: rows `x` (..., n, d), a linear map per
    class in `whitening` (..., k, d, d), a lower triangle, centres `mean` (..., k, d), constants `constant`
    (..., k). All rows are multiplied by all maps in one matrix product; they are first centred at the mean of
    the centres, so that a common offset costs no digits.
    """
    center = xp.mean(mean, axis=-2, keepdims=True)
    k, d = mean.shape[-2:]
    maps = whitening * math.sqrt(0.5)
    shift = (maps @ (mean - center)[..., None])[..., 0]  # (..., k, d)
    maps = xp.reshape(maps, (*maps.shape[:-3], k * d, d))
    if fast := native(xp, "whitened_exponents"):
        return fast(x, maps, shift, center, constant)
    maps, shift = xp.matrix_transpose(maps), xp.reshape(shift, (*shift.shape[:-2], 1, k * d))
    parts = []
    for rows in row_chunks(x.shape[-2], 3 * 8 * k * d * math.prod(x.shape[:-2])):
        z = (x[..., rows, :] - center) @ maps - shift
        z = xp.reshape(z, (*z.shape[:-1], k, d))
        parts.append(constant[..., None, :] - xp.vecdot(z, z))
    return _joined(xp, parts, x, k)


def diagonal_squares(
    xp: Namespace,
    x: Array,
    mean: Array,
    precision: Array,
    offset: Array,
    *,
    by_product: bool = False,
    skip_missing: bool = False,
) -> Array:
    r"""Return :math:`\sum_j p_{kj} (x_{ij} - \mu_{kj})^2 + o_{kj}` (..., n, k) for all rows and classes.

    All arguments are floats of one dtype, leading axes broadcast: rows `x` (..., n, d); centre, weight (of
    either sign) and constant of each class and column (..., k, d). `by_product` expands the square into
    matrix products, which is several times faster; the absolute rounding error is then that of
    :math:`\sum_j p_{kj} (\mu_{kj} - \bar\mu_j)^2`, which is large for a tiny variance. With `skip_missing`
    the terms of NaN values are left out, their offsets included.
    """
    if fast := native(xp, "diagonal_squares"):
        return fast(x, mean, precision, offset, by_product, skip_missing)
    k, d = mean.shape[-2:]
    center = xp.mean(mean, axis=-2, keepdims=True)
    body = _squares_by_product if by_product else _squares_directly
    parts = []
    for rows in row_chunks(x.shape[-2], 3 * 8 * d * (2 if by_product else k) * math.prod(x.shape[:-2])):
        chunk = x[..., rows, :] - center
        is_present = None
        if skip_missing:
            is_present = ~xp.isnan(chunk)
            chunk = xp.where(is_present, chunk, 0.0)
        parts.append(body(xp, chunk, mean - center, precision, offset, is_present))
    return _joined(xp, parts, x, k)


def _squares_by_product(
    xp: Namespace, x: Array, mean: Array, precision: Array, offset: Array, is_present: Array | None
) -> Array:
    constant = precision * mean * mean + offset
    squares = (x * x) @ xp.matrix_transpose(precision) - 2.0 * (x @ xp.matrix_transpose(precision * mean))
    if is_present is None:
        return squares + xp.sum(constant, axis=-1)[..., None, :]
    return squares + xp.astype(is_present, x.dtype) @ xp.matrix_transpose(constant)


def _squares_directly(
    xp: Namespace, x: Array, mean: Array, precision: Array, offset: Array, is_present: Array | None
) -> Array:
    deviation = x[..., :, None, :] - mean[..., None, :, :]
    terms = deviation * deviation * precision[..., None, :, :] + offset[..., None, :, :]
    if is_present is not None:
        terms = xp.where(is_present[..., :, None, :], terms, 0.0)
    return xp.sum(terms, axis=-1)


def _joined(xp: Namespace, parts: list[Array], x: Array, k: int) -> Array:
    if not parts:
        return xp.zeros((*x.shape[:-1], k), dtype=x.dtype, device=array_api_compat.device(x))
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=-2)


# ---- NumPy: chunks of rows that stay in cache, transposed, so that sums run along contiguous memory


@numpy_body
def _whitened_exponents(
    x: HostArray, maps: HostArray, shift: HostArray, center: HostArray, constant: HostArray
) -> HostArray:
    k, d = shift.shape[-2:]
    # a column of ones takes the shift into the product
    wide = np.concatenate([-shift[..., None], maps.reshape(*shift.shape, d)], axis=-1)

    def fill(out: HostArray, x: HostArray, wide: HostArray, center: HostArray, constant: HostArray) -> None:
        # the triangle is cut into bands, whose rows end where the triangle does
        triangles = wide.reshape(k, d, d + 1)
        bands = [triangles[:, start:stop, : stop + 1].reshape(-1, stop + 1) for start, stop in _bands(d)]
        size = _chunk_rows(x, k * d)
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

    flat = wide.reshape(*wide.shape[:-3], k * d, d + 1)
    return _in_pieces(fill, x, k, (flat, center, constant[..., None, :]))


def _bands(d: int) -> list[tuple[int, int]]:
    """Cut the rows of a triangle so that little is multiplied by zero, and products stay large."""
    n = 1 if d < 20 else 2 if d < 32 else 3 if d < 64 else 4
    return list(pairwise(i * d // n for i in range(n + 1)))


@numpy_body
def _diagonal_squares(
    x: HostArray,
    mean: HostArray,
    precision: HostArray,
    offset: HostArray,
    by_product: bool,
    skip_missing: bool,
) -> HostArray:
    center = mean.mean(axis=-2, keepdims=True)
    fill = partial(_fill_by_product if by_product else _fill_directly, skip_missing=skip_missing)
    with one_thread_per_product():
        return _in_pieces(fill, x, mean.shape[-2], (mean, precision, offset, center))


def _fill_by_product(
    out: HostArray,
    x: HostArray,
    mean: HostArray,
    precision: HostArray,
    offset: HostArray,
    center: HostArray,
    skip_missing: bool,
) -> None:
    is_near = _is_near_zero(mean, precision)
    if not is_near:  # near 0 centring would cost a pass and gain no digits
        mean = mean - center
    constant = precision * mean * mean + offset
    square_map = np.ascontiguousarray(precision.T)
    linear_map = np.ascontiguousarray((-2 * precision * mean).T)
    total = constant.sum(axis=1)
    size = _chunk_rows(x, x.shape[1])
    buffer = np.empty((1 if is_near else 2, size, x.shape[1]), dtype=x.dtype)
    linear = np.empty((size, out.shape[1]), dtype=x.dtype)
    for start in range(0, x.shape[0], size):
        values, result = x[start : start + size], out[start : start + size]
        m = values.shape[0]
        if not is_near:
            values = np.subtract(values, center, out=buffer[1, :m])
        np.matmul(np.multiply(values, values, out=buffer[0, :m]), square_map, out=result)
        # a missing value anywhere in a row makes its sums NaN: if no sum is NaN, nothing is to be skipped
        if skip_missing and np.isnan(np.add.reduce(result, axis=None)):
            is_present = np.equal(values, values)
            values = np.where(is_present, values, x.dtype.type(0))
            np.matmul(np.multiply(values, values, out=buffer[0, :m]), square_map, out=result)
            result += is_present.astype(x.dtype) @ constant.T
        else:
            result += total
        result += np.matmul(values, linear_map, out=linear[:m])


def _is_near_zero(mean: HostArray, precision: HostArray) -> bool:
    """Whether squares expanded around 0 are as accurate as those around the centre are asked to be."""
    epsilon = np.finfo(mean.dtype).eps
    amplification = np.max(np.sum(precision * mean * mean, axis=-1), initial=0.0)
    return bool(4 * amplification * epsilon <= (1e-9 if epsilon < 1e-10 else 1e-4))


def _fill_directly(
    out: HostArray,
    x: HostArray,
    mean: HostArray,
    precision: HostArray,
    offset: HostArray,
    center: HostArray,
    skip_missing: bool,
) -> None:
    d, mean = x.shape[1], mean - center
    size = _chunk_rows(x, 2 * d)
    columns, buffer = np.empty((2, d, size), dtype=x.dtype)
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


def _chunk_rows(x: HostArray, width: int) -> int:
    """How many rows of `width` numbers fit the cache."""
    fitting = _CACHE // (int(x.dtype.itemsize) * max(1, width))
    return max(1, min(int(x.shape[0]), max(64, fitting)))


def _in_pieces(
    fill: Callable[..., None], x: HostArray, k: int, parameters: tuple[HostArray, ...]
) -> HostArray:
    """Call ``fill(out, rows, *parameters)`` for pieces of rows of every leading axis, on threads."""
    batch = np.broadcast_shapes(*(part.shape[:-2] for part in (x, *parameters)))
    n = x.shape[-2]
    rows, *others = (x, *parameters)
    if batch:
        rows, *others = (np.broadcast_to(part, (*batch, *part.shape[-2:])) for part in (x, *parameters))
    out = np.empty((*batch, n, k), dtype=x.dtype)
    size = max(_LEAST_PIECE, min(_PIECE, -(-n // 8)))

    def work(piece: tuple[tuple[int, ...], int]) -> None:
        i, start = piece
        some = slice(start, min(start + size, n))
        with np.errstate(over="ignore", invalid="ignore"):  # a square that overflows is an infinite distance
            fill(out[i][some], rows[i][some], *(part[i] for part in others))

    parallel_blocks(work, [(i, start) for i in np.ndindex(batch) for start in range(0, n, size)])
    return out
