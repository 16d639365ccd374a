"""Sigmoid and exponential of integer scores: tables with straight lines between, the same bits everywhere."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from typing import NamedTuple

__all__ = ["GRADIENT_BITS", "SCORE_BITS", "STEP_BITS", "TABLE_END", "ScoreTable", "score_function"]

# Scores are integers in units of 2**-SCORE_BITS.
SCORE_BITS = 20
# Gradients are rounded at 2**-30 of the largest weight before they are packed, sums stay below 2**31.
GRADIENT_BITS = 30
# A table reaches from -24 to 24 (the exponential to 0) at a step of 1/64: right to 3e-6.
TABLE_END = 24
STEP_BITS = 6


class ScoreTable(NamedTuple):
    """A function of scores."""

    values: tuple[float, ...]  # at each step from -TABLE_END on
    slopes: tuple[float, ...]  # per unit of the score, after each step


@cache
def score_function(name: str) -> ScoreTable:
    """Make the table of "sigmoid", or of "exponential" for scores up to 0."""
    steps = 1 << STEP_BITS
    last = TABLE_END * steps if name == "sigmoid" else 0
    points = [i / steps for i in range(-TABLE_END * steps, last + 1)]
    values = [1.0 / (1.0 + math.exp(-x)) if name == "sigmoid" else math.exp(x) for x in points]
    per_unit = 2.0 ** (STEP_BITS - SCORE_BITS)
    slopes = [(after - before) * per_unit for before, after in pairwise(values)]
    return ScoreTable(tuple(values), (*slopes, 0.0))
