"""The best cut of a node by class vectors, in compiled growth on histograms."""

from __future__ import annotations

import numpy as np

from arraylearn.backend.cpu.jit import Bool, Float, Host, Int, index, part
from arraylearn.grow import formulas
from arraylearn.grow.criteria import LogTable
from arraylearn.grow.criteria_cpu import describe_node, n_log_n, score_vector
from arraylearn.grow.formulas import ENTROPY, NO_SPLIT
from arraylearn.grow.histograms.categories_cpu import (
    SURPLUS_CLASSES,
    keep_set,
    list_categories,
    search_sets,
    take_set,
)
from arraylearn.grow.histograms.records_cpu import (
    FIRST,
    LOWER,
    NODE,
    NONE,
    STOP,
    TABLE,
    GrowthPlan,
    GrowthScratch,
    NodeSlots,
    RowOrder,
)
from arraylearn.grow.histograms.rows_cpu import count_node

__all__ = ["find_class_cut"]

# Up to so many rows are sorted by insertion, more by counting bins.
_INSERTED = 32

_gini_surplus = part(formulas.gini_surplus)
_gini_squares = part(formulas.gini_squares)
_surplus_gain = part(formulas.surplus_gain)
_squares_gain = part(formulas.squares_gain)


@part
def find_class_cut(
    rows: RowOrder,
    plan: GrowthPlan,
    nodes: NodeSlots,
    scratch: GrowthScratch,
    logs: LogTable | None,
    here: Host,
    nominal: Host | None,
) -> tuple[Int, Int, Int, Float, Bool]:
    """Do what `find_pair_cut` does for class vectors; `here` receives the running class weights.

    By other criteria than Gini's, which come with `logs`, scores are compared in float32.
    """
    job, keys, least, chosen = scratch.job, scratch.running, plan.least_side, scratch.side[1]
    table = count_node(rows, plan, scratch, here)
    sums, first, size = nodes.sums[job[NODE]], job[FIRST], job[STOP] - job[FIRST]
    n_classes, n_bins, criterion = sums.shape[0], plan.n_bins, plan.criterion
    n_features = plan.is_used.shape[0]
    counts, is_small, n_all, squares = scratch.tables[table], table == NONE, np.int64(0), np.int64(0)
    for c in range(n_classes):
        n_all += sums[c]
        squares += sums[c] * sums[c]
    weight, classes = np.float64(n_all), np.int64(0)
    if logs is not None:
        terms = describe_node(criterion, logs, sums)
        classes = terms.classes
    best, gain, goes_left, is_learned = NO_SPLIT, np.float32(-np.inf), False, False
    feature, low, high = np.int64(0), np.int64(NONE), np.int64(NONE)
    for position in range(n_features):
        j = plan.sequence[position]
        if is_small:
            _sort_small(rows, n_features, j, first, size, n_bins, scratch.found, keys)
        if nominal is not None:  # noqa: SIM102 - a test for None alone keeps code out
            if j >= plan.n_numeric:
                n = list_categories(rows, plan, scratch, j, size, n_classes)
                score, way, at = search_sets(plan, scratch, j, n, logs, sums, best)
                if way != NONE:
                    reached = np.float32(score)
                    if logs is None:
                        reached = _gain_of(score, np.float64(squares), weight, n_classes)
                    if reached > gain:
                        best, gain, feature, low, high = score, reached, np.int64(j), at, at + 1
                        take_set(plan, scratch, n, way, at, chosen)
                continue
        column_best, is_own, n_steps = best, False, size if is_small else n_bins
        for turn in range(2 if plan.use_missing[j] else 1):
            # squares, or n log2(n), of the classes of both sides
            n_left, on_left, on_right, cells, is_best = np.int64(0), np.int64(0), squares, classes, False
            for c in range(n_classes):
                here[c] = 0
            if turn == 1:  # now with missing values left of all cuts
                n_known = _add_missing(rows, plan, scratch, j, n_steps, here)
                if n_known == n_steps:
                    break
                n_steps, is_learned = n_known, is_learned or is_own
                on_right, cells = np.int64(0), np.int64(0)
                for c in range(n_classes):
                    held, rest = here[c], sums[c] - here[c]
                    n_left += held
                    if logs is None:
                        on_left += held * held
                        on_right += rest * rest
                    elif criterion >= ENTROPY:
                        cells += n_log_n(logs, held) + n_log_n(logs, rest)
            at_cell = index(j * n_bins * n_classes)
            for step in range(n_steps):
                # a row, or a bin with its classes, moves to the left side
                added = np.int64(0)
                if is_small:
                    load = rows.carry[first + (keys[step] & LOWER)]
                    own, added = index(load & LOWER), load >> 32
                    held = here[own]
                    rest = sums[own] - held
                    if logs is None:
                        on_left += added * (2 * held + added)
                        on_right += added * (added - 2 * rest)
                    elif criterion >= ENTROPY:
                        cells += n_log_n(logs, held + added) - n_log_n(logs, held)
                        cells += n_log_n(logs, rest - added) - n_log_n(logs, rest)
                    here[own] = held + added
                else:
                    moved, shared, on_left = np.int64(0), np.int64(0), np.int64(0)
                    for c in range(index(n_classes)):
                        more, held = counts[at_cell + c], here[c]
                        if logs is not None and criterion >= ENTROPY and more > 0:
                            rest = sums[c] - held
                            cells += n_log_n(logs, held + more) - n_log_n(logs, held)
                            cells += n_log_n(logs, rest - more) - n_log_n(logs, rest)
                        held += more
                        here[c] = held
                        moved += held
                        if logs is None:
                            on_left += held * held
                            shared += held * sums[c]
                    added, on_right = moved - n_left, squares + on_left - 2 * shared
                    at_cell += index(n_classes)
                if added == 0:
                    continue
                if is_best and high == NONE:
                    high = (keys[step] >> 32) if is_small else np.int64(step)
                n_left += added
                if is_small and step + 1 < size and keys[step] >> 32 == keys[step + 1] >> 32:
                    continue
                n_right = n_all - n_left
                if n_left < least or n_right < least:
                    continue
                left_size, right_size = np.float64(n_left), np.float64(n_right)
                if logs is not None:
                    score = score_vector(criterion, logs, terms, here, sums, n_left, cells)
                elif n_classes > SURPLUS_CLASSES:
                    score = _gini_squares(np.float64(on_left), left_size, np.float64(on_right), right_size)
                else:
                    score = 0.0
                    for c in range(n_classes):
                        surplus = np.float64(here[c]) * right_size - np.float64(sums[c] - here[c]) * left_size
                        score += surplus * surplus
                    score = _gini_surplus(score, left_size, right_size)
                if score <= column_best:
                    continue
                column_best = score
                reached = np.float32(score)
                if logs is None:
                    reached = _gain_of(score, np.float64(squares), weight, n_classes)
                if reached > gain or is_own:
                    best, gain, feature, is_best, is_own = score, reached, np.int64(j), True, True
                    low, high = (keys[step] >> 32) if is_small else np.int64(step), np.int64(NONE)
                    goes_left = is_learned = turn == 1
                    for c in range(n_classes):
                        chosen[c] = here[c]
    n_left = np.int64(0)
    for c in range(n_classes):
        n_left += chosen[c]
    if nominal is not None:  # noqa: SIM102 - see above
        if low != NONE and feature >= plan.n_numeric:
            goes_left = keep_set(rows, plan, nodes, scratch, feature, n_left)
            return feature, low, high, gain, not goes_left
    # if no value is missing, those met in prediction go to the heavier side
    return feature, low, high, gain, not goes_left if is_learned else n_all - n_left > n_left


