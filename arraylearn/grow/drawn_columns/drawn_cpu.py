"""Trees whose nodes consider drawn columns, in compiled loops: the CPU body of `drawn.grow_trees`."""

from __future__ import annotations

import math

import numpy as np

from arraylearn.backend.cpu.jit import Host
from arraylearn.backend.namespace import HOST, Place
from arraylearn.grow.criteria import NO_LOGS, make_criterion
from arraylearn.grow.drawn_columns.drawn import Bags, DrawnPlan, least_rows_of_groups, sum_classes, with_gains
from arraylearn.grow.drawn_columns.drawn_cut_cpu import DIGITS, HEAVIEST, LANES, TOGETHER
from arraylearn.grow.formulas import GINI, MOST_GROUPS
from arraylearn.grow.histograms.buffers_cpu import make_nodes, make_rows, make_scratch
from arraylearn.grow.histograms.grow_cpu import grow_tree
from arraylearn.grow.histograms.records_cpu import (
    LOW,
    LOWER,
    UNLIMITED,
    Buffers,
    CutSearch,
    DrawnColumns,
    GrowthPlan,
)
from arraylearn.grow.split import SplitRule
from arraylearn.grow.trees import LEAF, Trees

__all__ = ["grow_trees"]

# As a number of rows in the plan: no node is so large that it gets a table, or goes to another thread.
_ANY_SIZE = 1 << 62


def grow_trees(place: Place, bins: Host, codes: Host, bags: Bags, plan: DrawnPlan) -> Trees:
    """Grow one tree per bag on `bins` (d, n), whose transpose is contiguous: see `drawn.grow_trees`."""
    (d, _), most, is_pair = bins.shape, int(bags.sizes.max()), plan.n_classes <= 2
    codes, roots = codes[bags.rows], sum_classes(codes, bags, plan.n_classes)
    weight = int(np.max(np.sum(roots, axis=1)))
    loads = (codes * bags.weights if is_pair else codes) + (bags.weights << 32)
    if is_pair:
        roots = (np.sum(roots, axis=1, keepdims=True) << 32) + roots[:, -1:]
    growth, n_words = _make_growth_plan(d, plan, weight), roots.shape[1]
    cells = np.ascontiguousarray(bins.T, dtype=np.int16)
    rows = make_rows(cells.reshape(-1), cells.T, most)
    scratch = make_scratch(None, 0, 1, 1, n_words, growth)
    nodes = make_nodes(most, n_words, growth)
    buffers = Buffers(rows, rows, nodes, [scratch], None)
    search = CutSearch(drawn=_make_drawn(d, most, scratch.side[1], plan))
    parts, start, first = [], 0, 0
    for size, seed, root in zip(bags.sizes.tolist(), bags.seeds.view(np.int64), roots, strict=True):
        own = slice(start, start + size)
        n_nodes, _ = grow_tree(buffers, growth, search, bags.rows[own], loads[own], root, int(seed))
        where, child, depth = nodes.places[:3, :n_nodes].copy()
        child[child != LEAF] += first
        feature, cut = nodes.ints[:, : LOW + 1].take(where, axis=0).T
        parts.append((feature, cut, child, depth, nodes.sums.take(where, axis=0)))
        start, first = start + size, first + n_nodes
    feature, cut, child, depth, sums = (np.concatenate(column) for column in zip(*parts, strict=True))
    if is_pair:
        second = sums & LOWER
        sums = np.concatenate(((sums >> 32) - second, second), axis=1)[:, -plan.n_classes :]
    roots = np.nonzero(depth == 0)[0]
    return with_gains(Trees(roots, feature, cut, child, depth, sums=sums), SplitRule(plan.criterion))


def _make_growth_plan(d: int, plan: DrawnPlan, weight: int) -> GrowthPlan:
    limits, criterion = plan.limits, make_criterion(HOST, plan.criterion, weight)
    assert criterion is not None
    return GrowthPlan(
        criterion=criterion.number,
        n_bins=plan.n_bins,
        n_numeric=d,
        max_depth=UNLIMITED if limits.max_depth is None else limits.max_depth,
        max_leaves=0,
        small=_ANY_SIZE,
        keeps_rows=False,
        has_missing=False,
        least_rows=math.ceil(max(limits.least_rows, 2 * limits.side_rows)),
        least_weight=float(max(limits.min_samples_split, 2 * limits.min_samples_leaf)),
        least_side=0.0,
        min_gain=-np.inf,
        largest=_ANY_SIZE,
        nominal=None,
        sequence=np.arange(d),
        is_used=np.ones(d, dtype=bool),
        tries_sets=np.zeros(d, dtype=bool),
        use_missing=np.zeros(d, dtype=bool),
        logs=None if criterion.number == GINI else criterion.logs or NO_LOGS,
        has_trend=False,
        trend=np.zeros(d, dtype=np.int8),
    )


def _make_drawn(d: int, m: int, left: Host, plan: DrawnPlan) -> DrawnColumns:
    n_groups, s = max(plan.n_bins, MOST_GROUPS), min(m, HEAVIEST) + LANES
    scores = np.empty(max(s, n_groups), dtype=np.float32)
    return DrawnColumns(
        np.ascontiguousarray(plan.columns, dtype=np.int32),
        np.arange(d, dtype=np.int32)[None, :],
        np.ascontiguousarray(() if plan.positions is None else plan.positions, dtype=np.int64),
        least_rows_of_groups(plan.n_classes),
        float(min(int(plan.limits.min_samples_leaf), (1 << 31) - 1)),
        int(plan.limits.side_rows),
        left,
        np.empty((TOGETHER, m + LANES), dtype=np.int32),
        np.empty((6, s), dtype=np.int32),
        np.empty((3, n_groups), dtype=np.int64),
        scores,
        scores.view(np.int32),
        np.empty((2, DIGITS), dtype=np.int32),
        np.empty(n_groups * (left.shape[0] + 1), dtype=np.int64),
    )
