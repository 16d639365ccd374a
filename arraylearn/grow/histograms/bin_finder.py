"""Thresholds from class histograms of bins or distinct values; small nodes are searched by sorted lists."""

from __future__ import annotations

import math

import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.arrays.order import argsort_rows, compress
from arraylearn.backend.arrays.segments import block_index, paired_histogram
from arraylearn.backend.namespace import HOST, Place, accumulator_dtype, from_host, to_host
from arraylearn.backend.random import as_generator
from arraylearn.grow.bounds import Constraint, constrain, keeps_bounds
from arraylearn.grow.builder import NO_SIBLING, NextLevel
from arraylearn.grow.criteria import gini_gains
from arraylearn.grow.finder import Finder, choose_body, values_at
from arraylearn.grow.formulas import NO_SPLIT
from arraylearn.grow.histograms.gini_bins import gini_bins
from arraylearn.grow.rows import Level, Rows, numeric_column, prepare_rows, rows_at, take_flat
from arraylearn.grow.split import SplitCandidates, SplitRule, is_gini, judge, midpoint
from arraylearn.grow.trees import Limits, Trees
from arraylearn.table import Table
from arraylearn.table.binning import bin_table, quantile_edges

__all__ = ["BinnedFinder", "bin_rows", "count_bins", "cut_at_quantiles"]

# Rows per bin in the sample from which edges are computed.
_ROWS_PER_BIN = 400
_SEED = 20_261_116


def bin_rows(
    place: Place, table: Table, codes: HostArray, n_classes: int, weights: HostArray | None, n_bins: int
) -> Rows:
    """Prepare rows whose numbers are replaced by the bins of `n_bins` quantiles."""
    xp = place.xp
    if table.numeric.shape[1] == 0:
        return prepare_rows(place, table, codes, n_classes, weights)
    bins, edges = cut_at_quantiles(place, table, n_bins, weights)
    thin = table._replace(numeric=table.numeric[:, :0])
    rows = prepare_rows(place, thin, codes, n_classes, weights)
    columns = xp.take(bins, from_host(rows.order, place), axis=1)
    has_missing = bool(to_host(xp.any(columns == edges.shape[1] + 1)))
    schema = table.schema
    return rows._replace(
        columns=columns,
        edges=edges,
        has_missing_numbers=has_missing,
        column_order=(*schema.numeric_idx, *schema.nominal_idx),
    )


def count_bins(rows: Rows) -> int:
    """Return the number of bins of rows from `bin_rows`; the last one is that of missing values."""
    return 2 + (0 if rows.edges is None else int(rows.edges.shape[1]))


def cut_at_quantiles(
    place: Place, table: Table, n_bins: int, weights: HostArray | None = None
) -> tuple[Array, HostArray]:
    """Return bins (d, n) of the numbers of a table, and their edges (d, b) on the host.

    The edges are quantiles of the rows by their weights (n,), on the host.
    """
    xp = place.xp
    numeric, weights = _sample(place, table.numeric, weights, _ROWS_PER_BIN * n_bins)
    edges = quantile_edges(xp, numeric, n_bins, weights)
    edges_host = to_host(edges)
    # as wide as the column with the most edges needs
    width = max(1, int(np.max(np.sum(np.astype(np.isfinite(edges_host), np.int64), axis=1))))
    return bin_table(xp, table.numeric, edges[:, :width]).codes, edges_host[:, :width]


def _sample(
    place: Place, numeric: Array, weights: HostArray | None, size: int
) -> tuple[Array, HostArray | None]:
    """Take a random sample of rows, the same one at each call, that is large enough to place the edges."""
    n = numeric.shape[0]
    if n <= 2 * size:
        return numeric, weights
    chosen = np.sort(as_generator(_SEED).permutation(n)[:size])
    taken = place.xp.take(numeric, from_host(chosen, place), axis=0)
    return taken, None if weights is None else weights[chosen]


