"""The working memory of a thread that looks for cuts, and what those who use it share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.cpu.jit import Host, Whole, compiled_part
from arraylearn.backend.cpu.unsigned import index
from arraylearn.backend.ops.cuts import MOST_GROUP_BITS, NO_GAIN

__all__ = [
    "COLUMNS_TOGETHER",
    "DIGITS",
    "DIGIT_BITS",
    "FIELD",
    "FIELD_BITS",
    "HEAVIEST",
    "LANES",
    "NO_SCORE",
    "TRIFLE",
    "Desk",
    "Search",
    "make_desk",
    "scatter_bits",
    "score_pair",
    "score_squares",
    "unpack_weights",
]

# Columns whose bins are gathered together.
COLUMNS_TOGETHER = 8
# Lines may be filled up to a multiple of this.
LANES = 8
# Products of weights up to here fit 32 bits, and they themselves a field of 16.
HEAVIEST = 46_340
FIELD_BITS = 16
FIELD = 0xFFFF
# Bins are sorted by two digits.
DIGIT_BITS = 6
DIGITS = 1 << DIGIT_BITS
TRIFLE = np.float32(NO_GAIN)
NO_SCORE = np.float32(0)


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
    packed: (
        Host  # (s,) int32: weights, and above them classes; of two classes the weights again in the last one
    )
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
    n_ordered = min(n_rows, HEAVIEST) + LANES
    packed, sums, squares_left, squares_right, keys, ordered = np.empty((6, n_ordered), dtype=np.int32)
    scores = np.empty(n_ordered, dtype=np.float32)
    return Desk(
        np.empty((COLUMNS_TOGETHER, n_rows + LANES), dtype=np.int32),
        packed,
        sums,
        squares_left,
        squares_right,
        scores,
        scores.view(np.int32),
        keys,
        ordered,
        np.empty((2, DIGITS), dtype=np.int32),
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
def score_pair(n_left: Whole, last_left: Whole, n: Whole, last: Whole) -> Any:
    """Score a cut of two classes; both sides have rows."""
    surplus = np.float32(last_left * n - n_left * last)
    return surplus * surplus / np.float32(n_left * (n - n_left)) + TRIFLE


@compiled_part
def score_squares(n_left: Whole, n_right: Whole, inside: Whole, outside: Whole) -> Any:
    """Score a cut of several classes by the sums of the squares of their weights on both sides."""
    return np.float32(inside) / np.float32(n_left) + np.float32(outside) / np.float32(n_right)


@compiled_part
def unpack_weights(
    entries: Host,
    start: Whole,
    m: Whole,
    n_classes: Whole,
    class_bits: Whole,
    payload_bits: Whole,
    packed: Host,
) -> None:
    """Write what `Desk` says of the weights and classes of rows, and nothing behind them."""
    class_mask, weight_mask = (1 << class_bits) - 1, (1 << (payload_bits - class_bits)) - 1
    for i in range(m):
        entry = entries[index(start + i)]
        weight, code = (entry >> class_bits) & weight_mask, entry & class_mask
        packed[i] = weight | (code * (weight if n_classes <= 2 else 1)) << FIELD_BITS
    for i in range(m, m + LANES):
        packed[i] = 0
