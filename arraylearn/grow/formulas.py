"""The formulas of growth, once: plain functions of numbers that work on arrays and inside compiled loops.

Their arguments are rounded to the stated dtype already, and constants come as arguments of that dtype, so
that every backend and body does the same operations in the same order and gives the same bits. Constants that
compiled code knows stand here, too: it is compiled anew where this file changes.
"""

from __future__ import annotations

from typing import Any

__all__ = ["MOST_GROUPS", "NO_GAIN", "draw_position", "gini_of_two", "gini_squares", "group_bits"]

Number = Any  # a number, or an array of them

# Score of a cut of two classes without gain, so that 0 means only: no cut is allowed. It is lost in the
# rounding of all others.
NO_GAIN = 2.0**-100
# A large node looks at up to so many groups of neighbouring bins, of four rows or more on average.
MOST_GROUPS = 256


def gini_of_two(surplus: Number, product: Number, no_gain: Number) -> Number:
    """Score a split of two classes in float32.

    Of integer weights, n of the node and m of its left side, `surplus` is ``n left[1] - m total[1]`` and
    `product` is ``m (n - m)``; `no_gain` is `NO_GAIN`.
    """
    return surplus * surplus / product + no_gain


def gini_squares(left: Number, n_left: Number, right: Number, n_right: Number) -> Number:
    """Score a split of several classes by the sums of squared class weights of both sides."""
    return left / n_left + right / n_right


def group_bits(size_bits: int, bin_bits: int) -> int:
    """Return the bits of the number of a group in a large node; `size_bits` of its number of rows."""
    return min(8, size_bits - 3, bin_bits)


def draw_position(low: Number, high: Number, number: Number) -> Number:
    """Return the position between two others that a number of 32 random bits draws."""
    return low + (((high - low) * number) >> 32)