class BinnedFinder(Finder):
    """Finds thresholds in the histograms of a level; one of two siblings is counted, the other subtracted.

    Thresholds are bins, or with `values` midpoints of the distinct values that the bins number: if these are
    few, counting is faster than sorting.
    """

    # nodes whose histograms have more cells than this many per row are searched by sorted lists
    cells_per_row = 1.0

    def __init__(
        self,
        place: Place,
        rows: Rows,
        rule: SplitRule,
        limits: Limits,
        generator: np.random.Generator | None,
        bins: Array,
        n_bins: int,
        values: Array | None = None,
    ) -> None:
        super().__init__(place, rows, rule, limits, generator)
        self.bins, self.n_bins, self.values = bins, n_bins, values  # (d, n), the last one missing; (d, b)
        if values is not None:
            self.cells_per_row = 4.0  # searching lists with many equal values is slow: count longer

    def scan(self, level: Level, allowed: Array | None) -> SplitCandidates:
        """Find the best bin of every column in every node; thresholds are bins."""
        held = self._count_held(level)
        dtype = accumulator_dtype(self.place)
        constraint = constrain(self.place, self.rule.trend, level, dtype)
        given = self.rows.has_missing_numbers, held, constraint
        return _scan_histogram(self.place, level, self.rule, *given)

    def locate(self, level: Level, column: Array, numeric: SplitCandidates) -> tuple[Array, Array]:
        """Turn the bins of the chosen columns into midpoints between values that occur in the node."""
        threshold, missing_left = super().locate(level, column, numeric)
        if self.values is None or level.sums is None:
            return threshold, missing_left
        xp, place = self.place.xp, self.place
        column_idx = numeric_column(xp, self.rows, column)
        nodes = xp.arange(level.n_nodes, dtype=xp.int64, device=place.device)
        d, k, c, b = level.sums.shape
        flat = xp.reshape(level.sums, (d * k, c, b))
        weight = xp.sum(xp.take(flat, column_idx * k + nodes, axis=0), axis=1)[:, :-1]  # (k, b)
        cut = xp.astype(threshold, xp.int64)
        bins = xp.arange(b - 1, dtype=xp.int64, device=place.device)
        is_above = (bins[None, :] > cut[:, None]) & (weight > 0)
        above = xp.argmax(xp.astype(is_above, xp.int8), axis=1)
        low = take_flat(xp, self.values, column_idx, cut)
        # if only missing values are above, the threshold is the value itself
        high = xp.where(xp.any(is_above, axis=1), take_flat(xp, self.values, column_idx, above), low)
        return midpoint(xp, low, high), missing_left

    def begin(self, level: Level) -> Level:
        """Count the bins of the roots."""
        if self.rows.columns.shape[0] == 0:
            return level
        return level._replace(sums=self._count(level, level.members, level.block_at, level.n_nodes))

    def follow(self, old: Level, step: NextLevel, new: Level) -> tuple[Finder, Level]:
        """Count the bins of the next level, or switch to sorted lists once nodes are small."""
        if self.rows.columns.shape[0] == 0:
            return self, new
        if new.n_nodes * self.n_bins * self.rows.n_classes > self.cells_per_row * new.lists.shape[1]:
            return self._sort(new)
        return self, new._replace(sums=self._subtract(old, step, new))

    def finish(self, level: Level) -> Trees | None:
        """Grow all subtrees below a level by a compiled body; None: growth continues level by level."""
        body = choose_body(self.place, self.rows, level, self.rule, self.limits, by_lists=False)
        if isinstance(body, str):
            return None
        limits = self._integer_limits(level, self.rule.enough)
        nodes = body(self.rows, level, self.bins, self.n_bins, limits, self.rule)
        if self.values is None:
            return nodes
        # if only missing values are above, the threshold is the value itself
        high: HostArray = nodes.high
        upper = np.where(high < self.n_bins - 1, high, nodes.threshold)
        column = np.minimum(nodes.feature, self.bins.shape[0] - 1)  # nominal nodes have no thresholds
        both = (values_at(self.place, self.values, column, at) for at in (nodes.threshold, upper))
        return nodes._replace(threshold=midpoint(HOST.xp, *both))

    def _count(self, level: Level, entries: Array, block_at: Array, n_nodes: int) -> Array:
        """Class weights, or sums of weights without classes, (d, k, c, b) of every bin.

        The last bin holds the missing values.
        """
        xp, c = self.place.xp, 1 if level.labels is None else self.rows.n_classes
        d, keys = self.rows.columns.shape[0], block_at
        if level.labels is not None:
            keys = block_at * c + xp.take(level.labels, entries, axis=0)
        weights = None if level.weights is None else xp.take(level.weights, entries, axis=0)
        bins = self.bins
        if level.source is not None or entries.shape[0] < self.rows.n_rows:
            bins = xp.take(bins, rows_at(xp, level, entries), axis=1)
        elif level.depth > 0:
            bins = xp.take(bins, entries, axis=1)
        counts = paired_histogram(xp, bins, keys, self.n_bins, n_nodes * c, weights)
        return xp.reshape(counts, (d, n_nodes, c, self.n_bins))

    def _count_held(self, level: Level) -> Array | None:
        """Count rows (d, k, 1, b) in every bin, if rows are counted beside their weights."""
        held = level.entries.rows
        if held is None:
            return None
        unlabelled = level._replace(entries=level.entries._replace(labels=None, weights=held))
        return self._count(unlabelled, level.members, level.block_at, level.n_nodes)

    def _subtract(self, old: Level, step: NextLevel, new: Level) -> Array:
        """Count the smaller one of two siblings; the other is the parent less that one."""
        xp, place = self.place.xp, self.place
        k = new.n_nodes
        if new.source is not None or old.sums is None or _is_float(xp, old.sums):
            # fractional weights do not subtract to exactly 0
            return self._count(new, new.members, new.block_at, k)
        sibling = step.sibling
        is_derived = (sibling != NO_SIBLING) & (
            (new.sizes > new.sizes[sibling]) | ((new.sizes == new.sizes[sibling]) & (np.arange(k) > sibling))
        )
        if not bool(np.any(is_derived)):
            return self._count(new, new.members, new.block_at, k)
        counted, derived = np.nonzero(~is_derived)[0], np.nonzero(is_derived)[0]
        number = np.cumulative_sum(np.astype(~is_derived, np.int64)) - 1
        is_counted_at = xp.take(from_host(~is_derived, place), new.block_at, axis=0)
        size = int(np.sum(new.sizes[counted]))
        entries = compress(xp, new.members, is_counted_at, size)
        block_at = block_index(xp, from_host(new.sizes[counted], place), size)
        found = self._count(new, entries, block_at, counted.shape[0])
        parents = xp.take(old.sums, from_host(step.parent[derived], place), axis=1)
        rest = parents - xp.take(found, from_host(number[sibling[derived]], place), axis=1)
        order = np.argsort(np.concat((counted, derived)), stable=True)
        return xp.take(xp.concat((found, rest), axis=1), from_host(order, place), axis=1)

    def _sort(self, level: Level) -> tuple[Finder, Level]:
        """Sort the rows of the level; return the finder by sorted lists, and the level for it."""
        xp, rows = self.place.xp, self.rows
        entries = level.members
        bins = xp.take(self.bins, rows_at(xp, level, entries), axis=1)
        key = level.block_at[None, :] * self.n_bins + xp.astype(bins, xp.int64)
        order = argsort_rows(xp, xp.astype(key, xp.int32))
        lists = xp.reshape(xp.take(entries, xp.reshape(order, (-1,)), axis=0), order.shape)
        if rows.edges is not None:
            columns = xp.astype(rows.columns, xp.float32)
            if rows.has_missing_numbers:
                columns = xp.where(rows.columns == self.n_bins - 1, math.nan, columns)
            rows = rows._replace(columns=columns)
        return Finder(self.place, rows, self.rule, self.limits, self.generator), level._replace(lists=lists)


