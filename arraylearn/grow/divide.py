"""The rows of a level: the branch of each, the sums that the host reads, and their order in the next level.

Rows are ordered by node. In the next level the rows of branches 0 come first, and only the rows of children
that may be split are kept::

    level         | node 0: a b c d e | node 1: f g h |      branch 0: a c, g h      branch 1: b d e, f
    next level    | 0/0: a c | 1/0: g h | 0/1: b d e |       child 1 of node 1 is a leaf: f is left out
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.arrays.order import compress
from arraylearn.backend.arrays.segments import LEFT_OUT, histogram, scatter, split_lists
from arraylearn.backend.namespace import Place, from_host, read_together
from arraylearn.grow.branches.fractional import spread_missing
from arraylearn.grow.branches.surrogates import SurrogateChoice, find_surrogates, follow_surrogates
from arraylearn.grow.builder import NextLevel, Splits
from arraylearn.grow.finder import NodeChoice
from arraylearn.grow.rows import (
    UNKNOWN_BRANCH,
    Level,
    Rows,
    is_missing_number,
    level_of,
    nominal_column,
    numeric_column,
    rows_at,
    take_flat,
)
from arraylearn.grow.sorted_lists.lists import divide_lists
from arraylearn.grow.split import SplitRule
from arraylearn.grow.trees import ALL_BRANCHES
from arraylearn.table import MISSING_CODE

__all__ = ["Routed", "divide_level", "keep_nodes", "read_splits", "route_rows"]


class Routed(NamedTuple):
    """The branches of a level's rows."""

    choice: NodeChoice
    branch_at: Array | None  # (m,) branch of the row at each position, or UNKNOWN_BRANCH
    surrogates: SurrogateChoice | None  # those that were found, if the rule asks for surrogates


def route_rows(place: Place, rows: Rows, level: Level, rule: SplitRule, choice: NodeChoice) -> Routed:
    """Find the branch of each row, unless the sorted lists can simply be cut at a position."""
    if choice.cut is not None:
        return Routed(choice, None, None)
    branch_at = _route_by_value(place, rows, level, choice)
    if rule.missing != "surrogate" or rule.n_surrogates == 0:
        return Routed(choice, branch_at, None)
    found = find_surrogates(place, rows, level, choice.column, level.members, branch_at, rule.n_surrogates)
    if rows.has_missing:
        branch_at = follow_surrogates(place, rows, level, found, level.members, branch_at)
    return Routed(choice, branch_at, found)


def _route_by_value(place: Place, rows: Rows, level: Level, choice: NodeChoice) -> Array:
    """Return the branch (m,) that the row at each position takes, by its value, or UNKNOWN_BRANCH."""
    xp = place.xp
    here = rows_at(xp, level, level.members)
    column_at = xp.take(choice.column, level.block_at, axis=0)
    d_numeric = rows.columns.shape[0]
    by_number = by_code = None
    if d_numeric:
        value = take_flat(xp, rows.columns, numeric_column(xp, rows, column_at), here)
        if choice.goes_right is not None:
            return xp.astype(take_flat(xp, choice.goes_right, level.block_at, value), xp.int32)
        cut = xp.take(choice.threshold, level.block_at, axis=0)
        by_number = xp.astype(xp.astype(value, cut.dtype) > cut, xp.int32)
        if rows.has_missing_numbers:
            by_number = xp.where(is_missing_number(xp, rows, value), UNKNOWN_BRANCH, by_number)
    if rows.n_values:
        by_code = take_flat(xp, rows.codes, nominal_column(xp, rows, column_at), here)
        if choice.branches is not None:
            is_missing, last = by_code == MISSING_CODE, choice.branches.shape[1] - 1
            by_code = take_flat(xp, choice.branches, level.block_at, xp.where(is_missing, last, by_code))
            by_code = xp.where(is_missing, UNKNOWN_BRANCH, by_code)
    if by_number is None or by_code is None:
        return by_code if by_number is None else by_number
    return xp.where(column_at < d_numeric, by_number, by_code)


# ---- what the host reads


