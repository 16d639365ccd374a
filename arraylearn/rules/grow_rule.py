"""One rule: grown literal by literal on the rows it still covers, pruned on rows held back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from arraylearn._typing import Array
from arraylearn.backend.arrays.order import compress
from arraylearn.backend.arrays.segments import scatter
from arraylearn.backend.namespace import Place
from arraylearn.backend.random import RandomState, as_generator, permutation
from arraylearn.rules.counts import Counts, Target, weigh
from arraylearn.rules.find_literal import GainName, Scoring, best_literal
from arraylearn.rules.literals import LiveRows, focus, restrict, satisfies
from arraylearn.rules.rule import Conditions, Relation

__all__ = [
    "GrownRule",
    "RuleGrowth",
    "choose_length",
    "count_prefixes",
    "grow_rule",
    "hold_back",
    "shuffle_rows",
]

# ---- growing


class RuleGrowth(NamedTuple):
    """How rules grow."""

    gain: GainName
    must_gain: bool = True  # True: a literal needs a positive score; False: not less than the literal before
    least: float = 0.0  # a literal that leaves fewer positive rows is no candidate
    stop: float = 0.0  # the rule is finished where the best literal leaves fewer positive rows
    max_literals: int | None = None


# A conjunction without its values: columns and relations.
Shape = tuple[tuple[int, Relation], ...]


class GrownRule(NamedTuple):
    """A rule with what it covers after each of its literals."""

    conditions: Conditions
    counts: tuple[Counts, ...]  # after each literal that was added
    left: dict[Shape, LiveRows]  # the rows after each of them, where sums are kept of them


def grow_rule(
    live: LiveRows,
    growth: RuleGrowth,
    start: Conditions = (),
    counts: Counts | None = None,
    before: Mapping[Shape, LiveRows] | None = None,
) -> GrownRule:
    """Add the best literal until no negative row is left or no literal gains.

    Parameters
    ----------
    live : LiveRows
        The rows to grow on; with `start`, those that it covers.
    growth : RuleGrowth
        How to choose and when to stop.
    start : Conditions
        Conditions that the rule has already.
    counts : Counts, optional
        The weight of the live rows, where it is known.
    before : mapping, optional
        `GrownRule.left` of another rule: where both begin alike, only the rows that differ are weighed.

    Returns
    -------
    GrownRule
        All conditions, `start` included, and the counts after each new one. One sync per literal; with
        weights two.
    """
    conditions, grown = start, []
    left: dict[Shape, LiveRows] = {}
    if live.size == 0 or not live.candidates.idx:
        return GrownRule(start, (), left)
    place, unit = live.candidates.place, None if live.target.weights is None else live.target.unit
    covered = counts or weigh(place.xp, live.target, [live.is_live])[0][0]
    floor = 0.0
    while 0 < covered.positive < covered.covered and len(conditions) < (growth.max_literals or math.inf):
        scoring = Scoring(place, growth.gain, covered, live.size, growth.least, unit, floor)
        literal = best_literal(live, scoring)
        if literal is None or literal.score < floor or (growth.must_gain and literal.score <= 0):
            break
        keep = satisfies(live.candidates, literal.condition)
        covered = rows = literal.counts
        if unit is not None:
            covered, rows = weigh(place.xp, live.target, [keep & live.is_live])[0]
        if rows.positive < growth.stop:
            break
        conditions = (*conditions, literal.condition)
        grown.append(covered)
        shape = tuple((column, relation) for column, relation, _ in conditions)
        live = focus(live, keep, int(rows.covered), (before or {}).get(shape))
        if live.sums is not None:
            left[shape] = live
        floor = 0.0 if growth.must_gain else literal.score
    return GrownRule(conditions, tuple(grown), left)


# ---- pruning


def shuffle_rows(place: Place, target: Target, rng: RandomState) -> Array:
    """Draw an order of all rows (n,), then put the positive ones first."""
    xp, order = place.xp, permutation(place, as_generator(rng), target.is_positive.shape[0])
    is_negative = ~xp.take(target.is_positive, order, axis=0)
    return xp.take(order, xp.argsort(xp.astype(is_negative, xp.int8), stable=True), axis=0)


def hold_back(live: LiveRows, order: Array, at: int, folds: int) -> tuple[LiveRows, Array]:
    """Hold one of `folds` parts back for pruning, with its share of the positive rows; no sync.

    Parameters
    ----------
    live : LiveRows
        The rows.
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
    xp, rows = live.candidates.place.xp, order
    if live.size < order.shape[0]:
        rows = compress(xp, order, xp.take(live.is_live, order, axis=0), live.size)
    held = rows[at % folds :: folds]
    is_held = scatter(xp, xp.ones_like(held), held, order.shape[0]) > 0
    return restrict(live, ~is_held, live.size - held.shape[0]), is_held


def count_prefixes(live: LiveRows, conditions: Conditions, rows: Array) -> list[Counts]:
    """Weigh what each prefix of a conjunction, the empty one first, covers of a mask (n,); one sync."""
    masks = [rows]
    for condition in conditions:
        masks.append(masks[-1] & satisfies(live.candidates, condition))
    return [counts for counts, _ in weigh(live.candidates.place.xp, live.target, masks)]


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
