"""NumPy bodies of `literals` and `find_literal`: counts by bits, thresholds, sorted lists."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.namespace import HOST
from arraylearn.backend.threads import parallel_map
from arraylearn.rules.find_literal import Scoring
from arraylearn.rules.literals import CountedColumns, Target, count_classes

__all__ = [
    "best_cells",
    "best_thresholds",
    "count_cells",
    "keep_in_lists",
    "pack_cells",
    "search_columns",
    "search_together",
]

# Up to so many numbers, calls of NumPy cost more than the work: all columns are handled together.
SMALL = 20_000
_WORTH_A_THREAD = 100_000
# Up to this many values a bit per row and value is less to read than the value of each row.
_MOST_PACKED = 64
# Words that are counted at once stay in the cache.
_BLOCK = 1 << 16
# Relative difference up to which scores are equal.
_TOLERANCE = 64 * np.finfo(np.float64).eps
_NOTHING = (-np.inf, 0.0, 0.0, 0)


# ---- counts by value, with one bit per row and value, 64 rows at a time


class Packed(NamedTuple):
    """Columns, and the same as bits where that pays."""

    cells: HostArray  # (d, n)
    bits: HostArray | None  # (l, n_words) uint64: one row for each value that occurs
    present: HostArray  # (l,) which of the d * n_cells values these are
    ones: HostArray  # (n_words,) float32


def pack_cells(cells: HostArray, n_cells: int) -> Packed:
    """Pack each value of each column into one bit per row, where there are few values."""
    d, n = cells.shape
    if n_cells > _MOST_PACKED or n >= 1 << 24:  # float32 counts up to there
        nothing = np.zeros(0, dtype=np.int64)
        return Packed(cells, None, nothing, nothing)
    bits = np.zeros((d, n_cells, -(-n // 64) * 8), dtype=np.uint8)
    for value in range(n_cells):
        bits[:, value, : -(-n // 8)] = np.packbits(cells == value, axis=1)
    words = bits.reshape(d * n_cells, -1).view(np.uint64)
    present = np.flatnonzero(words.any(axis=1))
    return Packed(cells, words[present], present, np.ones(words.shape[1], dtype=np.float32))


def _count_bits(bits: HostArray, ones: HostArray, is_live: HostArray, is_positive: HostArray) -> HostArray:
    """Count the positive live rows and the live rows of each row of bits: float32 (2, l), exact."""
    n_words = bits.shape[1]
    masks = np.zeros((2, 64 * n_words), dtype=bool)
    np.logical_and(is_live, is_positive, out=masks[0, : is_live.shape[0]])
    masks[1, : is_live.shape[0]] = is_live
    words = np.packbits(masks, axis=1).view(np.uint64)[:, None, :]
    step = max(1, _BLOCK // max(1, n_words))
    if step >= bits.shape[0]:
        counts: HostArray = np.bitwise_count(bits & words).astype(np.float32) @ ones
        return counts
    parts = [
        np.bitwise_count(bits[start : start + step] & words).astype(np.float32) @ ones
        for start in range(0, bits.shape[0], step)
    ]
    return np.concatenate(parts, axis=1)


def count_cells(group: CountedColumns, is_live: HostArray, target: Target) -> tuple[HostArray, HostArray]:
    """Weigh rows by value as the program does."""
    packed, n_cells = group.packed, group.n_cells
    if target.weights is None and packed.bits is not None:
        d = packed.cells.shape[0]
        counts = np.zeros((2, d * n_cells), dtype=np.int64)
        counts[:, packed.present] = _count_bits(packed.bits, packed.ones, is_live, target.is_positive)
        both = counts.reshape(2, d, n_cells)
        return both[0], both[1]
    rows = np.flatnonzero(is_live)
    weights = None if target.weights is None else target.weights.take(rows)
    keys = target.is_positive.take(rows).astype(np.int64)
    return count_classes(HOST.xp, packed.cells.take(rows, axis=1), keys, n_cells, weights)


def best_cells(group: CountedColumns, is_live: HostArray, target: Target, scoring: Scoring) -> HostArray:
    """Find the best value as the program does."""
    packed, n_cells = group.packed, group.n_cells
    found = np.full((4, packed.cells.shape[0]), -np.inf)
    present: HostArray | None = None
    if target.weights is None and packed.bits is not None:
        present = packed.present
        p, covered = _count_bits(packed.bits, packed.ones, is_live, target.is_positive)
    else:
        p, covered = (sums.ravel() for sums in count_cells(group, is_live, target))
    scores, p, covered = scoring.score(HOST.xp, p, covered)
    top = float(scores.max()) if scores.shape[0] else -np.inf
    if top == -np.inf:
        return found
    # only what can be the best of all columns is looked up, so that most columns cost nothing
    for i in (scores >= top - _TOLERANCE * abs(top)).nonzero()[0].tolist():
        j, value = divmod(i if present is None else int(present[i]), n_cells)
        if covered[i] > found[2, j]:
            found[:, j] = scores[i], p[i], covered[i], value
    return found


# ---- thresholds


def best_thresholds(
    lists: HostArray, ranks: HostArray, target: Target, scoring: Scoring
) -> tuple[HostArray, HostArray, HostArray, HostArray]:
    """Find the best side as the program does."""
    search = search_together if lists.size <= SMALL else search_columns
    return search(lists, ranks, target, scoring)


def search_columns(
    lists: HostArray, ranks: HostArray, target: Target, scoring: Scoring
) -> tuple[HostArray, HostArray, HostArray, HostArray]:
    """Search column by column, only cuts whose sides cannot be bettered by the next value."""
    (d, m), positive, weights = lists.shape, target.is_positive, target.weights
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

    best = parallel_map(search, range(d)) if d * m > _WORTH_A_THREAD else [search(j) for j in range(d)]
    found = np.array([one[:3] for one in best], dtype=np.float64).reshape(d, 3).T
    return found[0], found[1], found[2], np.array([one[3] for one in best], dtype=np.int64)


def search_together(
    lists: HostArray, ranks: HostArray, target: Target, scoring: Scoring
) -> tuple[HostArray, HostArray, HostArray, HostArray]:
    """Score all cuts of all columns at once; only the columns that can be chosen are looked up."""
    (d, m), positive, weights = lists.shape, target.is_positive, target.weights
    result = np.full((3, d), -np.inf), np.zeros(d, dtype=np.int64)
    rank = ranks.ravel().take(lists + ranks.shape[1] * np.arange(d)[:, None])
    # missing ranks are negative and stand last
    cuts = np.flatnonzero((rank[:, 1:] != rank[:, :-1]) & (rank[:, 1:] >= 0))
    if cuts.shape[0] == 0:
        return (*result[0], result[1])
    is_known = rank >= 0
    p, covered = positive.take(lists) & is_known, is_known
    if weights is not None:
        weight = weights.take(lists)
        p, covered = p * weight, covered * weight
    column, at = np.divmod(cuts, m - 1)
    sides = []
    for sums in (np.cumsum(p, axis=1), np.cumsum(covered, axis=1)):
        below = sums.ravel().take(cuts + column)
        sides.append(np.concatenate((below, sums[:, -1].take(column) - below)))
    scores, *sides = scoring.score(HOST.xp, *sides)
    top = float(scores.max())
    if top == -np.inf:
        return (*result[0], result[1])
    tied = (scores >= top - _TOLERANCE * abs(top)).nonzero()[0]
    coverage = sides[1].take(tied)
    tied = tied.compress(coverage == coverage.max())
    k = cuts.shape[0]
    for i in tied[::-1].tolist():  # the first of each column comes last and stays
        j = int(column[i % k])
        result[0][:, j] = scores[i], sides[0][i], sides[1][i]
        result[1][j] = at[i % k] + (m if i >= k else 0)
    return (*result[0], result[1])


def _useful_cuts(rank: HostArray, sign: HostArray) -> tuple[HostArray, HostArray]:
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
    p: HostArray,
    covered: HostArray | None,
    below: HostArray,
    above: HostArray,
    m: int,
    scoring: Scoring,
) -> tuple[float, float, float, int]:
    """Score the sides and return the best: score, weights of the positive and of all rows, position."""
    if below.shape[0] + above.shape[0] == 0:
        return _NOTHING
    cuts = np.concatenate((below, above))
    p_side, c_side = p.take(cuts), cuts + 1 if covered is None else covered.take(cuts)
    k = below.shape[0]
    np.subtract(p[-1], p_side[k:], out=p_side[k:])
    np.subtract(p.shape[0] if covered is None else covered[-1], c_side[k:], out=c_side[k:])
    scores, p_side, c_side = scoring.score(HOST.xp, p_side, c_side)
    top = scores.max()
    if top == -np.inf:
        return _NOTHING
    tied = np.flatnonzero(scores >= top - _TOLERANCE * abs(top))
    best = int(tied[c_side.take(tied).argmax()])
    position = int(cuts[best]) + (0 if best < k else m)
    return float(scores[best]), float(p_side[best]), float(c_side[best]), position


# ---- rows that stay live


def keep_in_lists(lists: HostArray, is_live: HostArray) -> HostArray:
    """Drop the rows that are not live from lists (d, m) of one set of rows; the order stays."""
    kept = lists.ravel().compress(is_live.take(lists).ravel())
    return kept.reshape(lists.shape[0], -1)
