"""Splits by category: one branch for each, or two sets of categories; all columns of all nodes at once."""

from __future__ import annotations

from collections.abc import Iterator

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.segments import paired_histogram
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.grow.criteria import gini_gains, gini_scores
from arraylearn.grow.formulas import NO_SPLIT
from arraylearn.grow.rows import UNKNOWN_BRANCH, Level, Rows, rows_at, take_flat
from arraylearn.grow.split import SplitCandidates, SplitRule, is_gini, judge
from arraylearn.table import MISSING_CODE

__all__ = ["MOST_TRIED", "find_subsets", "scan_nominal", "width_groups"]

# With more than two classes, all sets of up to so many categories are tried.
MOST_TRIED = 8


def width_groups(n_values: tuple[int, ...]) -> list[tuple[int, list[int]]]:
    """Group columns of similar numbers of categories: (width, columns), with few different widths."""
    groups: dict[int, list[int]] = {}
    for column, n in enumerate(n_values):
        groups.setdefault(max(2, (max(n, 1) - 1).bit_length()), []).append(column)
    return [(max(max(n_values[j] for j in members), 1), members) for _, members in sorted(groups.items())]


def scan_nominal(place: Place, rows: Rows, level: Level, rule: SplitRule) -> SplitCandidates:
    """Judge every nominal column in every node."""
    xp = place.xp
    gains, scores, columns = [], [], []
    for width, members in width_groups(rows.n_values):
        features = xp.asarray(members, dtype=xp.int64, device=place.device)
        found = [
            _judge_nodes(place, rows, level, rule, features, width, nodes)
            for nodes in _node_chunks(rows, level, rule, width, len(members))
        ]
        gains.append(xp.concat([gain for gain, _ in found], axis=1))
        scores.append(xp.concat([score for _, score in found], axis=1))
        columns += members
    back = xp.asarray(
        sorted(range(len(columns)), key=columns.__getitem__), dtype=xp.int64, device=place.device
    )
    gain, score = (xp.take(xp.concat(parts, axis=0), back, axis=0) for parts in (gains, scores))
    return SplitCandidates(gain, score)


def find_subsets(place: Place, rows: Rows, level: Level, rule: SplitRule, winner: Array) -> Array:
    """Return the branch of each category of the chosen columns: (k, v + 1) int32, or UNKNOWN_BRANCH.

    `winner` (k,) is the best of the nominal columns; for nodes that chose a numeric one the result is not
    used. The last entry is the branch of the missing values, where the rule learns it.
    """
    xp = place.xp
    width = max(rows.n_values)
    n_tried = max((n for n in rows.n_values if n <= MOST_TRIED), default=width)
    found = []
    for nodes in _node_chunks(rows, level, rule, width, 1):
        counts, held = _winner_counts(place, rows, level, winner, width, nodes)
        total = _totals(place, level, nodes)
        branches = _best_subsets(xp, rule, counts, total, held)[2]
        if rows.n_classes > 2 and n_tried < width:
            # all sets of the narrow columns were tried when they were judged, and are again here
            narrow, narrow_held = (_narrowed(xp, table, n_tried) for table in (counts, held))
            tried = _best_subsets(xp, rule, narrow, total, narrow_held)[2]
            tried = xp.concat((tried[..., :n_tried], branches[..., n_tried:-1], tried[..., -1:]), axis=2)
            n_values = xp.asarray(rows.n_values, dtype=xp.int64, device=place.device)
            is_narrow = xp.take(n_values, winner[nodes], axis=0) <= n_tried
            branches = xp.where(is_narrow[:, None], tried, branches)
        found.append(branches[0, ...])
    return xp.concat(found, axis=0)


def _narrowed(xp: Namespace, table: Array | None, n_values: int) -> Array | None:
    """Keep the first categories of a table (d, k, v + 1, ...) and the last one; None stays None."""
    if table is None:
        return None
    return xp.concat((table[:, :, :n_values, ...], table[:, :, -1:, ...]), axis=2)


def _node_chunks(rows: Rows, level: Level, rule: SplitRule, width: int, n_columns: int) -> Iterator[slice]:
    """Cut the nodes so that their tables of counts fit the budget."""
    tried = 1
    if rule.nominal == "binary" and rows.n_classes > 2:
        tried = rows.n_classes + 2 ** min(width, MOST_TRIED) // (width + 1)
    return row_chunks(level.n_nodes, 64 * n_columns * (width + 1) * rows.n_classes * tried)


