"""Compiled bodies that split presorted lists: a stable partition of every list in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from arraylearn.backend.native.compiled.gini_split import line_groups
from arraylearn.backend.native.compiled.jit import compiled
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
    branches = np.ascontiguousarray(branches, dtype=np.int64)
    filled = np.cumsum([0, *sizes])
    is_right = np.empty(n_rows, dtype=np.uint8)
    mark_right(lists, line, position, starts, branches, is_right)

    def split(group: tuple[int, int]) -> None:
        split_blocks(*group, lists, position, starts, branches, filled, is_right, result)

    parallel_map(split, line_groups(*lists.shape))
    return result


def split_lists(lists: Host, branch: Host, sizes: Sequence[int]) -> Host:
    lists = np.ascontiguousarray(lists)
    result = np.empty((lists.shape[0], sum(sizes)), dtype=lists.dtype)
    branch = np.ascontiguousarray(branch, dtype=np.int32)
    filled = np.cumsum([0, *sizes])

    def split(group: tuple[int, int]) -> None:
        split_by_branch(*group, lists, branch, filled, result)

    parallel_map(split, line_groups(*lists.shape))
    return result


@compiled
def mark_right(lists: Host, line: Host, position: Host, starts: Host, branches: Host, is_right: Host) -> None:
    """Tell for the rows of blocks of which both sides, or one, go on whether they are beyond the position."""
    k, m = starts.shape[0], lists.shape[1]
    for b in range(k):
        if branches[b, 0] < 0 and branches[b, 1] < 0:
            continue
        rows = lists[line[b]]
        for i in range(starts[b], position[b] + 1):
            is_right[rows[i]] = 0
        for i in range(position[b] + 1, m if b == k - 1 else starts[b + 1]):
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
    filled = np.empty_like(first_of_branch)
    for f in range(first_line, stop_line):
        filled[:] = first_of_branch
        for b in range(k):
            low, high = branches[b, 0], branches[b, 1]
            start, stop = starts[b], m if b == k - 1 else starts[b + 1]
            n_low = position[b] + 1 - start
            n_high = stop - start - n_low
            if low >= 0 and low == high:
                for i in range(start, stop):
                    result[f, filled[low] + i - start] = lists[f, i]
                filled[low] += stop - start
            elif low >= 0 and high >= 0:
                at_low, at_high = filled[low], filled[high]
                for i in range(start, stop):
                    row = lists[f, i]
                    right = np.int64(is_right[row])
                    result[f, at_high if right else at_low] = row
                    at_high += right
                    at_low += 1 - right
                filled[low], filled[high] = at_low, at_high
            elif low >= 0 or high >= 0:
                # nothing is written past the last row of the side that goes on
                own, wanted, rest = (low, 0, n_low) if low >= 0 else (high, 1, n_high)
                at, i = filled[own], start
                end = at + rest
                while at < end:
                    row = lists[f, i]
                    result[f, at] = row
                    at += is_right[row] == wanted
                    i += 1
                filled[own] = end


@compiled
def split_by_branch(
    first_line: int, stop_line: int, lists: Host, branch: Host, first_of_branch: Host, result: Host
) -> None:
    """Sort some lists by the branch of their rows."""
    filled = np.empty_like(first_of_branch)
    for f in range(first_line, stop_line):
        filled[:] = first_of_branch
        for i in range(lists.shape[1]):
            row = lists[f, i]
            own = branch[row]
            if own >= 0:
                result[f, filled[own]] = row
                filled[own] += 1
