"""The best Gini split of many blocks of presorted lists, and the lists split there."""

from __future__ import annotations

from collections.abc import Sequence

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.blocks import block_max, first_in_block, scatter, split_lists, steps
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.native import native
from arraylearn.backend.ops.gini import gini_gains, gini_scores

__all__ = ["gini_split", "split_lists_at"]


def gini_split(
    xp: Namespace,
    lists: Array,
    columns: Array,
    class_ends: Sequence[int],
    starts: Array,
    block_at: Array,
    counts: Array,
    *,
    least: int,
    is_tied: Sequence[bool],
    allowed: Array | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Find the split of each block with the best `gini_gains`: unit weights, no missing values.

    Parameters
    ----------
    lists : int32 array (d, m)
        Row ids, each block in ascending order of the list's column. Rows are numbered by class.
    columns : float array (d, n)
        The values.
    class_ends : sequence of int
        Rows below ``class_ends[c]`` have class c or less; one per class.
    starts, block_at : int64 arrays (k,), (m,)
        The blocks, as in `arraylearn.backend.arrays.blocks`.
    counts : int64 array (k, c)
        Classes of each block.
    least : int
        Least number of rows on a side.
    is_tied : sequence of bool
        For each column whether it has many equal values: a hint, the result is the same.
    allowed : bool array (d, k), optional
        Which lists may be chosen; where none of them has a split, all may.

    Returns
    -------
    line : int64 array (k,)
        The list with the largest gain, compared in float32; the first one among equals.
    score : float array (k,)
        Its best `gini_scores`; -1 where no list has a split.
    position : int64 array (k,)
        The last position of the left side; the first one among equals. The start of the block where there is
        no split.
    left : int64 array (k, c)
        Classes of the left side; 0 where there is no split.
    """
    if fast := native(xp, "gini_split"):
        found: tuple[Array, Array, Array, Array] = fast(
            lists, columns, class_ends, starts, block_at, counts, least, is_tied, allowed
        )
        return found
    best = []
    for f in row_chunks(lists.shape[0], 40 * lists.shape[1] * len(class_ends)):
        values = xp.take_along_axis(columns[f, :], xp.astype(lists[f, :], xp.int64), axis=-1)
        scores = _list_scores(xp, lists[f, :], values, class_ends, block_at, counts, least)
        best.append(block_max(xp, scores, starts, block_at))
    by_list = xp.concat(best, axis=0)
    gains = gini_gains(xp, by_list, xp.permute_dims(counts, (1, 0))[:, None, :])
    if allowed is not None:
        among = xp.where(allowed, gains, -xp.inf)
        gains = xp.where(xp.any(among > -xp.inf, axis=0)[None, :], among, gains)
    line = xp.argmax(xp.astype(gains, xp.float32), axis=0)
    score = xp.take_along_axis(by_list, line[None, :], axis=0)[0, :]
    rows, line_at = _chosen_rows(xp, lists, line, block_at)
    n = columns.shape[1]
    values = xp.take(xp.reshape(columns, (-1,)), line_at * n + xp.astype(rows, xp.int64), axis=0)
    scores = _list_scores(xp, rows[None, :], values[None, :], class_ends, block_at, counts, least)
    is_hit = scores == xp.take(score, block_at, axis=0)[None, :]
    position = first_in_block(xp, is_hit, starts, block_at)[0, :]
    has_split = score >= 0
    position = xp.where(has_split, position, starts)
    left = _left_counts(xp, rows, class_ends, counts, position)
    return line, score, position, xp.where(has_split[:, None], left, 0)


def split_lists_at(
    xp: Namespace,
    lists: Array,
    line: Array,
    position: Array,
    starts: Array,
    block_at: Array,
    branches: Array,
    sizes: Sequence[int],
    n_rows: int,
) -> Array:
    """Split every list as one list of each block is split at a position.

    Parameters
    ----------
    lists : int32 array (d, m)
        Row ids in ``range(n_rows)``, the same ones in each list.
    line, position : int64 arrays (k,)
        From `gini_split`.
    starts, block_at : int64 arrays (k,), (m,)
        The blocks.
    branches : int array (k, 2)
        The branch of the rows up to the position, and of those beyond it; negative: they leave the lists.
    sizes : sequence of int
        How many rows take each branch.
    n_rows : int
        Number of all rows.

    Returns
    -------
    int32 array (d, sum(sizes))
        As from `split_lists`.
    """
    if fast := native(xp, "split_lists_at"):
        return fast(lists, line, position, starts, block_at, branches, sizes, n_rows)
    rows, _ = _chosen_rows(xp, lists, line, block_at)
    at = xp.arange(lists.shape[1], dtype=xp.int64, device=array_api_compat.device(lists))
    side = xp.astype(at > xp.take(position, block_at, axis=0), xp.int64)
    branch = xp.take(xp.reshape(branches, (-1,)), 2 * block_at + side, axis=0)
    return split_lists(xp, lists, scatter(xp, branch, rows, n_rows), sizes)


def _chosen_rows(xp: Namespace, lists: Array, line: Array, block_at: Array) -> tuple[Array, Array]:
    """Return the rows (m,) of each block in the order of one of its lists, and that list at each position."""
    m = lists.shape[1]
    line_at = xp.take(line, block_at, axis=0)
    at = xp.arange(m, dtype=xp.int64, device=array_api_compat.device(lists))
    return xp.take(xp.reshape(lists, (-1,)), line_at * m + at, axis=0), line_at


def _left_counts(
    xp: Namespace, rows: Array, class_ends: Sequence[int], counts: Array, position: Array
) -> Array:
    """Count the classes (k, c) of each block up to a position."""
    ends = xp.asarray(class_ends, dtype=rows.dtype, device=array_api_compat.device(rows))
    running = xp.cumulative_sum(xp.astype(rows[None, :] < ends[:, None], xp.int64), axis=1)  # (c, m)
    total = xp.cumulative_sum(counts, axis=1)
    before = xp.cumulative_sum(total, axis=0) - total
    below = xp.permute_dims(xp.take(running, position, axis=1), (1, 0)) - before
    return xp.concat((below[:, :1], below[:, 1:] - below[:, :-1]), axis=1)


def _list_scores(
    xp: Namespace,
    lists: Array,
    values: Array,
    class_ends: Sequence[int],
    block_at: Array,
    counts: Array,
    least: int,
) -> Array:
    """Score every position (d, m) of the lists; -1 between equal values and where a side is too small."""
    device = array_api_compat.device(lists)
    ends = xp.asarray(class_ends, dtype=lists.dtype, device=device)
    below = xp.astype(lists[None, :, :] < ends[:, None, None], xp.int64)  # (c, d, m)
    running = xp.cumulative_sum(below, axis=-1)
    total = xp.cumulative_sum(counts, axis=1)  # (k, c): rows of class c or less
    before = xp.cumulative_sum(total, axis=0) - total
    left = running - xp.permute_dims(xp.take(before, block_at, axis=0), (1, 0))[:, None, :]
    right = xp.permute_dims(xp.take(total, block_at, axis=0), (1, 0))[:, None, :] - left
    n_left, n_right = left[-1, ...], right[-1, ...]
    left = xp.concat((left[:1, ...], left[1:, ...] - left[:-1, ...]), axis=0)
    right = xp.concat((right[:1, ...], right[1:, ...] - right[:-1, ...]), axis=0)
    is_allowed = steps(xp, values) & (n_left >= least) & (n_right >= least)
    return xp.where(is_allowed, gini_scores(xp, left, right), -1.0)
