"""The best Gini position of one presorted list of a node, in compiled loops.

Up to four classes are read from the row ids, which ascend by class: a row below border k has class k or less.
More classes are looked up. Positions are read in strides: a bound on what a stride can reach, and a form of
the score without division, pass over most of them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.cpu.jit import Host, Int, index, part, signed
from arraylearn.grow import formulas
from arraylearn.grow.criteria import MOST_IN_ORDER

__all__ = [
    "BEFORE",
    "BORDERS",
    "HERE",
    "SIDE",
    "STEP",
    "STRIDE",
    "ListData",
    "ScanBuffers",
    "Span",
    "scan_borders",
    "scan_classes",
]

# Up to `MOST_IN_ORDER` classes are known by borders.
BORDERS = MOST_IN_ORDER - 1
# Positions that are read together.
STRIDE = 64
# What rounding may take from the cheap form of a score, and much more.
_ENOUGH = 1.0 - 1e-12
# Rows of `ScanBuffers.sums`: left of the first position, at the position, at the best one, at any one.
BEFORE, HERE, SIDE, STEP = range(4)

_gini_pair = part(formulas.gini_pair)
_gini_surplus = part(formulas.gini_surplus)
_gini_squares = part(formulas.gini_squares)


class ListData(NamedTuple):
    """`SortedRows` as plain arrays, d lists of m rows, and what is done with them."""

    lists: Host  # (d, m) uint32 row ids, divided in place
    columns: Host  # (d, n) float
    borders: Host  # (3,) uint32: rows below borders[k] have class k or less
    class_of: Host  # (n,) where there are more than four classes, or the criterion is not Gini's
    weights: Host  # (n,) int64; nothing where every row weighs 1
    has_missing: bool  # then the side of the missing values is learned
    allowed: Host  # (d, k) bool: the lists that may split each job; nothing: all may
    criterion: int  # see `formulas.GINI`
    logs: Any  # (w,) int64: `LogTable`, zeros where the criterion takes none; None for Gini's
    unit: float  # of the logarithms
    first: int  # the first of the lists to search and divide
    end: int  # after the last of them
    least: int  # weight of a side, at least
    least_to_split: int  # weight of a node that may be split, at least
    min_gain: float
    task: int  # see `lists_cpu`
    child: int  # where new nodes begin


class ScanBuffers(NamedTuple):
    """Scratch of one thread."""

    stack: Host  # (s, 4) int64: the jobs of `lists_cpu`
    is_right: Host  # (n,) uint8
    spare: Host  # uint32: the rows of the right side, and one more
    running: Host  # (5, STRIDE or more) float64: 0, the weight below each border, the weight of all
    amounts: Host  # (STRIDE,) int64
    ints: Host  # (2, STRIDE + 1) int64: two sums at each position, such as squares, and after the last one
    sums: Host  # (4, c) int64: see `BEFORE`


class Span(NamedTuple):
    """Which positions of a list are candidates."""

    start: int
    stop: int
    total: Int  # weight of the node
    least: int
    is_closed: bool  # whether the last position is a candidate: missing rows are on the right
    top: float  # the score to exceed


@part
def scan_borders(
    rows: Host, values: Host, borders: Host, weights: Host, span: Span, counts: Host, buffers: ScanBuffers
) -> Any:
    """Return the best score above ``span.top`` of up to four classes and its position, -1 if there is none.

    With l of the first m rows in a class, and L of all M, the surplus of the class is M l - m L.
    """
    n_classes, running, held = counts.shape[0], buffers.running, buffers.sums[HERE]
    before, side, amounts = buffers.sums[BEFORE], buffers.sums[SIDE], buffers.amounts
    is_weighted, n_borders = weights.shape[0] > 0, n_classes - 1
    total, least, best, at, top = float(span.total), span.least, -1.0, -1, span.top
    share_0, share_1, share_2 = float(counts[0]), float(counts[1]), 0.0
    if n_classes > 2:
        share_2 = float(counts[2])
    weight = np.int64(0)
    for k in range(n_classes):
        weight += before[k]
        held[k] = weight
    # how far the surplus moves in a stride
    step = STRIDE * (max(share_0, total - share_0) if n_classes == 2 else 1.4143 * total)
    enough = top * _ENOUGH
    i, last = span.start, span.stop - (0 if span.is_closed else 1)
    while i < last:
        width, first = index(min(STRIDE, last - i)), index(i)
        if weight > 0 and not is_weighted:
            n_left, n_far = float(weight), float(np.int64(min(weight + STRIDE, span.total - 1)))
            q_0 = total * float(held[0]) - n_left * share_0
            reach = abs(q_0)
            if n_classes > 2:
                q_1 = total * float(held[1] - held[0]) - n_left * share_1
                q_2 = total * float(held[2] - held[1]) - n_left * share_2
                q_3 = q_0 + q_1 + q_2
                reach = math.sqrt(q_0 * q_0 + q_1 * q_1 + q_2 * q_2 + q_3 * q_3)
            reach += step
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
                running[4, j] = float(weight)
            for k in range(n_borders):
                border, counted = borders[k], held[k]
                for j in range(width):
                    counted += amounts[j] if rows[first + j] < border else 0
                    running[k + 1, j] = float(counted)
                held[k] = counted
        else:
            for j in range(width):
                running[4, j] = float(weight + 1) + float(np.int32(j))
            weight += signed(width)
            for k in range(n_borders):
                border, counted = borders[k], np.int32(held[k])
                for j in range(width):
                    counted += np.int32(rows[first + j] < border)
                    running[k + 1, j] = float(counted)
                held[k] = counted
        held[n_borders] = weight
        n_hits = 0
        if n_classes == 2:
            for j in range(width):
                n_left = running[4, j]
                q_0 = total * running[1, j] - n_left * share_0
                n_hits += q_0 * q_0 > enough * (n_left * (total - n_left))
        else:
            if n_classes == 3:
                for j in range(width):
                    running[3, j] = running[4, j]
            for j in range(width):
                n_left = running[4, j]
                q_0 = total * running[1, j] - n_left * share_0
                q_1 = total * (running[2, j] - running[1, j]) - n_left * share_1
                q_2 = total * (running[3, j] - running[2, j]) - n_left * share_2
                q_3 = q_0 + q_1 + q_2
                reach = q_0 * q_0 + q_1 * q_1 + (q_2 * q_2 + q_3 * q_3)
                n_hits += reach > enough * (n_left * (total - n_left))
        if n_hits > 0:
            for j in range(width):
                n_left = running[4, j]
                n_right = total - n_left
                if n_classes == 2:
                    inside = running[1, j]
                    score = _gini_pair(n_left, n_right, inside, share_0 - inside)
                else:
                    score = 0.0
                    for k in range(n_classes):
                        inside = (running[k + 1, j] if k < n_borders else n_left) - running[k, j]
                        surplus = inside * n_right - (float(counts[k]) - inside) * n_left
                        score += surplus * surplus
                    score = _gini_surplus(score, n_left, n_right)
                if score > top and n_left >= least and n_right >= least:
                    here = first + j
                    is_end = span.is_closed and signed(here) == last - 1
                    if is_end or values[rows[here + index(1)]] > values[rows[here]]:
                        best, at, top = score, signed(here), score
                        for k in range(n_classes):
                            inside = (running[k + 1, j] if k < n_borders else n_left) - running[k, j]
                            side[k] = np.int64(inside)
            enough = top * _ENOUGH
        i += STRIDE
    return best, at


@part
def scan_classes(
    rows: Host, values: Host, class_of: Host, weights: Host, span: Span, counts: Host, buffers: ScanBuffers
) -> Any:
    """Return what `scan_borders` does for more than four classes.

    With l squared weights of the classes on the left and r on the right, the score is l / m + r / (M - m).
    """
    n_classes, here, squares = counts.shape[0], buffers.sums[HERE], buffers.ints
    before, side, n_left_at = buffers.sums[BEFORE], buffers.sums[SIDE], buffers.running[4]
    is_weighted, total, least, best, at = weights.shape[0] > 0, float(span.total), span.least, -1.0, -1
    weight, on_left, on_right, top = np.int64(0), np.int64(0), np.int64(0), span.top
    for k in range(n_classes):
        here[k] = before[k]
        weight += before[k]
        on_left += before[k] * before[k]
        on_right += (counts[k] - before[k]) * (counts[k] - before[k])
    enough = top * _ENOUGH
    i, last = span.start, span.stop - (0 if span.is_closed else 1)
    while i < last:
        width, first = index(min(STRIDE, last - i)), index(i)
        if is_weighted:
            for j in range(width):
                row = rows[first + j]
                own, amount = class_of[row], weights[row]
                held = here[own]
                here[own] = held + amount
                weight += amount
                on_left += amount * (2 * held + amount)
                on_right += amount * (2 * (held - counts[own]) + amount)
                squares[0, j], squares[1, j], n_left_at[j] = on_left, on_right, float(weight)
        else:
            for j in range(width):
                own = class_of[rows[first + j]]
                held = here[own]
                here[own] = held + 1
                on_left += 2 * held + 1
                on_right += 2 * (held - counts[own]) + 1
                squares[0, j], squares[1, j] = on_left, on_right
            for j in range(width):
                n_left_at[j] = float(weight + 1) + float(np.int32(j))
            weight += signed(width)
        n_hits = 0
        for j in range(width):
            n_left = n_left_at[j]
            n_right = total - n_left
            n_hits += float(squares[0, j]) * n_right + float(squares[1, j]) * n_left > enough * (
                n_left * n_right
            )
        if n_hits > 0:
            for j in range(width):
                n_left = n_left_at[j]
                n_right = total - n_left
                score = _gini_squares(float(squares[0, j]), n_left, float(squares[1, j]), n_right)
                if score > top and n_left >= least and n_right >= least:
                    there = first + j
                    is_end = span.is_closed and signed(there) == last - 1
                    if is_end or values[rows[there + index(1)]] > values[rows[there]]:
                        best, at, top = score, signed(there), score
            if at >= i:  # the sums at the best position: those at the end of the stride less what follows it
                for k in range(n_classes):
                    side[k] = here[k]
                for j in range(index(at + 1), first + width):
                    row = rows[j]
                    side[class_of[row]] -= weights[row] if is_weighted else 1
            enough = top * _ENOUGH
        i += STRIDE
    return best, at
