"""Compiled body of `arraylearn.backend.ops.boosted_growth`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from arraylearn.backend.arrays.scratch import KeptBuffers
from arraylearn.backend.cpu.jit import Host
from arraylearn.backend.native.compiled.boosted_levels import work
from arraylearn.backend.native.compiled.boosted_room import AT, Room, Rows, Search, enlarge, make_room
from arraylearn.backend.native.compiled.team import dismiss, make_desk
from arraylearn.backend.ops.gradients import GRADIENT_BITS
from arraylearn.backend.threads import free_threads, with_workers

__all__ = ["grow_boosted_trees"]

# Cells of a tree (rows x columns) for each further thread, and the largest team: whoever finds nothing to do
# does not sleep, but takes time from those who do.
_LEAST_CELLS = 100_000
_LARGEST_TEAM = 16
# Nodes of a level that there is room for at first.
_FIRST_TABLES = 64


def grow_boosted_trees(bins: Host, cells: Host, *others: Any) -> Iterator[Any] | None:
    if cells.dtype != np.uint8:  # NumPy's `histogram_cells` made them: too few values
        return None
    return _grow_all(bins, cells, *others)


def _grow_all(
    bins: Host,
    cells: Host,
    n_bins: int,
    missing: Sequence[int],
    buffers: KeptBuffers,
    packed: Host,
    shifts: Host,
    rows: Host,
    units: Host,
    is_used: Sequence[Host | None],
    rules: Any,
    result: Callable[[Host, Host, Host], Any],
) -> Iterator[Any]:
    (d, _), k, m = bins.shape, packed.shape[0], rows.shape[0]
    depth = 1 << 40 if rules.max_depth is None else rules.max_depth
    n_threads = min(free_threads(), 1 + m * d // _LEAST_CELLS, _LARGEST_TEAM)
    room, order, aside = buffers.get((d, n_bins, m, n_threads, _n_tables(depth)), _make_buffers)
    table = Rows(bins, cells, packed, order, aside)
    search = _plan_search(d, missing, shifts, units, is_used, rules, depth)
    for tree in range(k):
        order[:] = rows
        room.at[:] = 0
        room.at[AT.TREE] = tree
        while not _grow_with_a_team(table, search, room, n_threads):
            room = enlarge(room, m, n_threads)
            buffers.replace(room, order, aside)
        n = room.at[AT.N_NODES]
        yield result(room.whole[:, :n].copy(), room.real[:, :n].copy(), order)


def _grow_with_a_team(table: Rows, search: Search, room: Room, n_threads: int) -> bool:
    """Grow a tree, or go on with it; return whether it is complete.

    The assistants leave when it is: who keeps them and then waits for other threads may wait for ever.
    """
    desk = make_desk()
    assist = partial(work, table, search, room, desk, n_threads, False)
    with with_workers(assist, partial(dismiss, desk), n_threads):
        return work(table, search, room, desk, n_threads, True)


def _make_buffers(sizes: tuple[int, ...]) -> tuple[Room, Host, Host]:
    """Return buffers for trees, for the rows (m,) of one and for rows that are set aside (2, m)."""
    d, n_bins, m, n_threads, n_tables = sizes
    room = make_room(d, n_bins, m, n_threads, n_tables, 4 * n_tables)
    return room, np.empty(m, dtype=np.int64), np.empty((2, m), dtype=np.int64)


def _n_tables(depth: int) -> int:
    """Return for how many nodes of a level there is room at first: the last level needs none."""
    return 1 << min(depth - 1, _FIRST_TABLES.bit_length() - 1)


def _plan_search(
    d: int,
    missing: Sequence[int],
    shifts: Host,
    units: Host,
    is_used: Sequence[Host | None],
    rules: Any,
    depth: int,
) -> Search:
    masks = np.ones((len(is_used), d), dtype=np.bool_)
    for mask, used in zip(masks, is_used, strict=True):
        mask[:] = True if used is None else used
    has_missing = np.zeros(d, dtype=np.bool_)
    has_missing[list(missing)] = True
    use_missing = masks & has_missing
    unit = 2.0 ** (np.asarray(shifts, dtype=np.float64) - GRADIENT_BITS)
    limits = np.array((rules.l2, rules.min_child_hessian, rules.min_samples_leaf), dtype=np.float64)
    return Search(units[shifts], unit, masks, use_missing, np.any(use_missing, axis=1), limits, depth)
