"""Exact thresholds from presorted lists (SLIQ): all columns of all nodes of a level in one scan."""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat
import numpy as np

from arraylearn._typing import Array, Dtype, Namespace
from arraylearn.backend.arrays.order import argsort_rows
from arraylearn.backend.arrays.segments import NO_HIT, block_max, first_in_block, steps
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host
from arraylearn.grow.bounds import constrain, keeps_bounds
from arraylearn.grow.criteria import gini_gains, gini_scores
from arraylearn.grow.rows import Level, Rows, rows_at, take_flat
from arraylearn.grow.sorted_lists.lists import SortedRows, at_a_time, search_lists
from arraylearn.grow.split import SLACK, SplitCandidates, SplitRule, is_gini, judge, midpoint

__all__ = ["at_positions", "running_weights", "scan_counts", "scan_lists", "sort_values"]

# Values that differ by no more than this are equal for C4.5.
_C45_GAP = 1e-5


def scan_lists(
    place: Place, rows: Rows, level: Level, rule: SplitRule, allowed: Array | None
) -> SplitCandidates:
    """Find the best threshold of every column in every node, or of the best column alone."""
    is_plain = _has_integers(place, level, rule) and not rows.has_missing_numbers
    is_plain = is_plain and rule.trend is None and not rule.require_average_gain
    if is_plain and is_gini(rule) and level.entries.rows is None:
        return scan_gini(place, rows, level, rule, allowed)
    return scan_counts(place, rows, level, rule)


def sort_values(place: Place, rows: Rows, level: Level) -> Array:
    """Sort the rows of each node of a level by each column."""
    xp = place.xp
    entries = level.members
    values = xp.take(rows.columns, rows_at(xp, level, entries), axis=1)
    by_value = argsort_rows(xp, values)
    block = xp.reshape(xp.take(level.block_at, xp.reshape(by_value, (-1,)), axis=0), by_value.shape)
    order = xp.take_along_axis(by_value, argsort_rows(xp, xp.astype(block, xp.int32)), axis=1)
    return xp.reshape(xp.take(entries, xp.reshape(order, (-1,)), axis=0), order.shape)


def _has_integers(place: Place, level: Level, rule: SplitRule) -> bool:
    """Whether all rows of the level have integer weights, none of them spread over several branches."""
    if level.weights is None:
        return True
    has_integers = level.source is None and not rule.scale_least
    return has_integers and bool(place.xp.isdtype(level.weights.dtype, "integral"))


def scan_gini(
    place: Place, rows: Rows, level: Level, rule: SplitRule, allowed: Array | None
) -> SplitCandidates:
    """Find the column and threshold of each node by the Gini gain: integer weights, no missing numbers."""
    xp = place.xp
    d = rows.columns.shape[0]
    if allowed is not None:
        allowed = xp.take(allowed, from_host(np.asarray(rows.column_order[:d]), place), axis=0)
    data = SortedRows(level.lists, rows.columns, rows.class_ends, level.weights)
    least = _least_integer(rule.least if level.weights is None else rule.enough)
    blocks = level.starts, level.block_at, level.counts_on
    cut = search_lists(xp, data, *blocks, least=least, allowed=allowed)
    m = level.lists.shape[1]
    column_idx, neighbours = cut.feature, xp.stack((cut.position, xp.minimum(cut.position + 1, m - 1)))
    found = take_flat(
        xp, rows.columns, column_idx[None, :], take_flat(xp, level.lists, column_idx[None, :], neighbours)
    )
    low, high = found[0, :], found[1, :]
    # thresholds of bins are the lower bin, not a midpoint
    threshold = midpoint(xp, low, high) if rows.edges is None else low
    gain = gini_gains(xp, cut.score, xp.permute_dims(level.counts_on, (1, 0)))[None, :]
    kept = cut if level.weights is None else None
    if not rows.n_values:
        return SplitCandidates(gain, gain, threshold[None, :], column_idx=column_idx, cut=kept)
    # with nominal columns: one candidate per node, in the row of its column
    columns_idx = xp.arange(d, dtype=column_idx.dtype, device=place.device)[:, None]
    gain = xp.where(columns_idx == column_idx[None, :], gain, -xp.inf)
    return SplitCandidates(gain, gain, xp.broadcast_to(threshold[None, :], gain.shape))


