"""The candidate literals of a table, the rows that meet them, and the weight of these rows.

Columns with few distinct values (nominal ones, and numbers that repeat) are counted by value; the other
numeric columns keep lists of their rows in ascending order. So all literals are scored in one pass.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import NamedTuple

import array_api_compat
import array_api_extra as xpx
import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.arrays.order import argsort_rows
from arraylearn.backend.arrays.segments import histogram, paired_histogram, scatter
from arraylearn.backend.dispatch import get_tuning
from arraylearn.backend.namespace import (
    Place,
    accumulator_dtype,
    from_host,
    library_name,
    read_together,
    to_host,
)
from arraylearn.rules.rule import CodedRule, Condition, Conditions
from arraylearn.table import Table

__all__ = [
    "Candidates",
    "CountedColumns",
    "Counts",
    "Target",
    "choose_body",
    "choose_threshold",
    "count_cells",
    "pack_cells",
    "prepare",
    "satisfies",
    "satisfies_all",
    "settle_thresholds",
    "weigh",
]


@cache
def choose_body(xp: Namespace) -> ModuleType | str:
    """Return the module with NumPy's bodies of the search, or the reason why the array program serves."""
    if library_name(xp) != "numpy":
        return "not on a CPU of NumPy"
    from arraylearn.rules import literals_cpu

    return literals_cpu


# ---- the class that rules are learned for


# A sum of weights holds the number of its rows in its lower bits, the sum itself in the others.
_ROW_BITS = 31


def pack_weights(units: HostArray, place: Place) -> tuple[Array, int]:
    """Turn weights (n,) from `grid_weights` into those of a `Target`, rounded if their sum exceeds 2**31.

    Also return the size of their unit in units of the grid.
    """
    coarser = max(1, round(float(units.sum()) / 2.0**31))
    kept = (units / coarser).round().clip(1).astype(np.int64)
    return from_host((kept << _ROW_BITS) + 1, place), coarser


def units_of(sums: Array) -> Array:
    """Return the weights in sums of packed weights."""
    return sums >> _ROW_BITS


def rows_of(sums: Array) -> Array:
    """Return the number of rows in sums of packed weights."""
    return sums & ((1 << _ROW_BITS) - 1)


class Target(NamedTuple):
    """The positive rows, which a rule shall cover, and the weights of all rows."""

    is_positive: Array  # (n,) bool: the rows of the class
    weights: Array | None = None  # (n,) int64 from `pack_weights`; None: every row counts 1
    unit: float = 1.0  # rows per unit of weight, as evidence


class Counts(NamedTuple):
    """How much a rule covers: weights, in rows, or numbers of rows."""

    positive: float  # of the positive rows
    covered: float  # of all rows

    @property
    def accuracy(self) -> float:
        """Share of the positive rows; 0 where nothing is covered."""
        return self.positive / self.covered if self.covered > 0 else 0.0


def weigh(xp: Namespace, target: Target, masks: Sequence[Array]) -> list[tuple[Counts, Counts]]:
    """Weigh the rows of each mask (n,), and count them; one sync."""
    both = [part for mask in masks for part in (mask & target.is_positive, mask)]
    if target.weights is None:
        sums = [xp.astype(xp.count_nonzero(part), xp.int64) for part in both]
    else:
        sums = [xp.sum(xp.where(part, target.weights, 0)) for part in both]
    numbers = to_host(xp.stack(sums)).tolist()
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    if target.weights is None:
        return [(Counts(float(p), float(n)), Counts(p, n)) for p, n in pairs]
    return [
        (Counts(*(units_of(one) * target.unit for one in pair)), Counts(*map(rows_of, pair)))
        for pair in pairs
    ]


# ---- columns, arranged for the search


class CountedColumns(NamedTuple):
    """Columns with similar numbers of distinct values, which are counted by value; a cell is one value."""

    packed: Array  # (d, n) value of each row, n_cells where missing; see `pack_cells`
    n_cells: int  # largest number of values of a column
    values: Array | None = None  # (d, n_cells) numbers behind the cells, ascending; None for nominal columns


