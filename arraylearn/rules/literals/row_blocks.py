"""Weights of blocks of rows of sorted columns, and of the values of counted ones, updated as rows leave.

Sequential covering looks for the best literal of nearly the same rows again and again. The weights of blocks
of rows bound the scores inside: no cut in a block scores more than one with all positive rows of the block
on its side and all negative ones on the other. Blocks below the best score so far are not looked into.

    rows by value   - - - - | - - + - | + + + + | + - + + | - - - +
    blocks              0         1         2         3         4
    bound                       high      high                          only these are searched cut by cut
"""

from __future__ import annotations

import math
from typing import NamedTuple

from arraylearn._typing import Array
from arraylearn.backend.arrays.order import compress
from arraylearn.backend.arrays.segments import paired_histogram, scatter
from arraylearn.backend.namespace import Place
from arraylearn.rules.literals.candidates import Candidates
from arraylearn.rules.literals.cells import count_cells
from arraylearn.rules.literals.target import Target

__all__ = ["BlockLayout", "BlockSums", "lay_out", "narrow_blocks", "weigh_blocks"]


class BlockLayout(NamedTuple):
    """Sorted columns cut into blocks of rows."""

    lists: Array  # (d * n_blocks, width) int32 rows in the order of their column; n where there is none
    is_cut: Array  # (d * n_blocks, width) bool: whether the next row's value differs
    block_of: Array  # (d, n) int32: the block of each row in each column; n_blocks where it is missing
    n_blocks: int

    @property
    def width(self) -> int:
        """Rows of a block."""
        return int(self.lists.shape[1])


class BlockSums(NamedTuple):
    """Weights of the rows that are still covered, by block and by value."""

    layout: BlockLayout
    target: Target  # which rows are positive, and their weights
    sums: Array  # (d, 2, n_blocks) weight of the negative and of the positive rows
    tables: tuple[tuple[Array, Array], ...]  # of each group of counted columns: positive rows, and all rows


def lay_out(place: Place, candidates: Candidates, lists: Array) -> BlockLayout:
    """Cut sorted columns (d, m) into blocks of about half the root of m rows."""
    xp, n = place.xp, candidates.n_rows
    d, m = lists.shape
    width = 1 << max(4, round(math.log2(math.sqrt(m + 1) / 2)))
    n_blocks = -(-m // width)
    rows = xp.astype(lists, xp.int64)
    rank = xp.take_along_axis(candidates.ranks, rows, axis=1)
    is_cut = (rank[:, 1:] != rank[:, :-1]) & (rank[:, 1:] >= 0)
    block = xp.arange(m, dtype=xp.int64, device=place.device) // width
    block = xp.where(rank >= 0, block[None, :], n_blocks)
    flat = rows + n * xp.arange(d, dtype=xp.int64, device=place.device)[:, None]
    block_of = scatter(xp, xp.reshape(block, (-1,)), xp.reshape(flat, (-1,)), d * n) if d else flat
    return BlockLayout(
        _in_blocks(place, xp.where(rank >= 0, lists, n), n, n_blocks, width),
        _in_blocks(place, is_cut, 0, n_blocks, width),
        xp.astype(xp.reshape(block_of, (d, n)), xp.int32),
        n_blocks,
    )


def _in_blocks(place: Place, lists: Array, fill: int, n_blocks: int, width: int) -> Array:
    """Pad lists (d, m) with `fill` and cut them into blocks (d * n_blocks, width)."""
    xp, (d, m) = place.xp, lists.shape
    rest = xp.astype(xp.full((d, n_blocks * width - m), fill, device=place.device), lists.dtype)
    return xp.reshape(xp.concat((lists, rest), axis=1), (d * n_blocks, width))


def weigh_blocks(
    place: Place, candidates: Candidates, layout: BlockLayout, target: Target, is_live: Array, size: int
) -> BlockSums:
    """Weigh blocks and values of the live rows (n,), of which there are `size`; no sync."""
    xp = place.xp
    tables = [count_cells(xp, group.packed, group.n_cells, is_live, target) for group in candidates.counted]
    block_of, keys, weights = layout.block_of, xp.astype(target.is_positive, xp.int64), target.weights
    if size < candidates.n_rows:
        every = xp.arange(candidates.n_rows, dtype=xp.int64, device=place.device)
        rows = compress(xp, every, is_live, size)
        block_of, keys = xp.take(block_of, rows, axis=1), xp.take(keys, rows, axis=0)
        weights = None if weights is None else xp.take(weights, rows, axis=0)
    sums = paired_histogram(xp, block_of, keys, layout.n_blocks + 1, 2, weights)
    return BlockSums(layout, target, sums[:, :, : layout.n_blocks], tuple(tables))


def narrow_blocks(
    place: Place,
    candidates: Candidates,
    blocks: BlockSums,
    before: tuple[Array, int],
    after: tuple[Array, int],
) -> BlockSums:
    """Subtract the rows that left; `before` and `after` are masks (n,) and the numbers of their rows."""
    layout, target = blocks.layout, blocks.target
    n_gone = before[1] - after[1]
    if after[1] < n_gone:
        return weigh_blocks(place, candidates, layout, target, *after)
    gone = weigh_blocks(place, candidates, layout, target, before[0] & ~after[0], n_gone)
    tables = [
        (p - p_gone, covered - covered_gone)
        for (p, covered), (p_gone, covered_gone) in zip(blocks.tables, gone.tables, strict=True)
    ]
    return blocks._replace(sums=blocks.sums - gone.sums, tables=tuple(tables))
