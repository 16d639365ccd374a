"""NumPy body of the threshold search: few rows in one go, many column by column."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np

from arraylearn.backend.namespace import HOST
from arraylearn.backend.threads import parallel_map
from arraylearn.rules.literals.gains import Scoring
from arraylearn.rules.literals.target import Target

__all__ = ["best_thresholds", "search_columns", "search_together"]

Host = np.ndarray[Any, Any]
# Up to so many numbers the calls cost more than the work: all columns are searched together.
_SMALL = 20_000
_WORTH_A_THREAD = 100_000
_TOLERANCE = 64 * np.finfo(np.float64).eps
_NOTHING = (-np.inf, 0.0, 0.0, 0)


def best_thresholds(
    lists: Host, ranks: Host, target: Target, scoring: Scoring
) -> tuple[Host, Host, Host, Host]:
    """Find the best side as the program does."""
    search = search_together if lists.size <= _SMALL else search_columns
    return search(lists, ranks, target, scoring)


def search_columns(
    lists: Host, ranks: Host, target: Target, scoring: Scoring
) -> tuple[Host, Host, Host, Host]:
    """Search column by column, only cuts whose sides cannot be bettered by the next value."""
    (d, m), (positive, weights) = lists.shape, target
    flags = positive.view(np.int8)
    weighted = None if weights is None else positive * weights

    def search(j: int) -> tuple[float, float, float, int]:
        rows = lists[j]
        n_present = m
        if m and ranks[j, rows[-1]] < 0:
            n_present = bisect_left(range(m), True, key=lambda i: bool(ranks[j, rows[i]] < 0))
            rows = rows[:n_present]
        if n_present < 2:
            return _NOTHING
        sign = flags.take(rows)
        if weights is None or weighted is None:
            p, covered = np.cumsum(sign, dtype=np.int32), None
        else:
            p, covered = np.cumsum(weighted.take(rows)), np.cumsum(weights.take(rows))
        below, above = _useful_cuts(ranks[j].take(rows), sign)
        return _best(p, covered, below, above, m, scoring)

    lines = parallel_map(search, range(d)) if d * m > _WORTH_A_THREAD else [search(j) for j in range(d)]
    found = np.array([line[:3] for line in lines], dtype=np.float64).reshape(d, 3).T
    return found[0], found[1], found[2], np.array([line[3] for line in lines], dtype=np.int64)


def search_together(
    lists: Host, ranks: Host, target: Target, scoring: Scoring
) -> tuple[Host, Host, Host, Host]:
    """Score all cuts of all columns at once; only the columns that can be chosen are looked up."""
    (d, m), n, (positive, weights) = lists.shape, ranks.shape[1], target
    result = np.full((3, d), -np.inf), np.zeros(d, dtype=np.int64)
    rank = ranks.ravel().take(lists + n * np.arange(d)[:, None])
    # missing ranks are negative and stand last
    cuts = np.flatnonzero((rank[:, 1:] != rank[:, :-1]) & (rank[:, 1:] >= 0))
    if cuts.shape[0] == 0:
        return (*result[0], result[1])
    is_known = rank >= 0
    p, covered = positive.take(lists) & is_known, is_known
    if weights is not None:
        weight = weights.take(lists)
        p, covered = p * weight, covered * weight
    line, at = np.divmod(cuts, m - 1)
    sides = []
    for sums in (np.cumsum(p, axis=1), np.cumsum(covered, axis=1)):
        below = sums.ravel().take(cuts + line)
        sides.append(np.concatenate((below, sums[:, -1].take(line) - below)).astype(np.float64))
    scores = scoring.score(HOST.xp, *sides)
    top = float(scores.max())
    if top == -np.inf:
        return (*result[0], result[1])
    tied = (scores >= top - _TOLERANCE * abs(top)).nonzero()[0]
    coverage = sides[1].take(tied)
    tied = tied.compress(coverage == coverage.max())
    k = cuts.shape[0]
    for i in tied[::-1].tolist():  # the first of each column comes last and stays
        j = int(line[i % k])
        result[0][:, j] = scores[i], sides[0][i], sides[1][i]
        result[1][j] = at[i % k] + (m if i >= k else 0)
    return (*result[0], result[1])


def _useful_cuts(rank: Host, sign: Host) -> tuple[Host, Host]:
    """Return the cuts whose lower, and whose upper side cannot be bettered by moving on by one value."""
    ends = np.flatnonzero(rank[1:] != rank[:-1])
    if ends.shape[0] == 0:
        return ends, ends
    # a positive row on this side and a negative one on the other: one more or one fewer would be worse
    if ends.shape[0] == rank.shape[0] - 1:  # all values differ
        is_below, is_above = sign[:-1] > sign[1:], sign[:-1] < sign[1:]
    else:
        starts = np.concatenate(([0], ends + 1))
        has_positive = np.maximum.reduceat(sign, starts) > 0
        has_negative = np.minimum.reduceat(sign, starts) < 1
        is_below = has_positive[:-1] & has_negative[1:]
        is_above = has_negative[:-1] & has_positive[1:]
    # moving on from the outermost cut would leave no cut
    is_below[-1] = is_above[0] = True
    return ends.compress(is_below), ends.compress(is_above)


def _best(
    p: Host,
    covered: Host | None,
    below: Host,
    above: Host,
    m: int,
    scoring: Scoring,
) -> tuple[float, float, float, int]:
    """Score the sides and return the best: score, weights of the positive and of all rows, position."""
    if below.shape[0] + above.shape[0] == 0:
        return _NOTHING
    cuts = np.concatenate((below, above))
    p_side = p.take(cuts).astype(np.float64)
    c_side = (cuts + 1).astype(np.float64) if covered is None else covered.take(cuts)
    k = below.shape[0]
    np.subtract(p[-1], p_side[k:], out=p_side[k:])
    np.subtract(p.shape[0] if covered is None else covered[-1], c_side[k:], out=c_side[k:])
    scores = scoring.score(HOST.xp, p_side, c_side)
    top = scores.max()
    if top == -np.inf:
        return _NOTHING
    tied = np.flatnonzero(scores >= top - _TOLERANCE * abs(top))
    best = int(tied[c_side.take(tied).argmax()])
    position = int(cuts[best]) + (0 if best < k else m)
    return float(scores[best]), float(p_side[best]), float(c_side[best]), position
