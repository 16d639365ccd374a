"""Matrix products with a cheap epilogue: gram matrices, and exponents of gaussian densities.

One pass through memory where the pieces alone would take five.
"""

from __future__ import annotations

import math

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.native import native

__all__ = ["diagonal_squares", "gaussian_gram", "integer_power", "polynomial_gram", "whitened_exponents"]


def gaussian_gram(xp: Namespace, x: Array, z: Array | None, gamma: Array | float) -> Array:
    r"""Return :math:`\exp(-\gamma \lVert x_i - z_j \rVert^2)` for all pairs of rows.

    Parameters
    ----------
    x : float array (..., n, d)
        Rows.
    z : float array (..., m, d) or None
        Rows of the same dtype; leading axes broadcast. None (or `x` itself) means the rows of `x`: then the
        diagonal is exactly 1.
    gamma : float or array (...)
        Not negative; an array of the dtype of `x` whose axes broadcast against the leading axes.

    Returns
    -------
    array (..., n, m)
        Between 0 and 1. Distances come from a product of rows centred at the mean of `x`, so that a common
        offset costs no digits.
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
    r"""Return :math:`(\gamma \langle x_i, z_j \rangle + c)^p` for all pairs of rows.

    Parameters
    ----------
    x, z, gamma
        As in `gaussian_gram`.
    coef0 : float
        The constant :math:`c`.
    degree : int
        The power :math:`p`, at least 0.

    Returns
    -------
    array (..., n, m)
        By repeated multiplication, so that negative bases are welcome.
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


# ---- squared distances to centres


def whitened_exponents(xp: Namespace, x: Array, whitening: Array, mean: Array, constant: Array) -> Array:
    r"""Return :math:`c_k - \tfrac12 \lVert W_k (x_i - \mu_k) \rVert^2` for all rows and classes.

    Parameters
    ----------
    x : float array (..., n, d)
        Rows.
    whitening : array (..., k, r, d)
        One linear map per class, of the dtype of `x`; leading axes broadcast.
    mean : array (..., k, d)
        One centre per class.
    constant : array (..., k)
        One constant per class.

    Returns
    -------
    array (..., n, k)
        By one product of all rows with all maps. Rows are first centred at the mean of the centres, so that a
        common offset costs no digits.
    """
    center = xp.mean(mean, axis=-2, keepdims=True)
    k, r, d = whitening.shape[-3:]
    maps = whitening * math.sqrt(0.5)
    shift = (maps @ (mean - center)[..., None])[..., 0]  # (..., k, r)
    maps = xp.reshape(maps, (*maps.shape[:-3], k * r, d))
    if fast := native(xp, "whitened_exponents"):
        return fast(x, maps, shift, center, constant)
    maps, shift = xp.matrix_transpose(maps), xp.reshape(shift, (*shift.shape[:-2], 1, k * r))
    parts = []
    for rows in row_chunks(x.shape[-2], 3 * 8 * k * r * math.prod(x.shape[:-2])):
        z = (x[..., rows, :] - center) @ maps - shift
        z = xp.reshape(z, (*z.shape[:-1], k, r))
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
    r"""Return :math:`\sum_j p_{kj} (x_{ij} - \mu_{kj})^2 + o_{kj}` for all rows and classes.

    Parameters
    ----------
    x : float array (..., n, d)
        Rows.
    mean, precision, offset : array (..., k, d)
        Centre, weight (of either sign) and constant of each class and column, of the dtype of `x`; leading
        axes broadcast.
    by_product : bool
        Whether to expand the square into matrix products: several times faster; the absolute rounding error
        is that of :math:`\sum_j p_{kj} (\mu_{kj} - \bar\mu_j)^2`, which is large for a tiny variance.
    skip_missing : bool
        Whether NaN counts as missing and adds nothing, its offset included.

    Returns
    -------
    array (..., n, k)
        The sums.
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
