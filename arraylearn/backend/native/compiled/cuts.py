"""The best cut of one node of a forest's tree, in compiled loops: see `backend.ops.cuts.best_cuts`.

A node of many rows is counted by groups of bins, as are weights whose products do not fit 32 bits; the rows
of others are put in order.

Functions get the arrays that they need one by one, and lines of arrays by their number: to hand on a table of
arrays, or a view, costs as much as the work on ten rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import Host, Whole, compiled_part
from arraylearn.backend.cpu.unsigned import index
from arraylearn.backend.native.compiled.counted_cuts import cut_by_counts, draw_cut, score_at, score_pair_at
from arraylearn.backend.native.compiled.desk import (
    COLUMNS_TOGETHER,
    HEAVIEST,
    NO_SCORE,
    Desk,
    Search,
    scatter_bits,
    unpack_weights,
)
from arraylearn.backend.native.compiled.ordered_cuts import cut_in_order

__all__ = ["find_cut"]


@compiled_part
def find_cut(
    bins: Host,
    entries: Host,
    start: Whole,
    m: Whole,
    columns: Host,
    draw: Whole,
    counts: Host,
    node: Whole,
    seed: Any,
    positions: Host,
    search: Search,
    desk: Desk,
) -> tuple[Any, Whole, Whole]:
    """Return the best score of a node, its column and its cut.

    The rows of the node are `m` entries from `start` on, its columns are in line `draw` of `columns`, its
    class weights in line `node` of `counts`.
    """
    n_classes, total = counts.shape[1], np.int64(0)
    for c in range(n_classes):
        total += counts[node, c]
    last = counts[node, n_classes - 1]
    is_light = total <= HEAVIEST and (search.draws_cuts or m < search.many)
    if is_light:
        unpack_weights(entries, start, m, n_classes, search.class_bits, search.payload_bits, desk.packed)
    best, feature, cut = NO_SCORE, np.int64(0), np.int64(0)
    for first in range(0, columns.shape[1], COLUMNS_TOGETHER):
        n_together = min(COLUMNS_TOGETHER, columns.shape[1] - first)
        for j in range(0, n_together, 4):
            _gather(bins, entries, start, m, columns, draw, first, j, n_together - 1, search, desk.found)
        for j in range(n_together):
            column = np.int64(columns[draw, first + j])
            if search.draws_cuts:
                number = np.int64(scatter_bits(seed + np.uint64(column + 3)) >> np.uint64(32))
                place = draw_cut(desk.found, j, m, number, positions, column * search.n_bins)
                if place < 0:
                    continue
                if is_light and n_classes <= 2:
                    score = score_pair_at(desk.found, j, m, desk.packed, last, total, place, search.least)
                else:
                    score = score_at(
                        desk.found, j, m, entries, start, counts, node, total, place, search, desk.left
                    )
            elif not is_light:
                score, place = cut_by_counts(
                    desk.found, j, m, entries, start, counts, node, total, best, search, desk.cells, desk.left
                )
            else:
                score, place = cut_in_order(
                    desk.found, j, m, counts, node, last, total, best, search.least, desk
                )
            if score > best:
                best, feature, cut = score, column, place
    return best, feature, cut


@compiled_part
def _gather(
    bins: Host,
    entries: Host,
    start: Whole,
    m: Whole,
    columns: Host,
    draw: Whole,
    first: Whole,
    j: Whole,
    last: Whole,
    search: Search,
    found: Host,
) -> None:
    """Write the bins of rows in four columns (or fewer: up to line `last`), which lie close together."""
    j_b, j_c, j_d = min(j + 1, last), min(j + 2, last), min(j + 3, last)
    a, b = np.int64(columns[draw, first + j]), np.int64(columns[draw, first + j_b])
    c, d = np.int64(columns[draw, first + j_c]), np.int64(columns[draw, first + j_d])
    for i in range(m):
        row = (entries[index(start + i)] >> search.payload_bits) * search.n_columns
        found[j, i], found[j_b, i] = bins[index(row + a)], bins[index(row + b)]
        found[j_c, i], found[j_d, i] = bins[index(row + c)], bins[index(row + d)]
