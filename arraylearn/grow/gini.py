"""Scores and gains of splits by the Gini index, equal on every backend."""

from __future__ import annotations

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.grow import formulas

__all__ = ["FEW_CLASSES", "gini_gains", "gini_scores"]

# Up to here the classes are summed one by one in a fixed order, so that every backend rounds alike.
FEW_CLASSES = 4


def gini_scores(xp: Namespace, left: Array, right: Array) -> Array:
    r"""Score splits into two so that equal splits score equal on every backend.

    .. math:: \sum_c (M l_c - m L_c)^2 / (m (M - m)) \quad\text{or}\quad
              \sum_c l_c^2 / m + \sum_c r_c^2 / (M - m)

    The first form, for few classes, is :math:`M^2` times the Gini gain (half of that for two classes); the
    second, for many, :math:`M` times the gain plus a constant of the block. Of integers each step is exact or
    correctly rounded. `gini_gains` turns scores into gains.

    Parameters
    ----------
    left, right : array (c, ...)
        Class counts or weights of the two sides, classes first.

    Returns
    -------
    float array (...)
        In the accumulator's dtype; -1 where a side is empty.
    """
    dtype = accumulator_dtype(Place(xp, array_api_compat.device(left)))
    n_left = xp.astype(xp.sum(left, axis=0), dtype)
    n_right = xp.astype(xp.sum(right, axis=0), dtype)
    is_split = (n_left > 0) & (n_right > 0)
    safe_left, safe_right = xp.where(is_split, n_left, 1.0), xp.where(is_split, n_right, 1.0)
    n_classes = left.shape[0]
    if n_classes > FEW_CLASSES:
        squares_left = xp.astype(xp.sum(left * left, axis=0), dtype)
        squares_right = xp.astype(xp.sum(right * right, axis=0), dtype)
        scores = formulas.gini_squares(squares_left, safe_left, squares_right, safe_right)
    elif n_classes == 2:
        inside, outside = xp.astype(left[0, ...], dtype), xp.astype(right[0, ...], dtype)
        scores = formulas.gini_pair(safe_left, safe_right, inside, outside)
    else:
        surplus = xp.astype(left, dtype) * n_right - xp.astype(right, dtype) * n_left
        squares = surplus * surplus
        scores = squares[0, ...]
        for c in range(1, n_classes):
            scores = scores + squares[c, ...]
        scores = formulas.gini_surplus(scores, safe_left, safe_right)
    return xp.where(is_split, scores, -1.0)


def gini_gains(xp: Namespace, scores: Array, counts: Array) -> Array:
    """Turn `gini_scores` into Gini gains, given the class counts (c, ...) of the node; -inf stays for -1."""
    dtype = scores.dtype
    total = xp.astype(xp.sum(counts, axis=0), dtype)
    total = xp.where(total > 0, total, 1.0)
    n_classes = counts.shape[0]
    if n_classes > FEW_CLASSES:
        squares = xp.astype(xp.sum(counts * counts, axis=0), dtype)
        gains = formulas.squares_gain(scores, squares, total)
    else:
        gains = (formulas.pair_gain if n_classes == 2 else formulas.surplus_gain)(scores, total)
    return xp.where(scores < 0, -xp.inf, xp.where(gains > 0, gains, 0.0))
