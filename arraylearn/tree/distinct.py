"""Exact thresholds of columns with few distinct values: counting them is faster than sorting rows."""

from __future__ import annotations

from typing import Any

from arraylearn._typing import Array
from arraylearn.backend import ops
from arraylearn.backend.namespace import HOST, Place, from_host, read_flags, to_host
from arraylearn.tree.binned import BinnedFinder
from arraylearn.tree.exact import Cut, sort_values
from arraylearn.tree.rows import Level, Rows, numeric_line, take_flat
from arraylearn.tree.split import Candidates, Rule, midpoint

__all__ = ["DistinctFinder", "find_distinct"]

host = HOST.xp

_MOST_VALUES = 128
# Rows that are looked at first; that no other value occurs is checked afterwards.
_SAMPLE = 5_000


def find_distinct(place: Place, rows: Rows) -> tuple[Array, Array] | None:
    """Find the distinct values of the numeric columns, where all of them have few.

    Returns
    -------
    bins : uint8 array (d, n)
        The number of each value; one more than the largest for missing ones.
    values : float array (d, b)
        The values, ascending, padded with inf. None where a column has too many values.
    """
    xp = place.xp
    step = max(1, rows.n_rows // _SAMPLE)
    some = to_host(rows.columns[:, ::step])
    if bool(host.any(_count_neighbours(some[:, :1000]) > _MOST_VALUES)):
        return None
    found = [host.unique_values(column[~host.isnan(column)]) for column in some]
    width = max((len(values) for values in found), default=0)
    if not 0 < width <= _MOST_VALUES:
        return None
    values = host.full((len(found), width), host.inf, dtype=some.dtype)
    for line, distinct in zip(values, found, strict=True):
        line[: distinct.shape[0]] = host.sort(distinct)
    low, high = values[:, :-1], values[:, 1:]
    finite = host.where(host.isfinite(high), high, low)
    edges = host.where(host.isfinite(high), midpoint(host, low, finite), host.inf)
    values_on = from_host(values, place, rows.columns.dtype)
    edges_on = from_host(edges, place, rows.columns.dtype)
    x = xp.permute_dims(rows.columns, (1, 0))
    bins = ops.bin_columns(xp, x, edges_on, missing_bin=width)
    known = xp.where(bins == width, 0, bins)
    same = xp.take_along_axis(values_on, xp.astype(known, xp.int64), axis=1) == rows.columns
    (is_complete,) = read_flags(place, xp.all(same | xp.isnan(rows.columns)))
    return (bins, values_on) if is_complete else None


def _count_neighbours(some: Any) -> Any:
    """Count the distinct values of a few rows of each column."""
    ordered = host.sort(some, axis=1)
    return host.sum(host.astype(ordered[:, 1:] > ordered[:, :-1], host.int64), axis=1)


class DistinctFinder(BinnedFinder):
    """Counts the distinct values of large nodes; small ones are sorted."""

    cells_per_row = 4.0  # lists of many equal values are slow

    def __init__(self, place: Place, rows: Rows, rule: Rule, bins: Array, values: Array) -> None:
        super().__init__(place, rows, rule, bins=bins, n_bins=values.shape[1] + 1)
        self.values = values

    def locate(self, level: Level, slot: Array, numeric: Candidates) -> tuple[Array, Array, Cut | None]:
        """Put the winners' thresholds between neighbours of the node."""
        found = super().locate(level, slot, numeric)
        if self.successor is not None or self.histogram is None:
            return found
        xp, place = self.place.xp, self.place
        threshold, missing_left, _ = found
        line = numeric_line(xp, self.rows, slot)
        nodes = xp.arange(level.n_nodes, dtype=xp.int64, device=place.device)
        d, k, c, b = self.histogram.shape
        flat = xp.reshape(self.histogram, (d * k, c, b))
        weight = xp.sum(xp.take(flat, line * k + nodes, axis=0), axis=1)[:, :-1]  # (k, b)
        cut = xp.astype(threshold, xp.int64)
        bins = xp.arange(b - 1, dtype=xp.int64, device=place.device)
        is_above = (bins[None, :] > cut[:, None]) & (weight > 0)
        above = xp.argmax(xp.astype(is_above, xp.int8), axis=1)
        low = take_flat(xp, self.values, line, cut)
        # where only missing values are above, the threshold is the value itself
        high = xp.where(xp.any(is_above, axis=1), take_flat(xp, self.values, line, above), low)
        return midpoint(xp, low, high), missing_left, None

    def _values(self) -> Array | None:
        return self.values

    def _sort(self, level: Level) -> Level:
        self.histogram = None
        lists, self.successor = sort_values(self.place, self.rows, self.rule, level)
        return level._replace(lists=lists)
