"""Trees grown in compiled loops: single and boosted ones on histograms of all columns, those of forests.

A tree grows depth first, the smaller child first: its rows stay in the cache, and few tables are in use. See
`loop_cpu` for what happens to a node, `slices_cpu` for several threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import Host, Int, entry
from arraylearn.backend.dispatch import get_tuning
from arraylearn.backend.threads import even_portions, free_threads, get_num_threads, parallel_map
from arraylearn.grow.criteria import Criterion
from arraylearn.grow.drawn_columns.drawn_cut_cpu import find_drawn_cut
from arraylearn.grow.formulas import GINI, GRADIENT_BITS
from arraylearn.grow.histograms.best_cut_cpu import find_newton_cut, find_pair_cut, judge, may_split
from arraylearn.grow.histograms.class_cut_cpu import find_class_cut
from arraylearn.grow.histograms.loop_cpu import (
    begin_leaf,
    free_table,
    split_node,
    take_best,
    take_table,
    write_job,
)
from arraylearn.grow.histograms.newton_trees import Columns, NewtonRule, NewtonTree, PackedGradients
from arraylearn.grow.histograms.records_cpu import (
    CHILD,
    CUT,
    DEPTH,
    FEATURE,
    FIRST,
    GROW,
    HIGH,
    LEFT,
    LOW,
    MISSING_RIGHT,
    NEWTON,
    NEWTON_BOUNDED,
    NODE,
    NONE,
    NUMBER,
    SEED,
    SIZE,
    START,
    STOP,
    TABLE,
    TASK,
    TREE,
    Buffers,
    CutSearch,
    DrawnColumns,
    GrowthPlan,
    GrowthScratch,
    Newton,
    NodeSlots,
    RowOrder,
)
from arraylearn.grow.histograms.rows_cpu import count
from arraylearn.grow.histograms.slices_cpu import grow_in_slices
from arraylearn.grow.rows import Level, Rows
from arraylearn.grow.trees import Limits, Trees
from arraylearn.grow.trees_cpu import number_nodes

__all__ = [
    "Buffers",
    "grow_class_tree",
    "grow_newton_tree",
    "grow_tree",
    "make_buffers",
    "make_nodes",
    "make_rows",
    "make_scratch",
    "read_tree",
]

# Numbers of all tables of a thread: beyond that fewer are kept, and more is counted.
_MOST_CELLS = 1 << 24
_DEEPEST = 64
# A job of more than this share of a thread's rows hands the children of its nodes back.
_SHARE_OF_A_JOB = 4
_SPARE_ROWS = 64
_ANY_SIZE = 1 << 62
# Rows that are turned at once.
_TURNED = 128


def make_buffers(bins: Host, n_rows: int, n_words: int, plan: GrowthPlan) -> Buffers:
    """Make buffers for trees of up to `n_rows` rows on columns (d, n)."""
    (d, n), n_bins = bins.shape, plan.n_bins
    bins = np.ascontiguousarray(bins)
    cells = np.empty((n, d), dtype=bins.dtype)
    # rows of a tree for two threads; each further one wants half as many
    least = get_tuning().growth_thread_cells // d
    parallel_map(lambda rows: _turn(bins, cells, *rows), even_portions(n, least))
    n_threads = min(free_threads(), 2 * n_rows // max(least, 1)) if n_rows >= least else 1
    n_cells = d * n_bins * n_words
    per_thread = max(2, min(_DEEPEST, _MOST_CELLS // n_cells))
    tables = np.empty((n_threads * per_thread, n_cells), dtype=np.int64)
    most = max(n_bins, plan.small) + _SPARE_ROWS
    flat = cells.reshape(-1)
    rows, gathered = (make_rows(flat, bins, n_rows) for _ in range(2))
    nodes = make_nodes(n_rows, n_words, plan)
    scratch = [make_scratch(tables, t, per_thread, most, n_words, plan) for t in range(n_threads)]
    return Buffers(rows, gathered, nodes, scratch, np.empty((n_threads, n_cells), dtype=np.int64))


def make_nodes(n_rows: int, n_words: int, plan: GrowthPlan) -> NodeSlots:
    """Make slots for the nodes of a tree."""
    slots = 2 * n_rows + 1
    return NodeSlots(
        np.empty((slots, SIZE + 1), dtype=np.int32),
        np.empty(slots, dtype=np.float32),
        np.empty((slots, n_words), dtype=np.int64),
        np.empty((slots if plan.criterion == NEWTON_BOUNDED else 1, 2)),
        np.empty((slots if plan.n_numeric < plan.is_used.shape[0] else 1, plan.n_bins), dtype=np.uint8),
        np.empty((5, slots), dtype=np.int32),
    )


def make_rows(cells: Host, bins: Host, n_rows: int) -> RowOrder:
    """Make the order of up to `n_rows` rows; `cells` and `bins` hold the same."""
    m = n_rows + _SPARE_ROWS
    order, spare = np.zeros((2, m), dtype=np.uint32)  # entries to spare are read, and must be rows
    carry, spare_carry = np.zeros((2, m), dtype=np.int64)
    return RowOrder(cells, bins, order, carry, spare, spare_carry)


def make_scratch(
    tables: Host, thread: int, per_thread: int, most: int, n_words: int, plan: GrowthPlan
) -> GrowthScratch:
    """Make the buffers of a thread: so many tables are its own, and up to `most` cuts are scored at once."""
    scores = np.empty(most)
    stack, jobs, cuts = (
        np.empty((n, LEFT + 1), np.int64) for n in (2 * _DEEPEST, 2 * _DEEPEST, 2 * plan.max_leaves)
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
        np.empty(TASK + 1, dtype=np.int64),
        np.empty((2, n_words), dtype=np.int64),
        np.empty(2, dtype=np.bool_),
        np.empty(2, dtype=np.int64),
        None if n_words == 1 else np.empty(n_words, dtype=np.int64),
    )


def grow_tree(
    buffers: Buffers, plan: GrowthPlan, search: CutSearch, ids: Host, loads: Host, sums: Host, seed: int = 0
) -> tuple[int, Host]:
    """Grow a tree on the rows `ids` (m,); `sums` (w,) are those of all.

    Each row carries ``loads[id]``; where there are as many loads as rows, they are in the order of `ids`.
    Return the number of its nodes, for `read_tree`, and the row ids in their order; the next tree overwrites both.
    """
    m, nodes, n_threads = ids.shape[0], buffers.nodes, len(buffers.scratch)
    nodes.sums[0], nodes.bounds[0] = sums, (-np.inf, np.inf)
    nodes.gain[0], nodes.ints[0] = 0, (NONE, NONE, NONE, NONE, 0, 0, m)

    def run(rows: RowOrder, plan: GrowthPlan, scratch: GrowthScratch, job: Any, task: int) -> int:
        scratch.job[:TASK], scratch.job[TASK] = job, task
        tables = scratch.tables if search.drawn is None else None
        pairs = tables if search.newton is None and scratch.here is None else None
        return int(_grow(rows, plan, nodes, scratch, *search, scratch.here, tables, pairs))

    rows, order = buffers.rows, buffers.rows.order
    if n_threads == 1:
        _lay_out(rows, ids, loads, 0, m)
    else:
        portions = [(m * t // n_threads, m * (t + 1) // n_threads) for t in range(n_threads)]
        parallel_map(lambda part: _lay_out(rows, ids, loads, *part), portions)
    if n_threads == 1 or plan.max_leaves:
        n_nodes = run(rows, plan, buffers.scratch[0], (0, 0, m, 0, NONE, seed, 0), TREE)
    else:
        order, plan = buffers.gathered.order, plan._replace(largest=m // (_SHARE_OF_A_JOB * n_threads))
        n_nodes = grow_in_slices(buffers, plan, search.newton, m, run)
    return n_nodes, order[:m]


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
        bounds=nodes.bounds.take(where, axis=0) if plan.criterion == NEWTON_BOUNDED else None,
        sets=nodes.sets.take(where, axis=0) if plan.n_numeric < plan.is_used.shape[0] else None,
    )


def _lay_out(rows: RowOrder, ids: Host, loads: Host, first: int, stop: int) -> None:
    """Begin with the rows `ids` and what they carry, at some positions."""
    own = ids[first:stop]
    rows.order[first:stop] = own
    if ids.shape == loads.shape:
        rows.carry[first:stop] = loads[first:stop]
    else:
        loads.take(own, out=rows.carry[first:stop], mode="clip")


def grow_class_tree(
    rows: Rows, level: Level, bins: Host, n_bins: int, limits: Limits, criterion: Criterion
) -> Trees:
    """Grow a classification tree on all rows of bins (d, n): two classes as packed pairs, more as vectors.

    The limits are those of integer weights. The side of missing values, in the last bin, is learned.
    """
    (d, n), c = bins.shape, rows.n_classes
    use_missing = np.zeros(d, dtype=bool)
    if rows.has_missing_numbers:
        use_missing = bins.max(axis=1) == n_bins - 1
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
        has_missing=bool(use_missing.any()),
        least_rows=2,
        least_weight=float(limits.min_samples_split),
        least_side=float(limits.min_samples_leaf),
        min_gain=limits.min_gain - 1e-12,
        largest=_ANY_SIZE,
        is_used=np.ones(d, dtype=bool),
        use_missing=use_missing,
        log_unit=criterion.unit,
        trend=np.zeros(d, dtype=np.int8),
    )
    loads, sums = _pack_classes(rows, level, is_pair)
    buffers = make_buffers(bins, n, sums.shape[0], plan)
    logs = None
    if criterion.number != GINI:
        logs = np.zeros(1, dtype=np.int64) if criterion.logs is None else criterion.logs
    n_nodes, _ = grow_tree(buffers, plan, CutSearch(None, logs, None), np.arange(n), loads, sums)
    trees = read_tree(buffers.nodes, plan, n_nodes)
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
        largest=_ANY_SIZE,
        is_used=used,
        use_missing=use_missing,
        log_unit=1.0,
        trend=np.asarray(rule.trend or np.zeros(d), dtype=np.int8),
    )
    newton = Newton(
        unit=unit,
        ridge=ridge,
        smoothing=smoothing,
        l2=float(rule.l2),
        least_hessian=float(rule.min_child_hessian),
        least_leaf=float(limits.min_samples_leaf),
    )
    buffers = columns.buffers.get((m, get_num_threads()), lambda: make_buffers(columns.bins, m, 1, plan))
    packed = gradients.packed
    total = packed.sum() if m == n else packed.take(rows).sum()
    n_nodes, order = grow_tree(buffers, plan, CutSearch(newton, None, None), rows, packed, total)
    return NewtonTree(read_tree(buffers.nodes, plan, n_nodes), order, unit)


# ---- the loop


@entry
def _turn(bins: Host, cells: Host, first: Int, stop: Int) -> None:
    """Write the bins (d, n) of some rows side by side; what is turned at once stays in the cache."""
    for start in range(first, stop, _TURNED):
        end = start + _TURNED if start + _TURNED < stop else stop
        for j in range(bins.shape[0]):
            for row in range(start, end):
                cells[row, j] = bins[j, row]


@entry
def _grow(
    rows: RowOrder,
    plan: GrowthPlan,
    nodes: NodeSlots,
    scratch: GrowthScratch,
    newton: Newton | None,
    logs: Host | None,
    drawn: DrawnColumns | None,
    here: Host | None,
    tables: Host | None,
    pairs: Host | None,
) -> Int:
    """Do the task of the job; return how many jobs are handed back, or the number of nodes.

    What is None leaves out the code that it guards, by "is not None" alone: `tables` are those of `scratch` if
    columns are not drawn, `pairs` the same if cuts are searched by pairs of class weights.

    With CUT the node gets its cut, its left sums stay in ``side[1]``, its rows stay where they are, and 1 is
    returned if it has one.
    """
    job, stack, cuts, cut_gains = scratch.job, scratch.stack, scratch.cuts, scratch.cut_gains
    heights, free, n_free, side = scratch.heights, scratch.free, scratch.n_free, scratch.side
    ints = nodes.ints
    task, n_cuts, n_leaves = job[TASK], np.int64(0), np.int64(1)
    is_growing = task != NUMBER
    heights[0], heights[1] = 0, 0
    if is_growing and may_split(
        plan, newton, here, nodes.sums[job[NODE]], job[STOP] - job[FIRST], job[DEPTH]
    ):
        write_job(stack[0], job[NODE], job[FIRST], job[STOP], job[DEPTH], job[TABLE], job[SEED])
        heights[0] = 1
    elif task == GROW:
        free_table(free, n_free, job[TABLE])
    while is_growing:
        if heights[0] > 0:
            heights[0] -= 1
            for i in range(LEFT):
                job[i] = stack[heights[0], i]
            if drawn is not None:
                feature, low, high, gain, goes_right = find_drawn_cut(rows, plan, nodes, scratch, drawn, here)
            if tables is not None:
                if job[TABLE] == NONE and job[STOP] - job[FIRST] > plan.small:
                    job[TABLE] = take_table(free, n_free)
                    count(rows, plan, job[FIRST], job[STOP], tables[job[TABLE]], here)
                if here is not None:
                    found = find_class_cut(rows, plan, nodes, scratch, logs, here)
                    feature, low, high, gain, goes_right = found
            if newton is not None:
                feature, low, high, gain, goes_right = find_newton_cut(rows, plan, nodes, scratch, newton)
            if pairs is not None:
                feature, low, high, gain, goes_right = find_pair_cut(
                    rows, plan, nodes, scratch, newton, logs, False, False
                )
            gained = -1.0
            if low != NONE:
                gained = judge(plan, nodes, newton, job, feature, side[1, 0], gain)
            if task == CUT and gained < 0:
                return np.int64(0)
            if gained < 0:
                free_table(free, n_free, job[TABLE])
                continue
            node = job[NODE]
            ints[node, FEATURE], ints[node, LOW], ints[node, HIGH] = feature, low, high
            ints[node, MISSING_RIGHT], nodes.gain[node] = goes_right, gain
            if task == CUT:
                return np.int64(1)
            if plan.max_leaves > 0:
                if n_free[0] == 0:  # one must be left
                    free_table(free, n_free, job[TABLE])
                    job[TABLE] = NONE
                job[LEFT], cut_gains[n_cuts] = side[1, 0], gained
                for i in range(LEFT + 1):
                    cuts[n_cuts, i] = job[i]
                n_cuts += 1
                continue
        else:
            is_growing = n_leaves < plan.max_leaves and take_best(cuts, cut_gains, n_cuts, job)
            if not is_growing:
                break
            side[1, 0] = job[LEFT]
            n_leaves += 1
        split_node(rows, plan, nodes, scratch, newton, drawn, here, tables)
    for i in range(n_cuts):  # those that were not chosen are leaves
        if cut_gains[i] > 0:
            node = cuts[i, NODE]
            begin_leaf(ints, nodes.gain, node, ints[node, START], ints[node, SIZE])
            free_table(free, n_free, cuts[i, TABLE])
    return heights[1] if task < TREE else number_nodes(1, ints[:, CHILD], nodes.places)
