"""Finders of splits: a finder searches the splits of a level, and decides which are made.

The base class judges splits by class weights in presorted lists. Its subclasses search histograms
(`histograms/bin_finder.py`, and CLOUDS in `histograms/clouds.py`), drawn columns (`drawn_columns/drawn.py`),
and histograms of packed gradients in place of class weights (`histograms/newton_trees.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.dispatch import get_tuning, why_not_compiled
from arraylearn.backend.namespace import HOST, Place, from_host, to_host
from arraylearn.grow.branches.nominal import find_subsets, scan_nominal
from arraylearn.grow.builder import Builder, NextLevel, Splits
from arraylearn.grow.formulas import WEIGHT_BITS
from arraylearn.grow.rows import Level, Rows, nominal_column, numeric_column, take_flat
from arraylearn.grow.sorted_lists.lists import MOST_ROWS, MOST_WEIGHT, ListSplits, SortedRows
from arraylearn.grow.sorted_lists.thresholds import scan_lists
from arraylearn.grow.split import (
    SLACK,
    SplitCandidates,
    SplitRule,
    choose_columns,
    is_gini,
    may_split,
    midpoint,
)
from arraylearn.grow.trees import Limits, Trees

__all__ = ["Finder", "NodeChoice", "choose_body", "values_at"]

# Rounding error allowed in a gain.
_GAIN_SLACK = 1e-12
# A node has a sum for each category of each column.
_MOST_CATEGORIES = 4_094
# The reason why `SplitRule.exact` is None.
_NOT_EXACT = (
    "a measure of the caller's, C4.5's corrections, parts of rows, weights that are no integers, or "
    f"logarithms of weights of more than {WEIGHT_BITS} bits"
)


class NodeChoice(NamedTuple):
    """The best split of each node of a level, at the place: arrays (k,)."""

    column: Array  # among the numeric, then the nominal columns
    score: Array  # by which the column was chosen; -inf, or False: there is no split
    threshold: Array  # a value or a bin: rows up to it take branch 0
    missing_left: Array | None = None  # bool; None: the host decides
    gain: Array | None = None  # None: the host computes it
    branches: Array | None = None  # (k, v + 1) branch of each category of a binary nominal split
    goes_right: Array | None = None  # (k, b) bool: bins that take branch 1, where a threshold is not enough
    sets: Array | None = None  # the same, if the host records it in the tree
    left: Array | None = None  # (k, c) sums of branch 0 of two; None: not known yet
    cut: ListSplits | None = None  # positions at which the lists are cut; None: rows are routed by value


class Finder:
    """Finds the splits of a level, and decides which are made: by class weights, in presorted lists."""

    def __init__(
        self,
        place: Place,
        rows: Rows,
        rule: SplitRule,
        limits: Limits,
        generator: np.random.Generator | None = None,
    ) -> None:
        self.place, self.rows, self.rule, self.limits = place, rows, rule, limits
        self.generator = generator  # draws the columns of each node where `limits.max_features` is set

    # ---- thresholds

    def scan(self, level: Level, allowed: Array | None) -> SplitCandidates:
        """Find the best threshold of every column in every node, or of the best column alone."""
        return scan_lists(self.place, self.rows, level, self.rule, allowed)

    def locate(self, level: Level, column: Array, numeric: SplitCandidates) -> tuple[Array, Array]:
        """Return threshold and side of missing values of the chosen columns; meaningless for nominal ones."""
        xp, device = self.place.xp, self.place.device
        missing_left = xp.zeros(column.shape, dtype=xp.bool, device=device)
        assert numeric.threshold is not None
        if numeric.column_idx is not None:
            return numeric.threshold[0, :], missing_left
        column_idx = numeric_column(xp, self.rows, column)
        nodes = xp.arange(level.n_nodes, dtype=xp.int64, device=device)
        if numeric.missing_left is not None:
            missing_left = take_flat(xp, numeric.missing_left, column_idx, nodes)
        return take_flat(xp, numeric.threshold, column_idx, nodes), missing_left

    # ---- splits

    def choose(self, level: Level) -> NodeChoice:
        """Choose the best split of each node: a threshold, or branches by category; no sync."""
        place, rows, rule, xp = self.place, self.rows, self.rule, self.place.xp
        allowed = self._draw_columns(level)
        numeric = nominal = branches = cut = None
        if rows.columns.shape[0]:
            numeric = self.scan(level, allowed)
        if rows.n_values:
            nominal = scan_nominal(place, rows, level, rule)
        order = from_host(np.argsort(np.asarray(rows.column_order), stable=True), place)
        column, gain, score = choose_columns(place, rule, numeric, nominal, order, allowed)
        if numeric is not None:
            threshold, missing_left = self.locate(level, column, numeric)
            cut = numeric.cut
        else:
            missing_left = xp.zeros(column.shape, dtype=xp.bool, device=place.device)
            threshold = xp.zeros(column.shape, dtype=xp.float32, device=place.device)
        if rows.n_values and rule.nominal == "binary":
            branches = find_subsets(place, rows, level, rule, nominal_column(xp, rows, column))
        if rule.missing == "surrogate" and rule.n_surrogates:
            cut = None  # surrogates need the branch of every row
        left = None if cut is None else cut.left
        return NodeChoice(column, score, threshold, missing_left, gain, branches, left=left, cut=cut)

    def _draw_columns(self, level: Level) -> Array | None:
        """Draw which columns each node may use: bool (d, k), or None for all."""
        d, most = len(self.rows.column_order), self.limits.max_features
        if most is None or most >= d:
            return None
        assert self.generator is not None
        keys = self.generator.random((level.n_nodes, d))
        rank = np.argsort(np.argsort(keys, axis=1, stable=True), axis=1, stable=True)
        return from_host(np.permute_dims(rank < most, (1, 0)), self.place)

    def choose_again(self, level: Level, choice: NodeChoice, splits: Splits) -> NodeChoice | None:
        """Search again in nodes for which the host has read that there is no split; None: in no node."""
        return None

    def accept(self, level: Level, splits: Splits, builder: Builder) -> Splits:
        """Mark, on the host, the splits that gain enough."""
        is_split = (splits.score > -np.inf) & (splits.gain >= self.limits.min_gain - _GAIN_SLACK)
        return splits._replace(is_split=is_split)

    def may_split(self, counts: HostArray, sizes: HostArray, depth: int) -> HostArray:
        """Whether nodes (k,) with these class weights (k, c) are impure, large and shallow enough."""
        return may_split(self.limits, counts, sizes, depth)

    # ---- levels

    def finish(self, level: Level) -> Trees | None:
        """Grow all subtrees below a level by a compiled body; None: growth continues level by level."""
        place, rows, rule = self.place, self.rows, self.rule
        body = choose_body(place, rows, level, rule, self.limits, by_lists=True)
        if isinstance(body, str):
            return None
        is_plain = level.weights is None and not rows.has_missing_numbers and is_gini(rule)
        limits = self._integer_limits(level, rule.least if is_plain else rule.enough)
        given = level.lists, rows.columns, rows.class_ends, level.weights, rows.has_missing_numbers
        starts = np.cumsum(level.sizes) - level.sizes
        nodes = body(SortedRows(*given), starts, level.counts, limits, rule.exact)
        low, high = (
            values_at(place, rows.columns, nodes.feature, at) for at in (nodes.threshold, nodes.high)
        )
        return nodes._replace(threshold=midpoint(HOST.xp, low, high) if rows.edges is None else low)

    def _integer_limits(self, level: Level, least: float) -> Limits:
        """Return the limits below a level for a body: integer weights, `least` of a side, remaining depth."""
        limits = self.limits
        least_to_split = max(limits.min_samples_split, 2 * limits.min_samples_leaf) * (1.0 - SLACK)
        return limits._replace(
            max_depth=None if limits.max_depth is None else limits.max_depth - level.depth,
            min_samples_split=max(2, math.ceil(least_to_split)),
            min_samples_leaf=max(1, math.ceil(least)),
        )

    def begin(self, level: Level) -> Level:
        """Complete the first level with the fields that this finder needs in every level."""
        return level

    def follow(self, old: Level, step: NextLevel, new: Level) -> tuple[Finder, Level]:
        """Complete the next level in the same way; return the finder to use from there on, and the level."""
        return self, new


def choose_body(
    place: Place, rows: Rows, level: Level, rule: SplitRule, limits: Limits, *, by_lists: bool
) -> Callable[..., Trees] | str:
    """Return the body that grows subtrees on sorted lists, or bins, or the reason for the array program."""
    d, n_values = rows.columns.shape[0], math.prod(rows.columns.shape) + math.prod(rows.codes.shape)
    if rule.exact is None:
        return _NOT_EXACT
    if rows.n_values:
        if by_lists:
            return "nominal columns beside sorted lists"
        if rule.nominal == "multiway":
            return "a branch for each category"
        if max(rows.n_values) > _MOST_CATEGORIES:
            return f"a column of more than {_MOST_CATEGORIES:,} categories"
    elif d == 0:
        return "no columns"
    if rows.has_missing and rule.missing != "direction":
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
    if by_lists and rule.trend is not None:
        return "monotonic constraints on sorted lists"
    if (reason := why_not_compiled(place, n_values, get_tuning().compiled_tree)) is not None:
        return reason
    if by_lists:
        from arraylearn.grow.sorted_lists.lists_cpu import grow_lists

        return grow_lists
    from arraylearn.grow.histograms.grow_cpu import grow_class_tree

    return grow_class_tree


def values_at(place: Place, columns: Array, column: HostArray, at: HostArray) -> HostArray:
    """Look up values on the host; those of leaves are meaningless."""
    columns_at, positions = (from_host(np.clip(part, min=0), place) for part in (column, at))
    return to_host(take_flat(place.xp, columns, columns_at, positions))
