"""One classification tree: thresholds from a finder, nominal branches, missing values and surrogates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.arrays.segments import histogram, scatter, split_lists
from arraylearn.backend.namespace import Place, from_host, read_together
from arraylearn.grow.branches.fractional import spread_missing
from arraylearn.grow.branches.nominal import find_subsets, scan_nominal
from arraylearn.grow.branches.surrogates import SurrogateChoice, find_surrogates, follow_surrogates
from arraylearn.grow.builder import Builder, NextLevel, Splits
from arraylearn.grow.finish import Rest
from arraylearn.grow.histograms.bin_finder import BinnedFinder, cut_at_quantiles
from arraylearn.grow.histograms.clouds import CloudsFinder, CloudsReport
from arraylearn.grow.histograms.distinct_finder import DistinctFinder, find_distinct
from arraylearn.grow.loop import grow_levels
from arraylearn.grow.rows import (
    Entries,
    Level,
    Rows,
    is_missing_number,
    level_of,
    nominal_column,
    numeric_column,
    rows_at,
    take_flat,
)
from arraylearn.grow.sorted_lists.list_finder import ExactFinder, presort
from arraylearn.grow.sorted_lists.lists import ListSplits, divide_lists
from arraylearn.grow.split import SplitCandidates, SplitRule, choose_columns, prepare_rule
from arraylearn.grow.trees import Limits, Trees
from arraylearn.table import Table

__all__ = ["Finder", "grow_binned", "grow_clouds", "grow_exact"]


class NodeChoice(NamedTuple):
    """The best split of each node of a level, at the place: arrays (k,)."""

    column: Array  # among the numeric, then the nominal columns
    gain: Array
    score: Array
    threshold: Array
    missing_left: Array
    branches: Array | None  # (k, v + 1) branch of each category of a binary nominal split
    cut: ListSplits | None  # where the lists are cut, where that is all there is to know


class Finder(Protocol):
    """Finds thresholds: `ExactFinder`, `BinnedFinder`."""

    rows: Rows
    rule: SplitRule

    def scan(self, level: Level, allowed: Array | None) -> SplitCandidates:
        """Find the best threshold of every column in every node."""

    def locate(
        self, level: Level, column: Array, numeric: SplitCandidates
    ) -> tuple[Array, Array, ListSplits | None]:
        """Return threshold and side of the missing values of the winners, and where their lists are cut."""

    def follow(self, old: Level, step: NextLevel, new: Level) -> Level:
        """Go on to the next level."""

    def finish(self, level: Level, limits: Limits) -> Rest | None:
        """Grow all that is below a level at once; None where that has to go level by level."""


def _grow(
    place: Place,
    finder: Finder,
    lists: Array,
    rule: SplitRule,
    limits: Limits,
    generator: Any = None,
) -> Trees:
    """Grow a tree.

    Parameters
    ----------
    place : Place
        Where the rows are.
    finder : Finder
        Knows the rows and finds their thresholds.
    lists : int32 array (d, n)
        The rows in the order in which the finder wants them.
    rule, limits
        How splits are judged, and when growth stops.
    generator : numpy.random.Generator, optional
        Draws the columns of each node where ``limits.max_features`` is set.
    """
    program = _OneTree(place, finder, rule, limits, generator)
    grow_levels(program, program.first_level(lists))
    return program.builder.finish(place)


def grow_exact(
    place: Place,
    rows: Rows,
    rule: SplitRule,
    limits: Limits,
    generator: Any = None,
    *,
    find_order: Callable[[Rows], Array | None] | None = None,
) -> Trees:
    """Grow a tree on presorted lists, or counts of few distinct values, of the rows from `prepare_rows`.

    `find_order` may know the stable order of every numeric column, so that nothing need be sorted.
    """
    if rows.columns.shape[0] and not rule.penalize_thresholds:
        distinct = find_distinct(place, rows)
        if distinct is not None:
            counting = DistinctFinder(place, rows, rule, *distinct)
            return _grow(place, counting, counting.lists, rule, limits, generator)
    lists = presort(place, rows, None if find_order is None else find_order(rows))
    return _grow(place, ExactFinder(place, rows, rule), lists, rule, limits, generator)


def grow_binned(place: Place, rows: Rows, rule: SplitRule, limits: Limits, generator: Any = None) -> Trees:
    """Grow a tree on the histograms of the rows from `bin_rows`."""
    finder = BinnedFinder(place, rows, rule)
    return _grow(place, finder, finder.lists, rule, limits, generator)


def grow_clouds(
    place: Place,
    rows: Rows,
    table: Table,
    n_bins: int,
    is_estimating: bool,
    rule: SplitRule,
    limits: Limits,
    generator: Any = None,
) -> tuple[Trees, CloudsReport]:
    """Grow a tree by CLOUDS on rows from `prepare_rows`; also return how many intervals survived."""
    if rows.columns.shape[0] == 0:
        return grow_exact(place, rows, rule, limits, generator), CloudsReport(0, 0, 0, 0)
    bins, edges = cut_at_quantiles(place, table, n_bins)
    bins = place.xp.take(bins, from_host(rows.order, place), axis=1)
    finder = CloudsFinder(place, rows, rule, bins, edges, is_estimating=is_estimating)
    return _grow(place, finder, finder.lists, rule, limits, generator), finder.report


def _is_multiway(rows: Rows, rule: SplitRule) -> bool:
    return bool(rows.n_values) and rule.nominal == "multiway"


def _root_counts(place: Place, rows: Rows) -> Any:
    counts = histogram(place.xp, rows.labels, rows.n_classes, rows.weights)
    (on_host,) = read_together(place, counts)
    return on_host if rows.weights is None or not _is_float(rows) else np.astype(on_host, np.float64)


def _is_float(rows: Rows) -> bool:
    return rows.weights is not None and "float" in str(rows.weights.dtype)


def _integer_counts(rows: Rows, counts: Any) -> Any:
    """Make integers of the counts of whole rows again, after their trip as floats."""
    return counts if _is_float(rows) else np.astype(counts, np.int64)


class _LevelSplits(NamedTuple):
    """The best splits of a level, and how its rows go down."""

    splits: Splits  # read by the host
    cut: Any  # `ListSplits`: where the lists of the nodes are cut; None: rows go by value
    branch_at: Array | None  # (m,) branch of the row at each position, where they go by value


class _OneTree:
    """A tree that grows level by level, for `grow_levels`."""

    def __init__(self, place: Place, finder: Finder, rule: SplitRule, limits: Limits, generator: Any) -> None:
        counts = _root_counts(place, finder.rows)
        is_spread = rule.missing == "fractional" and finder.rows.has_missing
        is_integral = not (is_spread or _is_float(finder.rows))
        finder.rule = rule = prepare_rule(place, rule, counts, is_integral=is_integral)
        self.place, self.finder, self.rule, self.limits = place, finder, rule, limits
        self.generator = generator
        self.builder = Builder(finder.rows, rule, limits, counts)

    def first_level(self, lists: Array) -> Level | None:
        """Return the root, if it may be split."""
        rows, counts = self.finder.rows, self.builder.levels[0]["counts"]
        if not bool(self.builder.may_split(counts)[0]):
            return None
        ids, sizes = np.zeros(1, dtype=np.int64), np.asarray([rows.n_rows])
        entries = Entries(rows.labels, rows.weights)
        return self._finish(
            level_of(self.place, ids, _integer_counts(rows, counts), sizes, 0, lists, entries)
        )

    def _finish(self, level: Level) -> Level | None:
        """Let a compiled body grow all that is below a level; return the level where none serves."""
        rest = self.finder.finish(level, self.limits)
        if rest is None:
            return level
        self.builder.add_all(level.ids, rest.nodes, rest.threshold)
        return None

    def search(self, level: Level) -> _LevelSplits:
        """Find the best split of each node, and count the classes of its children."""
        place, rows, rule = self.place, self.finder.rows, self.rule
        choice = _choose(place, self.finder, level, rule, self._draw_columns(level))
        if choice.cut is not None:
            return _LevelSplits(_read_cuts(place, level, choice, choice.cut), choice.cut, None)
        branch_at, surrogates = _route(place, rows, level, rule, choice)
        places = _child_places(place, rows, level, rule, choice)
        splits = _read_splits(place, rows, level, choice, branch_at, places, surrogates)
        return _LevelSplits(splits, None, branch_at)

    def _draw_columns(self, level: Level) -> Array | None:
        """Draw which columns each node may use: bool (d, k), or None for all."""
        d, most = len(self.finder.rows.column_order), self.limits.max_features
        if most is None or most >= d:
            return None
        keys = self.generator.random((level.n_nodes, d))
        rank = np.argsort(np.argsort(keys, axis=1, stable=True), axis=1, stable=True)
        return from_host(np.permute_dims(rank < most, (1, 0)), self.place)

    def add(self, level: Level, found: _LevelSplits) -> NextLevel:
        """Split the nodes that gain enough."""
        return self.builder.add(level.ids, found.splits)

    def divide(self, level: Level, found: _LevelSplits, children: NextLevel) -> Level | None:
        """Lay out the rows of the children that may be split."""
        if children.ids.shape[0] == 0:
            return None
        place, rows = self.place, self.finder.rows
        if found.branch_at is None:
            new = _cut_lists(place, rows, level, found.cut, children)
        else:
            new = _send_rows(place, rows, level, self.rule, children, found.splits, found.branch_at)
        return self._finish(self.finder.follow(level, children, new))


# ---- the best split of each node


def _choose(place: Place, finder: Finder, level: Level, rule: SplitRule, allowed: Array | None) -> NodeChoice:
    xp, rows = place.xp, finder.rows
    numeric = nominal = branches = cut = None
    if rows.columns.shape[0]:
        numeric = finder.scan(level, allowed)
    if rows.n_values:
        nominal = scan_nominal(place, rows, level, rule)
    order = from_host(np.argsort(np.asarray(rows.column_order), stable=True), place)
    column, gain, score = choose_columns(place, rule, numeric, nominal, order, allowed)
    if numeric is not None:
        threshold, missing_left, cut = finder.locate(level, column, numeric)
    else:
        missing_left = xp.zeros(column.shape, dtype=xp.bool, device=place.device)
        threshold = xp.zeros(column.shape, dtype=xp.float32, device=place.device)
    if rows.n_values and rule.nominal == "binary":
        branches = find_subsets(place, rows, level, rule, nominal_column(xp, rows, column))
    if rule.missing == "surrogate" and rule.n_surrogates:
        cut = None  # surrogates want to know the branch of every row
    return NodeChoice(column, gain, score, threshold, missing_left, branches, cut)


# ---- the rows go down


def _read_cuts(place: Place, level: Level, choice: NodeChoice, cut: ListSplits) -> Splits:
    """Read the splits of nodes where a list of each is cut."""
    results = choice.column, choice.gain, choice.score, choice.threshold, choice.missing_left, cut.left
    column, gain, score, threshold, missing_left, left = read_together(place, *results)
    left = np.astype(left, np.int64)
    k, c = left.shape
    counts = np.reshape(np.stack((left, level.counts - left), axis=1), (2 * k, c))
    nothing = np.zeros((k, c), dtype=np.int64)
    return Splits(
        np.astype(column, np.int64),
        _rounded(gain),
        _rounded(score),
        threshold,
        missing_left,
        2 * np.arange(k),
        np.full(k, 2, dtype=np.int64),
        counts,
        np.sum(counts, axis=1),
        nothing,
        nothing[:, 0],
        None,
        None,
    )


def _cut_lists(place: Place, rows: Rows, level: Level, cut: ListSplits, step: NextLevel) -> Level:
    """Lay out the rows of the next level where a list of each node is cut."""
    is_live = np.reshape(step.is_live, (level.n_nodes, 2))
    branches = from_host(np.where(is_live, np.asarray([[0, 1]]), -1), place)
    sizes = step.branch_sizes
    lists = divide_lists(place.xp, level.lists, cut, level.block_at, branches, sizes, rows.n_rows)
    entries = Entries(level.labels, level.weights, level.source)
    return level_of(place, step.ids, step.counts, step.sizes, level.depth + 1, lists, entries)


def _route(
    place: Place, rows: Rows, level: Level, rule: SplitRule, choice: NodeChoice
) -> tuple[Array, SurrogateChoice | None]:
    """Return the branch (m,) of each row, and the surrogates that helped to find it."""
    branch_at = _route_by_value(place, rows, level, choice)
    if rule.missing != "surrogate" or rule.n_surrogates == 0:
        return branch_at, None
    found = find_surrogates(place, rows, level, choice.column, level.members, branch_at, rule.n_surrogates)
    if rows.has_missing:
        branch_at = follow_surrogates(place, rows, level, found, level.members, branch_at)
    return branch_at, found


def _route_by_value(place: Place, rows: Rows, level: Level, choice: NodeChoice) -> Array:
    """Return the branch (m,) that the row at each position takes, by its value; -1 where that is missing."""
    xp = place.xp
    here = rows_at(xp, level, level.members)
    column_at = xp.take(choice.column, level.block_at, axis=0)
    d_numeric = rows.columns.shape[0]
    by_number = by_code = None
    if d_numeric:
        value = take_flat(xp, rows.columns, numeric_column(xp, rows, column_at), here)
        cut = xp.take(choice.threshold, level.block_at, axis=0)
        by_number = xp.astype(xp.astype(value, cut.dtype) > cut, xp.int32)
        if rows.has_missing_numbers:
            by_number = xp.where(is_missing_number(xp, rows, value), -1, by_number)
    if rows.n_values:
        by_code = take_flat(xp, rows.codes, nominal_column(xp, rows, column_at), here)
        if choice.branches is not None:
            width = choice.branches.shape[1]
            at = xp.where(by_code < 0, width - 1, by_code)
            by_code = xp.where(by_code < 0, -1, take_flat(xp, choice.branches, level.block_at, at))
    if by_number is None or by_code is None:
        return by_code if by_number is None else by_number
    return xp.where(column_at < d_numeric, by_number, by_code)


def _child_places(
    place: Place, rows: Rows, level: Level, rule: SplitRule, choice: NodeChoice
) -> tuple[Any, Any]:
    """First child and number of branches (k,) of each node, on the host, which waits for multiway splits."""
    n_branches = np.full(level.n_nodes, 2, dtype=np.int64)
    if _is_multiway(rows, rule):
        (column,) = read_together(place, choice.column)
        column = np.astype(column, np.int64) - rows.columns.shape[0]
        widths = np.asarray([max(1, width) for width in rows.n_values])[np.clip(column, min=0)]
        n_branches = np.where(column >= 0, widths, n_branches)
    return np.cumulative_sum(n_branches) - n_branches, n_branches


def _read_splits(
    place: Place,
    rows: Rows,
    level: Level,
    choice: NodeChoice,
    branch_at: Array,
    places: tuple[Any, Any],
    surrogates: SurrogateChoice | None,
) -> Splits:
    """Count the classes of the children and bring the level's result to the host."""
    xp, (offset, n_branches) = place.xp, places
    n_children = int(np.sum(n_branches))
    k, c = level.n_nodes, rows.n_classes
    first_at = xp.take(from_host(offset, place), level.block_at, axis=0)
    child_at = first_at + branch_at
    if rows.has_missing:
        child_at = xp.where(branch_at < 0, n_children + level.block_at, child_at)
    label = xp.take(level.labels, level.members, axis=0)
    weights = None if level.weights is None else xp.take(level.weights, level.members, axis=0)
    counts = histogram(xp, child_at * c + label, (n_children + k) * c, weights)
    counts = xp.reshape(counts, (n_children + k, c))
    sizes = xp.sum(counts, axis=1) if weights is None else histogram(xp, child_at, n_children + k)
    results = [choice.column, choice.gain, choice.score, choice.threshold, choice.missing_left, counts, sizes]
    results += [] if surrogates is None else list(surrogates)
    results += [] if choice.branches is None else [choice.branches]
    column, gain, score, threshold, left, counts, sizes, *more = read_together(place, *results)
    branches = None if choice.branches is None else np.astype(more.pop(), np.int64)
    if not _is_float(rows) and level.source is None:
        counts = np.astype(counts, np.int64)
    sizes = np.astype(sizes, np.int64)
    return Splits(
        np.astype(column, np.int64),
        _rounded(gain),
        _rounded(score),
        threshold,
        left,
        offset,
        n_branches,
        counts[:n_children],
        sizes[:n_children],
        counts[n_children:],
        sizes[n_children:],
        branches,
        tuple(more) if more else None,
    )


