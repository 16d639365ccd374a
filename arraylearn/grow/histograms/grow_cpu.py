"""Grow trees by the compiled loop: buffers, threads, and the record that comes of it.

With several threads a tree begins in slices: each thread keeps its own slice of the rows of a node, divides
it and counts it into a table of its own; one thread adds these up and searches. As soon as a node has no more
than its share of the rows, it is a job for one thread, which hands the largest nodes below back as further
jobs::

    slices      | thread 0     | thread 1     |      rows of the root
                | left | right | left | right |      after its cut
    gathered    | left, a job         | right, a job  |
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.cpu.jit import Host
from arraylearn.backend.dispatch import get_tuning
from arraylearn.backend.threads import even_portions, free_threads, get_num_threads, parallel_map, run_jobs
from arraylearn.grow.criteria import Criterion
from arraylearn.grow.formulas import GRADIENT_BITS
from arraylearn.grow.histograms import records_cpu as records
from arraylearn.grow.histograms import rows_cpu
from arraylearn.grow.histograms.best_cut_cpu import pass_bounds
from arraylearn.grow.histograms.loop_cpu import grow
from arraylearn.grow.histograms.newton_trees import Columns, NewtonRule, NewtonTree, PackedGradients
from arraylearn.grow.histograms.records_cpu import (
    NEWTON,
    NEWTON_BOUNDED,
    NONE,
    GrowthPlan,
    GrowthScratch,
    Newton,
    NodeSlots,
    RowOrder,
)
from arraylearn.grow.rows import Level, Rows
from arraylearn.grow.trees import Limits, Trees
from arraylearn.grow.trees_cpu import in_level_order

__all__ = ["Buffers", "grow_class_tree", "grow_newton_tree", "grow_tree", "make_buffers"]

# A job of more than this share of a thread's rows hands the children of its nodes back.
_SHARE_OF_A_JOB = 4
# Numbers of all tables of a thread: beyond that fewer are kept, and more is counted.
_MOST_CELLS = 1 << 24
_DEEPEST = 64
_SPARE_ROWS = 64


class Buffers(NamedTuple):
    """What grows trees of one size on one table: kept from tree to tree."""

    rows: RowOrder
    gathered: RowOrder  # the same rows after the slices, where there are several threads
    nodes: NodeSlots
    scratch: list[GrowthScratch]  # of each thread
    slices: Host  # (threads, cells) int64: tables of the slices


def make_buffers(bins: Host, n_rows: int, n_words: int, plan: GrowthPlan) -> Buffers:
    """Make buffers for trees of up to `n_rows` rows on columns (d, n)."""
    (d, n), n_bins = bins.shape, plan.n_bins
    bins = np.ascontiguousarray(bins)
    cells = np.empty((n, d), dtype=bins.dtype)
    # rows of a tree for two threads; each further one wants half as many
    least = get_tuning().growth_thread_cells // d
    parallel_map(lambda rows: rows_cpu.turn(bins, cells, *rows), even_portions(n, least))
    n_threads = min(free_threads(), 2 * n_rows // max(least, 1)) if n_rows >= least else 1
    n_cells = d * n_bins * n_words
    per_thread = max(2, min(_DEEPEST, _MOST_CELLS // n_cells))
    tables = np.empty((n_threads * per_thread, n_cells), dtype=np.int64)
    most = max(n_bins, plan.small) + _SPARE_ROWS
    flat = cells.reshape(-1)
    rows, gathered = (_make_rows(flat, bins, n_rows) for _ in range(2))
    slots = 2 * n_rows + 1
    nodes = NodeSlots(
        np.empty((records.SIZE + 1, slots), dtype=np.int32),
        np.empty(slots, dtype=np.float32),
        np.empty((slots, n_words), dtype=np.int64),
        np.empty((slots if plan.criterion == NEWTON_BOUNDED else 1, 2)),
        np.empty((slots if plan.n_numeric < d else 1, n_bins), dtype=np.uint8),
    )
    scratch = [_make_scratch(tables, t, per_thread, most, n_words, plan) for t in range(n_threads)]
    return Buffers(rows, gathered, nodes, scratch, np.empty((n_threads, n_cells), dtype=np.int64))


def _make_rows(cells: Host, bins: Host, n_rows: int) -> RowOrder:
    m = n_rows + _SPARE_ROWS
    order, spare = np.zeros((2, m), dtype=np.uint32)  # entries to spare are read, and must be rows
    carry, spare_carry = np.zeros((2, m), dtype=np.int64)
    return RowOrder(cells, bins, order, carry, spare, spare_carry)


def _make_scratch(
    tables: Host, thread: int, per_thread: int, most: int, n_words: int, plan: GrowthPlan
) -> GrowthScratch:
    scores = np.empty(most)
    stack, jobs, cuts = (
        np.empty((n, 6), np.int64) for n in (2 * _DEEPEST, 2 * _DEEPEST, 2 * plan.max_leaves)
    )
    return GrowthScratch(
        tables,
        np.roll(np.arange(tables.shape[0]), -thread * per_thread),
        np.full(1, per_thread, dtype=np.int64),
        stack,
        jobs,
        cuts,
        np.empty(cuts.shape[0]),
        scores,
        scores.view(np.int64),
        np.empty(most, dtype=np.int32),
        np.empty(most, dtype=np.int64),
        np.empty(most, dtype=np.float32),
        np.empty((2, plan.n_bins), dtype=np.uint8),
        np.empty(2, dtype=np.int64),
        np.empty((2, n_words), dtype=np.int64),
    )


def grow_tree(buffers: Buffers, plan: GrowthPlan, ids: Host, loads: Host, sums: Host) -> tuple[Trees, Host]:
    """Grow a tree on the rows `ids` (m,), of which each carries ``loads[id]``; `sums` (w,) are those of all.

    Return the tree and the row ids in the order of its nodes, which the next tree overwrites.
    """
    m, nodes = ids.shape[0], buffers.nodes
    _begin(nodes, 0, 0, m, sums)
    nodes.bounds[0] = -np.inf, np.inf
    n_threads = len(buffers.scratch)
    if n_threads == 1 or plan.max_leaves:
        rows_cpu.fill(buffers.rows, ids, loads, 0, m)
        root = np.asarray([0, 0, m, 0, NONE, 0])
        grow(buffers.rows, plan, nodes, buffers.scratch[0], root, 1 << 62, False)
        order = buffers.rows.order
    else:
        _grow_in_threads(buffers, plan, ids, loads)
        order = buffers.gathered.order
    return _as_trees(nodes, plan, 2 * m + 1), order[:m]


def grow_class_tree(
    rows: Rows, level: Level, bins: Host, n_bins: int, limits: Limits, criterion: Criterion
) -> Trees:
    """Grow a classification tree on all rows of bins (d, n): two classes as packed pairs, more as vectors.

    The limits are those of integer weights; of missing values there are none.
    """
    d, n = bins.shape
    c = rows.n_classes
    is_pair = c <= 2
    # where sorting the rows of a node begins to cost more than its table: measured at 3k to 100k rows
    small = 20 if is_pair else max(64, n_bins * c // 8)
    plan = GrowthPlan(
        criterion=criterion.number,
        n_bins=n_bins,
        n_numeric=d,
        max_depth=-1 if limits.max_depth is None else limits.max_depth,
        max_leaves=0,
        small=small,
        keeps_rows=False,
        has_missing=False,
        least_rows=2,
        least_weight=float(limits.min_samples_split),
        least_side=float(limits.min_samples_leaf),
        min_gain=limits.min_gain - 1e-12,
        newton=Newton(0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        is_used=np.ones(d, dtype=bool),
        use_missing=np.zeros(d, dtype=bool),
        logs=np.zeros(1, dtype=np.int64) if criterion.logs is None else criterion.logs,
        log_unit=criterion.unit,
        trend=np.zeros(d, dtype=np.int8),
    )
    loads, sums = _pack_classes(rows, level, is_pair)
    buffers = make_buffers(bins, n, sums.shape[0], plan)
    trees: Trees = grow_tree(buffers, plan, np.arange(n), loads, sums)[0]
    trees = trees._replace(default_branch=None)  # no value is missing: later ones follow the heavier child
    if is_pair:
        held = trees.sums & 0xFFFFFFFF
        trees = trees._replace(sums=np.concat(((trees.sums >> 32) - held, held), axis=1)[:, :c])
    return trees


def _pack_classes(rows: Rows, level: Level, is_pair: bool) -> tuple[Any, Any]:
    """Return what each row carries, and the sums of the root: weight and class, or a packed pair."""
    labels, counts = np.asarray(rows.labels, dtype=np.int64), level.counts[0]
    weights = 1 if level.weights is None else level.weights
    if not is_pair:
        return labels + (weights << 32), counts
    loads = labels * weights + (weights << 32)
    return loads, np.asarray([(counts.sum() << 32) + (counts[1] if counts.shape[0] == 2 else 0)])


def grow_newton_tree(
    columns: Columns,
    gradients: PackedGradients,
    rows: Any,
    limits: Limits,
    rule: NewtonRule,
    is_used: Any,
) -> NewtonTree:
    """Grow a tree of Newton steps: see `arraylearn.grow.histograms.newton_trees`."""
    (d, n), m = columns.bins.shape, rows.shape[0]
    shift = int(gradients.shift[0])
    ridge, least_side, smoothing = (float(x) for x in gradients.units[shift])
    unit = 2.0 ** (shift - GRADIENT_BITS)
    used = np.ones(d, dtype=bool) if is_used is None else is_used
    use_missing = np.zeros(d, dtype=bool)
    use_missing[list(columns.missing)] = True
    use_missing &= used
    plan = GrowthPlan(
        criterion=NEWTON if rule.trend is None else NEWTON_BOUNDED,
        n_bins=columns.n_bins,
        n_numeric=columns.n_numeric,
        max_depth=-1 if limits.max_depth is None else limits.max_depth,
        max_leaves=limits.max_leaf_nodes or 0,
        small=0,
        keeps_rows=True,
        has_missing=bool(use_missing.any()),
        least_rows=max(2, math.ceil(2 * limits.min_samples_leaf)),
        least_weight=2.0 * rule.min_child_hessian,
        least_side=least_side,
        min_gain=0.0,
        newton=Newton(
            unit=unit,
            ridge=ridge,
            smoothing=smoothing,
            l2=float(rule.l2),
            least_hessian=float(rule.min_child_hessian),
            least_leaf=float(limits.min_samples_leaf),
        ),
        is_used=used,
        use_missing=use_missing,
        logs=np.zeros(1, dtype=np.int64),
        log_unit=1.0,
        trend=np.asarray(rule.trend or np.zeros(d), dtype=np.int8),
    )
    buffers = columns.buffers.get((m, get_num_threads()), lambda: make_buffers(columns.bins, m, 1, plan))
    packed = gradients.packed
    total = packed.sum() if m == n else packed.take(rows).sum()
    nodes, order = grow_tree(buffers, plan, rows, packed, total)
    return NewtonTree(nodes, order, unit)


def _begin(nodes: NodeSlots, node: int, first: int, size: int, sums: Host) -> None:
    """Begin a node as a leaf."""
    nodes.ints[:, node] = NONE, NONE, NONE, NONE, 0, first, size
    nodes.gain[node], nodes.sums[node] = 0, sums


def _as_trees(nodes: NodeSlots, plan: GrowthPlan, n_slots: int) -> Trees:
    where, first_child, depth = in_level_order(nodes.ints[records.CHILD], n_slots)
    ints = nodes.ints.take(where, axis=1)
    return Trees(
        roots=np.zeros(1, dtype=np.int64),
        feature=ints[records.FEATURE],
        threshold=ints[records.LOW],
        high=ints[records.HIGH],
        first_child=first_child,
        depth=depth,
        gain=nodes.gain[where],
        sums=nodes.sums.take(where, axis=0),
        default_branch=ints[records.MISSING_RIGHT] > 0,
        rows=ints[records.START : records.SIZE + 1],
        bounds=nodes.bounds.take(where, axis=0) if plan.criterion == NEWTON_BOUNDED else None,
        sets=nodes.sets.take(where, axis=0) if plan.n_numeric < plan.is_used.shape[0] else None,
    )


# ---- threads


class _Sliced(NamedTuple):
    """A node whose rows lie in slices."""

    node: int
    first: int  # of its rows, once they are gathered
    depth: int
    table: int
    bounds: list[tuple[int, int]]  # of its rows in each slice

    @property
    def size(self) -> int:
        return sum(stop - first for first, stop in self.bounds)


def _grow_in_threads(buffers: Buffers, plan: GrowthPlan, ids: Host, loads: Host) -> None:
    m, n_threads, scratch = ids.shape[0], len(buffers.scratch), buffers.scratch[0]
    for t, own in enumerate(buffers.scratch):  # tables that were handed over are whose they were at first
        n_tables = own.tables.shape[0]
        own.n_free[0] = n_tables // n_threads
        own.free[:] = (np.arange(n_tables) + t * own.n_free[0]) % n_tables
    bounds = [(m * t // n_threads, m * (t + 1) // n_threads) for t in range(n_threads)]
    parallel_map(lambda slice_: rows_cpu.fill(buffers.rows, ids, loads, *slice_), bounds)
    table = _take_table(scratch)
    _count_slices(buffers, plan, NONE, bounds, False)
    rows_cpu.join(
        buffers.slices, scratch.tables[table], np.empty(0, dtype=np.int64), plan.n_bins, _is_pair(buffers)
    )
    large, jobs = [_Sliced(0, 0, 0, table, bounds)], []
    while large:
        node = large.pop()
        if node.size > m // n_threads and scratch.n_free[0] > 1:
            large += _split_sliced(buffers, plan, node)
        else:
            jobs.append(node)
    jobs.sort(key=lambda job: -job.size)
    most = m // (_SHARE_OF_A_JOB * n_threads)
    run_jobs([partial(_run_sliced, buffers, plan, job, most) for job in jobs], n_threads)


def _is_pair(buffers: Buffers) -> bool:
    return bool(buffers.nodes.sums.shape[1] == 1)


def _take_table(scratch: GrowthScratch) -> int:
    scratch.n_free[0] -= 1
    return int(scratch.free[scratch.n_free[0]])


def _count_slices(
    buffers: Buffers, plan: GrowthPlan, node: int, bounds: list[tuple[int, int]], counts_left: bool
) -> list[int]:
    """Divide the slices of a node, count those of one child; return how many rows of each go left."""

    def run(t: int) -> int:
        given = buffers.rows, plan, buffers.nodes, node, *bounds[t], counts_left, buffers.slices[t]
        return int(rows_cpu.advance(*given))

    return parallel_map(run, range(len(bounds)))


def _split_sliced(buffers: Buffers, plan: GrowthPlan, given: _Sliced) -> list[_Sliced]:
    """Split a node whose rows lie in slices; return its children, none if it stays a leaf."""
    nodes, scratch, (node, first, depth, table, bounds) = buffers.nodes, buffers.scratch[0], given
    job = np.asarray([node, first, first + given.size, depth, table, 0])
    if not grow(buffers.rows, plan, nodes, scratch, job, 0, True):
        _gather(buffers, given)
        scratch.free[scratch.n_free[0]] = table
        scratch.n_free[0] += 1
        return []
    left = scratch.side[1].copy()
    right = nodes.sums[node] - left
    counts_left = bool(left.sum() < right.sum())
    n_left = _count_slices(buffers, plan, node, bounds, counts_left)
    small = _take_table(scratch)
    tables = scratch.tables
    rows_cpu.join(buffers.slices, tables[small], tables[table], plan.n_bins, _is_pair(buffers))
    middle = first + sum(n_left)
    child = 2 * middle - 1
    nodes.ints[records.CHILD, node] = child
    both = []
    for side, (own, begin, sums) in enumerate(((child, first, left), (child + 1, middle, right))):
        halves = [(a + n, b) if side else (a, a + n) for (a, b), n in zip(bounds, n_left, strict=True)]
        own_table = small if counts_left == (side == 0) else table
        both.append(_Sliced(own, begin, depth + 1, own_table, halves))
        _begin(nodes, own, begin, both[-1].size, sums)
    if plan.criterion == NEWTON_BOUNDED:
        pass_bounds(plan, nodes, node, child)
    return both


def _gather(buffers: Buffers, given: _Sliced) -> None:
    """Put the rows of a node side by side."""
    at = given.first
    for begin, end in given.bounds:
        target = slice(at, at + end - begin)
        buffers.gathered.order[target] = buffers.rows.order[begin:end]
        buffers.gathered.carry[target] = buffers.rows.carry[begin:end]
        at += end - begin


def _run_sliced(buffers: Buffers, plan: GrowthPlan, given: _Sliced, most: int, thread: int) -> list[Any]:
    _gather(buffers, given)
    job = np.asarray([given.node, given.first, given.first + given.size, given.depth, given.table, 0])
    return _run_job(buffers, plan, job, most, thread)


def _run_job(buffers: Buffers, plan: GrowthPlan, job: Host, most: int, thread: int) -> list[Any]:
    """Grow what is below a node; return the jobs that follow."""
    scratch = buffers.scratch[thread]
    n_jobs = grow(buffers.gathered, plan, buffers.nodes, scratch, job, most, False)
    return [partial(_run_job, buffers, plan, row.copy(), most) for row in scratch.jobs[:n_jobs]]
