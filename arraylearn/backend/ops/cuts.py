"""Forests: the best cuts of many nodes of many trees at once, and their rows sent on.

The rows of a node lie side by side, node after node. An entry is one whole number for a row in a tree:
``row << payload_bits | weight << class_bits | class``, where the weight says how often the row was drawn.
Sorting packed keys node | bin | payload orders all rows of all nodes by one column each, with everything that
a scan needs inside the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.blocks import block_index, block_max, first_in_block
from arraylearn.backend.arrays.order import compress
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.native import native

__all__ = [
    "NO_GAIN",
    "CutRules",
    "Draws",
    "best_cuts",
    "cut_scores",
    "divide_rows",
    "draw_cuts",
    "group_bits",
]

# A node of many rows looks at up to 2**8 groups of neighbouring bins, of four rows or more on average.
MOST_GROUP_BITS = 8
ROWS_PER_GROUP_BITS = 2
# What a cut without gain scores: lost in the rounding of all others.
NO_GAIN = 2.0**-100


class CutRules(NamedTuple):
    """What cuts are made of, and which are allowed."""

    n_bins: int
    class_bits: int
    payload_bits: int  # of weight and class together
    least: int = 1  # least weight of a side
    many: int = 1 << 62  # nodes of so many rows look at groups of bins


class Draws(NamedTuple):
    """Random numbers that say where columns are cut."""

    numbers: Array  # (k, f) int64 of range(2**32): one for each column of each node
    positions: Array  # (d * n_bins,) int64: where bins lie, ascending through all columns


def group_bits(size: int, rules: CutRules) -> int:
    """Return how many bits tell the groups of bins apart that a node of so many rows looks at."""
    bin_bits = rules.n_bins.bit_length()
    if size < rules.many:
        return bin_bits
    return min(MOST_GROUP_BITS, size.bit_length() - 1 - ROWS_PER_GROUP_BITS, bin_bits)


def best_cuts(
    xp: Namespace,
    bins: Array,
    entries: Array,
    sizes: Sequence[int],
    features: Array,
    counts: Array,
    rules: CutRules,
    draws: Draws | None = None,
) -> tuple[Array, Array, Array, Array, Array]:
    r"""Find the cut of each node with the purest sides, among some columns of its own.

    .. math:: (M l_1 - m L_1)^2 / (m (M - m)) \quad\text{or}\quad \sum_c l_c^2 / m + \sum_c r_c^2 / (M - m),

    for two classes or more: of the weights :math:`L_c` of the classes, together :math:`M`, the left side has
    :math:`l_c`, together :math:`m`, and the right side :math:`r_c`. Both are largest where the Gini gain is;
    they are made of whole numbers, each rounded to float32 once, so that all backends find the same cuts.

    A node of ``rules.many`` rows or more looks at cuts between groups of bins only: equal runs of bins from
    its least bin on, as short as its number of groups allows (see `group_bits`).

    Parameters
    ----------
    bins : integer array (n, d)
        Row-major bins in ``range(n_bins)``.
    entries : int64 array (m,)
        Rows with weight and class, the rows of each node side by side.
    sizes : sequence of k int
        Rows of each node, one at least.
    features : int64 array (k, f)
        The columns that each node looks at.
    counts : int64 array (k, c)
        Weight of each class in each node.
    rules : CutRules
        How entries are packed, and what is allowed.
    draws : Draws, optional
        Each column offers one cut only: between the positions of the least and the greatest bin of the node,
        ``low`` and ``high``, the last bin whose position is at most ``low + ((high - low) * number >> 32)``.

    Returns
    -------
    score : float32 array (k,)
        The formula, and a trifle so that a cut without gain scores, too; 0 where no cut is allowed.
    slot : int64 array (k,)
        Which of the columns; the first of the best.
    cut : int64 array (k,)
        Bins above it go right: halfway between the last bin (group) on the left and the first on the right.
    n_left : int64 array (k,)
        Number of rows on the left.
    left : int64 array (k, c)
        Weight of each class on the left.

    Where the score is 0 the other results mean nothing.
    """
    if fast := native(xp, "best_cuts"):
        score, slot, cut, n_left, left = fast(bins, entries, sizes, features, counts, rules, draws)
        return score, slot, cut, n_left, left
    device = array_api_compat.device(entries)
    m, (k, f) = entries.shape[0], features.shape
    size = xp.asarray(list(sizes), dtype=xp.int64, device=device)
    block = block_index(xp, size, m)
    widths = xp.asarray([group_bits(part, rules) for part in sizes], dtype=xp.int64, device=device)

    def look_at(few: slice) -> tuple[Array, Array]:
        some = features[:, few]
        if draws is None:
            return _cut_columns(xp, bins, entries, size, widths, block, some, counts, rules)
        drawn = draws._replace(numbers=draws.numbers[:, few])
        return _score_draws(xp, bins, entries, size, block, some, counts, rules, drawn)

    found = [look_at(few) for few in row_chunks(f, (80 + 48 * counts.shape[1]) * m)]
    best, cuts = (xp.concat([part[i] for part in found], axis=0) for i in (0, 1))
    slot = xp.astype(xp.argmax(best, axis=0), xp.int64)
    at = slot * k + xp.arange(k, dtype=xp.int64, device=device)
    score, cut = (xp.take(xp.reshape(part, (-1,)), at, axis=0) for part in (best, cuts))
    node = xp.arange(k, dtype=xp.int64, device=device)
    feature = xp.take(xp.reshape(features, (-1,)), node * f + slot, axis=0)
    is_left = ~_goes_right(xp, bins, entries, block, feature, cut, rules.payload_bits)
    n_left = histogram(xp, block, k, xp.astype(is_left, xp.int64))
    code, weight = _unpack(entries, rules)
    n_classes = counts.shape[1]
    cell = block * n_classes + code
    left = histogram(xp, cell, k * n_classes, xp.where(is_left, weight, xp.zeros_like(weight)))
    return score, slot, cut, n_left, xp.reshape(left, (k, n_classes))


def cut_scores(xp: Namespace, left: Array, total: Array) -> Array:
    """Score cuts as `best_cuts` says, of the class weights (c, ...) of the left side and of the node.

    0 where a side is empty.
    """
    n_left, n = xp.sum(left, axis=0), xp.sum(total, axis=0)
    n_right = n - n_left
    is_cut = (n_left > 0) & (n_right > 0)
    n_left, n_right = (xp.where(is_cut, part, xp.ones_like(part)) for part in (n_left, n_right))
    if left.shape[0] <= 2:
        surplus = xp.astype(left[-1, ...] * n - n_left * total[-1, ...], xp.float32)
        scores = surplus * surplus / xp.astype(n_left * n_right, xp.float32) + NO_GAIN
    else:
        right = total - left
        squares = [xp.astype(xp.sum(side * side, axis=0), xp.float32) for side in (left, right)]
        scores = squares[0] / xp.astype(n_left, xp.float32) + squares[1] / xp.astype(n_right, xp.float32)
    return xp.where(is_cut, scores, xp.zeros_like(scores))


def _unpack(entries: Array, rules: CutRules) -> tuple[Array, Array]:
    """Return classes and weights of entries or of keys that end like them."""
    weight = (entries & ((1 << rules.payload_bits) - 1)) >> rules.class_bits
    return entries & ((1 << rules.class_bits) - 1), weight


def _gather_bins(xp: Namespace, bins: Array, entries: Array, columns: Array, payload_bits: int) -> Array:
    """Return the bins, as int64, of the rows of entries in columns (..., m)."""
    cell = (entries >> payload_bits) * bins.shape[1] + columns
    found = xp.take(xp.reshape(bins, (-1,)), xp.reshape(cell, (-1,)), axis=0)
    return xp.reshape(xp.astype(found, xp.int64), columns.shape)


def _cut_columns(
    xp: Namespace,
    bins: Array,
    entries: Array,
    size: Array,
    widths: Array,
    block: Array,
    features: Array,
    counts: Array,
    rules: CutRules,
) -> tuple[Array, Array]:
    """Return best score and cut (f, k) of each node in each of its columns."""
    device = array_api_compat.device(entries)
    m, (k, f) = entries.shape[0], features.shape
    starts = xp.cumulative_sum(size) - size
    bin_bits = rules.n_bins.bit_length()
    columns = xp.take(xp.permute_dims(features, (1, 0)), block, axis=1)
    key = (block << bin_bits) + _gather_bins(xp, bins, entries, columns, rules.payload_bits)
    key = (key << rules.payload_bits) + (entries & ((1 << rules.payload_bits) - 1))
    key = xp.sort(key, axis=-1)
    code, weight = _unpack(key, rules)
    bin_at = (key >> rules.payload_bits) & ((1 << bin_bits) - 1)
    # the node of a position is the same in every sorted line
    low = xp.take(bin_at, starts, axis=1)
    spread = xp.take(bin_at, starts + size - 1, axis=1) - low
    spread_bits = xp.astype(spread > 0, xp.int64)
    for bit in range(1, bin_bits):
        spread_bits = spread_bits + xp.astype((spread >> bit) > 0, xp.int64)
    shift = xp.maximum(spread_bits - widths, xp.zeros_like(spread_bits))
    group = (bin_at - xp.take(low, block, axis=1)) >> xp.take(shift, block, axis=1)
    classes = xp.arange(counts.shape[1], dtype=xp.int64, device=device)[:, None, None]
    left = xp.where(code == classes, weight, xp.zeros_like(weight))  # (c, f, m)
    before = xp.cumulative_sum(counts, axis=0) - counts
    total, before = (xp.permute_dims(xp.take(part, block, axis=0), (1, 0)) for part in (counts, before))
    left = xp.cumulative_sum(left, axis=-1) - before[:, None, :]
    n_left = xp.sum(left, axis=0)
    is_allowed = (n_left >= rules.least) & (xp.sum(total, axis=0) - n_left >= rules.least)
    last = xp.zeros((f, 1), dtype=xp.bool, device=device)
    is_allowed = is_allowed & xp.concat((group[:, 1:] != group[:, :-1], last), axis=1)
    scores = cut_scores(xp, left, total[:, None, :])
    scores = xp.where(is_allowed, scores, xp.zeros_like(scores))
    best = block_max(xp, scores, starts, block)
    first = first_in_block(xp, scores == xp.take(best, block, axis=1), starts, block)
    line = m * xp.arange(f, dtype=xp.int64, device=device)[:, None]
    here = xp.maximum(first, xp.zeros_like(first))
    after = xp.minimum(here + 1, xp.full_like(here, m - 1))
    sides = [
        xp.reshape(xp.take(xp.reshape(group, (-1,)), xp.reshape(line + at, (-1,)), axis=0), (f, k))
        for at in (here, after)
    ]
    return best, low + ((((sides[0] + sides[1]) >> 1) + 1) << shift) - 1


def draw_cuts(xp: Namespace, features: Array, low: Array, high: Array, draws: Draws, n_bins: int) -> Array:
    """Return the cuts (f, k) that `best_cuts` describes, between the bins `low` and `high` (f, k)."""
    first = xp.permute_dims(features, (1, 0)) * n_bins
    ends = [
        xp.reshape(xp.take(draws.positions, xp.reshape(first + part, (-1,)), axis=0), low.shape)
        for part in (low, high)
    ]
    drawn = ends[0] + (((ends[1] - ends[0]) * xp.permute_dims(draws.numbers, (1, 0))) >> 32)
    at = xp.searchsorted(draws.positions, xp.reshape(drawn, (-1,)), side="right")
    cut = xp.reshape(xp.astype(at, xp.int64), low.shape) - 1 - first
    return xp.maximum(xp.minimum(cut, high - 1), low)  # bins may share a position


def _score_draws(
    xp: Namespace,
    bins: Array,
    entries: Array,
    size: Array,
    block: Array,
    features: Array,
    counts: Array,
    rules: CutRules,
    draws: Draws,
) -> tuple[Array, Array]:
    """Return score and cut (f, k) of each node in each of its columns: one drawn cut per column."""
    (k, f), n_classes = features.shape, counts.shape[1]
    starts = xp.cumulative_sum(size) - size
    columns = xp.take(xp.permute_dims(features, (1, 0)), block, axis=1)
    bin_at = _gather_bins(xp, bins, entries, columns, rules.payload_bits)
    low, high = -block_max(xp, -bin_at, starts, block), block_max(xp, bin_at, starts, block)
    cut = draw_cuts(xp, features, low, high, draws, rules.n_bins)
    code, weight = _unpack(entries, rules)
    weight = xp.where(bin_at <= xp.take(cut, block, axis=1), weight, xp.zeros_like(weight))
    cell = xp.broadcast_to(block * n_classes + code, columns.shape)
    left = xp.reshape(histogram(xp, cell, k * n_classes, weight), (f, k, n_classes))
    scores = cut_scores(xp, xp.permute_dims(left, (2, 0, 1)), xp.permute_dims(counts, (1, 0))[:, None, :])
    n_left = xp.sum(left, axis=-1)
    is_allowed = (n_left >= rules.least) & (xp.sum(counts, axis=1) - n_left >= rules.least) & (low < high)
    return xp.where(is_allowed, scores, xp.zeros_like(scores)), cut


def _goes_right(
    xp: Namespace, bins: Array, entries: Array, block: Array, feature: Array, cut: Array, payload_bits: int
) -> Array:
    columns = xp.take(feature, block, axis=0)
    return _gather_bins(xp, bins, entries, columns, payload_bits) > xp.take(cut, block, axis=0)


def divide_rows(
    xp: Namespace,
    bins: Array,
    entries: Array,
    sizes: Sequence[int],
    feature: Array,
    cut: Array,
    is_kept: Array,
    n_kept: tuple[int, int],
    payload_bits: int,
) -> Array:
    """Send the rows of each node to its two sides, and leave out the sides that are not kept.

    Parameters
    ----------
    bins : integer array (n, d)
        Row-major bins.
    entries : int64 array (m,)
        Rows with weight and class, the rows of each node side by side.
    sizes : sequence of k int
        Rows of each node.
    feature, cut : int64 arrays (k,)
        Rows with larger bins of the column go right.
    is_kept : bool array (2, k)
        Whether the left sides, and the right sides, are wanted.
    n_kept : two int
        How many rows the kept left sides have, and the right sides.
    payload_bits : int
        What entries hold below the row.

    Returns
    -------
    int64 array (n_kept[0] + n_kept[1],)
        The entries of the left sides, node after node, then those of the right sides, in their old order.
    """
    if fast := native(xp, "divide_rows"):
        return fast(bins, entries, sizes, feature, cut, is_kept, n_kept, payload_bits)
    size = xp.asarray(list(sizes), dtype=xp.int64, device=array_api_compat.device(entries))
    block = block_index(xp, size, entries.shape[0])
    right = _goes_right(xp, bins, entries, block, feature, cut, payload_bits)
    parts = []
    for side in (0, 1):
        takes = right if side else ~right
        parts.append(compress(xp, entries, takes & xp.take(is_kept[side, :], block, axis=0), n_kept[side]))
    return xp.concat(parts)