def read_splits(place: Place, rows: Rows, level: Level, rule: SplitRule, routed: Routed) -> Splits:
    """Sum the children, and bring the result of the level to the host in one sync."""
    choice, k = routed.choice, level.n_nodes
    offset, n_branches = _child_places(place, rows, level, rule, choice)
    n_children = int(np.sum(n_branches))
    sums = _sum_children(place, rows, level, routed, (offset, n_children))
    parts = {"column": choice.column, "score": choice.score, "threshold": choice.threshold, **sums}
    for name in ("missing_left", "gain", "branches", "sets"):
        if (part := getattr(choice, name)) is not None:
            parts[name] = part
    surrogates = [] if routed.surrogates is None else list(routed.surrogates)
    read = read_together(place, *parts.values(), *surrogates)
    host = dict(zip(parts, read, strict=False))
    counts, sizes = _as_children(level, host)
    score = np.astype(host["score"], np.float64) if choice.gain is None else _rounded(host["score"])
    return Splits(
        is_split=np.zeros(k, dtype=np.bool),
        column=np.astype(host["column"], np.int64),
        gain=score if choice.gain is None else _rounded(host["gain"]),
        score=score,
        threshold=host["threshold"],
        missing_left=host.get("missing_left"),
        offset=offset,
        n_branches=n_branches,
        child_counts=counts[:n_children],
        child_sizes=sizes[:n_children],
        missing_counts=counts[n_children:],
        missing_sizes=sizes[n_children:],
        branches=np.astype(host["branches"], np.int64) if "branches" in host else None,
        surrogates=tuple(read[len(parts) :]) or None,
        sets=host["sets"] > 0 if "sets" in host else None,
    )


def _child_places(
    place: Place, rows: Rows, level: Level, rule: SplitRule, choice: NodeChoice
) -> tuple[HostArray, HostArray]:
    """First child and number of branches (k,) of each node, on the host; multiway splits need a sync."""
    n_branches = np.full(level.n_nodes, 2, dtype=np.int64)
    if rows.n_values and rule.nominal == "multiway":
        (column,) = read_together(place, choice.column)
        column = np.astype(column, np.int64) - rows.columns.shape[0]
        widths = np.asarray([max(1, width) for width in rows.n_values])[np.clip(column, min=0)]
        n_branches = np.where(column >= 0, widths, n_branches)
    return np.cumulative_sum(n_branches) - n_branches, n_branches


def _sum_children(
    place: Place, rows: Rows, level: Level, routed: Routed, places: tuple[HostArray, int]
) -> dict[str, Array]:
    """Sum the rows of the children, and after them the rows of each node whose value is missing.

    Return sums and numbers of rows: of all of these, or of branch 0 alone if the others are the difference.
    """
    xp, (offset, n_children), choice = place.xp, places, routed.choice
    if routed.branch_at is None:
        assert choice.left is not None
        return {"left": choice.left}
    k, c = level.counts.shape
    child_at = xp.take(from_host(offset, place), level.block_at, axis=0) + routed.branch_at
    if choice.left is not None:
        is_left = xp.astype(routed.branch_at == 0, xp.int64)
        return {"left": choice.left, "n_left": histogram(xp, level.block_at, k, is_left)}
    if rows.has_missing:
        child_at = xp.where(routed.branch_at == UNKNOWN_BRANCH, n_children + level.block_at, child_at)
    label = xp.take(level.labels, level.members, axis=0)
    weights = None if level.weights is None else xp.take(level.weights, level.members, axis=0)
    counts = histogram(xp, child_at * c + label, (n_children + k) * c, weights)
    counts = xp.reshape(counts, (n_children + k, c))
    sizes = xp.sum(counts, axis=1) if weights is None else histogram(xp, child_at, n_children + k)
    return {"counts": counts, "sizes": sizes}


def _as_children(level: Level, host: dict[str, HostArray]) -> tuple[HostArray, HostArray]:
    """Return sums and sizes of the children and of missing rows; if `host` has `left`, none are missing."""
    k, c = level.counts.shape
    if "left" not in host:
        counts = host["counts"]
        if _has_integers(level):
            counts = np.astype(counts, np.int64)
        return counts, np.astype(host["sizes"], np.int64)
    left = np.astype(host["left"], np.int64)
    counts = np.reshape(np.stack((left, level.counts - left), axis=1), (2 * k, c))
    sizes = np.sum(counts, axis=1)
    if "n_left" in host:
        n_left = np.astype(host["n_left"], np.int64)
        sizes = np.reshape(np.stack((n_left, level.sizes - n_left), axis=1), (2 * k,))
    nothing = np.zeros((k, c), dtype=np.int64)
    return np.concat((counts, nothing)), np.concat((sizes, nothing[:, 0]))