def _judge_nodes(
    place: Place, rows: Rows, level: Level, rule: SplitRule, features: Array, width: int, nodes: slice
) -> tuple[Array, Array]:
    xp = place.xp
    positions = _positions(level, nodes)
    entries = level.members[positions]
    codes = xp.take(xp.take(rows.codes, features, axis=0), rows_at(xp, level, entries), axis=1)
    counts, held = _count_codes(place, rows, level, codes, width, nodes, positions)
    total = _totals(place, level, nodes)
    if rule.nominal == "binary":
        gain, score, _ = _best_subsets(xp, rule, counts, total, held)
        return gain, score
    known = counts[..., :width, :]
    held = None if held is None else held[..., :width]
    return judge(xp, rule, known, xp.broadcast_to(total, known.shape[:2]), rows=held)


def _positions(level: Level, nodes: slice) -> slice:
    first = int(level.sizes[: nodes.start].sum())
    return slice(first, first + int(level.sizes[nodes].sum()))


def _totals(place: Place, level: Level, nodes: slice) -> Array:
    weight = place.xp.sum(level.counts_on[nodes, :], axis=1)
    return place.xp.astype(weight, accumulator_dtype(place))[None, :]


def _winner_counts(
    place: Place, rows: Rows, level: Level, winner: Array, width: int, nodes: slice
) -> tuple[Array, Array | None]:
    xp = place.xp
    positions = _positions(level, nodes)
    rows_here = rows_at(xp, level, level.members[positions])
    codes = take_flat(xp, rows.codes, xp.take(winner, level.block_at[positions], axis=0), rows_here)
    return _count_codes(place, rows, level, codes[None, :], width, nodes, positions)


def _count_codes(
    place: Place, rows: Rows, level: Level, codes: Array, width: int, nodes: slice, positions: slice
) -> tuple[Array, Array | None]:
    """Class weights (d, k, width + 1, c) by category; the last one holds the missing values.

    Also the rows (d, k, width + 1), if they are counted beside their weights.
    """
    xp, held = place.xp, None
    entries = level.members[positions]
    label = xp.astype(xp.take(level.labels, entries, axis=0), xp.int64)
    node = level.block_at[positions] - nodes.start
    keys = node * rows.n_classes + label
    weights = None if level.weights is None else xp.take(level.weights, entries, axis=0)
    n_nodes = nodes.stop - nodes.start
    values = xp.where(codes == MISSING_CODE, width, codes)
    if level.entries.rows is not None:
        parts = xp.take(level.entries.rows, entries, axis=0)
        held = paired_histogram(xp, values, node, width + 1, n_nodes, parts)
        held = xp.astype(xp.reshape(held, (codes.shape[0], n_nodes, width + 1)), accumulator_dtype(place))
    counts = paired_histogram(xp, values, keys, width + 1, n_nodes * rows.n_classes, weights)
    counts = xp.reshape(counts, (codes.shape[0], n_nodes, rows.n_classes, width + 1))
    return xp.astype(xp.permute_dims(counts, (0, 1, 3, 2)), accumulator_dtype(place)), held


