"""Revise a rule set: each rule against a fresh one and an extended one, by description length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import Place, to_host
from arraylearn.backend.random import RandomState
from arraylearn.rules.literals.candidates import Candidates, satisfies_all
from arraylearn.rules.literals.grow_rule import RuleGrowth, grow_rule
from arraylearn.rules.literals.live_rows import LiveRows, restrict
from arraylearn.rules.literals.target import Counts, Target, Weight, weigh
from arraylearn.rules.ripper.description_length import (
    Setting,
    find_needless,
    least_data_bits,
    relative_bits,
)
from arraylearn.rules.ripper.prune_rule import hold_back, prune_rule, shuffle_rows
from arraylearn.rules.rule import Conditions

__all__ = ["OneAgainstRest", "clean_up", "learn_further", "optimize_rules", "weigh_live"]

# A rule set that needs this many bits more than the best so far is abandoned.
_SURPLUS = 64.0


class OneAgainstRest(NamedTuple):
    """One class against the others, and how its rules are learned."""

    place: Place
    candidates: Candidates
    target: Target  # the rows of the class
    setting: Setting  # the same in numbers, for description lengths
    growth: RuleGrowth
    folds: int  # as in `RipperSettings`
    smoothing: float  # as in `RipperSettings`
    rng: RandomState


# ---- parts


def weigh_live(xp: Namespace, target: Target, mask: Array, live: LiveRows) -> Weight:
    """Weigh the live rows of a mask (n,); one sync."""
    return weigh(xp, target, [mask & live.is_live])[0]


def _must_stop(counts: Counts, bits: float, least: float) -> bool:
    """Whether the last rule is one too many: too many bits, no positive row, or half of its rows negative."""
    if bits > least + _SURPLUS or counts.positive <= 0:
        return True
    return (counts.covered - counts.positive) / counts.covered >= 0.5


def _grow_and_prune(problem: OneAgainstRest, order: Array, live: LiveRows, at: int) -> Conditions:
    """Learn one rule from the live rows."""
    xp = problem.place.xp
    parts = hold_back(xp, problem.candidates, live, order, at, problem.folds)
    grown = grow_rule(xp, problem.candidates, parts.growing, problem.target, problem.growth).conditions
    return prune_rule(
        xp,
        problem.candidates,
        grown,
        problem.target,
        parts.is_held,
        smoothing=problem.smoothing,
        on_all_rows=False,
    )


# ---- one round


def optimize_rules(problem: OneAgainstRest, live: LiveRows, rules: list[Conditions]) -> list[Conditions]:
    """Revise each rule once, learn rules for the rows not covered, and delete those that do not save bits."""
    xp, all_live = problem.place.xp, live
    masks = [satisfies_all(xp, problem.candidates, one) for one in rules]
    later = _later_rules(xp, masks, problem.candidates.n_rows, problem.place)
    order = shuffle_rows(problem.place, problem.target, problem.rng)
    chosen: list[Conditions] = []
    counts: list[Counts] = []
    for at, old in enumerate(rules):
        found = weigh_live(xp, problem.target, masks[at], live)
        best, mask = old, masks[at]
        if found.n_rows:
            best = _best_variant(problem, order, live, rules, counts, at, masks[at], later[at])
            if best is not old:
                mask = satisfies_all(xp, problem.candidates, best)
                found = weigh_live(xp, problem.target, mask, live)
        chosen.append(best)
        counts.append(found.counts)
        live = restrict(xp, problem.candidates, live, ~mask, live.size - found.n_rows)
        if not _is_left_over(problem.setting, counts):
            chosen += rules[at + 1 :]  # no positive row is left for them: `clean_up` decides
            break
    chosen += learn_further(problem, live, chosen, counts)
    return clean_up(problem, all_live, chosen)


def _later_rules(xp: Namespace, masks: list[Array], n_rows: int, place: Place) -> list[Array]:
    """For each rule, the first rule after it that covers each row (n,); ``len(masks)`` where none does."""
    found = xp.full((n_rows,), len(masks), dtype=xp.int64, device=place.device)
    later = []
    for at in reversed(range(len(masks))):
        later.append(found)
        found = xp.where(masks[at], at, found)
    return later[::-1]


def _best_variant(
    problem: OneAgainstRest,
    order: Array,
    live: LiveRows,
    rules: list[Conditions],
    counts: list[Counts],
    at: int,
    old_mask: Array,
    later: Array,
) -> Conditions:
    """Choose between a rule, a revision grown from it and a replacement grown from the empty rule."""
    xp, old = problem.place.xp, rules[at]
    is_free = later == len(rules)  # the rows that no later rule covers
    variants = [one for one in _make_variants(problem, order, live, at, old, old_mask, is_free) if one != old]
    if not variants:
        return old
    masks = [old_mask, *(satisfies_all(xp, problem.candidates, one) for one in variants)]
    tables = _count_variants(xp, problem.target, live, masks, later, at, len(rules))
    sizes = [len(one) for one in rules]
    others = [*sizes[:at], *sizes[at + 1 :]]
    without = least_data_bits(problem.setting, [*counts, *tables[0][1:]], others, at)
    best, least = old, math.inf
    for variant, table in zip((old, *variants), tables[1:], strict=True):
        sizes[at] = len(variant)
        bits = relative_bits(problem.setting, at, [*counts, *table], sizes, without)
        if bits < least:
            best, least = variant, bits
    return best


def _make_variants(
    problem: OneAgainstRest,
    order: Array,
    live: LiveRows,
    at: int,
    old: Conditions,
    old_mask: Array,
    is_free: Array,
) -> list[Conditions]:
    """Grow the revision and the replacement of a rule, pruned by the accuracy on the free rows held back."""
    xp = problem.place.xp
    parts = hold_back(xp, problem.candidates, live, order, at, problem.folds)
    masks = [parts.growing.is_live & old_mask, parts.growing.is_live]
    inside_weight, all_weight = weigh(xp, problem.target, masks)
    inside = restrict(xp, problem.candidates, parts.growing, old_mask, inside_weight.n_rows)
    grown = (
        grow_rule(
            xp, problem.candidates, inside, problem.target, problem.growth, old, inside_weight.counts
        ).conditions,
        grow_rule(
            xp, problem.candidates, parts.growing, problem.target, problem.growth, (), all_weight.counts
        ).conditions,
    )
    rows = parts.is_held & is_free
    return [
        prune_rule(
            xp, problem.candidates, one, problem.target, rows, smoothing=problem.smoothing, on_all_rows=True
        )
        for one in grown
    ]


def _count_variants(
    xp: Namespace, target: Target, live: LiveRows, masks: Sequence[Array], later: Array, at: int, n: int
) -> list[list[Counts]]:
    """Count the live rows that rules from `at` on cover: without rule `at`, then with each mask for it."""
    is_positive = xp.astype(target.is_positive, xp.int64)
    after = xp.where(live.is_live, 2 * later + is_positive, 2 * n)
    here = 2 * at + is_positive
    keys = xp.stack([after, *(xp.where(mask & live.is_live, here, after) for mask in masks)])
    table = xp.reshape(histogram(xp, keys, 2 * (n + 1), target.weights), (1 + len(masks), n + 1, 2))
    return [
        [Counts(float(positive), float(negative + positive)) for negative, positive in by_rule[at:n]]
        for by_rule in to_host(table).tolist()
    ]


def learn_further(
    problem: OneAgainstRest, live: LiveRows, rules: Sequence[Conditions] = (), counts: Sequence[Counts] = ()
) -> list[Conditions]:
    """Learn rules for the positive live rows until the description length grows too much.

    Parameters
    ----------
    problem : OneAgainstRest
        The problem.
    live : LiveRows
        The rows that no rule covers.
    rules, counts : sequence of Conditions, sequence of Counts
        The rules before, and what they cover.

    Returns
    -------
    list of Conditions
        The new rules.
    """
    xp = problem.place.xp
    order = shuffle_rows(problem.place, problem.target, problem.rng)
    found: list[Conditions] = []
    counts = list(counts)
    bits = least = 0.0  # relative to the rules before
    while live.size and _is_left_over(problem.setting, counts):
        rule = _grow_and_prune(problem, order, live, len(counts))
        mask = satisfies_all(xp, problem.candidates, rule)
        taken = weigh_live(xp, problem.target, mask, live)
        sizes = [len(one) for one in (*rules, *found, rule)]
        before = least_data_bits(problem.setting, counts, sizes[:-1], len(counts))
        bits += relative_bits(problem.setting, len(counts), [*counts, taken.counts], sizes, before)
        least = min(least, bits)
        if _must_stop(taken.counts, bits, least):
            break
        found.append(rule)
        counts.append(taken.counts)
        live = restrict(xp, problem.candidates, live, ~mask, live.size - taken.n_rows)
    return found


def _is_left_over(setting: Setting, counts: Sequence[Counts]) -> bool:
    """Whether positive rows are left that no rule covers."""
    return sum(one.positive for one in counts) < setting.positive - 1e-6


def clean_up(problem: OneAgainstRest, live: LiveRows, rules: list[Conditions]) -> list[Conditions]:
    """Delete the rules that need more bits than they save; one sync."""
    xp = problem.place.xp
    if not rules:
        return rules
    masks = [satisfies_all(xp, problem.candidates, one) for one in rules]
    later = _later_rules(xp, masks, problem.candidates.n_rows, problem.place)[0]
    counts = _count_variants(xp, problem.target, live, masks[:1], later, 0, len(rules))[1]
    needless = find_needless(problem.setting, counts, [len(one) for one in rules])
    return [rule for at, rule in enumerate(rules) if at not in needless]
