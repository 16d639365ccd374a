"""The search of literals by blocks of rows, whose weights are updated as rows leave.

Sequential covering looks for the best literal of nearly the same rows again and again. The weights of blocks
of rows bound the scores inside: no cut in a block scores more than one with all positive rows of the block
on its side and all negative ones on the other. Blocks whose bound is below the best score so far are skipped.

    rows by value   - - - - | - - + - | + + + + | + - + + | - - - +
    blocks              0         1         2         3         4
    bound                       high      high                          only these are searched cut by cut
"""

from __future__ import annotations

import math
from typing import NamedTuple

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.arrays.gather import top_k
from arraylearn.backend.arrays.order import compress
from arraylearn.backend.arrays.segments import paired_histogram, scatter
from arraylearn.backend.dispatch import get_tuning
from arraylearn.backend.namespace import Place, read_together
from arraylearn.rules.find_literal import (
    HIGH,
    LOW,
    SCORE,
    Entry,
    ScoredLiteral,
    Scoring,
    best_entry,
    first_best,
    near_best,
    pick_by_column,
    score_table,
    state_literal,
)
from arraylearn.rules.literals import Candidates, Target, count_cells

__all__ = ["BlockLayout", "BlockSums", "best_literal_in_blocks", "lay_out", "narrow_blocks", "weigh_blocks"]


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


def lay_out(candidates: Candidates, lists: Array) -> BlockLayout:
    """Cut sorted columns (d, m) into blocks of about half the root of m rows."""
    place, n = candidates.place, candidates.n_rows
    xp, (d, m) = place.xp, lists.shape
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
    candidates: Candidates, layout: BlockLayout, target: Target, is_live: Array, size: int
) -> BlockSums:
    """Weigh blocks and values of the live rows (n,), of which there are `size`; no sync."""
    xp, n = candidates.place.xp, candidates.n_rows
    tables = [count_cells(xp, group, is_live, target) for group in candidates.counted]
    block_of, keys, weights = layout.block_of, xp.astype(target.is_positive, xp.int64), target.weights
    if size < n:
        rows = compress(xp, xp.arange(n, dtype=xp.int64, device=candidates.place.device), is_live, size)
        block_of, keys = xp.take(block_of, rows, axis=1), xp.take(keys, rows, axis=0)
        weights = None if weights is None else xp.take(weights, rows, axis=0)
    sums = paired_histogram(xp, block_of, keys, layout.n_blocks + 1, 2, weights)
    return BlockSums(layout, target, sums[:, :, : layout.n_blocks], tuple(tables))


def narrow_blocks(
    candidates: Candidates, blocks: BlockSums, before: tuple[Array, int], after: tuple[Array, int]
) -> BlockSums:
    """Subtract the rows that left; `before` and `after` are masks (n,) and the numbers of their rows."""
    layout, target = blocks.layout, blocks.target
    n_gone = before[1] - after[1]
    if after[1] < n_gone:
        return weigh_blocks(candidates, layout, target, *after)
    gone = weigh_blocks(candidates, layout, target, before[0] & ~after[0], n_gone)
    tables = [
        (p - p_gone, covered - covered_gone)
        for (p, covered), (p_gone, covered_gone) in zip(blocks.tables, gone.tables, strict=True)
    ]
    return blocks._replace(sums=blocks.sums - gone.sums, tables=tuple(tables))


# ---- the search


def best_literal_in_blocks(
    candidates: Candidates, is_live: Array, blocks: BlockSums, scoring: Scoring
) -> ScoredLiteral | None:
    """Find the literal of `best_literal` among the live rows (n,), searching only blocks that may have it.

    One sync, one more for the neighbours of a threshold, and one more where many blocks may hold the best
    cut.
    """
    place = candidates.place
    tables = [
        score_table(place.xp, group, *table, scoring)
        for group, table in zip(candidates.counted, blocks.tables, strict=True)
    ]
    if blocks.layout.lists.shape[0] == 0:
        entries = near_best(candidates, read_together(place, *tables))
    else:
        entries = _search_blocks(candidates, is_live, blocks, tables, scoring)
    entry = best_entry(candidates, entries)
    if entry is None:
        return None
    at, numbers = entry
    column = at - (len(candidates.idx) - blocks.layout.block_of.shape[0])
    if column >= 0:
        numbers[LOW : HIGH + 1] = _neighbours(candidates, is_live, blocks.layout, column, int(numbers[LOW]))
    return state_literal(candidates, entry)


def _search_blocks(
    candidates: Candidates, is_live: Array, blocks: BlockSums, tables: list[Array], scoring: Scoring
) -> list[Entry]:
    """Search the blocks with the largest bounds, and more of them until no other can hold the best cut."""
    place, n_blocks = candidates.place, int(blocks.layout.lists.shape[0])
    bounds = _bounds(place, blocks.sums, scoring)
    flags = _flags(place.xp, is_live, blocks.target)
    n_searched = min(get_tuning().rule_first_blocks, n_blocks)
    while True:
        # one more than is searched: its bound is the largest of the blocks left out
        bound, idx = top_k(place.xp, bounds, min(n_searched + 1, n_blocks))
        found = _search(place, blocks, flags, idx[:n_searched], scoring)
        *parts, bound, idx, found = read_together(place, *tables, bound, idx, found)
        top = max(float(part[SCORE].max()) for part in (*parts, found))
        floor = top - candidates.tolerance * abs(top) if top > -math.inf else -math.inf
        if n_searched == n_blocks or not floor <= float(bound[-1]) > -math.inf:
            break
        n_searched = min(n_blocks, 4 * n_searched)
    return near_best(candidates, parts) + _entries(candidates, blocks.layout, idx, found, floor)


