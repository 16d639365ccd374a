"""Read and write chosen rows and columns of a matrix."""

from __future__ import annotations

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.native import native

__all__ = ["combine_rows", "gather_block", "put"]


def put(xp: Namespace, x: Array, idx: Array, values: Array) -> Array:
    """Return a copy of `x` in which ``x[idx[k]]`` is ``values[k]``.

    Parameters
    ----------
    x : array (n,)
        Old values.
    idx : int array (m,)
        Distinct positions.
    values : array (m,)
        New values, of the dtype of `x`.

    Returns
    -------
    array (n,)
        The copy.
    """
    if idx.shape[0] == 0:
        return x
    if fast := native(xp, "put"):
        return fast(x, idx, values)
    order = xp.argsort(idx)
    ordered = xp.take(idx, order, axis=0)
    lane = xp.arange(x.shape[0], dtype=idx.dtype, device=array_api_compat.device(x))
    found = xp.minimum(xp.searchsorted(ordered, lane), idx.shape[0] - 1)
    is_new = xp.take(ordered, found, axis=0) == lane
    return xp.where(is_new, xp.take(xp.take(values, order, axis=0), found, axis=0), x)


def gather_block(xp: Namespace, rows: Array, slots: Array, columns: Array) -> Array:
    """Return ``rows[slots][:, columns]``.

    Parameters
    ----------
    rows : array (c, n)
        A store of matrix rows.
    slots : int array (m,)
        Which of them.
    columns : int array (k,)
        Which columns.

    Returns
    -------
    array (m, k)
        The block.
    """
    if fast := native(xp, "gather_block", rows, slots, columns):
        return fast(rows, slots, columns)
    n = rows.shape[1]
    flat = xp.reshape(slots[:, None] * n + columns[None, :], (-1,))
    return xp.reshape(xp.take(xp.reshape(rows, (-1,)), flat, axis=0), (slots.shape[0], columns.shape[0]))


def combine_rows(xp: Namespace, rows: Array, slots: Array, weights: Array) -> Array:
    """Return the sum of ``weights[k] * rows[slots[k]]``.

    Parameters
    ----------
    rows : float array (c, n)
        A store of matrix rows.
    slots : int array (m,)
        Which of them.
    weights : float array (m,)
        Their weights; the dtype of the result.

    Returns
    -------
    array (n,)
        The sum, taken in the dtype of `rows`.
    """
    if fast := native(xp, "combine_rows"):
        return fast(rows, slots, weights)
    return xp.astype(xp.astype(weights, rows.dtype) @ xp.take(rows, slots, axis=0), weights.dtype)
