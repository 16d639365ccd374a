"""Compiled bodies that split presorted lists: a stable partition of every list in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled
from arraylearn.backend.cpu.unsigned import index
from arraylearn.backend.native.compiled.gini_split import line_groups
from arraylearn.backend.threads import parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["split_lists", "split_lists_at"]


def split_lists_at(
    lists: Host,
    line: Host,
    position: Host,
    starts: Host,
    block_at: Host,
    branches: Host,
    sizes: Sequence[int],
    n_rows: int,
) -> Host:
    lists = np.ascontiguousarray(lists)
    result = np.empty((lists.shape[0], sum(sizes)), dtype=lists.dtype)
    rows, target = lists.view(np.uint32), result.view(np.uint32)  # no index may be negative: no test of it
    branches = np.ascontiguousarray(branches, dtype=np.int64)
    filled = np.cumsum([0, *sizes])
    is_right = np.empty(n_rows, dtype=np.uint8)
    mark_right(rows, line, position, starts, branches, is_right)

    def split(group: tuple[int, int]) -> None:
        split_blocks(*group, rows, position, starts, branches, filled, is_right, target)

    parallel_map(split, line_groups(*lists.shape))
    return result


def split_lists(lists: Host, branch: Host, sizes: Sequence[int]) -> Host:
    lists = np.ascontiguousarray(lists)
    result = np.empty((lists.shape[0], sum(sizes)), dtype=lists.dtype)
    rows, target = lists.view(np.uint32), result.view(np.uint32)
    branch = np.ascontiguousarray(branch, dtype=np.int32)
    filled = np.cumsum([0, *sizes])

    def split(group: tuple[int, int]) -> None:
        split_by_branch(*group, rows, branch, filled, target)

    parallel_map(split, line_groups(*lists.shape))
    return result


@compiled
def mark_right(lists: Host, line: Host, position: Host, starts: Host, branches: Host, is_right: Host) -> None:
    """Tell for the rows of blocks of which both sides, or one, go on whether they are beyond the position."""
    k, m = starts.shape[0], lists.shape[1]
    for b in range(k):
        if branches[b, 0] < 0 and branches[b, 1] < 0:
            continue
        rows, middle = lists[line[b]], index(position[b] + 1)
        for i in range(index(starts[b]), middle):
            is_right[rows[i]] = 0
        for i in range(middle, index(m if b == k - 1 else starts[b + 1])):
            is_right[rows[i]] = 1


@compiled
def split_blocks(
    first_line: int,
    stop_line: int,
    lists: Host,
    position: Host,
    starts: Host,
    branches: Host,
    first_of_branch: Host,
    is_right: Host,
    result: Host,
) -> None:
    """Split every block of some lists in two."""
    k, m = starts.shape[0], lists.shape[1]
    filled, one = np.empty_like(first_of_branch), index(1)
    for f in range(first_line, stop_line):
        for j in range(filled.shape[0]):  # an assignment of arrays would take seconds to compile
            filled[j] = first_of_branch[j]
        source, target = lists[f], result[f]
        for b in range(k):
            low, high = branches[b, 0], branches[b, 1]
            stop = m if b == k - 1 else starts[b + 1]
            size, n_low = stop - starts[b], position[b] + 1 - starts[b]
            first, end = index(starts[b]), index(stop)
            if low >= 0 and low == high:
                at_low = index(filled[low])
                for i in range(first, end):
                    target[at_low + (i - first)] = source[i]
                filled[low] += size
            elif low >= 0 and high >= 0:
                at_low, at_high = index(filled[low]), index(filled[high])
                for i in range(first, end):
                    row = source[i]
                    right = index(is_right[row])
                    target[at_high if right else at_low] = row
                    at_high += right
                    at_low += one - right
                filled[low] += n_low
                filled[high] += size - n_low
            elif low >= 0 or high >= 0:
                # nothing is written past the last row of the side that goes on
                own, wanted, kept = (low, 0, n_low) if low >= 0 else (high, 1, size - n_low)
                at, i = index(filled[own]), first
                filled[own] += kept
                while at < index(filled[own]):
                    row = source[i]
                    target[at] = row
                    at += index(is_right[row] == wanted)
                    i += one


@compiled
def split_by_branch(
    first_line: int, stop_line: int, lists: Host, branch: Host, first_of_branch: Host, result: Host
) -> None:
    """Sort some lists by the branch of their rows."""
    filled = np.empty_like(first_of_branch)
    for f in range(first_line, stop_line):
        for j in range(filled.shape[0]):  # an assignment of arrays would take seconds to compile
            filled[j] = first_of_branch[j]
        source, target = lists[f], result[f]
        for i in range(index(lists.shape[1])):
            row = source[i]
            own = branch[row]
            if own >= 0:
                target[index(filled[own])] = row
                filled[own] += 1
