"""Rows in compiled growth: counted into tables, and divided between the children of a node."""

from __future__ import annotations

import numpy as np

from arraylearn.backend.cpu.intrinsics import prefetch
from arraylearn.backend.cpu.jit import Host, Int, index, inlined, part
from arraylearn.grow.histograms.records_cpu import (
    FEATURE,
    FIRST,
    LOW,
    LOWER,
    MISSING_RIGHT,
    NONE,
    STOP,
    TABLE,
    GrowthPlan,
    GrowthScratch,
    NodeSlots,
    RowOrder,
)

__all__ = ["count", "count_node", "divide", "free_table", "take_table"]

# Prefetch distance in rows.
_AHEAD = 24


@part
def count(rows: RowOrder, plan: GrowthPlan, first: Int, stop: Int, table: Host, here: Host | None) -> None:
    """Count rows into a table, two at a time, so that their additions overlap.

    Tables of pairs become running sums over the bins.
    """
    for i in range(table.shape[0]):
        table[i] = 0
    cells, order, carry, n_features = rows.cells, rows.order, rows.carry, plan.is_used.shape[0]
    width, stride, words = index(n_features), index(plan.n_bins), index(1)
    if here is not None:
        words = index(here.shape[0])
        stride = stride * words
    at = first
    while at < stop:
        other = at + 1 if at + 1 < stop else at
        ahead = at + _AHEAD if at + _AHEAD + 1 < stop else at
        prefetch(cells, np.int64(order[ahead]) * n_features)
        prefetch(cells, np.int64(order[ahead + 1]) * n_features)
        load, next_load = carry[at], carry[other] if other > at else 0
        place, next_place = index(order[at]) * width, index(order[other]) * width
        if here is None:
            cell = index(0)
            for j in range(width):
                table[cell + index(cells[place + j])] += load
                table[cell + index(cells[next_place + j])] += next_load
                cell += stride
        else:
            cell, next_cell = index(load & LOWER), index(next_load & LOWER)
            load, next_load = load >> 32, next_load >> 32
            for j in range(width):
                table[cell + index(cells[place + j]) * words] += load
                table[next_cell + index(cells[next_place + j]) * words] += next_load
                cell += stride
                next_cell += stride
        at += 2
    if here is None:
        for begin in range(0, table.shape[0], plan.n_bins):
            total = np.int64(0)
            for i in range(index(begin), index(begin + plan.n_bins)):
                total += table[i]
                table[i] = total


@part
def count_node(rows: RowOrder, plan: GrowthPlan, scratch: GrowthScratch, here: Host | None) -> Int:
    """Return the table of the job's node: counted now if it has none, NONE if its rows are few."""
    job = scratch.job
    if job[TABLE] == NONE and job[STOP] - job[FIRST] > plan.small:
        job[TABLE] = take_table(scratch.free, scratch.n_free)
        count(rows, plan, job[FIRST], job[STOP], scratch.tables[job[TABLE]], here)
    return job[TABLE]


@part
def take_table(free: Host, n_free: Host) -> Int:
    """Return a table that is free."""
    n_free[0] -= 1
    return free[n_free[0]]


@part
def free_table(free: Host, n_free: Host, table: Int) -> None:
    """Give a table back, if it is one."""
    if table != NONE:
        free[n_free[0]] = table
        n_free[0] += 1


@inlined
def divide(rows: RowOrder, plan: GrowthPlan, nodes: NodeSlots, node: Int, first: Int, stop: Int) -> Int:
    """Put the left rows of a node that has a cut before the right ones; return how many go left."""
    feature, cut = nodes.ints[node, FEATURE], nodes.ints[node, LOW]
    column, order, carry = rows.bins[feature], rows.order, rows.carry
    spare_order, spare_carry = rows.spare_order, rows.spare_carry
    left, right = index(first), index(first)
    if feature >= plan.n_numeric:
        right_bins = nodes.sets[node]
        for i in range(index(first), index(stop)):
            row, load = order[i], carry[i]
            side = index(right_bins[column[row]])
            order[left] = row
            carry[left] = load
            spare_order[right] = row
            spare_carry[right] = load
            left += index(1) - side
            right += side
    else:
        # the bins that go right are one range, with or without the bin of missing values at its end
        begin = np.int64(cut + 1)
        run = np.uint64(plan.n_bins - 1 - begin + nodes.ints[node, MISSING_RIGHT])
        for i in range(index(first), index(stop)):
            row, load = order[i], carry[i]
            side = index(np.uint64(np.int64(column[row]) - begin) < run)
            order[left] = row
            carry[left] = load
            spare_order[right] = row
            spare_carry[right] = load
            left += index(1) - side
            right += side
    n_left = left - index(first)
    for i in range(index(first), right):
        order[n_left + i] = spare_order[i]
        carry[n_left + i] = spare_carry[i]
    return np.int64(n_left)
