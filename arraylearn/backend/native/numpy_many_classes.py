"""Gini scores of presorted lists for many classes: sums of squared counts, whatever the number of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["best_scores", "find_positions"]

# Positions in a piece: fewer cost more calls, more leave the second-level cache.
_PIECE = 32_768
_WORTH_A_THREAD = 50_000


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


def best_scores(
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
    form = _ManyClasses(layout)
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


def find_positions(
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
    form = _ManyClasses(layout)
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
