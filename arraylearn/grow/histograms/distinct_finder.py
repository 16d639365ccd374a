"""Exact thresholds of columns with few distinct values: counting them is faster than sorting rows."""

from __future__ import annotations

from typing import Any

from arraylearn._typing import Array
from arraylearn.backend.namespace import Place
from arraylearn.grow.finder import Finder
from arraylearn.grow.histograms.bin_finder import BinnedFinder
from arraylearn.grow.rows import Level, Rows, numeric_column, take_flat
from arraylearn.grow.sorted_lists.list_finder import sort_values
from arraylearn.grow.split import SplitCandidates, SplitRule, midpoint
from arraylearn.grow.trees import Limits

__all__ = ["MOST_VALUES", "DistinctFinder"]

# Of each column, where counting them is faster than sorting rows.
MOST_VALUES = 128


class DistinctFinder(BinnedFinder):
    """Counts the distinct values of large nodes; small ones are sorted."""

    cells_per_row = 4.0  # lists of many equal values are slow

    def __init__(
        self,
        place: Place,
        rows: Rows,
        rule: SplitRule,
        limits: Limits,
        generator: Any,
        bins: Array,
        values: Array,
    ) -> None:
        super().__init__(place, rows, rule, limits, generator, bins, values.shape[1] + 1)
        self.values = values

    def locate(self, level: Level, column: Array, numeric: SplitCandidates) -> tuple[Array, Array]:
        """Put the winners' thresholds between neighbours of the node."""
        threshold, missing_left = super().locate(level, column, numeric)
        if level.sums is None:
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
        # where only missing values are above, the threshold is the value itself
        high = xp.where(xp.any(is_above, axis=1), take_flat(xp, self.values, column_idx, above), low)
        return midpoint(xp, low, high), missing_left

    def _values(self) -> Array | None:
        return self.values

    def _sort(self, level: Level) -> tuple[Finder, Level]:
        lists = sort_values(self.place, self.rows, level)
        return self._by_lists(self.rows), level._replace(lists=lists)
