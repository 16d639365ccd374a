"""Cuts of nodes whose rows are put in order: by two digits, or, if they are few, each compared with each."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import Host, Whole, compiled_part
from arraylearn.backend.cpu.unsigned import index
from arraylearn.backend.native.compiled.desk import (
    DIGIT_BITS,
    DIGITS,
    FIELD,
    FIELD_BITS,
    LANES,
    NO_SCORE,
    TRIFLE,
    Desk,
)

__all__ = ["cut_in_order"]

# Up to so many rows are compared each with each.
_FEW_ROWS = 40
_BEHIND = np.int32(2**31 - 1)


@compiled_part
def cut_in_order(
    found: Host,
    j: Whole,
    m: Whole,
    counts: Host,
    node: Whole,
    last: Whole,
    total: Whole,
    best: Any,
    least: Whole,
    desk: Desk,
) -> tuple[Any, Whole]:
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
            desk.ordered,
            m,
            desk.packed,
            counts,
            node,
            desk.left,
            desk.sums,
            desk.squares_left,
            desk.squares_right,
        )
        _score_squares(m - 1, desk.sums, desk.squares_left, desk.squares_right, total, least, desk.scores)
    return _first_in_order(desk.ordered, m, desk.scores, desk.score_bits, best)


@compiled_part
def _sum_few(found: Host, j: Whole, m: Whole, packed: Host, sums: Host) -> None:
    """Sum up for each row what does not lie behind it."""
    width = (m + LANES - 1) // LANES * LANES
    for i in range(m, width):
        found[j, i] = _BEHIND
    for i in range(m):
        bin_at, here = found[j, i], np.int32(0)
        for other in range(width):
            here = np.int32(here + (packed[other] if found[j, other] <= bin_at else np.int32(0)))
        sums[i] = here


@compiled_part
def _first_of_few(found: Host, j: Whole, m: Whole, scores: Host, bits: Host, best: Any) -> tuple[Any, Whole]:
    """Return the best score and its cut, of equals that with the least bin."""
    greatest = _greatest(m, bits)
    low, high, score = _BEHIND, _BEHIND, NO_SCORE
    for i in range(m):
        if bits[i] == greatest and found[j, i] < low:
            low, score = found[j, i], scores[i]
    if score <= best:
        return NO_SCORE, np.int64(0)
    for i in range(m):
        high = found[j, i] if low < found[j, i] < high else high
    return score, np.int64(low + high) >> 1


@compiled_part
def _first_in_order(keys: Host, m: Whole, scores: Host, bits: Host, best: Any) -> tuple[Any, Whole]:
    """Return the best score and its cut, the first of equals; no cut parts equal bins."""
    for i in range(m - 1):
        scores[i] = scores[i] if (keys[i] ^ keys[i + 1]) >> FIELD_BITS else NO_SCORE
    greatest = _greatest(m - 1, bits)
    i = 0
    while i < m - 2 and bits[i] != greatest:
        i += 1
    if scores[i] <= best:
        return NO_SCORE, np.int64(0)
    return scores[i], np.int64((keys[i] >> FIELD_BITS) + (keys[i + 1] >> FIELD_BITS)) >> 1


@compiled_part
def _sort_few(found: Host, j: Whole, m: Whole, keys: Host, ordered: Host) -> None:
    """Put keys in order: the place of each is the number of those before it."""
    width = (m + LANES - 1) // LANES * LANES
    for i in range(m):
        keys[i] = (found[j, i] << FIELD_BITS) | i
    for i in range(m, width):
        keys[i] = _BEHIND
    for i in range(m):
        key, place = keys[i], np.int32(0)
        for other in range(width):
            place = np.int32(place + (np.int32(1) if keys[other] < key else np.int32(0)))
        ordered[index(place)] = key


@compiled_part
def _sort_by_digits(found: Host, j: Whole, m: Whole, keys: Host, ordered: Host, digits: Host) -> None:
    """Put keys in order by the lower digit of their bins, then by the upper one."""
    for digit in range(DIGITS):
        digits[0, digit], digits[1, digit] = 0, 0
    for i in range(m):
        digits[0, found[j, i] & (DIGITS - 1)] += 1
        digits[1, index(found[j, i] >> DIGIT_BITS)] += 1
    for part in range(2):
        before = np.int32(0)
        for digit in range(DIGITS):
            size = digits[part, digit]
            digits[part, digit] = before
            before = np.int32(before + size)
    for i in range(m):
        bin_at = found[j, i]
        place = digits[0, bin_at & (DIGITS - 1)]
        digits[0, bin_at & (DIGITS - 1)] = place + 1
        keys[index(place)] = (bin_at << FIELD_BITS) | i
    for i in range(m):
        upper = index(keys[i] >> (FIELD_BITS + DIGIT_BITS))
        place = digits[1, upper]
        digits[1, upper] = place + 1
        ordered[index(place)] = keys[i]


@compiled_part
def _sum_pairs(keys: Host, m: Whole, packed: Host, sums: Host) -> None:
    here = np.int32(0)
    for i in range(m):
        here = np.int32(here + packed[keys[i] & FIELD])
        sums[i] = here


@compiled_part
def _sum_squares(
    keys: Host,
    m: Whole,
    packed: Host,
    counts: Host,
    node: Whole,
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
        both = np.int64(packed[keys[i] & FIELD])
        weight, code = both & FIELD, index((both >> FIELD_BITS) & FIELD)
        here = left[code]
        left[code] = here + weight
        n_left += weight
        inside += weight * (2 * here + weight)
        outside -= weight * (2 * (counts[node, code] - here) - weight)
        sums[i], squares_left[i], squares_right[i] = n_left, inside, outside


@compiled_part
def _score_pairs(m: Whole, sums: Host, last: Whole, total: Whole, least: Whole, scores: Host) -> None:
    """Score the cuts after `m` rows of two classes, in 32 bits."""
    whole, last_whole, lightest = np.int32(total), np.int32(last), np.int32(least)
    for i in range(m):
        n_left = sums[i] & np.int32(FIELD)
        last_left = (sums[i] >> np.int32(FIELD_BITS)) & np.int32(FIELD)  # the highest bit is no sign
        n_right = np.int32(whole - n_left)
        surplus = np.float32(np.int32(last_left * whole - n_left * last_whole))
        score = surplus * surplus / np.float32(np.int32(n_left * n_right)) + TRIFLE
        scores[i] = score if (n_left >= lightest) & (n_right >= lightest) else NO_SCORE


@compiled_part
def _score_squares(
    m: Whole, sums: Host, squares_left: Host, squares_right: Host, total: Whole, least: Whole, scores: Host
) -> None:
    """Score the cuts after `m` rows of several classes, in 32 bits."""
    whole, lightest = np.int32(total), np.int32(least)
    for i in range(m):
        n_left = sums[i]
        n_right = np.int32(whole - n_left)
        score = np.float32(squares_left[i]) / np.float32(n_left)
        score += np.float32(squares_right[i]) / np.float32(n_right)
        scores[i] = score if (n_left >= lightest) & (n_right >= lightest) else NO_SCORE


@compiled_part
def _greatest(m: Whole, bits: Host) -> Any:
    greatest = np.int32(0)
    for i in range(m):
        greatest = max(greatest, bits[i])
    return greatest
