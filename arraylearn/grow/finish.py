"""All that is below a level grown at once by a compiled body, where one serves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.dispatch import why_not_compiled
from arraylearn.backend.namespace import HOST, Place, from_host, to_host
from arraylearn.grow.criteria import MOST_COUNTED
from arraylearn.grow.rows import Level, Roots, Rows, take_flat
from arraylearn.grow.sorted_lists.lists import MOST_ROWS, MOST_WEIGHT, SortedRows
from arraylearn.grow.split import SLACK, SplitRule, is_gini, midpoint
from arraylearn.grow.trees import LEAF, Limits, Trees, best_first

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
    place: Place, rows: Rows, level: Level | Roots, rule: SplitRule, limits: Limits
) -> Callable[..., Trees] | str:
    """Return the body that grows what is below presorted lists, or why the array program does."""
    reason = _why_not_at_once(rows, level, rule, limits)
    if reason is not None:
        return reason
    if (
        reason := why_not_compiled(place, math.prod(level.lists.shape) + math.prod(rows.columns.shape))
    ) is not None:
        return reason
    from arraylearn.grow.sorted_lists.lists_cpu import grow_lists

    return grow_lists


def finish_lists(
    place: Place, rows: Rows, level: Level | Roots, rule: SplitRule, limits: Limits
) -> Rest | None:
    """Grow what is below the presorted lists of a level; None where that has to go level by level."""
    body = choose_lists_body(place, rows, level, rule, limits)
    if isinstance(body, str):
        return None
    is_plain = level.weights is None and not rows.has_missing_numbers and is_gini(rule)
    least = max(1, math.ceil(rule.least if is_plain else rule.enough))
    given = level.lists, rows.columns, rows.class_ends, level.weights, rows.has_missing_numbers
    starts, integer_limits = np.cumsum(level.sizes) - level.sizes, _integer_limits(level, limits, least)
    nodes = body(SortedRows(*given), starts, level.counts, integer_limits, rule.exact)
    nodes = _keep_best(nodes, limits)
    low, high = (_values_at(place, rows.columns, nodes.feature, at) for at in (nodes.threshold, nodes.high))
    return Rest(nodes, midpoint(HOST.xp, low, high) if rows.edges is None else low)


def finish_bins(
    place: Place,
    rows: Rows,
    level: Level | Roots,
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
    integer_limits = _integer_limits(level, limits, max(1, math.ceil(rule.enough)))
    nodes = body(rows, level, bins, n_bins, integer_limits, rule.exact)
    nodes = _keep_best(nodes, limits)
    if values is None:
        return Rest(nodes, nodes.threshold)
    # where only missing values are above, the threshold is the value itself
    upper = np.where(nodes.high < n_bins - 1, nodes.high, nodes.threshold)
    low, high = (_values_at(place, values, nodes.feature, at) for at in (nodes.threshold, upper))
    return Rest(nodes, midpoint(HOST.xp, low, high))


def choose_bins_body(
    place: Place, rows: Rows, level: Level | Roots, rule: SplitRule, limits: Limits
) -> Callable[..., Trees] | str:
    """Return the body that grows a tree on bins, or why the array program does."""
    reason = _why_not_at_once(rows, level, rule, limits)
    if reason is not None:
        return reason
    if level.depth:
        return "below the root"
    if (reason := why_not_compiled(place, math.prod(rows.columns.shape))) is not None:
        return reason
    from arraylearn.grow.histograms.grow_cpu import grow_class_tree

    return grow_class_tree


def _why_not_at_once(rows: Rows, level: Level | Roots, rule: SplitRule, limits: Limits) -> str | None:
    """Return what no body knows; None where there is nothing of it."""
    d = rows.columns.shape[0]
    if rule.exact is None:
        return _NOT_EXACT
    if rows.n_values or d == 0:
        return "nominal columns"
    if rows.has_missing_numbers and rule.missing != "direction":
        return "missing values whose side is not learned"
    if limits.max_leaf_nodes is not None and level.depth:
        return "a limit on the leaves, below the root"
    if limits.max_features is not None and limits.max_features < d:
        return "columns drawn in each node"
    if rule.missing == "surrogate" and rule.n_surrogates > 0:
        return "surrogates"
    if rows.n_rows >= MOST_ROWS or int(level.counts.sum()) >= MOST_WEIGHT:
        return "sums beyond 64 bits"
    return None


def _integer_limits(level: Level | Roots, limits: Limits, least: int) -> Limits:
    """Return the limits of what is below a level: integer weights, `least` of a side, and remaining depth."""
    least_to_split = max(limits.min_samples_split, 2 * limits.min_samples_leaf) * (1.0 - SLACK)
    return limits._replace(
        max_depth=None if limits.max_depth is None else limits.max_depth - level.depth,
        min_samples_split=max(2, math.ceil(least_to_split)),
        min_samples_leaf=least,
    )


def _keep_best(nodes: Trees, limits: Limits) -> Trees:
    """Keep of one tree the splits that best-first growth makes: see `Builder`."""
    if limits.max_leaf_nodes is None:
        return nodes
    split = np.nonzero(nodes.feature != LEAF)[0]
    m = nodes.feature.shape[0]
    priority = np.full(m, -np.inf)
    priority[split] = np.sum(nodes.sums[split], axis=1) * np.astype(nodes.gain[split], np.float64)
    kept = sorted(best_first(priority, nodes.first_child, limits.max_leaf_nodes))
    is_split, is_node = np.zeros((2, m), dtype=np.bool)
    is_split[kept], is_node[0] = True, True
    is_node[nodes.first_child[kept]] = is_node[nodes.first_child[kept] + 1] = True
    number = np.cumulative_sum(np.astype(is_node, np.int32)) - 1
    first_child = np.where(is_split, number[np.maximum(nodes.first_child, 0)], LEAF)
    cut = nodes._replace(
        feature=np.where(is_split, nodes.feature, LEAF),
        first_child=np.astype(first_child, np.int32),
        gain=np.where(is_split, nodes.gain, 0),
    )
    per_node = ("feature", "threshold", "high", "first_child", "depth", "gain", "sums", "default_branch")
    fields = {name: getattr(cut, name) for name in per_node}
    return cut._replace(**{name: at[is_node] for name, at in fields.items() if at is not None})


def _values_at(place: Place, columns: Array, column: Any, at: Any) -> Any:
    """Look up values on the host; those of leaves are anything."""
    columns_at, positions = (from_host(np.clip(part, min=0), place) for part in (column, at))
    return to_host(take_flat(place.xp, columns, columns_at, positions))
