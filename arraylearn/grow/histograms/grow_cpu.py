"""Compiled growth: single and boosted trees on histograms of all columns, and trees on drawn columns.

A tree grows depth first, the smaller child first, so that its rows stay in the cache and few tables are in
use. `loop_cpu` has the steps for one node, `slices_cpu` the work of several threads.
"""

from __future__ import annotations

import math

import numpy as np

from arraylearn.backend.cpu.jit import Host, Int, entry
from arraylearn.backend.threads import get_num_threads, parallel_map
from arraylearn.grow.branches.nominal import MOST_TRIED
from arraylearn.grow.criteria import NO_LOGS
from arraylearn.grow.drawn_columns.drawn_cut_cpu import find_drawn_cut
from arraylearn.grow.formulas import GINI, GRADIENT_BITS
from arraylearn.grow.histograms.best_cut_cpu import find_newton_cut, find_pair_cut, judge, may_split
from arraylearn.grow.histograms.buffers_cpu import make_buffers, read_tree
from arraylearn.grow.histograms.class_cut_cpu import find_class_cut
from arraylearn.grow.histograms.loop_cpu import (
    begin_leaf,
    split_node,
    take_best,
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
    REFUSED,
    SEED,
    SIZE,
    START,
    STOP,
    TABLE,
    TASK,
    TREE,
    UNLIMITED,
    Buffers,
    CutSearch,
    DrawnColumns,
    GrowthPlan,
    GrowthScratch,
    Newton,
    NodeSlots,
    RowOrder,
)
from arraylearn.grow.histograms.rows_cpu import free_table
from arraylearn.grow.histograms.slices_cpu import Job, grow_in_slices
from arraylearn.grow.rows import Level, Rows
from arraylearn.grow.split import SplitRule
from arraylearn.grow.trees import Limits, Trees
from arraylearn.grow.trees_cpu import number_nodes
from arraylearn.table import MISSING_CODE

__all__ = ["grow_class_tree", "grow_newton_tree", "grow_tree"]

# With several threads, nodes of more than this share of a thread's rows return their children as new jobs.
_SHARE_OF_A_JOB = 4
_ANY_SIZE = 1 << 62


def grow_tree(
    buffers: Buffers, plan: GrowthPlan, search: CutSearch, ids: Host, loads: Host, sums: Host, seed: int = 0
) -> tuple[int, Host]:
    """Grow a tree on the rows `ids` (m,); `sums` (w,) are those of all.

    Each row carries ``loads[id]``, or if there are as many loads as ids, the load of the same position.
    Return the number of its nodes, for `read_tree`, and the row ids in their order, which the next tree
    overwrites.
    """
    m, nodes, n_threads = ids.shape[0], buffers.nodes, len(buffers.scratch)
    nodes.sums[0], nodes.bounds[0] = sums, (-np.inf, np.inf)
    nodes.gain[0], nodes.ints[0] = 0, (NONE, NONE, NONE, NONE, 0, 0, m)

    def run(rows: RowOrder, plan: GrowthPlan, scratch: GrowthScratch, job: Job, task: int) -> int:
        scratch.job[:TASK], scratch.job[TASK] = job, task
        own = search
        if search.newton is None and search.drawn is None:
            own = CutSearch(pairs=scratch.scores) if scratch.here is None else CutSearch(vectors=scratch.here)
        return int(_grow(rows, plan, nodes, scratch, *own))

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


def _lay_out(rows: RowOrder, ids: Host, loads: Host, first: int, stop: int) -> None:
    """Write some positions of the initial order: row ids and their loads."""
    own = ids[first:stop]
    rows.order[first:stop] = own
    if ids.shape == loads.shape:
        rows.carry[first:stop] = loads[first:stop]
    else:
        loads.take(own, out=rows.carry[first:stop], mode="clip")


