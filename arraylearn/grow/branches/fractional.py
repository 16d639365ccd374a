"""Rows with a missing value go down every branch with a part of their weight (C4.5)."""

from __future__ import annotations

import numpy as np

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.segments import scatter
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host
from arraylearn.grow.builder import NextLevel, Splits
from arraylearn.grow.rows import UNKNOWN_BRANCH, Entries, Level, number_copies, rows_at

__all__ = ["spread_missing"]


def spread_missing(
    place: Place, level: Level, step: NextLevel, splits: Splits, branch_at: Array
) -> tuple[Array, Entries, Array, Array, Array]:
    """Replace each row whose value is missing by one copy per branch.

    Returns
    -------
    lists : int32 array (d, m')
        The lists of the level over the new entries.
    entries : Entries
        The new entries, numbered in the order of the old level's members, the copies of a row side by side.
    members, block_at, branch_at : arrays (m',)
        The entries in order, their node and the branch they take.
    """
    xp = place.xp
    copies_of_node = np.where(step.is_split, splits.n_branches, 1)
    total = int(np.sum(level.sizes) + np.sum(splits.missing_sizes * (copies_of_node - 1)))
    copies_at = xp.where(
        branch_at == UNKNOWN_BRANCH, xp.take(from_host(copies_of_node, place), level.block_at, axis=0), 1
    )
    origin, copy = number_copies(xp, copies_at, total)  # the position of the old entry
    old_branch = xp.take(branch_at, origin, axis=0)
    # rows of a node that does not split are not copied; they leave the lists with the node
    branch = xp.astype(
        xp.where(old_branch == UNKNOWN_BRANCH, copy, xp.astype(old_branch, xp.int64)), xp.int32
    )
    block_at = xp.take(level.block_at, origin, axis=0)
    old = xp.take(level.members, origin, axis=0)
    child = xp.take(from_host(splits.offset, place), block_at, axis=0) + xp.astype(branch, xp.int64)
    dtype = accumulator_dtype(place)
    share = xp.take(from_host(step.share, place, dtype), child, axis=0)
    share = xp.where(old_branch == UNKNOWN_BRANCH, share, xp.ones_like(share))
    held = level.entries.rows
    weight, rows = (
        None if part is None else xp.astype(xp.take(part, old, axis=0), dtype) * share
        for part in (level.weights, held)
    )
    weight = share if weight is None else weight
    entries = Entries(xp.take(level.labels, old, axis=0), weight, rows_at(xp, level, old), rows)
    lists = _expand_lists(xp, level, copies_at, total)
    members = xp.arange(total, dtype=xp.int32, device=place.device)
    return lists, entries, members, block_at, branch


def _expand_lists(xp: Namespace, level: Level, copies_at: Array, total: int) -> Array:
    """Put the copies of an entry in its position of each list."""
    (d, _), n = level.lists.shape, level.entries.n_entries
    copies = scatter(xp, copies_at, level.members, n)
    first = scatter(xp, xp.cumulative_sum(copies_at) - copies_at, level.members, n)
    flat = xp.reshape(level.lists, (-1,))
    origin, copy = number_copies(xp, xp.take(copies, flat, axis=0), d * total)
    numbers = xp.take(xp.take(first, flat, axis=0), origin, axis=0) + copy
    return xp.reshape(xp.astype(numbers, xp.int32), (d, total))
