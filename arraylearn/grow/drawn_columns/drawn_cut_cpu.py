"""The best cut of a node among drawn columns, in compiled growth of forests.

In a light node the rows are sorted by each column, and cuts are scored between different bins. In large
nodes, and in heavy ones, whose products of weights do not fit 32 bits, rows are counted by groups of bins::

    light     bins of rows  | 3 3 5 8 8 9 |     a cut after each last row of a bin
    others    rows of group | 2 . 1 3 . 1 |     a cut after each group that has rows

If cuts are drawn, too, only the rows left of the drawn cut are summed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arraylearn.backend.cpu.jit import Float, Host, Int, index, inlined, part
from arraylearn.grow import formulas
from arraylearn.grow.criteria import LogTable
from arraylearn.grow.criteria_cpu import describe_node, describe_pair, move, score_pair, score_vector
from arraylearn.grow.histograms.records_cpu import (
    FIRST,
    LOWER,
    NODE,
    NONE,
    SEED,
    STOP,
    DrawnColumns,
    GrowthPlan,
    GrowthScratch,
    NodeSlots,
    RowOrder,
)

__all__ = ["DIGITS", "HEAVIEST", "LANES", "TOGETHER", "find_drawn_cut"]

# Rows of `DrawnColumns.ints` and, the first three, of `DrawnColumns.wide`: weight on the left after each row
# or group (for two classes the pair), sums of squared class weights on both sides, loads, keys, and keys in
# order.
_LEFT, _INSIDE, _OUTSIDE, _LOAD, _KEY, _ORDERED = range(6)
# A load is what a row carries, with fields of 16 bits instead of 32. A key is bin and position.
_NARROW, _WIDE = 16, 32
_NARROW_MASK = (1 << 16) - 1
# Products of weights up to here fit 32 bits, and the weights fit a field of 16.
HEAVIEST = 46_340
# Columns whose bins are gathered together; the most items that vector loops read beyond the rows of a node.
TOGETHER, LANES = 8, 8
# Up to so many rows of a node are sorted by comparing each with each other, more by two digits of the bin.
_COMPARED = 40
_DIGIT_BITS, DIGITS = 6, 64
_BEYOND = np.int32(2**31 - 1)  # a key above those of all bins
_NO_GAIN, _NO_SCORE = np.float32(formulas.NO_GAIN), np.float32(0)

_gini_of_two = part(formulas.gini_of_two)
_gini_squares = part(formulas.gini_squares)
_group_bits = part(formulas.group_bits)
_draw_position = part(formulas.draw_position)
_splitmix = part(formulas.splitmix)


class _OneCut(NamedTuple):
    """A cut to be scored."""

    j: Int  # position of its column among `DrawnColumns.found`
    bin: Int  # the last one on the left
    is_light: bool  # whether sums fit halves of 32 bits
    best: Int  # the score to beat, as an integer


@inlined
def find_drawn_cut(
    rows: RowOrder,
    plan: GrowthPlan,
    nodes: NodeSlots,
    scratch: GrowthScratch,
    drawn: DrawnColumns,
    logs: LogTable | None,
    here: Host | None,
) -> tuple[Int, Int, Int, Float, bool]:
    """Do what `find_pair_cut` does among the columns of a draw, and where none of them is cut, among all.

    The draw, and the cuts that are drawn, follow from the seed of the node.
    """
    job, found, cells, d = scratch.job, drawn.found, rows.cells, index(drawn.every.shape[1])
    total, first, size = nodes.sums[job[NODE]], job[FIRST], job[STOP] - job[FIRST]
    own, order, seed = rows.carry[first : job[STOP]], rows.order[first : job[STOP]], np.uint64(job[SEED])
    is_drawn = len(drawn.positions) > 0
    is_light = _weigh(total, here) <= HEAVIEST and (is_drawn or size < drawn.large)
    if is_light:
        for i in range(size):
            drawn.ints[_LOAD, i] = (own[i] >> _WIDE) << _NARROW | (own[i] & _NARROW_MASK)
        for i in range(size, size + LANES):
            drawn.ints[_LOAD, i] = 0
    best, feature, cut = np.int32(0), np.int64(0), np.int64(NONE)
    columns, draw = drawn.columns, np.int64(seed % np.uint64(drawn.columns.shape[0]))
    for turn in range(2):
        if turn == 1:
            if cut != NONE or columns.shape[1] == drawn.every.shape[1]:
                break
            columns, draw = drawn.every, np.int64(0)
        for begin in range(0, columns.shape[1], TOGETHER):
            last = min(TOGETHER, columns.shape[1] - begin) - 1
            for j in range(0, last + 1, 4):  # four at a time: the bins of a row share cache lines
                j_b, j_c, j_d = min(j + 1, last), min(j + 2, last), min(j + 3, last)
                a, b = index(columns[draw, begin + j]), index(columns[draw, begin + j_b])
                c, e = index(columns[draw, begin + j_c]), index(columns[draw, begin + j_d])
                for i in range(size):
                    row = index(order[i]) * d
                    found[j, i], found[j_b, i] = cells[row + a], cells[row + b]
                    found[j_c, i], found[j_d, i] = cells[row + c], cells[row + e]
            for j in range(last + 1):
                column = np.int64(columns[draw, begin + j])
                if is_drawn:
                    number = np.int64(_splitmix(seed + np.uint64(column + 3)) >> np.uint64(32))
                    at = _draw_cut(found[j], size, number, drawn.positions, column * plan.n_bins)
                    one = _OneCut(j, at, is_light, best)
                    top = _score_drawn(plan, drawn, logs, own, one, total, here)
                elif is_light:
                    top, at = _search_in_order(plan, drawn, logs, j, size, best, total, here)
                else:
                    top, at = _search_groups(plan, drawn, logs, own, j, best, total, here)
                if top > best:
                    best, feature, cut = top, column, at
    return feature, cut, cut, np.float32(0), True


@part
def _weigh(sums: Host, here: Host | None) -> Int:
    """Return the weight of a node."""
    if here is None:
        return sums[0] >> _WIDE
    else:
        n = np.int64(0)
        for c in range(sums.shape[0]):
            n += sums[c]
        return n


@part
def _score_pairs(
    plan: GrowthPlan, drawn: DrawnColumns, logs: LogTable | None, sums: Host, n: Int, total: Int
) -> None:
    """Score the cuts after each of `n` pairs on the left, with fields of half their bits; `total` is wide."""
    scores = drawn.scores
    kind = sums.dtype.type
    bits = _NARROW if sums.itemsize == 4 else _WIDE
    mask, least = (1 << bits) - 1, kind(drawn.least_side)
    weight, second = kind(total >> _WIDE), kind(total & LOWER)
    if logs is not None:
        terms = describe_pair(plan.criterion, logs, np.int64(weight), np.int64(second))
        for i in range(n):
            n_left, one, score = np.int64((sums[i] >> bits) & mask), np.int64(sums[i] & mask), _NO_SCORE
            if n_left >= least and weight - n_left >= least:
                reached = np.float32(score_pair(plan.criterion, logs, terms, n_left, one, np.int64(second)))
                score = (reached if reached > _NO_SCORE else _NO_SCORE) + _NO_GAIN
            scores[i] = score
        return
    for i in range(n):
        n_left, held = kind((sums[i] >> bits) & mask), kind(sums[i] & mask)
        n_right = kind(weight - n_left)
        surplus, product = kind(held * weight - n_left * second), kind(n_left * n_right)
        score = _gini_of_two(np.float32(surplus), np.float32(product), _NO_GAIN)
        scores[i] = score if (n_left >= least) & (n_right >= least) else _NO_SCORE


@part
def _score_squares(drawn: DrawnColumns, sums: Host, n: Int, total: Int) -> None:
    """Score the cuts after each of `n` weights on the left, by the squares on both sides: rows of `sums`."""
    kind, scores = sums.dtype.type, drawn.scores
    weight, least = kind(total), kind(drawn.least_side)
    for i in range(n):
        n_left, inside, outside = sums[_LEFT, i], np.float32(sums[_INSIDE, i]), np.float32(sums[_OUTSIDE, i])
        n_right = kind(weight - n_left)
        score = _gini_squares(inside, np.float32(n_left), outside, np.float32(n_right))
        scores[i] = score if (n_left >= least) & (n_right >= least) else _NO_SCORE


@part
def _score_vectors(
    plan: GrowthPlan, drawn: DrawnColumns, logs: LogTable, n: Int, total: Host, here: Host, is_ordered: bool
) -> None:
    """Score the cuts after each of `n` cells, or of n rows in order, by another criterion than Gini's."""
    scores, ints, least, n_left = drawn.scores, drawn.ints, drawn.least_side, np.int64(0)
    n_classes, first = np.int64(here.shape[0]), np.int64(0)
    terms, last = describe_node(plan.criterion, logs, total), n_classes
    sums = terms.classes
    for c in range(n_classes):
        here[c] = 0
    for i in range(n):
        weight, load, score = np.int64(0), np.int64(0), _NO_SCORE
        if is_ordered:
            load = np.int64(ints[_LOAD, ints[_ORDERED, i] & _NARROW_MASK])
            first = load & _NARROW_MASK
            last = first + 1
        for c in range(first, last):
            more = (load >> _NARROW) & _NARROW_MASK if is_ordered else drawn.cells[i * n_classes + c]
            if more > 0:
                sums += move(plan.criterion, logs, here, total, c, more)
                weight += more
        n_left += weight
        drawn.wide[_LEFT, index(0 if is_ordered else i)] = n_left if weight else 0
        if weight > 0 and n_left >= least and terms.n - n_left >= least:
            reached = np.float32(score_vector(plan.criterion, logs, terms, here, total, n_left, sums))
            score = (reached if reached > _NO_SCORE else _NO_SCORE) + _NO_GAIN
        scores[i] = score