class Candidates(NamedTuple):
    """A table prepared for the search of literals; made once per fit."""

    place: Place
    table: Table
    columns: Array  # (d_numeric, n) the numeric block, column-major
    counted: tuple[CountedColumns, ...]
    lists: Array  # (d_sorted, n) int32 rows of the other columns in ascending order, missing ones last
    ranks: Array  # (d_sorted, n) int32 dense rank of each row, -1 where missing
    sorted_idx: tuple[int, ...]  # positions of the sorted columns in `columns`
    idx: tuple[int, ...]  # positions in the input: the counted columns, group by group, then the sorted ones
    n_values: tuple[int, ...]  # distinct values of each column of `idx`
    tolerance: float  # relative difference up to which scores are equal

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.columns.shape[1])

    @property
    def n_conditions(self) -> int:
        """Number of all literals: one per category, two per number."""
        is_nominal = self.table.schema.nominal_idx
        return sum(n if j in is_nominal else 2 * n for j, n in zip(self.idx, self.n_values, strict=True))


class _Ranked(NamedTuple):
    """Numeric columns, sorted and ranked; each array is (d, n)."""

    order: Array  # row numbers, by ascending value; missing values last
    ordered: Array  # the values in that order
    rank_along: Array  # the ranks in that order
    ranks: Array  # the ranks in the order of the rows
    n_distinct: list[int]  # (d,)


def prepare(place: Place, table: Table) -> Candidates:
    """Sort and count the columns of a table; one sync, for the numbers of distinct values."""
    xp, schema = place.xp, table.schema
    every = xp.arange(table.n_rows, dtype=xp.int64, device=place.device)
    columns = xp.take(xp.permute_dims(table.numeric, (1, 0)), every, axis=1)  # a contiguous copy
    ranked, n_categories = _rank(place, columns, table)
    counted: list[CountedColumns] = []
    idx: list[int] = []
    n_values: list[int] = []
    for group in _group_by_size(schema.n_values):
        n_cells = max(1, *(schema.n_values[j] for j in group))
        counted.append(CountedColumns(_pack(xp, _pick(place, table.codes, group), n_cells), n_cells))
        idx += [schema.nominal_idx[j] for j in group]
        n_values += [n_categories[j] for j in group]
    most = get_tuning().rule_counted_values
    for group in _group_by_size([count if count <= most else -1 for count in ranked.n_distinct]):
        counted.append(_count_numeric(place, ranked, group))
        idx += [schema.numeric_idx[j] for j in group]
        n_values += [ranked.n_distinct[j] for j in group]
    wide = [j for j, count in enumerate(ranked.n_distinct) if count > most]
    idx += [schema.numeric_idx[j] for j in wide]
    n_values += [ranked.n_distinct[j] for j in wide]
    lists = xp.astype(_pick(place, ranked.order, wide), xp.int32)
    ranks = xp.astype(_pick(place, ranked.ranks, wide), xp.int32)
    tolerance = 64 * float(xp.finfo(accumulator_dtype(place)).eps)
    by_column = tuple(wide), tuple(idx), tuple(n_values)
    return Candidates(place, table, columns, tuple(counted), lists, ranks, *by_column, tolerance)


def _group_by_size(sizes: Sequence[int]) -> list[list[int]]:
    """Group columns by their number of values, so that no table is much wider than it needs to be.

    Columns of a negative size are left out.
    """
    groups: dict[float, list[int]] = {}
    for j, size in enumerate(sizes):
        if size >= 0:
            groups.setdefault(next(c for c in (64, 255, math.inf) if size <= c), []).append(j)
    return [groups[size] for size in sorted(groups)]


def _count_numeric(place: Place, ranked: _Ranked, group: list[int]) -> CountedColumns:
    n_cells = max(1, *(ranked.n_distinct[j] for j in group))
    picked = (_pick(place, one, group) for one in (ranked.ranks, ranked.ordered, ranked.rank_along))
    ranks, ordered, rank_along = picked
    values = _distinct_values(place, ordered, rank_along, n_cells)
    return CountedColumns(_pack(place.xp, ranks, n_cells), n_cells, values)


