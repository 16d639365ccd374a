"""All that is below a level grown at once: whole rows, nothing missing, the Gini gain."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.namespace import HOST, Place, from_host, to_host
from arraylearn.backend.ops.subtrees import Growth, Subtrees, grow_lists
from arraylearn.grow.choose import choose_body
from arraylearn.tree.build import Limits
from arraylearn.tree.rows import Level, Rows, take_flat
from arraylearn.tree.split import SLACK, Rule, is_gini, midpoint

__all__ = ["Rest", "finish_bins", "finish_lists"]


class Rest(NamedTuple):
    """The nodes below a level, which come first themselves."""

    nodes: Subtrees
    threshold: Any  # (t,) host: bins where the rows hold bins; anything for a leaf


def finish_lists(
    place: Place, rows: Rows, level: Level, rule: Rule, limits: Limits, least: int
) -> Rest | None:
    """Grow what is below the presorted lists of a level; None where that has to go level by level."""
    if not _is_plain(rows, level, rule, limits):
        return None
    xp, growth = place.xp, _growth(level, limits, least)
    given = level.lists, rows.columns, rows.class_ends, level.starts, level.counts_on
    nodes = grow_lists(xp, *given, growth)
    if nodes is None:
        return None
    low, high = (_values_at(place, rows.columns, nodes.line, at) for at in (nodes.low, nodes.high))
    return Rest(nodes, midpoint(HOST.xp, low, high) if rows.edges is None else low)


def finish_bins(
    place: Place,
    rows: Rows,
    level: Level,
    rule: Rule,
    limits: Limits,
    bins: Array,
    n_bins: int,
    values: Array | None,
) -> Rest | None:
    """Do what `finish_lists` does for rows of bins, which stand for `values` (d, b) or for themselves."""
    if not _is_plain(rows, level, rule, limits):
        return None
    growth = _growth(level, limits, max(1, math.ceil(rule.enough)))
    body = choose_body(place, bins.shape[0] * bins.shape[1])
    if level.depth or isinstance(body, str):
        return None
    nodes = _grow_bins(body, rows, bins, n_bins, growth)
    if values is None:
        return Rest(nodes, nodes.low)
    low, high = (_values_at(place, values, nodes.line, at) for at in (nodes.low, nodes.high))
    return Rest(nodes, midpoint(HOST.xp, low, high))


def _grow_bins(body: Any, rows: Rows, bins: Any, n_bins: int, growth: Growth) -> Subtrees:
    from arraylearn.grow.records_cpu import GINI, Newton, Plan

    d, n = bins.shape
    c = rows.n_classes
    is_pair = c <= 2
    small = 20 if is_pair else max(64, n_bins * c // 8)
    loads = rows.labels.astype(np.int64) + (1 << 32)
    counts = np.diff((0, *rows.class_ends))
    sums = np.asarray([(n << 32) + (counts[1] if c == 2 else 0)]) if is_pair else counts
    plan = Plan(
        criterion=GINI,
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
        trend=np.zeros(d, dtype=np.int8),
    )
    buffers = body.make_buffers(bins, n, 1 if is_pair else c, plan)
    trees, _ = body.grow_tree(buffers, plan, np.arange(n), loads, sums)
    found = trees.sums
    if is_pair:
        held = found & 0xFFFFFFFF
        found = np.concat(((found >> 32) - held, held), axis=1)[:, :c]
    return Subtrees(trees.feature, trees.gain, trees.low, trees.high, trees.first_child, trees.depth, found)


def _is_plain(rows: Rows, level: Level, rule: Rule, limits: Limits) -> bool:
    d = rows.columns.shape[0]
    is_whole = level.weights is None and level.source is None and not rows.has_missing
    has_surrogates = rule.missing == "surrogate" and rule.n_surrogates > 0
    takes_all = limits.max_features is None or limits.max_features >= d
    is_simple = takes_all and limits.max_leaf_nodes is None and not rows.n_values and d > 0
    return is_whole and is_simple and is_gini(rule) and not (rule.require_average_gain or has_surrogates)


def _growth(level: Level, limits: Limits, least: int) -> Growth:
    least_to_split = max(limits.min_samples_split, 2 * limits.min_samples_leaf) * (1.0 - SLACK)
    n_levels = -1 if limits.max_depth is None else limits.max_depth - level.depth
    return Growth(least, max(2, math.ceil(least_to_split)), n_levels, limits.min_gain)


def _values_at(place: Place, columns: Array, line: Any, at: Any) -> Any:
    """Look up values on the host; those of leaves are anything."""
    lines, positions = (from_host(np.clip(part, min=0), place) for part in (line, at))
    return to_host(take_flat(place.xp, columns, lines, positions))
