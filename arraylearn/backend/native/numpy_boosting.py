"""NumPy bodies for `arraylearn.backend.ops.boosting`: rows in chunks that stay in the cache.

One thread: what adds up holds the interpreter lock, and the calls between are too short to share (two threads
were measured at 100 000 and 1 000 000 rows and were slower, or as fast).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

Host = np.ndarray[Any, Any]
csc_matvec: Callable[..., None] | None = None
# it adds up to four times as fast as `np.add.at`; it is not public, so do without it if it goes
with suppress(ImportError, AttributeError):
    from scipy.sparse import _sparsetools

    csc_matvec = _sparsetools.csc_matvec

Block = tuple[int, int, int]  # number, start, stop

__all__ = ["add_to_sides", "block_histograms", "histogram_cells", "split_blocks"]

# Cells of one chunk of rows of a histogram, and rows of one chunk of anything else.
_CELLS = 40_960
_CHUNK = 32_768
# Tables up to here are in the second-level cache anyway.
_FEW_CELLS = 1 << 18
# Blocks of fewer rows are split together.
_SMALL_BLOCK = 2_048


def histogram_cells(bins: Host, n_bins: int) -> Host:
    d, n = bins.shape
    is_short = d * n_bins <= 1 << 16 and n * d > _FEW_CELLS  # half the memory for one more pass
    cells = np.empty((n, d), dtype=np.uint16 if is_short else np.int32)
    first = (np.arange(d) * n_bins).astype(cells.dtype)
    step = max(1, _CELLS // d)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        np.add(bins[:, rows].T, first, out=cells[rows])
    return cells


def block_histograms(
    bins: Host,
    cells: Host,
    packed: Host,
    order: Host,
    starts: Sequence[int],
    sizes: Sequence[int],
    n_bins: int,
) -> Host:
    if cells.dtype == np.uint8:  # made for the compiled body, which is not wanted any more
        cells = histogram_cells(bins, n_bins)
    d, k = bins.shape[0], len(sizes)
    sums = np.zeros((k, d * n_bins), dtype=np.int64)
    step = max(1, _CELLS // d)
    if k == 1 and sizes[0] == bins.shape[1]:
        for start in range(0, sizes[0], step):
            weights = packed[start : start + step]
            _add_rows(cells[start : start + step], weights, [(0, 0, weights.shape[0])], sums)
    else:
        for rows, blocks in _batches(order, starts, sizes, step):
            _add_rows(cells.take(rows, axis=0), packed.take(rows), blocks, sums)
    table = sums.reshape(k, d, n_bins)
    return np.cumsum(table, axis=2, out=table)


def _batches(
    order: Host, starts: Sequence[int], sizes: Sequence[int], step: int
) -> Iterator[tuple[Host, list[Block]]]:
    """Yield rows, `step` at most, and the blocks among them."""
    pieces: list[Host] = []
    blocks: list[Block] = []
    n = 0
    for j, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        stop = start + size
        while start < stop:
            piece = order[start : min(stop, start + step - n)]
            m = piece.shape[0]
            pieces.append(piece)
            blocks.append((j, n, n + m))
            start, n = start + m, n + m
            if n == step:
                yield pieces[0] if len(pieces) == 1 else np.concatenate(pieces), blocks
                pieces, blocks, n = [], [], 0
    if n:
        yield pieces[0] if len(pieces) == 1 else np.concatenate(pieces), blocks


def _add_rows(cells: Host, packed: Host, blocks: Iterable[Block], sums: Host) -> None:
    """Add the packed sums of some rows to the cells of their blocks."""
    d = cells.shape[1]
    if csc_matvec is None:
        for j, start, stop in blocks:
            idx = cells[start:stop].reshape(-1).astype(np.intp)
            np.add.at(sums[j], idx, packed[start:stop].repeat(d))
        return
    flat = cells.astype(np.int32, copy=False).reshape(-1)
    ones, ends = _one_hot(d)
    n_cells = sums.shape[1]
    for j, start, stop in blocks:
        # a matrix with a one in each cell of each row, times what the rows weigh
        m = stop - start
        part = flat[start * d : stop * d]
        csc_matvec(n_cells, m, ends[: m + 1], part, ones[: m * d], packed[start:stop], sums[j])


@lru_cache(8)
def _one_hot(d: int) -> tuple[Host, Host]:
    step = max(1, _CELLS // d)
    return np.ones(step * d, dtype=np.int64), np.arange(0, (step + 1) * d, d, dtype=np.int32)


def split_blocks(
    bins: Host,
    order: Host,
    starts: Sequence[int],
    sizes: Sequence[int],
    features: Sequence[int],
    thresholds: Sequence[int],
    goes_right: Host | None,
) -> tuple[Host, Host]:
    left_sizes = np.empty(len(sizes), dtype=np.int64)
    small = [j for j, size in enumerate(sizes) if size < _SMALL_BLOCK]
    for j, size in enumerate(sizes):
        if size >= _SMALL_BLOCK:
            rows = order[starts[j] : starts[j] + size]
            left_sizes[j] = _split_large(bins[features[j]], rows, thresholds[j], goes_right, j)
    if small:
        _split_small(bins, order, starts, sizes, features, thresholds, goes_right, small, left_sizes)
    return order, left_sizes


def _split_large(column: Host, rows: Host, threshold: int, goes_right: Host | None, j: int) -> int:
    """Sort the rows of one block in place; return how many went left."""
    gone: list[Host] = []
    n_left = 0
    for start in range(0, rows.shape[0], _CHUNK):
        part = rows[start : start + _CHUNK]
        right = _is_right(column.take(part), threshold, goes_right, j)
        gone.append(part.compress(right))
        stay = part.compress(np.logical_not(right, out=right))
        rows[n_left : n_left + stay.shape[0]] = stay
        n_left += stay.shape[0]
    np.concatenate(gone, out=rows[n_left:])
    return n_left


def _is_right(bin_at: Host, threshold: int, goes_right: Host | None, j: int) -> Host:
    right: Host = bin_at > threshold if threshold >= 0 or goes_right is None else goes_right[j].take(bin_at)
    return right


def _split_small(
    bins: Host,
    order: Host,
    starts: Sequence[int],
    sizes: Sequence[int],
    features: Sequence[int],
    thresholds: Sequence[int],
    goes_right: Host | None,
    blocks: Sequence[int],
    left_sizes: Host,
) -> None:
    """Split many small blocks in one go, where calls would cost more than rows."""
    rows = np.concatenate([order[starts[j] : starts[j] + sizes[j]] for j in blocks])
    size = np.asarray([sizes[j] for j in blocks])
    right = _small_sides(bins, rows, size, features, thresholds, goes_right, blocks)
    gone = right.nonzero()[0]
    n_right = np.diff(gone.searchsorted(size.cumsum()), prepend=0)
    n_left = size - n_right
    left_sizes[blocks] = n_left
    gone = rows.take(gone)
    stay = rows.compress(np.logical_not(right, out=right))
    a = b = 0
    for j, n in zip(blocks, n_left.tolist(), strict=True):
        start, stop = starts[j], starts[j] + sizes[j]
        order[start : start + n] = stay[a : a + n]
        order[start + n : stop] = gone[b : b + sizes[j] - n]
        a, b = a + n, b + sizes[j] - n


def _small_sides(
    bins: Host,
    rows: Host,
    size: Host,
    features: Sequence[int],
    thresholds: Sequence[int],
    goes_right: Host | None,
    blocks: Sequence[int],
) -> Host:
    """Say which rows of blocks that lie side by side go right."""
    cell = np.asarray([features[j] * bins.shape[1] for j in blocks]).repeat(size)
    cell += rows
    bin_at = bins.reshape(-1).take(cell)
    if goes_right is None or min(thresholds[j] for j in blocks) >= 0:
        bounds = np.asarray([min(thresholds[j], 255) for j in blocks], dtype=bins.dtype)
        right: Host = bin_at > bounds.repeat(size)
        return right
    lines = goes_right[np.minimum(blocks, goes_right.shape[0] - 1)]
    plain = np.asarray([thresholds[j] for j in blocks])
    bin_idx = np.arange(lines.shape[1])
    lines = np.where(plain[:, None] >= 0, bin_idx > plain[:, None], lines)
    line = (np.arange(len(blocks)) * lines.shape[1]).repeat(size)
    line += bin_at
    listed: Host = lines.reshape(-1).take(line)
    return listed


def add_to_sides(
    scores: Host,
    bins: Host,
    order: Host,
    starts: Sequence[int],
    sizes: Sequence[int],
    features: Sequence[int],
    thresholds: Sequence[int],
    goes_right: Host | None,
    values: Sequence[Sequence[int]],
) -> Host:
    moves = np.zeros_like(scores)
    small = [j for j, size in enumerate(sizes) if size < _SMALL_BLOCK]
    for j, whole in enumerate(sizes):
        if whole < _SMALL_BLOCK:
            continue
        low, high = values[0][j], values[1][j]
        for start in range(starts[j], starts[j] + whole, _CHUNK):
            rows = order[start : min(start + _CHUNK, starts[j] + whole)]
            if low == high:
                moves[rows] = low
                continue
            right = _is_right(bins[features[j]].take(rows), thresholds[j], goes_right, j)
            steps = np.multiply(right, np.int32(high - low))
            steps += np.int32(low)
            moves[rows] = steps
    if small:
        size = np.asarray([sizes[j] for j in small])
        rows = np.concatenate([order[starts[j] : starts[j] + sizes[j]] for j in small])
        right = _small_sides(bins, rows, size, features, thresholds, goes_right, small)
        pairs = np.asarray([(values[0][j], values[1][j]) for j in small], dtype=np.int32)
        which = np.arange(0, 2 * len(small), 2).repeat(size)
        which += right
        moves[rows] = pairs.reshape(-1).take(which)
    scores += moves
    return scores
