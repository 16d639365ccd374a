"""Compiled bodies that grow all subtrees below a level in one call, and the choice between them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.dispatch import why_not_compiled
from arraylearn.backend.namespace import HOST, Place, from_host, to_host
from arraylearn.grow.criteria import MOST_COUNTED
from arraylearn.grow.rows import Level, Rows, take_flat
from arraylearn.grow.sorted_lists.lists import MOST_ROWS, MOST_WEIGHT, SortedRows
from arraylearn.grow.split import SLACK, SplitRule, is_gini, midpoint
from arraylearn.grow.trees import Limits, Trees

__all__ = ["choose_body", "finish_bins", "finish_lists"]


# The reason why `SplitRule.exact` is None.
_NOT_EXACT = (
    "a measure of the caller's, C4.5's corrections, parts of rows, weights that are no integers, or "
    f"logarithms of weights beyond {MOST_COUNTED:,}"
)


def choose_body(
    place: Place, rows: Rows, level: Level, rule: SplitRule, limits: Limits, *, by_lists: bool
) -> Callable[..., Trees] | str:
    """Return the body that grows subtrees on sorted lists, or bins, or the reason for the array program."""
    d, n_values = rows.columns.shape[0], math.prod(rows.columns.shape)
    if rule.exact is None:
        return _NOT_EXACT
    if rows.n_values or d == 0:
        return "nominal columns"
    if rows.has_missing_numbers and rule.missing != "direction":
        return "missing values whose side is not learned"
    if limits.max_features is not None and limits.max_features < d:
        return "columns drawn in each node"
    if rule.least_rows > 0 or limits.least_rows > 2:
        return "rows counted beside their weights"
    if rule.missing == "surrogate" and rule.n_surrogates > 0:
        return "surrogates"
    if rows.n_rows >= MOST_ROWS or int(level.counts.sum()) >= MOST_WEIGHT:
        return "sums beyond 64 bits"
    if level.depth and not by_lists:
        return "below the root"
    n_values += math.prod(level.lists.shape) if by_lists else 0
    if (reason := why_not_compiled(place, n_values)) is not None:
        return reason
    if by_lists:
        from arraylearn.grow.sorted_lists.lists_cpu import grow_lists

        return grow_lists
    from arraylearn.grow.histograms.grow_cpu import grow_class_tree

    return grow_class_tree


def finish_lists(place: Place, rows: Rows, level: Level, rule: SplitRule, limits: Limits) -> Trees | None:
    """Grow the subtrees below a level on presorted lists; None: growth continues level by level."""
    body = choose_body(place, rows, level, rule, limits, by_lists=True)
    if isinstance(body, str):
        return None
    is_plain = level.weights is None and not rows.has_missing_numbers and is_gini(rule)
    least = max(1, math.ceil(rule.least if is_plain else rule.enough))
    given = level.lists, rows.columns, rows.class_ends, level.weights, rows.has_missing_numbers
    starts, integer_limits = np.cumsum(level.sizes) - level.sizes, _integer_limits(level, limits, least)
    nodes = body(SortedRows(*given), starts, level.counts, integer_limits, rule.exact)
    low, high = (_values_at(place, rows.columns, nodes.feature, at) for at in (nodes.threshold, nodes.high))
    return nodes._replace(threshold=midpoint(HOST.xp, low, high) if rows.edges is None else low)


def finish_bins(
    place: Place,
    rows: Rows,
    level: Level,
    rule: SplitRule,
    limits: Limits,
    bins: Array,
    n_bins: int,
    values: Array | None,
) -> Trees | None:
    """Do what `finish_lists` does for rows of bins, which stand for `values` (d, b) or for themselves."""
    body = choose_body(place, rows, level, rule, limits, by_lists=False)
    if isinstance(body, str):
        return None
    integer_limits = _integer_limits(level, limits, max(1, math.ceil(rule.enough)))
    nodes = body(rows, level, bins, n_bins, integer_limits, rule.exact)
    if values is None:
        return nodes
    # if only missing values are above, the threshold is the value itself
    upper = np.where(nodes.high < n_bins - 1, nodes.high, nodes.threshold)
    low, high = (_values_at(place, values, nodes.feature, at) for at in (nodes.threshold, upper))
    return nodes._replace(threshold=midpoint(HOST.xp, low, high))


def _integer_limits(level: Level, limits: Limits, least: int) -> Limits:
    """Return the limits of subtrees: integer weights, `least` of a side, and the depth that remains."""
    least_to_split = max(limits.min_samples_split, 2 * limits.min_samples_leaf) * (1.0 - SLACK)
    return limits._replace(
        max_depth=None if limits.max_depth is None else limits.max_depth - level.depth,
        min_samples_split=max(2, math.ceil(least_to_split)),
        min_samples_leaf=least,
    )


def _values_at(place: Place, columns: Array, column: Any, at: Any) -> Any:
    """Look up values on the host; those of leaves are meaningless."""
    columns_at, positions = (from_host(np.clip(part, min=0), place) for part in (column, at))
    return to_host(take_flat(place.xp, columns, columns_at, positions))
