"""NumPy bodies for `arraylearn.backend.ops.boosting`: rows in chunks that stay in the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from arraylearn.backend.threads import get_num_threads, parallel_map

try:  # adds rows of one-hot columns four times as fast as `np.add.at`; not public, so do without it if it goes
    from scipy.sparse._sparsetools import csc_matvec
except ImportError:  # pragma: no cover
    csc_matvec = None

Host = np.ndarray[Any, Any]
Block = tuple[int, int, int]  # number, start, stop

__all__ = ["add_to_sides", "block_histograms", "histogram_cells", "split_blocks"]

# Cells of one chunk of rows of a histogram, and rows of one chunk of anything else.
_CELLS = 40_960
_CHUNK = 32_768
# Tables up to here are in the second-level cache anyway.
_FEW_CELLS = 1 << 18
_WORTH_A_THREAD = 100_000
# Blocks of fewer rows are split together.
_SMALL_BLOCK = 2_048


def histogram_cells(bins: Host, n_bins: int) -> Host:
    d, n = bins.shape
    is_short = d * n_bins <= 1 << 16 and n * d > _FEW_CELLS  # half the memory for one more pass
    cells = np.empty((n, d), dtype=np.uint16 if is_short else np.int32)
    first = (np.arange(d) * n_bins).astype(cells.dtype)
    step = max(1, _CELLS // d)

    def lay_out(start: int) -> None:
        rows = slice(start, start + step)
        np.add(bins[:, rows].T, first, out=cells[rows])

    _map(lay_out, range(0, n, step), d * n)
    return cells


def _map(function: Callable[[Any], Any], items: Sequence[Any], n: int) -> list[Any]:
    """Apply a function to each item, in threads where `n` elements of work pay for them."""
    return parallel_map(function, items) if n >= _WORTH_A_THREAD else [function(item) for item in items]


def block_histograms(
    bins: Host,
    cells: Host,
    packed: Host,
    order: Host,
    starts: Sequence[int],
    sizes: Sequence[int],
    n_bins: int,
) -> Host:
    d, k = bins.shape[0], len(sizes)
    sums = np.zeros((k, d * n_bins), dtype=np.int64)
    step = max(1, _CELLS // d)
    if k == 1 and sizes[0] == bins.shape[1]:
        for start in range(0, sizes[0], step):
            rows = slice(start, start + step)
            _add_rows(cells[rows], packed[rows], [(0, 0, packed[rows].shape[0])], sums)
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
    large = [j for j, size in enumerate(sizes) if size >= _SMALL_BLOCK]
    small = [j for j, size in enumerate(sizes) if size < _SMALL_BLOCK]
    pieces = [(j, start) for j in large for start in range(starts[j], starts[j] + sizes[j], _CHUNK)]

    def split(piece: tuple[int, int]) -> tuple[Host, Host]:
        j, start = piece
        rows = order[start : min(start + _CHUNK, starts[j] + sizes[j])]
        right = _is_right(bins[features[j]].take(rows), thresholds[j], goes_right, j)
        gone = rows.compress(right)
        return rows.compress(np.logical_not(right, out=right)), gone

    halves = _map(split, pieces, sum(sizes))
    first = 0
    for j in large:
        n_pieces = -(-sizes[j] // _CHUNK)
        mine = halves[first : first + n_pieces]
        first += n_pieces
        at = starts[j]
        for side in (0, 1):
            for rows in (half[side] for half in mine):
                order[at : at + rows.shape[0]] = rows
                at += rows.shape[0]
            if side == 0:
                left_sizes[j] = at - starts[j]
    if small:
        _split_small(bins, order, starts, sizes, features, thresholds, goes_right, small, left_sizes)
    return order, left_sizes


def _is_right(bin_at: Host, threshold: int, goes_right: Host | None, j: int) -> Host:
    if threshold >= 0 or goes_right is None:
        return bin_at > threshold
    return goes_right[j].take(bin_at)


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
        return bin_at > bounds.repeat(size)
    lines = goes_right[np.minimum(blocks, goes_right.shape[0] - 1)]
    plain = np.asarray([thresholds[j] for j in blocks])
    bin_idx = np.arange(lines.shape[1])
    lines = np.where(plain[:, None] >= 0, bin_idx > plain[:, None], lines)
    line = (np.arange(len(blocks)) * lines.shape[1]).repeat(size)
    line += bin_at
    return lines.reshape(-1).take(line)


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
    large = [j for j, size in enumerate(sizes) if size >= _SMALL_BLOCK]
    pieces = [(j, start) for j in large for start in range(starts[j], starts[j] + sizes[j], _CHUNK)]

    def step(piece: tuple[int, int]) -> None:
        j, start = piece
        rows = order[start : min(start + _CHUNK, starts[j] + sizes[j])]
        low, high = values[0][j], values[1][j]
        if low == high:
            moves[rows] = low
            return
        right = _is_right(bins[features[j]].take(rows), thresholds[j], goes_right, j)
        part = np.multiply(right, np.int32(high - low))
        part += np.int32(low)
        moves[rows] = part

    _map(step, pieces, order.shape[0])
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
