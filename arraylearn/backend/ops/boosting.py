"""Boosting: gradients as packed integers, their histograms, the best splits, the ways of the rows.

Gradient and hessian of a row are rounded to integers and packed into one int64 (hessian in the upper half),
so that one addition adds both and no sum depends on its order: every backend, chunk and thread gives the same
bits. Scores are integers too, in units of ``2**-SCORE_BITS``.

A block is a run of positions of `order`, which holds row ids: the rows of one node. Blocks are given by
`starts` and `sizes`, Python integers, because whoever grows a tree knows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Device, Namespace
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.native import native
from arraylearn.backend.ops.blocks import block_index, scatter
from arraylearn.backend.ops.segments import paired_histogram
from arraylearn.backend.score_tables import GRADIENT_BITS, SCORE_BITS, STEP_BITS, TABLE_END, score_function

__all__ = [
    "GRADIENT_BITS",
    "SCORE_BITS",
    "Gradients",
    "Splits",
    "add_to_blocks",
    "best_splits",
    "block_histograms",
    "log_loss_gradients",
    "pair_columns",
    "split_blocks",
    "unpack",
]


class Gradients(NamedTuple):
    """First and second derivatives of the loss, packed."""

    packed: Array  # (k, n) int64: hessian << 32 plus gradient
    shifts: Array  # (2, k) int64: units are 2 ** (shift - 30) for gradient and hessian


class Splits(NamedTuple):
    """The best split of each of k nodes."""

    feature: Array  # (k,) int64
    position: Array  # (k,) int64: the last bin on the left (of the sorted bins for a nominal column)
    is_missing_left: Array  # (k,) bool
    left: Array  # (k,) int64 packed sum of the left side
    total: Array  # (k,) int64 packed sum of the node
    goes_right: Array  # (k, n_bins) bool


def _look_up(xp: Namespace, scores: Array, name: str) -> Array:
    """Evaluate the sigmoid, or the exponential of scores up to 0, to the same bits on every backend."""
    device = array_api_compat.device(scores)
    values, slopes = (xp.asarray(part, dtype=xp.float32, device=device) for part in score_function(name))
    end = TABLE_END << SCORE_BITS
    bounded = xp.minimum(xp.maximum(scores, _full(xp, -end, scores)), _full(xp, end, scores)) + end
    bits = SCORE_BITS - STEP_BITS
    cell = xp.reshape(xp.astype(bounded >> bits, xp.int64), (-1,))
    rest = xp.astype(bounded & ((1 << bits) - 1), xp.float32)
    slope = xp.reshape(xp.take(slopes, cell, axis=0), scores.shape)
    return xp.reshape(xp.take(values, cell, axis=0), scores.shape) + slope * rest


def _full(xp: Namespace, number: int, like: Array) -> Array:
    return xp.full((1,), number, dtype=like.dtype, device=array_api_compat.device(like))


def log_loss_gradients(xp: Namespace, scores: Array, codes: Array, weights: Array | None) -> Gradients:
    r"""Derive the log loss by the scores.

    .. math:: g_{ci} = w_i (p_{ci} - [y_i = c]), \quad h_{ci} = w_i p_{ci} (1 - p_{ci})

    Parameters
    ----------
    scores : int32 array (k, n)
        In units of ``2**-SCORE_BITS``. One line: the log odds of class 1 of two; else one line per class.
    codes : int64 array (n,)
        Classes.
    weights : float32 array (n,), optional
        In [0, 1].

    Returns
    -------
    Gradients
        The same bits on every backend: the probabilities come from a table with straight lines between its
        entries (to 3e-6), sums of exponentials are sums of integers.
    """
    if fast := native(xp, "log_loss_gradients"):
        return Gradients(*fast(scores, codes, weights))
    k = scores.shape[0]
    device = array_api_compat.device(scores)
    if k == 1:
        probability = _look_up(xp, scores, "sigmoid")
        is_class = xp.astype(codes == 1, xp.float32)[None, :]
    else:
        power = _look_up(xp, scores - xp.max(scores, axis=0, keepdims=True), "exponential")
        total = xp.sum(xp.astype(power * 2.0**24, xp.int64), axis=0, keepdims=True)
        probability = power / (xp.astype(total, xp.float32) * 2.0**-24)
        probability = xp.minimum(probability, xp.ones_like(probability))
        is_class = xp.astype(codes[None, :] == xp.arange(k, device=device)[:, None], xp.float32)
    gradient, hessian = probability - is_class, probability * (1.0 - probability)
    if weights is not None:
        gradient, hessian = gradient * weights, hessian * weights
    gradient, gradient_shift = _as_integers(xp, gradient)
    hessian, hessian_shift = _as_integers(xp, hessian)
    return Gradients((hessian << 32) + gradient, xp.stack((gradient_shift, hessian_shift)))


def _as_integers(xp: Namespace, x: Array) -> tuple[Array, Array]:
    """Round floats of [-1, 1] to integers whose absolute values sum to less than 2**31, line by line."""
    units = xp.astype(xp.round(x * 2.0**GRADIENT_BITS), xp.int64)
    total = xp.sum(xp.abs(units), axis=1)
    powers = xp.arange(GRADIENT_BITS, 62, dtype=xp.int64, device=array_api_compat.device(x))
    shift = xp.sum(xp.astype((total[:, None] >> powers) > 0, xp.int64), axis=1)
    half = (xp.ones_like(shift) << shift) >> 1
    return (units + half[:, None]) >> shift[:, None], shift


def pair_columns(xp: Namespace, bins: Array, n_bins: int) -> Array:
    """Prepare columns (d, n) for `block_histograms`: what the library adds up fastest, or `bins` itself."""
    if fast := native(xp, "pair_columns"):
        return fast(bins, n_bins)
    return bins


def block_histograms(
    xp: Namespace,
    bins: Array,
    pairs: Array,
    packed: Array,
    order: Array,
    starts: Sequence[int],
    sizes: Sequence[int],
    n_bins: int,
) -> Array:
    """Sum the packed gradients of each block by column and bin.

    Parameters
    ----------
    bins : uint8 array (d, n)
        Column-major bins in ``range(n_bins)``.
    pairs : array
        What `pair_columns` made of them.
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
        Packed sums.
    """
    if fast := native(xp, "block_histograms"):
        return fast(bins, pairs, packed, order, starts, sizes, n_bins)
    rows, block = _rows_of_blocks(xp, order, starts, sizes)
    weights = xp.take(packed, rows, axis=0)
    parts = []
    for f in row_chunks(bins.shape[0], 40 * rows.shape[0]):
        taken = xp.take(bins[f, :], rows, axis=1)
        parts.append(paired_histogram(xp, taken, block, n_bins, len(sizes), weights))
    return xp.permute_dims(parts[0] if len(parts) == 1 else xp.concat(parts, axis=0), (1, 0, 2))


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


def best_splits(
    xp: Namespace,
    sums: Array,
    regular: Array,
    least_share: Array,
    is_used: Array | None,
    *,
    n_numeric: int,
    has_missing: bool,
) -> Splits:
    r"""Find the split of each node with the largest gain.

    .. math:: \frac{G_L^2}{H_L + \lambda} + \frac{G_R^2}{H_R + \lambda} - \frac{G^2}{H + \lambda}

    Parameters
    ----------
    sums : int64 array (k, d, n_bins)
        Packed sums by bin; the last bin is that of missing values.
    regular : float32 array (3,)
        :math:`\lambda`, the least hessian of a side and the smoothing of categories, in units of the hessian.
    least_share : float32 array (k,)
        The least hessian of a side as a share of the node's; the larger of the two holds.
    is_used : bool array (d,), optional
        The columns that may be split.
    n_numeric : int
        How many columns are numeric; the others are nominal, tried in the order of G / (H + smoothing), and
        have :math:`\lambda` + smoothing in the formula.
    has_missing : bool
        Whether missing values are tried on both sides; if not, they are on the right.

    Returns
    -------
    Splits
        Of equal gains the first: columns in order, positions in order, missing values right before left.
        Where no side is heavy enough, the sums of the sides say so.
    """
    k, d, n_bins = sums.shape
    device = array_api_compat.device(sums)
    rank = None
    if n_numeric < d:
        rank = _rank_categories(xp, sums[:, n_numeric:, :], regular[2])
        sums_nominal = xp.take_along_axis(sums[:, n_numeric:, :], rank, axis=-1)
        sums = xp.concat((sums[:, :n_numeric, :], sums_nominal), axis=1)
    # a set of categories chosen by its gradients is worth less than a threshold of the same gain
    ridge = xp.where(xp.arange(d, device=device) < n_numeric, regular[0], regular[0] + regular[2])
    flat, left, total = _search(xp, sums, ridge, regular[1], least_share, is_used, has_missing)
    is_left = flat >= d * n_bins
    cell = xp.where(is_left, flat - d * n_bins, flat)
    feature, position = cell // n_bins, cell % n_bins
    bin_idx = xp.arange(n_bins, dtype=xp.int64, device=device)[None, :]
    goes_right = bin_idx > position[:, None]
    # a node without missing values sends those of later rows where most of its weight is
    here = xp.take(
        xp.reshape(sums[:, :, n_bins - 1], (-1,)), xp.arange(k, device=device) * d + feature, axis=0
    )
    is_left = xp.where(here == 0, left >= total - left, is_left)
    if rank is not None:
        nominal = xp.where(feature >= n_numeric, feature - n_numeric, 0)
        of_node = xp.arange(k, dtype=xp.int64, device=device) * (d - n_numeric) + nominal
        mine = xp.take(xp.reshape(rank, (k * (d - n_numeric), n_bins)), of_node, axis=0)
        by_rank = xp.take_along_axis(goes_right, xp.argsort(mine, axis=-1), axis=-1)
        goes_right = xp.where((feature >= n_numeric)[:, None], by_rank, goes_right)
    is_missing_bin = bin_idx == n_bins - 1
    goes_right = xp.where(is_missing_bin, ~is_left[:, None], goes_right)
    return Splits(feature, position, is_left, left, total, goes_right)


def unpack(packed: Array) -> tuple[Array, Array]:
    """Return gradient and hessian of packed sums; also for Python integers."""
    hessian = (packed + (1 << 31)) >> 32
    return packed - (hessian << 32), hessian


def _search(
    xp: Namespace,
    sums: Array,
    ridge: Array,
    least: Array,
    least_share: Array,
    is_used: Array | None,
    has_missing: bool,
) -> tuple[Array, Array, Array]:
    """Return the best of (missing left, feature, bin), and the packed sums of its left and of all."""
    if fast := native(xp, "search_splits"):
        best, left, total = fast(sums, ridge, least, least_share, is_used, has_missing)
        return best, left, total
    k, d, n_bins = sums.shape
    running = xp.cumulative_sum(sums, axis=-1)
    total = running[:, 0, n_bins - 1]
    least = xp.maximum(least, least_share * _halves(xp, total)[1])
    sides = [running]
    if has_missing:
        sides.append(running + sums[:, :, n_bins - 1 :])
    gains = [xp.reshape(_gains(xp, side, total, ridge, least, is_used), (k, d * n_bins)) for side in sides]
    best = xp.astype(xp.argmax(xp.concat(gains, axis=1), axis=1), xp.int64)
    every = xp.concat([xp.reshape(side, (k, d * n_bins)) for side in sides], axis=1)
    left = xp.take_along_axis(every, best[:, None], axis=1)[:, 0]
    return best, left, total


def _gains(
    xp: Namespace, left: Array, total: Array, ridge: Array, least: Array, is_used: Array | None
) -> Array:
    """Score (k, d, n_bins) left sums; 0 where a side is too light."""
    left_gradient, left_hessian = _halves(xp, left)
    total_gradient, total_hessian = _halves(xp, total[:, None, None])
    right_gradient, right_hessian = total_gradient - left_gradient, total_hessian - left_hessian
    is_heavy = xp.minimum(left_hessian, right_hessian) >= least[:, None, None]
    if is_used is not None:
        is_heavy = is_heavy & is_used[None, :, None]
    # without a ridge an empty side would divide by nothing; it is not heavy anyway
    left_hessian, right_hessian = (
        xp.maximum(hessian + ridge[:, None], xp.full_like(hessian[:1, :1, :1], 0.5))
        for hessian in (left_hessian, right_hessian)
    )
    gains = left_gradient * left_gradient / left_hessian
    gains = gains + right_gradient * right_gradient / right_hessian
    return xp.where(is_heavy, gains, 0.0)


def _halves(xp: Namespace, packed: Array) -> tuple[Array, Array]:
    """Return gradient and hessian as floats; the hessian may lack one unit, which a choice can do without."""
    hessian = packed >> 32
    gradient, _ = unpack(packed)
    return xp.astype(gradient, xp.float32), xp.astype(hessian, xp.float32)


def _rank_categories(xp: Namespace, sums: Array, smoothing: Array) -> Array:
    """Order the bins of nominal columns by smoothed gradient per hessian; empty and missing ones last."""
    gradient, hessian = unpack(sums)
    ratio = xp.astype(gradient, xp.float32) / (xp.astype(hessian, xp.float32) + smoothing)
    bin_idx = xp.arange(sums.shape[-1], dtype=xp.int64, device=array_api_compat.device(sums))
    # with two halves per hessian no ratio comes near these
    ratio = xp.where(sums == 0, 1e30, ratio)
    ratio = xp.where(bin_idx == sums.shape[-1] - 1, 2e30, ratio)
    return xp.astype(xp.argsort(ratio, axis=-1, stable=True), xp.int64)


def split_blocks(
    xp: Namespace,
    bins: Array,
    order: Array,
    starts: Sequence[int],
    sizes: Sequence[int],
    features: Sequence[int],
    thresholds: Sequence[int],
    goes_right: Array,
) -> tuple[Array, Array]:
    """Sort the rows of each block by the side they take; rows of one side keep their order.

    Parameters
    ----------
    bins, order, starts, sizes
        As for `block_histograms`; `order` belongs to this function from now on.
    features : sequence of k int
        The column that splits each block.
    thresholds : sequence of k int
        Where not negative, rows with a larger bin go right, and no need to look at `goes_right`.
    goes_right : bool array (k, n_bins)
        Which bins go right.

    Returns
    -------
    order : int64 array (m,)
        In each block first the rows that go left.
    left_sizes : int64 array (k,)
        How many they are.
    """
    if fast := native(xp, "split_blocks"):
        order, left_sizes = fast(bins, order, starts, sizes, features, thresholds, goes_right)
        return order, left_sizes
    device = array_api_compat.device(order)
    n, n_bins = bins.shape[1], goes_right.shape[1]
    position, block = _positions(xp, device, starts, sizes)
    rows = xp.take(order, position, axis=0)
    column = xp.take(xp.asarray(list(features), dtype=xp.int64, device=device), block, axis=0)
    bin_at = xp.astype(xp.take(xp.reshape(bins, (-1,)), column * n + rows, axis=0), xp.int64)
    right = xp.astype(xp.take(xp.reshape(goes_right, (-1,)), block * n_bins + bin_at, axis=0), xp.int64)
    running = xp.cumulative_sum(right, include_initial=True)
    size = xp.asarray(list(sizes), dtype=xp.int64, device=device)
    end = xp.cumulative_sum(size)
    base = xp.take(running, end - size, axis=0)
    n_right = xp.take(running, end, axis=0) - base
    n_left = size - n_right
    rank_right = running[:-1] - xp.take(base, block, axis=0)
    index = xp.arange(rows.shape[0], dtype=xp.int64, device=device)
    rank_left = index - xp.take(end - size, block, axis=0) - rank_right
    place = xp.where(right == 1, xp.take(n_left, block, axis=0) + rank_right, rank_left)
    place = place + xp.take(xp.asarray(list(starts), dtype=xp.int64, device=device), block, axis=0)
    moved = scatter(xp, rows + 1, place, order.shape[0])
    return xp.where(moved > 0, moved - 1, order), n_left


def add_to_blocks(
    xp: Namespace,
    scores: Array,
    order: Array,
    starts: Sequence[int],
    sizes: Sequence[int],
    values: Sequence[int],
) -> Array:
    """Add one integer to the scores of all rows of a block.

    Parameters
    ----------
    scores : int32 array (n,)
        Belongs to this function from now on.
    order, starts, sizes
        As for `block_histograms`; the blocks do not overlap.
    values : sequence of k int
        One per block.

    Returns
    -------
    int32 array (n,)
        The sums.
    """
    if fast := native(xp, "add_to_blocks"):
        return fast(scores, order, starts, sizes, values)
    rows, block = _rows_of_blocks(xp, order, starts, sizes)
    value = xp.asarray(list(values), dtype=xp.int32, device=array_api_compat.device(scores))
    return scores + scatter(xp, xp.take(value, block, axis=0), rows, scores.shape[0])
