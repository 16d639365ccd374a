"""Trees grown on histograms of all columns, in compiled loops: single trees and boosted ones.

A tree grows depth first, the smaller child first, so that its rows stay in the cache and few tables are in use.
A node has a table of sums by column and bin. Its smaller child is counted, the larger one is what remains::

    order of the rows   |  left child   |      right child        |
                        first         middle                    stop
    table of the node - table of the smaller child = table of the larger child

A row carries one integer. Two families share the loop: a *pair* (two classes, or hessian and gradient) is one
packed integer per cell, ``(first << 32) + second``, kept as running sums over the bins; *class vectors* have
one count per cell and class.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.cpu.jit import Host, Whole, compiled_part, entry, part
from arraylearn.backend.cpu.prefetch import prefetch
from arraylearn.backend.cpu.unsigned import index
from arraylearn.grow import formulas

__all__ = [
    "CHILD",
    "FEATURE",
    "GINI",
    "HIGH",
    "LOW",
    "MISSING_RIGHT",
    "NEWTON",
    "NEWTON_BOUNDED",
    "NONE",
    "SIZE",
    "START",
    "Newton",
    "Nodes",
    "Plan",
    "Rows",
    "Scratch",
    "advance",
    "fill",
    "grow",
    "join",
    "pass_bounds",
]

# Criteria: NEWTON under bounds keeps the values of nodes within bounds, for columns along which they may only
# rise or fall.
GINI, NEWTON, NEWTON_BOUNDED = range(3)
# Lines of `Nodes.ints`.
FEATURE, LOW, HIGH, CHILD, MISSING_RIGHT, START, SIZE = range(7)
# Columns of `Scratch.stack`, `Scratch.jobs` and `Scratch.cuts`; the last has the left sum of a cut, too.
NODE, FIRST, STOP, DEPTH, TABLE, LEFT = range(6)
NONE = -1

# Rows between the one whose cells are asked for and the one that is added.
_AHEAD = 24
# A sum over so many rows at a time runs in vectors.
_LANES = 8
# Up to so many rows are sorted by insertion.
_INSERTED = 32
_NO_BIN = np.int32(2**31 - 1)
# Up to here the Gini score sums the surplus of each class, beyond it the squared counts.
_SURPLUS_CLASSES = 4
# The lower half of a packed number.
_LOWER = (1 << 32) - 1
# The score of what bounds forbid.
_NEVER = np.float32(-1e38)
# Where categories without rows, and missing values, come in the order of categories: beyond all ratios.
_EMPTY_RATIO, _MISSING_RATIO = np.float32(1e30), np.float32(2e30)
_ALL_BUT_SIGN = (1 << 63) - 1

_gini_pair = part(formulas.gini_pair)
_gini_surplus = part(formulas.gini_surplus)
_gini_squares = part(formulas.gini_squares)
_pair_gain = part(formulas.pair_gain)
_surplus_gain = part(formulas.surplus_gain)
_squares_gain = part(formulas.squares_gain)
_newton_score = part(formulas.newton_score)
_newton_value = part(formulas.newton_value)
_newton_gain = part(formulas.newton_gain)
_unpack = part(formulas.unpack)


class Rows(NamedTuple):
    """The rows of a tree in the order of its nodes; arrays have some entries to spare at their end."""

    cells: Host  # (n * d,) the bins of a row side by side
    bins: Host  # (d, n) the same, those of a column side by side
    order: Host  # (m,) uint32 row ids
    carry: Host  # (m,) int64: a packed pair, or (weight << 32) + class
    spare_order: Host  # (m,) uint32
    spare_carry: Host  # (m,) int64


class Newton(NamedTuple):
    """What NEWTON needs besides."""

    unit: float
    ridge: float  # added to hessians, in units
    smoothing: float  # of categories, as a hessian in units
    l2: float  # added to hessians
    least_hessian: float  # of a side
    least_leaf: float  # rows of average hessian on a side


class Plan(NamedTuple):
    """What is the same for all nodes; a unit is that of the packed hessian and gradient."""

    criterion: int
    n_bins: int  # the last one holds missing values
    n_numeric: (
        int  # columns from there on are nominal: their bins are tried in the order of G / (H + smoothing)
    )
    max_depth: int
    max_leaves: int  # the largest gain is split first until there are so many; 0: all that gain enough
    small: int  # nodes of up to so many rows are put in order, not counted
    keeps_rows: bool  # whether the rows end in the order of the leaves (but for those at the greatest depth)
    has_missing: bool  # whether `use_missing` has any column
    least_rows: int  # of a node that may be split
    least_weight: float  # of a node that may be split: weight, or hessian
    least_side: float  # of a side: weight, or hessian in units
    min_gain: float
    newton: Newton
    is_used: Host  # (d,) bool: the columns that may be split
    use_missing: Host  # (d,) bool: those of them with missing values, which are tried on both sides
    trend: Host  # (d,) int8: 1 where values may only rise along a column, -1 where they may only fall


class Nodes(NamedTuple):
    """Nodes in slots, the root in slot 0.

    The children of a node whose right rows begin at position p are in 2 p - 1 and 2 p, those of a node whose
    rows, from p on, were not divided in 2 p + 1 and 2 p + 2: no two threads write to one slot.
    """

    ints: Host  # (7, s) int32
    gain: Host  # (s,) float32
    sums: Host  # (s, w) int64
    bounds: Host  # (s, 2) float64: least and greatest value, for NEWTON_BOUNDED
    sets: Host  # (s, b) uint8: bins that go right, where a column is nominal


class Scratch(NamedTuple):
    """Buffers of one thread; the tables belong to all of them."""

    tables: Host  # (t, d * n_bins * w) int64
    free: Host  # (t,) int64: the tables that this thread may take
    n_free: Host  # (1,) int64: how many they are
    stack: Host  # (s, 6) int64: nodes to look at
    jobs: Host  # (s, 6) int64: nodes that are handed back
    cuts: Host  # (2 max_leaves, 6) int64: cuts that may be made
    cut_gains: Host  # (2 max_leaves,) float64: what they gain; 0 where it was made
    scores: Host  # (b,) float64
    bits: Host  # the same memory as int64, which orders numbers that are not negative
    found: Host  # (b,) int32: the bins of the rows of a small node, or of categories in their order
    running: Host  # (b,) int64: keys or sums of a small node, or of categories in their order
    ratios: Host  # (b,) float32
    sets: Host  # (2, n_bins) uint8: bins of a nominal column that go right, with missing values right or left
    heights: Host  # (2,) int64: how many nodes are on the stack, and how many jobs
    side: Host  # (2, w) int64: sums of the left side of a cut, and of the best one


class Column(NamedTuple):
    """Running sums of a column of a node, and what scores them."""

    first: Whole
    n: Whole
    total: Whole
    size: Whole
    missing: Whole  # added to all of them
    ridge: Any  # float32
    trend: Whole
    low: Any  # float32 bounds of values
    high: Any


# ---- rows


@entry
def fill(rows: Rows, ids: Host, loads: Host, first: Whole, stop: Whole) -> None:
    """Begin with the rows `ids` and what they carry, at some positions."""
    for i in range(first, stop):
        rows.order[i] = ids[i]
        rows.carry[i] = loads[ids[i]]


@part
def _count(
    rows: Rows, n_features: Whole, first: Whole, stop: Whole, n_bins: Whole, n_words: Whole, table: Host
) -> None:
    """Count rows into a table, two at a time: their additions need not wait for each other."""
    for i in range(table.shape[0]):
        table[i] = 0
    cells, order, carry = rows.cells, rows.order, rows.carry
    width, words, line = index(n_features), index(n_words), index(n_bins * n_words)
    at = first
    while at < stop:
        other = at + 1 if at + 1 < stop else at
        ahead = at + _AHEAD if at + _AHEAD + 1 < stop else at
        prefetch(cells, np.int64(order[ahead]) * n_features)
        prefetch(cells, np.int64(order[ahead + 1]) * n_features)
        load, next_load = carry[at], carry[other] if other > at else 0
        here, there = index(order[at]) * width, index(order[other]) * width
        if n_words == 1:
            cell = index(0)
            for j in range(width):
                table[cell + index(cells[here + j])] += load
                table[cell + index(cells[there + j])] += next_load
                cell += line
        else:
            cell, next_cell = index(load & _LOWER), index(next_load & _LOWER)
            load, next_load = load >> 32, next_load >> 32
            for j in range(width):
                table[cell + index(cells[here + j]) * words] += load
                table[next_cell + index(cells[there + j]) * words] += next_load
                cell += line
                next_cell += line
        at += 2


@part
def _add_up(table: Host, n_bins: Whole) -> None:
    """Make running sums over the bins of each column of a table of pairs."""
    for first in range(0, table.shape[0], n_bins):
        total = np.int64(0)
        for i in range(index(first), index(first + n_bins)):
            total += table[i]
            table[i] = total


@part
def _divide(rows: Rows, plan: Plan, nodes: Nodes, node: Whole, first: Whole, stop: Whole) -> Whole:
    """Put the left rows of a node that has a cut before the right ones; return how many go left."""
    feature, cut = nodes.ints[FEATURE, node], nodes.ints[LOW, node]
    column, order, carry = rows.bins[feature], rows.order, rows.carry
    spare_order, spare_carry = rows.spare_order, rows.spare_carry
    left, right = index(first), index(first)
    if feature >= plan.n_numeric:
        right_bins = nodes.sets[node]
        for i in range(index(first), index(stop)):
            row, load = order[i], carry[i]
            side = index(right_bins[column[row]])
            order[left] = row
            carry[left] = load
            spare_order[right] = row
            spare_carry[right] = load
            left += index(1) - side
            right += side
    else:
        # the bins that go right are one run: up to that of missing values, or with it
        begin = np.int64(cut + 1)
        run = np.uint64(plan.n_bins - 1 - begin + nodes.ints[MISSING_RIGHT, node])
        for i in range(index(first), index(stop)):
            row, load = order[i], carry[i]
            side = index(np.uint64(np.int64(column[row]) - begin) < run)
            order[left] = row
            carry[left] = load
            spare_order[right] = row
            spare_carry[right] = load
            left += index(1) - side
            right += side
    n_left = left - index(first)
    for i in range(index(first), right):
        order[n_left + i] = spare_order[i]
        carry[n_left + i] = spare_carry[i]
    return np.int64(n_left)


@entry
def advance(
    rows: Rows,
    plan: Plan,
    nodes: Nodes,
    node: Whole,
    first: Whole,
    stop: Whole,
    counts_left: bool,
    table: Host,
) -> Whole:
    """Divide one slice of the rows of a node that was split, and count those of one child; return n_left.

    Without a node (NONE) all rows of the slice are counted.
    """
    n_left, n_features, n_words = np.int64(0), plan.is_used.shape[0], nodes.sums.shape[1]
    begin, end = first, stop
    if node != NONE:
        n_left = _divide(rows, plan, nodes, node, first, stop)
        begin, end = (first, first + n_left) if counts_left else (first + n_left, stop)
    _count(rows, n_features, begin, end, plan.n_bins, n_words, table)
    return n_left


@entry
def join(parts: Host, table: Host, whole: Host, n_bins: Whole, is_pair: bool) -> None:
    """Sum the tables of the slices, and subtract the sum from that of the node; `whole` may be empty."""
    for i in range(table.shape[0]):
        total = np.int64(0)
        for t in range(parts.shape[0]):
            total += parts[t, i]
        table[i] = total
    if is_pair:
        _add_up(table, n_bins)
    for i in range(whole.shape[0]):
        whole[i] -= table[i]


# ---- the best cut of a node: column, the bins `low` and `high` beside the cut, gain; the left sums in `side`


@part
def _score_pairs(plan: Plan, column: Column, running: Host, scores: Host) -> None:
    """Score the running sums of a column; below 0, 0 for NEWTON, where a side is too light."""
    start, n, total = index(column.first), column.n, column.total
    if plan.criterion == GINI:
        n_all, held, lightest = np.float64(total >> 32), np.float64(total & _LOWER), plan.least_side
        for i in range(n):
            packed = running[start + index(i)]
            n_left, inside = np.float64(np.int32(packed >> 32)), np.float64(np.int32(packed))
            n_right = n_all - n_left
            score = _gini_pair(n_left, n_right, inside, held - inside)
            scores[i] = score if (n_left >= lightest) & (n_right >= lightest) else -1.0
        return
    ridge, half, zero, missing = column.ridge, np.float32(0.5), np.float32(0), column.missing
    gradient, hessian = np.float32(np.int32(total)), np.float32(total >> 32)
    ridged = hessian + np.float32(2) * ridge
    slope = gradient / (ridged if ridged > half else half)
    share, least = np.float32(plan.newton.least_leaf / column.size) * hessian, np.float32(plan.least_side)
    least = share if share > least else least
    if plan.criterion == NEWTON:
        for i in range(n):
            packed = running[start + index(i)] + missing
            left = np.float32(packed >> 32)
            right = hessian - left
            is_heavy = (left >= least) & (right >= least)
            left += ridge
            area = left * (right + ridge)
            score = _newton_score(np.float32(np.int32(packed)), left, slope, area if area > half else half)
            scores[i] = score if is_heavy else zero
        return
    low, high, trend = column.low, column.high, np.float32(column.trend)
    for i in range(n):
        packed = running[start + index(i)] + missing
        left, left_gradient = np.float32(packed >> 32), np.float32(np.int32(packed))
        right, right_gradient = hessian - left, gradient - left_gradient
        is_heavy = (left >= least) & (right >= least)
        left, right = left + ridge, right + ridge
        left, right = left if left > half else half, right if right > half else half
        left_value, right_value = -left_gradient / left, -right_gradient / right
        left_value = _clip(left_value, low, high)
        right_value = _clip(right_value, low, high)
        score = _newton_gain(left_gradient, left, left_value) + _newton_gain(
            right_gradient, right, right_value
        )
        scores[i] = score if is_heavy & (trend * (right_value - left_value) >= zero) else _NEVER


@part
def _clip(value: Any, low: Any, high: Any) -> Any:
    value = value if value > low else low
    return value if value < high else high


@part
def _order_signed(bits: Host, n: Whole) -> None:
    """Turn the bits of any floats into integers of the same order; once more turns them back."""
    for i in range(n):
        bits[i] ^= (bits[i] >> 63) & _ALL_BUT_SIGN


@part
def _order_categories(plan: Plan, sums: Host, first: Whole, scratch: Scratch) -> None:
    """Write the bins of a nominal column by smoothed gradient per hessian, empty ones, then the missing last.

    `found` takes the bins, `running` their running sums.
    """
    n, smoothing = plan.n_bins, np.float32(plan.newton.smoothing)
    found, ratios, before = scratch.found, scratch.ratios, np.int64(0)
    for i in range(n):
        own = sums[first + i] - before
        before = sums[first + i]
        gradient, hessian = _unpack(own)
        ratio = np.float32(gradient) / (np.float32(hessian) + smoothing) if own != 0 else _EMPTY_RATIO
        ratio = _MISSING_RATIO if i == n - 1 else ratio
        at = i
        while at > 0 and ratios[at - 1] > ratio:
            ratios[at], found[at] = ratios[at - 1], found[at - 1]
            at -= 1
        ratios[at], found[at] = ratio, np.int32(i)
    total = np.int64(0)
    for i in range(n):
        own = index(first) + index(found[i])
        total += sums[own] - (sums[own - index(1)] if found[i] > 0 else 0)
        scratch.running[i] = total


@part
def _search_pairs(
    rows: Rows, plan: Plan, nodes: Nodes, scratch: Scratch, job: Host, is_nominal: bool, missing_left: bool
) -> tuple[Whole, Whole, Whole, Any]:
    """Search the numeric or the nominal columns of a node: its table, or, without one, its rows.

    With `missing_left` only columns with missing values are looked at, these on the left side of all cuts.
    Return column, the bins beside the cut (NONE: there is no cut) and what columns compete with; the left sum
    is left in ``side[1]``, the right bins of a nominal column in ``sets[missing_left]``.
    """
    scores, bits, n_bins, table = scratch.scores, scratch.bits, plan.n_bins, job[TABLE]
    node, first, size = job[NODE], job[FIRST], job[STOP] - job[FIRST]
    total = nodes.sums[node, 0]
    is_gini, is_bounded, weight = (
        plan.criterion == GINI,
        plan.criterion == NEWTON_BOUNDED,
        np.float64(total >> 32),
    )
    low_value, high_value, ridge = np.float32(0), np.float32(0), np.float32(plan.newton.ridge)
    if is_bounded:
        low_value, high_value = np.float32(nodes.bounds[node, 0]), np.float32(nodes.bounds[node, 1])
    if is_nominal:
        ridge += np.float32(plan.newton.smoothing)
    gain = _NEVER if is_bounded else np.float32(0)
    best = np.int64(-1) if is_gini else np.int64(0)
    if is_bounded:
        scores[0] = _NEVER
        _order_signed(bits, 1)
        best = bits[0]
    feature, low, high = np.int64(0), np.int64(NONE), np.int64(NONE)
    columns = plan.use_missing if missing_left else plan.is_used
    for j in range(plan.n_numeric if is_nominal else 0, columns.shape[0] if is_nominal else plan.n_numeric):
        if not columns[j]:
            continue
        start, missing, n, running = np.int64(j * n_bins), np.int64(0), n_bins, scratch.tables[table]
        if table == NONE:
            _sum_small(rows, columns.shape[0], j, first, size, scratch.found, scratch.running)
            running, start, n = scratch.running, np.int64(0), size
        elif missing_left:
            missing = running[start + n_bins - 1] - running[start + n_bins - 2]
        if is_nominal:
            _order_categories(plan, running, start, scratch)
            running, start = scratch.running, np.int64(0)
        trend = np.int64(plan.trend[j])
        column = Column(start, n, total, size, missing, ridge, trend, low_value, high_value)
        _score_pairs(plan, column, running, scores)
        if is_bounded:
            _order_signed(bits, n)
        top = bits[0]
        for i in range(n):
            top = bits[i] if bits[i] > top else top
        if top <= best:
            continue
        at = np.int64(0)
        if table == NONE:  # rows are in any order: of equal scores the least bin
            lowest = _NO_BIN
            for i in range(n):
                if bits[i] == top and scratch.found[i] < lowest:
                    lowest, at = scratch.found[i], np.int64(i)
        else:
            while bits[at] != top:
                at += 1
        if is_bounded:
            _order_signed(bits, n)
        reached = np.float32(_pair_gain(scores[at], weight)) if is_gini else np.float32(scores[at])
        if low != NONE and reached <= gain:
            continue
        best, gain, feature, low, high = top, reached, np.int64(j), at, at + 1
        scratch.side[1, 0] = running[start + at] + missing
        if table == NONE:
            low, next_bin = np.int64(scratch.found[at]), _NO_BIN
            for i in range(n):
                if low < scratch.found[i] < next_bin:
                    next_bin = scratch.found[i]
            high = np.int64(next_bin)
        elif is_nominal:
            right_bins = scratch.sets[1 if missing_left else 0]
            for i in range(n_bins):
                right_bins[scratch.found[i]] = i > at
        else:
            while high < n_bins - 1 and running[start + high] == running[start + at]:
                high += 1
    return feature, low, high, gain


@part
def _search_group(
    rows: Rows, plan: Plan, nodes: Nodes, scratch: Scratch, job: Host, is_nominal: bool
) -> tuple[Whole, Whole, Whole, Any, bool]:
    """Search with missing values on the right, and, where that is better, on the left: return this, too."""
    feature, low, high, gain = _search_pairs(rows, plan, nodes, scratch, job, is_nominal, False)
    if not plan.has_missing:
        return feature, low, high, gain, False
    left = scratch.side[1, 0]
    other, other_low, other_high, other_gain = _search_pairs(
        rows, plan, nodes, scratch, job, is_nominal, True
    )
    if other_gain > gain:
        return other, other_low, other_high, other_gain, True
    scratch.side[1, 0] = left
    return feature, low, high, gain, False


@part
def _full_score(plan: Plan, total: Whole, ridge: Any, score: Any) -> Any:
    """Make scores with different ridges comparable: what is left of q**2 / area is multiplied back."""
    half, zero = np.float32(0.5), np.float32(0)
    gradient, hessian = np.float32(np.int32(total)), np.float32(total >> 32)
    ridged = hessian + np.float32(2) * ridge
    ridged = ridged if ridged > half else half
    if plan.criterion == NEWTON_BOUNDED:
        return score
    return score * ridged + gradient * gradient / ridged if score > zero else zero


@part
def _find_pair_cut(
    rows: Rows, plan: Plan, nodes: Nodes, scratch: Scratch, job: Host
) -> tuple[Whole, Whole, Whole, Any, bool]:
    """Return column, bins beside the cut, gain, and whether missing values go right."""
    feature, low, high, gain, is_left = _search_group(rows, plan, nodes, scratch, job, False)
    if plan.criterion == GINI:
        return feature, low, high, gain, True
    node, n_bins = job[NODE], plan.n_bins
    total = nodes.sums[node, 0]
    if plan.n_numeric < plan.is_used.shape[0]:
        left, ridge = scratch.side[1, 0], np.float32(plan.newton.ridge)
        other, other_low, other_high, other_gain, other_left = _search_group(
            rows, plan, nodes, scratch, job, True
        )
        smoothed = ridge + np.float32(plan.newton.smoothing)
        if _full_score(plan, total, smoothed, other_gain) > _full_score(plan, total, ridge, gain):
            feature, low, high, gain, is_left = other, other_low, other_high, other_gain, other_left
            for i in range(n_bins):
                nodes.sets[node, i] = scratch.sets[1 if is_left else 0, i]
        else:
            scratch.side[1, 0] = left
    left, last = scratch.side[1, 0], feature * n_bins + n_bins - 1
    if scratch.tables[job[TABLE], last] == scratch.tables[job[TABLE], last - 1]:
        is_left = left >= total - left  # nothing is missing here: later rows go where most of the weight is
    if feature >= plan.n_numeric:
        nodes.sets[node, n_bins - 1] = not is_left
    return feature, low, high, gain, not is_left


@part
def _sum_small(
    rows: Rows, n_features: Whole, j: Whole, first: Whole, size: Whole, found: Host, running: Host
) -> None:
    """Write the bins of few rows, and for each of them the sum over the rows of no larger bin."""
    for i in range(size):
        found[i] = rows.cells[index(rows.order[first + i]) * index(n_features) + index(j)]
    padded = (size + _LANES - 1) // _LANES * _LANES
    for i in range(size, padded):
        found[i] = _NO_BIN
    for i in range(size):
        own, total = found[i], np.int64(0)
        for other in range(padded):
            total += rows.carry[first + other] if found[other] <= own else 0
        running[i] = total


@part
def _find_class_cut(
    rows: Rows, plan: Plan, nodes: Nodes, scratch: Scratch, job: Host
) -> tuple[Whole, Whole, Whole, Any, bool]:
    """Do what `_find_pair_cut` does for class vectors."""
    sums, table, first, size = nodes.sums[job[NODE]], job[TABLE], job[FIRST], job[STOP] - job[FIRST]
    n_features, n_classes, n_bins = plan.is_used.shape[0], sums.shape[0], plan.n_bins
    keys, least, here, chosen = scratch.running, plan.least_side, scratch.side[0], scratch.side[1]
    n_all, squares = np.int64(0), np.int64(0)
    for c in range(n_classes):
        n_all += sums[c]
        squares += sums[c] * sums[c]
    weight = np.float64(n_all)
    best, gain = -1.0, np.float32(-np.inf)
    feature, low, high = np.int64(0), np.int64(NONE), np.int64(NONE)
    for j in range(n_features):
        if table == NONE:
            _sort_small(rows, n_features, j, first, size, n_bins, scratch.found, keys)
        for c in range(n_classes):
            here[c] = 0
        counts, at_cell = scratch.tables[table], index(j * n_bins * n_classes)
        n_steps = size if table == NONE else n_bins
        n_left, on_left, on_right, column_best, is_best = np.int64(0), np.int64(0), squares, best, False
        for step in range(n_steps):
            # a row, or a bin with its classes, moves to the left side
            added = np.int64(0)
            if table == NONE:
                load = rows.carry[first + (keys[step] & _LOWER)]
                own, added = index(load & _LOWER), load >> 32
                held = here[own]
                on_left += added * (2 * held + added)
                on_right += added * (added - 2 * (sums[own] - held))
                here[own] = held + added
            else:
                for c in range(index(n_classes)):
                    more, held = counts[at_cell + c], here[c]
                    on_left += more * (2 * held + more)
                    on_right += more * (more - 2 * (sums[c] - held))
                    here[c] = held + more
                    added += more
                at_cell += index(n_classes)
            if added == 0:
                continue
            if is_best and high == NONE:
                high = (keys[step] >> 32) if table == NONE else np.int64(step)
            n_left += added
            if table == NONE and step + 1 < size and keys[step] >> 32 == keys[step + 1] >> 32:
                continue
            n_right = n_all - n_left
            if n_left < least or n_right < least:
                continue
            few, many = np.float64(n_left), np.float64(n_right)
            if n_classes > _SURPLUS_CLASSES:
                score = _gini_squares(np.float64(on_left), few, np.float64(on_right), many)
            else:
                score = 0.0
                for c in range(n_classes):
                    surplus = np.float64(here[c]) * many - np.float64(sums[c] - here[c]) * few
                    score += surplus * surplus
                score = _gini_surplus(score, few, many)
            if score <= column_best:
                continue
            column_best = score
            if n_classes > _SURPLUS_CLASSES:
                reached = np.float32(_squares_gain(score, np.float64(squares), weight))
            else:
                reached = np.float32(_surplus_gain(score, weight))
            reached = reached if reached > 0 else np.float32(0)
            if reached > gain or is_best:
                best, gain, feature, is_best = score, reached, np.int64(j), True
                low, high = (keys[step] >> 32) if table == NONE else np.int64(step), np.int64(NONE)
                for c in range(n_classes):
                    chosen[c] = here[c]
    return feature, low, high, gain, True


@part
def _sort_small(
    rows: Rows, n_features: Whole, j: Whole, first: Whole, size: Whole, n_bins: Whole, found: Host, keys: Host
) -> None:
    """Sort few rows by their bins: keys hold the bin and, in the lower half, the position."""
    width, column = index(n_features), index(j)
    if size <= _INSERTED:
        for i in range(size):
            key = (np.int64(rows.cells[index(rows.order[first + i]) * width + column]) << 32) + i
            at = i
            while at > 0 and keys[at - 1] > key:
                keys[at] = keys[at - 1]
                at -= 1
            keys[at] = key
        return
    # `found` counts the rows of each bin, and then says where the next one goes
    for i in range(n_bins):
        found[i] = 0
    for i in range(size):
        found[index(rows.cells[index(rows.order[first + i]) * width + column])] += 1
    before = np.int32(0)
    for i in range(n_bins):
        n_here = found[i]
        found[i] = before
        before += n_here
    for i in range(size):
        own = index(rows.cells[index(rows.order[first + i]) * width + column])
        at = found[own]
        found[own] = at + np.int32(1)
        keys[at] = (np.int64(own) << 32) + i


# ---- growth


@part
def _may_split(plan: Plan, sums: Host, size: Whole, depth: Whole) -> bool:
    """Whether a node may be split."""
    if depth == plan.max_depth or size < plan.least_rows:
        return False
    if plan.criterion != GINI:
        return (sums[0] >> 32) * plan.newton.unit >= plan.least_weight
    total, most = np.int64(0), np.int64(0)
    if sums.shape[0] == 1:
        total, most = sums[0] >> 32, sums[0] & _LOWER
        most = most if 2 * most > total else total - most
    else:
        for c in range(sums.shape[0]):
            total += sums[c]
            most = sums[c] if sums[c] > most else most
    return most < total and total >= plan.least_weight


@part
def _newton_side(plan: Plan, packed: Whole, low: Any, high: Any) -> tuple[Any, Any, Any, Any]:
    """Return gradient, hessian, value within bounds, and its gain."""
    gradient, hessian = _unpack(packed)
    gradient, hessian = gradient * plan.newton.unit, hessian * plan.newton.unit
    ridge = plan.newton.l2 if plan.newton.l2 > 1e-30 else 1e-30
    value = _newton_value(gradient, hessian, ridge)
    if plan.criterion == NEWTON:
        return gradient, hessian, value, -gradient * value
    value = _clip(value, low, high)
    return gradient, hessian, value, _newton_gain(gradient, hessian + ridge, value)


@part
def _judge(plan: Plan, nodes: Nodes, job: Host, feature: Whole, left: Whole, gain: Any) -> Any:
    """Return what a cut gains if it is good enough, else a negative number."""
    if plan.criterion == GINI:
        return np.float64(gain) if gain >= plan.min_gain else -1.0
    node, newton = job[NODE], plan.newton
    low, high = 0.0, 0.0
    if plan.criterion == NEWTON_BOUNDED:
        low, high = nodes.bounds[node, 0], nodes.bounds[node, 1]
    total = nodes.sums[node, 0]
    gradient, hessian, _, score = _newton_side(plan, total, low, high)
    _, left_hessian, left_value, left_score = _newton_side(plan, left, low, high)
    _, right_hessian, right_value, right_score = _newton_side(plan, total - left, low, high)
    gained = left_score + right_score - score
    # float32 chose
    lightest = 0.99999 * (newton.least_leaf / (job[STOP] - job[FIRST])) * hessian
    lightest = newton.least_hessian if newton.least_hessian > lightest else lightest
    lightest = newton.unit if newton.unit > lightest else lightest
    is_good = left_hessian >= lightest and right_hessian >= lightest
    is_good = is_good and gained > 1e-6 + 1e-6 * abs(gradient) and gained > 0
    if plan.criterion == NEWTON_BOUNDED:
        is_good = is_good and plan.trend[feature] * (right_value - left_value) >= 0
    return gained if is_good else -1.0


@compiled_part
def pass_bounds(plan: Plan, nodes: Nodes, node: Whole, child: Whole) -> None:
    """Bound the children: a cut along a column with a trend keeps the sides apart at their middle."""
    low, high, trend = nodes.bounds[node, 0], nodes.bounds[node, 1], plan.trend[nodes.ints[FEATURE, node]]
    _, _, left_value, _ = _newton_side(plan, nodes.sums[child, 0], low, high)
    _, _, right_value, _ = _newton_side(plan, nodes.sums[child + 1, 0], low, high)
    middle = (left_value + right_value) / 2
    for side in range(2):
        nodes.bounds[child + side, 0] = middle if trend == (1 if side == 1 else -1) else low
        nodes.bounds[child + side, 1] = middle if trend == (-1 if side == 1 else 1) else high


@part
def _take_table(scratch: Scratch) -> Whole:
    scratch.n_free[0] -= 1
    return scratch.free[scratch.n_free[0]]


@part
def _free_table(scratch: Scratch, table: Whole) -> None:
    scratch.free[scratch.n_free[0]] = table
    scratch.n_free[0] += 1


@part
def _write(jobs: Host, n: Whole, node: Whole, first: Whole, stop: Whole, depth: Whole, table: Whole) -> Whole:
    """Write a node behind `n` others; return their number then."""
    jobs[n, NODE], jobs[n, FIRST], jobs[n, STOP], jobs[n, DEPTH], jobs[n, TABLE] = (
        node,
        first,
        stop,
        depth,
        table,
    )
    return n + 1


@part
def _begin(nodes: Nodes, node: Whole, first: Whole, size: Whole) -> None:
    """Begin a node as a leaf."""
    ints = nodes.ints
    ints[FEATURE, node], ints[CHILD, node], nodes.gain[node] = NONE, NONE, 0
    ints[LOW, node], ints[HIGH, node], ints[MISSING_RIGHT, node] = 0, 0, 1
    ints[START, node], ints[SIZE, node] = first, size


@part
def _find_cut(rows: Rows, plan: Plan, nodes: Nodes, scratch: Scratch, job: Host) -> Any:
    """Write the best cut of a node; return what it gains, a negative number if it stays a leaf.

    The left sums stay in ``side[1]``, and the table that was counted in the job.
    """
    size = job[STOP] - job[FIRST]
    if job[TABLE] == NONE and size > plan.small:
        job[TABLE] = _take_table(scratch)
        table = scratch.tables[job[TABLE]]
        _count(rows, plan.is_used.shape[0], job[FIRST], job[STOP], plan.n_bins, nodes.sums.shape[1], table)
        if nodes.sums.shape[1] == 1:
            _add_up(table, plan.n_bins)
    if nodes.sums.shape[1] == 1:
        feature, low, high, gain, missing_right = _find_pair_cut(rows, plan, nodes, scratch, job)
    else:
        feature, low, high, gain, missing_right = _find_class_cut(rows, plan, nodes, scratch, job)
    if low == NONE:
        return -1.0
    gained = _judge(plan, nodes, job, feature, scratch.side[1, 0], gain)
    if gained >= 0:
        ints, node = nodes.ints, job[NODE]
        ints[FEATURE, node], ints[LOW, node], ints[HIGH, node] = feature, low, high
        ints[MISSING_RIGHT, node], nodes.gain[node] = missing_right, gain
    return gained


@part
def _split(
    rows: Rows, plan: Plan, nodes: Nodes, scratch: Scratch, job: Host, largest: Whole, heights: Host
) -> None:
    """Split a node that has a cut, and write its children to the stack, or to the jobs.

    `heights` has the numbers of both.
    """
    node, first, stop, table, below = job[NODE], job[FIRST], job[STOP], job[TABLE], job[DEPTH] + 1
    size, side, sums = stop - first, scratch.side, nodes.sums
    n_words, n_features, n_bins = sums.shape[1], plan.is_used.shape[0], plan.n_bins
    for c in range(n_words):
        side[0, c] = sums[node, c] - side[1, c]
    open_left, open_right = _may_split(plan, side[1], size, below), _may_split(plan, side[0], size, below)
    n_left, child = np.int64(NONE), 2 * first + 1
    if open_left or open_right or (plan.keeps_rows and below != plan.max_depth):
        n_left = _divide(rows, plan, nodes, node, first, stop)
        child = 2 * (first + n_left) - 1
    middle, n_right = first + n_left, size - n_left
    nodes.ints[CHILD, node] = child
    for c in range(n_words):
        sums[child, c], sums[child + 1, c] = side[1, c], side[0, c]
    if plan.criterion == NEWTON_BOUNDED:
        pass_bounds(plan, nodes, node, child)
    if n_left == NONE:
        _begin(nodes, child, np.int64(NONE), np.int64(NONE))
        _begin(nodes, child + 1, np.int64(NONE), np.int64(NONE))
    else:
        _begin(nodes, child, first, n_left)
        _begin(nodes, child + 1, middle, n_right)
        open_left, open_right = (
            open_left and n_left >= plan.least_rows,
            open_right and n_right >= plan.least_rows,
        )
    is_left_small = n_left <= n_right
    n_small = n_left if is_left_small else n_right
    small_open, large_open = (open_left, open_right) if is_left_small else (open_right, open_left)
    small_table, large_table = np.int64(NONE), np.int64(NONE)
    if table != NONE and large_open and size - n_small > plan.small and scratch.n_free[0] > 0:
        small_table, large_table = _take_table(scratch), table
        begin = first if is_left_small else middle
        counted, rest = scratch.tables[small_table], scratch.tables[table]
        _count(rows, n_features, begin, begin + n_small, n_bins, n_words, counted)
        if n_words == 1:
            _add_up(counted, n_bins)
        for i in range(rest.shape[0]):
            rest[i] -= counted[i]
        if not small_open or n_small <= plan.small:
            _free_table(scratch, small_table)
            small_table = np.int64(NONE)
    elif table != NONE:
        _free_table(scratch, table)
    # what is written last is looked at first: the smaller one, or, where gains are compared, the left one
    is_left_last = is_left_small or plan.max_leaves > 0
    for turn in range(2):
        is_left = (turn == 1) == is_left_last
        if not (open_left if is_left else open_right):
            continue
        own_table = small_table if is_left == is_left_small else large_table
        own, begin, end = (child, first, middle) if is_left else (child + 1, middle, stop)
        if size > largest:
            if own_table != NONE and scratch.n_free[0] == 0:
                _free_table(scratch, own_table)  # one must be left
                own_table = np.int64(NONE)
            heights[1] = _write(scratch.jobs, heights[1], own, begin, end, below, own_table)
        else:
            heights[0] = _write(scratch.stack, heights[0], own, begin, end, below, own_table)


@entry
def grow(
    rows: Rows, plan: Plan, nodes: Nodes, scratch: Scratch, job: Host, largest: Whole, only_cut: bool
) -> Whole:
    """Grow all that is below the node of a job; return how many jobs are handed back.

    The children of nodes of more than `largest` rows are handed back. With `only_cut` the node gets its cut,
    its left sums stay in ``side[1]``, its rows stay where they are, and 1 is returned if it has one.
    """
    heights, n_cuts, n_leaves = scratch.heights, np.int64(0), np.int64(1)
    heights[0], heights[1] = 0, 0
    if _may_split(plan, nodes.sums[job[NODE]], job[STOP] - job[FIRST], job[DEPTH]):
        heights[0] = _write(scratch.stack, 0, job[NODE], job[FIRST], job[STOP], job[DEPTH], job[TABLE])
    elif job[TABLE] != NONE and not only_cut:
        _free_table(scratch, job[TABLE])
    while True:
        while heights[0] > 0:
            heights[0] -= 1
            for i in range(LEFT):
                job[i] = scratch.stack[heights[0], i]
            gained = _find_cut(rows, plan, nodes, scratch, job)
            if only_cut:
                return np.int64(1 if gained >= 0 else 0)
            if gained < 0:
                if job[TABLE] != NONE:
                    _free_table(scratch, job[TABLE])
            elif plan.max_leaves == 0:
                _split(rows, plan, nodes, scratch, job, largest, heights)
            else:
                if job[TABLE] != NONE and scratch.n_free[0] == 0:
                    _free_table(scratch, job[TABLE])  # one must be left
                    job[TABLE] = NONE
                job[LEFT] = scratch.side[1, 0]
                for i in range(LEFT + 1):
                    scratch.cuts[n_cuts, i] = job[i]
                scratch.cut_gains[n_cuts] = gained
                n_cuts += 1
        best, chosen = 0.0, np.int64(NONE)
        if n_leaves < plan.max_leaves:
            for i in range(n_cuts):
                if scratch.cut_gains[i] > best:
                    best, chosen = scratch.cut_gains[i], np.int64(i)
        if chosen == NONE:
            break
        for i in range(LEFT + 1):
            job[i] = scratch.cuts[chosen, i]
        scratch.cut_gains[chosen], scratch.side[1, 0] = 0.0, job[LEFT]
        n_leaves += 1
        _split(rows, plan, nodes, scratch, job, largest, heights)
    for i in range(n_cuts):  # those that were not chosen are leaves
        if scratch.cut_gains[i] > 0:
            nodes.ints[FEATURE, scratch.cuts[i, NODE]] = NONE
            if scratch.cuts[i, TABLE] != NONE:
                _free_table(scratch, scratch.cuts[i, TABLE])
    return heights[1]
