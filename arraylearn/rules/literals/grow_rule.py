"""Grow one rule, literal by literal, on the rows it still covers."""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Namespace
from arraylearn.backend.namespace import Place, to_host
from arraylearn.rules.literals.best_literal import best_literal
from arraylearn.rules.literals.candidates import Candidates, satisfies
from arraylearn.rules.literals.gains import Gain, Scoring
from arraylearn.rules.literals.live_rows import LiveRows, restrict
from arraylearn.rules.literals.target import Counts, Target, weigh
from arraylearn.rules.rule import Conditions

__all__ = ["GrownRule", "RuleGrowth", "grow_rule"]


class RuleGrowth(NamedTuple):
    """How rules grow."""

    gain: Gain
    must_gain: bool = True  # True: a literal needs a positive score; False: not less than the literal before
    least: float = 0.0  # a literal that leaves less weight of positive rows is no candidate
    stop: float = 0.0  # the rule is finished where the best literal leaves less weight of positive rows
    max_literals: int | None = None


class GrownRule(NamedTuple):
    """A rule with what it covers after each of its literals."""

    conditions: Conditions
    counts: tuple[Counts, ...]  # after each literal that was added


def grow_rule(
    xp: Namespace,
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
    growth : Growth
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
    conditions, grown = list(start), []
    if live.size == 0 or not candidates.idx:
        return GrownRule(start, ())
    before = counts or weigh(xp, target, [live.is_live])[0].counts
    last = -math.inf
    place = Place(xp, array_api_compat.device(live.is_live))
    while 0 < before.positive < before.covered and len(conditions) < (growth.max_literals or math.inf):
        scoring = Scoring(growth.gain, before, growth.least)
        literal = best_literal(place, candidates, live, target, scoring)
        if literal is None or (literal.score <= 0 if growth.must_gain else literal.score < last):
            break
        if literal.counts.positive < growth.stop - 1e-6:
            break
        conditions.append(literal.condition)
        grown.append(literal.counts)
        keep = satisfies(xp, candidates, literal.condition)
        size = int(literal.counts.covered)
        if target.weights is not None:
            size = int(to_host(xp.count_nonzero(keep & live.is_live)))
        live = restrict(xp, candidates, live, keep, size)
        before, last = literal.counts, literal.score
    return GrownRule(tuple(conditions), tuple(grown))
