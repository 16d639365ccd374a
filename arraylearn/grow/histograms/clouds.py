"""CLOUDS: the Gini gain at the quantiles, an estimate between them, a search where the estimate is high."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.arrays.order import argsort_rows, compress
from arraylearn.backend.arrays.segments import segment_max
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host, to_host
from arraylearn.grow.criteria import gini_gains, gini_scores
from arraylearn.grow.finder import Finder
from arraylearn.grow.formulas import NO_SPLIT
from arraylearn.grow.histograms.bin_finder import BinnedFinder
from arraylearn.grow.rows import Level, Rows, rows_at, take_flat
from arraylearn.grow.sorted_lists.thresholds import sort_values
from arraylearn.grow.split import SplitCandidates, SplitRule, midpoint
from arraylearn.grow.trees import Limits

__all__ = ["CloudsFinder", "CloudsReport"]


class CloudsReport(NamedTuple):
    """How many intervals and rows CLOUDS searched."""

    n_intervals: int  # intervals with rows in the nodes that were split by quantiles
    n_survived: int  # those that were searched
    n_searched_rows: int  # rows, counted for each column, in the latter
    n_rows: int  # rows, counted for each column, in all of these nodes

    @property
    def survival_ratio(self) -> float:
        """Share of the intervals that were searched."""
        return self.n_survived / max(1, self.n_intervals)


class CloudsFinder(BinnedFinder):
    """Finds thresholds at the quantiles and, with estimation, between them."""

    def __init__(
        self,
        place: Place,
        rows: Rows,
        rule: SplitRule,
        limits: Limits,
        generator: np.random.Generator | None,
        bins: Array,
        edges: HostArray,
        *,
        is_estimating: bool,
    ) -> None:
        super().__init__(place, rows, rule, limits, generator, bins, edges.shape[1] + 2)
        self.edges = from_host(edges, place, rows.columns.dtype)
        self.is_estimating = is_estimating
        self.report = CloudsReport(0, 0, 0, 0)

    def scan(self, level: Level, allowed: Array | None) -> SplitCandidates:
        """Find the best quantile of every column in every node, then search the intervals that survive."""
        found, xp = super().scan(level, allowed), self.place.xp
        cut = xp.astype(found.threshold, xp.int64)
        at_edge = found._replace(threshold=xp.take_along_axis(self.edges, cut, axis=1))
        return self._search(level, at_edge) if self.is_estimating else at_edge

    def finish(self, level: Level) -> None:
        """Return None: no compiled body searches intervals."""

    def _search(self, level: Level, at_edge: SplitCandidates) -> SplitCandidates:
        """Search the intervals whose estimate beats the best quantile of the node."""
        xp, place = self.place.xp, self.place
        estimate, weight = _estimate(place, level.sums)  # (d, k, b)
        best = xp.max(at_edge.gain, axis=0)  # (k,)
        is_alive = (estimate > best[None, :, None]) & (weight > 1)
        entries, block_at = level.members, level.block_at
        bins = xp.take(self.bins, rows_at(xp, level, entries), axis=1)  # (d, m)
        d, m = bins.shape
        n_known = self.n_bins - 1
        cell = (block_at[None, :] * self.n_bins) + xp.astype(bins, xp.int64)
        padded = xp.concat((is_alive, xp.zeros_like(is_alive[..., :1])), axis=2)
        flags = xp.reshape(padded, (d, level.n_nodes * self.n_bins))
        is_searched = xp.take_along_axis(flags, cell, axis=1)
        sizes = to_host(
            xp.stack(
                [
                    xp.sum(xp.astype(weight > 0, xp.int64)),
                    xp.sum(xp.astype(is_alive, xp.int64)),
                    xp.sum(xp.astype(is_searched, xp.int64)),
                ]
            )
        )
        n_intervals, n_survived, n_rows = (int(size) for size in sizes)
        self._count_up(n_intervals, n_survived, n_rows, d * m)
        if n_rows == 0:
            return at_edge
        positions = xp.arange(d * m, dtype=xp.int64, device=place.device)
        searched = compress(xp, positions, xp.reshape(is_searched, (-1,)), n_rows)
        column_idx, position = searched // m, searched % m
        entry = xp.take(entries, position, axis=0)
        value = take_flat(xp, self.rows.columns, column_idx, rows_at(xp, level, entry))
        column_cell = column_idx * (level.n_nodes * n_known) + (
            xp.take(block_at, position, axis=0) * n_known
            + xp.astype(xp.take(xp.reshape(bins, (-1,)), searched, axis=0), xp.int64)
        )
        return self._merge(level, at_edge, column_cell, value, entry)

    def _merge(
        self, level: Level, at_edge: SplitCandidates, cell: Array, value: Array, entry: Array
    ) -> SplitCandidates:
        """Scan the surviving rows, interval after interval, and keep what beats the quantiles."""
        xp, shape = self.place.xp, at_edge.gain.shape
        by_value = argsort_rows(xp, value[None, :])[0, :]
        by_cell = argsort_rows(xp, xp.take(cell, by_value, axis=0)[None, :])[0, :]
        order = xp.take(by_value, by_cell, axis=0)
        cell, value, entry = (xp.take(part, order, axis=0) for part in (cell, value, entry))
        left, right, totals = self._sides(level, cell, entry, self.rows.n_classes)
        group = cell // (self.n_bins - 1)  # column and node
        scores = self._scores(cell, value, left, right)
        if (held := self._count_held(level)) is not None:
            rows = level.entries._replace(labels=xp.zeros_like(level.labels), weights=level.entries.rows)
            below, above, _ = self._sides(level._replace(entries=rows, sums=held), cell, entry, 1)
            is_large = (below >= self.rule.enough_rows) & (above >= self.rule.enough_rows)
            scores = xp.where(is_large[0, :], scores, NO_SPLIT)
        n_groups = shape[0] * shape[1]
        best = segment_max(xp, scores, group, n_groups)
        is_hit = (scores != NO_SPLIT) & (scores == xp.take(best, group, axis=0))
        n = cell.shape[0]
        countdown = n - xp.arange(n, dtype=xp.int64, device=self.place.device)
        latest = segment_max(xp, xp.where(is_hit, countdown, 0), group, n_groups)
        at = xp.where(latest > 0, n - latest, 0)
        high = xp.take(value, xp.where(at + 1 < n, at + 1, at), axis=0)
        threshold = xp.reshape(midpoint(xp, xp.take(value, at, axis=0), high), shape)
        totals = xp.reshape(totals, (totals.shape[0], *shape))
        gain = self._gains(level, xp.reshape(xp.where(latest > 0, best, 0.0), shape), totals)
        is_better = xp.reshape(latest > 0, shape) & (gain > at_edge.gain)
        gain = xp.where(is_better, gain, at_edge.gain)
        return SplitCandidates(
            gain, gain, xp.where(is_better, threshold, at_edge.threshold), at_edge.missing_left
        )

    def _sides(self, level: Level, cell: Array, entry: Array, n_classes: int) -> tuple[Array, Array, Array]:
        """Return class weights left and right (c, e) of each surviving row, and of columns and nodes."""
        xp, place, n_known = self.place.xp, self.place, self.n_bins - 1
        label = xp.take(level.labels, entry, axis=0)
        classes = xp.arange(n_classes, dtype=label.dtype, device=place.device)
        is_class = label[None, :] == classes[:, None]
        amount = xp.astype(is_class, xp.int64)
        if level.weights is not None:
            weight = xp.take(level.weights, entry, axis=0)
            amount = xp.where(is_class, weight[None, :], xp.zeros_like(weight)[None, :])
        running = xp.cumulative_sum(amount, axis=1)
        is_first = xp.concat((xp.ones_like(cell[:1], dtype=xp.bool), cell[1:] != cell[:-1]))
        position = xp.arange(cell.shape[0], dtype=xp.int64, device=place.device)
        start_at = _last_start(xp, xp.where(is_first, position, 0))
        inside = running - xp.take(running - amount, start_at, axis=1)
        assert level.sums is not None
        cells = xp.permute_dims(level.sums[..., :-1], (2, 0, 1, 3))  # in the order of `cell`
        up_to = xp.reshape(xp.cumulative_sum(cells, axis=3), (cells.shape[0], -1))
        before = up_to - xp.reshape(cells, up_to.shape)
        totals = up_to[:, n_known - 1 :: n_known]
        left = xp.take(before, cell, axis=1) + inside
        return left, xp.take(totals, cell // n_known, axis=1) - left, totals

    def _scores(self, cell: Array, value: Array, left: Array, right: Array) -> Array:
        """Score each surviving row as the last one on the left; NO_SPLIT if its interval is not split."""
        xp, dtype = self.place.xp, accumulator_dtype(self.place)
        n_left, n_right = (xp.astype(xp.sum(part, axis=0), dtype) for part in (left, right))
        is_inside = (cell[1:] == cell[:-1]) & (value[1:] > value[:-1])
        is_inside = xp.concat((is_inside, xp.zeros_like(cell[:1], dtype=xp.bool)))
        least = self.rule.enough
        is_allowed = is_inside & (n_left >= least) & (n_right >= least)
        return xp.where(is_allowed, gini_scores(xp, left, right), NO_SPLIT)

    def _gains(self, level: Level, scores: Array, totals: Array) -> Array:
        xp, dtype = self.place.xp, accumulator_dtype(self.place)
        weight = xp.astype(xp.sum(level.counts_on, axis=1), dtype)[None, :]
        fraction = xp.astype(xp.sum(totals, axis=0), dtype) / weight
        return gini_gains(xp, xp.where(scores == NO_SPLIT, 0.0, scores), totals) * fraction

    def _count_up(self, n_intervals: int, n_survived: int, n_searched: int, n_rows: int) -> None:
        before = self.report
        self.report = CloudsReport(
            before.n_intervals + n_intervals,
            before.n_survived + n_survived,
            before.n_searched_rows + n_searched,
            before.n_rows + n_rows,
        )

    def _sort(self, level: Level) -> tuple[Finder, Level]:
        """Let sorted lists of values search small nodes: the direct method of CLOUDS."""
        lists = sort_values(self.place, self.rows, level)
        given = self.place, self.rows, self.rule, self.limits, self.generator
        return Finder(*given), level._replace(lists=lists)


def _last_start(xp: Namespace, starts: Array) -> Array:
    """Return the last start up to each position, for entries that are 0 or their own position."""
    is_start = xp.astype(starts > 0, xp.int64)
    number = xp.cumulative_sum(is_start)
    n = starts.shape[0]
    table = segment_max(xp, starts, number, n + 1)
    return xp.take(table, number, axis=0)


def _estimate(place: Place, histogram: Array) -> tuple[Array, Array]:
    """Estimate the best gain inside each interval: (d, k, b), and the weight of the interval.

    The score is convex in the class counts left of a point, so that within an interval its upper bound is
    reached where some classes of the interval are entirely left and the others entirely right. Classes are
    moved to the left one after the other, in ascending and in descending order of their shares in the
    interval; for two classes these are all cases.
    """
    xp, dtype = place.xp, accumulator_dtype(place)
    inside = xp.astype(xp.permute_dims(histogram[..., :-1], (2, 0, 1, 3)), dtype)  # (c, d, k, b)
    left = xp.cumulative_sum(inside, axis=-1) - inside
    total = xp.sum(inside, axis=-1)[..., None]
    weight = xp.sum(inside, axis=0)
    share = xp.where(total > 0, inside / xp.where(total > 0, total, 1.0), 0.0)
    best = xp.full(weight.shape, -math.inf, dtype=dtype, device=place.device)
    if inside.shape[0] == 1:
        return best, weight
    for descending in (True, False):
        order = xp.argsort(share, axis=0, descending=descending, stable=True)
        moved = xp.take_along_axis(inside, order, axis=0)
        before = xp.take_along_axis(left, order, axis=0)
        after = xp.take_along_axis(xp.broadcast_to(total, inside.shape), order, axis=0) - before
        scores = xp.max(_scores_of_moves(xp, moved, before, after), axis=0)
        best = xp.maximum(best, scores)
    divisor = xp.sum(total, axis=0)
    divisor = xp.where(divisor > 0, divisor, 1.0)
    gains = (best - xp.sum(total * total, axis=0) / divisor) / divisor
    return xp.where(best == NO_SPLIT, -xp.inf, xp.maximum(gains, xp.zeros_like(gains))), weight


def _scores_of_moves(xp: Namespace, moved: Array, before: Array, after: Array) -> Array:
    r"""Score the splits (c - 1, ...) after one class of the interval, two classes, ... have gone left.

    .. math:: \sum_c l_c^2 / m + \sum_c r_c^2 / (M - m)

    where class c moves its rows from the right side `after` (c, ...) to the left one `before`; NO_SPLIT where
    a side is empty. The sums over classes are cumulative sums over the moves, so that the number of array
    operations does not depend on the number of classes.
    """
    n_left = xp.sum(before, axis=0) + xp.cumulative_sum(moved, axis=0)[:-1, ...]
    n_right = xp.sum(before + after, axis=0) - n_left
    gone, kept = before + moved, after - moved
    left = xp.sum(before * before, axis=0) + xp.cumulative_sum(gone * gone - before * before, axis=0)
    right = xp.sum(after * after, axis=0) + xp.cumulative_sum(kept * kept - after * after, axis=0)
    is_split = (n_left > 0) & (n_right > 0)
    scores = left[:-1, ...] / xp.where(is_split, n_left, 1.0) + right[:-1, ...] / xp.where(
        is_split, n_right, 1.0
    )
    return xp.where(is_split, scores, NO_SPLIT)
