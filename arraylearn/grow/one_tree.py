"""Single classification trees: on presorted lists, counts of distinct values, histograms, or by CLOUDS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.arrays.order import argsort_rows, number_values
from arraylearn.backend.namespace import Place, from_host
from arraylearn.grow.builder import Builder
from arraylearn.grow.finder import ClassFinder
from arraylearn.grow.finish import Rest, finish_bins, finish_lists
from arraylearn.grow.histograms.bin_finder import BinnedFinder, count_bins, cut_at_quantiles
from arraylearn.grow.histograms.clouds import CloudsFinder, CloudsReport
from arraylearn.grow.histograms.distinct_finder import MOST_VALUES, DistinctFinder
from arraylearn.grow.loop import grow
from arraylearn.grow.rows import Entries, Roots, Rows
from arraylearn.grow.sorted_lists.list_finder import ExactFinder
from arraylearn.grow.split import SplitRule, may_split, prepare_rule
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
    rule = _prepare(place, rows, rule)
    given = place, rows, rule, limits
    if rows.columns.shape[0] and not rule.penalize_thresholds:
        distinct = number_values(place.xp, rows.columns, MOST_VALUES)
        if distinct is not None:
            roots, (bins, values) = _roots(rows, _in_order(place, rows)), distinct
            return _grow(
                *given,
                roots,
                lambda: finish_bins(place, rows, roots, rule, limits, bins, values.shape[1] + 1, values),
                lambda: DistinctFinder(*given, generator, bins, values),
            )
    roots = _roots(rows, presort(place, rows, None if find_order is None else find_order(rows)))
    return _grow(
        *given,
        roots,
        lambda: finish_lists(place, rows, roots, rule, limits),
        lambda: ExactFinder(*given, generator),
    )


def grow_binned(place: Place, rows: Rows, rule: SplitRule, limits: Limits, generator: Any = None) -> Trees:
    """Grow a tree on the histograms of the rows from `bin_rows`."""
    rule = _prepare(place, rows, rule)
    given, roots = (place, rows, rule, limits), _roots(rows, _in_order(place, rows))
    return _grow(
        *given,
        roots,
        lambda: finish_bins(place, rows, roots, rule, limits, rows.columns, count_bins(rows), None),
        lambda: BinnedFinder(*given, generator),
    )


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
    given = place, rows, _prepare(place, rows, rule), limits, generator, bins, edges
    finder = CloudsFinder(*given, is_estimating=is_estimating)
    return grow(finder, _roots(rows, _in_order(place, rows))).finish(place), finder.report


def presort(place: Place, rows: Rows, order: Array | None = None) -> Array:
    """Sort every numeric column once; `order` (d, n) is the stable order where it is known already.

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


def _roots(rows: Rows, lists: Array) -> Roots:
    """Return the root of one tree of all rows."""
    counts, sizes = rows.class_weights[None, :], np.asarray([rows.n_rows])
    return Roots(lists, Entries(rows.labels, rows.weights), counts, sizes)


def _prepare(place: Place, rows: Rows, rule: SplitRule) -> SplitRule:
    """Return the rule with what it takes to score these rows exactly, where weights stay integers."""
    is_spread = rule.missing == "fractional" and rows.has_missing
    is_integral = rows.class_weights.dtype.kind == "i" and not is_spread
    return prepare_rule(place, rule, rows.class_weights, is_integral=is_integral)


def _grow(
    place: Place,
    rows: Rows,
    rule: SplitRule,
    limits: Limits,
    roots: Roots,
    finish: Callable[[], Rest | None],
    make_finder: Callable[[], ClassFinder],
) -> Trees:
    """Grow a tree: by a compiled body where `finish` finds one that serves, else by the loop of all trees."""
    if not bool(may_split(limits, roots.counts, 0)[0]):
        return Builder(rows, rule, limits, roots.counts).finish(place)
    rest = finish()
    if rest is None:
        return grow(make_finder(), roots).finish(place)
    builder = Builder(rows, rule, limits, roots.counts)
    builder.add_all(np.zeros(1, dtype=np.int64), rest.nodes, rest.threshold)
    return builder.finish(place)
