"""Single classification trees: on presorted lists, counts of distinct values, histograms, or by CLOUDS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.arrays.order import number_values
from arraylearn.backend.namespace import Place, from_host
from arraylearn.grow.finder import ClassFinder
from arraylearn.grow.histograms.bin_finder import BinnedFinder, cut_at_quantiles
from arraylearn.grow.histograms.clouds import CloudsFinder, CloudsReport
from arraylearn.grow.histograms.distinct_finder import MOST_VALUES, DistinctFinder
from arraylearn.grow.loop import grow
from arraylearn.grow.rows import Entries, Rows
from arraylearn.grow.sorted_lists.list_finder import ExactFinder, presort
from arraylearn.grow.split import SplitRule, prepare_rule
from arraylearn.grow.trees import Limits, Trees
from arraylearn.table import Table

__all__ = ["grow_binned", "grow_clouds", "grow_exact"]


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
        distinct = number_values(place.xp, rows.columns, MOST_VALUES)
        if distinct is not None:
            counting = DistinctFinder(place, rows, rule, limits, generator, *distinct)
            return _grow(counting, counting.lists)
    lists = presort(place, rows, None if find_order is None else find_order(rows))
    return _grow(ExactFinder(place, rows, rule, limits, generator), lists)


def grow_binned(place: Place, rows: Rows, rule: SplitRule, limits: Limits, generator: Any = None) -> Trees:
    """Grow a tree on the histograms of the rows from `bin_rows`."""
    finder = BinnedFinder(place, rows, rule, limits, generator)
    return _grow(finder, finder.lists)


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
    given = place, rows, rule, limits, generator, bins, edges
    finder = CloudsFinder(*given, is_estimating=is_estimating)
    return _grow(finder, finder.lists), finder.report


def _grow(finder: ClassFinder, lists: Array) -> Trees:
    """Grow a tree on all rows; `lists` (d, n) hold them in the order in which the finder wants them."""
    rows = finder.rows
    counts = rows.class_weights
    is_spread = finder.rule.missing == "fractional" and rows.has_missing
    is_integral = counts.dtype.kind == "i" and not is_spread
    finder.rule = prepare_rule(finder.place, finder.rule, counts, is_integral=is_integral)
    entries = Entries(rows.labels, rows.weights)
    return grow(finder, lists, entries, counts[None, :], np.asarray([rows.n_rows])).finish(finder.place)
