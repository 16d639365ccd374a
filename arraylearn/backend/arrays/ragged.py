"""Columns of categories with domains of different sizes: all counted at once, all looked up at once.

The cells of all columns lie in one run: those of column j are ``offsets[j]`` up to ``offsets[j + 1]``, the
first of them for the missing value (code -1), the others for the codes 0, 1, ... So a column of thousands of
categories makes no other column wider.
"""

from __future__ import annotations

from collections.abc import Sequence

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.backend.native import native

__all__ = ["count_categories", "look_up_sums"]


def count_categories(
    xp: Namespace,
    codes: Array,
    offsets: Sequence[int],
    keys: Array,
    n_keys: int,
    weights: Array | None = None,
) -> Array:
    """Count the categories of every column by a key that all columns share.

    Parameters
    ----------
    codes : int32 array (d, n)
        Column-major codes; -1 is missing.
    offsets : sequence of d + 1 int
        The first cell of each column, and the number of all cells.
    keys : int array (n,)
        The key (class) of each row, in ``range(n_keys)``.
    n_keys : int
        Number of keys.
    weights : array (n,), optional
        Weight of each row.

    Returns
    -------
    array (offsets[d], n_keys)
        int64 counts, or sums of float weights in the accumulator's dtype.
    """
    if fast := native(xp, "count_categories"):
        return fast(codes, offsets, keys, n_keys, weights)
    d, n = codes.shape
    device = array_api_compat.device(codes)
    n_cells = offsets[d]
    first = xp.asarray(offsets[:d], dtype=xp.int64, device=device)[:, None] + 1
    counted = xp.int64 if weights is None or xp.isdtype(weights.dtype, "integral") else _sums(xp, device)
    total = xp.zeros((n_cells * n_keys,), dtype=counted, device=device)
    for rows in row_chunks(n, 48 * d):
        cell = (xp.astype(codes[:, rows], xp.int64) + first) * n_keys + xp.astype(keys[rows], xp.int64)
        part = None
        if weights is not None:
            part = xp.reshape(xp.broadcast_to(weights[rows], cell.shape), (-1,))
        total = total + histogram(xp, xp.reshape(cell, (-1,)), n_cells * n_keys, part)
    return xp.reshape(total, (n_cells, n_keys))


def look_up_sums(xp: Namespace, codes: Array, offsets: Sequence[int], table: Array) -> Array:
    """Add up, for each row, the entries of a table for its category in every column.

    Parameters
    ----------
    codes, offsets
        As for `count_categories`.
    table : float array (offsets[d], k)
        One row per cell; ``-inf`` is welcome.

    Returns
    -------
    array (n, k)
        Sums over the columns, in the dtype of `table`.
    """
    if fast := native(xp, "look_up_sums"):
        return fast(codes, offsets, table)
    d, n = codes.shape
    k = table.shape[1]
    first = xp.asarray(offsets[:d], dtype=xp.int64, device=array_api_compat.device(codes))[:, None] + 1
    sums = []
    for rows in row_chunks(n, 16 * d * (k + 1)):
        cell = xp.astype(codes[:, rows], xp.int64) + first
        found = xp.take(table, xp.reshape(cell, (-1,)), axis=0)
        sums.append(xp.sum(xp.reshape(found, (d, cell.shape[1], k)), axis=0))
    return sums[0] if len(sums) == 1 else xp.concat(sums, axis=0)


def _sums(xp: Namespace, device: object) -> object:
    return accumulator_dtype(Place(xp, device))
