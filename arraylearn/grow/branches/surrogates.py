"""Surrogate splits (CART): for each split into two, the splits on other columns that agree with it most."""

from __future__ import annotations

from typing import NamedTuple

from arraylearn._typing import Array
from arraylearn.backend.arrays.gather import top_k
from arraylearn.backend.arrays.segments import (
    block_max,
    first_in_block,
    histogram,
    paired_histogram,
    scatter,
    steps,
)
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.grow.rows import (
    UNKNOWN_BRANCH,
    Level,
    Rows,
    is_missing_number,
    nominal_column,
    numeric_column,
    rows_at,
    take_flat,
)
from arraylearn.grow.sorted_lists.thresholds import at_positions, running_weights, sort_values
from arraylearn.grow.split import midpoint
from arraylearn.grow.trees import NO_SURROGATE
from arraylearn.table import MISSING_CODE

__all__ = ["SurrogateChoice", "find_surrogates", "follow_surrogates"]

# In place of the weight of the rows on which a surrogate agrees with the split: it is not admitted.
_DISAGREES = -1.0


class SurrogateChoice(NamedTuple):
    """The surrogates of each node of a level, best first: arrays (k, s) at the place."""

    column: Array  # int64: among the numeric, then the nominal columns; or NO_SURROGATE
    threshold: Array  # values up to it go to `low_branch`
    low_branch: Array  # int32
    agreement: Array  # share of the rows known in both that go the same way
    maps: Array  # (k, s, v) int32: branch of each category


def find_surrogates(
    place: Place, rows: Rows, level: Level, column: Array, entries: Array, branch_at: Array, n_surrogates: int
) -> SurrogateChoice:
    """Find the surrogates of the chosen splits.

    Parameters
    ----------
    column : int64 array (k,)
        The chosen columns; they are not their own surrogates.
    entries, branch_at : arrays (m,)
        Rows node after node, and the branch they take: 0, 1 or UNKNOWN_BRANCH.
    n_surrogates : int
        How many to keep. A surrogate must agree on more rows than sending all rows with a known value of the
        chosen column to their larger branch would (rpart's rule).
    """
    xp, dtype = place.xp, accumulator_dtype(place)
    side = scatter(xp, xp.astype(branch_at, xp.int32), entries, level.entries.n_entries)
    parts = []
    if rows.columns.shape[0]:
        parts.append(_numeric_agreement(place, rows, level, side))
    if rows.n_values:
        parts.append(_nominal_agreement(place, rows, level, entries, branch_at))
    agree, known, threshold, reverse, maps = _join(place, rows, parts)
    d, k = agree.shape
    agree = xp.where(agree > _larger_branch(place, level, entries, branch_at), agree, _DISAGREES)
    columns = xp.arange(d, dtype=xp.int64, device=place.device)
    agree = xp.where(columns[:, None] == column[None, :], _DISAGREES, agree)
    n_kept = min(n_surrogates, d)
    largest, chosen = top_k(xp, xp.permute_dims(agree, (1, 0)), n_kept)  # (k, s)
    nodes = xp.broadcast_to(xp.arange(k, dtype=xp.int64, device=place.device)[:, None], chosen.shape)
    weight = take_flat(xp, known, chosen, nodes)
    share = xp.where(largest > 0, largest / xp.where(weight > 0, weight, 1.0), 0.0)
    width = maps.shape[2]
    column_idx = xp.reshape(chosen * k + nodes, (-1,))
    picked = xp.take(xp.reshape(maps, (d * k, width)), column_idx, axis=0)
    return SurrogateChoice(
        xp.where(largest > 0, chosen, NO_SURROGATE),
        xp.astype(take_flat(xp, threshold, chosen, nodes), dtype),
        xp.astype(take_flat(xp, reverse, chosen, nodes), xp.int32),
        share,
        xp.reshape(picked, (*chosen.shape, width)),
    )


def _join(place: Place, rows: Rows, parts: list[tuple[Array, ...]]) -> list[Array]:
    """Join the columns of both kinds: agreement, weight, threshold, direction (d, k), maps (d, k, v)."""
    return [place.xp.concat(list(fields), axis=0) for fields in zip(*parts, strict=True)]


def _map_width(rows: Rows) -> int:
    return max((1, *rows.n_values))


def _larger_branch(place: Place, level: Level, entries: Array, branch_at: Array) -> Array:
    """Weight (k,) of the larger branch of each node, counting the rows whose value is known."""
    xp, k = place.xp, level.n_nodes
    weights = None if level.weights is None else xp.take(level.weights, entries, axis=0)
    keys = level.block_at * 3 + xp.where(branch_at == UNKNOWN_BRANCH, 2, xp.astype(branch_at, xp.int64))
    counts = xp.reshape(histogram(xp, keys, 3 * k, weights), (k, 3))
    return xp.astype(xp.max(counts[:, :2], axis=1), accumulator_dtype(place))