def scan_counts(place: Place, rows: Rows, level: Level, rule: SplitRule) -> SplitCandidates:
    """Scan by any measure, any weights, with missing numbers."""
    xp = place.xp
    m, d = level.lists.shape[1], rows.columns.shape[0]
    parts = []
    for f in row_chunks(d, 64 * m * rows.n_classes, most=at_a_time(place, m)):
        own = rule if rule.trend is None else rule._replace(trend=rule.trend[f])
        parts.append(_scan_some(place, rows, level, own, level.lists[f, :], rows.columns[f, :]))
    fields = zip(*parts, strict=True)
    return SplitCandidates(*(None if f[0] is None else xp.concat(list(f), axis=0) for f in fields))


def _scan_some(
    place: Place, rows: Rows, level: Level, rule: SplitRule, lists: Array, columns: Array
) -> SplitCandidates:
    xp, dtype = place.xp, accumulator_dtype(place)
    values = xp.take_along_axis(columns, xp.astype(rows_at(xp, level, lists), xp.int64), axis=-1)
    is_known = ~xp.isnan(values) if rows.has_missing_numbers else None
    left, known = running_weights(xp, level, lists, rows.n_classes, is_known)
    held = _running_rows(xp, level, lists, is_known)
    by_node = xp.permute_dims(level.counts_on, (1, 0))[:, None, :]  # (c, 1, k)
    is_step = steps(xp, values, _C45_GAP if rule.penalize_thresholds else 0.0)
    is_binned = rows.edges is not None
    if rule.missing != "direction" or not rows.has_missing_numbers:
        is_step = is_step & _may_cut(place, level, rule, left, known, held)
        best, position = _best_positions(place, level, rule, left, known, is_step)
        counted = _count_thresholds(place, level, rule, is_step)
        here = at_positions(xp, dtype, values, left, position)
        found = _Positions(*here, best, position, known, counted)
        return _finish(place, level, rule, found, is_binned)
    # missing rows on the left, then on the right, where known against missing values is a split as well
    missing = by_node - known
    after = xp.concat((~xp.isnan(values[:, 1:]), xp.zeros_like(is_step[:, :1])), axis=1)
    is_border = ~xp.isnan(values) & (is_step | ~after)
    spread = xp.take(missing, level.block_at, axis=-1)
    held_left = None
    if held is not None and (of_all := _running_rows(xp, level, lists, None)) is not None:
        held_left = held[0] + xp.take(of_all[1] - held[1], level.block_at, axis=-1), of_all[1]
        held = held[0], of_all[1]
    goes_right = is_border & _may_cut(place, level, rule, left, known + missing, held)
    best_right, at_right = _best_positions(place, level, rule, left, known + missing, goes_right)
    is_left = is_border & is_step & _may_cut(place, level, rule, left + spread, known + missing, held_left)
    best_left, at_left = _best_positions(place, level, rule, left + spread, known + missing, is_left)
    goes_left = best_left > best_right
    position, best = xp.where(goes_left, at_left, at_right), xp.maximum(best_left, best_right)
    counted = _count_thresholds(place, level, rule, goes_right)
    ends, left_counts = at_positions(xp, dtype, values, left, position)
    left_counts = left_counts + xp.where(goes_left[None, ...], xp.astype(missing, dtype), 0.0)
    found = _Positions(ends, left_counts, best, position, known + missing, counted)
    return _finish(place, level, rule, found, is_binned)._replace(missing_left=goes_left)


