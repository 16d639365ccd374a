"""Matrix products with a cheap epilogue: one pass through memory where the pieces alone would take five."""

from __future__ import annotations

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.native import native

__all__ = ["gaussian_gram", "integer_power", "polynomial_gram"]


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
