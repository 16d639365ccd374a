"""The literal that improves a rule most: gains, the best literal of each column, the best of all columns."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple

import array_api_compat
import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.dispatch import native, numpy_body
from arraylearn.backend.namespace import HOST, Place, accumulator_dtype, read_together
from arraylearn.rules.counts import CountedColumns, Counts, Target, count_bits, count_cells, rows_of, units_of
from arraylearn.rules.literals import Candidates, LiveRows
from arraylearn.rules.rule import Condition, Relation
from arraylearn.table import MISSING_CODE

__all__ = [
    "GAINS",
    "Entry",
    "Gain",
    "ScoredLiteral",
    "Scoring",
    "accuracy_gain",
    "best_cells",
    "best_entry",
    "best_literal",
    "best_thresholds",
    "cut_between",
    "first_best",
    "foil_gain",
    "near_best",
    "pick_by_column",
    "state_literal",
]

# Rows of a summary (4, d) or (6, d) of the best literals of d columns: score, weight of the positive rows and
# of all rows left; then the category's code (CODE), or the neighbouring numbers of the cut and its side.
SCORE, POSITIVE, COVERED, LOW, HIGH, SIDE = range(6)
CODE = LOW
# Sides of a cut: "<=" and ">".
BELOW, ABOVE = 0, 1
# Position of a column in ``candidates.idx``, and the column of a summary for its best literal.
Entry = tuple[int, list[float]]


class ScoredLiteral(NamedTuple):
    """A literal, its score, and what the rule covers with it."""

    condition: Condition
    score: float
    counts: Counts


# ---- gains

Gain = Callable[[Namespace, Array, Array, float, float], Array]


def foil_gain(
    xp: Namespace,
    p: Array,
    covered: Array,
    p_before: float,
    covered_before: float,
    smoothing: float = 0.0,
) -> Array:
    r"""Information that a literal gains on the positive rows it still covers.

    .. math:: p' \left(\log_2 \frac{p' + s}{p' + n' + s} - \log_2 \frac{p + s}{p + n + s}\right)

    Parameters
    ----------
    p, covered : float array (...)
        Weight of positive rows and of all rows that the rule covers with the literal.
    p_before, covered_before : float
        The same without it; both positive.
    smoothing : float
        The :math:`s` above: 0, or 1 as in Weka's JRip.

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
    >>> from arraylearn.rules.find_literal import foil_gain
    >>> foil_gain(xp, xp.asarray([6.0, 1.0]), xp.asarray([7.0, 1.0]), 7.0, 8.0).round(3).tolist()
    [-0.178, 0.193]
    """
    share = xp.where(p > 0, p + smoothing, 1.0) / xp.where(p > 0, covered + smoothing, 1.0)
    return p * (xp.log2(share) - math.log2((p_before + smoothing) / (covered_before + smoothing)))


def accuracy_gain(xp: Namespace, p: Array, covered: Array, p_before: float, covered_before: float) -> Array:
    r"""Accuracy of the rule with the literal, :math:`p' / (p' + n')`, whatever it is without."""
    return p / xp.where(covered > 0, covered, 1.0)


GainName = Literal["accuracy", "foil", "smoothed_foil"]
GAINS: dict[GainName, Gain] = {
    "accuracy": accuracy_gain,
    "foil": foil_gain,
    "smoothed_foil": partial(foil_gain, smoothing=1.0),
}


class Scoring(NamedTuple):
    """How the literals that may be added to a rule are scored."""

    place: Place
    gain: GainName
    before: Counts  # what the rule covers without the literal
    n_before: int  # the same as a number of rows
    least: float  # least number of positive rows that a literal must leave
    unit: float | None = None  # rows per unit of weight; None: rows are counted
    floor: float = 0.0  # a literal that scores less is of no use, and need not be found

    def weights(self, xp: Namespace, sums: Array) -> Array:
        """Turn sums of `Target.weights`, or numbers of rows, into floats: weights, in rows."""
        dtype = accumulator_dtype(self.place)
        if self.unit is None:
            return xp.astype(sums, dtype, copy=False)
        return xp.astype(units_of(sums), dtype) * self.unit

    def score(self, xp: Namespace, p: Array, covered: Array) -> tuple[Array, Array, Array]:
        """Score literals from sums over the positive rows and all rows that they leave.

        Returned are the scores, ``-inf`` for one that leaves too few positive rows or all rows, and the
        weights of the sums.
        """
        n_positive, n_covered = (p, covered) if self.unit is None else (rows_of(p), rows_of(covered))
        is_allowed = (n_positive >= max(1, math.ceil(self.least))) & (n_covered < self.n_before)
        p, covered = self.weights(xp, p), self.weights(xp, covered)
        return xp.where(is_allowed, GAINS[self.gain](xp, p, covered, *self.before), -math.inf), p, covered


# ---- the best literal of all columns, chosen on the host


def best_literal(live: LiveRows, scoring: Scoring) -> ScoredLiteral | None:
    """Find the best literal for the live rows; None where there is none; one sync.

    Ties go to coverage, then to the column with fewer values, then to the first one.
    """
    candidates = live.candidates
    parts = [_score_counted(live, group, scoring) for group in candidates.counted]
    if live.sums is not None:
        parts.append(_search_blocks(live, scoring))
    elif live.lists.shape[0]:
        parts.append(_score_sorted(live, scoring))
    entry = best_entry(candidates, near_best(candidates, read_together(candidates.place, *parts)))
    return None if entry is None else state_literal(candidates, entry)


def near_best(candidates: Candidates, parts: Sequence[HostArray]) -> list[Entry]:
    """Return the columns whose literals score best, near equals included, from summaries on the host."""
    top = max((float(part[SCORE].max()) for part in parts), default=-math.inf)
    if top == -math.inf:
        return []
    least = top - candidates.tolerance * abs(top)
    found: list[Entry] = []
    offset = 0
    for part in parts:
        found += [(offset + j, part[:, j].tolist()) for j in (part[SCORE] >= least).nonzero()[0].tolist()]
        offset += part.shape[1]
    return found


def best_entry(candidates: Candidates, entries: Sequence[Entry]) -> Entry | None:
    """Choose by score, then coverage, then fewer values, then the first column."""
    if not entries:
        return None
    top = max(numbers[SCORE] for _, numbers in entries)
    least = top - candidates.tolerance * abs(top)
    tied = [entry for entry in entries if entry[1][SCORE] >= least]
    return min(
        tied, key=lambda entry: (-entry[1][COVERED], candidates.n_values[entry[0]], candidates.idx[entry[0]])
    )


def state_literal(candidates: Candidates, entry: Entry) -> ScoredLiteral:
    """State the literal of an entry, with a threshold between its neighbours."""
    at, numbers = entry
    column, counts = candidates.idx[at], Counts(numbers[POSITIVE], numbers[COVERED])
    if len(numbers) <= SIDE:
        return ScoredLiteral(Condition(column, "=", int(numbers[CODE])), numbers[SCORE], counts)
    is_single = bool(candidates.columns.dtype == candidates.place.xp.float32)
    value = cut_between(numbers[LOW], numbers[HIGH], is_single=is_single)
    relation: Relation = "<=" if numbers[SIDE] == BELOW else ">"
    return ScoredLiteral(Condition(column, relation, value), numbers[SCORE], counts)


def cut_between(lower: float, upper: float, *, is_single: bool) -> float:
    """Return a number in ``[lower, upper)`` near the middle, whatever the unit of the two.

    Rows that are held back may lie in the middle: slightly above it, a cut sends them to the same side
    however the middle is rounded.
    """
    cut = lower + 0.50001 * (upper - lower)
    compared = struct.unpack("f", struct.pack("f", cut))[0] if is_single else cut
    return cut if lower <= compared < upper else lower


# ---- columns that are counted by value


def _score_counted(live: LiveRows, group: CountedColumns, scoring: Scoring) -> Array:
    """Summarize the best value or threshold of columns that are counted by value."""
    xp = live.candidates.place.xp
    if group.values is None:
        return best_cells(xp, group, live.is_live, live.target, scoring)
    return _score_table(xp, group, *count_cells(xp, group, live.is_live, live.target), scoring)


def best_cells(
    xp: Namespace, group: CountedColumns, is_live: Array, target: Target, scoring: Scoring
) -> Array:
    """Summarize the value of each column that scores best among the live rows.

    The arguments are those of `count_cells`; the result is an array (4, d): score, weight of the positive
    rows and of all rows, and the value. Near equals: the largest coverage, then the first value. A column
    that is not among the best may report the score ``-inf``.
    """
    if fast := native(xp, "best_cells"):
        return fast(group, is_live, target, scoring)
    return _best_counts(xp, *count_cells(xp, group, is_live, target), scoring)


@numpy_body
def _best_cells(group: CountedColumns, is_live: HostArray, target: Target, scoring: Scoring) -> HostArray:
    xp, bits = HOST.xp, group.bits if target.weights is None else None
    found = np.full((4, group.cells.shape[0]), -np.inf)
    if bits is None:
        p, covered = (sums.ravel() for sums in count_cells(xp, group, is_live, target))
    else:
        p, covered = count_bits(bits, is_live, target)
    scores, p, covered = scoring.score(xp, p, covered)
    top = float(scores.max()) if scores.shape[0] else -np.inf
    if top == -np.inf:
        return found
    # only what can be the best of all columns is looked up, so that most columns cost nothing
    for i in (scores >= top - _tolerance(xp, scores) * abs(top)).nonzero()[0].tolist():
        j, value = divmod(i if bits is None else int(bits.present[i]), group.n_cells)
        if covered[i] > found[COVERED, j]:
            found[:, j] = scores[i], p[i], covered[i], value
    return found


def _best_counts(xp: Namespace, p: Array, covered: Array, scoring: Scoring) -> Array:
    """Summarize the best value, given the sums (d, n_cells) of the positive rows and of all rows."""
    scores, p, covered = scoring.score(xp, p, covered)
    best = first_best(xp, scores, covered)
    return _stack_rows(xp, *pick_by_column(xp, best, scores, p, covered), xp.astype(best, scores.dtype))


def _score_table(xp: Namespace, group: CountedColumns, p: Array, covered: Array, scoring: Scoring) -> Array:
    """Summarize the best threshold, given the sums (d, n_cells) of the positive rows and of all rows."""
    place = Place(xp, array_api_compat.device(p))
    n_cells, is_present = group.n_cells, covered > 0
    scores, p_side, c_side = scoring.score(xp, _both_sides(xp, p), _both_sides(xp, covered))
    scores = xp.where(xp.concat((is_present, is_present), axis=1), scores, -math.inf)
    best = first_best(xp, scores, c_side)
    found = pick_by_column(xp, best, scores, p_side, c_side)
    cell = best % n_cells
    position = xp.arange(n_cells, dtype=xp.int64, device=place.device)
    after = xp.argmax(xp.astype(is_present & (position > cell[:, None]), xp.int8), axis=1)
    neighbours = [pick_by_column(xp, one, group.values)[0] for one in (cell, after)]
    others = [xp.astype(one, scores.dtype) for one in (*neighbours, BELOW + best // n_cells)]
    return _stack_rows(xp, *found, *others)


# ---- columns that are kept sorted


def _search_blocks(live: LiveRows, scoring: Scoring) -> Array:
    """Summarize the best threshold of the columns that are kept sorted, found by the compiled body."""
    candidates = live.candidates
    found, beside = candidates.blocks.best_thresholds(live.target, live.is_live, live.sums, scoring)
    # the numbers on both sides of the cut stand before the side
    numbers = candidates.columns[list(candidates.sorted_idx), beside]
    return np.concatenate((found[:LOW], numbers, found[LOW:]))


def _score_sorted(live: LiveRows, scoring: Scoring) -> Array:
    """Summarize the best threshold of the columns that are kept sorted."""
    candidates, lists, target = live.candidates, live.lists, live.target
    xp, device = candidates.place.xp, candidates.place.device
    (d, m), n = lists.shape, candidates.columns.shape[1]
    best, p, covered, position = best_thresholds(xp, lists, candidates.ranks, target, scoring)
    is_above = position >= m
    at = xp.where(is_above, position - m, position)
    start = m * xp.arange(d, dtype=xp.int64, device=device)
    flat, numbers = xp.reshape(lists, (-1,)), xp.reshape(candidates.columns, (-1,))
    column = n * xp.asarray(candidates.sorted_idx, dtype=xp.int64, device=device)
    others = []
    for neighbour in (at, xp.where(at < m - 1, at + 1, at)):
        row = xp.astype(xp.take(flat, start + neighbour, axis=0), xp.int64)
        others.append(xp.astype(xp.take(numbers, column + row, axis=0), best.dtype))
    side = xp.astype(is_above, best.dtype)  # as numbers: BELOW, ABOVE
    return _stack_rows(xp, best, p, covered, *others, side)


def best_thresholds(
    xp: Namespace, lists: Array, ranks: Array, target: Target, scoring: Scoring
) -> tuple[Array, Array, Array, Array]:
    """Find the side of the cut of each column that scores best.

    Parameters
    ----------
    lists : int32 array (d, m)
        Some of the rows ``range(n)``, the same ones for each column, ordered by the column's value; missing
        ones last. m is at least 1.
    ranks : int32 array (d, n)
        Dense rank of each row's value, or MISSING_CODE.
    target : Target
        Which rows to cover, and their weights.
    scoring : Scoring
        How sides are scored. A gain must not fall with p for the same ``covered - p``, nor rise with
        ``covered`` for the same p.

    Returns
    -------
    score, p, covered : arrays (d,)
        Of the best side of each column, in the accumulator's dtype; the score is ``-inf`` where no cut
        separates two values. Near equals: the largest coverage, then the first position. A column whose best
        side is bettered by another column's may report the score ``-inf``.
    position : int64 array (d,)
        i for the rows up to position i of the list, m + i for the rows beyond it.
    """
    d, m = lists.shape
    rows = xp.astype(lists, xp.int64)
    rank = xp.take_along_axis(ranks, rows, axis=1)
    flat = xp.reshape(rows, (-1,))
    covered = xp.astype(rank != MISSING_CODE, xp.int64)
    if target.weights is not None:
        covered = covered * xp.reshape(xp.take(target.weights, flat, axis=0), (d, m))
    p = xp.where(xp.reshape(xp.take(target.is_positive, flat, axis=0), (d, m)), covered, 0)
    scores, p_side, c_side = scoring.score(xp, _both_sides(xp, p), _both_sides(xp, covered))
    is_cut = xp.concat((rank[:, :-1] != rank[:, 1:], rank[:, :1] < rank[:, :1]), axis=1) & (rank >= 0)
    # the step from the last value to the missing ones cuts nothing off
    is_cut = is_cut & xp.concat((rank[:, 1:] != MISSING_CODE, is_cut[:, :1]), axis=1)
    scores = xp.where(xp.concat((is_cut, is_cut), axis=1), scores, -math.inf)
    best = first_best(xp, scores, c_side)
    top, p, covered = pick_by_column(xp, best, scores, p_side, c_side)
    return top, p, covered, best


# ---- parts


def _both_sides(xp: Namespace, values: Array) -> Array:
    """Sum (d, m) values up to each position, then beyond it: (d, 2 m)."""
    below = xp.cumulative_sum(values, axis=1)
    return xp.concat((below, below[:, -1:] - below), axis=1)


def first_best(xp: Namespace, scores: Array, covered: Array) -> Array:
    """Return the position (d,) of the best of scores (d, m); near equals: most coverage, then the first."""
    top = xp.max(scores, axis=1, keepdims=True)
    is_tied = scores >= top - _tolerance(xp, scores) * xp.abs(top)
    return xp.argmax(xp.where(is_tied, covered, -1.0), axis=1)


def _tolerance(xp: Namespace, scores: Array) -> float:
    """Return the relative difference up to which scores are equal."""
    return 64 * float(xp.finfo(scores.dtype).eps)


def pick_by_column(xp: Namespace, positions: Array, *blocks: Array) -> list[Array]:
    """Take the entry at ``positions[j]`` of row j of each block (d, m)."""
    d, m = blocks[0].shape
    flat = positions + m * xp.arange(d, dtype=positions.dtype, device=array_api_compat.device(positions))
    return [xp.take(xp.reshape(block, (-1,)), flat, axis=0) for block in blocks]


def _stack_rows(xp: Namespace, *rows: Array) -> Array:
    """Stack (d,) arrays; NumPy's own stack takes four times as long."""
    return xp.reshape(xp.concat(rows), (len(rows), -1))
