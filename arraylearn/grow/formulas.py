"""The formulas of growth, once: plain functions of numbers that work on arrays and inside compiled loops.

Their arguments are rounded to the stated dtype already, and constants come as arguments of that dtype: every
backend and body does the same operations in the same order and gives the same bits. None calls another, which
inside compiled loops would be a plain Python function.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "gini_pair",
    "gini_squares",
    "gini_surplus",
    "pair_gain",
    "squares_gain",
    "surplus_gain",
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
