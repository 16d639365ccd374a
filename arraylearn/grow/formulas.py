"""The formulas of growth, once: plain functions of numbers that work on arrays and inside compiled loops.

Their arguments are rounded to the stated dtype already, and they hold no constant that would widen it: every
backend and body does the same operations in the same order and gives the same bits.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "gini_pair",
    "gini_squares",
    "gini_surplus",
    "newton_gain",
    "newton_score",
    "newton_value",
    "pair_gain",
    "squares_gain",
    "surplus_gain",
    "unpack",
]

Number = Any  # a number, or an array of them


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
    """Return the step -G / (H + ridge) that lessens the loss the most; it gains -G times that."""
    return gradient / -(hessian + ridge)


def newton_gain(gradient: Number, ridged: Number, value: Number) -> Number:
    """Return what a value gains: -2 G v - h v**2, with the hessian h and its ridge."""
    return -((gradient + gradient) + ridged * value) * value
