"""Rows that walk down binned trees, one node after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled

Host = np.ndarray[Any, Any]

__all__ = ["walk_rows"]

# Rows that walk through one tree after the other: their bins stay in the first-level cache.
_ROWS = 512
# Rows that take a step together: none waits for another's memory.
_TOGETHER = 16


def walk_rows(bins: Host, trees: Any, sums: Host) -> Callable[[tuple[int, int]], None]:
    """Return what adds the leaves of a range of rows to `sums`."""
    n_bins = trees.goes_right.shape[1]
    is_leaf = trees.left == trees.right
    # the bins that go right are one run: up to the missing values, or with them
    begin = np.minimum(trees.threshold + 1, n_bins - 1)
    run = np.where(is_leaf, 0, n_bins - 1 - begin + trees.is_missing_right)
    subset = np.where(is_leaf, -1, trees.subset)
    nodes = np.stack((trees.feature, begin, run, subset, trees.left, trees.right, trees.value), axis=1)
    nodes = np.ascontiguousarray(nodes, dtype=np.int32)
    sets = np.ascontiguousarray(trees.goes_right)
    return lambda rows: _walk(bins, nodes, sets, trees.root, trees.depth, *rows, sums)


@compiled
def _walk(
    bins: Host, nodes: Host, sets: Host, root: Host, depth: int, first: int, last: int, sums: Host
) -> None:
    """Walk the rows `first` to `last` down every tree; who is at a leaf stays there."""
    here = np.empty(_TOGETHER, dtype=np.uint32)
    for start in range(first, last, _ROWS):
        stop = min(start + _ROWS, last)
        for tree in range(root.shape[0]):
            line = sums[tree % sums.shape[0]]
            for row in range(start, stop, _TOGETHER):
                m = min(_TOGETHER, stop - row)
                for i in range(m):
                    here[i] = root[tree]
                for _ in range(depth):
                    for i in range(m):
                        node = here[i]
                        bin_at = bins[np.uint32(nodes[node, 0]), row + i]
                        side = np.uint32(np.uint32(bin_at - nodes[node, 1]) < np.uint32(nodes[node, 2]))
                        if sets.shape[0] and nodes[node, 3] >= 0:
                            side = np.uint32(sets[nodes[node, 3], bin_at])
                        here[i] = nodes[node, np.uint32(4) + side]
                for i in range(m):
                    line[row + i] += nodes[here[i], 6]
