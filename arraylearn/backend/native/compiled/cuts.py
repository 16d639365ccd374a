"""The best cut of one node of a forest's tree, in compiled loops: see `arraylearn.backend.ops.best_cuts`.

A node of many rows is counted by groups of bins, as are weights whose products do not fit 32 bits. The rows of
others are put in order by two digits, or, where they are few, by comparing each with each.

Functions get the arrays that they need one by one, and lines of arrays by their number: to hand on a table of
arrays, or a view, costs as much as the work on ten rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.native.compiled.jit import compiled_part
from arraylearn.backend.ops.cuts import MOST_GROUP_BITS, NO_GAIN, ROWS_PER_GROUP_BITS

Host = np.ndarray[Any, Any]

__all__ = ["MOST_BINS", "Desk", "Search", "find_cut", "make_desk", "scatter_bits"]

# Columns whose bins are gathered together.
_COLUMNS_TOGETHER = 8
# Up to so many rows are compared each with each, in lines that are filled up to a multiple of the lanes.
_FEW_ROWS = 40
_LANES = 8
# Products of weights up to here fit 32 bits, and they themselves 16.
_HEAVIEST = 46_340
_FIELD_BITS = 16
_FIELD = 0xFFFF
# Keys hold the place of a row in their lower 16 bits, and above it a bin of two digits.
_DIGIT_BITS = 6
_DIGITS = 1 << _DIGIT_BITS
MOST_BINS = _DIGITS * _DIGITS
_BEHIND = np.int32(2**31 - 1)
_TRIFLE = np.float32(NO_GAIN)
_NONE = np.float32(0)
# An index without a sign spares a look at whether it wraps around.
_at = np.uint64


class Search(NamedTuple):
    """What is the same for all nodes."""

    n_columns: int
    n_bins: int
    class_bits: int
    payload_bits: int
    least: int
    many: int
    draws_cuts: bool


class Desk(NamedTuple):
    """Working memory of one thread, for nodes of up to m rows, of which up to s are put in order."""

    found: Host  # (8, m + 8) int32: bins
    packed: Host  # (s,) int32: weights, and above them classes; of two classes the weights again in the last one
    sums: Host  # (s,) int32: weights on the left of a cut, of two classes as they are in `packed`
    squares_left: Host  # (s,) int32: sums of the squares of class weights on the sides of a cut
    squares_right: Host  # (s,) int32
    scores: Host  # (s,) float32
    score_bits: Host  # the same memory as int32, in the same order since none is negative
    keys: Host  # (s,) int32: bins, and below them places
    ordered: Host  # (s,) int32
    digits: Host  # (2, 64) int32
    cells: Host  # (groups * c,) int64
    left: Host  # (c,) int64


def make_desk(n_rows: int, n_bins: int, n_classes: int) -> Desk:
    """Make room for nodes of up to so many rows."""
    n_ordered = min(n_rows, _HEAVIEST) + _LANES
    packed, sums, squares_left, squares_right, keys, ordered = np.empty((6, n_ordered), dtype=np.int32)
    scores = np.empty(n_ordered, dtype=np.float32)
    return Desk(
        np.empty((_COLUMNS_TOGETHER, n_rows + _LANES), dtype=np.int32),
        packed,
        sums,
        squares_left,
        squares_right,
        scores,
        scores.view(np.int32),
        keys,
        ordered,
        np.empty((2, _DIGITS), dtype=np.int32),
        np.empty(max(n_bins, 1 << MOST_GROUP_BITS) * n_classes, dtype=np.int64),
        np.empty(n_classes, dtype=np.int64),
    )


@compiled_part
def scatter_bits(number: Any) -> Any:
    """Scatter the bits of a uint64 (splitmix64)."""
    number = number + np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@compiled_part
def find_cut(
    bins: Host,
    entries: Host,
    start: int,
    m: int,
    columns: Host,
    draw: int,
    counts: Host,
    node: int,
    seed: Any,
    positions: Host,
    search: Search,
    desk: Desk,
) -> tuple[Any, int, int]:
    """Return the best score of a node, its column and its cut.

    The rows of the node are `m` entries from `start` on, its columns are in line `draw` of `columns`, its
    class weights in line `node` of `counts`.
    """
    n_classes, total = counts.shape[1], np.int64(0)
    for c in range(n_classes):
        total += counts[node, c]
    last = counts[node, n_classes - 1]
    is_light = total <= _HEAVIEST and (search.draws_cuts or m < search.many)
    if is_light:
        _unpack_weights(entries, start, m, n_classes, search.class_bits, search.payload_bits, desk.packed)
    best, feature, cut = _NONE, np.int64(0), np.int64(0)
    for first in range(0, columns.shape[1], _COLUMNS_TOGETHER):
        n_together = min(_COLUMNS_TOGETHER, columns.shape[1] - first)
        for j in range(0, n_together, 4):
            _gather(bins, entries, start, m, columns, draw, first, j, n_together - 1, search, desk.found)
        for j in range(n_together):
            column = np.int64(columns[draw, first + j])
            if search.draws_cuts:
                number = np.int64(scatter_bits(seed + np.uint64(column + 3)) >> np.uint64(32))
                at = _draw_cut(desk.found, j, m, number, positions, column * search.n_bins)
                if at < 0:
                    continue
                if is_light and n_classes <= 2:
                    score = _score_pair_at(desk.found, j, m, desk.packed, last, total, at, search.least)
                else:
                    score = _score_at(
                        desk.found, j, m, entries, start, counts, node, total, at, search, desk.left
                    )
            elif not is_light:
                score, at = _cut_by_counts(
                    desk.found, j, m, entries, start, counts, node, total, best, search, desk.cells, desk.left
                )
            else:
                score, at = _cut_light(desk.found, j, m, counts, node, last, total, best, search.least, desk)
            if score > best:
                best, feature, cut = score, column, at
    return best, feature, cut


@compiled_part
def _gather(
    bins: Host,
    entries: Host,
    start: int,
    m: int,
    columns: Host,
    draw: int,
    first: int,
    j: int,
    last: int,
    search: Search,
    found: Host,
) -> None:
    """Write the bins of rows in four columns (or fewer: up to line `last`), which lie close together."""
    j_b, j_c, j_d = min(j + 1, last), min(j + 2, last), min(j + 3, last)
    a, b = np.int64(columns[draw, first + j]), np.int64(columns[draw, first + j_b])
    c, d = np.int64(columns[draw, first + j_c]), np.int64(columns[draw, first + j_d])
    for i in range(m):
        row = (entries[_at(start + i)] >> search.payload_bits) * search.n_columns
        found[j, i], found[j_b, i] = bins[_at(row + a)], bins[_at(row + b)]
        found[j_c, i], found[j_d, i] = bins[_at(row + c)], bins[_at(row + d)]


@compiled_part
def _unpack_weights(
    entries: Host, start: int, m: int, n_classes: int, class_bits: int, payload_bits: int, packed: Host
) -> None:
    """Write what `Desk` says of the weights and classes of rows, and nothing behind them."""
    class_mask, weight_mask = (1 << class_bits) - 1, (1 << (payload_bits - class_bits)) - 1
    for i in range(m):
        entry = entries[_at(start + i)]
        weight, code = (entry >> class_bits) & weight_mask, entry & class_mask
        packed[i] = weight | (code * (weight if n_classes <= 2 else 1)) << _FIELD_BITS
    for i in range(m, m + _LANES):
        packed[i] = 0


# ---- the formulas


@compiled_part
def _score_pair(n_left: int, last_left: int, n: int, last: int) -> Any:
    """Score a cut of two classes; both sides have rows."""
    surplus = np.float32(last_left * n - n_left * last)
    return surplus * surplus / np.float32(n_left * (n - n_left)) + _TRIFLE


@compiled_part
def _score_pairs(m: int, sums: Host, last: int, total: int, least: int, scores: Host) -> None:
    """Score the cuts after `m` rows of two classes, in 32 bits."""
    whole, last_whole, lightest = np.int32(total), np.int32(last), np.int32(least)
    for i in range(m):
        n_left = sums[i] & np.int32(_FIELD)
        last_left = sums[i] >> np.int32(_FIELD_BITS)
        n_right = np.int32(whole - n_left)
        surplus = np.float32(np.int32(last_left * whole - n_left * last_whole))
        score = surplus * surplus / np.float32(np.int32(n_left * n_right)) + _TRIFLE
        scores[i] = score if (n_left >= lightest) & (n_right >= lightest) else _NONE


@compiled_part
def _score_squares(
    m: int, sums: Host, squares_left: Host, squares_right: Host, total: int, least: int, scores: Host
) -> None:
    """Score the cuts after `m` rows of several classes, in 32 bits."""
    whole, lightest = np.int32(total), np.int32(least)
    for i in range(m):
        n_left = sums[i]
        n_right = np.int32(whole - n_left)
        score = np.float32(squares_left[i]) / np.float32(n_left)
        score += np.float32(squares_right[i]) / np.float32(n_right)
        scores[i] = score if (n_left >= lightest) & (n_right >= lightest) else _NONE


@compiled_part
def _greatest(m: int, bits: Host) -> Any:
    greatest = np.int32(0)
    for i in range(m):
        greatest = max(greatest, bits[i])
    return greatest


# ---- light nodes


@compiled_part
def _cut_light(
    found: Host,
    j: int,
    m: int,
    counts: Host,
    node: int,
    last: int,
    total: int,
    best: Any,
    least: int,
    desk: Desk,
) -> tuple[Any, int]:
    """Find the best cut of a column, if it is better than `best`."""
    n_classes = counts.shape[1]
    if m <= _FEW_ROWS and n_classes <= 2:
        _sum_few(found, j, m, desk.packed, desk.sums)
        _score_pairs(m, desk.sums, last, total, least, desk.scores)
        return _first_of_few(found, j, m, desk.scores, desk.score_bits, best)
    if m <= _FEW_ROWS:
        _sort_few(found, j, m, desk.keys, desk.ordered)
    else:
        _sort_by_digits(found, j, m, desk.keys, desk.ordered, desk.digits)
    if n_classes <= 2:
        _sum_pairs(desk.ordered, m, desk.packed, desk.sums)
        _score_pairs(m - 1, desk.sums, last, total, least, desk.scores)
    else:
        _sum_squares(
            desk.ordered, m, desk.packed, counts, node, desk.left, desk.sums, desk.squares_left, desk.squares_right
        )
        _score_squares(m - 1, desk.sums, desk.squares_left, desk.squares_right, total, least, desk.scores)
    return _first_in_order(desk.ordered, m, desk.scores, desk.score_bits, best)


@compiled_part
def _sum_few(found: Host, j: int, m: int, packed: Host, sums: Host) -> None:
    """Sum up for each row what does not lie behind it."""
    width = (m + _LANES - 1) // _LANES * _LANES
    for i in range(m, width):
        found[j, i] = _BEHIND
    for i in range(m):
        bin_at, here = found[j, i], np.int32(0)
        for other in range(width):
            here = np.int32(here + (packed[other] if found[j, other] <= bin_at else np.int32(0)))
        sums[i] = here


@compiled_part
def _first_of_few(found: Host, j: int, m: int, scores: Host, bits: Host, best: Any) -> tuple[Any, int]:
    """Return the best score and its cut, of equals that with the least bin."""
    greatest = _greatest(m, bits)
    low, high, score = _BEHIND, _BEHIND, _NONE
    for i in range(m):
        if bits[i] == greatest and found[j, i] < low:
            low, score = found[j, i], scores[i]
    if score <= best:
        return _NONE, np.int64(0)
    for i in range(m):
        high = found[j, i] if low < found[j, i] < high else high
    return score, np.int64(low + high) >> 1


@compiled_part
def _first_in_order(keys: Host, m: int, scores: Host, bits: Host, best: Any) -> tuple[Any, int]:
    """Return the best score and its cut, the first of equals; no cut parts equal bins."""
    for i in range(m - 1):
        scores[i] = scores[i] if (keys[i] ^ keys[i + 1]) >> _FIELD_BITS else _NONE
    greatest = _greatest(m - 1, bits)
    i = 0
    while i < m - 2 and bits[i] != greatest:
        i += 1
    if scores[i] <= best:
        return _NONE, np.int64(0)
    return scores[i], np.int64((keys[i] >> _FIELD_BITS) + (keys[i + 1] >> _FIELD_BITS)) >> 1


@compiled_part
def _sort_few(found: Host, j: int, m: int, keys: Host, ordered: Host) -> None:
    """Put keys in order: the place of each is the number of those before it."""
    width = (m + _LANES - 1) // _LANES * _LANES
    for i in range(m):
        keys[i] = (found[j, i] << _FIELD_BITS) | i
    for i in range(m, width):
        keys[i] = _BEHIND
    for i in range(m):
        key, place = keys[i], np.int32(0)
        for other in range(width):
            place = np.int32(place + (np.int32(1) if keys[other] < key else np.int32(0)))
        ordered[_at(place)] = key


@compiled_part
def _sort_by_digits(found: Host, j: int, m: int, keys: Host, ordered: Host, digits: Host) -> None:
    """Put keys in order by the lower digit of their bins, then by the upper one."""
    for digit in range(_DIGITS):
        digits[0, digit], digits[1, digit] = 0, 0
    for i in range(m):
        digits[0, found[j, i] & (_DIGITS - 1)] += 1
        digits[1, _at(found[j, i] >> _DIGIT_BITS)] += 1
    for part in range(2):
        before = np.int32(0)
        for digit in range(_DIGITS):
            size = digits[part, digit]
            digits[part, digit] = before
            before = np.int32(before + size)
    for i in range(m):
        bin_at = found[j, i]
        place = digits[0, bin_at & (_DIGITS - 1)]
        digits[0, bin_at & (_DIGITS - 1)] = place + 1
        keys[_at(place)] = (bin_at << _FIELD_BITS) | i
    for i in range(m):
        digit = _at(keys[i] >> (_FIELD_BITS + _DIGIT_BITS))
        place = digits[1, digit]
        digits[1, digit] = place + 1
        ordered[_at(place)] = keys[i]


@compiled_part
def _sum_pairs(keys: Host, m: int, packed: Host, sums: Host) -> None:
    here = np.int32(0)
    for i in range(m):
        here = np.int32(here + packed[keys[i] & _FIELD])
        sums[i] = here


@compiled_part
def _sum_squares(
    keys: Host,
    m: int,
    packed: Host,
    counts: Host,
    node: int,
    left: Host,
    sums: Host,
    squares_left: Host,
    squares_right: Host,
) -> None:
    """Sum up the weights up to each row, and the squares of the class weights on both sides."""
    n_left, inside, outside = np.int64(0), np.int64(0), np.int64(0)
    for c in range(counts.shape[1]):
        left[c] = 0
        outside += counts[node, c] * counts[node, c]
    for i in range(m):
        both = np.int64(packed[keys[i] & _FIELD])
        weight, code = both & _FIELD, _at(both >> _FIELD_BITS)
        here = left[code]
        left[code] = here + weight
        n_left += weight
        inside += weight * (2 * here + weight)
        outside -= weight * (2 * (counts[node, code] - here) - weight)
        sums[i], squares_left[i], squares_right[i] = n_left, inside, outside


# ---- many rows, counted


@compiled_part
def _cut_by_counts(
    found: Host,
    j: int,
    m: int,
    entries: Host,
    start: int,
    counts: Host,
    node: int,
    total: int,
    best: Any,
    search: Search,
    cells: Host,
    left: Host,
) -> tuple[Any, int]:
    """Find the best cut between groups of bins, if it is better than `best`."""
    low, high = _ends(found, j, m)
    shift = max(_bit_length(high - low) - _group_bits(m, search.n_bins, search.many), 0)
    n_groups, n_classes = ((high - low) >> shift) + 1, counts.shape[1]
    for cell in range(n_groups * n_classes):
        cells[cell] = 0
    class_mask, weight_mask = (1 << search.class_bits) - 1, (1 << (search.payload_bits - search.class_bits)) - 1
    for i in range(m):
        entry = entries[_at(start + i)]
        group = (found[j, i] - low) >> shift
        cells[_at(group * n_classes + (entry & class_mask))] += (entry >> search.class_bits) & weight_mask
    for c in range(n_classes):
        left[c] = 0
    score, here, after, n_left = best, np.int64(-1), np.int64(-1), np.int64(0)
    for group in range(n_groups):
        inside, outside, weight = np.int64(0), np.int64(0), np.int64(0)
        for c in range(n_classes):
            weight += cells[group * n_classes + c]
            left[c] += cells[group * n_classes + c]
            inside += left[c] * left[c]
            outside += (counts[node, c] - left[c]) * (counts[node, c] - left[c])
        if weight == 0:
            continue
        if after < 0 <= here:
            after = group
        n_left += weight
        if n_left < search.least or total - n_left < search.least:
            continue
        if n_classes <= 2:
            reached = _score_pair(n_left, left[n_classes - 1], total, counts[node, n_classes - 1])
        else:
            reached = np.float32(inside) / np.float32(n_left) + np.float32(outside) / np.float32(total - n_left)
        if reached > score:
            score, here, after = reached, group, np.int64(-1)
    if here < 0:
        return _NONE, np.int64(0)
    return score, low + ((((here + after) >> 1) + 1) << shift) - 1


@compiled_part
def _ends(found: Host, j: int, m: int) -> tuple[int, int]:
    low, high = found[j, 0], found[j, 0]
    for i in range(m):
        low, high = min(low, found[j, i]), max(high, found[j, i])
    return np.int64(low), np.int64(high)


@compiled_part
def _bit_length(number: int) -> int:
    length = 0
    while number >> length:
        length += 1
    return length


@compiled_part
def _group_bits(m: int, n_bins: int, many: int) -> int:
    """`arraylearn.backend.ops.cuts.group_bits`."""
    bin_bits = _bit_length(n_bins)
    if m < many:
        return bin_bits
    return min(MOST_GROUP_BITS, _bit_length(m) - 1 - ROWS_PER_GROUP_BITS, bin_bits)


# ---- one cut per column, drawn


@compiled_part
def _draw_cut(found: Host, j: int, m: int, number: int, positions: Host, first: int) -> int:
    """Return the cut that a random number says, or -1 where all bins are the same."""
    low, high = _ends(found, j, m)
    begin, end = positions[first + low], positions[first + high]
    drawn = begin + (((end - begin) * number) >> 32)
    size = high - low
    if size == 0:
        return np.int64(-1)
    while size > 1:  # without a branch, which would be guessed wrong half of the time
        half = size >> 1
        low = low + half if positions[_at(first + low + half)] <= drawn else low
        size -= half
    return low


@compiled_part
def _score_pair_at(
    found: Host, j: int, m: int, packed: Host, last: int, total: int, cut: int, least: int
) -> Any:
    """Score a cut of two classes, in 32 bits."""
    sums, limit = np.int32(0), np.int32(cut)
    for i in range(m):
        sums = np.int32(sums + (packed[i] if found[j, i] <= limit else np.int32(0)))
    n_left = np.int64(sums & _FIELD)
    if n_left < least or total - n_left < least:
        return _NONE
    return _score_pair(n_left, np.int64(sums >> _FIELD_BITS), total, last)


@compiled_part
def _score_at(
    found: Host,
    j: int,
    m: int,
    entries: Host,
    start: int,
    counts: Host,
    node: int,
    total: int,
    cut: int,
    search: Search,
    left: Host,
) -> Any:
    """Score a cut."""
    class_mask, weight_mask = (1 << search.class_bits) - 1, (1 << (search.payload_bits - search.class_bits)) - 1
    n_left, n_classes = np.int64(0), counts.shape[1]
    for c in range(n_classes):
        left[c] = 0
    for i in range(m):
        entry = entries[_at(start + i)]
        weight = (entry >> search.class_bits) & weight_mask if found[j, i] <= cut else np.int64(0)
        n_left += weight
        left[_at(entry & class_mask)] += weight
    if n_left < search.least or total - n_left < search.least:
        return _NONE
    if n_classes <= 2:
        return _score_pair(n_left, left[n_classes - 1], total, counts[node, n_classes - 1])
    inside, outside = np.int64(0), np.int64(0)
    for c in range(n_classes):
        inside += left[c] * left[c]
        outside += (counts[node, c] - left[c]) * (counts[node, c] - left[c])
    return np.float32(inside) / np.float32(n_left) + np.float32(outside) / np.float32(total - n_left)