def grow_class_tree(
    rows: Rows, level: Level, bins: Host, n_bins: int, limits: Limits, rule: SplitRule
) -> Trees:
    """Grow a classification tree on all rows of bins (d, n): two classes as packed pairs, more as vectors.

    The limits are those of integer weights. The side of missing values, in the last bin, is learned.
    """
    last_number, n_numeric = n_bins - 1, bins.shape[0]
    bins, n_bins = _join_columns(rows, bins, n_bins)
    (d, n), c, criterion = bins.shape, rows.n_classes, rule.exact
    assert criterion is not None
    use_missing = np.zeros(d, dtype=bool)
    if rows.has_missing_numbers or rows.has_missing_codes:
        use_missing = bins.max(axis=1) == n_bins - 1
    is_pair, logs = c <= 2, None
    if criterion.number != GINI:
        logs = NO_LOGS if criterion.logs is None else criterion.logs
    # rows of a node from which on counting a table is faster than sorting: measured with 3k to 100k rows
    small = 20 if is_pair else max(64, n_bins * c // 8)
    plan = GrowthPlan(
        criterion=criterion.number,
        n_bins=n_bins,
        n_numeric=n_numeric,
        max_depth=UNLIMITED if limits.max_depth is None else limits.max_depth,
        max_leaves=0,
        small=small,
        keeps_rows=False,
        has_missing=bool(use_missing.any()),
        least_rows=2,
        least_weight=float(limits.min_samples_split),
        least_side=float(limits.min_samples_leaf),
        min_gain=limits.min_gain - 1e-12,
        largest=_ANY_SIZE,
        nominal=None if n_numeric == d else np.arange(d),
        sequence=np.argsort(np.asarray(rows.column_order), stable=True),
        is_used=np.ones(d, dtype=bool),
        tries_sets=np.asarray([False] * n_numeric + [k <= MOST_TRIED for k in rows.n_values]),
        use_missing=use_missing,
        logs=logs,
        has_trend=rule.trend is not None,
        trend=np.asarray(rule.trend or np.zeros(d), dtype=np.int8),
    )
    loads, sums = _pack_classes(rows, level, is_pair)
    buffers = make_buffers(bins, n, sums.shape[0], plan)
    n_nodes, _ = grow_tree(buffers, plan, CutSearch(), np.arange(n), loads, sums)
    trees = read_tree(buffers.nodes, plan, n_nodes)
    if n_numeric < d:  # nominal nodes have no thresholds
        at, high = (np.where(trees.feature < n_numeric, part, 0) for part in (trees.threshold, trees.high))
        trees = trees._replace(threshold=at, high=np.where(high == n_bins - 1, last_number, high))
    if is_pair:
        held = trees.sums & 0xFFFFFFFF
        trees = trees._replace(sums=np.concat(((trees.sums >> 32) - held, held), axis=1)[:, :c])
    return trees


def _join_columns(rows: Rows, bins: Host, n_bins: int) -> tuple[Host, int]:
    """Return the bins of numeric columns and the codes of nominal ones together, and the number of bins."""
    if not rows.n_values:
        return bins, n_bins
    last = max(n_bins - 1, *rows.n_values)
    table = np.empty(
        (bins.shape[0] + len(rows.n_values), rows.n_rows), dtype=np.uint8 if last < 256 else np.int16
    )
    numeric, nominal = table[: bins.shape[0]], table[bins.shape[0] :]
    numeric[:], nominal[:] = bins, rows.codes
    numeric[bins == n_bins - 1], nominal[rows.codes == MISSING_CODE] = last, last
    return table, last + 1


def _pack_classes(rows: Rows, level: Level, is_pair: bool) -> tuple[Host, Host]:
    """Return the load of each row (weight and class, or a packed pair), and the sums of the root."""
    labels, counts = np.asarray(rows.labels, dtype=np.int64), level.counts[0]
    weights = 1 if level.weights is None else level.weights
    if not is_pair:
        return labels + (weights << 32), counts
    loads = labels * weights + (weights << 32)
    return loads, np.asarray([(counts.sum() << 32) + (counts[1] if counts.shape[0] == 2 else 0)])


def grow_newton_tree(
    columns: Columns,
    gradients: PackedGradients,
    rows: Host,
    limits: Limits,
    rule: NewtonRule,
    is_used: Host | None,
) -> NewtonTree:
    """Grow a tree of Newton steps: see `arraylearn.grow.histograms.newton_trees`."""
    (d, n), m = columns.bins.shape, rows.shape[0]
    shift = int(gradients.shift[0])
    ridge, least_side, smoothing, price = (float(x) for x in gradients.units[shift])
    unit = 2.0 ** (shift - GRADIENT_BITS)
    used = np.ones(d, dtype=bool) if is_used is None else is_used
    use_missing = np.zeros(d, dtype=bool)
    use_missing[list(columns.missing)] = True
    use_missing &= used
    plan = GrowthPlan(
        criterion=NEWTON if rule.trend is None else NEWTON_BOUNDED,
        n_bins=columns.n_bins,
        n_numeric=columns.n_numeric,
        max_depth=UNLIMITED if limits.max_depth is None else limits.max_depth,
        max_leaves=limits.max_leaf_nodes or 0,
        small=0,
        keeps_rows=True,
        has_missing=bool(use_missing.any()),
        least_rows=max(2, math.ceil(2 * limits.min_samples_leaf)),
        least_weight=2.0 * rule.min_child_hessian,
        least_side=least_side,
        min_gain=0.0,
        largest=_ANY_SIZE,
        nominal=None if columns.n_numeric == d else np.arange(d),
        sequence=np.arange(d),
        is_used=used,
        tries_sets=np.zeros(d, dtype=bool),
        use_missing=use_missing,
        logs=None,
        has_trend=rule.trend is not None,
        trend=np.asarray(rule.trend or np.zeros(d), dtype=np.int8),
    )
    newton = Newton(
        unit=unit,
        ridge=ridge,
        smoothing=smoothing,
        price=price,
        l2=float(rule.l2),
        least_hessian=float(rule.min_child_hessian),
        least_leaf=float(limits.min_samples_leaf),
    )
    buffers = columns.buffers.get((m, get_num_threads()), lambda: make_buffers(columns.bins, m, 1, plan))
    packed = gradients.packed
    total = packed.sum() if m == n else packed.take(rows).sum()
    n_nodes, order = grow_tree(buffers, plan, CutSearch(newton), rows, packed, total)
    return NewtonTree(read_tree(buffers.nodes, plan, n_nodes), order, unit)


# ---- the loop


@entry
def _grow(
    rows: RowOrder,
    plan: GrowthPlan,
    nodes: NodeSlots,
    scratch: GrowthScratch,
    newton: Newton | None,
    drawn: DrawnColumns | None,
    pairs: Host | None,
    vectors: Host | None,
) -> Int:
    """Do the task of ``scratch.job``; return the number of new jobs, or the number of nodes.

    Code after ``if argument is not None`` is compiled only if the argument is not None: see `CutSearch`.

    The task CUT only searches: the cut is written to the node, the sums of its left side to ``side[1]``, rows
    are not moved, and 1 is returned if there is a cut.
    """
    job, stack, cuts, cut_gains = scratch.job, scratch.stack, scratch.cuts, scratch.cut_gains
    heights, free, n_free, side = scratch.heights, scratch.free, scratch.n_free, scratch.side
    ints, here = nodes.ints, scratch.here
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
                feature, low, high, gain, goes_right = find_drawn_cut(
                    rows, plan, nodes, scratch, drawn, plan.logs, here
                )
            if newton is not None:
                feature, low, high, gain, goes_right = find_newton_cut(
                    rows, plan, nodes, scratch, newton, plan.nominal
                )
            if pairs is not None:
                feature, low, high, gain, goes_right = find_pair_cut(
                    rows, plan, nodes, scratch, newton, plan.logs, plan.nominal, np.int64(0)
                )
            if vectors is not None:
                found = find_class_cut(rows, plan, nodes, scratch, plan.logs, vectors, plan.nominal)
                feature, low, high, gain, goes_right = found
            gained = REFUSED
            if low != NONE:
                gained = judge(plan, nodes, newton, job, feature, side[1, 0], gain)
            if task == CUT and gained == REFUSED:
                return np.int64(0)
            if gained == REFUSED:
                free_table(free, n_free, job[TABLE])
                continue
            node = job[NODE]
            ints[node, FEATURE], ints[node, LOW], ints[node, HIGH] = feature, low, high
            ints[node, MISSING_RIGHT], nodes.gain[node] = goes_right, gain
            if task == CUT:
                return np.int64(1)
            if plan.max_leaves > 0:
                if n_free[0] == 0:  # at least one table must be free
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
        split_node(rows, plan, nodes, scratch, newton, drawn, here, scratch.tables)
    for i in range(n_cuts):  # nodes whose cut was not made are leaves
        if cut_gains[i] > 0:
            node = cuts[i, NODE]
            begin_leaf(ints, nodes.gain, node, ints[node, START], ints[node, SIZE])
            free_table(free, n_free, cuts[i, TABLE])
    return heights[1] if task < TREE else number_nodes(1, ints[:, CHILD], nodes.places)
