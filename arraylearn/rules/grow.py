"""Grow one rule, literal by literal, on the rows it still covers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import Place, to_host
from arraylearn.backend.ops.cells import count_rows
from arraylearn.rules.candidates import Candidates, Target, satisfies
from arraylearn.rules.foil import Gain
from arraylearn.rules.pool import Pool, restrict
from arraylearn.rules.rule import Condition
from arraylearn.rules.search import best_literal

__all__ = ["Grown", "Growth", "Weight", "grow_rule", "weigh"]


class Weight(NamedTuple):
    """What some rows weigh."""

    positive: float
    covered: float
    n_rows: int


class Growth(NamedTuple):
    """How rules grow."""

    gain: Gain
    must_gain: bool = True  # a literal needs a positive score; otherwise one that is not below the last
    least: float = 0.0  # a literal that leaves less weight of positive rows is no candidate
    stop: float = 0.0  # where the best literal would leave less, the rule is finished
    max_literals: int | None = None


class Grown(NamedTuple):
    """A rule with what it covers after each of its literals."""

    conditions: tuple[Condition, ...]
    counts: tuple[tuple[float, float], ...]  # weight of positive rows and of all rows, after each literal


def weigh(xp: Namespace, target: Target, masks: Sequence[Array]) -> list[Weight]:
    """Weigh the rows of some masks (n,); the host waits once.

    Returns
    -------
    list of Weight
        Weight of the positive rows and of all rows, and number of rows, of each mask.
    """
    if target.weights is None:
        counts = to_host(count_rows(xp, masks, target.is_positive)).tolist()
        return [Weight(float(positive), float(n), n) for positive, n in counts]
    sums = []
    for mask in masks:
        weights = xp.where(mask, target.weights, 0.0)
        sums += [
            xp.sum(xp.where(target.is_positive, weights, 0.0)),
            xp.sum(weights),
            xp.astype(xp.count_nonzero(mask), weights.dtype),
        ]
    found = to_host(xp.stack(sums)).tolist()
    return [Weight(found[i], found[i + 1], int(found[i + 2])) for i in range(0, len(found), 3)]


def grow_rule(
    xp: Namespace,
    candidates: Candidates,
    pool: Pool,
    target: Target,
    growth: Growth,
    start: tuple[Condition, ...] = (),
    weight: Weight | None = None,
) -> Grown:
    """Add the best literal until no negative row is left or none gains.

    Parameters
    ----------
    candidates, target : Candidates, Target
        The table and the class.
    pool : Pool
        The rows to grow on; with `start`, those that it covers.
    growth : Growth
        How to choose and when to stop.
    start : tuple of Condition
        Conditions that the rule has already.
    weight : Weight, optional
        What the rows of the pool weigh, where that is known.

    Returns
    -------
    Grown
        All conditions, `start` included, and the counts after each new one. The host waits once per literal,
        with weights twice.
    """
    conditions, counts = list(start), []
    if pool.size == 0 or not candidates.idx:
        return Grown(start, ())
    before = (weight or weigh(xp, target, [pool.is_live])[0])[:2]
    last = -math.inf
    place = Place(xp, array_api_compat.device(pool.is_live))
    while 0 < before[0] < before[1] and len(conditions) < (growth.max_literals or math.inf):
        choice = best_literal(place, candidates, pool, target, growth.gain, before, growth.least)
        if choice is None or (choice.score <= 0 if growth.must_gain else choice.score < last):
            break
        if choice.counts[0] < growth.stop - 1e-6:
            break
        conditions.append(choice.condition)
        counts.append(choice.counts)
        keep = satisfies(xp, candidates, choice.condition)
        size = int(choice.counts[1])
        if target.weights is not None:
            size = int(to_host(xp.count_nonzero(keep & pool.is_live)))
        pool = restrict(xp, candidates, pool, keep, size)
        before, last = choice.counts, choice.score
    return Grown(tuple(conditions), tuple(counts))
