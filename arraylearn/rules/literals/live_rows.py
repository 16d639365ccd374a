"""The live rows: those that a rule may still cover, kept sorted by each numeric column."""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.order import argsort_rows, compress
from arraylearn.backend.arrays.segments import split_lists
from arraylearn.backend.namespace import Place
from arraylearn.rules.literals.candidates import Candidates
from arraylearn.rules.literals.row_blocks import (
    BlockLayout,
    BlockSums,
    lay_out,
    narrow_blocks,
    weigh_blocks,
)
from arraylearn.rules.literals.target import Target

__all__ = ["LiveRows", "all_rows", "all_rows_in_blocks", "lay_out_again", "restrict"]

# Where at most one of so many rows is left, sorting them anew is faster than filtering the sorted columns.
_SORT_ANEW = 16


class LiveRows(NamedTuple):
    """Some of the rows, and what the search for literals needs: sorted lists, and with blocks their sums."""

    is_live: Array  # (n,) bool
    lists: Array  # (d_sorted, m): the live rows (with blocks: and others) in the order of each column
    size: int  # number of live rows
    blocks: BlockSums | None = None  # None: all cuts of the lists are scored


def all_rows(place: Place, candidates: Candidates) -> LiveRows:
    """Return all rows as live."""
    is_live = place.xp.ones((candidates.n_rows,), dtype=place.xp.bool, device=place.device)
    return LiveRows(is_live, candidates.lists, candidates.n_rows)


def all_rows_in_blocks(place: Place, candidates: Candidates, layout: BlockLayout, target: Target) -> LiveRows:
    """Return all rows as live, to be searched by blocks."""
    live = all_rows(place, candidates)
    return live._replace(
        blocks=weigh_blocks(place, candidates, layout, target, live.is_live, candidates.n_rows)
    )


def lay_out_again(place: Place, candidates: Candidates, live: LiveRows) -> LiveRows:
    """Make new blocks once more than half of the rows in them are gone."""
    if live.blocks is None or not live.lists.shape[0] or 2 * live.size > live.lists.shape[1]:
        return live
    xp, target = place.xp, live.blocks.target
    lists = split_lists(xp, live.lists, xp.astype(live.is_live, xp.int32) - 1, (live.size,))
    layout = lay_out(place, candidates, lists)
    blocks = weigh_blocks(place, candidates, layout, target, live.is_live, live.size)
    return LiveRows(live.is_live, lists, live.size, blocks)


def restrict(xp: Namespace, candidates: Candidates, live: LiveRows, keep: Array, size: int) -> LiveRows:
    """Keep the live rows for which the mask `keep` (n,) holds; `size` of them do."""
    if size == live.size:
        return live
    is_live = live.is_live & keep
    d, m = live.lists.shape
    if d and size * _SORT_ANEW < m:
        return LiveRows(is_live, _sort_anew(xp, candidates.ranks, is_live, size), size)
    if live.blocks is not None:
        place = Place(xp, array_api_compat.device(is_live))
        changed = (live.is_live, live.size), (is_live, size)
        return LiveRows(is_live, live.lists, size, narrow_blocks(place, candidates, live.blocks, *changed))
    lists = live.lists[:, :size]
    if d:
        lists = split_lists(xp, live.lists, xp.astype(is_live, xp.int32) - 1, (size,))
    return LiveRows(is_live, lists, size)


def _sort_anew(xp: Namespace, ranks: Array, is_live: Array, size: int) -> Array:
    """Sort the live rows by each column of ranks (d, n)."""
    every = xp.arange(is_live.shape[0], dtype=xp.int64, device=array_api_compat.device(is_live))
    rows = compress(xp, every, is_live, size)
    rank = xp.take(ranks, rows, axis=1)
    # missing values come last
    order = argsort_rows(xp, xp.where(rank < 0, is_live.shape[0], rank))
    rows = xp.astype(rows, xp.int32)
    return xp.reshape(xp.take(rows, xp.reshape(order, (-1,)), axis=0), rank.shape)