def _has_integers(level: Level) -> bool:
    """Whether entries have no weights or integer ones."""
    return level.weights is None or "int" in str(level.weights.dtype)


def _rounded(values: HostArray) -> HostArray:
    """Drop the last bits: logarithms differ there between libraries."""
    return np.astype(np.astype(values, np.float32), np.float64)


# ---- the order of rows in the next level


def divide_level(
    place: Place, rows: Rows, level: Level, rule: SplitRule, routed: Routed, splits: Splits, step: NextLevel
) -> Level:
    """Lay out the rows of the children that may be split."""
    if routed.branch_at is None:
        return _cut_lists(place, rows, level, routed, step)
    return _send_rows(place, rows, level, rule, routed.branch_at, splits, step)


def _cut_lists(place: Place, rows: Rows, level: Level, routed: Routed, step: NextLevel) -> Level:
    """Lay out the rows of the next level if one list of each node is cut at a position."""
    is_live = np.reshape(step.is_live, (level.n_nodes, 2))
    branches = from_host(np.where(is_live, np.asarray([[0, 1]]), LEFT_OUT), place)
    cut, sizes = routed.choice.cut, step.branch_sizes
    assert cut is not None
    lists = divide_lists(place.xp, level.lists, cut, level.block_at, branches, sizes, rows.n_rows)
    return level_of(place, step.ids, step.counts, step.sizes, level.depth + 1, lists, level.entries)


def _send_rows(
    place: Place,
    rows: Rows,
    level: Level,
    rule: SplitRule,
    branch_at: Array,
    splits: Splits,
    step: NextLevel,
) -> Level:
    """Lay out the rows of the next level if each row takes a branch by its value."""
    xp, members = place.xp, level.members
    lists, entries, block_at = level.lists, level.entries, level.block_at
    if rule.missing == "fractional" and bool(np.any(splits.missing_sizes[step.is_split] > 0)):
        lists, entries, members, block_at, branch_at = spread_missing(place, level, step, splits, branch_at)
    elif rows.has_missing:
        default = xp.take(from_host(step.default, place, xp.int32), block_at, axis=0)
        branch_at = xp.where(branch_at == UNKNOWN_BRANCH, default, branch_at)
    goes_to = branch_at
    if not bool(np.all(step.is_live)):
        first_at = xp.take(from_host(splits.offset, place), block_at, axis=0)
        child_at = first_at + branch_at
        if rows.has_missing:
            child_at = xp.where(branch_at == ALL_BRANCHES, first_at, child_at)
        goes_to = xp.where(xp.take(from_host(step.is_live, place), child_at, axis=0), branch_at, LEFT_OUT)
    lists = _divide_lists(place, lists, entries.n_entries, members, goes_to, step.branch_sizes)
    return level_of(place, step.ids, step.counts, step.sizes, level.depth + 1, lists, entries)


def _divide_lists(
    place: Place, lists: Array, n_entries: int, members: Array, goes_to: Array, sizes: list[int]
) -> Array:
    """Put the entries of branch 0 first, then those of branch 1, ...; those of LEFT_OUT leave the lists."""
    xp = place.xp
    if lists.shape[0] == 1 and len(sizes) <= 2:  # the only list is in the order of the members
        parts = [compress(xp, members, goes_to == branch, size) for branch, size in enumerate(sizes)]
        return xp.concat(parts)[None, :]
    return split_lists(xp, lists, scatter(xp, goes_to, members, n_entries), sizes)


def keep_nodes(place: Place, level: Level, is_kept: HostArray) -> Level:
    """Leave out nodes of a level and their rows."""
    xp = place.xp
    goes_to = xp.take(from_host(np.where(is_kept, 0, LEFT_OUT), place), level.block_at, axis=0)
    sizes = level.sizes[is_kept]
    given = level.entries.n_entries, level.members, goes_to, [int(np.sum(sizes))]
    lists = _divide_lists(place, level.lists, *given)
    ids, counts = level.ids[is_kept], level.counts[is_kept]
    kept = level_of(place, ids, counts, sizes, level.depth, lists, level.entries)
    return kept._replace(bounds=None if level.bounds is None else level.bounds[is_kept])
