"""Nominal columns in compiled growth: categories in order, and the sets of them that go right.

The categories with rows in a node are put in an order in which a cut is searched as in a numeric column: by
the share of class 1 (of two classes the best of all sets is such a cut), or by gradient per hessian::

    bins of the column        0     1     2     3     missing      the node has no row of bin 2
    share of class 1         0.7   0.2    -    0.4     0.5
    in order                  1     3   missing  0
    cut after the second      left: 1 3      right: 0 missing

Of more than two classes no single order is known to hold the best set: one order by the share of each class
is tried, and in columns of few categories all sets. `GrowthScratch.categories` then has a row for each
category of the node, and after these one for each set::

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
from arraylearn.grow.histograms.records_cpu import (
    FIRST,
    LOWER,
    NEWTON_BOUNDED,
    NODE,
    NONE,
    STOP,
    TABLE,
    GrowthPlan,
    GrowthScratch,
    Newton,
    NodeSlots,
    RowOrder,
)

__all__ = [
    "SURPLUS_CLASSES",
    "keep_set",
    "list_categories",
    "order_categories",
    "search_sets",
    "take_set",
    "write_set",
]

# By Newton's gain missing values come last: their ratio is above all others.
_MISSING_RATIO = np.float32(2e30)
_ALL_BUT_SIGN = (1 << 31) - 1
# In a set: a category without rows in the node, whose side is decided at the end.
_ABSENT = 2

# Up to so many classes the Gini score sums the surplus of each class, for more the squared counts.
SURPLUS_CLASSES = 4

_gini_surplus = part(formulas.gini_surplus)
_gini_squares = part(formulas.gini_squares)
_unpack = part(formulas.unpack)


@part
def order_categories(
    rows: RowOrder, plan: GrowthPlan, newton: Newton | None, scratch: GrowthScratch, j: Int, total: Int
) -> tuple[Int, Float]:
    """Put the bins of a nominal column in order; return their number, and the price of choosing among them.

    `found` receives the bins with rows, `running` their running sums.
    """
    found, keys, sums, ratios = scratch.found, scratch.running, scratch.bits, scratch.ratios
    n = _sum_categories(rows, plan, scratch, j, sums)
    for i in range(n):
        own = sums[found[i]]
        if newton is None:
            ratios[i] = np.float64(own & LOWER) / np.float64(own >> 32)
        else:
            gradient, hessian = _unpack(own)
            ratios[i] = np.float32(gradient) / (np.float32(hessian) + np.float32(newton.smoothing))
            if found[i] == plan.n_bins - 1:
                ratios[i] = _MISSING_RATIO
    _sort_by_ratio(scratch, n)
    so_far = np.int64(0)
    for i in range(n):
        own_bin = keys[i] & LOWER
        found[i] = own_bin
        so_far += sums[own_bin]
        keys[i] = so_far
    price = np.float32(0)
    if newton is not None:
        n_known = n - 1 if n > 0 and found[n - 1] == plan.n_bins - 1 else n
        price = np.float32(newton.price) * np.float32(max(n_known - 2, 0))
        if plan.criterion != NEWTON_BOUNDED:
            ridged = np.float32(total >> 32) + np.float32(2) * np.float32(newton.ridge)
            price = price / (ridged if ridged > np.float32(0.5) else np.float32(0.5))
    return n, price


@part
def _sum_categories(rows: RowOrder, plan: GrowthPlan, scratch: GrowthScratch, j: Int, sums: Host) -> Int:
    """Write the bins with rows to `found`, and their sums to `sums`, by bin; return how many there are."""
    job, found, n_bins, n = scratch.job, scratch.found, plan.n_bins, np.int64(0)
    if job[TABLE] != NONE:
        cells, before = scratch.tables[job[TABLE]], np.int64(0)
        for i in range(n_bins):
            running = cells[index(j * n_bins) + index(i)]
            sums[i] = running - before
            found[n] = i
            n += running != before
            before = running
        return n
    width = index(plan.is_used.shape[0])
    for at in range(job[FIRST], job[STOP]):
        sums[rows.cells[index(rows.order[at]) * width + index(j)]] = 0
    for at in range(job[FIRST], job[STOP]):
        own = rows.cells[index(rows.order[at]) * width + index(j)]
        if sums[own] == 0:
            found[n] = own
            n += 1
        sums[own] += rows.carry[at]
    return n


@part
def _sort_by_ratio(scratch: GrowthScratch, n: Int) -> None:
    """Write the ratios of the entries of `found`, and in the lower half these, to `running`; sort them.

    Shell's way: entries far apart change places first, so that few steps are left for those side by side.
    """
    found, keys, bits = scratch.found, scratch.running, scratch.ratio_bits
    for i in range(n):
        own = np.int64(bits[i])
        keys[i] = ((own ^ ((own >> 63) & _ALL_BUT_SIGN)) << 32) + found[i]
    gap = np.int64(1)
    while 3 * gap + 1 < n:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            key, at = keys[i], np.int64(i)
            while at >= gap and keys[at - gap] > key:
                keys[at] = keys[at - gap]
                at -= gap
            keys[at] = key
        gap //= 3


@part
def write_set(goes_right: Host, found: Host, n: Int, at: Int, absent: Int) -> None:
    """Write which bins go right: those in order after position `at`; `absent` for bins without rows."""
    for i in range(goes_right.shape[0]):
        goes_right[i] = absent
    for i in range(n):
        goes_right[found[i]] = i > at


@part
def keep_set(
    rows: RowOrder, plan: GrowthPlan, nodes: NodeSlots, scratch: GrowthScratch, feature: Int, n_left: Int
) -> bool:
    """Write the chosen set to the node; return whether missing values go left.

    Categories without rows go to the side with more weight of known values, as do missing values where the
    node has none; `n_left` is the weight of the left side.
    """
    job, goes_right, last = scratch.job, scratch.sets[0], plan.n_bins - 1
    missing, total, sums = np.int64(0), np.int64(0), nodes.sums[job[NODE]]
    if sums.shape[0] == 1:
        total = sums[0] >> 32
    else:
        for c in range(sums.shape[0]):
            total += sums[c]
    if goes_right[last] == _ABSENT:
        missing = np.int64(0)
    elif job[TABLE] != NONE:
        cells, n_words = scratch.tables[job[TABLE]], sums.shape[0]
        cell = (feature * plan.n_bins + last) * n_words
        if n_words == 1:
            missing = (cells[cell] - cells[cell - 1]) >> 32
        else:
            for c in range(n_words):
                missing += cells[cell + c]
    else:
        width = index(plan.is_used.shape[0])
        for at in range(job[FIRST], job[STOP]):
            if rows.cells[index(rows.order[at]) * width + index(feature)] == last:
                missing += rows.carry[at] >> 32
    left, right = n_left, total - n_left
    if goes_right[last] == 0:
        left -= missing
    else:
        right -= missing
    heavier = 1 if right > left else 0
    for i in range(last + 1):
        own = goes_right[i]
        nodes.sets[job[NODE], i] = heavier if own == _ABSENT else own
    return bool(nodes.sets[job[NODE], last] == 0)


# ---- class vectors


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
    write_set(scratch.sets[0], found, n, n_left - 1, _ABSENT)


@part
def _order_by_class(scratch: GrowthScratch, n: Int, o: Int, n_classes: Int) -> None:
    """Put the listed categories in the order of their share of a class: their rows are keys in `running`."""
    listed = scratch.categories
    for i in range(n):
        scratch.ratios[i] = np.float64(listed[i, o]) / np.float64(listed[i, n_classes + 1])
        scratch.found[i] = i
    _sort_by_ratio(scratch, n)


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
