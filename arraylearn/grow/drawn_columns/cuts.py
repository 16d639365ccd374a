"""The best cuts of many nodes of many trees at once, where each node has its own set of columns.

The rows of a node are contiguous, one node after the other. An entry is one integer for a row in a tree:
``row << payload_bits | weight << class_bits | class``, where the weight is how often the row was drawn.
Sorting packed keys node | bin | payload orders the rows within every node by one column per node; weight and
class are read from the sorted keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.segments import block_index, block_max, first_in_block, histogram, scatter
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.grow.bounds import Constraint, keeps_bounds
from arraylearn.grow.formulas import NO_GAIN, draw_position, gini_of_two, gini_squares, group_bits
from arraylearn.measures.count_measures import Measure

__all__ = ["CutRules", "Draws", "best_cuts"]


class CutRules(NamedTuple):
    """The layout of entries, and which cuts are allowed."""

    n_bins: int
    class_bits: int
    payload_bits: int  # of weight and class together
    min_side: int = 1  # least weight of a side
    large: int = 1 << 62  # nodes of so many rows or more score cuts between groups of bins
    side_rows: int = 1  # least number of rows on a side


class Draws(NamedTuple):
    """Random numbers that determine one cut per column, if cuts are drawn; measure and limits of a cut."""

    numbers: Array | None  # (k, f) int64 of range(2**32): one for each column of each node; None: all cuts
    positions: Array | None  # (d * n_bins,) int64: positions of the bins, ascending through all columns
    judge: Measure | None = None  # of class weights (..., branch, class); None: the Gini gain
    constraint: Constraint | None = None


class _Blocks(NamedTuple):
    """Nodes and their rows."""

    entries: Array  # (m,) int64
    size: Array  # (k,) int64
    start: Array  # (k,) int64
    node: Array  # (m,) int64: the node of each row
    counts: Array  # (k, c) int64
    judge: Measure | None = None  # as in `Draws`
    constraint: Constraint | None = None


def best_cuts(
    xp: Namespace,
    bins: Array,
    entries: Array,
    sizes: Sequence[int],
    features: Array,
    counts: Array,
    rules: CutRules,
    draws: Draws | None = None,
) -> tuple[Array, Array, Array]:
    r"""Find the cut of each node with the purest sides, among some columns of its own.

    .. math:: (M l_1 - m L_1)^2 / (m (M - m)) \quad\text{or}\quad \sum_c l_c^2 / m + \sum_c r_c^2 / (M - m),

    for two classes or more: of the weights :math:`L_c` of the classes, together :math:`M`, the left side has
    :math:`l_c`, together :math:`m`, and the right side :math:`r_c`. Both are largest where the Gini gain is;
    they are made of integers, each rounded to float32 once, so that all backends find the same cuts.

    A node of ``rules.large`` rows or more scores cuts between groups of bins only: runs of equally many bins
    from its least bin on, as short as possible with at most 256 groups of four rows or more on average.

    Parameters
    ----------
    bins : integer array (d, n)
        Bins in ``range(n_bins)``.
    entries : int64 array (m,)
        Rows with weight and class, the rows of each node side by side.
    sizes : sequence of k int
        Rows of each node, one at least.
    features : int64 array (k, f)
        The columns that each node considers.
    counts : int64 array (k, c)
        Weight of each class in each node.
    rules : CutRules
        How entries are packed, and which cuts are allowed.
    draws : Draws, optional
        The measure of cuts and, if there are `numbers`, the only cut of each column that is scored: with the
        positions ``low`` and ``high`` of the least and the greatest bin of the node, the last bin whose
        position is at most ``low + ((high - low) * number >> 32)``.

    Returns
    -------
    score : float32 array (k,)
        The formula, plus `NO_GAIN` for two classes; 0 where no cut is allowed.
    column : int64 array (k,)
        The first of the best.
    cut : int64 array (k,)
        Bins above it go right: halfway between the last bin (group) on the left and the first on the right.

    Where the score is 0 the other results are meaningless.
    """
    device = array_api_compat.device(entries)
    m, (k, f) = entries.shape[0], features.shape
    size = xp.asarray(list(sizes), dtype=xp.int64, device=device)
    judge, constraint = (None, None) if draws is None else draws[2:]
    blocks = size, xp.cumulative_sum(size) - size, block_index(xp, size, m)
    nodes = _Blocks(entries, *blocks, counts, judge, constraint)
    widths = xp.asarray([_group_bits(rows, rules) for rows in sizes], dtype=xp.int64, device=device)
    found = []
    for some in row_chunks(f, 240 * m * (1 if judge is None else counts.shape[1])):
        if draws is None or draws.numbers is None:
            found.append(_cut_columns(xp, bins, nodes, features[:, some], rules, widths))
        else:
            part = draws._replace(numbers=draws.numbers[:, some])
            found.append(_score_draws(xp, bins, nodes, features[:, some], rules, part))
    best, cuts = (xp.concat([part[i] for part in found], axis=0) for i in (0, 1))
    choice = xp.astype(xp.argmax(best, axis=0), xp.int64)
    node = xp.arange(k, dtype=xp.int64, device=device)
    score, cut = (xp.take(xp.reshape(part, (-1,)), choice * k + node, axis=0) for part in (best, cuts))
    column = xp.take(xp.reshape(features, (-1,)), node * f + choice, axis=0)
    return score, column, cut


def _group_bits(size: int, rules: CutRules) -> int:
    """Return the bits of the number of a group, by the rows of the node; in small nodes a group is a bin."""
    bin_bits = rules.n_bins.bit_length()
    return bin_bits if size < rules.large else group_bits(size.bit_length(), bin_bits)


def _unpack(entries: Array, rules: CutRules) -> tuple[Array, Array]:
    """Return classes and weights of entries, or of keys, whose last bits are the same."""
    weight = (entries & ((1 << rules.payload_bits) - 1)) >> rules.class_bits
    return entries & ((1 << rules.class_bits) - 1), weight


def _gather_bins(xp: Namespace, bins: Array, entries: Array, columns: Array, payload_bits: int) -> Array:
    """Return the bins, as int64, of the rows of entries in columns (..., m)."""
    cell = columns * bins.shape[1] + (entries >> payload_bits)
    found = xp.take(xp.reshape(bins, (-1,)), xp.reshape(cell, (-1,)), axis=0)
    return xp.reshape(xp.astype(found, xp.int64), columns.shape)


def _cut_columns(
    xp: Namespace, bins: Array, nodes: _Blocks, features: Array, rules: CutRules, widths: Array
) -> tuple[Array, Array]:
    """Return best score and cut (f, k) of each node in each column; `widths` (k,): see `_group_bits`."""
    device = array_api_compat.device(bins)
    m, (k, f) = nodes.entries.shape[0], features.shape
    bin_bits, low_bits = rules.n_bins.bit_length(), rules.payload_bits
    columns = xp.take(xp.permute_dims(features, (1, 0)), nodes.node, axis=1)
    key = (nodes.node << bin_bits) + _gather_bins(xp, bins, nodes.entries, columns, low_bits)
    key = xp.sort((key << low_bits) + (nodes.entries & ((1 << low_bits) - 1)), axis=-1)
    code, weight = _unpack(key, rules)
    bin_at = (key >> low_bits) & ((1 << bin_bits) - 1)
    # the node of a position is the same for every sorted column
    low = xp.take(bin_at, nodes.start, axis=1)
    spread = xp.take(bin_at, nodes.start + nodes.size - 1, axis=1) - low
    spread_bits = xp.astype(spread > 0, xp.int64)
    for bit in range(1, bin_bits):
        spread_bits = spread_bits + xp.astype((spread >> bit) > 0, xp.int64)
    shift = xp.maximum(spread_bits - widths, xp.zeros_like(spread_bits))
    group = (bin_at - xp.take(low, nodes.node, axis=1)) >> xp.take(shift, nodes.node, axis=1)
    scores = _score_positions(xp, code, weight, nodes, rules.min_side)
    last = xp.zeros((f, 1), dtype=xp.bool, device=device)
    is_end = xp.concat((group[:, 1:] != group[:, :-1], last), axis=1)
    if rules.side_rows > 1:
        rank = xp.arange(1, m + 1, dtype=xp.int64, device=device) - xp.take(nodes.start, nodes.node, axis=0)
        above = xp.take(nodes.size, nodes.node, axis=0) - rank
        is_end = is_end & ((rank >= rules.side_rows) & (above >= rules.side_rows))[None, :]
    if nodes.constraint is not None:
        is_end = is_end & _keeps_trend(xp, nodes, columns, code, weight)
    scores = xp.where(is_end, scores, xp.zeros_like(scores))
    best = block_max(xp, scores, nodes.start, nodes.node)
    first = first_in_block(xp, scores == xp.take(best, nodes.node, axis=1), nodes.start, nodes.node)
    offset = m * xp.arange(f, dtype=xp.int64, device=device)[:, None]
    here = xp.maximum(first, xp.zeros_like(first))
    after = xp.minimum(here + 1, xp.full_like(here, m - 1))
    sides = [
        xp.reshape(xp.take(xp.reshape(group, (-1,)), xp.reshape(offset + at, (-1,)), axis=0), (f, k))
        for at in (here, after)
    ]
    return best, low + ((((sides[0] + sides[1]) >> 1) + 1) << shift) - 1


def _score_positions(xp: Namespace, code: Array, weight: Array, nodes: _Blocks, min_side: int) -> Array:
    """Score the cuts after each position of the sorted rows (f, m) at which the bin changes."""
    counts, n_classes = nodes.counts, nodes.counts.shape[1]
    n = xp.sum(counts, axis=1)
    run = partial(_run, xp, nodes)
    n_left = run(weight, n)
    if nodes.judge is not None:
        of_class = [
            run(xp.where(code == c, weight, xp.zeros_like(weight)), counts[:, c]) for c in range(n_classes)
        ]
        left = xp.stack(of_class, axis=-1)
        return _judge(xp, nodes.judge, left, xp.take(counts, nodes.node, axis=0), min_side)
    if n_classes <= 2:
        last = counts[:, -1]
        held = run(xp.where(code == n_classes - 1, weight, xp.zeros_like(weight)), last)
        n, last = (xp.take(part, nodes.node, axis=0) for part in (n, last))
        return _score_pairs(xp, (n_left, held), (n, last), min_side)
    # l_c**2 grows by w (2 l_c + w) where a row of weight w joins class c, and r_c**2 shrinks by w (2 r_c - w)
    cell = nodes.node * n_classes + code
    before = _class_weight_before(xp, cell, weight, xp.reshape(counts, (-1,)))
    rest = xp.take(xp.reshape(counts, (-1,)), xp.reshape(cell, (-1,)), axis=0)
    rest = xp.reshape(rest, cell.shape) - before
    squares = xp.sum(counts * counts, axis=1)
    inside = run(weight * (2 * before + weight), squares)
    outside = xp.take(squares, nodes.node, axis=0) - run(weight * (2 * rest - weight), squares)
    return _score_squares(xp, n_left, xp.take(n, nodes.node, axis=0), (inside, outside), min_side)


def _run(xp: Namespace, nodes: _Blocks, values: Array, total: Array) -> Array:
    """Return the running sums of values within each node, given the sum of each node."""
    before = xp.take(xp.cumulative_sum(total) - total, nodes.node, axis=0)
    return xp.cumulative_sum(values, axis=-1) - before


def _keeps_trend(xp: Namespace, nodes: _Blocks, columns: Array, code: Array, weight: Array) -> Array:
    """Whether the cuts after each position of the sorted rows (f, m) keep trends and bounds."""
    counts, constraint = nodes.counts, nodes.constraint
    assert constraint is not None
    total = counts[:, -1], xp.sum(counts, axis=1)
    of_one = xp.where(code == counts.shape[1] - 1, weight, xp.zeros_like(weight))
    left = _run(xp, nodes, of_one, total[0]), _run(xp, nodes, weight, total[1])
    at = xp.take(xp.stack(total), nodes.node, axis=1)
    bounds = xp.take(constraint.bounds, nodes.node, axis=1)
    trend = xp.reshape(xp.take(constraint.trend, xp.reshape(columns, (-1,)), axis=0), columns.shape)
    return keeps_bounds(xp, trend, (bounds[0, :], bounds[1, :]), left, (at[0, :], at[1, :]))


def _class_weight_before(xp: Namespace, cell: Array, weight: Array, counts: Array) -> Array:
    """Return the weight (f, m) of the same `cell`, a class of a node, before each position."""
    f, m = cell.shape
    bits, device = m.bit_length(), array_api_compat.device(cell)
    key = xp.sort((cell << bits) + xp.arange(m, dtype=xp.int64, device=device), axis=-1)
    offset = m * xp.arange(f, dtype=xp.int64, device=device)[:, None]
    position = xp.reshape((key & ((1 << bits) - 1)) + offset, (-1,))
    weight = xp.reshape(xp.take(xp.reshape(weight, (-1,)), position, axis=0), (f, m))
    # cells come in the same order in every row
    start = xp.take(xp.cumulative_sum(counts) - counts, key[0, :] >> bits, axis=0)
    before = xp.cumulative_sum(weight, axis=-1) - weight - start
    return xp.reshape(scatter(xp, xp.reshape(before, (-1,)), position, f * m), (f, m))


def _score_pairs(
    xp: Namespace, left: tuple[Array, Array], total: tuple[Array, Array], min_side: int
) -> Array:
    """Score cuts of two classes by the weights of both and of the second one; 0 where a side is too light."""
    (n_left, held), (n, last) = left, total
    n_right = n - n_left
    is_allowed = (n_left >= min_side) & (n_right >= min_side)
    product = xp.where(is_allowed, n_left * n_right, xp.ones_like(n_left))
    surplus = xp.astype(held * n - n_left * last, xp.float32)
    scores = gini_of_two(surplus, xp.astype(product, xp.float32), NO_GAIN)
    return xp.where(is_allowed, scores, xp.zeros_like(scores))


def _score_squares(
    xp: Namespace, n_left: Array, n: Array, squares: tuple[Array, Array], min_side: int
) -> Array:
    """Score cuts by the sums of squared class weights of both sides; 0 where a side is too light."""
    n_right = n - n_left
    is_allowed = (n_left >= min_side) & (n_right >= min_side)
    sides = (xp.where(is_allowed, part, xp.ones_like(part)) for part in (n_left, n_right))
    n_left, n_right, inside, outside = (xp.astype(part, xp.float32) for part in (*sides, *squares))
    scores = gini_squares(inside, n_left, outside, n_right)
    return xp.where(is_allowed, scores, xp.zeros_like(scores))


def _judge(xp: Namespace, judge: Measure, left: Array, total: Array, min_side: int) -> Array:
    """Score cuts by a measure of the class weights of both sides; 0 where a side is too light."""
    sides = xp.stack((left, xp.broadcast_to(total, left.shape) - left), axis=-2)
    is_allowed = xp.all(xp.sum(sides, axis=-1) >= min_side, axis=-1)
    dtype = accumulator_dtype(Place(xp, array_api_compat.device(left)))
    scores = xp.astype(judge(xp, xp.astype(sides, dtype)), xp.float32)
    scores = xp.where(scores > 0, scores, xp.zeros_like(scores)) + NO_GAIN
    return xp.where(is_allowed, scores, xp.zeros_like(scores))


def _draw_cuts(xp: Namespace, features: Array, low: Array, high: Array, draws: Draws, n_bins: int) -> Array:
    """Return the cuts (f, k) that `best_cuts` describes, between the bins `low` and `high` (f, k)."""
    assert draws.numbers is not None
    assert draws.positions is not None
    first = xp.permute_dims(features, (1, 0)) * n_bins
    ends = [
        xp.reshape(xp.take(draws.positions, xp.reshape(first + part, (-1,)), axis=0), low.shape)
        for part in (low, high)
    ]
    drawn = draw_position(ends[0], ends[1], xp.permute_dims(draws.numbers, (1, 0)))
    at = xp.searchsorted(draws.positions, xp.reshape(drawn, (-1,)), side="right")
    cut = xp.reshape(xp.astype(at, xp.int64), low.shape) - 1 - first
    return xp.maximum(xp.minimum(cut, high - 1), low)  # bins of equal position may lie outside


def _score_draws(
    xp: Namespace, bins: Array, nodes: _Blocks, features: Array, rules: CutRules, draws: Draws
) -> tuple[Array, Array]:
    """Return score and cut (f, k) of each node in each of its columns: one drawn cut per column."""
    (k, f), counts, n_classes = features.shape, nodes.counts, nodes.counts.shape[1]
    columns = xp.take(xp.permute_dims(features, (1, 0)), nodes.node, axis=1)
    bin_at = _gather_bins(xp, bins, nodes.entries, columns, rules.payload_bits)
    low = -block_max(xp, -bin_at, nodes.start, nodes.node)
    high = block_max(xp, bin_at, nodes.start, nodes.node)
    cut = _draw_cuts(xp, features, low, high, draws, rules.n_bins)
    code, weight = _unpack(nodes.entries, rules)
    is_left = bin_at <= xp.take(cut, nodes.node, axis=1)
    weight = xp.where(is_left, weight, xp.zeros_like(weight))
    cell = xp.broadcast_to(nodes.node * n_classes + code, columns.shape)
    left = xp.reshape(histogram(xp, cell, k * n_classes, weight), (f, k, n_classes))
    n_left, n = xp.sum(left, axis=-1), xp.sum(counts, axis=1)
    if nodes.judge is not None:
        scores = _judge(xp, nodes.judge, left, counts, rules.min_side)
    elif n_classes <= 2:
        scores = _score_pairs(xp, (n_left, left[..., -1]), (n, counts[:, -1]), rules.min_side)
    else:
        squares = [xp.sum(side * side, axis=-1) for side in (left, counts - left)]
        scores = _score_squares(xp, n_left, n, (squares[0], squares[1]), rules.min_side)
    is_cut = low < high
    if (limits := nodes.constraint) is not None:
        drawn = xp.reshape(xp.permute_dims(features, (1, 0)), (-1,))
        trend = xp.reshape(xp.take(limits.trend, drawn, axis=0), (f, k))
        bounds, sides = (limits.bounds[0, :], limits.bounds[1, :]), (left[..., -1], n_left)
        is_cut = is_cut & keeps_bounds(xp, trend, bounds, sides, (counts[:, -1], n))
    if rules.side_rows > 1:
        cell = xp.broadcast_to(nodes.node, columns.shape)
        below = histogram(xp, cell, k, xp.astype(is_left, xp.int64))
        is_cut = is_cut & (below >= rules.side_rows) & (nodes.size - below >= rules.side_rows)
    return xp.where(is_cut, scores, xp.zeros_like(scores)), cut