@part
def _sum_cells(cells: Host, n: Int, total: Host, here: Host, sums: Host) -> None:
    """Sum weights up to each of `n` cells (0 if it is empty), and squares of class weights on both sides."""
    n_classes, n_left = here.shape[0], np.int64(0)
    for c in range(n_classes):
        here[c] = 0
    for i in range(n):
        weight, inside, outside = np.int64(0), np.int64(0), np.int64(0)
        for c in range(n_classes):
            weight += cells[i * n_classes + c]
            held = here[c] + cells[i * n_classes + c]
            here[c] = held
            inside += held * held
            outside += (total[c] - held) * (total[c] - held)
        n_left += weight
        sums[_LEFT, i] = n_left if weight else 0
        sums[_INSIDE, i], sums[_OUTSIDE, i] = inside, outside


@part
def _draw_cut(found: Host, m: Int, number: Int, positions: Host, first: Int) -> Int:
    """Return the drawn cut of a column as `best_cuts` describes it; -1 where all bins are the same."""
    lowest, highest = found[0], found[0]
    for i in range(m):
        lowest, highest = min(lowest, found[i]), max(highest, found[i])
    if lowest == highest:
        return np.int64(-1)
    low, size = np.int64(lowest), np.int64(highest - lowest)
    drawn = _draw_position(positions[first + low], positions[first + low + size], number)
    while size > 1:  # without a branch, which the processor would mispredict half of the time
        half = size >> 1
        low = low + half if positions[index(first + low + half)] <= drawn else low
        size -= half
    return low


