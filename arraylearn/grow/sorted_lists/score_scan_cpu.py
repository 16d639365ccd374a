"""The best position of one presorted list of a node by any criterion, in compiled loops.

Positions are read in strides. The sums over classes that a criterion needs are updated row by row; most
positions are rejected by a form of the score without division, and for chi2 by a sum that is not exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import Float, Host, Int, index, inlined, part, signed
from arraylearn.grow import formulas
from arraylearn.grow.criteria import MOST_IN_ORDER
from arraylearn.grow.criteria_cpu import NodeTerms, move, n_log_n, score_by_logs, score_majority, score_sides
from arraylearn.grow.formulas import CHI2, ENTROPY, GAIN_RATIO, GINI, NO_SPLIT, SYMMETRIC
from arraylearn.grow.sorted_lists.scan_cpu import (
    BEFORE,
    HERE,
    NOWHERE,
    PARTS,
    SIDE,
    STEP,
    STRIDE,
    ListData,
    ScanBuffers,
    Span,
)

__all__ = ["scan_scores"]

# Factor that lowers the score to beat by more than the rounding error of float32.
_ENOUGH = 1.0 - 1e-6
# Positions from which on it pays to look for strides without a better one.
_LONG = 4 * STRIDE
# Rows of `ScanBuffers.ints`: the criterion's sum over the classes at a position, the weight up to it, and the
# sum for the right side, if that is kept separately.
_SUM, _WEIGHT, _RIGHT = range(3)
# Rows of `ScanBuffers.running` for chi2: 1 / weight of each class, then a sum; the sum at each position.
_SHARES, _TOTALS = range(2)

_gini_squares = part(formulas.gini_squares)


@inlined
def _add_logs(rows: Host, data: ListData, counts: Host, buffers: ScanBuffers, first: Int, width: Int) -> None:
    """Move rows to the left; write the sum of n log2(n) over sides and classes, and the weight, to `ints`."""
    logs, class_of, is_weighted = data.logs, data.class_of, data.weights.shape[0] > 0
    here, ints = buffers.sums[HERE], buffers.ints
    total, weight = ints[_SUM, STRIDE], ints[_WEIGHT, STRIDE]
    for j in range(width):
        row = rows[first + j]
        amount = data.weights[row] if is_weighted else 1
        weight += amount
        total += move(ENTROPY, logs, here, counts, class_of[row], amount)
        ints[_SUM, j], ints[_WEIGHT, j] = total, weight
    ints[_SUM, STRIDE], ints[_WEIGHT, STRIDE] = total, weight


@inlined
def _add_squares(
    rows: Host, data: ListData, counts: Host, buffers: ScanBuffers, first: Int, width: Int
) -> None:
    """Move rows to the left; write the squared class weights of both sides, and the weight, to `running`."""
    class_of, is_weighted = data.class_of, data.weights.shape[0] > 0
    here, ints, squares = buffers.sums[HERE], buffers.ints, buffers.running
    left, weight, right = ints[_SUM, STRIDE], ints[_WEIGHT, STRIDE], ints[_RIGHT, STRIDE]
    for j in range(width):
        row = rows[first + j]
        own, amount = class_of[row], data.weights[row] if is_weighted else 1
        held = here[own]
        here[own] = held + amount
        weight += amount
        left += amount * (2 * held + amount)
        right += amount * (2 * (held - counts[own]) + amount)
        ints[_WEIGHT, j] = weight
        squares[0, j], squares[1, j], squares[2, j] = float(left), float(right), float(weight)
    ints[_SUM, STRIDE], ints[_WEIGHT, STRIDE], ints[_RIGHT, STRIDE] = left, weight, right


@part
def _add_majority(
    rows: Host, data: ListData, counts: Host, buffers: ScanBuffers, first: Int, width: Int, needed: float
) -> None:
    """Move rows to the left; write the weight of the largest class of both sides, and the weight, to `ints`.

    The largest class on the left after all rows plus that on the right before them is a bound for every
    position between: if it is not above `needed`, zeros are written.
    """
    class_of, is_weighted, here = data.class_of, data.weights.shape[0] > 0, buffers.sums[HERE]
    ints, most_left, most_right, end = buffers.ints, np.int64(0), np.int64(0), np.int64(0)
    weight = ints[_WEIGHT, STRIDE]
    if counts.shape[0] == 2:
        ones = here[1]
        for j in range(width):
            row = rows[first + j]
            amount = data.weights[row] if is_weighted else 1
            weight += amount
            ones += amount * np.int64(class_of[row])
            zeros = weight - ones
            ints[_SUM, j] = max(zeros, ones) + max(counts[0] - zeros, counts[1] - ones)
            ints[_WEIGHT, j] = weight
        here[0], here[1], ints[_WEIGHT, STRIDE] = weight - ones, ones, weight
        return
    for c in range(counts.shape[0]):
        most_left = here[c] if here[c] > most_left else most_left
        most_right = counts[c] - here[c] if counts[c] - here[c] > most_right else most_right
    for j in range(width):
        row = rows[first + j]
        amount = data.weights[row] if is_weighted else 1
        here[class_of[row]] += amount
        weight += amount
        ints[_SUM, j], ints[_WEIGHT, j] = 0, weight
    ints[_WEIGHT, STRIDE] = weight
    for c in range(counts.shape[0]):
        end = here[c] if here[c] > end else end
    if np.float64(end + most_right) <= needed:
        return
    for j in range(width):  # move the rows back to the right
        row = rows[first + j]
        here[class_of[row]] -= data.weights[row] if is_weighted else 1
    for j in range(width):
        row = rows[first + j]
        own, amount = class_of[row], data.weights[row] if is_weighted else 1
        held = here[own] + amount
        here[own] = held
        most_left = held if held > most_left else most_left
        if counts[own] - held + amount == most_right:
            most_right = np.int64(0)
            for c in range(counts.shape[0]):
                most_right = counts[c] - here[c] if counts[c] - here[c] > most_right else most_right
        ints[_SUM, j] = most_left + most_right


@inlined
def _add_shares(
    rows: Host, data: ListData, counts: Host, buffers: ScanBuffers, first: Int, width: Int
) -> None:
    """Move rows to the left; write the sum of left**2 / total over the classes, rounded, to `running`."""
    class_of, is_weighted, ints = data.class_of, data.weights.shape[0] > 0, buffers.ints
    here, shares, sums = buffers.sums[HERE], buffers.running[_SHARES], buffers.running[_TOTALS]
    total, weight = shares[counts.shape[0]], ints[_WEIGHT, STRIDE]
    for j in range(width):
        row = rows[first + j]
        own, amount = class_of[row], data.weights[row] if is_weighted else 1
        held = here[own]
        here[own] = held + amount
        weight += amount
        total += np.float64(amount * (2 * held + amount)) * shares[own]
        sums[j], ints[_WEIGHT, j] = total, weight
    shares[counts.shape[0]], ints[_WEIGHT, STRIDE] = total, weight


@part
def _most_correct(terms: NodeTerms, top: Float) -> Float:
    """Return a number between the weight in the largest classes that scores `top` and the next integer."""
    n = np.float64(terms.n)
    return top * n + np.float64(terms.before) + 0.5 - n * 2.0**-23  # `top` is rounded to float32


@inlined
def _pass_stride(
    rows: Host, data: ListData, counts: Host, terms: NodeTerms, buffers: ScanBuffers, span: Any
) -> bool:
    """Move a stride to the left if no position within it scores above `top` by logarithms; else return False.

    With l of a class on the left, m of n in all, a position scores more than that where
    ``factor sum g(l) - kappa h(m) + fixed > 0``: g and h are n log2(n) summed over both sides, and convex. So
    h is above its tangent in the middle of the stride, and what remains is a sum over the classes of convex
    functions, which are largest at one of the ends::

        sum over classes of max(factor g(l) - kappa slope l) - kappa (h(middle) - slope middle) + fixed
    """
    first, width, top = span
    criterion, logs, ints, is_weighted = data.criterion, data.logs, buffers.ints, data.weights.shape[0] > 0
    here, end, parts = buffers.sums[HERE], buffers.sums[STEP], buffers.sums[PARTS]
    n_classes, n_end, enough = counts.shape[0], ints[_WEIGHT, STRIDE], top * _ENOUGH
    for c in range(n_classes):
        end[c] = here[c]
    if is_weighted or n_classes > MOST_IN_ORDER:
        for j in range(width):
            row = rows[first + j]
            amount = data.weights[row] if is_weighted else 1
            end[data.class_of[row]] += amount
            n_end += amount
    else:
        below = np.int64(0)
        for k in range(n_classes - 1):
            border, counted = data.borders[k], np.int32(0)
            for j in range(width):
                counted += np.int32(rows[first + j] < border)
            end[k] += counted - below
            below = np.int64(counted)
        end[n_classes - 1] += signed(width) - below
        n_end += signed(width)
    middle = (ints[_WEIGHT, STRIDE] + n_end + 1) >> 1
    middle = middle if middle < terms.n else terms.n - 1
    near, far = np.float64(n_log_n(logs, middle)), np.float64(n_log_n(logs, terms.n - middle))
    held = np.float64(terms.node - terms.classes)
    factor, share, needed = 1.0, enough, enough * held
    if criterion == ENTROPY:
        share, needed = 0.0, enough * terms.size
    elif criterion == GAIN_RATIO:
        needed = 0.0
    elif criterion == SYMMETRIC:
        factor = 1.0 + enough
    kappa, total = factor - share, np.int64(0)
    slope = kappa * (near / np.float64(middle) - far / np.float64(terms.n - middle))
    most = factor * held - share * np.float64(terms.node) - needed
    most += slope * np.float64(middle) - kappa * (near + far)
    for c in range(n_classes):
        at_start, at_end = parts[c], parts[c]
        if end[c] > here[c]:
            at_end = n_log_n(logs, end[c]) + n_log_n(logs, counts[c] - end[c])
        before = factor * np.float64(at_start) - slope * np.float64(here[c])
        after = factor * np.float64(at_end) - slope * np.float64(end[c])
        most += before if before > after else after
        parts[c] = at_end
        total += at_end
    if most > -16.0 * np.float64(terms.noise):  # more than the rounding errors
        return False
    for c in range(n_classes):
        here[c] = end[c]
    ints[_SUM, STRIDE], ints[_WEIGHT, STRIDE] = total, n_end
    return True


@inlined
def _count_hits(
    criterion: Int, terms: NodeTerms, data: ListData, buffers: ScanBuffers, width: Int, top: float
) -> Int:
    """Count the positions of a stride that may score above `top`."""
    ints, logs, enough = buffers.ints, data.logs, top * _ENOUGH
    n_hits: Int = 0
    if criterion == CHI2:
        sums, n = buffers.running[_TOTALS], np.float64(terms.n)
        grown = n * (1.0 + 4e-16 * n)  # a bound on the rounding error of a sum over the rows
        for j in range(width):
            n_left = np.float64(ints[_WEIGHT, j])
            n_hits += n * (grown * sums[j] - n_left * n_left) > enough * (n_left * (n - n_left))
        return n_hits
    if criterion == GINI:
        left, right, weight, total = (
            buffers.running[0],
            buffers.running[1],
            buffers.running[2],
            np.float64(terms.n),
        )
        for j in range(width):
            reached = left[j] * (total - weight[j]) + right[j] * weight[j]
            n_hits += reached > enough * (weight[j] * (total - weight[j]))
        return n_hits
    if criterion < ENTROPY:
        least = _most_correct(terms, top)
        for j in range(width):
            n_hits += float(ints[_SUM, j]) > least
        return n_hits
    held = float(terms.node - terms.classes)
    by_split, needed, factor = enough, enough * held, 1.0
    if criterion == ENTROPY:
        by_split, needed = 0.0, enough * terms.size
    elif criterion == GAIN_RATIO:
        needed = 0.0
    elif criterion == SYMMETRIC:
        factor = 1.0 + enough
    for j in range(width):
        n_left = ints[_WEIGHT, j]
        split = terms.node - n_log_n(logs, n_left) - n_log_n(logs, terms.n - n_left)
        gained = split + ints[_SUM, j] - terms.classes
        n_hits += np.float64(gained) * factor > needed + by_split * np.float64(split)
    return n_hits


@inlined
def _score_at(
    criterion: Int, terms: NodeTerms, data: ListData, counts: Host, buffers: ScanBuffers, j: Int
) -> Float:
    """Score a position of the stride; for chi2 the class weights up to it are in ``sums[STEP]``."""
    ints, logs = buffers.ints, data.logs
    n_left = ints[_WEIGHT, j]
    if criterion >= ENTROPY:
        branches = n_log_n(logs, n_left) + n_log_n(logs, terms.n - n_left)
        return score_by_logs(criterion, terms, ints[_SUM, j], branches)
    if criterion == CHI2:
        return score_sides(criterion, terms, buffers.sums[STEP], counts, n_left)
    if criterion == GINI:
        squares = buffers.running
        return _gini_squares(squares[0, j], squares[2, j], squares[1, j], np.float64(terms.n) - squares[2, j])
    return score_majority(terms, ints[_SUM, j])


@inlined
def scan_scores(
    rows: Host, values: Host, data: ListData, span: Span, counts: Host, terms: NodeTerms, buffers: ScanBuffers
) -> tuple[Float, Int]:
    """Return the best score above ``span.top`` and its position, or NOWHERE."""
    criterion, logs, ints, top = data.criterion, data.logs, buffers.ints, span.top
    before, here, side = buffers.sums[BEFORE], buffers.sums[HERE], buffers.sums[SIDE]
    step, parts, shares = buffers.sums[STEP], buffers.sums[PARTS], buffers.running[_SHARES]
    n_classes, is_weighted, best, at = counts.shape[0], data.weights.shape[0] > 0, NO_SPLIT, NOWHERE
    weight, total, right, share = np.int64(0), np.int64(0), np.int64(0), 0.0
    for c in range(n_classes):
        here[c] = before[c]
        weight += before[c]
        if criterion >= ENTROPY:
            parts[c] = n_log_n(logs, before[c]) + n_log_n(logs, counts[c] - before[c])
            total += parts[c]
        elif criterion == CHI2:
            shares[c] = 1.0 / np.float64(counts[c]) if counts[c] > 0 else 0.0
            share += np.float64(before[c] * before[c]) * shares[c]
        else:
            total += before[c] * before[c]
            right += (counts[c] - before[c]) * (counts[c] - before[c])
    ints[_SUM, STRIDE], ints[_WEIGHT, STRIDE], ints[_RIGHT, STRIDE] = total, weight, right
    shares[n_classes] = share
    i, last = span.start, span.stop - (0 if span.is_closed else 1)
    is_long = last - i > _LONG
    while i < last:
        width, first = index(min(STRIDE, last - i)), index(i)
        if criterion >= ENTROPY:
            if is_long and _pass_stride(rows, data, counts, terms, buffers, (first, width, top)):
                i += STRIDE
                continue
            _add_logs(rows, data, counts, buffers, first, width)
        elif criterion == CHI2:
            for c in range(n_classes):
                step[c] = here[c]
            _add_shares(rows, data, counts, buffers, first, width)
        elif criterion == GINI:
            _add_squares(rows, data, counts, buffers, first, width)
        else:
            _add_majority(rows, data, counts, buffers, first, width, _most_correct(terms, top))
        if _count_hits(criterion, terms, data, buffers, width, top) > 0:
            for j in range(width):
                there = first + j
                row = rows[there]
                if criterion == CHI2:
                    step[data.class_of[row]] += data.weights[row] if is_weighted else 1
                n_left = ints[_WEIGHT, j]
                if n_left < span.least or terms.n - n_left < span.least:
                    continue
                score = _score_at(criterion, terms, data, counts, buffers, j)
                if score > top:
                    is_end = span.is_closed and signed(there) == last - 1
                    if is_end or values[rows[there + index(1)]] > values[row]:
                        best, at, top = score, signed(there), score
            if at >= i:  # the sums at the best position are those of the stride's end less the rows after it
                for c in range(n_classes):
                    side[c] = here[c]
                for j in range(index(at + 1), first + width):
                    row = rows[j]
                    side[data.class_of[row]] -= data.weights[row] if is_weighted else 1
        i += STRIDE
    return best, at
