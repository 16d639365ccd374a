"""Grow random trees: each node considers some drawn columns, and all cuts or one drawn cut of each.

This is the finder of the array program; `drawn_cpu` has a `grow_trees` for CPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.dispatch import get_tuning, why_not_compiled
from arraylearn.backend.namespace import HOST, Place, accumulator_dtype, from_host
from arraylearn.grow.bounds import constrain
from arraylearn.grow.builder import Builder, NextLevel, Splits
from arraylearn.grow.divide import keep_nodes
from arraylearn.grow.drawn_columns.cuts import CutRules, Draws, best_cuts
from arraylearn.grow.finder import Finder, NodeChoice
from arraylearn.grow.formulas import splitmix
from arraylearn.grow.loop import grow
from arraylearn.grow.rows import Entries, Level, Roots, Rows
from arraylearn.grow.split import SplitRule, prepare_rule
from arraylearn.grow.trees import LEAF, Limits, Trees
from arraylearn.measures.count_measures import Measure

__all__ = [
    "Bags",
    "DrawnPlan",
    "choose_body",
    "grow_trees",
    "least_rows_of_groups",
    "sum_classes",
    "with_gains",
]

# Rows per class from which on a node scores cuts between groups of bins.
_LARGE_PER_CLASS = 512
# Limits of the compiled body: of a digit, of a field, and of half an integer.
_MOST_BINS, _MOST_CLASSES, _MOST_WEIGHT = 1 << 12, 1 << 16, 1 << 31


class DrawnPlan(NamedTuple):
    """The columns and cuts that nodes consider, and the limits of growth."""

    n_bins: int
    n_classes: int
    limits: Limits
    columns: HostArray  # (draws, f) int64 on the host: a node considers the columns of one draw, by its seed
    positions: Array | None = None  # (d * n_bins,) of the bins, if one cut per column is drawn: see `Draws`
    criterion: str | Measure = "gini"
    trend: tuple[int, ...] | None = None  # by column: see `SplitRule`


class Bags(NamedTuple):
    """The rows of several trees, on the host."""

    rows: HostArray  # (m,) int64, tree after tree, ascending
    weights: HostArray  # (m,) int64: how often each was drawn
    sizes: HostArray  # (t,) int64
    seeds: HostArray  # (t,) uint64


GrowTrees = Callable[[Place, Array, HostArray, Bags, DrawnPlan], Trees]


def choose_body(place: Place, work: int, plan: DrawnPlan, weight: int) -> GrowTrees | str:
    """Return the compiled body of `grow_trees`, or the reason why the array program runs.

    Parameters
    ----------
    place : Place
        Where the bins are.
    work : int
        Rows x columns x trees.
    plan : DrawnPlan
        Columns, cuts and limits.
    weight : int
        Greatest weight of all rows of a tree.
    """
    if (reason := why_not_compiled(place, work, get_tuning().compiled_forest)) is not None:
        return reason
    if plan.n_bins > _MOST_BINS or plan.n_classes > _MOST_CLASSES:
        return f"more than {_MOST_BINS:,} bins or {_MOST_CLASSES:,} classes"
    if weight >= _MOST_WEIGHT:
        return "weights of 2**31 or more in all"
    if callable(plan.criterion):
        return "a measure of the caller's"
    if plan.trend is not None:
        return "monotonic constraints"
    from arraylearn.grow.drawn_columns import drawn_cpu

    return drawn_cpu.grow_trees


def grow_trees(place: Place, bins: Array, codes: HostArray, bags: Bags, plan: DrawnPlan) -> Trees:
    """Grow one tree per bag.

    Parameters
    ----------
    place : Place
        Where `bins` and ``plan.positions`` are.
    bins : integer array (d, n)
        Bins in ``range(plan.n_bins)``.
    codes : int array (n,) on the host
        Classes.
    bags : Bags
        The rows of each tree.
    plan : DrawnPlan
        Columns, cuts and limits.

    Returns
    -------
    Trees
        With class weights as sums; `threshold` is the last bin that goes left, `gain` the decrease of the
        impurity times the weight.
    """
    finder = _DrawnFinder(place, bins, codes, bags, plan)
    xp, m = place.xp, bags.rows.shape[0]
    lists = xp.arange(m, dtype=xp.int32, device=place.device)[None, :]
    held = codes[bags.rows], bags.weights, bags.rows
    entries = Entries(*(from_host(part, place, xp.int64) for part in held))
    sums = sum_classes(codes, bags, plan.n_classes)
    trees = grow(finder, Roots(lists, entries, sums, bags.sizes)).finish_trees()
    return with_gains(trees._replace(default_branch=None), finder.rule)


def sum_classes(codes: HostArray, bags: Bags, n_classes: int) -> HostArray:
    """Return the class weights (t, c) of each tree."""
    n_trees = bags.sizes.shape[0]
    cell = np.repeat(np.arange(0, n_trees * n_classes, n_classes), bags.sizes)
    cell += codes[bags.rows]
    sums: HostArray = histogram(HOST.xp, cell, n_trees * n_classes, bags.weights)
    return sums.reshape(n_trees, n_classes)


def least_rows_of_groups(n_classes: int) -> int:
    """Return the number of rows from which on a node scores cuts between groups of bins."""
    return _LARGE_PER_CLASS * n_classes


def _pack_rows(codes: HostArray, bags: Bags, plan: DrawnPlan) -> tuple[HostArray, CutRules]:
    """Pack row, weight and class of each row of each tree into one integer; also return the layout."""
    class_bits = max(1, (plan.n_classes - 1).bit_length())
    payload_bits = class_bits + int(bags.weights.max()).bit_length()
    entries = bags.rows << payload_bits
    entries += bags.weights << class_bits
    entries += codes[bags.rows]
    least, large = int(plan.limits.min_samples_leaf), least_rows_of_groups(plan.n_classes)
    return entries, CutRules(plan.n_bins, class_bits, payload_bits, least, large, int(plan.limits.side_rows))


def with_gains(trees: Trees, rule: SplitRule) -> Trees:
    """Give each node the decrease of the impurity times the weight."""
    total = np.einsum("ij->i", trees.sums)  # five times as fast as `np.sum` of short rows
    if rule.measure == "gini":
        impurity = total - np.vecdot(trees.sums, trees.sums) / total
    else:
        impurity = total * rule.impurity(HOST.xp, np.astype(trees.sums, np.float64))
    inner = np.nonzero(trees.first_child != LEAF)[0]
    below = trees.first_child[inner]
    gain = np.zeros(total.shape[0], dtype=np.float64)
    gain[inner] = impurity[inner] - impurity[below] - impurity[below + 1]
    return trees._replace(gain=gain)


class _DrawnFinder(Finder):
    """Finds the cuts of nodes among drawn columns."""

    def __init__(self, place: Place, bins: Array, codes: HostArray, bags: Bags, plan: DrawnPlan) -> None:
        xp, (d, n) = place.xp, bins.shape
        no_codes = xp.zeros((0, n), dtype=xp.int32, device=place.device)
        ends = (n,) * plan.n_classes
        table = Rows(bins, no_codes, None, None, ends, (), tuple(range(d)), False, False)
        rule = SplitRule(plan.criterion, nominal="binary", missing="known_fraction", trend=plan.trend)
        if plan.criterion != "gini":
            sums = sum_classes(codes, bags, plan.n_classes)
            rule = prepare_rule(place, rule, sums[np.argmax(np.sum(sums, axis=1))], is_integral=True)
        super().__init__(place, table, rule, plan.limits)
        entries, self.rules = _pack_rows(codes, bags, plan)
        self.seeds, self.plan, self.packed = bags.seeds, plan, from_host(entries, place)

    def choose(self, level: Level) -> NodeChoice:
        """Find the best cut of each node in the columns that it draws."""
        assert level.seeds is not None
        columns = self.plan.columns
        draw = level.seeds % np.asarray(columns.shape[0], dtype=np.uint64)
        return self._cut_among(level, columns[np.astype(draw, np.int64)])

    def choose_again(self, level: Level, choice: NodeChoice, splits: Splits) -> NodeChoice | None:
        """Search all columns in nodes without a cut, whose drawn columns are constant."""
        d = int(self.rows.columns.shape[0])
        if self.plan.columns.shape[1] == d or bool(np.all(splits.is_split)):
            return None
        assert level.seeds is not None
        xp, place, is_left_over = self.place.xp, self.place, ~splits.is_split
        others = keep_nodes(place, level, is_left_over)._replace(seeds=level.seeds[is_left_over])
        found = self._cut_among(others, np.broadcast_to(np.arange(d)[None, :], (others.n_nodes, d)))
        is_new = from_host(is_left_over, place)
        at = from_host(np.clip(np.cumulative_sum(np.astype(is_left_over, np.int64)) - 1, min=0), place)
        column, score, cut = (
            xp.where(is_new, xp.take(new, at, axis=0), old)
            for new, old in zip(found[:3], choice[:3], strict=True)
        )
        return NodeChoice(column, score, cut)

    def _cut_among(self, level: Level, columns: HostArray) -> NodeChoice:
        """Find the cuts of nodes, each among columns (k, f) of its own."""
        xp, place = self.place.xp, self.place
        judge = None if self.plan.criterion == "gini" else self.rule.judge
        constraint = constrain(place, self.rule.trend, level, accumulator_dtype(place))
        draws = Draws(None, None, judge, constraint)
        if self.plan.positions is not None:
            assert level.seeds is not None
            # from the seed of the node and the column, independent of the other columns
            seeds = level.seeds[:, None] + np.astype(columns + 3, np.uint64)
            numbers = np.astype(splitmix(seeds) >> 32, np.int64)
            draws = draws._replace(numbers=from_host(numbers, place), positions=self.plan.positions)
        score, column, cut = best_cuts(
            xp,
            self.rows.columns,
            xp.take(self.packed, level.members, axis=0),
            level.sizes.tolist(),
            from_host(columns, place, xp.int64),
            level.counts_on,
            self.rules,
            draws,
        )
        return NodeChoice(column, score > 0, cut)

    def accept(self, level: Level, splits: Splits, builder: Builder) -> Splits:
        """Mark the nodes that have a cut; a gain of 0 is enough."""
        return splits._replace(is_split=splits.score > 0)

    def may_split(self, counts: HostArray, sizes: HostArray, depth: int) -> HostArray:
        """Whether nodes have enough weight, and rows of more than one class."""
        total, limits = np.sum(counts, axis=-1), self.limits
        least = max(limits.min_samples_split, 2 * limits.min_samples_leaf)
        is_large: HostArray = (total >= least) & (sizes >= max(limits.least_rows, 2 * limits.side_rows))
        is_impure: HostArray = np.max(counts, axis=-1) < total
        return is_impure & is_large & (depth != limits.max_depth)

    def finish(self, level: Level) -> None:
        """Return None: growth by the compiled body is chosen before the first level, by `choose_body`."""

    def begin(self, level: Level) -> Level:
        """Give each root the seed of its bag."""
        return level._replace(seeds=self.seeds[level.ids])

    def follow(self, old: Level, step: NextLevel, new: Level) -> tuple[Finder, Level]:
        """Compute the seeds of children from those of their parents."""
        assert old.seeds is not None
        seeds = old.seeds[step.parent] + np.astype(step.branch + 1, np.uint64)
        return self, new._replace(seeds=splitmix(seeds))
