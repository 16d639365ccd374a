"""The loop of growth, and the single trees that are grown by it.

All nodes of a level, of all trees of a batch, are split at once. Single trees, forests and boosting share the
loop; they differ in their finders::

    level -- choose --> best splits -- route, count --> read by the host: one sync -- accept, add --> children
      ^                                                                                                  |
      +----------------------- divide: lay out the rows of children that may be split <------------------+
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.arrays.order import argsort_rows, number_values
from arraylearn.backend.namespace import Place, from_host, to_host
from arraylearn.grow.builder import Builder, Splits
from arraylearn.grow.divide import Routed, divide_level, keep_nodes, read_splits, route_rows
from arraylearn.grow.finder import Finder, NodeChoice
from arraylearn.grow.histograms.bin_finder import BinnedFinder, count_bins, cut_at_quantiles
from arraylearn.grow.histograms.clouds import CloudsFinder, CloudsReport
from arraylearn.grow.rows import Entries, Level, Roots, Rows, level_of
from arraylearn.grow.split import SplitRule, prepare_rule
from arraylearn.grow.trees import Limits, Trees
from arraylearn.table import Table

__all__ = ["grow", "grow_binned", "grow_clouds", "grow_exact", "presort"]

# With at most so many distinct values in each column, counting them is faster than sorting rows.
_MOST_VALUES = 128


def grow(finder: Finder, roots: Roots) -> Builder:
    """Grow trees from roots whose lists are in the order that the finder needs; return all their nodes."""
    place, rule = finder.place, finder.rule
    builder = Builder(finder.rows, rule, finder.limits, roots.counts)
    level = _first_level(finder, roots)
    while level is not None:
        below = finder.finish(level)
        if below is not None:  # a compiled body has grown all subtrees
            builder.add_all(level.ids, below)
            break
        if level.depth == 0:
            level = finder.begin(level)
        choice = finder.choose(level)
        routed, splits = _look(finder, builder, level, choice)
        again = finder.choose_again(level, choice, splits)
        if again is not None:
            routed, splits = _look(finder, builder, level, again)
        children = builder.add(level.ids, splits, finder.may_split)
        if not children.ids.shape[0]:
            break
        new = divide_level(place, finder.rows, level, rule, routed, splits, children)
        finder, level = finder.follow(level, children, new._replace(bounds=children.bounds))
    return builder


def _first_level(finder: Finder, roots: Roots) -> Level | None:
    """Return the roots that may be split."""
    place, (lists, entries, counts, sizes) = finder.place, roots
    is_live = finder.may_split(counts, sizes, 0)
    if not bool(np.any(is_live)):
        return None
    level = level_of(place, np.arange(sizes.shape[0]), counts, sizes, 0, lists, entries)
    if finder.rule.trend is not None:
        level = level._replace(bounds=np.tile([-np.inf, np.inf], (sizes.shape[0], 1)))
    return level if bool(np.all(is_live)) else keep_nodes(place, level, is_live)


def _look(finder: Finder, builder: Builder, level: Level, choice: NodeChoice) -> tuple[Routed, Splits]:
    """Find the branches that rows take by the best splits, and read the sums that `accept` needs."""
    routed = route_rows(finder.place, finder.rows, level, finder.rule, choice)
    splits = read_splits(finder.place, finder.rows, level, finder.rule, routed)
    return routed, finder.accept(level, splits, builder)


# ---- single trees


def grow_exact(
    place: Place,
    rows: Rows,
    rule: SplitRule,
    limits: Limits,
    generator: np.random.Generator | None = None,
    *,
    find_order: Callable[[Rows], Array | None] | None = None,
) -> Trees:
    """Grow a tree on presorted lists, or counts of few distinct values, of the rows from `prepare_rows`.

    `find_order` may return the stable order of every numeric column, if known; otherwise columns are sorted.
    """
    given = place, rows, _prepare(place, rows, rule), limits, generator
    if rows.columns.shape[0] == 0:
        return _grow_one(BinnedFinder(*given, rows.columns, 1), _in_order(place, rows))
    if not rule.penalize_thresholds:
        distinct = number_values(place.xp, rows.columns, _MOST_VALUES)
        if distinct is not None:
            bins, values = distinct
            return _grow_one(BinnedFinder(*given, bins, values.shape[1] + 1, values), _in_order(place, rows))
    return _grow_one(Finder(*given), presort(place, rows, None if find_order is None else find_order(rows)))


def grow_binned(
    place: Place, rows: Rows, rule: SplitRule, limits: Limits, generator: np.random.Generator | None = None
) -> Trees:
    """Grow a tree on the histograms of the rows from `bin_rows`."""
    given = place, rows, _prepare(place, rows, rule), limits, generator
    return _grow_one(BinnedFinder(*given, rows.columns, count_bins(rows)), _in_order(place, rows))


def grow_clouds(
    place: Place,
    rows: Rows,
    table: Table,
    n_bins: int,
    is_estimating: bool,
    rule: SplitRule,
    limits: Limits,
    generator: np.random.Generator | None = None,
) -> tuple[Trees, CloudsReport]:
    """Grow a tree by CLOUDS on rows from `prepare_rows`; also return how many intervals survived."""
    if rows.columns.shape[0] == 0:
        return grow_exact(place, rows, rule, limits, generator), CloudsReport(0, 0, 0, 0)
    weights = None
    if rows.weights is not None or rows.n_rows < table.n_rows:
        weights = np.zeros(table.n_rows)
        weights[rows.order] = 1 if rows.weights is None else to_host(rows.weights)
    bins, edges = cut_at_quantiles(place, table, n_bins, weights)
    bins = place.xp.take(bins, from_host(rows.order, place), axis=1)
    given = place, rows, _prepare(place, rows, rule), limits, generator, bins, edges
    finder = CloudsFinder(*given, is_estimating=is_estimating)
    return _grow_one(finder, _in_order(place, rows)), finder.report


def presort(place: Place, rows: Rows, order: Array | None = None) -> Array:
    """Sort every numeric column once; `order` (d, n) is their stable order if it is known already.

    Returns
    -------
    int32 array (d, n)
        Rows of each column in ascending order, missing values last; one list of all rows where there are no
        numeric columns.
    """
    xp = place.xp
    if rows.columns.shape[0] == 0:
        return _in_order(place, rows)
    return xp.astype(argsort_rows(xp, rows.columns) if order is None else order, xp.int32)


def _in_order(place: Place, rows: Rows) -> Array:
    """Return one list (1, n) of all rows."""
    return place.xp.arange(rows.n_rows, dtype=place.xp.int32, device=place.device)[None, :]


def _prepare(place: Place, rows: Rows, rule: SplitRule) -> SplitRule:
    """Return the rule, with a criterion for exact scores if the weights stay integers."""
    assert rows.class_weights is not None
    is_spread = rule.missing == "fractional" and rows.has_missing
    if rule.least_rows <= 1 and not is_spread:
        rule = rule._replace(least_rows=0)  # any side of positive weight has a row
    is_integral = rows.class_weights.dtype.kind == "i" and not is_spread
    return prepare_rule(place, rule, rows.class_weights, is_integral=is_integral)


def _grow_one(finder: Finder, lists: Array) -> Trees:
    """Grow a tree of all rows, given in these lists."""
    rows = finder.rows
    assert rows.class_weights is not None
    counts, sizes = rows.class_weights[None, :], np.asarray([rows.n_rows])
    entries = Entries(rows.labels, rows.weights)
    if finder.rule.least_rows > 0:
        xp = finder.place.xp
        entries = entries._replace(rows=xp.ones(rows.n_rows, dtype=xp.int64, device=finder.place.device))
    return grow(finder, Roots(lists, entries, counts, sizes)).finish(finder.place)
