"""Compiled loops over the scores of rows: gradients of the log loss, and steps of the trees.

Gradients are derived in chunks of rows that stay in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.cpu.jit import compiled, entry
from arraylearn.backend.threads import even_portions, parallel_map
from arraylearn.boosting.log_loss import (
    CELL_BITS,
    LAST_SCORE,
    SCORE_BITS,
    STEP_BITS,
    TABLE_END,
    sigmoid_units,
)
from arraylearn.grow.formulas import GRADIENT_BITS
from arraylearn.grow.histograms.newton_trees import NOT_DIVIDED, Columns
from arraylearn.grow.trees import LEAF, Trees

__all__ = ["BlockSplits", "add_steps", "add_to_sides", "log_loss_gradients"]

# Least number of gradients per thread, so that it saves more than it costs: to derive, and to scale.
_LEAST_GRADIENTS = 100_000
_LEAST_SCALED = 400_000
# Least number of rows per thread that adds steps.
_LEAST_STEPPED = 150_000
_CHUNK = 256
# Added to gradients until they are scaled: not negative, they borrow nothing from the hessian above them.
_ONE = 1 << GRADIENT_BITS
_LOWER_HALF = (1 << 32) - 1
# In place of the threshold of a block: a set of bins decides; all rows go left.
_BY_SET, _NO_SPLIT = -1, 1 << 30


def log_loss_gradients(
    first: HostArray, second: HostArray, scores: HostArray, codes: HostArray, weights: HostArray | None
) -> tuple[HostArray, HostArray]:
    """Return the fields of `Gradients`: see `arraylearn.boosting.log_loss.log_loss_gradients`."""
    k, n = scores.shape
    packed = np.empty((k, n), dtype=np.int64)
    heavy = np.empty(0, dtype=np.float32) if weights is None else np.ascontiguousarray(weights)
    portions = even_portions(n, _LEAST_GRADIENTS // k)
    totals = np.zeros((len(portions), k), dtype=np.int64)

    def derive(i: int) -> None:
        if k == 1:
            _two_classes(_class_zero(), scores[0], codes, heavy, *portions[i], packed[0], totals[i])
        else:
            _softmax((first, second), scores, codes, heavy, *portions[i], packed, totals[i])

    parallel_map(derive, range(len(portions)))
    total = totals.sum(axis=0)
    shifts = (total[:, None] >> np.arange(GRADIENT_BITS, 62) > 0).sum(axis=1)
    parallel_map(lambda rows: _scale(packed, shifts, *rows), even_portions(n, _LEAST_SCALED // k))
    return packed, shifts


@cache
def _class_zero() -> HostArray:
    """Return hessian and offset gradient by score, packed; the gradient of class 1 is less by one unit."""
    gradient, hessian = sigmoid_units()
    half = gradient.shape[0] // 2
    units: HostArray = (hessian[:half] << 32) + (gradient[:half] + _ONE)
    return units


@compiled
def _two_classes(
    units: HostArray,
    scores: HostArray,
    codes: HostArray,
    weights: HostArray,
    first: int,
    last: int,
    packed: HostArray,
    total: HostArray,
) -> None:
    """Look gradient and hessian up in one table; add to the sum of absolute gradients."""
    end, bits = LAST_SCORE << SCORE_BITS, SCORE_BITS - CELL_BITS
    middle = end + (1 << (bits - 1))
    absolute = np.int64(0)
    for row in range(first, last):
        score = min(max(np.int64(scores[row]), np.int64(-end)), np.int64(end))
        unit = units[np.uint64((score + middle) >> bits)] - (codes[row] << GRADIENT_BITS)
        if weights.shape[0]:
            hessian = np.rint(np.float32(unit >> 32) * weights[row])
            gradient = np.rint(np.float32((unit & _LOWER_HALF) - _ONE) * weights[row])
            unit = (np.int64(hessian) << 32) + (np.int64(gradient) + _ONE)
        packed[row] = unit
        absolute += abs((unit & _LOWER_HALF) - _ONE)
    total[0] += absolute


@compiled
def _softmax(
    exponentials: tuple[HostArray, HostArray],
    scores: HostArray,
    codes: HostArray,
    weights: HostArray,
    first: int,
    last: int,
    packed: HostArray,
    totals: HostArray,
) -> None:
    """Derive the softmax; add to the sums of absolute gradients of the classes."""
    k, (values, slopes) = scores.shape[0], exponentials
    highest, sums = np.empty(_CHUNK, dtype=np.int32), np.empty(_CHUNK, dtype=np.int64)
    power = np.empty((k, _CHUNK), dtype=np.float32)
    scale = np.float32(2.0**GRADIENT_BITS)
    one, nothing = np.float32(1), np.float32(0)
    for start in range(first, last, _CHUNK):
        m = min(_CHUNK, last - start)
        _exponentials(values, slopes, scores, start, m, highest, sums, power)
        for c in range(k):
            absolute = np.int64(0)
            for i in range(m):
                p = min(power[c, i] / (np.float32(sums[i]) * np.float32(2.0**-24)), one)
                gradient = p - (one if codes[start + i] == c else nothing)
                hessian = p * (one - p)
                if weights.shape[0]:
                    gradient *= weights[start + i]
                    hessian *= weights[start + i]
                unit = np.int64(np.rint(gradient * scale))
                packed[c, start + i] = (np.int64(np.rint(hessian * scale)) << 32) + (unit + _ONE)
                absolute += abs(unit)
            totals[c] += absolute


@entry
def _exponentials(
    values: HostArray,
    slopes: HostArray,
    scores: HostArray,
    start: int,
    m: int,
    highest: HostArray,
    sums: HostArray,
    power: HostArray,
) -> None:
    """Write the exponentials of some rows' scores, against the highest of each row, and their sums."""
    end, bits = TABLE_END << SCORE_BITS, SCORE_BITS - STEP_BITS
    for i in range(m):
        highest[i], sums[i] = scores[0, start + i], 0
    for c in range(1, scores.shape[0]):
        for i in range(m):
            highest[i] = max(highest[i], scores[c, start + i])
    for c in range(scores.shape[0]):
        for i in range(m):
            behind = np.int32(scores[c, start + i] - highest[i])
            bounded = np.uint32(min(max(behind, np.int32(-end)), np.int32(0)) + np.int32(end))
            cell = bounded >> np.uint32(bits)
            rest = np.float32(bounded & np.uint32((1 << bits) - 1))
            power[c, i] = values[cell] + slopes[cell] * rest
            sums[i] += np.int64(power[c, i] * np.float32(2.0**24))


