"""CPU body of the search of a threshold: by blocks of rows, whose weights are updated as rows leave.

The sorted rows of a column are cut into blocks. No cut in a block scores more than one with all positive rows
of the block on its side and all negative ones on the other; blocks whose bound is below the best score so far
are skipped. Rows that are no longer live stay in the lists::

    rows by value   - - - - | - - + - | + + + + | + - + + | - - - +
    blocks              0         1         2         3         4
    bound                       high      high                          only these are searched cut by cut

A cut lies before a live row, and belongs to the block of that row.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.cpu.jit import Host, Int, entry, index, part
from arraylearn.rules.counts import Target
from arraylearn.table import MISSING_CODE

__all__ = ["RowBlocks"]

# A row without weights counts as one unit and one row, see `pack_weights`.
_ONE = np.full(1, (1 << 31) + 1)
_UNIT_SHIFT, _ROW_MASK = 31, (1 << 31) - 1
# Relative difference up to which scores are equal.
_TOLERANCE = 64 * np.finfo(np.float64).eps
# In place of the last live row of a block: there is none yet.
_NO_ROW = -1
# Least number of rows of a block, as a power of two.
_LEAST_BITS = 6
# Number and smoothing of each gain.
_ACCURACY, _FOIL = 0, 1
_GAINS = {"accuracy": (_ACCURACY, 0.0), "foil": (_FOIL, 0.0), "smoothed_foil": (_FOIL, 1.0)}


class RowBlocks(NamedTuple):
    """Sorted columns cut into blocks of ``2**bits`` rows."""

    lists: Host  # (d, n) int32 rows in the order of each column, missing ones last
    ranks: Host  # (d, n) int32 dense rank of each row, or MISSING_CODE
    block_of: Host  # (n, d) the block of each row in each column, the number of blocks where missing
    bits: int

    @classmethod
    def lay_out(cls, lists: Host, ranks: Host) -> RowBlocks:
        """Cut columns (d, n) into blocks of about half the root of n rows."""
        d, n = lists.shape
        bits = max(_LEAST_BITS, round(math.log2(n + 1) / 2) - 1)
        block_of = np.empty((n, d), dtype=np.uint16 if n >> bits < 1 << 15 else np.uint32)
        _number_blocks(lists, ranks, bits, block_of)
        return cls(lists, ranks, block_of, bits)

    def weigh(self, target: Target, is_live: Host, near: tuple[Host, Host] | None = None) -> Host:
        """Sum the packed weights of the negative and of the positive live rows by block: (d, blocks + 1, 2).

        The last block is that of missing values. `near` holds other live rows and their sums, to start from.
        """
        (d, n), weights = self.lists.shape, _ONE if target.weights is None else target.weights
        if near is None:
            changed, sums = is_live, np.zeros((d, -(-n >> self.bits) + 1, 2), dtype=np.int64)
        else:
            changed, sums = near[0] ^ is_live, near[1].copy()
        _add_rows(self.block_of, target.is_positive, weights, changed.nonzero()[0], is_live, sums)
        return sums

    def best_thresholds(self, target: Target, is_live: Host, sums: Host, scoring: Any) -> tuple[Host, Host]:
        """Find the best side of a cut of each column, given what `weigh` returns for the live rows.

        Returned are for each column score, weight of the positive rows and of all rows, and the side (4, d):
        0 below the cut, 1 above it; and the live rows next to the cut (2, d). A column whose best side is
        bettered by another column's may report the score -inf.
        """
        number, smoothing = _GAINS[scoring.gain]
        positive, covered = scoring.before
        formula = _Formula(
            number,
            smoothing,
            math.log2((positive + smoothing) / (covered + smoothing)),
            max(1, math.ceil(scoring.least)),
            scoring.unit or 1.0,
        )
        rows = _Rows(is_live, target.is_positive, _ONE if target.weights is None else target.weights)
        best = np.zeros((4, sums.shape[0]))
        best[0] = -np.inf
        beside = np.zeros((2, sums.shape[0]), dtype=np.int64)
        _search(self, rows, sums, formula, scoring.floor, np.empty(sums.shape[:2]), best, beside)
        return best, beside


class _Rows(NamedTuple):
    is_live: Host  # (n,) bool
    is_positive: Host  # (n,) bool
    weights: Host  # (n,) or (1,) int64 packed


class _Formula(NamedTuple):
    gain: int
    smoothing: float
    base: float  # logarithm of the share of positive rows without the literal
    least: int  # number of positive rows
    unit: float  # rows per unit of weight


@entry
def _number_blocks(lists: Host, ranks: Host, bits: Int, block_of: Host) -> None:
    d, n = lists.shape
    for j in range(d):
        for i in range(n):
            row = lists[j, i]
            block_of[row, j] = (i if ranks[j, row] != MISSING_CODE else n + (1 << bits) - 1) >> bits


@entry
def _add_rows(
    block_of: Host, is_positive: Host, weights: Host, rows: Host, is_live: Host, sums: Host
) -> None:
    """Add the rows that are live to the sums, and subtract the others."""
    d, has_weights = index(block_of.shape[1]), weights.shape[0] > 1
    for i in range(index(rows.shape[0])):
        row = index(rows[i])
        weight = weights[row if has_weights else index(0)]
        if not is_live[row]:
            weight = -weight
        own = index(is_positive[row])
        for j in range(d):
            sums[j, index(block_of[row, j]), own] += weight


@part
def _score(formula: _Formula, negative: Int, positive: Int) -> Any:
    """Score a side by its sums; -inf where it has too few positive rows."""
    if (positive & _ROW_MASK) < formula.least:
        return -np.inf
    p = (positive >> _UNIT_SHIFT) * formula.unit
    covered = ((negative + positive) >> _UNIT_SHIFT) * formula.unit
    if formula.gain == _ACCURACY:
        return p / covered
    return p * (math.log2((p + formula.smoothing) / (covered + formula.smoothing)) - formula.base)


@part
def _sum_column(sums: Host, j: Int) -> tuple[Int, Int]:
    negative, positive = 0, 0
    for b in range(sums.shape[1] - 1):
        negative += sums[j, b, 0]
        positive += sums[j, b, 1]
    return negative, positive


@entry
def _search(
    blocks: RowBlocks,
    rows: _Rows,
    sums: Host,
    formula: _Formula,
    floor: float,
    bounds: Host,
    best: Host,
    beside: Host,
) -> None:
    """Bound the scores in all blocks, find the highest score, then the cuts that reach it."""
    n_blocks, top, first, first_sums = sums.shape[1] - 1, -np.inf, (0, 0), (0, 0, 0, 0)
    for j in range(sums.shape[0]):
        negative, positive = _sum_column(sums, j)
        n, p = 0, 0
        for b in range(n_blocks):
            n_after, p_after = n + sums[j, b, 0], p + sums[j, b, 1]
            bound = -np.inf
            if n_after + p_after > n + p:
                below = _score(formula, n, p_after)
                bound = max(below, _score(formula, negative - n_after, positive - p))
            bounds[j, b] = bound
            if bound > top:
                top, first, first_sums = bound, (j, b), (n, p, negative, positive)
            n, p = n_after, p_after
    if top < floor:
        return
    top = max(floor, _search_block(blocks, rows, formula, first, first_sums, np.inf, best, beside))
    for is_last in (False, True):
        least = top - _TOLERANCE * abs(top)
        for j in range(sums.shape[0]):
            negative, positive = _sum_column(sums, j)
            n, p = 0, 0
            for b in range(n_blocks):
                if bounds[j, b] >= least:
                    before = n, p, negative, positive
                    kept = least if is_last else np.inf
                    bounds[j, b] = _search_block(blocks, rows, formula, (j, b), before, kept, best, beside)
                    if bounds[j, b] > top:
                        top = bounds[j, b]
                        least = top - _TOLERANCE * abs(top)
                n += sums[j, b, 0]
                p += sums[j, b, 1]


@part
def _search_block(
    blocks: RowBlocks,
    rows: _Rows,
    formula: _Formula,
    at: tuple[Int, Int],
    before: tuple[Int, Int, Int, Int],
    least: float,
    best: Host,
    beside: Host,
) -> float:
    """Return the highest score of the cuts of a block; keep the best of those that score at least so much.

    `before` are the weights of the negative and of the positive rows before the block, and of all rows. Near
    equals: the largest coverage, then the lower side, then the first cut.
    """
    (j, b), (n, p, negative, positive) = at, before
    top, start, last = -np.inf, b << blocks.bits, _NO_ROW
    for i in range(start, min(start + (1 << blocks.bits), blocks.lists.shape[1])):
        row = blocks.lists[j, i]
        if not rows.is_live[row]:
            continue
        if blocks.ranks[j, row] == MISSING_CODE:
            break
        if last == _NO_ROW and n + p > 0:
            last = start - 1
            while not rows.is_live[blocks.lists[j, last]]:
                last -= 1
        if last != _NO_ROW and blocks.ranks[j, blocks.lists[j, last]] != blocks.ranks[j, row]:
            for side in range(2):
                side_n, side_p = (n, p) if side == 0 else (negative - n, positive - p)
                score = _score(formula, side_n, side_p)
                top = max(top, score)
                if score >= least:
                    covered = ((side_n + side_p) >> _UNIT_SHIFT) * formula.unit
                    is_lower = covered == best[2, j] and side < best[3, j]
                    if covered > best[2, j] or is_lower:
                        best[0, j] = score
                        best[1, j] = (side_p >> _UNIT_SHIFT) * formula.unit
                        best[2, j], best[3, j] = covered, side
                        beside[0, j], beside[1, j] = blocks.lists[j, last], row
        weight = rows.weights[row if rows.weights.shape[0] > 1 else 0]
        if rows.is_positive[row]:
            p += weight
        else:
            n += weight
        last = i
    return top
