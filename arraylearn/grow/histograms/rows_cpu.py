"""RowOrder in compiled growth: counted into tables, and divided between the children of a node."""

from __future__ import annotations

import numpy as np

from arraylearn.backend.cpu.jit import Host, Int, entry, index, part
from arraylearn.backend.cpu.prefetch import prefetch
from arraylearn.grow.histograms.records_cpu import (
    FEATURE,
    LOW,
    LOWER,
    MISSING_RIGHT,
    NONE,
    GrowthPlan,
    NodeSlots,
    RowOrder,
)

__all__ = ["add_up", "advance", "count", "divide", "fill", "join", "turn"]

# RowOrder between the one whose cells are asked for and the one that is added.
_AHEAD = 24
# RowOrder that are turned at once.
_TURNED = 128


@entry
def turn(bins: Host, cells: Host, first: Int, stop: Int) -> None:
    """Write the bins (d, n) of some rows side by side; what is turned at once stays in the cache."""
    for start in range(first, stop, _TURNED):
        end = start + _TURNED if start + _TURNED < stop else stop
        for j in range(bins.shape[0]):
            for row in range(start, end):
                cells[row, j] = bins[j, row]


@entry
def fill(rows: RowOrder, ids: Host, loads: Host, first: Int, stop: Int) -> None:
    """Begin with the rows `ids` and what they carry, at some positions."""
    for i in range(first, stop):
        rows.order[i] = ids[i]
        rows.carry[i] = loads[ids[i]]


@part
def count(
    rows: RowOrder, n_features: Int, first: Int, stop: Int, n_bins: Int, n_words: Int, table: Host
) -> None:
    """Count rows into a table, two at a time: their additions need not wait for each other."""
    for i in range(table.shape[0]):
        table[i] = 0
    cells, order, carry = rows.cells, rows.order, rows.carry
    width, words, stride = index(n_features), index(n_words), index(n_bins * n_words)
    at = first
    while at < stop:
        other = at + 1 if at + 1 < stop else at
        ahead = at + _AHEAD if at + _AHEAD + 1 < stop else at
        prefetch(cells, np.int64(order[ahead]) * n_features)
        prefetch(cells, np.int64(order[ahead + 1]) * n_features)
        load, next_load = carry[at], carry[other] if other > at else 0
        here, there = index(order[at]) * width, index(order[other]) * width
        if n_words == 1:
            cell = index(0)
            for j in range(width):
                table[cell + index(cells[here + j])] += load
                table[cell + index(cells[there + j])] += next_load
                cell += stride
        else:
            cell, next_cell = index(load & LOWER), index(next_load & LOWER)
            load, next_load = load >> 32, next_load >> 32
            for j in range(width):
                table[cell + index(cells[here + j]) * words] += load
                table[next_cell + index(cells[there + j]) * words] += next_load
                cell += stride
                next_cell += stride
        at += 2


@part
def add_up(table: Host, n_bins: Int) -> None:
    """Make running sums over the bins of each column of a table of pairs."""
    for first in range(0, table.shape[0], n_bins):
        total = np.int64(0)
        for i in range(index(first), index(first + n_bins)):
            total += table[i]
            table[i] = total


@part
def divide(rows: RowOrder, plan: GrowthPlan, nodes: NodeSlots, node: Int, first: Int, stop: Int) -> Int:
    """Put the left rows of a node that has a cut before the right ones; return how many go left."""
    feature, cut = nodes.ints[FEATURE, node], nodes.ints[LOW, node]
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
        # the bins that go right are one run: up to that of missing values, or with it
        begin = np.int64(cut + 1)
        run = np.uint64(plan.n_bins - 1 - begin + nodes.ints[MISSING_RIGHT, node])
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


@entry
def advance(
    rows: RowOrder,
    plan: GrowthPlan,
    nodes: NodeSlots,
    node: Int,
    first: Int,
    stop: Int,
    counts_left: bool,
    table: Host,
) -> Int:
    """Divide one slice of the rows of a node that was split, and count those of one child; return n_left.

    Without a node (NONE) all rows of the slice are counted.
    """
    n_left, n_features, n_words = np.int64(0), plan.is_used.shape[0], nodes.sums.shape[1]
    begin, end = first, stop
    if node != NONE:
        n_left = divide(rows, plan, nodes, node, first, stop)
        begin, end = (first, first + n_left) if counts_left else (first + n_left, stop)
    count(rows, n_features, begin, end, plan.n_bins, n_words, table)
    return n_left


@entry
def join(parts: Host, table: Host, parent: Host, n_bins: Int, is_pair: bool) -> None:
    """Sum the tables of the slices, and subtract the sum from that of the node; `parent` may be empty."""
    for i in range(table.shape[0]):
        total = np.int64(0)
        for t in range(parts.shape[0]):
            total += parts[t, i]
        table[i] = total
    if is_pair:
        add_up(table, n_bins)
    for i in range(parent.shape[0]):
        parent[i] -= table[i]
