"""Compiled bodies of `paired_histogram`, without an array of keys, and `split_lists`, one pass over each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.cpu.jit import compiled, entry, index
from arraylearn.backend.threads import even_portions, parallel_map

__all__ = ["paired_histogram", "split_lists"]

# Least work per thread, so that it saves more than it costs: values to count, positions of lists to split.
_LEAST_COUNTED, _LEAST_POSITIONS = 500_000, 50_000
# Rows whose keys stay in the first-level cache for all columns.
_CHUNK = 1024


def paired_histogram(
    columns: HostArray, keys: HostArray, n_values: int, n_keys: int, weights: HostArray | None
) -> HostArray:
    """Count as the program does; each cell adds its rows in their order, so that float sums are the same."""
    d, m = columns.shape
    dtype = np.float64 if weights is not None and weights.dtype.kind == "f" else np.int64
    counts = np.zeros((d, n_keys * n_values), dtype=dtype)
    table, base = np.ascontiguousarray(columns), keys.astype(np.int64) * n_values
    heavy = np.ones(1, dtype) if weights is None else np.ascontiguousarray(weights, dtype)
    is_fine = parallel_map(
        lambda some: _count(table, base, heavy, some[0], some[1], counts),
        even_portions(d, _LEAST_COUNTED // max(1, m)),
    )
    if not all(is_fine):
        raise ValueError(f"values must be in range({n_values}) and keys in range({n_keys})")
    return counts.reshape(d, n_keys, n_values)


@entry
def _count(
    columns: HostArray, base: HostArray, weights: HostArray, first: int, stop: int, counts: HostArray
) -> bool:
    """Count the columns `first` to `stop`; return whether all values are in range. One weight serves all."""
    m, n, has_weights = base.shape[0], np.uint64(counts.shape[1]), weights.shape[0] > 1
    for start in range(0, m, _CHUNK):
        end = min(start + _CHUNK, m)
        for j in range(first, stop):
            column, own = columns[j], counts[j]
            for i in range(start, end):
                cell = np.uint64(base[i] + np.int64(column[i]))
                if cell >= n:
                    return False
                own[cell] += weights[i if has_weights else 0]
    return True


def split_lists(lists: HostArray, branch: HostArray, sizes: Sequence[int]) -> HostArray:
    """Sort lists as the program does."""
    lists = np.ascontiguousarray(lists)
    result = np.empty((lists.shape[0], sum(sizes)), dtype=lists.dtype)
    rows, target = lists.view(np.uint32), result.view(np.uint32)
    branch = np.ascontiguousarray(branch, dtype=np.int8 if len(sizes) < 127 else np.int32)
    filled = np.cumsum([0, *sizes])

    def split(group: tuple[int, int]) -> None:
        split_by_branch(*group, rows, branch, filled, target)

    parallel_map(split, even_portions(lists.shape[0], _LEAST_POSITIONS // max(1, lists.shape[1])))
    return result


@compiled
def split_by_branch(
    first_list: int,
    stop_list: int,
    lists: HostArray,
    branch: HostArray,
    first_of_branch: HostArray,
    result: HostArray,
) -> None:
    """Sort some lists by the branch of their rows."""
    filled, n_branches, one = np.empty_like(first_of_branch), first_of_branch.shape[0] - 1, index(1)
    for f in range(first_list, stop_list):
        for j in range(filled.shape[0]):  # an assignment of arrays would take seconds to compile
            filled[j] = first_of_branch[j]
        source, target = lists[f], result[f]
        if n_branches > 2:
            for i in range(index(lists.shape[1])):
                row = source[i]
                own = branch[row]
                if own >= 0:
                    target[index(filled[own])] = row
                    filled[own] += 1
            continue
        # No branch to mispredict: every row is written; one that leaves the lists, to a position that is
        # overwritten later.
        end_0, end_1 = index(filled[1]), index(filled[n_branches])
        at_0, at_1, i = index(0), end_0, index(0)
        while at_0 < end_0 and at_1 < end_1:
            row = source[i]
            own = branch[row]
            target[at_1 if own == 1 else at_0] = row
            at_0 += index(own == 0)
            at_1 += index(own == 1)
            i += one
        while at_0 < end_0:
            row = source[i]
            target[at_0] = row
            at_0 += index(branch[row] == 0)
            i += one
        while at_1 < end_1:
            row = source[i]
            target[at_1] = row
            at_1 += index(branch[row] == 1)
            i += one
