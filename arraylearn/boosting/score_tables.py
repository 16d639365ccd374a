"""Gradients and exponentials of integer scores as tables: the same bits everywhere."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from arraylearn.grow.formulas import GRADIENT_BITS

__all__ = [
    "CELL_BITS",
    "LAST_SCORE",
    "SCORE_BITS",
    "STEP_BITS",
    "TABLE_END",
    "ExponentialTable",
    "exponential_table",
    "sigmoid_units",
]

Host = np.ndarray[Any, Any]

# Scores are integers in units of 2**-SCORE_BITS.
SCORE_BITS = 20
# The exponential of -24 to 0 at a step of 1/64 with straight lines between: right to 3e-5 of its value.
TABLE_END = 24
STEP_BITS = 6
# The sigmoid from -20 to 20 at a step of 2**-12, the nearest entry: right to 3e-5.
LAST_SCORE = 20
CELL_BITS = 12


class ExponentialTable(NamedTuple):
    """The exponential of scores up to 0."""

    values: Host  # float32 at each step from -TABLE_END on
    slopes: Host  # float32 per unit of the score, after each step


@cache
def exponential_table() -> ExponentialTable:
    """Make the table of the exponential."""
    steps = 1 << STEP_BITS
    values = [math.exp(i / steps) for i in range(-TABLE_END * steps, 1)]
    per_unit = 2.0 ** (STEP_BITS - SCORE_BITS)
    slopes = [(after - before) * per_unit for before, after in pairwise(values)]
    return ExponentialTable(
        np.asarray(values, dtype=np.float32), np.asarray([*slopes, 0.0], dtype=np.float32)
    )


@cache
def sigmoid_units() -> Host:
    """Return int64 (2, 2 m): gradient and hessian of the m scores for class 0, then for class 1.

    In units of ``2**-GRADIENT_BITS``; entry i belongs to the score ``i * 2**-CELL_BITS - LAST_SCORE``.
    """
    end = LAST_SCORE << CELL_BITS
    p = 1.0 / (1.0 + np.exp(-np.arange(-end, end + 1) * 2.0**-CELL_BITS))
    one = 1 << GRADIENT_BITS
    gradient = np.rint(p * one).astype(np.int64)
    hessian = np.rint(p * (1.0 - p) * one).astype(np.int64)
    return np.stack((np.concatenate((gradient, gradient - one)), np.concatenate((hessian, hessian))))
