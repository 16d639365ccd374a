"""The buffers of compiled growth, made once for many trees, and finished trees copied from them."""

from __future__ import annotations

import numpy as np

from arraylearn.backend.cpu.jit import Host, Int, entry
from arraylearn.backend.dispatch import get_tuning
from arraylearn.backend.threads import even_portions, free_threads, parallel_map
from arraylearn.grow.branches.nominal import MOST_TRIED
from arraylearn.grow.histograms.records_cpu import (
    FEATURE,
    HIGH,
    LEFT,
    LOW,
    MISSING_RIGHT,
    SIZE,
    START,
    TASK,
    Buffers,
    GrowthPlan,
    GrowthScratch,
    NodeSlots,
    RowOrder,
)
from arraylearn.grow.trees import Trees

__all__ = ["make_buffers", "make_nodes", "make_rows", "make_scratch", "read_tree"]

# The most numbers in all tables of a thread. With fewer tables more nodes are counted instead of subtracted.
_MOST_CELLS = 1 << 24
_DEEPEST = 64
_SPARE_ROWS = 64
# Rows that are transposed at a time.
_TURNED = 128


def make_buffers(bins: Host, n_rows: int, n_words: int, plan: GrowthPlan) -> Buffers:
    """Make buffers for trees of up to `n_rows` rows on columns (d, n)."""
    (d, n), n_bins = bins.shape, plan.n_bins
    bins = np.ascontiguousarray(bins)
    cells = np.empty((n, d), dtype=bins.dtype)
    # least rows of a tree for two threads; each further thread needs half as many
    least = get_tuning().growth_thread_cells // d
    parallel_map(lambda rows: _turn(bins, cells, *rows), even_portions(n, least))
    n_threads = min(free_threads(), 2 * n_rows // max(least, 1)) if n_rows >= least else 1
    n_cells = d * n_bins * n_words
    per_thread = max(2, min(_DEEPEST, _MOST_CELLS // n_cells))
    kind = np.int64 if n_words == 1 else np.int32  # pairs are packed, weights of classes below 2**31
    tables = np.empty((n_threads * per_thread, n_cells), dtype=kind)
    most = max(n_bins, plan.small) + _SPARE_ROWS
    flat = cells.reshape(-1)
    rows, gathered = (make_rows(flat, bins, n_rows) for _ in range(2))
    nodes = make_nodes(n_rows, n_words, plan)
    scratch = [make_scratch(tables, t, per_thread, most, n_words, plan) for t in range(n_threads)]
    return Buffers(rows, gathered, nodes, scratch, np.empty((n_threads, n_cells), dtype=kind))


def make_nodes(n_rows: int, n_words: int, plan: GrowthPlan) -> NodeSlots:
    """Make the slots for the nodes of a tree."""
    slots = 2 * n_rows + 1
    return NodeSlots(
        np.empty((slots, SIZE + 1), dtype=np.int32),
        np.empty(slots, dtype=np.float32),
        np.empty((slots, n_words), dtype=np.int64),
        np.empty((slots if plan.has_trend else 1, 2)),
        np.empty((slots if plan.n_numeric < plan.is_used.shape[0] else 1, plan.n_bins), dtype=np.uint8),
        np.empty((5, slots), dtype=np.int32),
    )


def make_rows(cells: Host, bins: Host, n_rows: int) -> RowOrder:
    """Make the order of up to `n_rows` rows; `cells` and `bins` hold the same."""
    m = n_rows + _SPARE_ROWS
    order, spare = np.zeros((2, m), dtype=np.uint32)  # entries beyond the rows are read as ids
    carry, spare_carry = np.zeros((2, m), dtype=np.int64)
    return RowOrder(cells, bins, order, carry, spare, spare_carry)


def make_scratch(
    tables: Host | None, thread: int, per_thread: int, most: int, n_words: int, plan: GrowthPlan
) -> GrowthScratch:
    """Make the buffers of a thread, which owns `per_thread` tables and scores up to `most` cuts at a time."""
    scores, ratios = np.empty(most), np.empty(most, dtype=np.float32)
    stack, jobs, cuts = (
        np.empty((n, LEFT + 1), np.int64) for n in (2 * _DEEPEST, 2 * _DEEPEST, 2 * plan.max_leaves)
    )
    has_sets = n_words > 1 and plan.n_numeric < plan.is_used.shape[0]
    categories = np.empty((plan.n_bins + 2**MOST_TRIED if has_sets else 0, n_words + 2), dtype=np.int64)
    return GrowthScratch(
        tables,
        np.roll(np.arange(1 if tables is None else tables.shape[0]), -thread * per_thread),
        np.full(1, per_thread, dtype=np.int64),
        stack,
        jobs,
        cuts,
        np.empty(cuts.shape[0]),
        scores,
        scores.view(np.int64),
        np.empty(most, dtype=np.int32),
        np.empty(most, dtype=np.int64),
        ratios,
        ratios.view(np.int32),
        np.empty((2, plan.n_bins), dtype=np.uint8),
        np.empty(2, dtype=np.int64),
        np.empty(TASK + 1, dtype=np.int64),
        np.empty((2, n_words), dtype=np.int64),
        np.empty(2, dtype=np.bool_),
        np.empty(2, dtype=np.int64),
        None if n_words == 1 else np.empty(n_words, dtype=np.int64),
        categories,
    )


def read_tree(nodes: NodeSlots, plan: GrowthPlan, n_nodes: int) -> Trees:
    """Copy a tree that has grown, its nodes in the order of `Trees`."""
    where, first_child, depth = nodes.places[:3, :n_nodes]
    ints = np.ascontiguousarray(nodes.ints.take(where, axis=0).T)
    return Trees(
        roots=np.zeros(1, dtype=np.int64),
        feature=ints[FEATURE],
        threshold=ints[LOW],
        high=ints[HIGH],
        first_child=first_child.copy(),
        depth=depth.copy(),
        gain=nodes.gain[where],
        sums=nodes.sums.take(where, axis=0),
        default_branch=ints[MISSING_RIGHT] > 0,
        rows=ints[START : SIZE + 1],
        bounds=nodes.bounds.take(where, axis=0) if plan.has_trend else None,
        sets=nodes.sets.take(where, axis=0) if plan.n_numeric < plan.is_used.shape[0] else None,
    )


@entry
def _turn(bins: Host, cells: Host, first: Int, stop: Int) -> None:
    """Transpose the bins (d, n) of some rows, a few at a time, so that they stay in the cache."""
    for start in range(first, stop, _TURNED):
        end = start + _TURNED if start + _TURNED < stop else stop
        for j in range(bins.shape[0]):
            for row in range(start, end):
                cells[row, j] = bins[j, row]
