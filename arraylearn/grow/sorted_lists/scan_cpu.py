"""The best Gini position of one presorted list of a node of few classes, in compiled loops.

Row ids ascend by class: a row below border k has class k or less, so that comparing row ids yields the class
if there are at most four. `score_scan_cpu` has the scan for more classes and other criteria. Positions are
read in strides; most are rejected without a division, by a bound on the best score in a stride and by a
cheaper form of the score.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.cpu.jit import Float, Host, Int, index, inlined, part, signed
from arraylearn.grow import formulas
from arraylearn.grow.criteria import MOST_IN_ORDER
from arraylearn.grow.formulas import NO_SPLIT

__all__ = [
    "BEFORE",
    "BORDERS",
    "HERE",
    "NOWHERE",
    "PARTS",
    "SIDE",
    "STEP",
    "STRIDE",
    "ListData",
    "ScanBuffers",
    "Span",
    "scan_borders",
]

# Borders between up to `MOST_IN_ORDER` classes.
BORDERS = MOST_IN_ORDER - 1
# Positions that are read at a time.
STRIDE = 64
# Factor that lowers the score to beat by more than the rounding error of the cheaper form.
_ENOUGH = 1.0 - 1e-12
# Rows of `ScanBuffers.sums`: left of the first position, at the position, at the best one, at any one; the
# sum of n log2(n) over both sides at the position.
BEFORE, HERE, SIDE, STEP, PARTS = range(5)
# In place of a position: no cut scores above the best so far.
NOWHERE = -1

_gini_pair = part(formulas.gini_pair)
_gini_surplus = part(formulas.gini_surplus)


class ListData(NamedTuple):
    """The arrays of `SortedRows`, d lists of m rows, and the settings of growth."""

    lists: Host  # (d, m) uint32 row ids, divided in place
    columns: Host  # (d, n) float
    borders: Host  # (3,) uint32: rows below borders[k] have class k or less
    class_of: Host  # (n,) the class of each row; empty if borders are used
    weights: Host  # (n,) int64; empty if every row weighs 1
    has_missing: bool  # whether to learn the side of the missing values
    allowed: Host  # (d, k) bool: the lists that may split each job; empty: all may
    criterion: int  # see `formulas.GINI`
    logs: Any  # LogTable: `NO_LOGS` if the criterion takes none; None if borders are used
    first: int  # the first of the lists to search and divide
    end: int  # after the last of them
    least: int  # least weight of a side
    least_to_split: int  # least weight of a node that may be split
    min_gain: float
    task: int  # see `lists_cpu`
    child: int  # where new nodes begin


class ScanBuffers(NamedTuple):
    """Buffers of one thread."""

    stack: Host  # (s, 4) int64: the jobs of `lists_cpu`
    is_right: Host  # (n,) uint8
    spare: Host  # uint32: the rows of the right side, and one more
    # (6, STRIDE or more) float64: 0, the weight below each border, the weight of all; squares of the surplus
    running: Host
    amounts: Host  # (STRIDE,) int64
    ints: Host  # (3, STRIDE + 1) int64: sums at each position, such as squares, and after the last one
    sums: Host  # (5, c) int64: see `BEFORE`


class Span(NamedTuple):
    """The positions of a list that are candidates."""

    start: int
    stop: int
    total: Int  # weight of the node
    least: int
    is_closed: bool  # whether the last position is a candidate: missing rows are on the right
    top: float  # the score to exceed


@inlined
def scan_borders(
    rows: Host, values: Host, borders: Host, weights: Host, span: Span, counts: Host, buffers: ScanBuffers
) -> tuple[Float, Int]:
    """Return the best score above ``span.top`` of up to four classes, and its position, or NOWHERE.

    With l of the first m rows in a class, and L of all M, the surplus of the class is M l - m L.
    """
    n_classes, running, held = counts.shape[0], buffers.running, buffers.sums[HERE]
    before, side, amounts = buffers.sums[BEFORE], buffers.sums[SIDE], buffers.amounts
    is_weighted, n_borders = weights.shape[0] > 0, n_classes - 1
    total, least, best, at, top = float(span.total), span.least, NO_SPLIT, NOWHERE, span.top
    weight = np.int64(0)
    for k in range(n_classes):
        weight += before[k]
        held[k] = weight
    # of two classes both have the same surplus; how far it moves in a stride
    n_terms, step = n_classes, STRIDE * 1.4143 * total
    if n_classes == 2:
        n_terms, step = 1, STRIDE * max(float(counts[0]), total - float(counts[0]))
    enough, n_left_at, reached = top * _ENOUGH, running[n_classes], running[BORDERS + 2]
    i, last = span.start, span.stop - (0 if span.is_closed else 1)
    while i < last:
        width, first = index(min(STRIDE, last - i)), index(i)
        if weight > 0 and not is_weighted:
            n_left, n_far = float(weight), float(np.int64(min(weight + STRIDE, span.total - 1)))
            reach, below = 0.0, np.int64(0)
            for k in range(n_terms):
                surplus = total * float(held[k] - below) - n_left * float(counts[k])
                reach, below = reach + surplus * surplus, held[k]
            reach = math.sqrt(reach) + step
            if reach * reach < enough * min(n_left * (total - n_left), n_far * (total - n_far)):
                for k in range(n_borders):
                    border, counted = borders[k], np.int32(0)
                    for j in range(width):
                        counted += np.int32(rows[first + j] < border)
                    held[k] += counted
                weight += signed(width)
                held[n_borders] = weight
                i += STRIDE
                continue
        if is_weighted:
            for j in range(width):
                amounts[j] = weights[rows[first + j]]
                weight += amounts[j]
                n_left_at[j] = float(weight)
            for k in range(n_borders):
                border, counted = borders[k], held[k]
                for j in range(width):
                    counted += amounts[j] if rows[first + j] < border else 0
                    running[k + 1, j] = float(counted)
                held[k] = counted
        else:
            for j in range(width):
                n_left_at[j] = float(weight + 1) + float(np.int32(j))
            weight += signed(width)
            for k in range(n_borders):
                border, counted = borders[k], np.int32(held[k])
                for j in range(width):
                    counted += np.int32(rows[first + j] < border)
                    running[k + 1, j] = float(counted)
                held[k] = counted
        held[n_borders] = weight
        for k in range(n_terms):
            share = float(counts[k])
            for j in range(width):
                surplus = total * (running[k + 1, j] - running[k, j]) - n_left_at[j] * share
                reached[j] = surplus * surplus + (reached[j] if k > 0 else 0.0)
        n_hits = 0
        for j in range(width):
            n_hits += reached[j] > enough * (n_left_at[j] * (total - n_left_at[j]))
        if n_hits > 0:
            for j in range(width):
                n_left = n_left_at[j]
                n_right = total - n_left
                if n_classes == 2:
                    score = _gini_pair(n_left, n_right, running[1, j], float(counts[0]) - running[1, j])
                else:
                    score = 0.0
                    for k in range(n_classes):
                        inside = running[k + 1, j] - running[k, j]
                        surplus = inside * n_right - (float(counts[k]) - inside) * n_left
                        score += surplus * surplus
                    score = _gini_surplus(score, n_left, n_right)
                if score > top and n_left >= least and n_right >= least:
                    here = first + j
                    is_end = span.is_closed and signed(here) == last - 1
                    if is_end or values[rows[here + index(1)]] > values[rows[here]]:
                        best, at, top = score, signed(here), score
                        for k in range(n_classes):
                            side[k] = np.int64(running[k + 1, j] - running[k, j])
            enough = top * _ENOUGH
        i += STRIDE
    return best, at