def _best_subsets(
    xp: Namespace, rule: SplitRule, counts: Array, total: Array, held: Array | None
) -> tuple[Array, Array, Array]:
    """Find the best cut of the categories into two sets, the categories ordered by the share of a class.

    For two classes the best of all sets is a cut of this order (Breiman et al., 1984). For more, one order by
    the share of each class is tried, and if there are few categories, all sets as well.

    Returns gain and score (d, k), and branches (d, k, v + 1).
    """
    if rule.missing != "direction":
        is_missing = xp.arange(counts.shape[2], device=array_api_compat.device(counts)) == counts.shape[2] - 1
        counts = xp.where(is_missing[:, None], 0.0, counts)
        held = None if held is None else xp.where(is_missing, 0.0, held)
    weight = xp.sum(counts, axis=-1)  # (d, k, v)
    is_present = weight > 0
    order = _orders(xp, counts, weight, is_present)
    shape = (*order.shape, counts.shape[-1])
    ordered = xp.take_along_axis(
        xp.broadcast_to(counts[:, :, None, :, :], shape), xp.broadcast_to(order[..., None], shape), axis=3
    )
    left = xp.reshape(xp.cumulative_sum(ordered, axis=3), (*weight.shape[:2], -1, counts.shape[-1]))
    n_ordered, subsets = left.shape[2], _all_subsets(xp, rule, counts)
    if subsets is not None:
        left = xp.concat((left, xp.matmul(xp.astype(subsets, counts.dtype), counts)), axis=2)
    right = xp.sum(counts, axis=2)[:, :, None, :] - left
    is_cut = (xp.sum(left, axis=-1) >= rule.enough) & (xp.sum(right, axis=-1) >= rule.enough)
    if held is not None:
        below = xp.take_along_axis(xp.broadcast_to(held[:, :, None, :], order.shape), order, axis=3)
        below = xp.reshape(xp.cumulative_sum(below, axis=3), (*weight.shape[:2], -1))
        if subsets is not None:
            in_sets = xp.matmul(xp.astype(subsets, held.dtype), held[..., None])[..., 0]
            below = xp.concat((below, in_sets), axis=2)
        above = xp.sum(held, axis=2)[:, :, None] - below
        is_cut = is_cut & (below >= rule.enough_rows) & (above >= rule.enough_rows)
    is_plain = is_gini(rule) and rule.exact is not None
    if is_plain:  # as the thresholds of numeric columns
        by_class = (xp.permute_dims(side, (3, 0, 1, 2)) for side in (left, right))
        scores = xp.where(is_cut, gini_scores(xp, *by_class), NO_SPLIT)
    else:
        scores = rule.threshold_measure(xp, xp.stack((left, right), axis=-2))
        scores = xp.astype(xp.where(is_cut, scores, -xp.inf), xp.float32)  # see `choose_columns`
    best = xp.argmax(scores, axis=-1)  # (d, k); among equals the first: cuts of orders precede the other sets
    width = counts.shape[2]
    which, cut = best % n_ordered // width, best % width
    pick = xp.broadcast_to(which[..., None, None], (*which.shape, 1, width))
    rank = xp.take_along_axis(xp.argsort(order, axis=-1, stable=True), pick, axis=2)[:, :, 0, :]
    goes_right = rank > cut[..., None]
    if subsets is not None:
        number = xp.where(best < n_ordered, 0, best - n_ordered)
        chosen = xp.reshape(xp.take(subsets, xp.reshape(number, (-1,)), axis=0), weight.shape)
        goes_right = xp.where((best < n_ordered)[..., None], goes_right, ~chosen)
    branches = xp.where(is_present, xp.astype(goes_right, xp.int32), UNKNOWN_BRANCH)
    kept = xp.where((is_present & ~goes_right)[..., None], counts, 0.0)
    sides = xp.stack((xp.sum(kept, axis=2), xp.sum(counts, axis=2) - xp.sum(kept, axis=2)), axis=-2)
    gain, score = judge(xp, rule, sides, xp.broadcast_to(total, weight.shape[:2]))
    if is_plain:
        reached = xp.take_along_axis(scores, best[..., None], axis=-1)[..., 0]
        known = xp.permute_dims(xp.sum(counts, axis=2), (2, 0, 1))
        share = xp.sum(known, axis=0) / xp.where(total > 0, total, 1.0)
        gain = score = xp.where(
            gain > -xp.inf, gini_gains(xp, xp.where(reached < 0, 0.0, reached), known) * share, -xp.inf
        )
    return gain, score, branches


def _orders(xp: Namespace, counts: Array, weight: Array, is_present: Array) -> Array:
    """Order the categories by the share of each class (of two classes: of the second): (d, k, o, v)."""
    classes = counts[..., 1:2] if counts.shape[-1] == 2 else counts
    share = xp.where(is_present[..., None], classes / xp.where(is_present, weight, 1.0)[..., None], 2.0)
    # in float32, as compiled bodies order them
    return xp.argsort(xp.permute_dims(xp.astype(share, xp.float32), (0, 1, 3, 2)), axis=-1, stable=True)


def _all_subsets(xp: Namespace, rule: SplitRule, counts: Array) -> Array | None:
    """Return all sets of categories, one of each complementary pair: (m, v) bool; None if there are too many.

    The last entry (of those that may hold rows) is in none of them.
    """
    width = counts.shape[2]
    n_free = width - 1 if rule.missing == "direction" else width - 2
    if counts.shape[-1] <= 2 or width - 1 > MOST_TRIED:
        return None
    device = array_api_compat.device(counts)
    number = xp.arange(2**n_free, dtype=xp.int64, device=device)
    entry = xp.arange(width, dtype=xp.int64, device=device)
    is_in = (number[:, None] // 2 ** xp.where(entry < n_free, entry, 0)) % 2 == 1
    return is_in & (entry < n_free)
