"""Groups of rows: sums, maxima and counts by key, and groups that lie side by side.

A segment id is the group of a row, in any order. A block is a group of neighbouring positions: `starts` (k,)
holds the first position of each of the k blocks that fill ``range(m)``, none of them empty; ``block_at`` (m,)
is the block of each position. A list orders row ids so that a block holds the rows of one group (a node of a
tree); several lists (d, m) order the same blocks by different columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import array_api_compat
import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.dispatch import native, numpy_body
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.backend.threads import parallel_map

__all__ = [
    "LEFT_OUT",
    "NO_HIT",
    "block_index",
    "block_max",
    "first_in_block",
    "histogram",
    "paired_histogram",
    "scatter",
    "segment_max",
    "segment_sum",
    "split_lists",
    "steps",
]

# In place of a branch in `split_lists`: the row leaves the lists.
LEFT_OUT = -1
# In place of a position in `first_in_block`: nothing is hit.
NO_HIT = -1
# Below this many elements a thread costs more than it saves.
_WORTH_A_THREAD = 50_000


def segment_sum(xp: Namespace, values: Array, segments: Array, n: int) -> Array:
    """Sum the rows of `values` (m, ...) that share a segment id (m,) of ``range(n)``.

    An empty segment sums to 0. Integers sum as int64, floats in the accumulator's dtype (float64 wherever the
    device has it).
    """
    if fast := native(xp, "segment_sum"):
        return fast(values, segments, n)
    order = xp.argsort(segments)
    values = xp.take(_accumulating(xp, values), order, axis=0)
    running = xp.cumulative_sum(
        xp.reshape(values, (values.shape[0], math.prod(values.shape[1:]))), axis=0, include_initial=True
    )
    ids = xp.arange(n + 1, dtype=segments.dtype, device=array_api_compat.device(segments))
    ends = xp.searchsorted(xp.take(segments, order, axis=0), ids)
    sums = xp.diff(xp.take(running, ends, axis=0), axis=0)
    return xp.reshape(sums, (n, *values.shape[1:]))


def segment_max(xp: Namespace, values: Array, segments: Array, n: int) -> Array:
    """Find the largest of the `values` (m,) that share a segment id (m,) of ``range(n)``.

    Integers or floats without NaN; an empty segment gives ``-inf``, or the smallest integer.
    """
    if fast := native(xp, "segment_max"):
        return fast(values, segments, n)
    is_float = xp.isdtype(values.dtype, "real floating")
    lowest = -math.inf if is_float else int(xp.iinfo(values.dtype).min)
    if values.shape[0] == 0:
        return xp.full((n,), lowest, dtype=values.dtype, device=array_api_compat.device(values))
    by_value = xp.argsort(values)
    order = xp.take(by_value, xp.argsort(xp.take(segments, by_value, axis=0), stable=True), axis=0)
    sorted_segments = xp.take(segments, order, axis=0)
    ids = xp.arange(n, dtype=segments.dtype, device=array_api_compat.device(segments))
    end = xp.searchsorted(sorted_segments, ids, side="right")
    last = xp.where(end > 0, end - 1, 0)  # xp.clip of array-api-compat syncs on CuPy
    largest = xp.take(xp.take(values, order, axis=0), last, axis=0)
    is_present = (end > 0) & (xp.take(sorted_segments, last, axis=0) == ids)
    return xp.where(is_present, largest, lowest)


def histogram(xp: Namespace, keys: Array, n: int, weights: Array | None = None) -> Array:
    """Count keys (..., m) of ``range(n)`` along the last axis, or sum their weights (m,) or (..., m).

    int64 for counts and integer weights; the accumulator's dtype for float weights.
    """
    if fast := native(xp, "histogram"):
        return fast(keys, n, weights)
    batch, m = keys.shape[:-1], keys.shape[-1]
    n_batches = math.prod(batch)
    keys = xp.astype(keys, xp.int64)
    offsets = n * xp.arange(n_batches, dtype=xp.int64, device=array_api_compat.device(keys))
    flat = xp.reshape(xp.reshape(keys, (n_batches, m)) + offsets[:, None], (-1,))
    if weights is None:
        weights = xp.ones((1,), dtype=xp.int64, device=array_api_compat.device(keys))
    weights = xp.reshape(xp.broadcast_to(weights, keys.shape), (-1,))
    return xp.reshape(segment_sum(xp, weights, flat, n_batches * n), (*batch, n))


def paired_histogram(
    xp: Namespace, columns: Array, keys: Array, n_values: int, n_keys: int, weights: Array | None = None
) -> Array:
    """Count each column's values by a key of ``range(n_keys)`` that all columns share (class, node, or both).

    `columns` is a column-major table (d, m) of integers in ``range(n_values)``, of any integer dtype. Return
    (d, n_keys, n_values) in the dtype of `histogram`: ``result[j, k, v]`` is the weight of the rows with
    ``keys == k`` and ``columns[j] == v``.
    """
    if fast := native(xp, "paired_histogram", columns):
        return fast(columns, keys, n_values, n_keys, weights)
    d, m = columns.shape
    keys, counts = xp.astype(keys, xp.int64) * n_values, None
    for rows in row_chunks(m, 24 * d):
        flat = keys[None, rows] + xp.astype(columns[:, rows], xp.int64)
        part = histogram(xp, flat, n_keys * n_values, None if weights is None else weights[rows])
        counts = part if counts is None else counts + part
    if counts is None:
        counts = histogram(xp, xp.astype(columns, xp.int64), n_keys * n_values, weights)
    return xp.reshape(counts, (d, n_keys, n_values))


def _accumulating(xp: Namespace, values: Array) -> Array:
    if xp.isdtype(values.dtype, "real floating"):
        return xp.astype(values, accumulator_dtype(Place(xp, array_api_compat.device(values))))
    return xp.astype(values, xp.int64)


# ---- blocks


def block_index(xp: Namespace, sizes: Array, total: int) -> Array:
    """Return the block of each position, int64 (total,): 0 repeated ``sizes[0]`` times, then 1, and so on.

    Blocks may be empty here. `total` is the sum of the sizes: the caller knows it, so that no device reports
    it.
    """
    if fast := native(xp, "block_index"):
        return fast(sizes, total)
    ends = xp.cumulative_sum(sizes)
    position = xp.arange(total, dtype=ends.dtype, device=array_api_compat.device(sizes))
    return xp.astype(xp.searchsorted(ends, position, side="right"), xp.int64)


def block_max(xp: Namespace, values: Array, starts: Array, block_at: Array) -> Array:
    """Find the largest value (d, k) of each block in each row of numbers (d, m) without NaN."""
    if fast := native(xp, "block_max"):
        return fast(values, starts, block_at)
    d, k = values.shape[0], starts.shape[0]
    offset = k * xp.arange(d, dtype=block_at.dtype, device=array_api_compat.device(values))
    keys = xp.reshape(block_at[None, :] + offset[:, None], (-1,))
    return xp.reshape(segment_max(xp, xp.reshape(values, (-1,)), keys, d * k), (d, k))


def scatter(xp: Namespace, values: Array, positions: Array, n: int) -> Array:
    """Write integers (m,) to distinct positions (m,) of an array (n,) of zeros of their dtype."""
    if fast := native(xp, "scatter"):
        return fast(values, positions, n)
    return xp.astype(segment_sum(xp, values, positions, n), values.dtype)


def split_lists(xp: Namespace, lists: Array, branch: Array, sizes: Sequence[int]) -> Array:
    """Sort every list (d, m) of row ids, int32, by the branch its rows take.

    Rows of one branch keep their order. `branch` (n,) is that of each row, in ``range(len(sizes))``, or
    LEFT_OUT. `sizes` holds how many rows take each branch. Return lists (d, sum(sizes)): all rows of branch
    0, then those of branch 1 ...
    """
    if fast := native(xp, "split_lists", lists):
        return fast(lists, branch, sizes)
    k = len(sizes)
    # small integers are sorted by counting
    kind = xp.int8 if k < 127 else xp.int16 if k < 32_767 else xp.int64
    branch = xp.astype(branch, kind)
    branch = xp.where(branch == LEFT_OUT, k, branch)
    key = xp.reshape(xp.take(branch, xp.reshape(lists, (-1,)), axis=0), lists.shape)
    order = xp.argsort(key, axis=-1, stable=True)
    return xp.take_along_axis(lists, order[:, : sum(sizes)], axis=-1)


def first_in_block(xp: Namespace, is_hit: Array, starts: Array, block_at: Array) -> Array:
    """Return the first position (d, k) of each block where `is_hit` (d, m) holds, or NO_HIT."""
    m = is_hit.shape[1]
    countdown = m - xp.arange(m, dtype=xp.int64, device=array_api_compat.device(is_hit))
    largest = block_max(xp, xp.where(is_hit, countdown, 0), starts, block_at)
    return xp.where(largest > 0, m - largest, NO_HIT)


def steps(xp: Namespace, values: Array, gap: float = 0.0) -> Array:
    """Find where the next value of the row (d, m) is larger by more than `gap`, and known."""
    lower = values[:, :-1] + gap if gap else values[:, :-1]
    last = xp.zeros((values.shape[0], 1), dtype=xp.bool, device=array_api_compat.device(values))
    return xp.concat((values[:, 1:] > lower, last), axis=1)


# ---- NumPy


@numpy_body
def _segment_sum(values: HostArray, segments: HostArray, n: int) -> HostArray:
    is_float = values.dtype.kind == "f"
    if values.ndim == 1:
        return _weighted_bincount(segments, values, n)
    flat = values.reshape(values.shape[0], math.prod(values.shape[1:]))
    sums = np.empty((flat.shape[1], n), dtype=np.float64 if is_float else np.int64)
    for j in range(flat.shape[1]):
        sums[j] = _weighted_bincount(segments, flat[:, j], n)
    return np.ascontiguousarray(sums.T).reshape(n, *values.shape[1:])


def _weighted_bincount(keys: HostArray, weights: HostArray, n: int) -> HostArray:
    if weights.dtype.kind == "f":
        return np.bincount(keys, weights, minlength=n).astype(np.float64, copy=False)  # int if empty
    sums = np.zeros(n, dtype=np.int64)  # bincount would go through float64 and lose bits past 2**53
    np.add.at(sums, keys, weights)
    return sums


@numpy_body
def _scatter(values: HostArray, positions: HostArray, n: int) -> HostArray:
    written = np.zeros(n, dtype=values.dtype)
    written[positions] = values
    return written


@numpy_body
def _segment_max(values: HostArray, segments: HostArray, n: int) -> HostArray:
    lowest = -np.inf if values.dtype.kind == "f" else np.iinfo(values.dtype).min
    largest = np.full(n, lowest, dtype=values.dtype)
    np.maximum.at(largest, segments, values)
    return largest


@numpy_body
def _histogram(keys: HostArray, n: int, weights: HostArray | None) -> HostArray:
    batch, m = keys.shape[:-1], keys.shape[-1]
    rows = keys.reshape(math.prod(batch), m)
    shared = weights is None or weights.ndim == 1
    by_row = None if shared else np.broadcast_to(weights, keys.shape).reshape(rows.shape)  # type: ignore[arg-type]

    def count(i: int) -> HostArray:
        if weights is None:
            return np.bincount(rows[i], minlength=n)
        return _weighted_bincount(rows[i], weights if by_row is None else by_row[i], n)

    run = parallel_map if rows.size >= _WORTH_A_THREAD else map
    is_float = weights is not None and weights.dtype.kind == "f"
    counts = np.zeros((rows.shape[0], n), dtype=np.float64 if is_float else np.int64)
    for i, row in enumerate(run(count, range(rows.shape[0]))):
        counts[i] = row
    return counts.reshape(*batch, n)


@numpy_body
def _block_index(sizes: HostArray, total: int) -> HostArray:
    return np.repeat(np.arange(sizes.shape[0]), sizes)


@numpy_body
def _block_max(values: HostArray, starts: HostArray, block_at: HostArray) -> HostArray:
    return np.maximum.reduceat(values, starts, axis=1)
