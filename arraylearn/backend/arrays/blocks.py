"""Blocks: groups of rows side by side, scanned, maximized and split all at once.

A block is a run of neighbouring positions. `starts` (k,) holds the first position of each of the k blocks
that fill ``range(m)``, none of them empty; ``block_at`` (m,) is the block of each position. A list orders row
ids so that a block holds the rows of one group (a node of a tree); several lists (d, m) order the same blocks
by different columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.segments import segment_max, segment_sum
from arraylearn.backend.native import native

__all__ = [
    "block_index",
    "block_max",
    "first_in_block",
    "scatter",
    "split_lists",
    "steps",
]


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
    if fast := native(xp, "split_lists", lists):
        return fast(lists, branch, sizes)
    k = len(sizes)
    # small integers are sorted by counting
    kind = xp.int8 if k < 127 else xp.int16 if k < 32_767 else xp.int64
    branch = xp.astype(branch, kind)
    branch = xp.where(branch < 0, k, branch)
    key = xp.reshape(xp.take(branch, xp.reshape(lists, (-1,)), axis=0), lists.shape)
    order = xp.argsort(key, axis=-1, stable=True)
    return xp.take_along_axis(lists, order[:, : sum(sizes)], axis=-1)


def first_in_block(xp: Namespace, is_hit: Array, starts: Array, block_at: Array) -> Array:
    """Return the first position (d, k) of each block where `is_hit` (d, m) holds; -1 where there is none."""
    m = is_hit.shape[1]
    countdown = m - xp.arange(m, dtype=xp.int64, device=array_api_compat.device(is_hit))
    largest = block_max(xp, xp.where(is_hit, countdown, 0), starts, block_at)
    return xp.where(largest > 0, m - largest, -1)


def steps(xp: Namespace, values: Array, gap: float = 0.0) -> Array:
    """Find where the next value of the row (d, m) is larger by more than `gap`, and known."""
    lower = values[:, :-1] + gap if gap else values[:, :-1]
    last = xp.zeros((values.shape[0], 1), dtype=xp.bool, device=array_api_compat.device(values))
    return xp.concat((values[:, 1:] > lower, last), axis=1)