@inlined
def _score_drawn(
    plan: GrowthPlan,
    drawn: DrawnColumns,
    logs: LogTable | None,
    own: Host,
    cut: _OneCut,
    sums: Host,
    here: Host | None,
) -> Int:
    """Score one cut, as an integer; where that is above `cut.best`, keep the sums of its left side."""
    found, ints, cells, wide, m = drawn.found[cut.j], drawn.ints, drawn.cells, drawn.wide, own.shape[0]
    limit, pair, is_light, best = np.int32(cut.bin), np.int64(0), cut.is_light, cut.best
    if drawn.side_rows > 1:
        below = np.int64(0)
        for i in range(m):
            below += np.int64(1) if found[i] <= limit else np.int64(0)
        if below < drawn.side_rows or m - below < drawn.side_rows:
            return np.int32(0)
    if here is None:
        if is_light:
            narrow = np.int32(0)
            for i in range(m):
                narrow = np.int32(narrow + (ints[_LOAD, i] if found[i] <= limit else np.int32(0)))
            pair = np.int64((narrow >> _NARROW) & _NARROW_MASK) << _WIDE | np.int64(narrow & _NARROW_MASK)
        else:
            for i in range(m):
                pair += own[i] if found[i] <= limit else np.int64(0)
        wide[_LEFT, 0] = pair
        _score_pairs(plan, drawn, logs, wide[_LEFT], 1, sums[0])
        if drawn.bits[0] > best:
            drawn.left[0] = pair
    else:
        for c in range(here.shape[0]):
            cells[c] = 0
        if is_light:
            for i in range(m):
                weight = (ints[_LOAD, i] >> _NARROW) & _NARROW_MASK if found[i] <= limit else 0
                cells[index(ints[_LOAD, i] & _NARROW_MASK)] += weight
        else:
            for i in range(m):
                weight = own[i] >> _WIDE if found[i] <= limit else 0
                cells[index(own[i] & LOWER)] += weight
        if logs is not None:
            _score_vectors(plan, drawn, logs, 1, sums, here, False)
        else:
            _sum_cells(cells, 1, sums, here, wide)
            _score_squares(drawn, wide, 1, _weigh(sums, here))
        if drawn.bits[0] > best:
            for c in range(here.shape[0]):
                drawn.left[c] = here[c]
    return drawn.bits[0]


