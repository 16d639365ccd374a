"""Scores of splits, equal on every backend where weights are integers.

Logarithms are those of ``n log2(n)`` as integers in units of a power of two, computed by integer arithmetic:
sums of them do not depend on the order of classes and branches, and no library's logarithm decides which cut
is the best.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

import array_api_compat
import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host
from arraylearn.grow import formulas
from arraylearn.grow.formulas import INTERVAL_BITS, LOG_BITS, WEIGHT_BITS
from arraylearn.measures.count_measures import MEASURES, Measure

__all__ = [
    "CRITERIA",
    "MOST_IN_ORDER",
    "NO_LOGS",
    "PLAIN_GINI",
    "Criterion",
    "LogTable",
    "count_values",
    "gini_gains",
    "gini_scores",
    "log_table",
    "make_criterion",
    "n_log_n",
    "score_counts",
]

CRITERIA = {
    "gini": formulas.GINI,
    "accuracy": formulas.ACCURACY,
    "error": formulas.ERROR,
    "chi2": formulas.CHI2,
    "entropy": formulas.ENTROPY,
    "gain_ratio": formulas.GAIN_RATIO,
    "symmetric_gain_ratio": formulas.SYMMETRIC,
    "symmetric_gain_ratio_sum": formulas.SYMMETRIC_SUM,
}
_NAMES = {number: name for name, number in CRITERIA.items()}

# Up to here the classes are summed one by one in a fixed order, so that every backend rounds alike.
MOST_IN_ORDER = 4
# Logarithms of weights of up to so many bits are looked up: a table of 8 MB.
_TABLE_BITS = 20
_LEAST_BITS = 12
# Bits of the largest value of a table: fewer than float64 holds, so that rounding is below one unit.
_VALUE_BITS = 50
# Terms of the series of the logarithm; further ones would be lost in rounding.
_TERMS = 11
_LOG2_E = 1.4426950408889634


class LogTable(NamedTuple):
    """What ``n log2(n)`` is made of, at the place."""

    values: Array | None  # int64: the results for n = 0, 1, ...; None: they are computed each time
    logs: Array  # int64: arguments of `formulas.n_log_n` for each interval
    slopes: Array  # int64
    bits: int  # a unit is 2**-bits


class Criterion(NamedTuple):
    """A criterion for integer weights: its number, and the logarithms if it takes them."""

    number: int  # see `formulas.GINI`
    logs: LogTable | None


# For criteria without logarithms, where a table has to be passed.
_NONE = np.zeros(1, dtype=np.int64)
NO_LOGS = LogTable(_NONE, _NONE, _NONE, 0)
PLAIN_GINI = Criterion(formulas.GINI, None)


def log_table(largest: int) -> LogTable:
    """Make the logarithms of weights up to `largest`, on the host."""
    return _make_table(max(_LEAST_BITS, int(largest).bit_length()))


@lru_cache(maxsize=8)
def _make_table(bits: int) -> LogTable:
    computed = LogTable(None, *_make_intervals(), _VALUE_BITS - (bits << bits).bit_length())
    if bits > _TABLE_BITS:
        return computed
    return computed._replace(values=n_log_n(np, computed, np.arange(1 << bits, dtype=np.int64)))


@cache
def _make_intervals() -> tuple[HostArray, HostArray]:
    """Return `LogTable.logs` and `slopes` by additions, products and quotients: the same everywhere."""
    start = 1.0 + np.arange(1 << INTERVAL_BITS) * 2.0**-INTERVAL_BITS
    # between sqrt(1/2) and sqrt(2), where the series converges fast
    is_high = start > 1.4142135623730951
    near = np.where(is_high, 0.5 * start, start)
    ratio = (near - 1.0) / (near + 1.0)
    square, series = ratio * ratio, np.zeros_like(ratio)
    for k in range(_TERMS - 1, -1, -1):
        series = series * square + 1.0 / (2 * k + 1)
    log = is_high + 2.0 * _LOG2_E * (ratio * series)
    slope = _LOG2_E / start * 2.0 ** (72 - WEIGHT_BITS + 1)
    return np.rint(log * 2.0**LOG_BITS).astype(np.int64), np.rint(slope).astype(np.int64)


def make_criterion(place: Place, measure: str | Measure, weight: float) -> Criterion | None:
    """Return the criterion of a measure, for trees of some weight; None if scores have to be float sums."""
    number = CRITERIA.get(measure) if isinstance(measure, str) else None
    if number is None:
        return None
    if number < formulas.ENTROPY:
        return Criterion(number, None)
    if int(weight) >> WEIGHT_BITS:
        return None
    table = log_table(int(weight))
    values = None if table.values is None else from_host(table.values, place)
    logs, slopes = (from_host(part, place) for part in (table.logs, table.slopes))
    return Criterion(number, LogTable(values, logs, slopes, table.bits))


def score_counts(xp: Namespace, criterion: Criterion, counts: Array) -> Array:
    """Score splits by class counts (..., branch, class), which are integers of a float dtype.

    The values of `arraylearn.measures`, rounded alike on every backend; meaningless where a branch has all
    rows.
    """
    if criterion.number == formulas.CHI2 and counts.shape[-2] == 2:
        return _score_chi2(xp, counts)
    if criterion.number < formulas.ENTROPY:
        return MEASURES[_NAMES[criterion.number]](xp, counts)
    return _score_information(xp, criterion, xp.astype(counts, xp.int64))


def _score_chi2(xp: Namespace, counts: Array) -> Array:
    left, right = counts[..., 0, :], counts[..., 1, :]
    n_left, n_right = xp.sum(left, axis=-1), xp.sum(right, axis=-1)
    parts = xp.zeros_like(n_left)
    for c in range(counts.shape[-1]):
        inside, outside = left[..., c], right[..., c]
        outside = xp.where(inside + outside > 0, outside, 1.0)  # makes the part of a class without rows 0
        part = formulas.chi2_part(inside, outside, n_left, n_right)
        parts = parts + xp.where(left[..., c] + right[..., c] > 0, part, 0.0)
    is_split = (n_left > 0) & (n_right > 0)
    scores = formulas.gini_surplus(parts, xp.where(is_split, n_left, 1.0), xp.where(is_split, n_right, 1.0))
    return xp.where(is_split, scores, 0.0)


def _score_information(xp: Namespace, criterion: Criterion, counts: Array) -> Array:
    n_branches, n_classes = counts.shape[-2:]
    dtype, logs = accumulator_dtype(Place(xp, array_api_compat.device(counts))), criterion.logs
    assert logs is not None
    by_branch, by_class = xp.sum(counts, axis=-1), xp.sum(counts, axis=-2)
    size = xp.sum(by_class, axis=-1)
    node = n_log_n(xp, logs, size)
    branches = xp.sum(n_log_n(xp, logs, by_branch), axis=-1)
    classes = xp.sum(n_log_n(xp, logs, by_class), axis=-1)
    cells = xp.sum(n_log_n(xp, logs, counts), axis=(-2, -1))
    gained = formulas.information(node, cells, branches, classes)
    gained = xp.where(gained > count_values(n_branches, n_classes), gained, 0)
    split, held = (xp.astype(node - part, dtype) for part in (branches, classes))
    safe = xp.astype(xp.where(size > 0, size, 1) << logs.bits, dtype)
    return _divide(xp, criterion, xp.astype(gained, dtype), split, held, safe)


def _divide(
    xp: Namespace, criterion: Criterion, gained: Array, split: Array, held: Array, size: Array
) -> Array:
    """Score; 0 where nothing is gained, which covers all cases of a divisor of 0."""
    is_gain = gained > 0
    split, held = xp.where(is_gain, split, 1.0), xp.where(is_gain, held, 1.0)
    return formulas.information_score(criterion.number, gained, split, held, size)


def n_log_n(xp: Namespace, logs: LogTable, counts: Array) -> Array:
    """Return n log2(n) of int64 weights of any shape, in units."""

    def take(table: Array, at: Array) -> Array:
        return xp.reshape(xp.take(table, xp.reshape(at, (-1,)), axis=0), at.shape)

    if logs.values is not None:
        return take(logs.values, counts)
    lifted, exponent = formulas.lift(counts)
    interval = (lifted >> (WEIGHT_BITS - 1 - INTERVAL_BITS)) & ((1 << INTERVAL_BITS) - 1)
    start = take(logs.logs, interval), take(logs.slopes, interval)
    return formulas.n_log_n(lifted, exponent, *start, logs.bits)


def count_values(n_branches: int, n_classes: int) -> int:
    """Return the number of logarithms in `formulas.information`: its greatest error in units, too."""
    return (n_branches + 1) * (n_classes + 1)


# ---- the Gini index


def gini_scores(xp: Namespace, left: Array, right: Array) -> Array:
    r"""Score splits into two so that equal splits score equal on every backend.

    .. math:: \sum_c (M l_c - m L_c)^2 / (m (M - m)) \quad\text{or}\quad
              \sum_c l_c^2 / m + \sum_c r_c^2 / (M - m)

    The first form, for few classes, is :math:`M^2` times the Gini gain (half of that for two classes); the
    second, for many, :math:`M` times the gain plus a constant of the node. With integers each step is exact
    or correctly rounded. `gini_gains` turns scores into gains.

    Parameters
    ----------
    left, right : array (c, ...)
        Class counts or weights of the two sides, classes first.

    Returns
    -------
    float array (...)
        In the accumulator's dtype; `formulas.NO_SPLIT` where a side is empty.
    """
    dtype = accumulator_dtype(Place(xp, array_api_compat.device(left)))
    n_left = xp.astype(xp.sum(left, axis=0), dtype)
    n_right = xp.astype(xp.sum(right, axis=0), dtype)
    is_split = (n_left > 0) & (n_right > 0)
    safe_left, safe_right = xp.where(is_split, n_left, 1.0), xp.where(is_split, n_right, 1.0)
    n_classes = left.shape[0]
    if n_classes > MOST_IN_ORDER:
        squares_left = xp.astype(xp.sum(left * left, axis=0), dtype)
        squares_right = xp.astype(xp.sum(right * right, axis=0), dtype)
        scores = formulas.gini_squares(squares_left, safe_left, squares_right, safe_right)
    elif n_classes == 2:
        inside, outside = xp.astype(left[0, ...], dtype), xp.astype(right[0, ...], dtype)
        scores = formulas.gini_pair(safe_left, safe_right, inside, outside)
    else:
        surplus = xp.astype(left, dtype) * n_right - xp.astype(right, dtype) * n_left
        squares = surplus * surplus
        scores = squares[0, ...]
        for c in range(1, n_classes):
            scores = scores + squares[c, ...]
        scores = formulas.gini_surplus(scores, safe_left, safe_right)
    return xp.where(is_split, scores, formulas.NO_SPLIT)


def gini_gains(xp: Namespace, scores: Array, counts: Array) -> Array:
    """Turn `gini_scores` into Gini gains, given the class counts (c, ...) of the node; -inf for NO_SPLIT."""
    dtype = scores.dtype
    total = xp.astype(xp.sum(counts, axis=0), dtype)
    total = xp.where(total > 0, total, 1.0)
    n_classes = counts.shape[0]
    if n_classes > MOST_IN_ORDER:
        squares = xp.astype(xp.sum(counts * counts, axis=0), dtype)
        gains = formulas.squares_gain(scores, squares, total)
    else:
        gains = (formulas.pair_gain if n_classes == 2 else formulas.surplus_gain)(scores, total)
    return xp.where(scores == formulas.NO_SPLIT, -xp.inf, xp.where(gains > 0, gains, 0.0))
