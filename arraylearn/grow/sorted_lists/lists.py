"""Search and division of presorted lists by the Gini gain: all nodes of a level at once.

This is the array program. `lists_cpu` has a search of the same name, and grows all subtrees below a level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.arrays.order import argsort_rows
from arraylearn.backend.arrays.segments import block_max, first_in_block, scatter, split_lists, steps
from arraylearn.backend.dispatch import is_worth_compiling
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype, is_on_gpu
from arraylearn.grow import formulas
from arraylearn.grow.criteria import MOST_IN_ORDER, gini_gains

__all__ = [
    "MOST_ROWS",
    "MOST_WEIGHT",
    "ListSplits",
    "SortedRows",
    "at_a_time",
    "divide_lists",
    "search_lists",
]

# Limits of compiled bodies: row ids have 32 bits, sums of squared weights 64.
MOST_ROWS, MOST_WEIGHT = 2**30, 2**31
# Positions of lists that are scored at a time on a CPU, so that they stay in the cache.
_IN_CACHE = 16_384


class SortedRows(NamedTuple):
    """Rows in presorted lists; rows are numbered by class."""

    lists: Array  # (d, m) int32: row ids, each block ascending by the list's column, missing values last
    columns: Array  # (d, n) float
    class_ends: tuple[int, ...]  # rows below class_ends[c] have class c or less
    weights: Array | None = None  # (n,) int64; None: every row weighs 1
    has_missing: bool = False


class ListSplits(NamedTuple):
    """The best split of each block: arrays of k entries."""

    feature: Array  # int64: the list with the largest gain, compared in float32; the first one among equals
    score: Array  # float: its best `gini_scores`, or `formulas.NO_SPLIT`
    position: Array  # int64: the last one on the left, the first among equals; the start without a split
    left: Array  # (k, c) int64: class weights of the left side; 0 where there is no split


def search_lists(
    xp: Namespace,
    data: SortedRows,
    starts: Array,
    block_at: Array,
    counts: Array,
    *,
    least: int,
    allowed: Array | None = None,
) -> ListSplits:
    """Find the split of each block with the best `gini_gains`; no value is missing.

    Parameters
    ----------
    starts, block_at : int64 arrays (k,), (m,)
        The blocks, as in `arraylearn.backend.arrays.segments`.
    counts : int64 array (k, c)
        Class weights of each block.
    least : int
        Least weight of a side.
    allowed : bool array (d, k), optional
        Which lists may be chosen; where none of them has a split, all may.
    """
    body = choose_search(xp, data, counts)
    if not isinstance(body, str):
        return ListSplits(*body(data, starts, counts, least, allowed))
    (d, m), n = data.lists.shape, data.columns.shape[1]
    blocks = _describe_blocks(xp, starts, block_at, counts)
    best = []
    place = Place(xp, array_api_compat.device(data.lists))
    for f in row_chunks(d, 120 * m, most=at_a_time(place, m)):
        lists, columns = data.lists[f, :], data.columns[f, :]
        values = xp.take_along_axis(columns, xp.astype(lists, xp.int64), axis=-1)
        best.append(block_max(xp, _score_lists(xp, data, blocks, lists, values, least), starts, block_at))
    by_list = xp.concat(best, axis=0)
    gains = gini_gains(xp, by_list, xp.permute_dims(counts, (1, 0))[:, None, :])
    if allowed is not None:
        among = xp.where(allowed, gains, -xp.inf)
        gains = xp.where(xp.any(among > -xp.inf, axis=0)[None, :], among, gains)
    feature = xp.argmax(xp.astype(gains, xp.float32), axis=0)
    score = xp.take_along_axis(by_list, feature[None, :], axis=0)[0, :]
    rows, feature_at = _chosen_rows(xp, data.lists, feature, block_at)
    at = feature_at * n + xp.astype(rows, xp.int64)
    values = xp.take(xp.reshape(data.columns, (-1,)), at, axis=0)
    scores = _score_lists(xp, data, blocks, rows[None, :], values[None, :], least)
    is_hit = scores == xp.take(score, block_at, axis=0)[None, :]
    position = first_in_block(xp, is_hit, starts, block_at)[0, :]
    has_split = score != formulas.NO_SPLIT
    position = xp.where(has_split, position, starts)
    left = _left_weights(xp, data, rows, counts, position)
    return ListSplits(feature, score, position, xp.where(has_split[:, None], left, 0))


def at_a_time(place: Place, size: int) -> int | None:
    """Return how many lists of some size, or positions of so many lists, are scored at a time; None: all."""
    return None if is_on_gpu(place) else max(1, _IN_CACHE // size)


def choose_search(
    xp: Namespace, data: SortedRows, counts: Array
) -> Callable[..., tuple[HostArray, ...]] | str:
    """Return the body that searches the lists of a level, or the reason why the array program does."""
    if Place(xp, None).library != "numpy":
        return "not on a CPU of NumPy"
    if not is_worth_compiling(data.lists.size + data.columns.size):
        return "few values, or nothing is to be compiled"
    if counts.shape[1] < 2:
        return "one class"
    if data.columns.shape[1] >= MOST_ROWS or int(counts.sum()) >= MOST_WEIGHT:
        return "sums beyond 64 bits"
    from arraylearn.grow.sorted_lists import lists_cpu

    return lists_cpu.search_lists


def divide_lists(
    xp: Namespace,
    lists: Array,
    splits: ListSplits,
    block_at: Array,
    branches: Array,
    sizes: Sequence[int],
    n_rows: int,
) -> Array:
    """Divide every list of each block by the rows on both sides of a position in one of its lists.

    Parameters
    ----------
    lists : int32 array (d, m)
        Row ids in ``range(n_rows)``, the same ones in each list.
    splits : ListSplits
        From `search_lists`.
    block_at : int64 array (m,)
        The block of each position.
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
    rows, _ = _chosen_rows(xp, lists, splits.feature, block_at)
    at = xp.arange(lists.shape[1], dtype=xp.int64, device=array_api_compat.device(lists))
    side = xp.astype(at > xp.take(splits.position, block_at, axis=0), xp.int64)
    branch = xp.take(xp.reshape(xp.astype(branches, xp.int8), (-1,)), 2 * block_at + side, axis=0)
    return split_lists(xp, lists, scatter(xp, branch, rows, n_rows), sizes)


