"""The best set of categories of a node by class vectors, in compiled growth on histograms.

Of more than two classes no single order of the categories is known to hold the best set: one order by the
share of each class is tried, and in columns of few categories all sets. `GrowthScratch.categories` has a row
for each category of the node, and after these one for each set::

    category 0       l_0  l_1  l_2 | bin | weight
    category 1       l_0  l_1  l_2 | bin | weight
    set 0 = {}       0    0    0
    set 1 = {0}      the set without its first category, and the row of that one
    set 2 = {1}
    set 3 = {0, 1}
"""

from __future__ import annotations

import numpy as np

from arraylearn.backend.cpu.jit import Float, Host, Int, index, part
from arraylearn.grow import formulas
from arraylearn.grow.criteria import LogTable
from arraylearn.grow.criteria_cpu import describe_node, n_log_n, score_vector
from arraylearn.grow.formulas import ENTROPY, NO_SPLIT
from arraylearn.grow.histograms.categories_cpu import sort_by_ratio, write_set
from arraylearn.grow.histograms.records_cpu import (
    FIRST,
    LOWER,
    NONE,
    TABLE,
    GrowthPlan,
    GrowthScratch,
    RowOrder,
)

__all__ = ["SURPLUS_CLASSES", "list_categories", "search_sets", "take_set"]

# Up to so many classes the Gini score sums the surplus of each class, for more the squared counts.
SURPLUS_CLASSES = 4

_gini_surplus = part(formulas.gini_surplus)
_gini_squares = part(formulas.gini_squares)


@part
def list_categories(
    rows: RowOrder, plan: GrowthPlan, scratch: GrowthScratch, j: Int, n_keys: Int, n_classes: Int
) -> Int:
    """List the categories of a node in ascending order; return their number.

    In a node without a table `running` holds the sorted keys of its rows, `n_keys` of them.
    """
    job, keys, listed, n = scratch.job, scratch.running, scratch.categories, np.int64(0)
    if job[TABLE] == NONE:
        for step in range(n_keys):
            own, load = keys[step] >> 32, rows.carry[job[FIRST] + (keys[step] & LOWER)]
            if n == 0 or listed[n - 1, n_classes] != own:
                for c in range(n_classes):
                    listed[n, c] = 0
                listed[n, n_classes], listed[n, n_classes + 1] = own, 0
                n += 1
            listed[n - 1, load & LOWER] += load >> 32
            listed[n - 1, n_classes + 1] += load >> 32
        return n
    cells, at = scratch.tables[job[TABLE]], index(j * plan.n_bins * n_classes)
    for own in range(plan.n_bins):
        weight = np.int64(0)
        for c in range(n_classes):
            listed[n, c] = cells[at + index(c)]
            weight += listed[n, c]
        listed[n, n_classes], listed[n, n_classes + 1] = own, weight
        n += 1 if weight > 0 else 0
        at += index(n_classes)
    return n


@part
def search_sets(
    plan: GrowthPlan, scratch: GrowthScratch, j: Int, n: Int, logs: LogTable | None, sums: Host, best: Float
) -> tuple[Float, Int, Int]:
    """Search the sets of the n listed categories of a column.

    Return the best score, if it is above `best`, and the set: the class by whose share the categories are in
    order and the last position on the left; or the number of classes, and the number of the set on the left.
    """
    listed, left, n_classes = scratch.categories, scratch.side[0], sums.shape[0]
    way, at = np.int64(NONE), np.int64(0)
    for o in range(n_classes):
        _order_by_class(scratch, n, o, n_classes)
        for c in range(n_classes):
            left[c] = 0
        for i in range(n - 1):
            own = scratch.running[i] & LOWER
            for c in range(n_classes):
                left[c] += listed[own, c]
            score = _score_left(plan, logs, sums, left)
            if score > best:
                best, way, at = score, np.int64(o), np.int64(i)
    if plan.tries_sets[j]:
        # missing values are in no set
        n_free = n - 1 if n > 0 and listed[n - 1, n_classes] == plan.n_bins - 1 else n
        for c in range(n_classes):
            listed[n, c] = 0
        for number in range(1, 1 << n_free):
            first = 0
            while (number >> first) & 1 == 0:
                first += 1
            own, rest = listed[n + number], listed[n + (number & (number - 1))]
            for c in range(n_classes):
                own[c] = rest[c] + listed[first, c]
            score = _score_left(plan, logs, sums, own)
            if score > best:
                best, way, at = score, np.int64(n_classes), np.int64(number)
    return best, way, at


@part
def take_set(plan: GrowthPlan, scratch: GrowthScratch, n: Int, way: Int, at: Int, left: Host) -> None:
    """Write the bins of a set from `search_sets` that go right to ``sets[0]``, and its class weights."""
    listed, found, n_classes, n_left = scratch.categories, scratch.found, left.shape[0], at + 1
    if way < n_classes:
        _order_by_class(scratch, n, way, n_classes)
        for i in range(n):
            found[i] = scratch.running[i] & LOWER
    else:
        n_left, n_right = np.int64(0), np.int64(0)
        for i in range(n):  # those of the set first
            n_left += (at >> i) & 1
        for i in range(n):
            inside = (at >> i) & 1
            found[(i - n_right) if inside else n_left + n_right] = i
            n_right += 1 - inside
    for c in range(n_classes):
        left[c] = 0
    for i in range(n):
        for c in range(n_classes if i < n_left else 0):
            left[c] += listed[found[i], c]
        found[i] = listed[found[i], n_classes]
    write_set(scratch.sets[0], found, n, n_left - 1, 2)


@part
def _order_by_class(scratch: GrowthScratch, n: Int, o: Int, n_classes: Int) -> None:
    """Put the listed categories in the order of their share of a class: their rows are keys in `running`."""
    listed = scratch.categories
    for i in range(n):
        scratch.ratios[i] = np.float64(listed[i, o]) / np.float64(listed[i, n_classes + 1])
        scratch.found[i] = i
    sort_by_ratio(scratch, n)


@part
def _score_left(plan: GrowthPlan, logs: LogTable | None, sums: Host, left: Host) -> Float:
    """Score a split by the class weights of its left side."""
    n_classes, n_left, n_all = sums.shape[0], np.int64(0), np.int64(0)
    for c in range(n_classes):
        n_left += left[c]
        n_all += sums[c]
    n_right = n_all - n_left
    if n_left < plan.least_side or n_right < plan.least_side:
        return NO_SPLIT
    if logs is not None:
        terms, cells = describe_node(plan.criterion, logs, sums), np.int64(0)
        for c in range(n_classes if plan.criterion >= ENTROPY else 0):
            cells += n_log_n(logs, left[c]) + n_log_n(logs, sums[c] - left[c])
        return score_vector(plan.criterion, logs, terms, left, sums, n_left, cells)
    near, far, squares = np.float64(n_left), np.float64(n_right), 0.0
    if n_classes > SURPLUS_CLASSES:
        on_left, on_right = np.int64(0), np.int64(0)
        for c in range(n_classes):
            on_left += left[c] * left[c]
            on_right += (sums[c] - left[c]) * (sums[c] - left[c])
        return _gini_squares(np.float64(on_left), near, np.float64(on_right), far)
    for c in range(n_classes):
        surplus = np.float64(left[c]) * far - np.float64(sums[c] - left[c]) * near
        squares += surplus * surplus
    return _gini_surplus(squares, near, far)