@part
def _search_groups(
    plan: GrowthPlan,
    drawn: DrawnColumns,
    logs: LogTable | None,
    own: Host,
    j: Int,
    best: Int,
    sums: Host,
    here: Host | None,
) -> tuple[Int, Int]:
    """Find the best cut between groups of bins: score as an integer, and cut.

    Where it is above `best`, keep the sums of its left side.
    """
    found, bits, cells, wide, m = drawn.found, drawn.bits, drawn.cells, drawn.wide, own.shape[0]
    low, high = found[j, 0], found[j, 0]
    for i in range(m):
        low, high = min(low, found[j, i]), max(high, found[j, i])
    bin_bits, size_bits, spread_bits = 0, 0, 0
    while plan.n_bins >> bin_bits:
        bin_bits += 1
    while m >> size_bits:
        size_bits += 1
    while (high - low) >> spread_bits:
        spread_bits += 1
    width = _group_bits(size_bits, bin_bits) if m >= drawn.large else bin_bits
    shift = max(spread_bits - width, 0)
    n, n_words = ((high - low) >> shift) + 1, sums.shape[0]
    for i in range(n * n_words):
        cells[i] = 0
    if here is None:
        for i in range(m):
            cells[index((found[j, i] - low) >> shift)] += own[i]
        pair = np.int64(0)
        for i in range(n):
            pair += cells[i]
            wide[_LEFT, i] = pair
        _score_pairs(plan, drawn, logs, wide[_LEFT], n, sums[0])
    else:
        for i in range(m):
            group = np.int64((found[j, i] - low) >> shift)
            cells[index(group * n_words + (own[i] & LOWER))] += own[i] >> _WIDE
        if logs is not None:
            _score_vectors(plan, drawn, logs, n, sums, here, False)
        else:
            _sum_cells(cells, n, sums, here, wide)
            _score_squares(drawn, wide, n, _weigh(sums, here))
    if drawn.side_rows > 1:
        held = cells[n * n_words :]
        for i in range(n):
            held[i] = 0
        for i in range(m):
            held[index((found[j, i] - low) >> shift)] += 1
        below = np.int64(0)
        for i in range(n):
            below += held[i]
            bits[i] = bits[i] if below >= drawn.side_rows and m - below >= drawn.side_rows else np.int32(0)
    top, at = np.int32(0), 0
    for i in range(n):
        top = max(top, bits[i])
    if top <= best:
        return top, np.int64(0)
    while bits[at] != top:
        at += 1
    after, left = at + 1, drawn.left
    empty = wide[_LEFT, at] if here is None else np.int64(0)
    while wide[_LEFT, after] == empty:
        after += 1
    if here is None:
        left[0] = wide[_LEFT, at]
    else:
        for c in range(n_words):
            left[c] = 0
            for i in range(at + 1):
                left[c] += cells[i * n_words + c]
    return top, low + ((((at + after) >> 1) + 1) << shift) - 1


