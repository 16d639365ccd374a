"""Compiled body of `arraylearn.backend.ops.gini_split`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled
from arraylearn.backend.native.compiled.gini_scan import class_bounds, search_block
from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["gini_split", "line_groups"]

# Positions of all lists from which a second thread pays.
_WORTH_A_THREAD = 100_000


def gini_split(
    lists: Host,
    columns: Host,
    class_ends: Sequence[int],
    starts: Host,
    block_at: Host,
    counts: Host,
    least: int,
    is_tied: Sequence[bool],
    allowed: Host | None,
) -> tuple[Host, Host, Host, Host]:
    k, c = counts.shape
    groups = line_groups(*lists.shape)
    line, position = np.empty((len(groups), k), np.int64), np.empty((len(groups), k), np.int64)
    gain, score = np.empty((len(groups), k), np.float32), np.empty((len(groups), k))
    left = np.zeros((len(groups), k, c), np.int64)
    lists, columns = np.ascontiguousarray(lists), np.ascontiguousarray(columns)
    given = lists.view(np.uint32), columns, *class_bounds(class_ends), np.ascontiguousarray(starts)
    counts = np.ascontiguousarray(counts)
    # no list is closed to any block where nothing is said
    may = np.ones((0, 0), np.bool_) if allowed is None else np.ascontiguousarray(allowed)

    def search(g: int) -> None:
        found = line[g], gain[g], score[g], position[g], left[g]
        _search_blocks(*groups[g], *given, counts, max(1, int(least)), may, *found)

    parallel_map(search, range(len(groups)))
    if allowed is not None and (is_none := (score < 0).all(axis=0)).any():
        # where none of the allowed lists has a split, all may
        may = may | is_none
        parallel_map(search, range(len(groups)))
    if len(groups) == 1:
        return line[0], score[0], position[0], left[0]
    best, nodes = gain.argmax(axis=0), np.arange(k)
    return line[best, nodes], score[best, nodes], position[best, nodes], left[best, nodes]


def line_groups(d: int, m: int) -> list[tuple[int, int]]:
    """Cut the lists into one group for each thread that pays."""
    n_groups = min(d, get_num_threads()) if d * m >= _WORTH_A_THREAD else 1
    bounds = [round(d * g / n_groups) for g in range(n_groups + 1)]
    return list(pairwise(bounds))


@compiled
def _search_blocks(
    first_line: int,
    stop_line: int,
    lists: Host,
    columns: Host,
    bounds: Host,
    class_of: Host,
    starts: Host,
    counts: Host,
    least: int,
    allowed: Host,
    line: Host,
    gain: Host,
    score: Host,
    position: Host,
    left: Host,
) -> None:
    """Find the best split of each block among some of the lists."""
    m, (k, c) = lists.shape[1], counts.shape
    side = np.empty((2, c), np.int64)
    for b in range(k):
        stop = m if b == k - 1 else starts[b + 1]
        line[b], gain[b], score[b], position[b] = search_block(
            first_line,
            stop_line,
            lists,
            columns,
            bounds,
            class_of,
            starts[b],
            stop,
            counts[b],
            least,
            allowed,
            b,
            side,
            left[b],
        )
