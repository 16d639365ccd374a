"""Nearest rows by batched distances, numeric and nominal columns together."""

from __future__ import annotations

import math

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.gather import top_k
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype

__all__ = ["commonest_neighbour", "median_deviation", "nearest_rows"]


def median_deviation(xp: Namespace, x: Array) -> Array:
    """Return the median over the columns of x (m, d) of their standard deviations; 1 if there are none."""
    device = array_api_compat.device(x)
    d = x.shape[1]
    if d == 0:
        return xp.ones((), dtype=accumulator_dtype(Place(xp, device)), device=device)
    x = xp.astype(x, accumulator_dtype(Place(xp, device)), copy=False)
    deviation = xp.sort(xp.std(x, axis=0))
    return 0.5 * (deviation[(d - 1) // 2] + deviation[d // 2])


def nearest_rows(xp: Namespace, x: Array, codes: Array, penalty: Array, *, k: int) -> Array:
    r"""Find the `k` nearest other rows of each row.

    .. math:: d(i, j)^2 = \lVert x_i - x_j \rVert^2 + p^2\,\#\{c : \text{code}_{ci} \ne \text{code}_{cj}\}

    Parameters
    ----------
    x : float array (m, d)
        Numeric columns.
    codes : int array (q, m)
        Nominal columns; a missing value (-1) is a category of its own.
    penalty : float array ()
        p, the distance that one differing nominal column adds.
    k : int
        Less than m.

    Returns
    -------
    int64 array (m, k)
        Nearest first; among equals the first ones.
    """
    device = array_api_compat.device(x)
    dtype = accumulator_dtype(Place(xp, device))
    rows = xp.astype(x, dtype, copy=False)
    rows = rows - xp.mean(rows, axis=0, keepdims=True)  # so that a common offset costs no digits
    length = xp.vecdot(rows, rows)
    m = x.shape[0]
    position = xp.arange(m, dtype=xp.int64, device=device)
    square_penalty = xp.astype(penalty, dtype) ** 2
    found = []
    for some in row_chunks(m, 8 * m * 5):
        square = length[some, None] + length[None, :] - 2.0 * (rows[some, :] @ xp.matrix_transpose(rows))
        for c in range(codes.shape[0]):
            is_other = codes[c, some][:, None] != codes[c, :][None, :]
            square = square + square_penalty * xp.astype(is_other, dtype)
        square = xp.where(position[some][:, None] == position[None, :], math.inf, square)
        found.append(top_k(xp, -square, k)[1])
    return xp.concat(found) if len(found) > 1 else found[0]


def commonest_neighbour(xp: Namespace, codes: Array, neighbours: Array) -> Array:
    """Find for each row the nearest neighbour that holds the commonest category of its neighbours.

    Parameters
    ----------
    codes : int array (m,)
        A nominal column.
    neighbours : int64 array (m, k)
        Row numbers, nearest first.

    Returns
    -------
    int64 array (m,)
        Row numbers.
    """
    m, k = neighbours.shape
    near = xp.reshape(xp.take(codes, xp.reshape(neighbours, (-1,)), axis=0), (m, k))
    votes = xp.sum(xp.astype(near[:, :, None] == near[:, None, :], xp.int64), axis=2)
    best = xp.astype(xp.argmax(votes, axis=1), xp.int64)
    return xp.take_along_axis(neighbours, best[:, None], axis=1)[:, 0]
