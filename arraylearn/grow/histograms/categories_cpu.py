"""Nominal columns in compiled growth: categories in order, and the sets of them that go right.

The categories with rows in a node are put in an order in which a cut is searched as in a numeric column: by
the share of class 1 (of two classes the best of all sets is such a cut), or by gradient per hessian::

    bins of the column        0     1     2     3     missing      the node has no row of bin 2
    share of class 1         0.7   0.2    -    0.4     0.5
    in order                  1     3   missing  0
    cut after the second      left: 1 3      right: 0 missing
"""

from __future__ import annotations

import numpy as np

from arraylearn.backend.cpu.jit import Float, Host, Int, index, part
from arraylearn.grow import formulas
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

__all__ = ["keep_set", "order_categories", "sort_by_ratio", "write_set"]

# By Newton's gain missing values come last: their ratio is above all others.
_MISSING_RATIO = np.float32(2e30)
_ALL_BUT_SIGN = (1 << 31) - 1
# In a set: a category without rows in the node, whose side is decided at the end.
_ABSENT = 2

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
    sort_by_ratio(scratch, n)
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
def sort_by_ratio(scratch: GrowthScratch, n: Int) -> None:
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
