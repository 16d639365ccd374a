"""The rows that a rule may still cover."""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.blocks import split_lists
from arraylearn.backend.arrays.order import argsort_rows, compress
from arraylearn.backend.namespace import Place
from arraylearn.rules.blocks import Blocks, Layout, lay_out, narrow_blocks, weigh_blocks
from arraylearn.rules.candidates import Candidates, Target

__all__ = ["Pool", "lay_out_again", "open_blocks", "open_pool", "restrict"]

# One row of so many is sorted afresh sooner than picked out of the sorted columns.
_FEW = 16


class Pool(NamedTuple):
    """Some of the rows, and how the candidates among them are searched: by lists, or else by blocks."""

    is_live: Array  # (n,) bool
    lists: Array  # (d_sorted, m): the live rows of the sorted columns; with blocks, others may be there, too
    size: int  # how many rows are live
    blocks: Blocks | None = None


def open_pool(place: Place, candidates: Candidates) -> Pool:
    """Return the pool of all rows."""
    is_live = place.xp.ones((candidates.n_rows,), dtype=place.xp.bool, device=place.device)
    return Pool(is_live, candidates.lists, candidates.n_rows)


def open_blocks(place: Place, candidates: Candidates, layout: Layout, target: Target) -> Pool:
    """Return the pool of all rows, searched by blocks."""
    pool = open_pool(place, candidates)
    return pool._replace(
        blocks=weigh_blocks(place, candidates, layout, target, pool.is_live, candidates.n_rows)
    )


def lay_out_again(place: Place, candidates: Candidates, pool: Pool) -> Pool:
    """Make new blocks once more than half of the rows in them are gone."""
    if pool.blocks is None or not pool.lists.shape[0] or 2 * pool.size > pool.lists.shape[1]:
        return pool
    xp, target = place.xp, pool.blocks.target
    lists = split_lists(xp, pool.lists, xp.astype(pool.is_live, xp.int32) - 1, (pool.size,))
    layout = lay_out(place, candidates, lists)
    blocks = weigh_blocks(place, candidates, layout, target, pool.is_live, pool.size)
    return Pool(pool.is_live, lists, pool.size, blocks)


def restrict(xp: Namespace, candidates: Candidates, pool: Pool, keep: Array, size: int) -> Pool:
    """Keep the rows of a pool for which the mask `keep` (n,) holds; `size` of them do."""
    if size == pool.size:
        return pool
    is_live = pool.is_live & keep
    d, m = pool.lists.shape
    if d and size * _FEW < m:
        return Pool(is_live, _sort_few(xp, candidates.ranks, is_live, size), size)
    if pool.blocks is not None:
        place = Place(xp, array_api_compat.device(is_live))
        changed = (pool.is_live, pool.size), (is_live, size)
        return Pool(is_live, pool.lists, size, narrow_blocks(place, candidates, pool.blocks, *changed))
    lists = pool.lists[:, :size]
    if d:
        lists = split_lists(xp, pool.lists, xp.astype(is_live, xp.int32) - 1, (size,))
    return Pool(is_live, lists, size)


def _sort_few(xp: Namespace, ranks: Array, is_live: Array, size: int) -> Array:
    """Return the live rows in the order of each line of ranks (d, n), without a look at the others."""
    every = xp.arange(is_live.shape[0], dtype=xp.int64, device=array_api_compat.device(is_live))
    rows = compress(xp, every, is_live, size)
    rank = xp.take(ranks, rows, axis=1)
    # missing values come last
    order = argsort_rows(xp, xp.where(rank < 0, is_live.shape[0], rank))
    rows = xp.astype(rows, xp.int32)
    return xp.reshape(xp.take(rows, xp.reshape(order, (-1,)), axis=0), rank.shape)
