"""All that is below a level grown at once by a compiled body, where one serves."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.compiling import is_worth_compiling
from arraylearn.backend.namespace import HOST, Place, from_host, to_host
from arraylearn.grow.builder import Limits
from arraylearn.grow.criteria import MOST_COUNTED
from arraylearn.grow.histograms.choose import choose_body
from arraylearn.grow.rows import Level, Rows, take_flat
from arraylearn.grow.sorted_lists.lists import MOST_ROWS, MOST_WEIGHT, SortedRows
from arraylearn.grow.split import SLACK, SplitRule, is_gini, midpoint
from arraylearn.grow.trees import GrowthLimits, Trees

__all__ = ["Rest", "choose_bins_body", "choose_lists_body", "finish_bins", "finish_lists"]


# Why `SplitRule.exact` is None.
_NOT_EXACT = (
    "a measure of the caller's, C4.5's corrections, parts of rows, weights that are no integers, or "
    f"logarithms of weights beyond {MOST_COUNTED:,}"
)


class Rest(NamedTuple):
    """The nodes below a level, which come first themselves."""

    nodes: Trees  # one for each node of the level, their levels side by side
    threshold: Any  # (t,) host: bins where the rows hold bins; anything for a leaf


def choose_lists_body(
    place: Place, rows: Rows, level: Level, rule: SplitRule, limits: Limits
) -> Callable[..., Trees] | str:
    """Return the body that grows what is below presorted lists, or why the array program does."""
    reason = _why_not_at_once(rows, level, rule, limits)
    if reason is not None:
        return reason
    if rows.has_missing_numbers and rule.missing != "direction":
        return "missing values whose side is not learned"
    if place.library != "numpy":
        return "not on a CPU of NumPy"
    if not is_worth_compiling(level.lists.size + rows.columns.size):
        return "few values, or nothing is to be compiled"
    from arraylearn.grow.sorted_lists.lists_cpu import grow_lists

    return grow_lists


def finish_lists(
    place: Place, rows: Rows, level: Level, rule: SplitRule, limits: Limits, least: int
) -> Rest | None:
    """Grow what is below the presorted lists of a level; None where that has to go level by level."""
    body = choose_lists_body(place, rows, level, rule, limits)
    if isinstance(body, str):
        return None
    if level.weights is not None or rows.has_missing_numbers or not is_gini(rule):
        least = max(1, math.ceil(rule.enough))
    given = level.lists, rows.columns, rows.class_ends, level.weights, rows.has_missing_numbers
    nodes = body(SortedRows(*given), level.starts, level.counts_on, _growth(level, limits, least), rule.exact)
    low, high = (_values_at(place, rows.columns, nodes.feature, at) for at in (nodes.low, nodes.high))
    return Rest(nodes, midpoint(HOST.xp, low, high) if rows.edges is None else low)


def finish_bins(
    place: Place,
    rows: Rows,
    level: Level,
    rule: SplitRule,
    limits: Limits,
    bins: Array,
    n_bins: int,
    values: Array | None,
) -> Rest | None:
    """Do what `finish_lists` does for rows of bins, which stand for `values` (d, b) or for themselves."""
    body = choose_bins_body(place, rows, level, rule, limits)
    if isinstance(body, str):
        return None
    growth = _growth(level, limits, max(1, math.ceil(rule.enough)))
    nodes = _grow_bins(body, rows, level, rule.exact, bins, n_bins, growth)
    if values is None:
        return Rest(nodes, nodes.low)
    low, high = (_values_at(place, values, nodes.feature, at) for at in (nodes.low, nodes.high))
    return Rest(nodes, midpoint(HOST.xp, low, high))


def choose_bins_body(
    place: Place, rows: Rows, level: Level, rule: SplitRule, limits: Limits
) -> ModuleType | str:
    """Return the body that grows a tree on bins, or why the array program does."""
    reason = _why_not_at_once(rows, level, rule, limits)
    if reason is not None:
        return reason
    if rows.has_missing_numbers:
        return "missing values"
    if level.depth:
        return "below the root"
    return choose_body(place, rows.columns.shape[0] * rows.columns.shape[1])


def _why_not_at_once(rows: Rows, level: Level, rule: SplitRule, limits: Limits) -> str | None:
    """Return what no body knows; None where there is nothing of it."""
    d = rows.columns.shape[0]
    if rule.exact is None:
        return _NOT_EXACT
    if rows.n_values or d == 0:
        return "nominal columns"
    if limits.max_leaf_nodes is not None:
        return "a limit on the leaves"
    if limits.max_features is not None and limits.max_features < d:
        return "columns drawn in each node"
    if rule.missing == "surrogate" and rule.n_surrogates > 0:
        return "surrogates"
    if rows.n_rows >= MOST_ROWS or int(level.counts.sum()) >= MOST_WEIGHT:
        return "sums beyond 64 bits"
    return None


def _grow_bins(
    body: Any, rows: Rows, level: Level, criterion: Any, bins: Any, n_bins: int, growth: GrowthLimits
) -> Trees:
    """Grow a tree on all rows of bins: two classes as packed pairs, more as class vectors."""
    from arraylearn.grow.histograms.records_cpu import GrowthPlan, Newton

    d, n = bins.shape
    c = rows.n_classes
    is_pair = c <= 2
    # where sorting the rows of a node begins to cost more than its table: measured at 3k to 100k rows
    small = 20 if is_pair else max(64, n_bins * c // 8)
    plan = GrowthPlan(
        criterion=criterion.number,
        n_bins=n_bins,
        n_numeric=d,
        max_depth=growth.n_levels,
        max_leaves=0,
        small=small,
        keeps_rows=False,
        has_missing=False,
        least_rows=2,
        least_weight=float(growth.least_to_split),
        least_side=float(growth.least),
        min_gain=growth.min_gain - 1e-12,
        newton=Newton(0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        is_used=np.ones(d, dtype=bool),
        use_missing=np.zeros(d, dtype=bool),
        logs=np.zeros(1, dtype=np.int64) if criterion.logs is None else criterion.logs,
        log_unit=criterion.unit,
        trend=np.zeros(d, dtype=np.int8),
    )
    loads, sums = _pack_rows(rows, level, is_pair)
    buffers = body.make_buffers(bins, n, sums.shape[0], plan)
    trees: Trees = body.grow_tree(buffers, plan, np.arange(n), loads, sums)[0]
    trees = trees._replace(missing_right=None)  # no value is missing: later ones follow the heavier child
    if is_pair:
        held = trees.sums & 0xFFFFFFFF
        trees = trees._replace(sums=np.concat(((trees.sums >> 32) - held, held), axis=1)[:, :c])
    return trees


def _pack_rows(rows: Rows, level: Level, is_pair: bool) -> tuple[Any, Any]:
    """Return what each row carries, and the sums of the root: weight and class, or a packed pair."""
    labels, counts = rows.labels.astype(np.int64), level.counts[0]
    weights = 1 if level.weights is None else level.weights
    if not is_pair:
        return labels + (weights << 32), counts
    loads = labels * weights + (weights << 32)
    return loads, np.asarray([(counts.sum() << 32) + (counts[1] if counts.shape[0] == 2 else 0)])


def _growth(level: Level, limits: Limits, least: int) -> GrowthLimits:
    least_to_split = max(limits.min_samples_split, 2 * limits.min_samples_leaf) * (1.0 - SLACK)
    n_levels = -1 if limits.max_depth is None else limits.max_depth - level.depth
    return GrowthLimits(least, max(2, math.ceil(least_to_split)), n_levels, limits.min_gain)


def _values_at(place: Place, columns: Array, line: Any, at: Any) -> Any:
    """Look up values on the host; those of leaves are anything."""
    lines, positions = (from_host(np.clip(part, min=0), place) for part in (line, at))
    return to_host(take_flat(place.xp, columns, lines, positions))
