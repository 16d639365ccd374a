"""Trees grown on histograms of all columns, in compiled loops: single trees and boosted ones.

A tree grows depth first, the smaller child first: its rows stay in the cache, and few tables are in use. A
node has a table of sums by column and bin. Its smaller child is counted, the larger one is what remains::

    order of the rows   |  left child   |      right child        |
                        first         middle                    stop
    table of the node - table of the smaller child = table of the larger child

A row carries one integer. Two families share the loop: a *pair* (two classes, or hessian and gradient) is one
packed integer per cell, ``(first << 32) + second``, kept as running sums over the bins; *class vectors* have
one count per cell and class.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import Host, Int, entry, part
from arraylearn.grow.histograms.best_cut_cpu import (
    find_class_cut,
    find_pair_cut,
    judge,
    may_split,
    pass_bounds,
)
from arraylearn.grow.histograms.records_cpu import (
    CHILD,
    DEPTH,
    FEATURE,
    FIRST,
    GINI,
    HIGH,
    LEFT,
    LOW,
    MISSING_RIGHT,
    NEWTON_BOUNDED,
    NODE,
    NONE,
    SIZE,
    START,
    STOP,
    TABLE,
    GrowthPlan,
    GrowthScratch,
    NodeSlots,
    RowOrder,
)
from arraylearn.grow.histograms.rows_cpu import add_up, count, divide
from arraylearn.grow.histograms.score_cut_cpu import find_score_cut

__all__ = ["grow"]


@part
def _take_table(scratch: GrowthScratch) -> Int:
    scratch.n_free[0] -= 1
    return scratch.free[scratch.n_free[0]]


@part
def _free_table(scratch: GrowthScratch, table: Int) -> None:
    scratch.free[scratch.n_free[0]] = table
    scratch.n_free[0] += 1


@part
def _write(jobs: Host, n: Int, node: Int, first: Int, stop: Int, depth: Int, table: Int) -> Int:
    """Write a node behind `n` others; return their number then."""
    jobs[n, NODE], jobs[n, FIRST], jobs[n, STOP], jobs[n, DEPTH], jobs[n, TABLE] = (
        node,
        first,
        stop,
        depth,
        table,
    )
    return n + 1


@part
def _begin(nodes: NodeSlots, node: Int, first: Int, size: Int) -> None:
    """Begin a node as a leaf."""
    ints = nodes.ints
    ints[FEATURE, node], ints[CHILD, node], nodes.gain[node] = NONE, NONE, 0
    ints[LOW, node], ints[HIGH, node], ints[MISSING_RIGHT, node] = NONE, NONE, 0
    ints[START, node], ints[SIZE, node] = first, size


@part
def _find_cut(rows: RowOrder, plan: GrowthPlan, nodes: NodeSlots, scratch: GrowthScratch, job: Host) -> Any:
    """Write the best cut of a node; return what it gains, a negative number if it stays a leaf.

    The left sums stay in ``side[1]``, and the table that was counted in the job.
    """
    size = job[STOP] - job[FIRST]
    if job[TABLE] == NONE and size > plan.small:
        job[TABLE] = _take_table(scratch)
        table = scratch.tables[job[TABLE]]
        count(rows, plan.is_used.shape[0], job[FIRST], job[STOP], plan.n_bins, nodes.sums.shape[1], table)
        if nodes.sums.shape[1] == 1:
            add_up(table, plan.n_bins)
    if nodes.sums.shape[1] == 1:
        feature, low, high, gain, missing_right = find_pair_cut(rows, plan, nodes, scratch, job)
    elif plan.criterion == GINI:
        feature, low, high, gain, missing_right = find_class_cut(rows, plan, nodes, scratch, job)
    else:
        feature, low, high, gain, missing_right = find_score_cut(rows, plan, nodes, scratch, job)
    if low == NONE:
        return -1.0
    gained = judge(plan, nodes, job, feature, scratch.side[1, 0], gain)
    if gained >= 0:
        ints, node = nodes.ints, job[NODE]
        ints[FEATURE, node], ints[LOW, node], ints[HIGH, node] = feature, low, high
        ints[MISSING_RIGHT, node], nodes.gain[node] = missing_right, gain
    return gained


@part
def _split(
    rows: RowOrder,
    plan: GrowthPlan,
    nodes: NodeSlots,
    scratch: GrowthScratch,
    job: Host,
    largest: Int,
    heights: Host,
) -> None:
    """Split a node that has a cut, and write its children to the stack, or to the jobs.

    `heights` has the numbers of both.
    """
    node, first, stop, table, below = job[NODE], job[FIRST], job[STOP], job[TABLE], job[DEPTH] + 1
    size, side, sums = stop - first, scratch.side, nodes.sums
    n_words, n_features, n_bins = sums.shape[1], plan.is_used.shape[0], plan.n_bins
    for c in range(n_words):
        side[0, c] = sums[node, c] - side[1, c]
    open_left, open_right = may_split(plan, side[1], size, below), may_split(plan, side[0], size, below)
    n_left, child = np.int64(NONE), 2 * first + 1
    if open_left or open_right or (plan.keeps_rows and below != plan.max_depth):
        n_left = divide(rows, plan, nodes, node, first, stop)
        child = 2 * (first + n_left) - 1
    middle, n_right = first + n_left, size - n_left
    nodes.ints[CHILD, node] = child
    for c in range(n_words):
        sums[child, c], sums[child + 1, c] = side[1, c], side[0, c]
    if plan.criterion == NEWTON_BOUNDED:
        pass_bounds(plan, nodes, node, child)
    if n_left == NONE:
        _begin(nodes, child, np.int64(NONE), np.int64(NONE))
        _begin(nodes, child + 1, np.int64(NONE), np.int64(NONE))
    else:
        _begin(nodes, child, first, n_left)
        _begin(nodes, child + 1, middle, n_right)
        open_left, open_right = (
            open_left and n_left >= plan.least_rows,
            open_right and n_right >= plan.least_rows,
        )
    is_left_small = n_left <= n_right
    n_small = n_left if is_left_small else n_right
    small_open, large_open = (open_left, open_right) if is_left_small else (open_right, open_left)
    small_table, large_table = np.int64(NONE), np.int64(NONE)
    if table != NONE and large_open and size - n_small > plan.small and scratch.n_free[0] > 0:
        small_table, large_table = _take_table(scratch), table
        begin = first if is_left_small else middle
        counted, rest = scratch.tables[small_table], scratch.tables[table]
        count(rows, n_features, begin, begin + n_small, n_bins, n_words, counted)
        if n_words == 1:
            add_up(counted, n_bins)
        for i in range(rest.shape[0]):
            rest[i] -= counted[i]
        if not small_open or n_small <= plan.small:
            _free_table(scratch, small_table)
            small_table = np.int64(NONE)
    elif table != NONE:
        _free_table(scratch, table)
    # what is written last is looked at first: the smaller one, or, where gains are compared, the left one
    is_left_last = is_left_small or plan.max_leaves > 0
    for turn in range(2):
        is_left = (turn == 1) == is_left_last
        if not (open_left if is_left else open_right):
            continue
        own_table = small_table if is_left == is_left_small else large_table
        own, begin, end = (child, first, middle) if is_left else (child + 1, middle, stop)
        if size > largest:
            if own_table != NONE and scratch.n_free[0] == 0:
                _free_table(scratch, own_table)  # one must be left
                own_table = np.int64(NONE)
            heights[1] = _write(scratch.jobs, heights[1], own, begin, end, below, own_table)
        else:
            heights[0] = _write(scratch.stack, heights[0], own, begin, end, below, own_table)


@entry
def grow(
    rows: RowOrder,
    plan: GrowthPlan,
    nodes: NodeSlots,
    scratch: GrowthScratch,
    job: Host,
    largest: Int,
    only_cut: bool,
) -> Int:
    """Grow all that is below the node of a job; return how many jobs are handed back.

    The children of nodes of more than `largest` rows are handed back. With `only_cut` the node gets its cut,
    its left sums stay in ``side[1]``, its rows stay where they are, and 1 is returned if it has one.
    """
    heights, n_cuts, n_leaves = scratch.heights, np.int64(0), np.int64(1)
    heights[0], heights[1] = 0, 0
    if may_split(plan, nodes.sums[job[NODE]], job[STOP] - job[FIRST], job[DEPTH]):
        heights[0] = _write(scratch.stack, 0, job[NODE], job[FIRST], job[STOP], job[DEPTH], job[TABLE])
    elif job[TABLE] != NONE and not only_cut:
        _free_table(scratch, job[TABLE])
    while True:
        while heights[0] > 0:
            heights[0] -= 1
            for i in range(LEFT):
                job[i] = scratch.stack[heights[0], i]
            gained = _find_cut(rows, plan, nodes, scratch, job)
            if only_cut:
                return np.int64(1 if gained >= 0 else 0)
            if gained < 0:
                if job[TABLE] != NONE:
                    _free_table(scratch, job[TABLE])
            elif plan.max_leaves == 0:
                _split(rows, plan, nodes, scratch, job, largest, heights)
            else:
                if job[TABLE] != NONE and scratch.n_free[0] == 0:
                    _free_table(scratch, job[TABLE])  # one must be left
                    job[TABLE] = NONE
                job[LEFT] = scratch.side[1, 0]
                for i in range(LEFT + 1):
                    scratch.cuts[n_cuts, i] = job[i]
                scratch.cut_gains[n_cuts] = gained
                n_cuts += 1
        best, chosen = 0.0, np.int64(NONE)
        if n_leaves < plan.max_leaves:
            for i in range(n_cuts):
                if scratch.cut_gains[i] > best:
                    best, chosen = scratch.cut_gains[i], np.int64(i)
        if chosen == NONE:
            break
        for i in range(LEFT + 1):
            job[i] = scratch.cuts[chosen, i]
        scratch.cut_gains[chosen], scratch.side[1, 0] = 0.0, job[LEFT]
        n_leaves += 1
        _split(rows, plan, nodes, scratch, job, largest, heights)
    for i in range(n_cuts):  # those that were not chosen are leaves
        if scratch.cut_gains[i] > 0:
            node = scratch.cuts[i, NODE]
            _begin(nodes, node, nodes.ints[START, node], nodes.ints[SIZE, node])
            if scratch.cuts[i, TABLE] != NONE:
                _free_table(scratch, scratch.cuts[i, TABLE])
    return heights[1]