def _rank(place: Place, columns: Array, table: Table) -> tuple[_Ranked, list[int]]:
    """Rank numeric columns (d, n), and count the categories that occur in nominal ones; one sync."""
    xp, most = place.xp, max(table.schema.n_values, default=0)
    order = argsort_rows(xp, columns)
    ordered = xp.take_along_axis(columns, order, axis=1)
    rank_along = _dense_ranks(xp, ordered)
    counts = histogram(xp, xp.where(table.codes < 0, most, table.codes), most + 1)[:, :most]
    found = xp.max(rank_along, axis=1) + 1, xp.count_nonzero(counts, axis=1)
    n_distinct, n_categories = (one.tolist() for one in read_together(place, *found))
    ranks = _unsort(xp, rank_along, order)
    return _Ranked(order, ordered, rank_along, ranks, n_distinct), n_categories


def _dense_ranks(xp: Namespace, ordered: Array) -> Array:
    """Rank (d, n) sorted values: 0, 1, ... for distinct values, -1 where missing."""
    is_step = xp.astype(ordered[:, 1:] != ordered[:, :-1], xp.int64)
    first = xp.zeros((ordered.shape[0], 1), dtype=xp.int64, device=array_api_compat.device(ordered))
    rank = xp.cumulative_sum(xp.concat((first, is_step), axis=1), axis=1)
    return xp.where(xp.isnan(ordered), -1, rank)


def _unsort(xp: Namespace, along: Array, order: Array) -> Array:
    """Bring values that stand in the order of `order` (d, n) back to the order of the rows."""
    d, n = order.shape
    if d == 0:
        return along
    offset = n * xp.arange(d, dtype=xp.int64, device=array_api_compat.device(order))
    flat = xp.reshape(order + offset[:, None], (-1,))
    return xp.reshape(scatter(xp, xp.reshape(along, (-1,)), flat, d * n), (d, n))


def _pick(place: Place, columns: Array, chosen: list[int]) -> Array:
    idx = place.xp.asarray(chosen, dtype=place.xp.int64, device=place.device)
    return place.xp.take(columns, idx, axis=0)


def _distinct_values(place: Place, ordered: Array, rank: Array, n_cells: int) -> Array:
    """Return the number behind each rank, (d, n_cells), from columns (d, n) in their order."""
    xp = place.xp
    d, n = ordered.shape
    ascending = xp.where(rank < 0, n_cells, rank)
    columns = xp.zeros((d, 1), dtype=xp.int64, device=place.device)
    cells = columns + xp.arange(n_cells, dtype=xp.int64, device=place.device)
    position = xp.astype(xpx.searchsorted(ascending, cells, side="left", xp=xp), xp.int64)
    return xp.take_along_axis(ordered, xp.where(position < n, position, n - 1), axis=1)


# ---- counts by value


def _pack(xp: Namespace, codes: Array, n_cells: int) -> Array:
    cells = xp.astype(xp.where(codes < 0, n_cells, codes), xp.uint8 if n_cells < 256 else xp.int32)
    return pack_cells(xp, cells, n_cells)


def pack_cells(xp: Namespace, cells: Array, n_cells: int) -> Array:
    """Prepare columns for `count_cells`: whatever the body counts fastest, or `cells` itself.

    `cells` (d, n) holds values in ``range(n_cells + 1)``; the last stands for what shall not be counted.
    """
    body = choose_body(xp)
    return cells if isinstance(body, str) else body.pack_cells(cells, n_cells)


def count_cells(xp: Namespace, group: CountedColumns, is_live: Array, target: Target) -> tuple[Array, Array]:
    """Weigh the live rows, and the positive ones among them, by value.

    Parameters
    ----------
    group : CountedColumns
        d columns of n rows.
    is_live : bool array (n,)
        Which rows count.
    target : Target
        Which of them are positive, and their weights.

    Returns
    -------
    positive, covered : arrays (d, n_cells)
        int64 sums of the positive live rows and of all live rows of each value.
    """
    body = choose_body(xp)
    if not isinstance(body, str):
        counted: tuple[Array, Array] = body.count_cells(group, is_live, target)
        return counted
    keys = xp.where(is_live, xp.astype(target.is_positive, xp.int64), 2)
    return count_classes(xp, group.packed, keys, group.n_cells, target.weights)


