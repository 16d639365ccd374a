"""Cuts of nodes whose rows are counted: by groups of bins, or on both sides of a cut that was drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import Host, Whole, compiled_part
from arraylearn.backend.cpu.unsigned import index
from arraylearn.backend.native.compiled.desk import (
    FIELD,
    FIELD_BITS,
    NO_SCORE,
    Search,
    score_pair,
    score_squares,
)
from arraylearn.backend.ops.cuts import MOST_GROUP_BITS, ROWS_PER_GROUP_BITS

__all__ = ["cut_by_counts", "draw_cut", "score_at", "score_pair_at"]


@compiled_part
def cut_by_counts(
    found: Host,
    j: Whole,
    m: Whole,
    entries: Host,
    start: Whole,
    counts: Host,
    node: Whole,
    total: Whole,
    best: Any,
    search: Search,
    cells: Host,
    left: Host,
) -> tuple[Any, Whole]:
    """Find the best cut between groups of bins, if it is better than `best`."""
    low, high = _ends(found, j, m)
    shift = max(_bit_length(high - low) - _group_bits(m, search.n_bins, search.many), 0)
    n_groups, n_classes = ((high - low) >> shift) + 1, counts.shape[1]
    for cell in range(n_groups * n_classes):
        cells[cell] = 0
    class_mask = (1 << search.class_bits) - 1
    weight_mask = (1 << (search.payload_bits - search.class_bits)) - 1
    for i in range(m):
        entry = entries[index(start + i)]
        group = (found[j, i] - low) >> shift
        cells[index(group * n_classes + (entry & class_mask))] += (entry >> search.class_bits) & weight_mask
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
            after = np.int64(group)
        n_left += weight
        if n_left < search.least or total - n_left < search.least:
            continue
        if n_classes <= 2:
            reached = score_pair(n_left, left[n_classes - 1], total, counts[node, n_classes - 1])
        else:
            reached = score_squares(n_left, total - n_left, inside, outside)
        if reached > score:
            score, here, after = reached, np.int64(group), np.int64(-1)
    if here < 0:
        return NO_SCORE, np.int64(0)
    return score, low + ((((here + after) >> 1) + 1) << shift) - 1


@compiled_part
def _ends(found: Host, j: Whole, m: Whole) -> tuple[Whole, Whole]:
    low, high = found[j, 0], found[j, 0]
    for i in range(m):
        low, high = min(low, found[j, i]), max(high, found[j, i])
    return np.int64(low), np.int64(high)


@compiled_part
def _bit_length(number: Whole) -> Whole:
    length = 0
    while number >> length:
        length += 1
    return length


@compiled_part
def _group_bits(m: Whole, n_bins: Whole, many: Whole) -> Whole:
    """`arraylearn.backend.ops.cuts.group_bits`."""
    bin_bits = _bit_length(n_bins)
    if m < many:
        return bin_bits
    return min(MOST_GROUP_BITS, _bit_length(m) - 1 - ROWS_PER_GROUP_BITS, bin_bits)


@compiled_part
def draw_cut(found: Host, j: Whole, m: Whole, number: Whole, positions: Host, first: Whole) -> Whole:
    """Return the cut that a random number says, or -1 where all bins are the same."""
    low, high = _ends(found, j, m)
    begin, end = positions[first + low], positions[first + high]
    drawn = begin + (((end - begin) * number) >> 32)
    size = high - low
    if size == 0:
        return np.int64(-1)
    while size > 1:  # without a branch, which would be guessed wrong half of the time
        half = size >> 1
        low = low + half if positions[index(first + low + half)] <= drawn else low
        size -= half
    return low


@compiled_part
def score_pair_at(
    found: Host, j: Whole, m: Whole, packed: Host, last: Whole, total: Whole, cut: Whole, least: Whole
) -> Any:
    """Score a cut of two classes, in 32 bits."""
    sums, limit = np.int32(0), np.int32(cut)
    for i in range(m):
        sums = np.int32(sums + (packed[i] if found[j, i] <= limit else np.int32(0)))
    n_left = np.int64(sums & FIELD)
    if n_left < least or total - n_left < least:
        return NO_SCORE
    return score_pair(n_left, np.int64((sums >> FIELD_BITS) & FIELD), total, last)


@compiled_part
def score_at(
    found: Host,
    j: Whole,
    m: Whole,
    entries: Host,
    start: Whole,
    counts: Host,
    node: Whole,
    total: Whole,
    cut: Whole,
    search: Search,
    left: Host,
) -> Any:
    """Score a cut."""
    class_mask = (1 << search.class_bits) - 1
    weight_mask = (1 << (search.payload_bits - search.class_bits)) - 1
    n_left, n_classes = np.int64(0), counts.shape[1]
    for c in range(n_classes):
        left[c] = 0
    for i in range(m):
        entry = entries[index(start + i)]
        weight = (entry >> search.class_bits) & weight_mask if found[j, i] <= cut else np.int64(0)
        n_left += weight
        left[index(entry & class_mask)] += weight
    if n_left < search.least or total - n_left < search.least:
        return NO_SCORE
    if n_classes <= 2:
        return score_pair(n_left, left[n_classes - 1], total, counts[node, n_classes - 1])
    inside, outside = np.int64(0), np.int64(0)
    for c in range(n_classes):
        inside += left[c] * left[c]
        outside += (counts[node, c] - left[c]) * (counts[node, c] - left[c])
    return score_squares(n_left, total - n_left, inside, outside)
