"""The best literal of the live rows: of all cuts, or only of the blocks of rows that can hold it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.gather import top_k
from arraylearn.backend.dispatch import get_tuning
from arraylearn.backend.namespace import Place, accumulator_dtype, read_together
from arraylearn.rules.literals.candidates import Candidates, choose_threshold, is_single_precision
from arraylearn.rules.literals.gains import Scoring, rounding_error
from arraylearn.rules.literals.live_rows import LiveRows
from arraylearn.rules.literals.row_blocks import BlockLayout, BlockSums
from arraylearn.rules.literals.score_literals import (
    BELOW,
    CODE,
    COVERED,
    HIGH,
    LOW,
    POSITIVE,
    SCORE,
    SIDE,
    score_literals,
    score_table,
)
from arraylearn.rules.literals.target import Counts, Target
from arraylearn.rules.literals.thresholds import first_best, pick_in_lines
from arraylearn.rules.rule import Condition, Relation

__all__ = ["ScoredLiteral", "best_literal"]

# Position of a column in ``candidates.idx``, and the summary (see `score_literals`) of its best literal.
Entry = tuple[int, list[float]]


class ScoredLiteral(NamedTuple):
    """A literal, its score, and what the rule covers with it."""

    condition: Condition
    score: float
    counts: Counts


def best_literal(
    place: Place, candidates: Candidates, live: LiveRows, target: Target, scoring: Scoring
) -> ScoredLiteral | None:
    """Find the best literal; None where there is none.

    The result is the same with and without blocks. One sync; with blocks, one more for the neighbours of a
    threshold, and one more where many blocks may hold the best cut.
    """
    if live.blocks is None:
        parts = read_together(place, *score_literals(place.xp, candidates, live, target, scoring))
        entry = _best_entry(candidates, _near_best(candidates, parts))
        return None if entry is None else _state(place, candidates, entry)
    tables = [
        score_table(place.xp, group, *table, scoring)
        for group, table in zip(candidates.counted, live.blocks.tables, strict=True)
    ]
    if live.blocks.layout.lists.shape[0] == 0:
        entries = _near_best(candidates, read_together(place, *tables))
    else:
        entries = _search_blocks(place, candidates, live, live.blocks, tables, scoring)
    return _state_with_neighbours(place, candidates, live, live.blocks.layout, entries)


# ---- choosing among the best literals of the columns, on the host


def _near_best(candidates: Candidates, parts: Sequence[Any]) -> list[Entry]:
    """Return the columns whose literals score best, near equals included."""
    tops = [max(part[SCORE].tolist()) for part in parts]
    top = max(tops, default=-math.inf)
    if top == -math.inf:
        return []
    least = top - candidates.tolerance * abs(top)
    found: list[Entry] = []
    offset = 0
    for part, best in zip(parts, tops, strict=True):
        if best >= least:
            found += [(offset + j, part[:, j].tolist()) for j in (part[SCORE] >= least).nonzero()[0].tolist()]
        offset += part.shape[1]
    return found


def _best_entry(candidates: Candidates, entries: Sequence[Entry]) -> Entry | None:
    """Choose by score, then coverage, then fewer values, then the first column."""
    if not entries:
        return None
    top = max(numbers[SCORE] for _, numbers in entries)
    least = top - candidates.tolerance * abs(top)
    tied = [entry for entry in entries if entry[1][SCORE] >= least]
    return min(
        tied, key=lambda entry: (-entry[1][COVERED], candidates.n_values[entry[0]], candidates.idx[entry[0]])
    )


def _state(place: Place, candidates: Candidates, entry: Entry) -> ScoredLiteral:
    """State the literal of an entry, with a threshold of few digits between its neighbours."""
    at, numbers = entry
    column, counts = candidates.idx[at], Counts(numbers[POSITIVE], numbers[COVERED])
    if len(numbers) <= SIDE:
        return ScoredLiteral(Condition(column, "=", int(numbers[CODE])), numbers[SCORE], counts)
    is_single = is_single_precision(place.xp, candidates.table)
    value = choose_threshold(numbers[LOW], numbers[HIGH], is_single=is_single)
    relation: Relation = "<=" if numbers[SIDE] == BELOW else ">"
    return ScoredLiteral(Condition(column, relation, value), numbers[SCORE], counts)


# ---- the search by blocks


def _search_blocks(
    place: Place,
    candidates: Candidates,
    live: LiveRows,
    blocks: BlockSums,
    tables: list[Array],
    scoring: Scoring,
) -> list[Entry]:
    """Search the blocks with the largest bounds, and more of them until no other can hold the best cut."""
    xp, n_blocks = place.xp, int(blocks.layout.lists.shape[0])
    bounds = _bounds(xp, blocks.sums, scoring)
    flags = _flags(xp, live, blocks.target)
    # differences of sums of float weights are less exact than the sums
    tolerance = candidates.tolerance if blocks.target.weights is None else 1e-9
    n_searched = min(get_tuning().rule_first_blocks, n_blocks)
    while True:
        # one more than is searched: its bound is the largest of the blocks left out
        bound, idx = top_k(xp, bounds, min(n_searched + 1, n_blocks))
        found = _search(xp, blocks, flags, idx[:n_searched], scoring)
        *parts, bound, idx, found = read_together(place, *tables, bound, idx, found)
        top = max(float(part[SCORE].max()) for part in (*parts, found))
        floor = top - tolerance * abs(top) if top > -math.inf else -math.inf
        if n_searched == n_blocks or not floor <= float(bound[-1]) > -math.inf:
            break
        n_searched = min(n_blocks, 4 * n_searched)
    return _near_best(candidates, parts) + _entries(candidates, blocks.layout, idx, found, floor)


def _flags(xp: Namespace, live: LiveRows, target: Target) -> tuple[Array, Array]:
    """Return the weights (n + 1,) of the negative and of the positive live rows; 0 for the padding, row n."""
    parts = []
    for mask in (live.is_live & ~target.is_positive, live.is_live & target.is_positive):
        weights = target.weights
        flags = xp.astype(mask, xp.int32) if weights is None else xp.where(mask, weights, 0.0)
        parts.append(xp.concat((flags, xp.zeros_like(flags[:1]))))
    return parts[0], parts[1]


def _bounds(xp: Namespace, sums: Array, scoring: Scoring) -> Array:
    """Bound the scores of the cuts in each block: (d * n_blocks,)."""
    dtype = accumulator_dtype(Place(xp, array_api_compat.device(sums)))
    sums = xp.astype(sums, dtype)
    until = xp.cumulative_sum(sums, axis=2)
    since, total = until - sums, until[:, :, -1:]
    # all positive rows of the block on the side, none of its negative ones: below the cut, then above it
    p = xp.stack((until[:, 1, :], total[:, 1, :] - since[:, 1, :]))
    n = xp.stack((since[:, 0, :], total[:, 0, :] - until[:, 0, :]))
    score = scoring.gain(xp, p, p + xp.maximum(n, xp.zeros_like(n)), *scoring.before)
    slack = rounding_error(xp, p, scoring.before.covered)
    # unlike a literal, a bound may count all rows on one side: a cut inside the block has fewer
    score = xp.where(p > max(slack, scoring.least - 2 * slack), score, -math.inf)
    return xp.reshape(xp.max(score, axis=0), (-1,))


def _search(
    xp: Namespace, blocks: BlockSums, flags: tuple[Array, Array], idx: Array, scoring: Scoring
) -> Array:
    """Find the best cut of each block of `idx` (k,) as (4, k): score, p, covered, position.

    Positions up to the width of a block mean the side below the cut, those from there on the side above.
    """
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
    # among rows that are no longer live, a cut may leave nothing on one side
    slack = rounding_error(xp, p, scoring.before.covered)
    is_cut = xp.take(layout.is_cut, idx, axis=0)
    is_cut = is_cut & (covered[:, : layout.width] > slack) & (covered[:, layout.width :] > slack)
    scores = scoring.score(xp, p, covered)
    scores = xp.where(xp.concat((is_cut, is_cut), axis=1), scores, -math.inf)
    best = first_best(xp, scores, covered)
    return xp.stack((*pick_in_lines(xp, best, scores, p, covered), xp.astype(best, dtype)))


def _entries(candidates: Candidates, layout: BlockLayout, idx: Any, found: Any, floor: float) -> list[Entry]:
    """Return the best cut of each sorted column: by coverage, then the lower side, then the first.

    LOW holds the position of the cut; `_state_with_neighbours` replaces it by the neighbours.
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


