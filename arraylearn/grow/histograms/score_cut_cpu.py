"""The best cut of a node by every criterion but Gini's and Newton's, in compiled growth on histograms."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import Host, Int, index, part
from arraylearn.grow.criteria_cpu import (
    NodeTerms,
    describe_node,
    score_by_logs,
    score_majority,
    score_sides,
    score_two_by_chi2,
)
from arraylearn.grow.formulas import CHI2, ENTROPY, ERROR
from arraylearn.grow.histograms.records_cpu import (
    FIRST,
    LOWER,
    NODE,
    NONE,
    STOP,
    TABLE,
    ColumnSums,
    GrowthPlan,
    GrowthScratch,
    NodeSlots,
    RowOrder,
)

__all__ = ["find_score_cut", "score_two", "sort_small"]

# Up to so many rows are sorted by insertion.
_INSERTED = 32


@part
def score_two(plan: GrowthPlan, column: ColumnSums, running: Host, scores: Host) -> None:
    """Score the running sums of a column of two classes; -1 where a side is too light."""
    criterion, logs, lightest, start = plan.criterion, plan.logs, plan.least_side, index(column.first)
    n_all, ones = column.total >> 32, column.total & LOWER
    zeros = n_all - ones
    node, classes = np.int64(0), np.int64(0)
    if criterion >= ENTROPY:
        node, classes = logs[n_all], logs[ones] + logs[zeros]
    before = max(ones, zeros) if criterion == ERROR else np.int64(0)
    # information of nine logarithms, the node's and those of branches and classes, is as many units off
    terms = NodeTerms(n_all, np.float64(n_all) / plan.log_unit, node, classes, np.int64(9), before)
    for i in range(column.n):
        packed = running[start + index(i)]
        n_left, one = packed >> 32, packed & LOWER
        n_right, zero = n_all - n_left, n_left - one
        score = -1.0
        if n_left >= lightest and n_right >= lightest:
            if criterion >= ENTROPY:
                cells = logs[one] + logs[zero] + logs[ones - one] + logs[zeros - zero]
                score = score_by_logs(criterion, terms, cells, logs[n_left] + logs[n_right])
            elif criterion == CHI2:
                score = score_two_by_chi2(zero, one, zeros, ones)
            else:
                score = score_majority(terms, max(one, zero) + max(ones - one, zeros - zero))
        scores[i] = score


@part
def _add_row(plan: GrowthPlan, here: Host, sums: Host, load: Int) -> Any:
    """Move a row to the left; return what that adds to n log2(n), summed over sides and classes."""
    own, added, logs = index(load & LOWER), load >> 32, plan.logs
    held, rest, more = here[own], sums[own] - here[own], np.int64(0)
    here[own] = held + added
    if plan.criterion >= ENTROPY:
        more = logs[index(held + added)] - logs[index(held)]
        more += logs[index(rest - added)] - logs[index(rest)]
    return more


@part
def find_score_cut(
    rows: RowOrder, plan: GrowthPlan, nodes: NodeSlots, scratch: GrowthScratch, job: Host
) -> tuple[Int, Int, Int, Any, bool]:
    """Do what `find_class_cut` does for the other criteria: scores are compared in float32."""
    sums, table, first, size = nodes.sums[job[NODE]], job[TABLE], job[FIRST], job[STOP] - job[FIRST]
    n_features, n_classes, n_bins = plan.is_used.shape[0], sums.shape[0], plan.n_bins
    keys, least, here, chosen = scratch.running, plan.least_side, scratch.side[0], scratch.side[1]
    criterion, logs, takes_logs = plan.criterion, plan.logs, plan.criterion >= ENTROPY
    terms = describe_node(criterion, logs, plan.log_unit, sums)
    best, feature, low, high = -1.0, np.int64(0), np.int64(NONE), np.int64(NONE)
    for j in range(n_features):
        if table == NONE:
            sort_small(rows, n_features, j, first, size, n_bins, scratch.found, keys)
        for c in range(n_classes):
            here[c] = 0
        counts, at_cell = scratch.tables[table], index(j * n_bins * n_classes)
        n_left, cells, is_best = np.int64(0), terms.classes, False
        for step in range(size if table == NONE else n_bins):
            # a row, or a bin with its classes, moves to the left side
            added = np.int64(0)
            if table == NONE:
                load = rows.carry[first + (keys[step] & LOWER)]
                added = load >> 32
                cells += _add_row(plan, here, sums, load)
            else:
                for c in range(index(n_classes)):
                    more, held = counts[at_cell + c], here[c]
                    if more > 0 and takes_logs:
                        rest = sums[c] - held
                        cells += logs[index(held + more)] - logs[index(held)]
                        cells += logs[index(rest - more)] - logs[index(rest)]
                    here[c] = held + more
                    added += more
                at_cell += index(n_classes)
            if added == 0:
                continue
            if is_best and high == NONE:
                high = (keys[step] >> 32) if table == NONE else np.int64(step)
            n_left += added
            if table == NONE and step + 1 < size and keys[step] >> 32 == keys[step + 1] >> 32:
                continue
            n_right = terms.n - n_left
            if n_left < least or n_right < least:
                continue
            if takes_logs:
                score = score_by_logs(criterion, terms, cells, logs[index(n_left)] + logs[index(n_right)])
            else:
                score = score_sides(criterion, terms, here, sums, n_left)
            if score > best:
                best, feature, is_best = score, np.int64(j), True
                low, high = (keys[step] >> 32) if table == NONE else np.int64(step), np.int64(NONE)
                for c in range(n_classes):
                    chosen[c] = here[c]
    return feature, low, high, np.float32(best), True


@part
def sort_small(
    rows: RowOrder,
    n_features: Int,
    j: Int,
    first: Int,
    size: Int,
    n_bins: Int,
    found: Host,
    keys: Host,
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
    # `found` counts the rows of each bin, and then says where the next one goes
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