def count_classes(
    xp: Namespace, cells: Array, keys: Array, n_cells: int, weights: Array | None
) -> tuple[Array, Array]:
    """Weigh rows by value (d, n), where keys (n,) are 0 for negative, 1 for positive and 2 for other rows."""
    counts = paired_histogram(xp, cells, keys, n_cells + 1, 3, weights)[:, :, :n_cells]
    return counts[:, 1, :], counts[:, 0, :] + counts[:, 1, :]


# ---- rows that meet conditions


def satisfies(candidates: Candidates, condition: Condition) -> Array:
    """Return the mask (n,) of the rows that meet a condition; missing values do not."""
    xp, schema = candidates.place.xp, candidates.table.schema
    if condition.relation in ("=", "in"):
        codes = candidates.table.codes[schema.nominal_idx.index(condition.column), :]
        if condition.relation == "=":
            return codes == condition.value
        chosen = xp.asarray(condition.value, dtype=codes.dtype, device=candidates.place.device)
        return xp.any(codes[:, None] == chosen[None, :], axis=1)
    column = candidates.columns[schema.numeric_idx.index(condition.column), :]
    return column <= condition.value if condition.relation == "<=" else column > condition.value


def satisfies_all(candidates: Candidates, conditions: Conditions) -> Array:
    """Return the mask (n,) of the rows that meet all conditions."""
    if not conditions:
        xp, device = candidates.place.xp, candidates.place.device
        return xp.ones((candidates.n_rows,), dtype=xp.bool, device=device)
    mask = satisfies(candidates, conditions[0])
    for condition in conditions[1:]:
        mask = mask & satisfies(candidates, condition)
    return mask


# ---- thresholds of the rules that were learned


def settle_thresholds(candidates: Candidates, rules: Sequence[CodedRule]) -> list[CodedRule]:
    """Move each threshold to the middle between its neighbours among all rows; one sync.

    While rules are learned, thresholds lie between the rows that a rule is grown on. Each rule covers the
    same rows before and after.
    """
    schema = candidates.table.schema
    cuts: dict[int, set[float]] = {}
    for conditions, _ in rules:
        for column, relation, value in conditions:
            if relation in ("<=", ">"):
                cuts.setdefault(column, set()).add(value)
    columns = [candidates.columns[schema.numeric_idx.index(column), :] for column in cuts]
    found = [
        _neighbours_of(candidates.place, values, sorted(at))
        for values, at in zip(columns, cuts.values(), strict=True)
    ]
    is_single = bool(candidates.columns.dtype == candidates.place.xp.float32)
    settled: dict[tuple[int, float], float] = {}
    for column, pairs in zip(cuts, read_together(candidates.place, *found) if found else (), strict=True):
        for value, (lower, upper) in zip(sorted(cuts[column]), pairs.T.tolist(), strict=True):
            settled[column, value] = choose_threshold(lower, upper, is_single=is_single)
    return [(tuple(_settle(one, settled) for one in conditions), code) for conditions, code in rules]


def _settle(condition: Condition, settled: dict[tuple[int, float], float]) -> Condition:
    if condition.relation not in ("<=", ">"):
        return condition
    return condition._replace(value=settled[condition.column, condition.value])


def _neighbours_of(place: Place, values: Array, cuts: list[float]) -> Array:
    """Return the largest value up to each cut and the smallest beyond it: (2, k)."""
    xp = place.xp
    ordered = xp.sort(xp.where(xp.isnan(values), math.inf, values))
    at = xpx.searchsorted(ordered[None, :], from_host([cuts], place, values.dtype), side="right", xp=xp)[0, :]
    at = xp.astype(at, xp.int64)
    last = ordered.shape[0] - 1
    below, beyond = xp.maximum(at - 1, xp.zeros_like(at)), xp.where(at > last, last, at)
    return xp.stack([xp.take(ordered, one, axis=0) for one in (below, beyond)])


def choose_threshold(lower: float, upper: float, *, is_single: bool) -> float:
    """Choose the middle of ``[lower, upper)``, with the digits of single precision where that is close."""
    middle = lower + (upper - lower) / 2
    for digits in (7, 15):
        chosen = float(f"{middle:.{digits}g}")
        if abs(chosen - middle) <= (upper - lower) / 1000:
            middle = chosen
            break
    compared = struct.unpack("f", struct.pack("f", middle))[0] if is_single else middle
    return middle if lower <= compared < upper else lower
