"""The best literal of each column: all values and thresholds in one pass."""

from __future__ import annotations

import math

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.rules.literals.candidates import Candidates, CountedColumns
from arraylearn.rules.literals.cells import best_cells, best_counts, count_cells, stack_rows
from arraylearn.rules.literals.gains import Scoring
from arraylearn.rules.literals.live_rows import LiveRows
from arraylearn.rules.literals.target import Target
from arraylearn.rules.literals.thresholds import best_thresholds, both_sides, first_best, pick_in_lines

__all__ = ["score_literals", "score_table"]

# Rows of a summary (4, d) or (6, d) of the best literals of d columns: score, weight of the positive rows and
# of all rows left; then the category's code (CODE), or the neighbouring numbers of the cut and its side.
SCORE, POSITIVE, COVERED, LOW, HIGH, SIDE = range(6)
CODE = LOW
# Sides of a cut: "<=" and ">".
BELOW, ABOVE = range(2)


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
    columns = (xp, group.packed, group.n_cells, is_live, target)
    if group.values is None:
        return best_cells(*columns, scoring)
    return score_table(xp, group, *count_cells(*columns), scoring)


def score_table(xp: Namespace, group: CountedColumns, p: Array, covered: Array, scoring: Scoring) -> Array:
    """Find the best value or threshold given the weights (d, n_cells) of positive rows and of all rows."""
    if group.values is None:
        return best_counts(xp, p, covered, scoring)
    place = Place(xp, array_api_compat.device(p))
    n_cells, dtype = group.n_cells, accumulator_dtype(place)
    is_present = covered > 0
    p_side, c_side = both_sides(xp, p, dtype), both_sides(xp, covered, dtype)
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
    return stack_rows(xp, *found, *others)


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
        target,
        scoring,
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
    return stack_rows(xp, *(xp.astype(one, best.dtype) for one in (best, p, covered, *neighbours, side)))