def _rounded(values: Any) -> Any:
    """Drop the last bits, in which libraries differ where a measure takes logarithms."""
    return np.astype(np.astype(values, np.float32), np.float64)


def _send_rows(
    place: Place,
    rows: Rows,
    level: Level,
    rule: SplitRule,
    step: NextLevel,
    splits: Splits,
    branch_at: Array,
) -> Level:
    """Lay out the rows of the next level where each row takes a branch by its value."""
    xp, members = place.xp, level.members
    entries = Entries(level.labels, level.weights, level.source)
    lists, block_at = level.lists, level.block_at
    if rule.missing == "fractional" and bool(np.any(splits.missing_sizes[step.is_split] > 0)):
        lists, entries, members, block_at, branch_at = spread_missing(place, level, step, splits, branch_at)
    elif rows.has_missing:
        default = xp.take(from_host(step.default, place, xp.int32), block_at, axis=0)
        branch_at = xp.where(branch_at < 0, default, branch_at)
    goes_to = branch_at
    if not bool(np.all(step.is_live)):
        first_at = xp.take(from_host(splits.offset, place), block_at, axis=0)
        child_at = first_at + branch_at
        if rows.has_missing:
            child_at = xp.where(branch_at < 0, first_at, child_at)
        goes_to = xp.where(xp.take(from_host(step.is_live, place), child_at, axis=0), branch_at, -1)
    by_entry = scatter(xp, goes_to, members, entries.labels.shape[0])
    lists = split_lists(xp, lists, by_entry, step.branch_sizes)
    return level_of(place, step.ids, step.counts, step.sizes, level.depth + 1, lists, entries)
