"""NumPy bodies for `arraylearn.backend.ops.boosting`: chunks that stay in the cache, two columns in a key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from arraylearn.backend.score_tables import GRADIENT_BITS, SCORE_BITS, STEP_BITS, TABLE_END, score_function
from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]

__all__ = [
    "add_to_blocks",
    "block_histograms",
    "log_loss_gradients",
    "pair_columns",
    "search_splits",
    "split_blocks",
]

# Rows, or cells, of one chunk: its buffers stay in the second-level cache.
_CHUNK = 32_768
_GRADIENT_CHUNK = 16_384
_SPLIT_CELLS = 16_384
_WORTH_A_THREAD = 100_000
# Two columns in one key pay from this many rows per cell of the table of pairs on.
_ROWS_PER_PAIR = 0.8
# Below this many rows the columns are added in one call.
_FEW_ROWS = 512
# Blocks of fewer rows are split together.
_SMALL_BLOCK = 2_048


def log_loss_gradients(scores: Host, codes: Host, weights: Host | None) -> tuple[Host, Host]:
    k, n = scores.shape
    packed = np.empty((k, n), dtype=np.int64)
    halves = packed.view(np.int32).reshape(k, n, 2)  # gradient and hessian wait here for their scales
    first, second = (0, 1) if np.little_endian else (1, 0)
    tables = _as_table("sigmoid" if k == 1 else "exponential")
    class_idx = np.arange(k)[:, None]
    step = max(256, _GRADIENT_CHUNK // k)

    def derive(rows: slice) -> Host:
        if k == 1:
            p = _look_up(scores[:, rows], *tables)
            is_class = codes[None, rows] == 1
        else:
            p = _softmax(scores[:, rows], tables)
            is_class = codes[None, rows] == class_idx
        gradient = p - is_class
        hessian = 1 - p
        hessian *= p
        totals = np.empty((2, k), dtype=np.int64)
        for half, x in ((first, gradient), (second, hessian)):
            if weights is not None:
                x *= weights[rows]
            x *= np.float32(2.0**GRADIENT_BITS)
            np.rint(x, out=x)
            units = x.astype(np.int32)
            halves[:, rows, half] = units
            totals[0 if half == first else 1] = np.abs(units).sum(axis=1, dtype=np.int64)
        return totals

    chunks = [slice(start, min(start + step, n)) for start in range(0, n, step)]
    totals = sum(_map(derive, chunks, k * n), start=np.zeros((2, k), dtype=np.int64))
    shifts = (totals[:, :, None] >> np.arange(GRADIENT_BITS, 62) > 0).sum(axis=2)

    def pack(rows: slice) -> None:
        for c in range(k):
            gradient = _shifted(halves[c, rows, first], int(shifts[0, c]))
            hessian = _shifted(halves[c, rows, second], int(shifts[1, c])).astype(np.int64)
            hessian <<= 32
            np.add(hessian, gradient, out=packed[c, rows])

    _map(pack, [slice(start, min(start + _CHUNK, n)) for start in range(0, n, _CHUNK)], k * n)
    return packed, shifts.astype(np.int64)


@cache
def _as_table(name: str) -> tuple[Host, Host]:
    table = score_function(name)
    return np.asarray(table.values, dtype=np.float32), np.asarray(table.slopes, dtype=np.float32)


def _shifted(units: Host, shift: int) -> Host:
    if not shift:
        return units
    rounded: Host = units >> (shift - 1)  # (units + half) >> shift without leaving 32 bits
    rounded += 1
    rounded >>= 1
    return rounded


def _look_up(scores: Host, values: Host, slopes: Host) -> Host:
    end, bits = TABLE_END << SCORE_BITS, SCORE_BITS - STEP_BITS
    bounded = np.maximum(scores, np.int32(-end))
    np.minimum(bounded, np.int32(end), out=bounded)
    bounded += np.int32(end)
    cell = np.right_shift(bounded, bits, dtype=np.int32).astype(np.intp)
    bounded &= np.int32((1 << bits) - 1)
    result = slopes.take(cell)
    result *= bounded.astype(np.float32)
    result += values.take(cell)
    return result


def _softmax(scores: Host, tables: tuple[Host, Host]) -> Host:
    power = _look_up(scores - scores.max(axis=0), *tables)
    total = (power * np.float32(2.0**24)).astype(np.int32).sum(axis=0, dtype=np.int64)
    power /= total.astype(np.float32) * np.float32(2.0**-24)
    np.minimum(power, np.float32(1), out=power)
    return power


def _map(function: Any, items: Sequence[Any], n: int) -> list[Any]:
    """Apply a function to each item, in threads where `n` elements of work pay for them."""
    return parallel_map(function, items) if n >= _WORTH_A_THREAD else [function(item) for item in items]


def pair_columns(bins: Host, n_bins: int) -> Host:
    d, n = bins.shape
    if bins.dtype != np.uint8 or n < _ROWS_PER_PAIR * n_bins * n_bins or d < 2:
        return bins
    pairs = np.empty(((d + 1) // 2, n), dtype=np.uint16)

    def join(i: int) -> None:
        np.multiply(bins[2 * i], np.uint16(n_bins), out=pairs[i], dtype=np.uint16)
        if 2 * i + 1 < d:
            pairs[i] += bins[2 * i + 1]

    _map(join, range(pairs.shape[0]), d * n)
    return pairs


def block_histograms(
    bins: Host,
    pairs: Host,
    packed: Host,
    order: Host,
    starts: Sequence[int],
    sizes: Sequence[int],
    n_bins: int,
) -> Host:
    d = bins.shape[0]
    k = len(sizes)
    sums = np.zeros((k, d, n_bins), dtype=np.int64)
    least = _ROWS_PER_PAIR * n_bins * n_bins
    is_paired = pairs.dtype == np.uint16
    small = []
    for j in range(k):
        if is_paired and sizes[j] >= least:
            rows = order[starts[j] : starts[j] + sizes[j]]
            _add_pairs(pairs, packed, None if sizes[j] == bins.shape[1] else rows, sums[j])
        elif sizes[j]:
            small.append(j)
    if small:
        _add_small(bins, packed, order, [(j, starts[j], sizes[j]) for j in small], sums)
    return sums


def _add_pairs(pairs: Host, packed: Host, rows: Host | None, sums: Host) -> None:
    """Add one block, two columns at a time; `rows` None means all rows in order."""
    d, n_bins = sums.shape
    n = pairs.shape[1] if rows is None else rows.shape[0]

    def add(lines: range) -> None:
        table = np.zeros((len(lines), n_bins * n_bins), dtype=np.int64)
        key = np.empty(min(_CHUNK, n), dtype=np.intp)
        for start in range(0, n, _CHUNK):
            chunk = slice(start, min(start + _CHUNK, n))
            taken = None if rows is None else rows[chunk]
            weights = packed[chunk] if taken is None else packed.take(taken)
            cell = key[: chunk.stop - chunk.start]
            for cells, i in zip(table, lines, strict=True):
                np.copyto(cell, pairs[i, chunk] if taken is None else pairs[i].take(taken))
                np.add.at(cells, cell, weights)
        for cells, i in zip(table.reshape(-1, n_bins, n_bins), lines, strict=True):
            cells.sum(axis=1, out=sums[2 * i])
            if 2 * i + 1 < d:
                cells.sum(axis=0, out=sums[2 * i + 1])

    _map(add, _parts(pairs.shape[0], n), n * pairs.shape[0])


def _parts(n_lines: int, n: int) -> list[range]:
    """Share lines among the threads."""
    n_parts = min(get_num_threads(), n_lines) if n * n_lines >= _WORTH_A_THREAD else 1
    bounds = [i * n_lines // n_parts for i in range(n_parts + 1)]
    return [range(a, b) for a, b in pairwise(bounds)]


def _add_small(
    bins: Host, packed: Host, order: Host, blocks: Sequence[tuple[int, int, int]], sums: Host
) -> None:
    """Add blocks that are too small for pairs, all in one key."""
    d, n_bins = bins.shape[0], sums.shape[2]
    rows = np.concatenate([order[start : start + size] for _, start, size in blocks])
    first = np.asarray([j * d * n_bins for j, _, _ in blocks])
    base = first.repeat([size for _, _, size in blocks])
    weights = packed.take(rows)
    flat = sums.reshape(-1)
    n = rows.shape[0]

    def add(lines: range) -> None:
        together = 1 if n >= _FEW_ROWS else len(lines)
        if together == 1:
            key = np.empty(min(_CHUNK, n), dtype=np.intp)
            for start in range(0, n, _CHUNK):
                chunk = slice(start, min(start + _CHUNK, n))
                cell = key[: chunk.stop - chunk.start]
                for f in lines:
                    np.add(base[chunk], bins[f].take(rows[chunk]), out=cell)
                    np.add.at(flat[f * n_bins :], cell, weights[chunk])
            return
        repeated = np.tile(weights, together)
        for f in range(lines.start, lines.stop, together):
            stop = min(f + together, lines.stop)
            cells = bins[f:stop].take(rows, axis=1) + base
            cells += n_bins * np.arange(f, stop)[:, None]
            np.add.at(flat, cells.reshape(-1), repeated[: cells.size])

    _map(add, _parts(d, n), n * d)


def search_splits(
    sums: Host, ridge: Host, least: Host, least_share: Host, is_used: Host | None, has_missing: bool
) -> tuple[Host, Host, Host]:
    k, d, n_bins = sums.shape
    cells = d * n_bins
    best = np.empty(k, dtype=np.int64)
    left = np.empty(k, dtype=np.int64)
    total = np.empty(k, dtype=np.int64)
    step = max(1, _SPLIT_CELLS // cells)
    for start in range(0, k, step):
        nodes = slice(start, min(start + step, k))
        running = np.cumsum(sums[nodes], axis=2)
        total[nodes] = running[:, 0, -1]
        heavy = least_share[nodes] * (total[nodes] >> 32).astype(np.float32)
        sides = [running]
        if has_missing:
            sides.append(running + sums[nodes, :, -1:])
        gain = np.zeros(running.shape[0], dtype=np.float32)
        every = np.arange(running.shape[0])
        for i, side in enumerate(sides):
            found = _gains(side, total[nodes], ridge, np.maximum(least, heavy), is_used).reshape(-1, cells)
            where = found.argmax(axis=1)
            value = found[every, where]
            is_better = value > gain if i else np.ones(value.shape, dtype=bool)
            gain = np.where(is_better, value, gain)
            best[nodes] = np.where(is_better, where + i * cells, best[nodes])
            left[nodes] = np.where(is_better, side.reshape(-1, cells)[every, where], left[nodes])
    return best, left, total


def _gains(left: Host, total: Host, ridge: Host, least: Host, is_used: Host | None) -> Host:
    lower, upper = (0, 1) if np.little_endian else (1, 0)
    words = left.view(np.int32).reshape(*left.shape, 2)
    gains, left_hessian = words[..., lower].astype(np.float32), words[..., upper].astype(np.float32)
    words = total.view(np.int32).reshape(-1, 1, 1, 2)
    right = words[..., lower].astype(np.float32) - gains
    right_hessian = words[..., upper].astype(np.float32) - left_hessian
    is_heavy = np.minimum(left_hessian, right_hessian) >= least[:, None, None]
    if is_used is not None:
        is_heavy &= is_used[:, None]
    gains *= gains
    right *= right
    left_hessian += ridge[:, None]
    right_hessian += ridge[:, None]
    if ridge[0] <= 0:
        for hessian in (left_hessian, right_hessian):  # an empty side is not heavy anyway
            np.maximum(hessian, np.float32(0.5), out=hessian)
    gains /= left_hessian
    right /= right_hessian
    gains += right
    gains *= is_heavy
    return gains


def split_blocks(
    bins: Host,
    order: Host,
    starts: Sequence[int],
    sizes: Sequence[int],
    features: Sequence[int],
    thresholds: Sequence[int],
    goes_right: Host,
) -> tuple[Host, Host]:
    left_sizes = np.empty(len(sizes), dtype=np.int64)
    large = [j for j, size in enumerate(sizes) if size >= _SMALL_BLOCK]
    small = [j for j, size in enumerate(sizes) if 0 < size < _SMALL_BLOCK]

    def split(j: int) -> None:
        rows = order[starts[j] : starts[j] + sizes[j]]
        bin_at = bins[features[j]].take(rows)
        right = bin_at > thresholds[j] if thresholds[j] >= 0 else goes_right[j].take(bin_at)
        gone = rows.compress(right)
        n_left = rows.shape[0] - gone.shape[0]
        np.logical_not(right, out=right)
        rows[:n_left] = rows.compress(right)
        rows[n_left:] = gone
        left_sizes[j] = n_left

    _map(split, large, sum(sizes))
    if small:
        _split_small(bins, order, starts, sizes, features, thresholds, goes_right, small, left_sizes)
    return order, left_sizes


def _split_small(
    bins: Host,
    order: Host,
    starts: Sequence[int],
    sizes: Sequence[int],
    features: Sequence[int],
    thresholds: Sequence[int],
    goes_right: Host,
    blocks: Sequence[int],
    left_sizes: Host,
) -> None:
    """Split many small blocks in one go, where calls would cost more than rows."""
    rows = np.concatenate([order[starts[j] : starts[j] + sizes[j]] for j in blocks])
    size = np.asarray([sizes[j] for j in blocks])
    cell = np.asarray([features[j] * bins.shape[1] for j in blocks]).repeat(size)
    cell += rows
    bin_at = bins.reshape(-1).take(cell)
    if min(thresholds[j] for j in blocks) >= 0:
        right = bin_at > np.asarray([thresholds[j] for j in blocks], dtype=bins.dtype).repeat(size)
    else:
        line = np.asarray([j * goes_right.shape[1] for j in blocks]).repeat(size)
        line += bin_at
        right = goes_right.reshape(-1).take(line)
    first = np.cumsum(size) - size
    n_left = size - np.add.reduceat(right, first, dtype=np.int64)
    left_sizes[blocks] = n_left
    gone = rows.compress(right)
    stay = rows.compress(np.logical_not(right, out=right))
    a = b = 0
    for j, n in zip(blocks, n_left.tolist(), strict=True):
        start, stop = starts[j], starts[j] + sizes[j]
        order[start : start + n] = stay[a : a + n]
        order[start + n : stop] = gone[b : b + sizes[j] - n]
        a, b = a + n, b + sizes[j] - n


def add_to_blocks(
    scores: Host, order: Host, starts: Sequence[int], sizes: Sequence[int], values: Sequence[int]
) -> Host:
    by_start = np.argsort(np.asarray(starts), kind="stable")
    start, size = np.asarray(starts)[by_start], np.asarray(sizes)[by_start]
    steps = np.asarray(values, dtype=np.int32)[by_start].repeat(size)
    is_whole = int(size.sum()) == order.shape[0]
    rows = order if is_whole else np.concatenate([order[a : a + n] for a, n in zip(start, size, strict=True)])
    scores[rows] += steps
    return scores
