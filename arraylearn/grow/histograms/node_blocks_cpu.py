"""Scores changed by the side that rows take, in compiled loops: see `arraylearn.grow.histograms.node_blocks`.

Threads share the positions of all blocks, one block after the other; a block may belong to two of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from arraylearn.backend.cpu.jit import Host, compiled, part
from arraylearn.backend.threads import even_portions, parallel_map
from arraylearn.grow.histograms.node_blocks import BlockSplits

__all__ = ["add_to_sides"]

# Rows that a thread must have, or it costs more than it gains.
_LEAST_ROWS = 150_000


def add_to_sides(
    scores: Host, bins: Host, order: Host, splits: BlockSplits, values: Sequence[Sequence[int]]
) -> Host:
    """Do in place what `node_blocks.add_to_sides` does."""
    starts, sizes, features, thresholds, goes_right = splits
    blocks = np.array((starts, sizes, features, thresholds, *values), dtype=np.int64)
    sets = np.empty((0, 1), dtype=np.bool_) if goes_right is None else np.ascontiguousarray(goes_right)
    parallel_map(
        lambda rows: _step_rows(scores, bins, order, blocks, sets, *rows),
        even_portions(sum(sizes), _LEAST_ROWS),
    )
    return scores


@part
def _fill_sides(sides: Host, threshold: int, sets: Host, j: int) -> None:
    """Write for each bin whether it goes right, as 0 or 1."""
    for b in range(sides.shape[0]):
        sides[b] = b > threshold
    if threshold < 0 and j < sets.shape[0]:
        for b in range(sets.shape[1]):
            sides[b] = sets[j, b]


@compiled
def _step_rows(
    scores: Host, bins: Host, order: Host, blocks: Host, sets: Host, first: int, last: int
) -> None:
    sides = np.empty(256, dtype=np.int64)
    steps = np.empty(256, dtype=np.int32)
    before = 0
    for j in range(blocks.shape[1]):
        size, offset = blocks[1, j], blocks[0, j]
        start, stop = max(first - before, 0), min(last - before, size)
        low, high = blocks[4, j], blocks[5, j]
        if low == high:
            for position in range(offset + start, offset + stop):
                scores[np.uint64(order[position])] += np.int32(low)
        elif start < stop:
            _fill_sides(sides, blocks[3, j], sets, j)
            for b in range(256):
                steps[b] = high if sides[b] else low
            column = bins[blocks[2, j]]
            for position in range(offset + start, offset + stop):
                row = np.uint64(order[position])
                scores[row] += steps[column[row]]
        before += size