class _ListBlocks(NamedTuple):
    """What all lists have in common, at each position (m,) or for each block."""

    block_at: Array  # (m,) int64
    counts: Array  # (k, c) int64
    n_before: Array  # (m,) int64: weight of the blocks before
    total: Array  # (m,) float: weight of the block


def _describe_blocks(xp: Namespace, starts: Array, block_at: Array, counts: Array) -> _ListBlocks:
    dtype = accumulator_dtype(Place(xp, array_api_compat.device(starts)))
    weight = xp.sum(counts, axis=1)
    before = xp.cumulative_sum(weight) - weight
    at = xp.take(xp.stack((before, weight)), block_at, axis=1)
    return _ListBlocks(block_at, counts, at[0, :], xp.astype(at[1, :], dtype))


def _score_lists(
    xp: Namespace, data: SortedRows, blocks: _ListBlocks, lists: Array, values: Array, least: int
) -> Array:
    """Score every position (d, m) of some lists; NO_SPLIT between equal values and if a side is too small."""
    dtype, m = blocks.total.dtype, lists.shape[1]
    amounts = None
    if data.weights is None:
        at = xp.arange(1, m + 1, dtype=xp.int64, device=array_api_compat.device(lists))
        n_left = xp.astype(at - blocks.n_before, dtype)[None, :]
    else:
        amounts = xp.reshape(xp.take(data.weights, xp.reshape(lists, (-1,)), axis=0), lists.shape)
        n_left = xp.astype(xp.cumulative_sum(amounts, axis=1) - blocks.n_before[None, :], dtype)
    n_right = blocks.total[None, :] - n_left
    is_open = steps(xp, values) & (n_left >= least) & (n_right >= least)
    n_left, n_right = (xp.where(side > 0, side, 1.0) for side in (n_left, n_right))
    if len(data.class_ends) > MOST_IN_ORDER:
        left, right = _running_squares(xp, data, blocks, lists, amounts)
        scores = formulas.gini_squares(xp.astype(left, dtype), n_left, xp.astype(right, dtype), n_right)
    else:
        scores = _surplus_scores(xp, data, blocks, lists, amounts, (n_left, n_right))
    return xp.where(is_open, scores, formulas.NO_SPLIT)


def _surplus_scores(
    xp: Namespace,
    data: SortedRows,
    blocks: _ListBlocks,
    lists: Array,
    amounts: Array | None,
    sides: tuple[Array, Array],
) -> Array:
    """Score by the surplus of few classes, one after the other as `gini_scores` does."""
    (n_left, n_right), ends, counts = sides, data.class_ends, blocks.counts
    dtype, n_classes = n_left.dtype, len(ends)
    up_to = xp.cumulative_sum(counts, axis=1)
    before = (
        xp.cumulative_sum(up_to, axis=0) - up_to
    )  # (k, c): weight of class c or less in the blocks before
    squares, below = None, None
    for c in range(n_classes if n_classes > 2 else 1):
        if c < n_classes - 1:
            is_below = lists < ends[c]
            amount = xp.astype(is_below, xp.int32) if amounts is None else xp.where(is_below, amounts, 0)
            running = xp.cumulative_sum(amount, axis=1, dtype=amount.dtype)
            offset = xp.astype(xp.take(before[:, c], blocks.block_at, axis=0), running.dtype)
            new = xp.astype(running - offset[None, :], dtype)
        else:
            new = n_left
        inside = new if below is None else new - below
        total = xp.astype(xp.take(counts[:, c], blocks.block_at, axis=0), dtype)[None, :]
        if n_classes == 2:
            return formulas.gini_pair(n_left, n_right, inside, total - inside)
        surplus = inside * n_right - (total - inside) * n_left
        squares = surplus * surplus if squares is None else squares + surplus * surplus
        below = new
    return formulas.gini_surplus(squares, n_left, n_right)