def _numeric_agreement(place: Place, rows: Rows, level: Level, side: Array) -> tuple[Array, ...]:
    xp = place.xp
    lists = level.lists
    if lists.shape[0] == 1 or lists.shape[0] < rows.columns.shape[0]:
        # a single list may be in the order of the rows and not sorted, even if there is one column
        lists = sort_values(place, rows, level)
    found = [
        _scan_some(place, rows, level, side, lists[f, :], rows.columns[f, :])
        for f in row_chunks(rows.columns.shape[0], 200 * lists.shape[1])
    ]
    return tuple(xp.concat(list(fields), axis=0) for fields in zip(*found, strict=True))


def _scan_some(
    place: Place, rows: Rows, level: Level, side: Array, lists: Array, columns: Array
) -> tuple[Array, ...]:
    xp, dtype = place.xp, accumulator_dtype(place)
    values = xp.take_along_axis(columns, xp.astype(rows_at(xp, level, lists), xp.int64), axis=-1)
    is_known = ~is_missing_number(xp, rows, values)
    values = xp.where(is_known, xp.astype(values, dtype), xp.nan)
    sided = level._replace(entries=level.entries._replace(labels=side))
    running = running_weights(xp, sided, lists, 2, is_known)
    left, total = (xp.astype(part, dtype) for part in running)  # (2, d, m), (2, d, k)
    total_at = xp.take(total, level.block_at, axis=-1)
    straight = left[0, ...] + (total_at - left)[1, ...]
    crossed = xp.sum(total_at, axis=0) - straight
    is_step = steps(xp, values)
    best = xp.where(is_step, xp.maximum(straight, crossed), _DISAGREES)
    agree = block_max(xp, best, level.starts, level.block_at)
    is_hit = is_step & (best == xp.take(agree, level.block_at, axis=1))
    position = xp.maximum(first_in_block(xp, is_hit, level.starts, level.block_at), 0)
    is_crossed = xp.take_along_axis(crossed > straight, position, axis=1)
    (low, high), _ = at_positions(xp, dtype, values, left, position)
    threshold = low if rows.edges is not None else midpoint(xp, low, xp.where(high > low, high, low))
    maps = xp.zeros((*agree.shape, _map_width(rows)), dtype=xp.int32, device=place.device)
    return agree, xp.sum(total, axis=0), threshold, is_crossed, maps


def _nominal_agreement(
    place: Place, rows: Rows, level: Level, entries: Array, branch_at: Array
) -> tuple[Array, ...]:
    """Send each category where most of its rows go."""
    xp, dtype = place.xp, accumulator_dtype(place)
    width, k = _map_width(rows), level.n_nodes
    codes = xp.take(rows.codes, rows_at(xp, level, entries), axis=1)
    weights = None if level.weights is None else xp.take(level.weights, entries, axis=0)
    keys = level.block_at * 3 + xp.where(branch_at == UNKNOWN_BRANCH, 2, xp.astype(branch_at, xp.int64))
    values = xp.where(codes == MISSING_CODE, width, codes)
    counts = paired_histogram(xp, values, keys, width + 1, 3 * k, weights)
    counts = xp.reshape(xp.astype(counts, dtype), (rows.codes.shape[0], k, 3, width + 1))
    both = xp.permute_dims(counts[:, :, :2, :width], (2, 0, 1, 3))  # (2, d, k, v)
    maps = xp.astype(both[1, ...] > both[0, ...], xp.int32)
    total = xp.sum(both, axis=-1)
    agree = xp.sum(xp.max(both, axis=0), axis=-1)
    nothing = xp.zeros(agree.shape, dtype=dtype, device=place.device)
    return agree, xp.sum(total, axis=0), nothing, nothing > 0, maps


def follow_surrogates(
    place: Place, rows: Rows, level: Level, found: SurrogateChoice, entries: Array, branch_at: Array
) -> Array:
    """Give rows without a value the branch (m,) of the best surrogate that they have a value for."""
    xp = place.xp
    here = rows_at(xp, level, entries)
    d = rows.columns.shape[0]
    for rank in range(found.column.shape[1]):
        column = xp.take(found.column[:, rank], level.block_at, axis=0)
        usable = column != NO_SURROGATE
        column = xp.where(usable, column, 0)
        branch = xp.zeros_like(branch_at)
        is_known = xp.zeros(branch_at.shape, dtype=xp.bool, device=place.device)
        if d:
            value = take_flat(xp, rows.columns, numeric_column(xp, rows, column), here)
            cut = xp.take(found.threshold[:, rank], level.block_at, axis=0)
            low = xp.take(found.low_branch[:, rank], level.block_at, axis=0)
            branch = xp.astype(xp.where(xp.astype(value, cut.dtype) > cut, 1 - low, low), branch_at.dtype)
            is_known = (column < d) & ~is_missing_number(xp, rows, value)
        if rows.n_values:
            code = take_flat(xp, rows.codes, nominal_column(xp, rows, column), here)
            by_code = take_flat(
                xp, found.maps[:, rank, :], level.block_at, xp.where(code == MISSING_CODE, 0, code)
            )
            is_nominal = column >= d
            branch = xp.where(is_nominal, xp.astype(by_code, branch_at.dtype), branch)
            is_known = xp.where(is_nominal, code != MISSING_CODE, is_known)
        branch_at = xp.where((branch_at == UNKNOWN_BRANCH) & usable & is_known, branch, branch_at)
    return branch_at