def running_weights(
    xp: Namespace, level: Level, lists: Array, n_classes: int, is_known: Array | None
) -> tuple[Array, Array]:
    """Class weights left of each position (c, d, m), itself included, and of each node (c, d, k).

    Running sums start at the first position of a list; only positions where `is_known` (d, m) count.
    """
    label = xp.reshape(xp.take(level.labels, xp.reshape(lists, (-1,)), axis=0), lists.shape)
    device = array_api_compat.device(lists)
    classes = xp.arange(n_classes, dtype=label.dtype, device=device)
    is_class = label[None, ...] == classes[:, None, None]
    if is_known is not None:
        is_class = is_class & is_known[None, ...]
    if level.weights is None:
        amount = xp.astype(is_class, xp.int64)
    else:
        weight = xp.reshape(xp.take(level.weights, xp.reshape(lists, (-1,)), axis=0), lists.shape)
        amount = xp.where(is_class, weight[None, ...], xp.zeros_like(weight)[None, ...])
    running = xp.cumulative_sum(amount, axis=-1)
    ends = xp.concat((level.starts[1:], xp.asarray([lists.shape[1]], dtype=xp.int64, device=device))) - 1
    at_end = xp.take(running, ends, axis=-1)
    before = xp.concat((xp.zeros_like(at_end[..., :1]), at_end[..., :-1]), axis=-1)
    return running - xp.take(before, level.block_at, axis=-1), at_end - before


def at_positions(
    xp: Namespace, dtype: Dtype, values: Array, left: Array, position: Array
) -> tuple[tuple[Array, Array], Array]:
    """Return the values on both sides of positions (d, k), and the class weights up to them."""
    at = xp.maximum(position, 0)
    low = xp.take_along_axis(values, at, axis=-1)
    high = xp.take_along_axis(values, xp.minimum(at + 1, values.shape[1] - 1), axis=-1)
    found = xp.take_along_axis(left, xp.broadcast_to(at[None, ...], (left.shape[0], *at.shape)), axis=-1)
    return (low, high), xp.astype(found, dtype)


def _best_positions(
    place: Place, level: Level, rule: SplitRule, left: Array, known: Array, is_allowed: Array
) -> tuple[Array, Array]:
    """Score the allowed positions; return the best score of each node and its first position: (d, k) each."""
    xp, dtype = place.xp, accumulator_dtype(place)
    total = xp.take(known, level.block_at, axis=-1)
    right = total - left
    if (constraint := constrain(place, rule.trend, level, dtype)) is not None:
        bounds = xp.take(constraint.bounds, level.block_at, axis=1)
        low_high = bounds[0, :], bounds[1, :]
        parts = ((part[-1, :, :], xp.sum(part, axis=0)) for part in (left, total))
        is_allowed = is_allowed & keeps_bounds(xp, constraint.trend[:, None], low_high, *parts)
    if is_gini(rule) and _are_integers(xp, left, level):
        scores = gini_scores(xp, left, right)
    else:
        measure, (d, m) = rule.threshold_measure, left.shape[1:]
        scored = []
        for some in row_chunks(m, 64 * left.shape[0] * d, most=at_a_time(place, d)):
            sides = [xp.astype(side[:, :, some], dtype) for side in (left, right)]
            part = measure(xp, xp.permute_dims(xp.stack(sides), (2, 3, 0, 1)))  # of (2, c, d, m)
            scored.append(xp.astype(part, xp.float32))  # see `choose_columns`
        scores = xp.astype(xp.concat(scored, axis=1), dtype)
    scores = xp.where(is_allowed, scores, -xp.inf)
    best = block_max(xp, scores, level.starts, level.block_at)
    is_hit = is_allowed & (scores == xp.take(best, level.block_at, axis=1))
    return best, first_in_block(xp, is_hit, level.starts, level.block_at)


def _may_cut(
    place: Place,
    level: Level,
    rule: SplitRule,
    left: Array,
    known: Array,
    held: tuple[Array, Array] | None,
) -> Array:
    """Whether both sides of each position (d, m) are large enough.

    `left` and `known` come from `running_weights`, `held` from `_running_rows`.
    """
    xp, dtype, n_classes = place.xp, accumulator_dtype(place), known.shape[0]
    sides: list[tuple[Array, Array, float]] = []
    if held is not None:
        sides.append((*held, rule.least_rows))
    sides.append((xp.sum(left, axis=0), xp.sum(known, axis=0), rule.least))
    is_large = xp.ones(left.shape[1:], dtype=xp.bool, device=place.device)
    for number, (below, total, least) in enumerate(sides):
        total = xp.astype(total, dtype)
        enough = xp.full_like(total, max(least * (1.0 - SLACK), 1e-9))
        if rule.scale_least and number == 0:  # C4.5's rule is one of rows
            share = 0.1 * total / n_classes
            enough = xp.minimum(xp.maximum(share, least), max(25.0, least)) * (1.0 - SLACK)
        n_left = xp.astype(below, dtype)
        n_right = xp.take(total, level.block_at, axis=-1) - n_left
        enough_at = xp.take(enough, level.block_at, axis=-1)
        is_large = is_large & (n_left >= enough_at) & (n_right >= enough_at)
    return is_large