@part
def _gain_of(score: Float, squares: Float, weight: Float, n_classes: Int) -> Float:
    """Return the Gini gain in float32."""
    if n_classes > SURPLUS_CLASSES:
        gain = np.float32(_squares_gain(score, squares, weight))
    else:
        gain = np.float32(_surplus_gain(score, weight))
    return gain if gain > 0 else np.float32(0)


@part
def _add_missing(
    rows: RowOrder, plan: GrowthPlan, scratch: GrowthScratch, j: Int, n_steps: Int, here: Host
) -> Int:
    """Add the class weights of the missing values of a column, which come last; return where they begin."""
    job, keys, n_classes, n_known = scratch.job, scratch.running, here.shape[0], n_steps
    if job[TABLE] == NONE:
        while n_known > 0 and keys[n_known - 1] >> 32 == plan.n_bins - 1:
            n_known -= 1
            load = rows.carry[job[FIRST] + (keys[n_known] & LOWER)]
            here[load & LOWER] += load >> 32
        return n_known
    counts, last = scratch.tables[job[TABLE]], (j * plan.n_bins + plan.n_bins - 1) * n_classes
    for c in range(n_classes):
        here[c] = counts[last + c]
        n_known = plan.n_bins - 1 if here[c] > 0 else n_known
    return n_known


@part
def _sort_small(
    rows: RowOrder, n_features: Int, j: Int, first: Int, size: Int, n_bins: Int, found: Host, keys: Host
) -> None:
    """Sort few rows by their bins: keys hold the bin and, in the lower half, the position."""
    width, column = index(n_features), index(j)
    if size <= _INSERTED:
        for i in range(size):
            key = (np.int64(rows.cells[index(rows.order[first + i]) * width + column]) << 32) + i
            at = i
            while at > 0 and keys[at - 1] > key:
                keys[at] = keys[at - 1]
                at -= 1
            keys[at] = key
        return
    # `found` first counts the rows of each bin, then holds the position of the next row of that bin
    for i in range(n_bins):
        found[i] = 0
    for i in range(size):
        found[index(rows.cells[index(rows.order[first + i]) * width + column])] += 1
    before = np.int32(0)
    for i in range(n_bins):
        n_here = found[i]
        found[i] = before
        before += n_here
    for i in range(size):
        own = index(rows.cells[index(rows.order[first + i]) * width + column])
        at = found[own]
        found[own] = at + np.int32(1)
        keys[at] = (np.int64(own) << 32) + i