@inlined
def _search_in_order(
    plan: GrowthPlan,
    drawn: DrawnColumns,
    logs: LogTable | None,
    j: Int,
    m: Int,
    best: Int,
    sums: Host,
    here: Host | None,
) -> tuple[Int, Int]:
    """Do what `_search_groups` does for a light node, between all bins."""
    found, ints, bits, left = drawn.found, drawn.ints, drawn.bits, drawn.left
    lanes, counts_rows = (m + LANES - 1) // LANES * LANES, drawn.side_rows > 1
    is_ordered = m > _COMPARED or here is not None or counts_rows
    if m > _COMPARED:
        _sort(found[j], m, ints, drawn.digits)
    elif not is_ordered:  # for each row, sum the loads of all rows whose bins are not larger
        for i in range(m, lanes):
            found[j, i] = _BEYOND
        for i in range(m):
            bin_at, running = found[j, i], np.int32(0)
            for other in range(lanes):
                load = ints[_LOAD, other] if found[j, other] <= bin_at else np.int32(0)
                running = np.int32(running + load)
            ints[_LEFT, i] = running
    else:  # the position of a key is the number of smaller ones
        for i in range(m):
            ints[_KEY, i] = (found[j, i] << _NARROW) | i
        for i in range(m, lanes):
            ints[_KEY, i] = _BEYOND
        for i in range(m):
            key, rank = ints[_KEY, i], np.int32(0)
            for other in range(lanes):
                rank = np.int32(rank + (np.int32(1) if ints[_KEY, other] < key else np.int32(0)))
            ints[_ORDERED, index(rank)] = key
    if here is None:
        if is_ordered:
            running = np.int32(0)
            for i in range(m):
                running = np.int32(running + ints[_LOAD, ints[_ORDERED, i] & _NARROW_MASK])
                ints[_LEFT, i] = running
        _score_pairs(plan, drawn, logs, ints[_LEFT], m, sums[0])
    elif logs is not None:
        _score_vectors(plan, drawn, logs, m, sums, here, True)
    else:
        _sum_rows(ints, m, sums, here)
        _score_squares(drawn, ints, m, _weigh(sums, here))
    if is_ordered:  # no cut parts equal bins
        m -= 1
        for i in range(m):
            bits[i] = bits[i] if (ints[_ORDERED, i] ^ ints[_ORDERED, i + 1]) >> _NARROW else np.int32(0)
        if counts_rows:
            for i in range(m):
                is_large = i + 1 >= drawn.side_rows and m - i >= drawn.side_rows
                bits[i] = bits[i] if is_large else np.int32(0)
    top, at, low, high = np.int32(0), 0, _BEYOND, _BEYOND
    for i in range(m):
        top = max(top, bits[i])
    if top <= best:
        return top, np.int64(0)
    if is_ordered:
        while bits[at] != top:
            at += 1
        low, high = ints[_ORDERED, at] >> _NARROW, ints[_ORDERED, at + 1] >> _NARROW
    else:
        for i in range(m):
            if bits[i] == top and found[j, i] < low:
                low, at = found[j, i], i
        for i in range(m):
            high = found[j, i] if low < found[j, i] < high else high
    if here is None:
        pair = np.int64(ints[_LEFT, at])
        left[0] = ((pair >> _NARROW) & _NARROW_MASK) << _WIDE | (pair & _NARROW_MASK)
    else:
        for c in range(here.shape[0]):
            left[c] = 0
        for i in range(at + 1):
            load = np.int64(ints[_LOAD, ints[_ORDERED, i] & _NARROW_MASK])
            left[index(load & _NARROW_MASK)] += (load >> _NARROW) & _NARROW_MASK
    return top, np.int64(low + high) >> 1


@part
def _sort(found: Host, m: Int, ints: Host, digits: Host) -> None:
    """Sort keys by the lower digit of their bins, then by the upper one."""
    for digit in range(DIGITS):
        digits[0, digit], digits[1, digit] = 0, 0
    for i in range(m):
        digits[0, index(found[i] & (DIGITS - 1))] += 1
        digits[1, index(found[i] >> _DIGIT_BITS)] += 1
    for half in range(2):
        before = np.int32(0)
        for digit in range(DIGITS):
            size = digits[half, digit]
            digits[half, digit] = before
            before = np.int32(before + size)
    for i in range(m):
        lower = index(found[i] & (DIGITS - 1))
        rank = digits[0, lower]
        digits[0, lower] = rank + 1
        ints[_KEY, index(rank)] = (found[i] << _NARROW) | i
    for i in range(m):
        key = ints[_KEY, i]
        upper = index(key >> (_NARROW + _DIGIT_BITS))
        rank = digits[1, upper]
        digits[1, upper] = rank + 1
        ints[_ORDERED, index(rank)] = key


@part
def _sum_rows(ints: Host, m: Int, total: Host, here: Host) -> None:
    """Sum weights up to each row in order, and squares of class weights on both sides."""
    n_left, inside, outside = np.int64(0), np.int64(0), np.int64(0)
    for c in range(here.shape[0]):
        here[c] = 0
        outside += total[c] * total[c]
    for i in range(m):
        load = np.int64(ints[_LOAD, ints[_ORDERED, i] & _NARROW_MASK])
        weight, code = (load >> _NARROW) & _NARROW_MASK, index(load & _NARROW_MASK)
        held = here[code]
        here[code] = held + weight
        n_left += weight
        inside += weight * (2 * held + weight)
        outside -= weight * (2 * (total[code] - held) - weight)
        ints[_LEFT, i], ints[_INSIDE, i], ints[_OUTSIDE, i] = n_left, inside, outside
