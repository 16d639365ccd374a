"""Order and selection: sort rows, keep some, the largest k."""

from __future__ import annotations

from arraylearn._typing import Array, Namespace
from arraylearn.backend.native import native

__all__ = ["argsort_rows", "compress", "top_k"]


def argsort_rows(xp: Namespace, values: Array) -> Array:
    """Return the stable ascending order of each row.

    Parameters
    ----------
    values : array (d, m)
        Integers or floats; -0.0 and 0.0 are equal, NaN comes last (NaNs in their old order).

    Returns
    -------
    int64 array (d, m)
        ``take_along_axis(values, order)`` is sorted; equal values keep their order.
    """
    if fast := native(xp, "argsort_rows", values):
        return fast(values)
    if xp.isdtype(values.dtype, "real floating"):
        values = values + 0.0  # -0.0 becomes 0.0; every library of ours sorts NaN last
    return xp.astype(xp.argsort(values, axis=-1, stable=True), xp.int64, copy=False)


def compress(xp: Namespace, values: Array, keep: Array, size: int) -> Array:
    """Return the rows of `values` where `keep`, in order.

    Parameters
    ----------
    values : array (m, ...)
        Rows.
    keep : bool array (m,)
        Which rows stay.
    size : int
        How many are True. The caller knows it, so that no device has to report it.

    Returns
    -------
    array (size, ...)
        The kept rows in their old order.
    """
    if fast := native(xp, "compress"):
        return fast(values, keep, size)
    order = xp.argsort(xp.astype(~keep, xp.int8), stable=True)
    return xp.take(values, order[:size], axis=0)


def top_k(xp: Namespace, values: Array, k: int) -> tuple[Array, Array]:
    """Find the `k` largest values along the last axis.

    Parameters
    ----------
    values : array (..., m)
        Integers or floats without NaN.
    k : int
        Between 0 and m.

    Returns
    -------
    largest : array (..., k)
        In descending order.
    indices : int64 array (..., k)
        Where they stand; among equals the first ones, in order, so that every backend agrees.
    """
    if fast := native(xp, "top_k"):
        largest, indices = fast(values, k)
        return largest, indices
    order = xp.argsort(values, axis=-1, descending=True, stable=True)[..., :k]
    return xp.take_along_axis(values, order, axis=-1), xp.astype(order, xp.int64)
