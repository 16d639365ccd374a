"""Compiled body of `arraylearn.backend.arrays.blocks.split_lists`: one pass over every list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled
from arraylearn.backend.cpu.portions import even_portions
from arraylearn.backend.cpu.unsigned import index
from arraylearn.backend.threads import parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["split_lists"]

# Positions of all lists of a thread, at least: below, it costs more than it gains.
_LEAST_POSITIONS = 50_000


def split_lists(lists: Host, branch: Host, sizes: Sequence[int]) -> Host:
    """Do what `blocks.split_lists` does."""
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
    first_line: int, stop_line: int, lists: Host, branch: Host, first_of_branch: Host, result: Host
) -> None:
    """Sort some lists by the branch of their rows."""
    filled, n_branches, one = np.empty_like(first_of_branch), first_of_branch.shape[0] - 1, index(1)
    for f in range(first_line, stop_line):
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
        # every row is written, where it leaves the lists to a place that is still free: nothing to predict
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
