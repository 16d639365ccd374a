"""The best literal of a pool: of all cuts, or only of the blocks of rows that can hold the best one."""

from __future__ import annotations

import math
from typing import Any

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.order import top_k
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.backend.ops.thresholds import first_best, pick_in_lines
from arraylearn.backend.transfer import read_together
from arraylearn.rules.blocks import Blocks, Layout
from arraylearn.rules.candidates import Candidates, Target, is_single_precision
from arraylearn.rules.choose import Choice, Entry, best_entry, choose, make_choice, near_best
from arraylearn.rules.foil import HIGH, LOW, SCORE, Gain, mask_gain, score_literals, score_table, slack_of
from arraylearn.rules.pool import Pool

__all__ = ["best_literal"]

# How many blocks are searched at first.
_FIRST_BLOCKS = 128


def best_literal(
    place: Place,
    candidates: Candidates,
    pool: Pool,
    target: Target,
    gain: Gain,
    before: tuple[float, float],
    least: float,
) -> Choice | None:
    """Find the best literal; None where there is none.

    Parameters
    ----------
    candidates, pool, target, gain, before, least
        As in `arraylearn.rules.foil.score_literals`.

    Returns
    -------
    Choice or None
        The same for a pool with and without blocks. The host waits once; with blocks, once more for the
        neighbours of a threshold, and once more where many blocks may hold the best cut.
    """
    if pool.blocks is None:
        parts = score_literals(place.xp, candidates, pool, target, gain, before, least)
        is_single = is_single_precision(place.xp, candidates.table)
        return choose(candidates, read_together(place, *parts), is_single=is_single)
    tables = [
        score_table(place.xp, block, *table, gain, before, least)
        for block, table in zip(candidates.blocks, pool.blocks.tables, strict=True)
    ]
    if pool.blocks.layout.lists.shape[0] == 0:
        entries = near_best(candidates, read_together(place, *tables))
    else:
        entries = _search_blocks(place, candidates, pool, pool.blocks, tables, gain, before, least)
    return _state(place, candidates, pool, pool.blocks.layout, entries)


def _search_blocks(
    place: Place,
    candidates: Candidates,
    pool: Pool,
    blocks: Blocks,
    tables: list[Array],
    gain: Gain,
    before: tuple[float, float],
    least: float,
) -> list[Entry]:
    """Search the blocks with the largest bounds, and more of them until no other can hold the best cut."""
    xp, n_blocks = place.xp, int(blocks.layout.lists.shape[0])
    bounds = _bounds(xp, blocks.sums, gain, before, least)
    flags = _flags(xp, pool, blocks.target)
    # what is taken away from sums of float weights leaves more than a rounding error
    tolerance = candidates.tolerance if blocks.target.weights is None else 1e-9
    n_searched = min(_FIRST_BLOCKS, n_blocks)
    while True:
        # one more than is searched: the best of what is left out
        bound, idx = top_k(xp, bounds, min(n_searched + 1, n_blocks))
        found = _search(xp, blocks, flags, idx[:n_searched], gain, before, least)
        *parts, bound, idx, found = read_together(place, *tables, bound, idx, found)
        top = max(float(part[SCORE].max()) for part in (*parts, found))
        floor = top - tolerance * abs(top) if top > -math.inf else -math.inf
        if n_searched == n_blocks or not floor <= float(bound[-1]) > -math.inf:
            break
        n_searched = min(n_blocks, 4 * n_searched)
    return near_best(candidates, parts) + _entries(candidates, blocks.layout, idx, found, floor)


def _flags(xp: Namespace, pool: Pool, target: Target) -> tuple[Array, Array]:
    """Return the weights (n + 1,) of the negative and of the positive live rows; 0 for the row after all."""
    parts = []
    for mask in (pool.is_live & ~target.is_positive, pool.is_live & target.is_positive):
        weights = target.weights
        flags = xp.astype(mask, xp.int32) if weights is None else xp.where(mask, weights, 0.0)
        parts.append(xp.concat((flags, xp.zeros_like(flags[:1]))))
    return parts[0], parts[1]