def _is_float(xp: Namespace, x: Array) -> bool:
    return bool(xp.isdtype(x.dtype, "real floating"))


def _scan_histogram(
    place: Place,
    level: Level,
    rule: SplitRule,
    has_missing: bool,
    held: Array | None,
    constraint: Constraint | None,
) -> SplitCandidates:
    xp, histogram = place.xp, level.sums
    assert histogram is not None
    known, missing = histogram[..., :-1], histogram[..., -1:]  # (d, k, c, b), (d, k, c, 1)
    if rule.missing != "direction" or not has_missing:
        best, cut = _best_bins(place, rule, known, None if held is None else held[..., :-1], constraint)
        return _judge_bins(place, level, rule, known, best, cut, holds_all=not has_missing)
    # missing rows come after the last bin, and are right of every cut, or before the first one
    after = xp.concat((known, missing), axis=-1)
    before = xp.concat((known[..., :1] + missing, known[..., 1:]), axis=-1)
    held_before = None
    if held is not None:
        held_before = xp.concat((held[..., :1] + held[..., -1:], held[..., 1:-1]), axis=-1)
    best_right, at_right = _best_bins(place, rule, after, held, constraint)
    best_left, at_left = _best_bins(place, rule, before, held_before, constraint)
    goes_left = best_left > best_right
    if is_gini(rule) and _is_float(xp, histogram):
        # rounded, so that the order of summation does not decide
        total = xp.permute_dims(xp.sum(histogram, axis=-1), (2, 0, 1))
        gains = (gini_gains(xp, best, total) for best in (best_left, best_right))
        left_gain, right_gain = (xp.astype(gain, xp.float32) for gain in gains)
        goes_left = left_gain > right_gain
    shifted = xp.concat((before, xp.zeros_like(missing)), axis=-1)
    chosen = xp.where(goes_left[..., None, None], shifted, after)
    cut, best = xp.where(goes_left, at_left, at_right), xp.maximum(best_left, best_right)
    return _judge_bins(place, level, rule, chosen, best, cut)._replace(missing_left=goes_left)