def _state_with_neighbours(
    place: Place, candidates: Candidates, live: LiveRows, layout: BlockLayout, entries: list[Entry]
) -> ScoredLiteral | None:
    """Choose among entries; one sync where the neighbours of a cut have to be looked up."""
    entry = _best_entry(candidates, entries)
    if entry is None:
        return None
    at, numbers = entry
    column = at - (len(candidates.idx) - layout.block_of.shape[0])
    if column >= 0:
        numbers[LOW : HIGH + 1] = _neighbours(place, candidates, live, layout, column, int(numbers[LOW]))
    return _state(place, candidates, entry)


def _neighbours(
    place: Place, candidates: Candidates, live: LiveRows, layout: BlockLayout, column: int, at: int
) -> list[float]:
    """Return the live numbers between which a cut lies."""
    xp = place.xp
    ranks, numbers = candidates.ranks[column, :], candidates.columns[candidates.sorted_idx[column], :]
    block, inside = divmod(at, layout.width)
    row = layout.lists[column * layout.n_blocks + block, inside : inside + 1]
    cut = xp.take(ranks, xp.astype(row, xp.int64), axis=0)
    # integers are compared in half the time of the numbers themselves; missing ones have rank -1
    is_below = ranks <= cut
    below = xp.argmax(xp.where(live.is_live & is_below, ranks, -1))
    above = xp.argmin(xp.where(is_below | ~live.is_live, candidates.n_rows, ranks))
    rows = xp.stack((below, above))
    return [float(one) for one in read_together(place, xp.take(numbers, rows, axis=0))[0].tolist()]