def _running_rows(
    xp: Namespace, level: Level, lists: Array, is_known: Array | None
) -> tuple[Array, Array] | None:
    """Do what `running_weights` does for rows (d, m), (d, k); None where weights are their number."""
    entries = level.entries
    if entries.rows is None:
        return None
    of_one_class = entries._replace(labels=xp.zeros_like(entries.labels), weights=entries.rows)
    left, known = running_weights(xp, level._replace(entries=of_one_class), lists, 1, is_known)
    return left[0, ...], known[0, ...]


class _Positions(NamedTuple):
    """The best position of each list in each node: arrays (d, k)."""

    ends: tuple[Array, Array]  # the values on both sides
    left_counts: Array  # (c, d, k) class weights up to it
    best: Array  # its score
    position: Array  # or NO_HIT
    known: Array  # (c, d, k) class weights of the node
    n_thresholds: Array | None  # how many were tried, if the rule needs it


def _finish(
    place: Place, level: Level, rule: SplitRule, found: _Positions, is_binned: bool
) -> SplitCandidates:
    """Turn positions into thresholds and judge the splits."""
    xp, dtype = place.xp, accumulator_dtype(place)
    (low, high), left_counts, best, position, known, n_thresholds = found
    is_inside = high > low
    threshold = low
    if not is_binned:
        threshold = xp.where(is_inside, midpoint(xp, low, xp.where(is_inside, high, low)), low)
    known_counts = xp.astype(known, dtype)
    # without a split put all rows on the left: the position may belong to another node
    left_counts = xp.where((position != NO_HIT)[None, ...], left_counts, known_counts)
    right_counts = known_counts - left_counts
    sides = xp.permute_dims(xp.stack((left_counts, right_counts)), (2, 3, 0, 1))  # (d, k, 2, c)
    total = xp.astype(xp.sum(level.counts_on, axis=1), dtype)[None, :]
    gain, score = judge(xp, rule, sides, xp.broadcast_to(total, best.shape), n_thresholds)
    if is_gini(rule) and _are_integers(xp, known, level):
        # the exact form, so that integer weights give the same tree as repeated rows
        fraction = xp.astype(xp.sum(known, axis=0), dtype) / total
        gain = score = gini_gains(xp, xp.where(best < 0, 0.0, best), known) * fraction
    has_split = position != NO_HIT
    return SplitCandidates(xp.where(has_split, gain, -xp.inf), xp.where(has_split, score, -xp.inf), threshold)


def _count_thresholds(place: Place, level: Level, rule: SplitRule, is_tried: Array) -> Array | None:
    """Count the thresholds (d, k) that leave enough rows on both sides, if the rule needs that."""
    if not rule.penalize_thresholds:
        return None
    xp, dtype = place.xp, accumulator_dtype(place)
    running = xp.cumulative_sum(xp.astype(is_tried, xp.int64), axis=-1)
    first, last = (
        level.starts,
        level.starts + xp.asarray(level.sizes, device=place.device, dtype=xp.int64) - 1,
    )
    counted = xp.take(running, last, axis=-1) - xp.take(running, first, axis=-1)
    return xp.astype(counted, dtype) + xp.astype(xp.take(is_tried, first, axis=-1), dtype)


def _are_integers(xp: Namespace, counts: Array, level: Level) -> bool:
    """Whether no row is spread over several branches, so that `gini_scores` may be used."""
    return level.source is None or bool(xp.isdtype(counts.dtype, "integral"))


def _least_integer(least: float) -> int:
    return max(1, -int(-least // 1))
