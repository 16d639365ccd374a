"""NumPy bodies for `arraylearn.backend.ops.blocks`: pieces that stay in the cache, lists in threads."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["block_index", "block_max", "gini_find", "gini_scan", "scatter", "split_lists"]

# Positions in a piece: fewer cost more calls, more leave the second-level cache. At most 65535.
_PIECE = 32_768
# Up to here a running count per class is cheaper than ranks within the classes.
_FEW_CLASSES = 4
_WORTH_A_THREAD = 50_000
# Up to here one pass per branch is cheaper than a stable sort.
_FEW_BRANCHES = 12


def block_index(sizes: Host, total: int) -> Host:
    return np.repeat(np.arange(sizes.shape[0]), sizes)


def block_max(values: Host, starts: Host, block_at: Host) -> Host:
    return np.maximum.reduceat(values, starts, axis=1)


def scatter(values: Host, positions: Host, n: int) -> Host:
    result = np.zeros(n, dtype=values.dtype)
    result[positions] = values
    return result


def split_lists(lists: Host, branch: Host, sizes: Sequence[int]) -> Host:
    d, m = lists.shape
    result = np.empty((d, sum(sizes)), dtype=lists.dtype)
    starts = np.concatenate(([0], np.cumsum(sizes)))[:-1].tolist()
    n_branches = len(sizes)
    kind = np.int8 if n_branches < 127 else np.int32
    branch = branch.astype(kind, copy=False)

    def split_group(lines: slice) -> None:
        source, target = lists[lines], result[lines]
        if m > _PIECE:
            for j in range(source.shape[0]):
                _split_line(source[j], branch, starts, target[j])
            return
        key = branch.take(source)
        if n_branches > _FEW_BRANCHES:
            for j in range(source.shape[0]):
                target[j] = _sorted_by(source[j], key[j])
            return
        flat, key = source.ravel(), key.ravel()
        for b, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            target[:, start : start + size] = flat.compress(key == b).reshape(source.shape[0], size)

    _map_groups(split_group, d, m)
    return result


def _split_line(source: Host, branch: Host, starts: list[int], target: Host) -> None:
    """Split one long list piece by piece."""
    if len(starts) > _FEW_BRANCHES:
        target[:] = _sorted_by(source, branch.take(source))
        return
    filled = list(starts)
    for first in range(0, source.shape[0], _PIECE):
        rows = source[first : first + _PIECE]
        key = branch.take(rows)
        for b, start in enumerate(filled):
            (chosen,) = (key == b).nonzero()
            filled[b] = start + chosen.shape[0]
            rows.take(chosen, out=target[start : filled[b]], mode="clip")  # which needs no buffer


def _sorted_by(rows: Host, key: Host) -> Host:
    order = np.argsort(key, kind="stable")
    return rows.take(order[int(np.count_nonzero(key < 0)) :])


def _map_groups(work: Any, d: int, m: int) -> None:
    """Call ``work(slice of lists)`` for groups of lists, on several threads where that pays."""
    n_threads = get_num_threads() if d * m >= _WORTH_A_THREAD else 1
    per_group = max(1, min(-(-d // n_threads), max(1, _PIECE // max(1, m)) if n_threads == 1 else d))
    groups = [slice(j, min(d, j + per_group)) for j in range(0, d, per_group)]
    if n_threads == 1:
        for group in groups:
            work(group)
    else:
        parallel_map(work, groups)


class _Piece(NamedTuple):
    """What all lists share in a run of positions."""

    first: int
    stop: int
    blocks: slice
    starts: Host  # first position of each block, within the piece
    block_size: Host  # rows of each block
    is_continued: bool  # whether the first block began before
    size: Host  # (p,) rows of the block
    block: Host  # (p,) the block, counted from the first of the piece
    n_left: Host  # (p,) rows of the block up to here
    is_last: Host  # (p,) whether the block ends here
    is_small: Host | None  # (p,) whether a side is too small


class _Layout:
    """The blocks and their classes."""

    def __init__(
        self, class_ends: Sequence[int], starts: Host, block_at: Host, counts: Host, least: int
    ) -> None:
        self.class_ends = np.asarray(class_ends, dtype=np.int32)
        self.starts, self.block_at, self.counts, self.least = starts, block_at, counts, least
        self.n_classes = counts.shape[1]
        self.size = counts.sum(axis=1).astype(np.float64)

    def pieces(self) -> list[tuple[int, int]]:
        m = self.block_at.shape[0]
        return [(first, min(m, first + _PIECE)) for first in range(0, m, _PIECE)]

    def piece(self, first: int, stop: int) -> _Piece:
        block = self.block_at[first:stop]
        blocks = slice(int(block[0]), int(block[-1]) + 1)
        block = block - blocks.start
        starts = self.starts[blocks]
        size = self.size[blocks].take(block)
        n_left = np.arange(first + 1, stop + 1, dtype=np.float64)
        n_left -= starts.take(block)
        is_small = None
        if self.least > 1:
            is_small = (n_left < self.least) | (size - n_left < self.least)
        local = np.maximum(starts - first, 0)
        return _Piece(
            first,
            stop,
            blocks,
            local,
            self.size[blocks],
            bool(starts[0] < first),
            size,
            block,
            n_left,
            n_left == size,
            is_small,
        )


class _FewClasses:
    """Scores as the sum of squared surpluses, the classes one by one in the order of the portable body.

    Four lists share one running sum: their counts are the 16-bit fields of its 64-bit numbers.
    """

    def __init__(self, layout: _Layout) -> None:
        self.buffers = _Buffers()
        self.ends = layout.class_ends[:-1].tolist()
        total = np.cumsum(layout.counts, axis=1)[:, :-1].T.astype(np.float64)  # (c - 1, k): class c or less
        self.total = np.ascontiguousarray(total)

    def carry(self, n_lines: int) -> Host:
        """Make the counts of the open block that go from piece to piece: (c - 1, lines, 1)."""
        return np.zeros((max(1, len(self.ends)), n_lines, 1))

    def prepare(self, piece: _Piece) -> tuple[list[Host], list[float], Host]:
        """Find the counts expected at the block's shares, those before the last block, and the divisor."""
        expected, finished = [], []
        for total in self.total[:, piece.blocks]:
            before = np.cumsum(total) - total
            shares = total.take(piece.block)
            shares *= piece.n_left
            before *= piece.block_size
            shares += before.take(piece.block)
            shares -= piece.is_last  # a surplus of 1, and -1 below: no block ends with a score that could win
            expected.append(shares)
            finished.append(float(total[:-1].sum()))
        inverse = piece.size - piece.n_left
        inverse *= piece.n_left
        np.copyto(inverse, -1.0, where=piece.is_last)
        np.divide(1.0, inverse, out=inverse)
        return expected, finished, inverse

    def score(
        self, piece: _Piece, shared: tuple[list[Host], list[float], Host], rows: Host, carried: Host
    ) -> Host:
        """Score the positions of some lists (g, p); the result is overwritten by the next call."""
        expected, finished, inverse = shared
        surplus, previous, scores = self.buffers.numbers(rows.shape)
        for c, end in enumerate(self.ends):
            self._count_below(rows, end, surplus)
            if piece.is_continued:
                surplus += carried[c]
            carried[c] = 0.0 if piece.is_last[-1] else surplus[:, -1:] - finished[c]
            surplus *= piece.size
            surplus -= expected[c]
            if len(self.ends) == 1:
                scores = np.multiply(surplus, surplus, out=surplus)
            elif c == 0:
                np.multiply(surplus, surplus, out=scores)
            else:
                np.subtract(surplus, previous, out=previous)
                previous *= previous
                scores += previous
            previous, surplus = surplus, previous
        if not self.ends:
            scores[:] = piece.is_last
        elif len(self.ends) > 1:
            previous *= previous
            scores += previous
        scores *= inverse
        return scores

    def _count_below(self, rows: Host, end: int, out: Host) -> None:
        """Write how many of the row ids (g, p) up to each position are below `end`."""
        g = rows.shape[0]
        fields, is_below = self.buffers.fields(rows.shape)
        np.less(rows, end, out=is_below)
        fields[:] = 0
        flags = fields.view(np.bool_)  # the low byte of each field
        for i in range(min(4, g)):
            lines = is_below[i::4]
            flags[: lines.shape[0], :, 2 * i] = lines
        packed = fields.view(np.int64)[:, :, 0]
        np.add.accumulate(packed, axis=1, out=packed)
        for i in range(min(4, g)):
            target = out[i::4]
            np.copyto(target, fields[: target.shape[0], :, i])