@compiled
def _scale(packed: HostArray, shifts: HostArray, first: int, last: int) -> None:
    """Divide both halves by 2**shift, rounded, and take the offset off the gradients."""
    for c in range(packed.shape[0]):
        shift = shifts[c]
        half = (np.int64(1) << shift) >> 1
        for row in range(first, last):
            hessian = ((packed[c, row] >> 32) + half) >> shift
            gradient = ((packed[c, row] & _LOWER_HALF) - _ONE + half) >> shift
            packed[c, row] = (hessian << 32) + gradient


# ---- steps


class BlockSplits(NamedTuple):
    """Blocks of the order of the rows, and how each is split in two."""

    starts: Sequence[int]
    sizes: Sequence[int]
    features: Sequence[int]  # the column that splits each block
    thresholds: Sequence[int]  # rows with a larger bin go right; or _BY_SET, _NO_SPLIT
    goes_right: HostArray | None  # (s, n_bins) bool of the first s blocks; None if no threshold is _BY_SET


def add_steps(
    scores: HostArray, columns: Columns, nodes: Trees, order: HostArray, step: HostArray
) -> HostArray:
    """Add the step of the leaf of each row to the scores (n,), in place.

    Parameters
    ----------
    nodes : Trees
        A grown tree with `rows`. `order` is not divided for the last level, so that the rows of its leaves
        are found by the cuts of the level above.
    order : integer array (m,)
        Row ids.
    step : int array (nodes,)
        The step of each node.
    """
    start, size = nodes.rows
    left = nodes.first_child
    inner = np.nonzero(left != LEAF)[0]
    parents = inner[start[left[inner]] == NOT_DIVIDED]
    ends = np.nonzero((left == LEAF) & (start != NOT_DIVIDED))[0]
    below = left[parents]
    steps_left, steps_right = (np.concat((step[below + side], step[ends])).tolist() for side in (0, 1))
    split = _divide_as(columns, nodes, parents)
    # blocks of leaves come after those that are split; their threshold is above all bins
    kept = (start[ends].tolist(), size[ends].tolist(), [0] * len(ends), [_NO_SPLIT] * len(ends))
    starts, sizes, features, thresholds = ([*one, *other] for one, other in zip(split[:4], kept, strict=True))
    blocks = BlockSplits(starts, sizes, features, thresholds, split.goes_right)
    return add_to_sides(scores, columns.bins, order, blocks, (steps_left, steps_right))


