"""One rule: grown literal by literal on the rows it still covers, pruned on rows held back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from arraylearn._typing import Array
from arraylearn.backend.arrays.order import argsort_rows, compress
from arraylearn.backend.arrays.segments import scatter, split_lists
from arraylearn.backend.namespace import Place
from arraylearn.backend.random import RandomState, as_generator, permutation
from arraylearn.rules.find_literal import Gain, Scoring, best_literal
from arraylearn.rules.literals import Candidates, Counts, Target, choose_body, satisfies, weigh
from arraylearn.rules.row_blocks import (
    BlockLayout,
    BlockSums,
    best_literal_in_blocks,
    lay_out,
    narrow_blocks,
    weigh_blocks,
)
from arraylearn.rules.rule import Conditions

__all__ = [
    "GrownRule",
    "LiveRows",
    "RuleGrowth",
    "all_rows",
    "all_rows_in_blocks",
    "choose_length",
    "count_prefixes",
    "grow_rule",
    "hold_back",
    "lay_out_again",
    "restrict",
    "shuffle_rows",
]

# Where less than one row in so many is left, sorting the rest anew is faster than filtering sorted columns.
_SORT_ANEW = 16


# ---- the rows that a rule may still cover


class LiveRows(NamedTuple):
    """The rows that a rule may still cover, as the search for literals needs them."""

    is_live: Array  # (n,) bool
    lists: Array  # (d_sorted, m): the live rows (with blocks: and others) in the order of each column
    size: int  # number of live rows
    blocks: BlockSums | None = None  # None: all cuts of the lists are scored


def all_rows(candidates: Candidates) -> LiveRows:
    """Return all rows as live."""
    (xp, device), n = candidates.place, candidates.n_rows
    return LiveRows(xp.ones((n,), dtype=xp.bool, device=device), candidates.lists, n)


def all_rows_in_blocks(candidates: Candidates, layout: BlockLayout, target: Target) -> LiveRows:
    """Return all rows as live, to be searched by blocks."""
    live = all_rows(candidates)
    return live._replace(blocks=weigh_blocks(candidates, layout, target, live.is_live, live.size))


def lay_out_again(candidates: Candidates, live: LiveRows) -> LiveRows:
    """Make new blocks once more than half of the rows in them are gone."""
    if live.blocks is None or not live.lists.shape[0] or 2 * live.size > live.lists.shape[1]:
        return live
    lists = _keep_in_lists(candidates.place, live.lists, live.is_live, live.size)
    layout = lay_out(candidates, lists)
    blocks = weigh_blocks(candidates, layout, live.blocks.target, live.is_live, live.size)
    return LiveRows(live.is_live, lists, live.size, blocks)


def restrict(candidates: Candidates, live: LiveRows, keep: Array, size: int) -> LiveRows:
    """Keep the live rows for which the mask `keep` (n,) holds; `size` of them do."""
    if size == live.size:
        return live
    is_live = live.is_live & keep
    d, m = live.lists.shape
    if d and size * _SORT_ANEW < m:
        return LiveRows(is_live, _sort_anew(candidates, is_live, size), size)
    if live.blocks is not None:
        changed = (live.is_live, live.size), (is_live, size)
        return LiveRows(is_live, live.lists, size, narrow_blocks(candidates, live.blocks, *changed))
    lists = _keep_in_lists(candidates.place, live.lists, is_live, size) if d else live.lists[:, :size]
    return LiveRows(is_live, lists, size)


def _keep_in_lists(place: Place, lists: Array, is_live: Array, size: int) -> Array:
    """Drop the rows that are not live from lists (d, m); `size` stay, in their order."""
    xp, (d, m) = place.xp, lists.shape
    body = choose_body(xp)
    if not isinstance(body, str) and d * m <= body.SMALL:
        return body.keep_in_lists(lists, is_live)
    return split_lists(xp, lists, xp.astype(is_live, xp.int32) - 1, (size,))


def _sort_anew(candidates: Candidates, is_live: Array, size: int) -> Array:
    """Sort the live rows by each of the columns that are kept sorted."""
    (xp, device), n = candidates.place, candidates.n_rows
    rows = compress(xp, xp.arange(n, dtype=xp.int64, device=device), is_live, size)
    rank = xp.take(candidates.ranks, rows, axis=1)
    # missing values come last
    order = argsort_rows(xp, xp.where(rank < 0, n, rank))
    rows = xp.astype(rows, xp.int32)
    return xp.reshape(xp.take(rows, xp.reshape(order, (-1,)), axis=0), rank.shape)


# ---- growing


class RuleGrowth(NamedTuple):
    """How rules grow."""

    gain: Gain
    must_gain: bool = True  # True: a literal needs a positive score; False: not less than the literal before
    least: float = 0.0  # a literal that leaves fewer positive rows is no candidate
    stop: float = 0.0  # the rule is finished where the best literal leaves fewer positive rows
    max_literals: int | None = None


class GrownRule(NamedTuple):
    """A rule with what it covers after each of its literals."""

    conditions: Conditions
    counts: tuple[Counts, ...]  # after each literal that was added


def grow_rule(
    candidates: Candidates,
    live: LiveRows,
    target: Target,
    growth: RuleGrowth,
    start: Conditions = (),
    counts: Counts | None = None,
) -> GrownRule:
    """Add the best literal until no negative row is left or no literal gains.

    Parameters
    ----------
    candidates, target : Candidates, Target
        The table and the class.
    live : LiveRows
        The rows to grow on; with `start`, those that it covers.
    growth : RuleGrowth
        How to choose and when to stop.
    start : Conditions
        Conditions that the rule has already.
    counts : Counts, optional
        The weight of the live rows, where it is known.

    Returns
    -------
    GrownRule
        All conditions, `start` included, and the counts after each new one. One sync per literal; with
        weights two.
    """
    xp = candidates.place.xp
    conditions, grown = list(start), []
    if live.size == 0 or not candidates.idx:
        return GrownRule(start, ())
    before = counts or weigh(xp, target, [live.is_live])[0][0]
    last, unit = -math.inf, None if target.weights is None else target.unit
    while 0 < before.positive < before.covered and len(conditions) < (growth.max_literals or math.inf):
        scoring = Scoring(growth.gain, before, live.size, growth.least, unit)
        if live.blocks is None:
            literal = best_literal(candidates, live.is_live, live.lists, target, scoring)
        else:
            literal = best_literal_in_blocks(candidates, live.is_live, live.blocks, scoring)
        if literal is None or (literal.score <= 0 if growth.must_gain else literal.score < last):
            break
        keep = satisfies(candidates, literal.condition)
        before = rows = literal.counts
        if unit is not None:
            before, rows = weigh(xp, target, [keep & live.is_live])[0]
        if rows.positive < growth.stop:
            break
        conditions.append(literal.condition)
        grown.append(before)
        live, last = restrict(candidates, live, keep, int(rows.covered)), literal.score
    return GrownRule(tuple(conditions), tuple(grown))


# ---- pruning


def shuffle_rows(place: Place, target: Target, rng: RandomState) -> Array:
    """Draw an order of all rows (n,), then put the positive ones first."""
    xp, order = place.xp, permutation(place, as_generator(rng), target.is_positive.shape[0])
    is_negative = ~xp.take(target.is_positive, order, axis=0)
    return xp.take(order, xp.argsort(xp.astype(is_negative, xp.int8), stable=True), axis=0)


def hold_back(
    candidates: Candidates, live: LiveRows, order: Array, at: int, folds: int
) -> tuple[LiveRows, Array]:
    """Hold one of `folds` parts back for pruning, with its share of the positive rows; no sync.

    Parameters
    ----------
    candidates, live : Candidates, LiveRows
        The table and the rows.
    order : int64 array (n,)
        From `shuffle_rows`.
    at : int
        Which of the parts is held back, modulo `folds`.
    folds : int
        Number of parts.

    Returns
    -------
    growing : LiveRows
        The rows to grow on.
    is_held : bool array (n,)
        The rows held back.
    """
    xp, rows = candidates.place.xp, order
    if live.size < order.shape[0]:
        rows = compress(xp, order, xp.take(live.is_live, order, axis=0), live.size)
    held = rows[at % folds :: folds]
    is_held = scatter(xp, xp.ones_like(held), held, order.shape[0]) > 0
    return restrict(candidates, live, ~is_held, live.size - held.shape[0]), is_held


def count_prefixes(
    candidates: Candidates, conditions: Conditions, target: Target, rows: Array
) -> list[Counts]:
    """Weigh what each prefix of a conjunction, the empty one first, covers of a mask (n,); one sync."""
    masks = [rows]
    for condition in conditions:
        masks.append(masks[-1] & satisfies(candidates, condition))
    return [counts for counts, _ in weigh(candidates.place.xp, target, masks)]


def choose_length(counts: Sequence[Counts], *, smoothing: float, on_all_rows: bool) -> int:
    r"""Choose how many literals to keep.

    Parameters
    ----------
    counts : sequence of Counts
        What each prefix covers of the rows held back, from the empty one on.
    smoothing : float
        The :math:`s` below.
    on_all_rows : bool
        Whether to judge by the accuracy on all the rows, those that the rule does not cover counting as
        negative, instead of :math:`(p - n) / (p + n + 2 s)` on the covered ones.

    Returns
    -------
    int
        Length of the best prefix; of equal ones the shortest.
    """
    positive, total = counts[0]
    if total <= 0:
        return len(counts) - 1

    def worth(p: float, covered: float) -> float:
        if on_all_rows:
            return (p + (total - positive) - (covered - p)) / total
        return (2 * p - covered) / (covered + 2 * smoothing) if covered + smoothing > 0 else -1.0

    # the empty rule is judged by its share of positive rows in both cases, as in Weka's JRip
    start = (positive + smoothing) / (total + 2 * smoothing)
    best, best_worth = 0, start if on_all_rows else 2 * start - 1
    for length in range(1, len(counts)):
        value = worth(*counts[length])
        if value > best_worth + 1e-12:
            best, best_worth = length, value
    return best