def _running_squares(
    xp: Namespace, data: SortedRows, blocks: _ListBlocks, lists: Array, amounts: Array | None
) -> tuple[Array, Array]:
    """Sum the squared class weights left and right of each position (d, m), for any number of classes.

    A row of weight w adds w (2 h + w) to the left sum, where h is the weight of its class before it in its
    block. If positions are sorted stably by block and class, h is a running sum within each class; classes
    begin at the same positions for every list.
    """
    (d, m), counts = lists.shape, blocks.counts
    device, n_classes = array_api_compat.device(lists), counts.shape[1]
    ends = xp.asarray(data.class_ends, dtype=lists.dtype, device=device)
    own = xp.searchsorted(ends, xp.reshape(lists, (-1,)), side="right")
    key = blocks.block_at[None, :] * n_classes + xp.reshape(xp.astype(own, xp.int64), (d, m))
    kind = xp.int16 if counts.shape[0] * n_classes < 2**15 else xp.int32
    order = argsort_rows(xp, xp.astype(key, kind))
    flat = xp.reshape(counts, (-1,))
    first = xp.cumulative_sum(flat) - flat  # (k c,)
    if amounts is None:
        sorted_key = xp.take(xp.reshape(key, (-1,)), order[0, :], axis=0)
        held = xp.arange(m, dtype=xp.int64, device=device) - xp.take(first, sorted_key, axis=0)
        held = xp.broadcast_to(held[None, :], (d, m))
    else:
        ranked = xp.take_along_axis(amounts, order, axis=1)
        sorted_key = xp.take_along_axis(key, order, axis=1)
        start = xp.reshape(xp.take(first, xp.reshape(sorted_key, (-1,)), axis=0), (d, m))
        held = xp.cumulative_sum(ranked, axis=1) - ranked - start
    shift = m * xp.arange(d, dtype=xp.int64, device=device)[:, None]
    held = scatter(xp, xp.reshape(held, (-1,)), xp.reshape(order + shift, (-1,)), d * m)
    held = xp.reshape(held, (d, m))
    weight = 1 if amounts is None else amounts
    own_total = xp.reshape(xp.take(flat, xp.reshape(key, (-1,)), axis=0), (d, m))
    left = xp.cumulative_sum(weight * (2 * held + weight), axis=1)
    right = xp.cumulative_sum(weight * (2 * (held - own_total) + weight), axis=1)
    squares = xp.sum(counts * counts, axis=1)
    before = xp.take(xp.cumulative_sum(squares) - squares, blocks.block_at, axis=0)[None, :]
    # at the end of a block all its squares are on the left, and none on the right
    own_squares = xp.take(squares, blocks.block_at, axis=0)[None, :]
    return left - before, right + before + own_squares


def _chosen_rows(xp: Namespace, lists: Array, feature: Array, block_at: Array) -> tuple[Array, Array]:
    """Return the rows (m,) of each block in the order of one of its lists, and that list at each position."""
    m = lists.shape[1]
    feature_at = xp.take(feature, block_at, axis=0)
    at = xp.arange(m, dtype=xp.int64, device=array_api_compat.device(lists))
    return xp.take(xp.reshape(lists, (-1,)), feature_at * m + at, axis=0), feature_at


def _left_weights(xp: Namespace, data: SortedRows, rows: Array, counts: Array, position: Array) -> Array:
    """Sum the class weights (k, c) of each block up to a position; `rows` (m,) are in order."""
    ends = xp.asarray(data.class_ends, dtype=rows.dtype, device=array_api_compat.device(rows))
    amounts = xp.astype(rows[None, :] < ends[:, None], xp.int64)
    if data.weights is not None:
        amounts = amounts * xp.take(data.weights, rows, axis=0)[None, :]
    running = xp.cumulative_sum(amounts, axis=1)  # (c, m)
    up_to = xp.cumulative_sum(counts, axis=1)
    before = xp.cumulative_sum(up_to, axis=0) - up_to
    below = xp.permute_dims(xp.take(running, position, axis=1), (1, 0)) - before
    return xp.concat((below[:, :1], below[:, 1:] - below[:, :-1]), axis=1)
