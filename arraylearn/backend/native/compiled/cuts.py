"""The best cut of one node of a forest's tree, in compiled loops: see `arraylearn.backend.ops.best_cuts`.

A node of many rows is counted by groups of bins, as are weights that do not fit 32 bits when multiplied. The
rows of others are put in order by two digits, or, where they are few, by comparing each with each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.native.compiled.jit import compiled
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
_MOST_SORTED = 1 << _FIELD_BITS
_DIGIT_BITS = 6
_DIGITS = 1 << _DIGIT_BITS
MOST_BINS = _DIGITS * _DIGITS
_BEHIND = np.int32(2**31 - 1)
_TRIFLE = np.float32(NO_GAIN)
_NONE = np.float32(0)


class Search(NamedTuple):
    """What is the same for all nodes."""

    n_bins: int
    class_bits: int
    payload_bits: int
    least: int
    many: int
    draws_cuts: bool


class Desk(NamedTuple):
    """Working memory of one thread, for nodes of up to m rows, of which up to s are sorted."""

    found: Host  # (8, m + 8) int32: bins
    packed: Host  # (s,) int32: the weights, in the upper half again where the class is the last of two
    sums: Host  # (s,) int32: `packed` on the left of a cut
    squares: Host  # (2, s) int32: sums of the squares of class weights on both sides of a cut
    scores: Host  # (s,) float32
    score_bits: Host  # the same memory as int32, in the same order since none is negative
    keys: Host  # (2, s) int32: bin and place
    digits: Host  # (2, 64) int32
    cells: Host  # (groups * c,) int64
    left: Host  # (c,) int64


def make_desk(n_rows: int, n_bins: int, n_classes: int, many: int) -> Desk:
    """Make room for nodes of up to so many rows."""
    n_sorted = min(n_rows, many, _MOST_SORTED) + _LANES
    scores = np.empty(n_sorted, dtype=np.float32)
    return Desk(
        np.empty((_COLUMNS_TOGETHER, n_rows + _LANES), dtype=np.int32),
        np.empty(n_sorted, dtype=np.int32),
        np.empty(n_sorted, dtype=np.int32),
        np.empty((2, n_sorted), dtype=np.int32),
        scores,
        scores.view(np.int32),
        np.empty((2, n_sorted), dtype=np.int32),
        np.empty((2, _DIGITS), dtype=np.int32),
        np.empty(max(n_bins, 1 << MOST_GROUP_BITS) * n_classes, dtype=np.int64),
        np.empty(n_classes, dtype=np.int64),
    )


@compiled
def scatter_bits(number: Any) -> Any:
    """Scatter the bits of a uint64 (splitmix64)."""
    number = number + np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@compiled
def find_cut(
    bins: Host,
    entries: Host,
    start: int,
    m: int,
    columns: Host,
    counts: Host,
    seed: Any,
    positions: Host,
    search: Search,
    desk: Desk,
) -> tuple[Any, int, int]:
    """Return the best score of a node, its column and its cut; the rows are `m` entries from `start` on."""
    n_classes, total = counts.shape[0], np.int64(0)
    for c in range(n_classes):
        total += counts[c]
    is_counted = m >= search.many or m >= _MOST_SORTED or total > _HEAVIEST
    if not is_counted and not search.draws_cuts:
        _unpack_weights(entries, start, m, n_classes, search, desk.packed)
    best, feature, cut = _NONE, np.int64(0), np.int64(0)
    for first in range(0, columns.shape[0], _COLUMNS_TOGETHER):
        few = columns[first : first + _COLUMNS_TOGETHER]
        _gather(bins, entries, start, m, few, search.payload_bits, desk.found)
        for j in range(few.shape[0]):
            column, line = np.int64(few[j]), desk.found[j]
            if search.draws_cuts:
                number = scatter_bits(seed + np.uint64(column + 3)) >> np.uint64(32)
                score, at = _cut_at_draw(
                    line, entries, start, m, counts, total, column, np.int64(number), positions, search, desk
                )
            elif is_counted:
                score, at = _cut_by_counts(line, entries, start, m, counts, total, best, search, desk)
            elif m <= _FEW_ROWS and n_classes <= 2:
                score, at = _cut_few(line, m, counts[-1], total, best, search.least, desk)
            else:
                score, at = _cut_in_order(line, m, counts, total, best, search.least, desk)
            if score > best:
                best, feature, cut = score, column, at
    return best, feature, cut


@compiled
def _gather(
    bins: Host, entries: Host, start: int, m: int, columns: Host, payload_bits: int, found: Host
) -> None:
    """Write the bins of rows, a line for each column."""
    for i in range(m):
        row = entries[start + i] >> payload_bits
        for j in range(columns.shape[0]):
            found[j, i] = bins[row, columns[j]]


@compiled
def _unpack_weights(
    entries: Host, start: int, m: int, n_classes: int, search: Search, packed: Host
) -> None:
    """Write the weights of rows, and their classes in the upper half; of two classes what `Desk` says."""
    class_mask = (1 << search.class_bits) - 1
    weight_mask = (1 << (search.payload_bits - search.class_bits)) - 1
    for i in range(m):
        entry = entries[start + i]
        weight, code = (entry >> search.class_bits) & weight_mask, entry & class_mask
        packed[i] = weight | (code * (weight if n_classes <= 2 else 1)) << _FIELD_BITS
    for i in range(m, m + _LANES):
        packed[i] = 0


# ---- the formulas


@compiled
def _score(n_left: int, n: int, last_left: int, last: int, squares_left: int, squares_right: int, k: int) -> Any:
    """Score one cut of `k` classes; both sides have rows."""
    n_right = n - n_left
    if k <= 2:
        surplus = np.float32(last_left * n - n_left * last)
        return surplus * surplus / np.float32(n_left * n_right) + _TRIFLE
    return np.float32(squares_left) / np.float32(n_left) + np.float32(squares_right) / np.float32(n_right)


@compiled
def _score_two(m: int, last: int, total: int, least: int, desk: Desk) -> Any:
    """Score the cuts after `m` rows of two classes by `sums`; return the best, as bits."""
    whole, last_whole, lightest = np.int32(total), np.int32(last), np.int32(least)
    for i in range(m):
        n_left = desk.sums[i] & np.int32(_FIELD)
        last_left = desk.sums[i] >> np.int32(_FIELD_BITS)
        n_right = np.int32(whole - n_left)
        surplus = np.float32(np.int32(last_left * whole - n_left * last_whole))
        score = surplus * surplus / np.float32(np.int32(n_left * n_right)) + _TRIFLE
        desk.scores[i] = score if (n_left >= lightest) & (n_right >= lightest) else _NONE
    return _greatest(m, desk.score_bits)


@compiled
def _score_many(m: int, total: int, least: int, desk: Desk) -> Any:
    """Score the cuts after `m` rows of several classes by `sums` and `squares`; return the best, as bits."""
    whole, lightest = np.int32(total), np.int32(least)
    for i in range(m):
        n_left = desk.sums[i]
        n_right = np.int32(whole - n_left)
        score = np.float32(desk.squares[0, i]) / np.float32(n_left)
        score += np.float32(desk.squares[1, i]) / np.float32(n_right)
        desk.scores[i] = score if (n_left >= lightest) & (n_right >= lightest) else _NONE
    return _greatest(m, desk.score_bits)


@compiled
def _greatest(m: int, bits: Host) -> Any:
    greatest = np.int32(0)
    for i in range(m):
        greatest = max(greatest, bits[i])
    return greatest


# ---- few rows, each compared with each


@compiled
def _cut_few(line: Host, m: int, last: int, total: int, best: Any, least: int, desk: Desk) -> tuple[Any, int]:
    """Find the best cut of a few rows of two classes: sum up what does not lie behind each of them."""
    width = (m + _LANES - 1) // _LANES * _LANES
    for i in range(m, width):
        line[i] = _BEHIND
    for i in range(m):
        bin_at, here = line[i], np.int32(0)
        for j in range(width):
            here = np.int32(here + (desk.packed[j] if line[j] <= bin_at else np.int32(0)))
        desk.sums[i] = here
    bits = _score_two(m, last, total, least, desk)
    low, high, score = _BEHIND, _BEHIND, _NONE
    for i in range(m):  # of equal scores that with the least bin
        if desk.score_bits[i] == bits and line[i] < low:
            low, score = line[i], desk.scores[i]
    if score <= best:
        return _NONE, 0
    for i in range(m):
        high = line[i] if low < line[i] < high else high
    return score, np.int64(low + high) >> 1


# ---- rows in order


@compiled
def _cut_in_order(
    line: Host, m: int, counts: Host, total: int, best: Any, least: int, desk: Desk
) -> tuple[Any, int]:
    """Find the best cut of rows in the order of their bins."""
    if m <= _FEW_ROWS:
        _sort_few(line, m, desk.keys)
    else:
        _sort_by_digits(line, m, desk.keys, desk.digits)
    keys, n_classes = desk.keys[1], counts.shape[0]
    if n_classes <= 2:
        _sum_two(keys, m, desk.packed, desk.sums)
    else:
        _sum_many(keys, m, counts, desk)
    # a cut after a row whose bin goes on behind it: its left side counts as too light
    for i in range(m - 1):
        desk.sums[i] = desk.sums[i] if (keys[i] ^ keys[i + 1]) >> _FIELD_BITS else np.int32(0)
    if n_classes <= 2:
        bits = _score_two(m - 1, counts[-1], total, least, desk)
    else:
        bits = _score_many(m - 1, total, least, desk)
    at = 0
    while at < m - 1 and desk.score_bits[at] != bits:
        at += 1
    if bits == 0 or desk.scores[at] <= best:
        return _NONE, 0
    return desk.scores[at], ((keys[at] >> _FIELD_BITS) + (keys[at + 1] >> _FIELD_BITS)) >> 1


@compiled
def _sort_few(line: Host, m: int, keys: Host) -> None:
    """Put a few keys in order: the place of each is the number of those before it."""
    width = (m + _LANES - 1) // _LANES * _LANES
    for i in range(m):
        keys[0, i] = (line[i] << _FIELD_BITS) | i
    for i in range(m, width):
        keys[0, i] = _BEHIND
    for i in range(m):
        key, place = keys[0, i], np.int32(0)
        for j in range(width):
            place = np.int32(place + (np.int32(1) if keys[0, j] < key else np.int32(0)))
        keys[1, place] = key


@compiled
def _sort_by_digits(line: Host, m: int, keys: Host, digits: Host) -> None:
    """Put keys in order by the lower digit of their bins, then by the upper one."""
    digits[...] = 0
    for i in range(m):
        digits[0, line[i] & (_DIGITS - 1)] += 1
        digits[1, line[i] >> _DIGIT_BITS] += 1
    for part in range(2):
        before = np.int32(0)
        for digit in range(_DIGITS):
            size = digits[part, digit]
            digits[part, digit] = before
            before += size
    for i in range(m):
        digit = line[i] & (_DIGITS - 1)
        place = digits[0, digit]
        digits[0, digit] = place + 1
        keys[0, place] = (line[i] << _FIELD_BITS) | i
    for i in range(m):
        key = keys[0, i]
        digit = key >> (_FIELD_BITS + _DIGIT_BITS)
        place = digits[1, digit]
        digits[1, digit] = place + 1
        keys[1, place] = key


@compiled
def _sum_two(keys: Host, m: int, packed: Host, sums: Host) -> None:
    here = np.int32(0)
    for i in range(m):
        here = np.int32(here + packed[keys[i] & _FIELD])
        sums[i] = here


@compiled
def _sum_many(keys: Host, m: int, counts: Host, desk: Desk) -> None:
    """Sum up the weights before each row, and the squares of the class weights on both sides."""
    n_left, squares_left, squares_right = np.int64(0), np.int64(0), np.int64(0)
    for c in range(counts.shape[0]):
        desk.left[c] = 0
        squares_right += counts[c] * counts[c]
    for i in range(m):
        packed = np.int64(desk.packed[keys[i] & _FIELD])
        weight, code = packed & _FIELD, packed >> _FIELD_BITS
        left = desk.left[code]
        n_left += weight
        squares_left += weight * (2 * left + weight)
        squares_right -= weight * (2 * (counts[code] - left) - weight)
        desk.left[code] = left + weight
        desk.sums[i] = n_left
        desk.squares[0, i] = squares_left
        desk.squares[1, i] = squares_right


# ---- many rows, counted


@compiled
def _cut_by_counts(
    line: Host,
    entries: Host,
    start: int,
    m: int,
    counts: Host,
    total: int,
    best: Any,
    search: Search,
    desk: Desk,
) -> tuple[Any, int]:
    """Find the best cut between groups of bins, by the weight of each class in each group."""
    low, high = line[0], line[0]
    for i in range(m):
        low, high = min(low, line[i]), max(high, line[i])
    shift = max(_bit_length(high - low) - _group_bits(m, search), 0)
    n_groups, n_classes = ((high - low) >> shift) + 1, counts.shape[0]
    cells = desk.cells[: n_groups * n_classes]
    cells[...] = 0
    class_mask = (1 << search.class_bits) - 1
    weight_mask = (1 << (search.payload_bits - search.class_bits)) - 1
    for i in range(m):
        entry = entries[start + i]
        group = np.int64(line[i] - low) >> shift
        cells[group * n_classes + (entry & class_mask)] += (entry >> search.class_bits) & weight_mask
    desk.left[...] = 0
    score, here, after, n_left = best, -1, -1, np.int64(0)
    for group in range(n_groups):
        squares_left, squares_right, weight = np.int64(0), np.int64(0), np.int64(0)
        for c in range(n_classes):
            weight += cells[group * n_classes + c]
            desk.left[c] += cells[group * n_classes + c]
            squares_left += desk.left[c] * desk.left[c]
            squares_right += (counts[c] - desk.left[c]) * (counts[c] - desk.left[c])
        if weight == 0:
            continue
        if after < 0 <= here:
            after = group
        n_left += weight
        if n_left < search.least or total - n_left < search.least:
            continue
        found = _score(
            n_left, total, desk.left[-1], counts[-1], squares_left, squares_right, n_classes
        )
        if found > score:
            score, here, after = found, group, -1
    if here < 0:
        return _NONE, 0
    return score, low + ((((here + after) >> 1) + 1) << shift) - 1


@compiled
def _bit_length(number: int) -> int:
    length = 0
    while number >> length:
        length += 1
    return length


@compiled
def _group_bits(m: int, search: Search) -> int:
    """`arraylearn.backend.ops.cuts.group_bits`."""
    bin_bits = _bit_length(search.n_bins)
    if m < search.many:
        return bin_bits
    return min(MOST_GROUP_BITS, _bit_length(m) - 1 - ROWS_PER_GROUP_BITS, bin_bits)


# ---- one cut per column, drawn


@compiled
def _cut_at_draw(
    line: Host,
    entries: Host,
    start: int,
    m: int,
    counts: Host,
    total: int,
    column: int,
    number: int,
    positions: Host,
    search: Search,
    desk: Desk,
) -> tuple[Any, int]:
    """Score the cut that a random number says."""
    low, high = line[0], line[0]
    for i in range(m):
        low, high = min(low, line[i]), max(high, line[i])
    if low == high:
        return _NONE, 0
    cut = _draw(np.int64(low), np.int64(high), number, positions, column * search.n_bins)
    class_mask = (1 << search.class_bits) - 1
    weight_mask = (1 << (search.payload_bits - search.class_bits)) - 1
    left, n_left = desk.left, np.int64(0)
    left[...] = 0
    for i in range(m):
        entry = entries[start + i]
        weight = (entry >> search.class_bits) & weight_mask if line[i] <= cut else np.int64(0)
        n_left += weight
        left[entry & class_mask] += weight
    if n_left < search.least or total - n_left < search.least:
        return _NONE, 0
    squares_left, squares_right = np.int64(0), np.int64(0)
    for c in range(counts.shape[0]):
        squares_left += left[c] * left[c]
        squares_right += (counts[c] - left[c]) * (counts[c] - left[c])
    n_classes = counts.shape[0]
    return _score(n_left, total, left[-1], counts[-1], squares_left, squares_right, n_classes), cut


@compiled
def _draw(low: int, high: int, number: int, positions: Host, first: int) -> int:
    """Return the last bin of `low` up to `high` - 1 whose position is not beyond the drawn one."""
    begin, end = positions[first + low], positions[first + high]
    drawn = begin + (((end - begin) * number) >> 32)
    while high - low > 1:
        middle = (low + high) >> 1
        if positions[first + middle] <= drawn:
            low = middle
        else:
            high = middle
    return low