def _flags(xp: Namespace, is_live: Array, target: Target) -> tuple[Array, Array]:
    """Return the weights (n + 1,) of the negative and of the positive live rows; 0 for the padding, row n."""
    parts = []
    for mask in (is_live & ~target.is_positive, is_live & target.is_positive):
        weights = target.weights
        flags = xp.astype(mask, xp.int32) if weights is None else xp.where(mask, weights, 0)
        parts.append(xp.concat((flags, xp.zeros_like(flags[:1]))))
    return parts[0], parts[1]


def _bounds(place: Place, sums: Array, scoring: Scoring) -> Array:
    """Bound the scores of the cuts in each block: (d * n_blocks,)."""
    xp = place.xp
    until = xp.cumulative_sum(sums, axis=2)
    since, total = until - sums, until[:, :, -1:]
    # all positive rows of the block on the side, none of its negative ones: below the cut, then above it
    p = xp.stack((until[:, 1, :], total[:, 1, :] - since[:, 1, :]))
    n = xp.stack((since[:, 0, :], total[:, 0, :] - until[:, 0, :]))
    # unlike a literal, a bound may count all rows on one side: a cut inside the block has fewer
    score = scoring._replace(n_before=scoring.n_before + 1).score(xp, p, p + n)[0]
    return xp.reshape(xp.max(score, axis=0), (-1,))


def _search(
    place: Place, blocks: BlockSums, flags: tuple[Array, Array], idx: Array, scoring: Scoring
) -> Array:
    """Find the best cut of each block of `idx` (k,) as (4, k): score, p, covered, position.

    Positions up to the width of a block mean the side below the cut, those from there on the side above.
    """
    xp, layout, (d, _, n_blocks) = place.xp, blocks.layout, blocks.sums.shape
    rows = xp.take(layout.lists, idx, axis=0)
    since = xp.cumulative_sum(blocks.sums, axis=2) - blocks.sums
    total = xp.sum(blocks.sums, axis=2)
    sides = []
    for kind in range(2):
        inside = xp.reshape(xp.take(flags[kind], xp.reshape(rows, (-1,)), axis=0), rows.shape)
        start = xp.take(xp.reshape(since[:, kind, :], (d * n_blocks,)), idx, axis=0)
        below = xp.cumulative_sum(inside, axis=1, dtype=blocks.sums.dtype) + start[:, None]
        above = xp.take(total[:, kind], idx // n_blocks, axis=0)[:, None] - below
        sides.append(xp.concat((below, above), axis=1))
    n, p = sides
    scores, p, covered = scoring.score(xp, p, p + n)
    # among rows that are no longer live, a cut may leave nothing on one side
    is_cut = xp.take(layout.is_cut, idx, axis=0)
    is_cut = is_cut & (covered[:, : layout.width] > 0) & (covered[:, layout.width :] > 0)
    scores = xp.where(xp.concat((is_cut, is_cut), axis=1), scores, -math.inf)
    best = first_best(xp, scores, covered)
    return xp.stack((*pick_by_column(xp, best, scores, p, covered), xp.astype(best, scores.dtype)))


def _entries(
    candidates: Candidates, layout: BlockLayout, idx: HostArray, found: HostArray, floor: float
) -> list[Entry]:
    """Return the best cut of each sorted column: by coverage, then the lower side, then the first.

    LOW holds the position of the cut; `best_literal_in_blocks` replaces it by the neighbours.
    """
    if floor == -math.inf:
        return []
    offset = len(candidates.idx) - layout.block_of.shape[0]
    best: dict[int, tuple[float, int, int, list[float]]] = {}
    for i in (found[SCORE] >= floor).nonzero()[0].tolist():
        score, p, covered, position = found[:, i].tolist()
        column, block = divmod(int(idx[i]), layout.n_blocks)
        side, inside = divmod(int(position), layout.width)
        at = block * layout.width + inside
        entry = (-covered, side, at, [score, p, covered, float(at), 0.0, float(side)])
        best[column] = min(best.get(column, entry), entry)
    return [(offset + column, entry[-1]) for column, entry in best.items()]


def _neighbours(
    candidates: Candidates, is_live: Array, layout: BlockLayout, column: int, at: int
) -> list[float]:
    """Return the live numbers between which a cut lies."""
    xp = candidates.place.xp
    ranks, numbers = candidates.ranks[column, :], candidates.columns[candidates.sorted_idx[column], :]
    block, inside = divmod(at, layout.width)
    row = layout.lists[column * layout.n_blocks + block, inside : inside + 1]
    cut = xp.take(ranks, xp.astype(row, xp.int64), axis=0)
    # integers are compared in half the time of the numbers themselves; missing ones have rank -1
    is_below = ranks <= cut
    below = xp.argmax(xp.where(is_live & is_below, ranks, -1))
    above = xp.argmin(xp.where(is_below | ~is_live, candidates.n_rows, ranks))
    found = read_together(candidates.place, xp.take(numbers, xp.stack((below, above)), axis=0))[0]
    return [float(one) for one in found.tolist()]