def _bounds(xp: Namespace, sums: Array, gain: Gain, before: tuple[float, float], least: float) -> Array:
    """Bound the scores of the cuts in each block: (d * n_blocks,)."""
    dtype = accumulator_dtype(Place(xp, array_api_compat.device(sums)))
    sums = xp.astype(sums, dtype)
    until = xp.cumulative_sum(sums, axis=2)
    since, total = until - sums, until[:, :, -1:]
    # all positive rows of the block on the side, none of its negative ones: below the cut, then above it
    p = xp.stack((until[:, 1, :], total[:, 1, :] - since[:, 1, :]))
    n = xp.stack((since[:, 0, :], total[:, 0, :] - until[:, 0, :]))
    score = gain(xp, p, p + xp.maximum(n, xp.zeros_like(n)), *before)
    slack = slack_of(xp, p, before[1])
    # sides of all rows are not left out: a cut inside the block has fewer
    score = xp.where(p > max(slack, least - 2 * slack), score, -math.inf)
    return xp.reshape(xp.max(score, axis=0), (-1,))


def _search(
    xp: Namespace,
    blocks: Blocks,
    flags: tuple[Array, Array],
    idx: Array,
    gain: Gain,
    before: tuple[float, float],
    least: float,
) -> Array:
    """Find the best cut of each block of `idx` (k,): score, p, covered, position; beyond the width: above."""
    layout, (d, _, n_blocks) = blocks.layout, blocks.sums.shape
    dtype = accumulator_dtype(Place(xp, array_api_compat.device(idx)))
    rows = xp.take(layout.lists, idx, axis=0)
    since = xp.cumulative_sum(blocks.sums, axis=2) - blocks.sums
    total = xp.sum(blocks.sums, axis=2)
    sides = []
    for kind in range(2):
        inside = xp.reshape(xp.take(flags[kind], xp.reshape(rows, (-1,)), axis=0), rows.shape)
        start = xp.take(xp.reshape(since[:, kind, :], (d * n_blocks,)), idx, axis=0)
        below = xp.cumulative_sum(inside, axis=1, dtype=blocks.sums.dtype) + start[:, None]
        above = xp.take(total[:, kind], idx // n_blocks, axis=0)[:, None] - below
        sides.append(xp.astype(xp.concat((below, above), axis=1), dtype))
    n, p = sides
    covered = p + n
    # a cut among rows that left may leave nothing on one side
    slack = slack_of(xp, p, before[1])
    is_cut = xp.take(layout.is_cut, idx, axis=0)
    is_cut = is_cut & (covered[:, : layout.width] > slack) & (covered[:, layout.width :] > slack)
    scores = mask_gain(xp, gain, p, covered, before, least)
    scores = xp.where(xp.concat((is_cut, is_cut), axis=1), scores, -math.inf)
    best = first_best(xp, scores, covered)
    return xp.stack((*pick_in_lines(xp, best, scores, p, covered), xp.astype(best, dtype)))


def _entries(candidates: Candidates, layout: Layout, idx: Any, found: Any, floor: float) -> list[Entry]:
    """Return the best cut of each sorted column: by coverage, then the lower side, then the first."""
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


def _state(
    place: Place, candidates: Candidates, pool: Pool, layout: Layout, entries: list[Entry]
) -> Choice | None:
    """Choose among entries; the host waits where the neighbours of a cut have to be looked up."""
    entry = best_entry(candidates, entries)
    if entry is None:
        return None
    at, numbers = entry
    column = at - (len(candidates.idx) - layout.block_of.shape[0])
    if column >= 0:
        numbers[LOW : HIGH + 1] = _neighbours(place, candidates, pool, layout, column, int(numbers[LOW]))
    return make_choice(candidates, entry, is_single=is_single_precision(place.xp, candidates.table))


def _neighbours(
    place: Place, candidates: Candidates, pool: Pool, layout: Layout, column: int, at: int
) -> list[float]:
    """Return the live numbers between which a cut lies."""
    xp = place.xp
    ranks, numbers = candidates.ranks[column, :], candidates.columns[candidates.sorted_idx[column], :]
    block, inside = divmod(at, layout.width)
    row = layout.lists[column * layout.n_blocks + block, inside : inside + 1]
    cut = xp.take(ranks, xp.astype(row, xp.int64), axis=0)
    # integers are compared in half the time of the numbers themselves; missing ones have rank -1
    is_below = ranks <= cut
    below = xp.argmax(xp.where(pool.is_live & is_below, ranks, -1))
    above = xp.argmin(xp.where(is_below | ~pool.is_live, candidates.n_rows, ranks))
    rows = xp.stack((below, above))
    return [float(one) for one in read_together(place, xp.take(numbers, rows, axis=0))[0].tolist()]
