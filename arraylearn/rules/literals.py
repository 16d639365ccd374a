"""The candidate literals of a table, the rows that meet them, and the thresholds that are reported.

Columns with few distinct values (nominal ones, and numbers that repeat) are counted by value; the other
numeric columns keep lists of their rows in ascending order. So all literals are scored in one pass.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import array_api_compat
import array_api_extra as xpx
import numpy as np

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.order import argsort_rows, compress
from arraylearn.backend.arrays.segments import histogram, scatter, split_lists
from arraylearn.backend.dispatch import get_tuning, state_work, why_not_compiled
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host, read_together
from arraylearn.rules.counts import NOT_COUNTED, CountedColumns, Target, count_columns, group_by_size
from arraylearn.rules.rule import CodedRule, Condition, Conditions
from arraylearn.table import MISSING_CODE, Schema, Table

__all__ = [
    "Candidates",
    "LiveRows",
    "all_rows",
    "choose_body",
    "choose_threshold",
    "condense",
    "focus",
    "prepare",
    "restrict",
    "satisfies",
    "satisfies_all",
    "settle_thresholds",
    "with_target",
]


# Where less than one row in so many is left, these rows become a table of their own.
_CONDENSED = 16


def choose_body(place: Place, n_values: int) -> Any | str:
    """Return the record of sorted columns that is searched by blocks, or the reason why all cuts are scored.

    `n_values` is the number of values in the numeric columns.
    """
    least = get_tuning().compiled_rules
    state_work(n_values, least)
    if (reason := why_not_compiled(place, n_values, least)) is not None:
        return reason
    from arraylearn.rules.blocks_cpu import RowBlocks

    return RowBlocks


# ---- columns, arranged for the search


class Candidates(NamedTuple):
    """A table prepared for the search of literals."""

    place: Place
    schema: Schema
    columns: Array  # (d_numeric, n) the numeric block, column-major
    codes: Array  # (d_nominal, n) categories, or MISSING_CODE
    counted: tuple[CountedColumns, ...]
    lists: Array  # (d_sorted, n) int32 rows of the other columns in ascending order, missing ones last
    ranks: Array  # (d_sorted, n) int32 dense rank of each row, or MISSING_CODE
    blocks: Any  # the lists in blocks, from the compiled body; None: all cuts are scored
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
        is_nominal = self.schema.nominal_idx
        return sum(n if j in is_nominal else 2 * n for j, n in zip(self.idx, self.n_values, strict=True))


def prepare(place: Place, table: Table) -> Candidates:
    """Sort and count the columns of a table; one sync, for the numbers of distinct values."""
    xp, schema = place.xp, table.schema
    body = choose_body(place, math.prod(table.numeric.shape))
    every = xp.arange(table.n_rows, dtype=xp.int64, device=place.device)
    columns = xp.take(xp.permute_dims(table.numeric, (1, 0)), every, axis=1)  # a contiguous copy
    order = argsort_rows(xp, columns)
    ordered = xp.take_along_axis(columns, order, axis=1)
    rank_along = _dense_ranks(xp, ordered)
    ranks = _unsort(xp, rank_along, order)
    n_distinct, n_categories = _count_values(place, rank_along, table)
    groups = group_by_size(schema.n_values)
    counted = [
        count_columns(xp, _pick(place, table.codes, group), max(1, *(schema.n_values[j] for j in group)))
        for group in groups
    ]
    idx = [schema.nominal_idx[j] for group in groups for j in group]
    n_values = [n_categories[j] for group in groups for j in group]
    most = get_tuning().rule_counted_values
    groups = group_by_size([count if count <= most else NOT_COUNTED for count in n_distinct])
    for group in groups:
        n_cells = max(1, *(n_distinct[j] for j in group))
        values = _distinct_values(
            place, _pick(place, ordered, group), _pick(place, rank_along, group), n_cells
        )
        counted.append(count_columns(xp, _pick(place, ranks, group), n_cells, values))
    wide = [j for j, count in enumerate(n_distinct) if count > most]
    groups.append(wide)
    idx += [schema.numeric_idx[j] for group in groups for j in group]
    n_values += [n_distinct[j] for group in groups for j in group]
    lists = xp.astype(_pick(place, order, wide), xp.int32)
    ranks = xp.astype(_pick(place, ranks, wide), xp.int32)
    blocks = None if isinstance(body, str) or not wide else body.lay_out(lists, ranks)
    tolerance = 64 * float(xp.finfo(accumulator_dtype(place)).eps)
    by_column = tuple(wide), tuple(idx), tuple(n_values)
    sorted_columns = lists, ranks, blocks
    return Candidates(
        place, schema, columns, table.codes, tuple(counted), *sorted_columns, *by_column, tolerance
    )


def take_rows(candidates: Candidates, rows: Array) -> Candidates:
    """Prepare some rows (m,) of a table as a table of their own; no sync."""
    xp = candidates.place.xp
    ranks = xp.take(candidates.ranks, rows, axis=1)
    # missing values come last
    lists = xp.astype(
        argsort_rows(xp, xp.where(ranks == MISSING_CODE, xp.iinfo(ranks.dtype).max, ranks)), xp.int32
    )
    return candidates._replace(
        columns=xp.take(candidates.columns, rows, axis=1),
        codes=xp.take(candidates.codes, rows, axis=1),
        counted=tuple(
            group._replace(cells=xp.take(group.cells, rows, axis=1), bits=None)
            for group in candidates.counted
        ),
        lists=lists,
        ranks=ranks,
        blocks=None if candidates.blocks is None else candidates.blocks.lay_out(lists, ranks),
    )


def _count_values(place: Place, rank_along: Array, table: Table) -> tuple[list[int], list[int]]:
    """Count the distinct numbers of columns (d, n) of sorted ranks, and the categories that occur."""
    xp, most = place.xp, max(table.schema.n_values, default=0)
    counts = histogram(xp, xp.where(table.codes == MISSING_CODE, most, table.codes), most + 1)[:, :most]
    found = read_together(place, xp.max(rank_along, axis=1) + 1, xp.count_nonzero(counts, axis=1))
    return found[0].tolist(), found[1].tolist()


def _dense_ranks(xp: Namespace, ordered: Array) -> Array:
    """Rank (d, n) sorted values: 0, 1, ... for distinct values, or MISSING_CODE."""
    is_step = xp.astype(ordered[:, 1:] != ordered[:, :-1], xp.int64)
    first = xp.zeros((ordered.shape[0], 1), dtype=xp.int64, device=array_api_compat.device(ordered))
    rank = xp.cumulative_sum(xp.concat((first, is_step), axis=1), axis=1)
    return xp.where(xp.isnan(ordered), MISSING_CODE, rank)


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
    ascending = xp.where(rank == MISSING_CODE, n_cells, rank)
    columns = xp.zeros((d, 1), dtype=xp.int64, device=place.device)
    cells = columns + xp.arange(n_cells, dtype=xp.int64, device=place.device)
    position = xp.astype(xpx.searchsorted(ascending, cells, side="left", xp=xp), xp.int64)
    return xp.take_along_axis(ordered, xp.where(position < n, position, n - 1), axis=1)


# ---- rows that meet conditions


def satisfies(candidates: Candidates, condition: Condition) -> Array:
    """Return the mask (n,) of the rows that meet a condition; missing values do not."""
    xp, schema = candidates.place.xp, candidates.schema
    if condition.relation in ("=", "in"):
        codes = candidates.codes[schema.nominal_idx.index(condition.column), :]
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


# ---- the rows that a rule may still cover


class LiveRows(NamedTuple):
    """Rows of a table, some of them positive."""

    candidates: Candidates
    target: Target
    is_live: Array  # (n,) bool
    size: int  # number of live rows
    lists: Array  # (d_sorted, size): the live rows in the order of each column; with sums: all rows
    sums: Array | None = None  # weights of the live rows by block, where the compiled body searches


def all_rows(candidates: Candidates, target: Target) -> LiveRows:
    """Return all rows as live."""
    (xp, device), n = candidates.place, candidates.n_rows
    is_live = xp.ones((n,), dtype=xp.bool, device=device)
    return with_target(LiveRows(candidates, target, is_live, n, candidates.lists), target)


def with_target(live: LiveRows, target: Target) -> LiveRows:
    """Return the same rows with other positive ones."""
    blocks = live.candidates.blocks
    sums = None if blocks is None else blocks.weigh(target, live.is_live)
    return live._replace(target=target, sums=sums)


def restrict(live: LiveRows, keep: Array, size: int, near: LiveRows | None = None) -> LiveRows:
    """Keep the live rows for which the mask `keep` (n,) holds; `size` of them do.

    `near` may be other rows of the same table, whose sums are corrected where that is less work.
    """
    if size == live.size:
        return live
    is_live = live.is_live & keep
    if live.sums is None:
        return live._replace(is_live=is_live, size=size, lists=_keep_in_lists(live, is_live, size))
    known, n_changed = None, size
    for other in (live, near):
        if other is not None and other.candidates is live.candidates:
            n = int(np.count_nonzero(other.is_live ^ is_live))
            if n < n_changed:
                known, n_changed = (other.is_live, other.sums), n
    sums = live.candidates.blocks.weigh(live.target, is_live, known)
    return live._replace(is_live=is_live, size=size, sums=sums)


def _keep_in_lists(live: LiveRows, is_live: Array, size: int) -> Array:
    xp = live.candidates.place.xp
    if not live.lists.shape[0]:
        return live.lists[:, :size]
    return split_lists(xp, live.lists, xp.astype(is_live, xp.int32) - 1, (size,))


def focus(live: LiveRows, keep: Array, size: int, near: LiveRows | None = None) -> LiveRows:
    """Keep rows as `restrict` does, in a table of their own where they are few."""
    if not live.lists.shape[0] or size * _CONDENSED >= live.candidates.n_rows:
        return restrict(live, keep, size, near)
    return condense(live._replace(is_live=live.is_live & keep, size=size))


def condense(live: LiveRows) -> LiveRows:
    """Return the live rows as a table of their own."""
    candidates, target = live.candidates, live.target
    xp, device = candidates.place
    every = xp.arange(candidates.n_rows, dtype=xp.int64, device=device)
    rows = compress(xp, every, live.is_live, live.size)
    target = target._replace(
        is_positive=xp.take(target.is_positive, rows, axis=0),
        weights=None if target.weights is None else xp.take(target.weights, rows, axis=0),
    )
    return all_rows(take_rows(candidates, rows), target)


# ---- thresholds of the rules that were learned


def settle_thresholds(candidates: Candidates, rules: Sequence[CodedRule]) -> list[CodedRule]:
    """Move each threshold to the middle between its neighbours among all rows; one sync.

    While rules are learned, thresholds lie between the rows that a rule is grown on. Each rule covers the
    same rows before and after.
    """
    schema = candidates.schema
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