def _divide_as(columns: Columns, nodes: Trees, parents: HostArray) -> BlockSplits:
    """Describe how the rows of inner nodes are divided."""
    feature, low, sets = nodes.feature[parents], nodes.threshold[parents], None
    missing_right = nodes.default_branch[parents]
    if parents.shape[0] and (columns.missing or nodes.sets is not None):
        goes_right = np.arange(columns.n_bins) > low[:, None]
        goes_right[:, -1] = missing_right
        if nodes.sets is not None:
            is_nominal = feature >= columns.n_numeric
            goes_right[is_nominal] = nodes.sets[parents][is_nominal] > 0
        sets = goes_right
    return _describe_blocks(columns, nodes.rows[:, parents], feature, low, missing_right, sets)


def _describe_blocks(
    columns: Columns,
    rows: HostArray,
    feature: HostArray,
    low: HostArray,
    missing_right: HostArray,
    sets: HostArray | None,
) -> BlockSplits:
    """Describe how blocks (2, k) of rows are divided: by a bin, or by sets (k, n_bins)."""
    if sets is not None:
        is_left = ~missing_right & np.isin(feature, columns.missing)
        low = np.where((feature < columns.n_numeric) & ~is_left, low, _BY_SET)
    starts, sizes = rows.tolist()
    return BlockSplits(starts, sizes, feature.tolist(), low.tolist(), sets)


def add_to_sides(
    scores: HostArray, bins: HostArray, order: HostArray, splits: BlockSplits, values: Sequence[Sequence[int]]
) -> HostArray:
    """Add to the scores (n,), in place, for each row of `order` the value of its block's side.

    Threads share the positions of all blocks, one block after the other; a block may belong to two of them.
    """
    starts, sizes, features, thresholds, goes_right = splits
    blocks = np.array((starts, sizes, features, thresholds, *values), dtype=np.int64)
    sets = np.empty((0, 1), dtype=np.bool_) if goes_right is None else np.ascontiguousarray(goes_right)

    def step(positions: tuple[int, int]) -> None:
        steps = np.empty(256, dtype=np.int32)
        _step_rows(scores, bins, order, blocks, sets, steps, *positions)

    parallel_map(step, even_portions(sum(sizes), _LEAST_STEPPED))
    return scores


@entry
def _step_rows(
    scores: HostArray,
    bins: HostArray,
    order: HostArray,
    blocks: HostArray,
    sets: HostArray,
    steps: HostArray,
    first: int,
    last: int,
) -> None:
    """Add the steps of the rows at some positions; `steps` is a buffer for the step of each bin."""
    before = 0
    for j in range(blocks.shape[1]):
        size, offset, threshold = blocks[1, j], blocks[0, j], blocks[3, j]
        start, stop = max(first - before, 0), min(last - before, size)
        low, high = blocks[4, j], blocks[5, j]
        before += size
        if low == high:
            for position in range(offset + start, offset + stop):
                scores[np.uint64(order[position])] += np.int32(low)
            continue
        is_set = threshold == _BY_SET and j < sets.shape[0]
        for b in range(256):
            steps[b] = high if b > threshold else low
        for b in range(sets.shape[1] if is_set else 0):
            steps[b] = high if sets[j, b] else low
        column = bins[blocks[2, j]]
        for position in range(offset + start, offset + stop):
            row = np.uint64(order[position])
            scores[row] += steps[column[row]]
