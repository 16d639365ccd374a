"""The formulas of growth, once: plain functions of numbers that work on arrays and inside compiled loops.

Their arguments are rounded to the stated dtype already, and they contain no constant that would widen it, so
that every backend and body does the same operations in the same order and gives the same bits. Constants that
compiled code uses are here, too: when this file changes, compiled code is built anew. No formula calls
another, because compiled loops would see a plain Python function there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "ACCURACY",
    "CHI2",
    "ENTROPY",
    "ERROR",
    "GAIN_RATIO",
    "GINI",
    "GRADIENT_BITS",
    "INTERVAL_BITS",
    "LOG_BITS",
    "MOST_GROUPS",
    "NEWTON",
    "NEWTON_BOUNDED",
    "NO_GAIN",
    "SYMMETRIC",
    "SYMMETRIC_SUM",
    "WEIGHT_BITS",
    "chi2_part",
    "draw_position",
    "gini_of_two",
    "gini_pair",
    "gini_squares",
    "gini_surplus",
    "group_bits",
    "information",
    "information_score",
    "lift",
    "majority_score",
    "n_log_n",
    "newton_gain",
    "newton_score",
    "newton_value",
    "pair_gain",
    "splitmix",
    "squares_gain",
    "surplus_gain",
    "unpack",
]

Number = Any  # a number, or an array of them

# Gradients are rounded at 2**-30 of the largest weight before they are packed, sums stay below 2**31.
GRADIENT_BITS = 30
# Criteria. NEWTON_BOUNDED keeps the values of nodes within bounds, for columns along which values may only
# rise or only fall. The criteria from ENTROPY on take logarithms.
GINI, NEWTON, NEWTON_BOUNDED, ACCURACY, ERROR, CHI2, ENTROPY, GAIN_RATIO, SYMMETRIC, SYMMETRIC_SUM = range(10)

# Score of a cut of two classes without gain, so that 0 means only: no cut is allowed. Added to any larger
# score, it is lost in rounding.
NO_GAIN = 2.0**-100
# In place of a Gini score, which is not negative: there is no admissible split.
NO_SPLIT = -1.0
# Weights whose logarithms are computed have fewer bits; a lifted weight is in one of so many intervals.
WEIGHT_BITS, INTERVAL_BITS = 31, 10
# Bits after the point of base-2 logarithms.
LOG_BITS = 52
# ln(2)/2, ln(2)**2/3 and ln(2)**3/4, in units of 2**-31.
_SECOND, _THIRD, _FOURTH = 744_261_118, 343_921_664, 178_791_249
# The most groups of neighbouring bins in a large node, of four rows or more on average.
MOST_GROUPS = 256


def gini_pair(n_left: Number, n_right: Number, inside: Number, outside: Number) -> Number:
    """Score a split of two classes in float64: `inside` of the left rows, `outside` of the right ones."""
    surplus = inside * n_right - outside * n_left
    return surplus * surplus * (1.0 / (n_left * n_right))


def gini_surplus(squares: Number, n_left: Number, n_right: Number) -> Number:
    """Score a split by the sum over few classes of (left n_right - right n_left)**2, in float64."""
    return squares * (1.0 / (n_left * n_right))


def gini_squares(left: Number, n_left: Number, right: Number, n_right: Number) -> Number:
    """Score a split of many classes by the sums of squared counts of both sides, in float64."""
    return left / n_left + right / n_right


def pair_gain(score: Number, n: Number) -> Number:
    """Turn the score of two classes into the Gini gain; `n` is the weight of the node."""
    return score * 2.0 / (n * n)


def surplus_gain(score: Number, n: Number) -> Number:
    """Turn the score of few classes into the Gini gain."""
    return score / (n * n)


def squares_gain(score: Number, squares: Number, n: Number) -> Number:
    """Turn the score of many classes into the Gini gain, with the sum of squared counts of the node."""
    return (score - squares / n) / n


def majority_score(correct: Number, before: Number, n: Number) -> Number:
    """Score a split by the weight of the largest class of each side, less `before`, in float64.

    `before` is 0 for the accuracy, the weight of the largest class of the node for the gain in errors.
    """
    return (correct - before) / n


def chi2_part(inside: Number, outside: Number, n_left: Number, n_right: Number) -> Number:
    """Return the part of a class in the chi2 statistic of two sides, times ``n_left n_right``, in float64.

    `inside` of the class are left, `outside` right, at least one in all. Parts are added by class, from 0 on.
    """
    surplus = inside * n_right - outside * n_left
    return surplus * surplus / (inside + outside)


def lift(n: Number) -> tuple[Number, Number]:
    """Return n of `WEIGHT_BITS` bits times a power of two that makes its first bit 1, and the exponent."""
    exponent = 16 - ((-(n >> 15) >> 63) & 16)
    lifted = n << exponent
    more = ((lifted >> 23) - 1 >> 63) & 8
    lifted, exponent = lifted << more, exponent + more
    more = ((lifted >> 27) - 1 >> 63) & 4
    lifted, exponent = lifted << more, exponent + more
    more = ((lifted >> 29) - 1 >> 63) & 2
    lifted, exponent = lifted << more, exponent + more
    more = ((lifted >> 30) - 1 >> 63) & 1
    return lifted << more, exponent + more


def n_log_n(lifted: Number, exponent: Number, log: Number, slope: Number, bits: int) -> Number:
    """Return n log2(n) as an int64 in units of ``2**-bits``: rounded, and at most 0.53 units off.

    `lifted` and `exponent` come from `lift`. `log` is log2 of the start of the interval of the lifted weight,
    as a share of its first bit, in units of ``2**-LOG_BITS``; `slope` is log2(e) / start in units of 2**-72.
    At a distance of d from the start, log2 is larger by t - t**2 ln(2)/2 + t**3 ln(2)**2/3 - ..., where
    t = log2(e) d / start. No product leaves 63 bits.
    """
    distance = (lifted & ((1 << 20) - 1)) * slope
    short = distance >> 31  # in units of 2**-41
    series = _SECOND - (short * (_THIRD - (short * _FOURTH >> 41)) >> 41)
    log = log + (distance >> 20) - (short * (short * series >> 31) >> 30) + ((30 - exponent) << 52)
    # the product has 83 bits: the halves of the logarithm are multiplied one by one
    product = lifted * (log >> 26) + (lifted * (log & ((1 << 26) - 1)) >> 26)
    half = exponent + (25 - bits)
    return ((product >> half) + 1) >> 1


def information(node: Number, cells: Number, branches: Number, classes: Number) -> Number:
    """Return the mutual information of branch and class in units of integers: sums of ``n log2(n)``.

    The arguments are such sums: for the node as a whole, its cells of branch and class, its branches, its
    classes. Each looked-up value is at most one unit off, so that a result of no more units than there are
    values stands for 0.
    """
    return node + cells - branches - classes


def information_score(criterion: int, gained: Number, split: Number, held: Number, size: Number) -> Number:
    """Score a split by logarithms in float64.

    `gained` is the mutual information, `split` the entropy of the branches, `held` that of the classes,
    `size` the weight of the node, all times that weight and in the same units.
    """
    if criterion == ENTROPY:
        return gained / size
    if criterion == GAIN_RATIO:
        return gained / split
    if criterion == SYMMETRIC:
        return gained / (split + held - gained)
    return gained / (split + held)


def newton_score(gradient: Number, left: Number, slope: Number, area: Number) -> Number:
    """Score a split in float32 by q**2 / area, with q = G_L - slope h_L.

    `left` is the hessian h_L of the left side with the ridge, `area` its product with that of the right side,
    1/2 at least, `slope` that of the node, G / (h_L + h_R).
    """
    q = gradient - slope * left
    return q * q / area


def unpack(packed: Number) -> tuple[Number, Number]:
    """Return gradient and hessian of packed sums, ``(hessian << 32) + gradient``."""
    hessian = (packed + (1 << 31)) >> 32
    return packed - (hessian << 32), hessian


def newton_value(gradient: Number, hessian: Number, ridge: Number) -> Number:
    """Return the step -G / (H + ridge), which lowers the loss the most: its gain is -G times the step."""
    return gradient / -(hessian + ridge)


def newton_gain(gradient: Number, ridged: Number, value: Number) -> Number:
    """Return the gain of a value v: -2 G v - h v**2, where h is the hessian with the ridge."""
    return -((gradient + gradient) + ridged * value) * value


def gini_of_two(surplus: Number, product: Number, no_gain: Number) -> Number:
    """Score a split of two classes in float32.

    With integer weights n of the node and m of its left side, `surplus` is ``n left[1] - m total[1]`` and
    `product` is ``m (n - m)``; `no_gain` is `NO_GAIN`.
    """
    return surplus * surplus / product + no_gain


def group_bits(size_bits: int, bin_bits: int) -> int:
    """Return the bits of the number of a group in a large node, whose number of rows has `size_bits`."""
    return min(8, size_bits - 3, bin_bits)


def draw_position(low: Number, high: Number, number: Number) -> Number:
    """Return a position between two others, drawn by a number of 32 random bits."""
    return low + (((high - low) * number) >> 32)


def splitmix(number: Number) -> Number:
    """Return a pseudo-random uint64, a function of the one given (splitmix64)."""
    number = number + np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))
