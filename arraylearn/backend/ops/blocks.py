"""Blocks: rows of many nodes side by side, scanned, maximized and split all at once.

A block is a run of neighbouring positions; `starts` (k,) says where k blocks begin that fill ``range(m)``,
each with a row at least, and ``block_at`` (m,) is the block of each position. A list orders row ids so that a
block holds the rows of one node; several lists (d, m) order the same blocks by different columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.backend.native import native
from arraylearn.backend.ops.segments import segment_max, segment_sum

__all__ = [
    "FEW_CLASSES",
    "block_index",
    "block_max",
    "first_in_block",
    "gini_gains",
    "gini_scores",
    "scatter",
    "split_lists",
    "steps",
]

# Up to here the classes are summed one by one in a fixed order, so that every backend rounds alike.
FEW_CLASSES = 4


def block_index(xp: Namespace, sizes: Array, total: int) -> Array:
    """Return the block of each position.

    Parameters
    ----------
    sizes : int array (k,)
        Sizes of the blocks; 0 is allowed here.
    total : int
        Their sum. The caller knows it, so that no device has to report it.

    Returns
    -------
    int64 array (total,)
        0 repeated ``sizes[0]`` times, then 1, and so on.
    """
    if fast := native(xp, "block_index"):
        return fast(sizes, total)
    ends = xp.cumulative_sum(sizes)
    position = xp.arange(total, dtype=ends.dtype, device=array_api_compat.device(sizes))
    return xp.astype(xp.searchsorted(ends, position, side="right"), xp.int64)


def block_max(xp: Namespace, values: Array, starts: Array, block_at: Array) -> Array:
    """Find the largest value of each block in each row.

    Parameters
    ----------
    values : array (d, m)
        Integers or floats without NaN.
    starts : int array (k,)
        First position of each block.
    block_at : int array (m,)
        The block of each position.

    Returns
    -------
    array (d, k)
        Of the dtype of `values`.
    """
    if fast := native(xp, "block_max"):
        return fast(values, starts, block_at)
    d, k = values.shape[0], starts.shape[0]
    offset = k * xp.arange(d, dtype=block_at.dtype, device=array_api_compat.device(values))
    keys = xp.reshape(block_at[None, :] + offset[:, None], (-1,))
    return xp.reshape(segment_max(xp, xp.reshape(values, (-1,)), keys, d * k), (d, k))


def scatter(xp: Namespace, values: Array, positions: Array, n: int) -> Array:
    """Write values to distinct positions of an array of zeros.

    Parameters
    ----------
    values : int array (m,)
        What to write.
    positions : int array (m,)
        Where: distinct numbers of ``range(n)``.
    n : int
        Size of the result.

    Returns
    -------
    array (n,)
        Of the dtype of `values`; 0 where nothing was written.
    """
    if fast := native(xp, "scatter"):
        return fast(values, positions, n)
    return xp.astype(segment_sum(xp, values, positions, n), values.dtype)


def split_lists(xp: Namespace, lists: Array, branch: Array, sizes: Sequence[int]) -> Array:
    """Sort every list by the branch its rows take; rows of one branch keep their order.

    Parameters
    ----------
    lists : int32 array (d, m)
        Row ids in ``range(n)``.
    branch : int array (n,)
        The branch of each row in ``range(len(sizes))``; negative: the row leaves the lists.
    sizes : sequence of int
        How many rows take each branch.

    Returns
    -------
    int32 array (d, sum(sizes))
        First all rows of branch 0, then those of branch 1, and so on.
    """
    if fast := native(xp, "split_lists"):
        return fast(lists, branch, sizes)
    key = xp.reshape(xp.take(branch, xp.reshape(lists, (-1,)), axis=0), lists.shape)
    order = xp.argsort(xp.where(key < 0, len(sizes), key), axis=-1, stable=True)
    return xp.take_along_axis(lists, order[:, : sum(sizes)], axis=-1)


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
        scores = squares_left / safe_left + squares_right / safe_right
    else:
        surplus = xp.astype(left, dtype) * n_right - xp.astype(right, dtype) * n_left
        squares = surplus * surplus
        scores = squares[0, ...]
        for c in range(1, n_classes if n_classes > 2 else 1):
            scores = scores + squares[c, ...]
        scores = scores * (1.0 / (safe_left * safe_right))
    return xp.where(is_split, scores, -1.0)


def gini_gains(xp: Namespace, scores: Array, counts: Array) -> Array:
    """Turn `gini_scores` into Gini gains, given the class counts (c, ...) of the node; -inf stays for -1."""
    dtype = scores.dtype
    total = xp.astype(xp.sum(counts, axis=0), dtype)
    total = xp.where(total > 0, total, 1.0)
    n_classes = counts.shape[0]
    if n_classes > FEW_CLASSES:
        before = xp.astype(xp.sum(counts * counts, axis=0), dtype) / total
        gains = (scores - before) / total
    else:
        gains = scores * (2.0 if n_classes == 2 else 1.0) / (total * total)
    return xp.where(scores < 0, -xp.inf, xp.where(gains > 0, gains, 0.0))


def first_in_block(xp: Namespace, is_hit: Array, starts: Array, block_at: Array) -> Array:
    """Return the first position (d, k) of each block where `is_hit` (d, m) holds; -1 where there is none."""
    m = is_hit.shape[1]
    countdown = m - xp.arange(m, dtype=xp.int64, device=array_api_compat.device(is_hit))
    largest = block_max(xp, xp.where(is_hit, countdown, 0), starts, block_at)
    return xp.where(largest > 0, m - largest, -1)


def steps(xp: Namespace, values: Array, gap: float = 0.0) -> Array:
    """Tell where the next value of the row (d, m) is larger by more than `gap`, and known."""
    lower = values[:, :-1] + gap if gap else values[:, :-1]
    last = xp.zeros((values.shape[0], 1), dtype=xp.bool, device=array_api_compat.device(values))
    return xp.concat((values[:, 1:] > lower, last), axis=1)
