"""Blocks of rows: histograms of what rows carry, blocks divided in two, and scores changed by the side.

A block is a run of positions of `order`, which holds row ids: the rows of one node. Blocks are given by
`starts` and `sizes`, Python integers, which growth knows. All sums are sums of integers: every backend, chunk
and thread gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Device, Namespace
from arraylearn.backend.arrays.segments import block_index, paired_histogram, scatter
from arraylearn.backend.memory import row_chunks

__all__ = ["BlockSplits", "add_to_sides", "block_histograms", "split_blocks"]


class BlockSplits(NamedTuple):
    """Blocks of `order`, and how each is split in two."""

    starts: Sequence[int]
    sizes: Sequence[int]
    features: Sequence[int]  # the column that splits each block
    thresholds: Sequence[int]  # rows with a larger bin go right; -1: as `goes_right` says
    goes_right: Array | None  # (at most k, n_bins) bool, as many lines as have a -1; None where none has


def block_histograms(
    xp: Namespace,
    bins: Array,
    packed: Array,
    order: Array,
    starts: Sequence[int],
    sizes: Sequence[int],
    n_bins: int,
) -> Array:
    """Sum the packed gradients of each block by column, up to each bin.

    Parameters
    ----------
    bins : uint8 array (d, n)
        Column-major bins in ``range(n_bins)``.
    packed : int64 array (n,)
        Packed gradients.
    order : int64 array (m,)
        Row ids.
    starts, sizes : sequences of k int
        The blocks.
    n_bins : int
        Number of bins.

    Returns
    -------
    int64 array (k, d, n_bins)
        Running sums over the bins.
    """
    rows, block = _rows_of_blocks(xp, order, starts, sizes)
    weights = xp.take(packed, rows, axis=0)
    parts = []
    for f in row_chunks(bins.shape[0], 40 * rows.shape[0]):
        taken = xp.take(bins[f, :], rows, axis=1)
        parts.append(paired_histogram(xp, taken, block, n_bins, len(sizes), weights))
    sums = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
    return xp.cumulative_sum(xp.permute_dims(sums, (1, 0, 2)), axis=-1)


def _rows_of_blocks(
    xp: Namespace, order: Array, starts: Sequence[int], sizes: Sequence[int]
) -> tuple[Array, Array]:
    """Return the row ids of all blocks, one block after the other, and the block of each."""
    position, block = _positions(xp, array_api_compat.device(order), starts, sizes)
    return xp.take(order, position, axis=0), block


def _positions(
    xp: Namespace, device: Device, starts: Sequence[int], sizes: Sequence[int]
) -> tuple[Array, Array]:
    total = sum(sizes)
    size = xp.asarray(list(sizes), dtype=xp.int64, device=device)
    first = xp.asarray(list(starts), dtype=xp.int64, device=device)
    block = block_index(xp, size, total)
    before = xp.cumulative_sum(size) - size
    position = xp.arange(total, dtype=xp.int64, device=device) + xp.take(first - before, block, axis=0)
    return position, block


def split_blocks(xp: Namespace, bins: Array, order: Array, splits: BlockSplits) -> tuple[Array, Array]:
    """Sort the rows of each block by the side they take; rows of one side keep their order.

    Parameters
    ----------
    bins, order
        As for `block_histograms`; `order` belongs to this function from now on.
    splits : BlockSplits
        The k blocks.

    Returns
    -------
    order : int64 array (m,)
        In each block first the rows that go left.
    left_sizes : int64 array (k,)
        How many they are.
    """
    device = array_api_compat.device(order)
    rows, block, right = _sides(xp, bins, order, splits)
    running = xp.cumulative_sum(right, include_initial=True)
    size = xp.asarray(list(splits.sizes), dtype=xp.int64, device=device)
    end = xp.cumulative_sum(size)
    base = xp.take(running, end - size, axis=0)
    n_right = xp.take(running, end, axis=0) - base
    n_left = size - n_right
    rank_right = running[:-1] - xp.take(base, block, axis=0)
    index = xp.arange(rows.shape[0], dtype=xp.int64, device=device)
    rank_left = index - xp.take(end - size, block, axis=0) - rank_right
    place = xp.where(right == 1, xp.take(n_left, block, axis=0) + rank_right, rank_left)
    place = place + xp.take(xp.asarray(list(splits.starts), dtype=xp.int64, device=device), block, axis=0)
    moved = scatter(xp, rows + 1, place, order.shape[0])
    return xp.where(moved > 0, moved - 1, order), n_left


def _sides(xp: Namespace, bins: Array, order: Array, splits: BlockSplits) -> tuple[Array, Array, Array]:
    """Return the rows of all blocks, the block of each, and 1 for those that go right."""
    device = array_api_compat.device(order)
    rows, block = _rows_of_blocks(xp, order, splits.starts, splits.sizes)
    column, threshold = (
        xp.take(xp.asarray(list(part), dtype=xp.int64, device=device), block, axis=0)
        for part in (splits.features, splits.thresholds)
    )
    bin_at = xp.take(xp.reshape(bins, (-1,)), column * bins.shape[1] + rows, axis=0)
    bin_at = xp.astype(bin_at, xp.int64)
    right = bin_at > threshold
    if splits.goes_right is not None:
        cell = xp.where(threshold < 0, block, 0) * splits.goes_right.shape[1] + bin_at
        right = xp.where(threshold < 0, xp.take(xp.reshape(splits.goes_right, (-1,)), cell, axis=0), right)
    return rows, block, xp.astype(right, xp.int64)


def add_to_sides(
    xp: Namespace,
    scores: Array,
    bins: Array,
    order: Array,
    splits: BlockSplits,
    values: Sequence[Sequence[int]],
) -> Array:
    """Add one of two integers to the scores of the rows of a block: that of the side they take.

    Parameters
    ----------
    scores : int32 array (n,)
        Belongs to this function from now on.
    bins, order
        As for `block_histograms`; the blocks do not overlap.
    splits : BlockSplits
        The k blocks. Those with the same value on both sides are not looked at.
    values : two sequences of k int
        For the left and for the right.

    Returns
    -------
    int32 array (n,)
        The sums.
    """
    rows, block, right = _sides(xp, bins, order, splits)
    k, device = len(splits.sizes), array_api_compat.device(scores)
    value = xp.asarray([*values[0], *values[1]], dtype=xp.int32, device=device)
    steps = xp.take(value, block + k * right, axis=0)
    return scores + scatter(xp, steps, rows, scores.shape[0])