class _Buffers(threading.local):
    """Memory that is used again: fresh pages would cost more than the arithmetic. One set per thread."""

    def __init__(self) -> None:
        self._numbers = np.empty((3, 0))
        self._fields = np.empty(0, dtype=np.uint16)
        self._flags = np.empty(0, dtype=np.bool_)

    def numbers(self, shape: tuple[int, ...]) -> list[Host]:
        """Return three float arrays."""
        size = math.prod(shape)
        if self._numbers.shape[1] < size:
            self._numbers = np.empty((3, size))
        return [line[:size].reshape(shape) for line in self._numbers]

    def fields(self, shape: tuple[int, ...]) -> tuple[Host, Host]:
        """Return (ceil(g / 4), p, 4) 16-bit fields and (g, p) flags."""
        g, p = shape
        n_lanes = -(-g // 4)
        if self._flags.shape[0] < g * p or self._fields.shape[0] < 4 * n_lanes * p:
            self._fields = np.empty(4 * n_lanes * p, dtype=np.uint16)
            self._flags = np.empty(g * p, dtype=np.bool_)
        return (
            self._fields[: 4 * n_lanes * p].reshape(n_lanes, p, 4),
            self._flags[: g * p].reshape(g, p),
        )


class _ManyClasses:
    """Scores from sums of squared counts, which grow by what a row's rank in its class says."""

    def __init__(self, layout: _Layout) -> None:
        n_classes = layout.n_classes
        counts = layout.counts
        sizes = np.diff(layout.class_ends, prepend=0)
        self.labels = np.repeat(np.arange(n_classes, dtype=np.uint8 if n_classes < 256 else np.uint16), sizes)
        self.n_classes = n_classes
        self.counts = counts
        self.before = np.cumsum(counts, axis=0) - counts
        self.squares = (counts * counts).sum(axis=1)
        self.squares_before = np.cumsum(self.squares) - self.squares

    def carry(self, n_lines: int) -> Host:
        """Make the running class counts and the two running sums that go from piece to piece."""
        return np.zeros((self.n_classes + 2, n_lines, 1), dtype=np.int64)

    def prepare(self, piece: _Piece) -> tuple[Host, ...]:
        """Find what all lists share."""
        blocks = piece.blocks
        key = piece.block * self.n_classes
        n_right = piece.size - piece.n_left
        np.copyto(n_right, 1.0, where=piece.is_last)
        before = self.squares_before[blocks].take(piece.block)
        return (
            key,
            self.before[blocks].ravel(),
            self.counts[blocks].ravel(),
            before,
            before + self.squares[blocks].take(piece.block),
            n_right,
        )

    def score(self, piece: _Piece, shared: tuple[Host, ...], rows: Host, carried: Host) -> Host:
        """Score the positions of some lists (g, p)."""
        base, before, counts, squares_before, squares_end, n_right = shared
        n_classes = self.n_classes
        label = self.labels.take(rows)
        rank = self._rank(label, carried[:n_classes])
        key = label + base
        rank -= before.take(key)
        rank *= 2
        rank += 1
        shrink = counts.take(key)
        shrink *= 2
        shrink -= rank
        grown, shrunk = np.cumsum(rank, axis=1, out=rank), np.cumsum(shrink, axis=1, out=shrink)
        if piece.first:
            grown += carried[n_classes]
            shrunk += carried[n_classes + 1]
        carried[n_classes], carried[n_classes + 1] = grown[:, -1:], shrunk[:, -1:]
        grown -= squares_before
        np.subtract(squares_end, shrunk, out=shrunk)
        scores = grown / piece.n_left
        scores += shrunk / n_right
        np.copyto(scores, -1.0, where=piece.is_last)
        return scores

    def _rank(self, label: Host, carried: Host) -> Host:
        """Count the earlier rows of the same class, and move the carried counts on."""
        n_classes, (g, p) = self.n_classes, label.shape
        line = np.arange(g)[:, None]
        found = np.bincount((label + n_classes * line).ravel(), minlength=g * n_classes).reshape(g, n_classes)
        offset = carried[:, :, 0].T - (np.cumsum(found, axis=1) - found)
        sequence = np.repeat(offset.ravel(), found.ravel()).reshape(g, p)
        sequence += np.arange(p)
        order = np.argsort(label, axis=1, kind="stable")
        if g > 1:
            order += p * line
        rank = np.empty(g * p, dtype=np.int64)
        rank[order.ravel()] = sequence.ravel()
        carried += found.T[:, :, None]
        return rank.reshape(g, p)


def gini_scan(
    lists: Host,
    columns: Host,
    class_ends: Sequence[int],
    starts: Host,
    block_at: Host,
    counts: Host,
    least: int,
    is_tied: Sequence[bool],
) -> Host:
    d, m = lists.shape
    best = np.full((d, starts.shape[0]), -1.0)
    layout = _Layout(class_ends, starts, block_at, counts, least)
    form = _FewClasses(layout) if layout.n_classes <= _FEW_CLASSES else _ManyClasses(layout)
    together = 4 * max(1, _PIECE // max(1, m))

    def scan_lines(lines: slice) -> None:
        carried = form.carry(lines.stop - lines.start)
        for first, stop in layout.pieces():
            piece = layout.piece(first, stop)
            shared: Any = form.prepare(piece)
            for j in range(lines.start, lines.stop, together):
                group = slice(j, min(lines.stop, j + together))
                local = slice(j - lines.start, group.stop - lines.start)
                scores = form.score(piece, shared, lists[group, first:stop], carried[:, local])
                if piece.is_small is not None:
                    np.copyto(scores, -1.0, where=piece.is_small)
                for f in range(group.start, group.stop):
                    if is_tied[f]:
                        _mask_ties(columns[f].take(lists[f, first : stop + 1]), scores[f - j])
                found = np.maximum.reduceat(scores, piece.starts, axis=1)
                target = best[group, piece.blocks]
                np.maximum(target, found, out=target)

    n_threads = get_num_threads() if d * m >= _WORTH_A_THREAD else 1
    share = -(-d // n_threads)
    parallel_map(scan_lines, [slice(j, min(d, j + share)) for j in range(0, d, share)])
    return best


def gini_find(
    rows: Host,
    values: Host,
    class_ends: Sequence[int],
    starts: Host,
    block_at: Host,
    counts: Host,
    best: Host,
    least: int,
) -> Host:
    layout = _Layout(class_ends, starts, block_at, counts, least)
    form = _FewClasses(layout) if layout.n_classes <= _FEW_CLASSES else _ManyClasses(layout)
    position = np.full(starts.shape[0], -1, dtype=np.int64)
    carried = form.carry(1)
    for first, stop in layout.pieces():
        piece = layout.piece(first, stop)
        shared: Any = form.prepare(piece)
        scores = form.score(piece, shared, rows[None, first:stop], carried)[0]
        if piece.is_small is not None:
            np.copyto(scores, -1.0, where=piece.is_small)
        _mask_ties(values[first : stop + 1], scores)
        hit = np.flatnonzero(scores == best[piece.blocks].take(piece.block))
        hit = hit.compress(scores.take(hit) >= 0)[::-1]
        found = position[piece.blocks]
        is_open = found < 0
        latest = np.full(found.shape[0], -1, dtype=np.int64)
        latest[piece.block.take(hit)] = hit + first  # written backwards: the first hit is written last
        np.copyto(found, latest, where=is_open)
    return position


def _mask_ties(values: Host, scores: Host) -> None:
    """Forbid positions whose next value is the same; `values` has one more where there is a next piece."""
    is_same = values[1:] == values[:-1]
    np.copyto(scores[: is_same.shape[0]], -1.0, where=is_same)
