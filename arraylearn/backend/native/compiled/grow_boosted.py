"""Compiled body of `arraylearn.backend.ops.boosted_growth`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from arraylearn.backend.native.compiled.boosted_levels import Search, Table, grow_alone
from arraylearn.backend.native.compiled.boosted_subtrees import grow_shared
from arraylearn.backend.score_tables import GRADIENT_BITS
from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["grow_boosted_trees"]

# With more cells than this (rows x columns) several threads grow a tree together, and not one tree each.
_MANY_CELLS = 1_000_000


def grow_boosted_trees(
    bins: Host,
    cells: Host,
    n_bins: int,
    missing: Sequence[int],
    packed: Host,
    shifts: Host,
    rows: Host,
    units: Host,
    is_used: Sequence[Host | None],
    rules: Any,
    result: Callable[[Host, Host, Host], Any],
) -> list[Any] | None:
    d, m = bins.shape[0], rows.shape[0]
    if cells.dtype != np.uint8:  # made before Numba was awake
        return None
    has_missing = np.zeros(d, dtype=np.bool_)
    has_missing[list(missing)] = True
    limits = np.array((rules.l2, rules.min_child_hessian, rules.min_samples_leaf))
    is_shared = get_num_threads() > 1 and m * d > _MANY_CELLS

    def grow(tree: int) -> Any:
        shift, used = int(shifts[tree]), is_used[tree]
        mask = np.ones(d, dtype=np.bool_) if used is None else used
        use_missing = mask & has_missing
        use_missing = use_missing if use_missing.any() else use_missing[:0]
        search = Search(units[shift], 2.0 ** (shift - GRADIENT_BITS), mask, use_missing, limits)
        table = Table(bins, cells, packed[tree], rows.copy(), np.empty(m, dtype=np.int64))
        depth = 1 << 40 if rules.max_depth is None else rules.max_depth
        return result(*(grow_shared if is_shared else grow_alone)(table, search, depth, n_bins), table.order)

    if is_shared:
        return [grow(tree) for tree in range(packed.shape[0])]
    return parallel_map(grow, range(packed.shape[0]))
