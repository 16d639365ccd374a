"""Revise a rule set: each rule against a fresh one and an extended one, by description length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import Place, to_host
from arraylearn.backend.random import RandomState
from arraylearn.rules.candidates import Candidates, Target, satisfies
from arraylearn.rules.description_length import Counts, Setting, find_needless, least_data_bits, relative_bits
from arraylearn.rules.grow import Growth, grow_rule, weigh
from arraylearn.rules.pool import Pool, restrict
from arraylearn.rules.prune import prune_rule, shuffle_rows, split_pool
from arraylearn.rules.rule import Condition

__all__ = ["Job", "clean_up", "cover", "learn_further", "mask_of", "optimize_rules"]

Conditions = tuple[Condition, ...]
# A rule set that needs this many bits more than the best so far is given up.
_SURPLUS = 64.0


class Job(NamedTuple):
    """One class against the others."""

    place: Place
    candidates: Candidates
    target: Target
    setting: Setting
    growth: Growth
    folds: int
    smoothing: float
    rng: RandomState


class Covered(NamedTuple):
    """What a rule takes from a pool."""

    counts: Counts
    n_rows: int


# ---- parts


def mask_of(xp: Namespace, candidates: Candidates, conditions: Conditions) -> Array:
    """Return the mask (n,) of the rows that meet all conditions."""
    if not conditions:
        device = array_api_compat.device(candidates.columns)
        return xp.ones((candidates.n_rows,), dtype=xp.bool, device=device)
    mask = satisfies(xp, candidates, conditions[0])
    for condition in conditions[1:]:
        mask = mask & satisfies(xp, candidates, condition)
    return mask


def cover(xp: Namespace, target: Target, mask: Array, pool: Pool) -> Covered:
    """Weigh what a mask (n,) covers of a pool; the host waits."""
    positive, covered, n_rows = weigh(xp, target, [mask & pool.is_live])[0]
    return Covered(Counts(positive, covered), n_rows)


def _must_stop(counts: Counts, bits: float, least: float) -> bool:
    """Whether the last rule is one too many: too many bits, no positive row, or wrong half of the time."""
    if bits > least + _SURPLUS or counts.positive <= 0:
        return True
    return (counts.covered - counts.positive) / counts.covered >= 0.5


def _grow_and_prune(job: Job, order: Array, pool: Pool, at: int) -> Conditions:
    """Learn one rule from a pool."""
    xp = job.place.xp
    halves = split_pool(xp, job.candidates, pool, order, at, job.folds)
    grown = grow_rule(xp, job.candidates, halves.grow, job.target, job.growth).conditions
    return prune_rule(
        xp, job.candidates, grown, job.target, halves.is_held, smoothing=job.smoothing, is_whole=False
    )


# ---- one round


def optimize_rules(job: Job, pool: Pool, rules: list[Conditions]) -> list[Conditions]:
    """Go through the rules once, learn what is left over, and delete what does not pay."""
    xp, everything = job.place.xp, pool
    masks = [mask_of(xp, job.candidates, one) for one in rules]
    later = _later_rules(xp, masks, job.candidates.n_rows, job.place)
    order = shuffle_rows(job.place, job.target, job.rng)
    chosen: list[Conditions] = []
    counts: list[Counts] = []
    for at, old in enumerate(rules):
        found = cover(xp, job.target, masks[at], pool)
        best, mask = old, masks[at]
        if found.n_rows:
            best = _best_variant(job, order, pool, rules, counts, at, masks[at], later[at])
            if best is not old:
                mask = mask_of(xp, job.candidates, best)
                found = cover(xp, job.target, mask, pool)
        chosen.append(best)
        counts.append(found.counts)
        pool = restrict(xp, job.candidates, pool, ~mask, pool.size - found.n_rows)
        if not _is_left_over(job.setting, counts):
            chosen += rules[at + 1 :]  # nothing is left for them: the cleaning decides
            break
    chosen += learn_further(job, pool, chosen, counts)
    return clean_up(job, everything, chosen)


def _later_rules(xp: Namespace, masks: list[Array], n_rows: int, place: Place) -> list[Array]:
    """For each rule, the first rule after it that covers each row (n,); ``len(masks)`` where none does."""
    found = xp.full((n_rows,), len(masks), dtype=xp.int64, device=place.device)
    later = []
    for at in reversed(range(len(masks))):
        later.append(found)
        found = xp.where(masks[at], at, found)
    return later[::-1]


def _best_variant(
    job: Job,
    order: Array,
    pool: Pool,
    rules: list[Conditions],
    counts: list[Counts],
    at: int,
    old_mask: Array,
    later: Array,
) -> Conditions:
    """Choose between a rule, a revision grown from it and a replacement grown from nothing."""
    xp, old = job.place.xp, rules[at]
    rows = later == len(rules)  # those that no later rule covers
    variants = [one for one in _make_variants(job, order, pool, at, old, old_mask, rows) if one != old]
    if not variants:
        return old
    masks = [old_mask, *(mask_of(xp, job.candidates, one) for one in variants)]
    tables = _count_variants(xp, job.target, pool, masks, later, at, len(rules))
    sizes = [len(one) for one in rules]
    others = [*sizes[:at], *sizes[at + 1 :]]
    without = least_data_bits(job.setting, [*counts, *tables[0][1:]], others, at)
    best, least = old, math.inf
    for variant, table in zip((old, *variants), tables[1:], strict=True):
        sizes[at] = len(variant)
        bits = relative_bits(job.setting, at, [*counts, *table], sizes, without)
        if bits < least:
            best, least = variant, bits
    return best


def _make_variants(
    job: Job, order: Array, pool: Pool, at: int, old: Conditions, old_mask: Array, is_free: Array
) -> list[Conditions]:
    """Grow the revision and the replacement of a rule, pruned by the accuracy on the free rows held back."""
    xp = job.place.xp
    halves = split_pool(xp, job.candidates, pool, order, at, job.folds)
    masks = [halves.grow.is_live & old_mask, halves.grow.is_live]
    covered, everything = weigh(xp, job.target, masks)
    inside = restrict(xp, job.candidates, halves.grow, old_mask, covered.n_rows)
    grown = (
        grow_rule(xp, job.candidates, inside, job.target, job.growth, old, covered).conditions,
        grow_rule(xp, job.candidates, halves.grow, job.target, job.growth, (), everything).conditions,
    )
    rows = halves.is_held & is_free
    return [
        prune_rule(xp, job.candidates, one, job.target, rows, smoothing=job.smoothing, is_whole=True)
        for one in grown
    ]


def _count_variants(
    xp: Namespace, target: Target, pool: Pool, masks: Sequence[Array], later: Array, at: int, n: int
) -> list[list[Counts]]:
    """Count what the rules from `at` on cover of a pool: without rule `at`, then with each mask for it."""
    is_positive = xp.astype(target.is_positive, xp.int64)
    after = xp.where(pool.is_live, 2 * later + is_positive, 2 * n)
    here = 2 * at + is_positive
    keys = xp.stack([after, *(xp.where(mask & pool.is_live, here, after) for mask in masks)])
    table = xp.reshape(histogram(xp, keys, 2 * (n + 1), target.weights), (1 + len(masks), n + 1, 2))
    return [
        [Counts(float(positive), float(negative + positive)) for negative, positive in lines[at:n]]
        for lines in to_host(table).tolist()
    ]


def learn_further(
    job: Job, pool: Pool, rules: Sequence[Conditions] = (), counts: Sequence[Counts] = ()
) -> list[Conditions]:
    """Learn rules for the positive rows of a pool until the description length grows too much.

    Parameters
    ----------
    job : Job
        The problem.
    pool : Pool
        The rows that no rule covers.
    rules, counts : sequences of conditions and of Counts
        The rules before, and what they cover.

    Returns
    -------
    list of conditions
        The new rules.
    """
    xp = job.place.xp
    order = shuffle_rows(job.place, job.target, job.rng)
    found: list[Conditions] = []
    counts = list(counts)
    bits = least = 0.0  # relative to the rules before
    while pool.size and _is_left_over(job.setting, counts):
        rule = _grow_and_prune(job, order, pool, len(counts))
        mask = mask_of(xp, job.candidates, rule)
        taken = cover(xp, job.target, mask, pool)
        sizes = [len(one) for one in (*rules, *found, rule)]
        before = least_data_bits(job.setting, counts, sizes[:-1], len(counts))
        bits += relative_bits(job.setting, len(counts), [*counts, taken.counts], sizes, before)
        least = min(least, bits)
        if _must_stop(taken.counts, bits, least):
            break
        found.append(rule)
        counts.append(taken.counts)
        pool = restrict(xp, job.candidates, pool, ~mask, pool.size - taken.n_rows)
    return found


def _is_left_over(setting: Setting, counts: Sequence[Counts]) -> bool:
    """Whether positive rows are left that no rule covers."""
    return sum(one.positive for one in counts) < setting.positive - 1e-6


def clean_up(job: Job, pool: Pool, rules: list[Conditions]) -> list[Conditions]:
    """Delete the rules that need more bits than they save; the host waits once."""
    xp = job.place.xp
    if not rules:
        return rules
    masks = [mask_of(xp, job.candidates, one) for one in rules]
    nothing = _later_rules(xp, masks, job.candidates.n_rows, job.place)[0]
    counts = _count_variants(xp, job.target, pool, masks[:1], nothing, 0, len(rules))[1]
    needless = find_needless(job.setting, counts, [len(one) for one in rules])
    return [rule for at, rule in enumerate(rules) if at not in needless]
