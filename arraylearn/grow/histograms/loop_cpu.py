"""The steps of compiled growth for one node: search its cut, and split it.

A node has a table of sums by column and bin. Of its children the smaller one is counted, the larger one is
the difference::

    order of the rows   |  left child   |      right child        |
                        first         middle                    stop
    table of the node - table of the smaller child = table of the larger child

A row carries one integer. Two kinds of sums share the code: a *pair* (two classes, or hessian and gradient)
is one packed integer per cell, ``(first << 32) + second``, stored as running sums over the bins; *class
vectors* have one count per cell and class. Some arguments are given for one kind of growth and None for all
others: `newton` for Newton's gain, `logs` for criteria other than Gini's, `drawn` for columns that are drawn
in each node, `here` for class vectors. Numba compiles the function anew for each combination, without the
code that None excludes.
"""

from __future__ import annotations

import numpy as np

from arraylearn.backend.cpu.jit import Host, Int, inlined, part
from arraylearn.grow import formulas
from arraylearn.grow.histograms.best_cut_cpu import hand_on, may_split
from arraylearn.grow.histograms.records_cpu import (
    CHILD,
    DEPTH,
    FEATURE,
    FIRST,
    HIGH,
    LEFT,
    LOW,
    MISSING_RIGHT,
    NODE,
    NONE,
    SEED,
    SIZE,
    START,
    STOP,
    TABLE,
    DrawnColumns,
    GrowthPlan,
    GrowthScratch,
    Newton,
    NodeSlots,
    RowOrder,
)
from arraylearn.grow.histograms.rows_cpu import count, divide, free_table, take_table

__all__ = ["begin_leaf", "split_node", "take_best", "write_job"]

_splitmix = part(formulas.splitmix)


@part
def write_job(job: Host, node: Int, first: Int, stop: Int, depth: Int, table: Int, seed: Int) -> None:
    """Write a node that is still to be grown to the stack or to the jobs."""
    job[NODE], job[FIRST], job[STOP] = node, first, stop
    job[DEPTH], job[TABLE], job[SEED] = depth, table, seed


@part
def begin_leaf(ints: Host, gain: Host, node: Int, first: Int, size: Int) -> None:
    """Write a node as a leaf; a split overwrites it."""
    ints[node, FEATURE], ints[node, CHILD], gain[node] = NONE, NONE, 0
    ints[node, LOW], ints[node, HIGH], ints[node, MISSING_RIGHT] = NONE, NONE, 0
    ints[node, START], ints[node, SIZE] = first, size


@part
def take_best(cuts: Host, gains: Host, n_cuts: Int, job: Host) -> bool:
    """Copy the cut of the largest gain to the job; return whether there is one."""
    best, chosen = 0.0, np.int64(NONE)
    for i in range(n_cuts):
        if gains[i] > best:
            best, chosen = gains[i], np.int64(i)
    if chosen == NONE:
        return False
    gains[chosen] = 0.0
    for i in range(LEFT + 1):
        job[i] = cuts[chosen, i]
    return True


@inlined
def split_node(
    rows: RowOrder,
    plan: GrowthPlan,
    nodes: NodeSlots,
    scratch: GrowthScratch,
    newton: Newton | None,
    drawn: DrawnColumns | None,
    here: Host | None,
    tables: Host | None,
) -> None:
    """Split a node that has a cut, and write its children to the stack, or to the jobs."""
    job, side, sums, heights = scratch.job, scratch.side, nodes.sums, scratch.heights
    node, first, stop, table, below = job[NODE], job[FIRST], job[STOP], job[TABLE], job[DEPTH] + 1
    size, n_words = stop - first, nodes.sums.shape[1]
    for c in range(n_words):
        side[0, c] = sums[node, c] - side[1, c]
    is_open = scratch.is_open
    for right in range(2):
        is_open[right] = may_split(plan, newton, here, side[1 - right], size, below)
    n_left, child = np.int64(NONE), 2 * first + 1
    if is_open[0] or is_open[1] or (plan.keeps_rows and below != plan.max_depth):
        n_left = divide(rows, plan, nodes, node, first, stop)
        child = 2 * (first + n_left) - 1
    nodes.ints[node, CHILD] = child
    for right in range(2):
        for c in range(n_words):
            sums[child + right, c] = side[1 - right, c]
        begin, own_size = first + (n_left if right else 0), size - n_left if right else n_left
        if n_left == NONE:
            begin, own_size = np.int64(NONE), np.int64(NONE)
        begin_leaf(nodes.ints, nodes.gain, child + right, begin, own_size)
        is_open[right] = is_open[right] and own_size >= plan.least_rows
    if here is None and drawn is None and plan.has_trend:
        hand_on(plan, newton, nodes, node, child)
    middle, small = first + n_left, 0 if 2 * n_left <= size else 1
    n_small, large = size - n_left if small else n_left, 1 - small
    own_table = scratch.own_table
    own_table[0], own_table[1] = NONE, NONE
    if tables is not None:
        if table != NONE and is_open[large] and size - n_small > plan.small and scratch.n_free[0] > 0:
            own_table[small], own_table[large] = take_table(scratch.free, scratch.n_free), table
            begin = middle if small else first
            counted, rest = tables[own_table[small]], tables[table]
            count(rows, plan, begin, begin + n_small, counted, here)
            for i in range(rest.shape[0]):
                rest[i] -= counted[i]
            if not is_open[small] or n_small <= plan.small:
                free_table(scratch.free, scratch.n_free, own_table[small])
                own_table[small] = NONE
        else:
            free_table(scratch.free, scratch.n_free, table)
    # the child written last is processed first: the smaller one, or the left one if gains are compared
    last = 0 if plan.max_leaves > 0 else small
    for turn in range(2):
        right = last if turn == 1 else 1 - last
        if not is_open[right]:
            continue
        begin, end = middle if right else first, stop if right else middle
        seed = np.int64(0)
        if drawn is not None:
            seed = np.int64(_splitmix(np.uint64(job[SEED]) + np.uint64(1 + right)))
        if plan.largest < size:
            if scratch.n_free[0] == 0:  # at least one table must be free
                free_table(scratch.free, scratch.n_free, own_table[right])
                own_table[right] = NONE
            write_job(scratch.jobs[heights[1]], child + right, begin, end, below, own_table[right], seed)
            heights[1] += 1
        else:
            write_job(scratch.stack[heights[0]], child + right, begin, end, below, own_table[right], seed)
            heights[0] += 1
