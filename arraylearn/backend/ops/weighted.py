"""The best Gini split of every presorted list in every block, rows counted by weight."""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.blocks import block_max, first_in_block, steps
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.backend.native import native
from arraylearn.backend.ops.gini import gini_scores

__all__ = ["WeightedSplits", "running_weights", "weighted_splits"]


class WeightedSplits(NamedTuple):
    """The best split of each list in each block."""

    best: Array  # (d, k) `gini_scores`; -inf where there is no split
    position: Array  # (d, k) int64: the last one of the left side, the first among equals; -1: no split
    left: Array  # (c, d, k) class weights of the left side; 0 where there is no split
    known: Array  # (c, d, k) class weights of the block, added up in the order of the list


def weighted_splits(
    xp: Namespace,
    lists: Array,
    columns: Array,
    labels: Array,
    weights: Array | None,
    starts: Array,
    block_at: Array,
    *,
    n_classes: int,
    least: float,
) -> WeightedSplits:
    """Find the best split of each list in each block by `gini_scores`; no value is missing.

    Parameters
    ----------
    lists, columns, starts, block_at
        As for `gini_split`; rows in any order.
    labels : int array (n,)
        The class of each row.
    weights : int64 or float array (n,), optional
        The weight of each row; default: 1.
    least : float
        Least weight on a side.

    Returns
    -------
    WeightedSplits
        Weights are added up from the first position of a list on; a block has what is added within it.
    """
    fast = native(xp, "weighted_splits")
    given = labels, weights, starts, block_at, n_classes
    if fast and (found := fast(lists, columns, *given, least)) is not None:
        return WeightedSplits(*found)
    parts = [
        _split_some(xp, lists[f, :], columns[f, :], *given, least)
        for f in row_chunks(lists.shape[0], 64 * lists.shape[1] * n_classes)
    ]
    best, position, left, known = (list(fields) for fields in zip(*parts, strict=True))
    return WeightedSplits(
        xp.concat(best, axis=0),
        xp.concat(position, axis=0),
        xp.concat(left, axis=1),
        xp.concat(known, axis=1),
    )


def running_weights(
    xp: Namespace,
    lists: Array,
    labels: Array,
    weights: Array | None,
    starts: Array,
    block_at: Array,
    n_classes: int,
    is_known: Array | None = None,
) -> tuple[Array, Array]:
    """Class weights left of each position (c, d, m), itself included, and of each block (c, d, k).

    `is_known` (d, m) tells which positions count; default: all.
    """
    device = array_api_compat.device(lists)
    label = xp.reshape(xp.take(labels, xp.reshape(lists, (-1,)), axis=0), lists.shape)
    classes = xp.arange(n_classes, dtype=label.dtype, device=device)
    is_class = label[None, ...] == classes[:, None, None]
    if is_known is not None:
        is_class = is_class & is_known[None, ...]
    if weights is None:
        amount = xp.astype(is_class, xp.int64)
    else:
        weight = xp.reshape(xp.take(weights, xp.reshape(lists, (-1,)), axis=0), lists.shape)
        amount = xp.where(is_class, weight[None, ...], xp.zeros_like(weight)[None, ...])
    running = xp.cumulative_sum(amount, axis=-1)
    ends = xp.concat((starts[1:], xp.asarray([lists.shape[1]], dtype=xp.int64, device=device))) - 1
    at_end = xp.take(running, ends, axis=-1)
    before = xp.concat((xp.zeros_like(at_end[..., :1]), at_end[..., :-1]), axis=-1)
    return running - xp.take(before, block_at, axis=-1), at_end - before


def _split_some(
    xp: Namespace,
    lists: Array,
    columns: Array,
    labels: Array,
    weights: Array | None,
    starts: Array,
    block_at: Array,
    n_classes: int,
    least: float,
) -> WeightedSplits:
    dtype = accumulator_dtype(Place(xp, array_api_compat.device(lists)))
    values = xp.take_along_axis(columns, xp.astype(lists, xp.int64), axis=-1)
    left, known = running_weights(xp, lists, labels, weights, starts, block_at, n_classes)
    right = xp.take(known, block_at, axis=-1) - left
    n_left, n_right = (xp.astype(xp.sum(side, axis=0), dtype) for side in (left, right))
    is_allowed = steps(xp, values) & (n_left >= least) & (n_right >= least) & (n_right > 0) & (n_left > 0)
    scores = xp.where(is_allowed, gini_scores(xp, left, right), -xp.inf)
    best = block_max(xp, scores, starts, block_at)
    is_hit = is_allowed & (scores == xp.take(best, block_at, axis=1))
    position = first_in_block(xp, is_hit, starts, block_at)
    at = xp.broadcast_to(xp.maximum(position, 0)[None, ...], (n_classes, *position.shape))
    found = xp.where((position >= 0)[None, ...], xp.take_along_axis(left, at, axis=-1), 0)
    return WeightedSplits(best, position, xp.astype(found, left.dtype), known)
