"""How good a literal is, and the best one of each column: all values and thresholds in one pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.backend.ops.cells import best_cells, count_cells
from arraylearn.backend.ops.thresholds import best_thresholds, first_best, pick_in_lines
from arraylearn.rules.literals.candidates import Candidates, CountedColumns
from arraylearn.rules.literals.live_rows import LiveRows
from arraylearn.rules.literals.target import Counts, Target

__all__ = [
    "GAINS",
    "Gain",
    "Scoring",
    "accuracy_gain",
    "foil_gain",
    "rounding_error",
    "score_literals",
    "score_table",
    "smoothed_foil_gain",
]

Gain = Callable[[Namespace, Array, Array, float, float], Array]

# Rows of a summary (4, d) or (6, d) of the best literals of d columns: score, weight of the positive rows and
# of all rows left; then the category's code (CODE), or the neighbouring numbers of the cut and its side.
SCORE, POSITIVE, COVERED, LOW, HIGH, SIDE = range(6)
CODE = LOW
# Sides of a cut: "<=" and ">".
BELOW, ABOVE = range(2)


def foil_gain(xp: Namespace, p: Array, covered: Array, p_before: float, covered_before: float) -> Array:
    r"""Information that a literal gains on the positive rows it still covers.

    .. math:: p' \left(\log_2 \frac{p'}{p' + n'} - \log_2 \frac{p}{p + n}\right)

    Parameters
    ----------
    p, covered : float array (...)
        Weight of positive rows and of all rows that the rule covers with the literal.
    p_before, covered_before : float
        The same without it; both positive.

    Returns
    -------
    array (...)
        In bits; 0 where no positive row is left.

    References
    ----------
    J. R. Quinlan, "Learning logical definitions from relations", Machine Learning 5, 1990.

    Examples
    --------
    >>> import array_api_compat.numpy as xp
    >>> from arraylearn.rules.literals.score_literals import foil_gain
    >>> foil_gain(xp, xp.asarray([6.0, 1.0]), xp.asarray([7.0, 1.0]), 7.0, 8.0).round(3).tolist()
    [-0.178, 0.193]
    """
    share = xp.where(p > 0, p, 1.0) / xp.where(p > 0, covered, 1.0)
    return p * (xp.log2(share) - math.log2(p_before / covered_before))


def smoothed_foil_gain(
    xp: Namespace, p: Array, covered: Array, p_before: float, covered_before: float
) -> Array:
    r"""FOIL's gain with one more positive row on both sides, as in Weka's JRip.

    .. math:: p' \left(\log_2 \frac{p' + 1}{p' + n' + 1} - \log_2 \frac{p + 1}{p + n + 1}\right)
    """
    base = math.log2((p_before + 1.0) / (covered_before + 1.0))
    return p * (xp.log2((p + 1.0) / (covered + 1.0)) - base)


def accuracy_gain(xp: Namespace, p: Array, covered: Array, p_before: float, covered_before: float) -> Array:
    r"""Accuracy of the rule with the literal, :math:`p' / (p' + n')`, whatever it was without."""
    return p / xp.where(covered > 0, covered, 1.0)


GAINS: dict[str, Gain] = {
    "accuracy": accuracy_gain,
    "foil": foil_gain,
    "smoothed_foil": smoothed_foil_gain,
}


class Scoring(NamedTuple):
    """How the literals that may be added to a rule are scored."""

    gain: Gain
    before: Counts  # what the rule covers without the literal
    least: float  # least weight of positive rows that a literal must leave

    def score(self, xp: Namespace, p: Array, covered: Array) -> Array:
        """Score literals; ``-inf`` for one that leaves too few positive rows, or all rows."""
        slack = rounding_error(xp, p, self.before.covered)
        score = self.gain(xp, p, covered, *self.before)
        is_allowed = (p > max(slack, self.least - 2 * slack)) & (covered < self.before.covered - slack)
        return xp.where(is_allowed, score, -math.inf)


def rounding_error(xp: Namespace, weights: Array, total: float) -> float:
    """Bound the rounding error of sums of float weights up to `total`."""
    return 1e-9 * total if xp.finfo(weights.dtype).eps < 1e-10 else 1e-5 * total


def score_literals(
    xp: Namespace, candidates: Candidates, live: LiveRows, target: Target, scoring: Scoring
) -> list[Array]:
    """Find the best literal of each column.

    Parameters
    ----------
    candidates, live : Candidates, LiveRows
        The table and the rows that the rule covers so far.
    target : Target
        Which of them it shall cover.
    scoring : Scoring
        How literals are scored; its counts are those of the live rows.

    Returns
    -------
    list of arrays (4, d) or (6, d)
        One per group of counted columns and one for the sorted columns, in the order of ``candidates.idx``.
        For each column: score (``-inf``: no literal), weight of positive rows and of all rows left; then the
        category's code, or the two neighbouring numbers between which the threshold lies and the side
        (0 "<=", 1 ">"). Ties go to coverage, then to the first.
    """
    parts = [_score_counted(xp, group, live.is_live, target, scoring) for group in candidates.counted]
    if live.lists.shape[0]:
        parts.append(_score_sorted(xp, candidates, live, target, scoring))
    return parts


def _score_counted(
    xp: Namespace, group: CountedColumns, is_live: Array, target: Target, scoring: Scoring
) -> Array:
    """Find the best value or threshold of columns that are counted by value."""
    columns = (xp, group.packed, group.n_cells, is_live, target.is_positive, target.weights)
    if group.values is None:
        return best_cells(*columns, lambda p, covered: scoring.score(xp, p, covered))
    return score_table(xp, group, *count_cells(*columns), scoring)


def score_table(xp: Namespace, group: CountedColumns, p: Array, covered: Array, scoring: Scoring) -> Array:
    """Find the best value or threshold given the weights (d, n_cells) of positive rows and of all rows."""
    place = Place(xp, array_api_compat.device(p))
    n_cells, dtype = group.n_cells, accumulator_dtype(place)
    if group.values is None:
        p, covered = xp.astype(p, dtype), xp.astype(covered, dtype)
        scores = scoring.score(xp, p, covered)
        best = first_best(xp, scores, covered)
        return _stack(xp, *pick_in_lines(xp, best, scores, p, covered), xp.astype(best, dtype))
    is_present = covered > 0
    p_side, c_side = _both_sides(xp, p, dtype), _both_sides(xp, covered, dtype)
    scores = xp.where(
        xp.concat((is_present, is_present), axis=1), scoring.score(xp, p_side, c_side), -math.inf
    )
    best = first_best(xp, scores, c_side)
    found = pick_in_lines(xp, best, scores, p_side, c_side)
    cell = best % n_cells
    position = xp.arange(n_cells, dtype=xp.int64, device=place.device)
    after = xp.argmax(xp.astype(is_present & (position > cell[:, None]), xp.int8), axis=1)
    neighbours = [pick_in_lines(xp, one, group.values)[0] for one in (cell, after)]
    others = [xp.astype(one, dtype) for one in (*neighbours, BELOW + best // n_cells)]
    return _stack(xp, *found, *others)


def _score_sorted(
    xp: Namespace, candidates: Candidates, live: LiveRows, target: Target, scoring: Scoring
) -> Array:
    """Find the best threshold of the columns that are kept sorted."""
    d, m = live.lists.shape
    device = array_api_compat.device(live.is_live)
    best, p, covered, position = best_thresholds(
        xp,
        live.lists,
        candidates.ranks,
        target.is_positive,
        target.weights,
        lambda p, covered: scoring.score(xp, p, covered),
    )
    is_above = position >= m
    at = xp.where(is_above, position - m, position)
    start = m * xp.arange(d, dtype=xp.int64, device=device)
    lists = xp.reshape(live.lists, (-1,))
    n = candidates.n_rows
    column = n * xp.asarray(candidates.sorted_idx, dtype=xp.int64, device=device)
    numbers = xp.reshape(candidates.columns, (-1,))
    neighbours = []
    for neighbour in (at, xp.where(at < m - 1, at + 1, at)):
        row = xp.astype(xp.take(lists, start + neighbour, axis=0), xp.int64)
        neighbours.append(xp.take(numbers, column + row, axis=0))
    side = BELOW + (ABOVE - BELOW) * xp.astype(is_above, xp.int64)
    return _stack(xp, *(xp.astype(one, best.dtype) for one in (best, p, covered, *neighbours, side)))


def _stack(xp: Namespace, *rows: Array) -> Array:
    """Stack (d,) arrays; NumPy's own stack takes four times as long."""
    return xp.reshape(xp.concat(rows), (len(rows), -1))


def _both_sides(xp: Namespace, values: Array, dtype: object) -> Array:
    """Sum (d, m) values up to each position, then beyond it: (d, 2 m)."""
    below = xp.cumulative_sum(values, axis=1)
    return xp.astype(xp.concat((below, below[:, -1:] - below), axis=1), dtype)