def _best_bins(
    place: Place, rule: SplitRule, known: Array, held: Array | None, constraint: Constraint | None
) -> tuple[Array, Array]:
    """Score every bin and return the best score of each node and its first bin: (d, k) each."""
    xp, dtype = place.xp, accumulator_dtype(place)
    least, is_open = rule.enough, None
    if held is not None:
        below = xp.cumulative_sum(xp.astype(held[..., 0, :], dtype), axis=-1)
        is_open = (below >= rule.enough_rows) & (below[..., -1:] - below >= rule.enough_rows)
    if constraint is not None:
        running = xp.cumulative_sum(known, axis=-1)
        left = running[:, :, -1, :], xp.sum(running, axis=2)
        total = left[0][..., -1:], left[1][..., -1:]
        bounds = constraint.bounds[0, :, None], constraint.bounds[1, :, None]
        is_kept = keeps_bounds(xp, constraint.trend[: known.shape[0], None, None], bounds, left, total)
        is_open = is_kept if is_open is None else is_open & is_kept
    if is_gini(rule):
        return gini_bins(xp, known, least, is_open)
    left = xp.cumulative_sum(xp.astype(known, dtype), axis=-1)
    right = left[..., -1:] - left
    is_allowed = (xp.sum(left, axis=-2) >= least) & (xp.sum(right, axis=-2) >= least)
    if is_open is not None:
        is_allowed = is_allowed & is_open
    sides = xp.stack((left, right))  # (2, d, k, c, b)
    scores = rule.threshold_measure(xp, xp.permute_dims(sides, (1, 2, 4, 0, 3)))
    # in float32: see `choose_columns`
    scores = xp.where(is_allowed, xp.astype(xp.astype(scores, xp.float32), dtype), -xp.inf)
    return xp.max(scores, axis=-1), xp.argmax(scores, axis=-1)


def _judge_bins(
    place: Place,
    level: Level,
    rule: SplitRule,
    known: Array,
    best: Array,
    cut: Array,
    *,
    holds_all: bool = False,
) -> SplitCandidates:
    """Judge the best bin (d, k) of each column; `holds_all` where the bins hold all rows of the node."""
    xp, dtype = place.xp, accumulator_dtype(place)
    weight = xp.astype(xp.sum(level.counts_on, axis=1), dtype)[None, :]
    total = level.counts_on[None, :, :] if holds_all else xp.sum(known, axis=-1)  # (d, k, c)
    if is_gini(rule):
        by_class = xp.permute_dims(total, (2, 0, 1))
        gain = gini_gains(xp, xp.where(best == NO_SPLIT, 0.0, best), by_class)
        if not holds_all:
            gain = gain * (xp.astype(xp.sum(by_class, axis=0), dtype) / weight)
        score, has_split = gain, best != NO_SPLIT
    else:
        left = xp.cumulative_sum(xp.astype(known, dtype), axis=-1)
        at = xp.broadcast_to(cut[..., None, None], (*left.shape[:-1], 1))
        left_counts = xp.take_along_axis(left, at, axis=-1)[..., 0]
        sides = xp.stack((left_counts, xp.astype(total, dtype) - left_counts), axis=-2)
        gain, score = judge(xp, rule, sides, xp.broadcast_to(weight, cut.shape))
        has_split = best > -xp.inf
    threshold = xp.astype(cut, xp.float32)
    return SplitCandidates(xp.where(has_split, gain, -xp.inf), xp.where(has_split, score, -xp.inf), threshold)
