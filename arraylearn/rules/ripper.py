"""RIPPER: repeated incremental pruning to produce error reduction.

Classes are learned one after the other: rules are added while that pays, then each one is revised, by
description length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from arraylearn._typing import Array
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import Place, to_host
from arraylearn.backend.random import RandomState, as_generator
from arraylearn.checks import check_integer, check_number
from arraylearn.progress import Advance
from arraylearn.rules.counts import Counts, Target, units_of, weigh
from arraylearn.rules.description_length import Totals, find_needless, least_data_bits, relative_bits
from arraylearn.rules.grow_rule import (
    RuleGrowth,
    choose_length,
    count_prefixes,
    grow_rule,
    hold_back,
    shuffle_rows,
)
from arraylearn.rules.literals import (
    Candidates,
    LiveRows,
    all_rows,
    focus,
    prepare,
    restrict,
    satisfies_all,
    settle_thresholds,
    with_target,
)
from arraylearn.rules.rule import CodedRule, Conditions
from arraylearn.rules.rule_classifier import RuleClassifier, TrainingRows

__all__ = ["RipperClassifier", "learn_ripper"]

# For each class but the last, and each value of the numeric columns.
_SECONDS_PER_VALUE = 1e-6
# A rule set that needs this many bits more than the best so far is abandoned.
_SURPLUS = 64.0


@dataclass(kw_only=True, eq=False, repr=False)
class RipperClassifier(RuleClassifier):
    r"""RIPPER: rules grown, pruned at once on rows held back, and revised by description length.

    Classes are learned from the rarest up, each against those still to come; the most frequent one is the
    default. A rule grows by FOIL's gain on two thirds of the rows and is cut to the prefix with the largest
    :math:`(p - n) / (p + n + 2 s)` on the others. Rules are added until the description length is 64 bits
    above its minimum or a rule is wrong half of the time. Then each rule competes, `rounds` times, with a
    replacement grown from the empty rule and a revision grown from itself; rules that do not save bits are
    deleted.

    Parameters
    ----------
    rounds : int, default 2
        Rounds of optimization.
    folds : int, default 3
        One of so many parts of the rows is held back for pruning.
    min_coverage : float, default 2.0
        A rule does not grow to cover fewer rows of its class.
    smoothing : float, default 1.0
        The :math:`s` above; 0 is Cohen's :math:`(p - n) / (p + n)`, 1 is what Weka's JRip does.
    max_literals, max_rules : int, optional
        Most literals of a rule, and most rules of a class.
    random_state : int, Generator, RandomState or None
        Draws the rows that are held back, on the host: the same for every backend.
    categorical_features : "from_dtype", None, or sequence of int, bool or str, default "from_dtype"
        Which columns are nominal. By default the string, categorical and boolean columns of a data frame, and
        none of an array of numbers.
    verbose : int
        1: a progress bar of the rules.
    backend : str, optional
        Where to compute, for example ``"cupy"``; default: where the data is.

    Attributes
    ----------
    rules_ : tuple of Rule
        The first that matches decides; empty if no rule saves bits: then every row gets the default.
    default_ : label
        The most frequent class.
    coverage_, accuracy_ : array (r,)
        Weight of the training rows that each rule decides, and the share of its class among them.
    classes_ : array (k,)
        Class labels, sorted.
    schema_ : Schema
        The columns.

    Warns
    -----
    LongRunWarning
        Where learning will take two minutes or more, by a rough estimate.

    Notes
    -----
    A missing value meets no literal. Thresholds are searched exactly, among all neighbouring values of the
    rows that a rule covers. Sample weights are brought to a scale, so that a common factor changes nothing:
    if all are multiples of the least, that one counts 1 in gains, worths and description lengths (a weight is
    then a repetition), else a row of average weight does. `min_coverage` and the rows held back count rows,
    whatever they weigh. A row of weight 0 is left out.

    References
    ----------
    W. W. Cohen, "Fast effective rule induction", ICML 1995;
    J. Fürnkranz, G. Widmer, "Incremental reduced error pruning", ICML 1994.

    Examples
    --------
    >>> import arraylearn as al
    >>> iris = al.datasets.load_iris()
    >>> clf = al.RipperClassifier(random_state=0).fit(iris.X, iris.y)
    >>> len(clf.rules_), bool(clf.score(iris.X, iris.y) > 0.93)
    (2, True)
    """

    conflict = "first"  # for the base; not annotated, so not a parameter

    rounds: int = 2
    folds: int = 3
    min_coverage: float = 2.0
    smoothing: float = 1.0
    max_literals: int | None = None
    max_rules: int | None = None
    random_state: RandomState = None
    categorical_features: Any = "from_dtype"
    verbose: int = 0
    backend: str | None = None

    def _check_parameters(self) -> None:
        check_integer("rounds", self.rounds, 0)
        check_integer("folds", self.folds, 2)
        check_number("min_coverage", self.min_coverage, 0)
        check_number("smoothing", self.smoothing, 0)
        check_integer("max_literals", self.max_literals, 1, optional=True)
        check_integer("max_rules", self.max_rules, 1, optional=True)

    def _seconds(self, rows: TrainingRows) -> float:
        return _SECONDS_PER_VALUE * rows.n_numbers * (len(rows.class_weights) - 1)

    def _learn(self, rows: TrainingRows, X: Any, y: Any, sample_weight: Any) -> tuple[list[CodedRule], int]:
        return learn_ripper(rows, self)


# ---- all classes


class _OneAgainstRest(NamedTuple):
    """One class against the others: its rows, and the settings for learning its rules."""

    candidates: Candidates
    target: Target  # the rows of the class
    totals: Totals  # their weight, for description lengths
    settings: RipperClassifier
    rng: RandomState  # draws the rows that are held back
    report: Advance  # is called for each rule


def learn_ripper(rows: TrainingRows, settings: RipperClassifier) -> tuple[list[CodedRule], int]:
    """Learn rules for every class but the most frequent one, the rarest first.

    Returns
    -------
    rules : list of (conditions, class)
        In order: the first that matches decides.
    default : int
        The class of the rows that no rule matches.
    """
    rng = as_generator(settings.random_state)
    xp, class_weights = rows.place.xp, rows.class_weights
    candidates = prepare(rows.place, rows.table)
    live: LiveRows | None = None
    order = sorted(range(len(class_weights)), key=lambda code: class_weights[code])
    rules: list[CodedRule] = []
    for rank, code in enumerate(order[:-1]):
        target = rows.target(code)
        live = all_rows(candidates, target) if live is None else with_target(live, target)
        counts, _ = weigh(xp, target, [live.is_live])[0]
        if counts.positive <= 0:
            continue
        left = sum(class_weights[other] for other in order[rank:])
        totals = Totals(*counts, class_weights[code] / left, max(1.0, float(candidates.n_conditions)))
        problem = _OneAgainstRest(candidates, target, totals, settings, rng, rows.report)
        found = _learn_further(problem, live)
        for _ in range(settings.rounds):
            found = _optimize_rules(problem, live, found)
        rules += [(one, code) for one in found]
        for one in found if rank < len(order) - 2 else ():  # the next class learns from the rows left
            live = _remove(problem, live, satisfies_all(candidates, one))[0]
    return settle_thresholds(candidates, rules), order[-1]


def _remove(problem: _OneAgainstRest, live: LiveRows, mask: Array) -> tuple[LiveRows, Counts]:
    """Take the rows of a mask (n,) out of the live ones; return the rest and what was taken; one sync."""
    counts, rows = weigh(problem.candidates.place.xp, problem.target, [mask & live.is_live])[0]
    return restrict(live, ~mask, live.size - int(rows.covered)), counts


# ---- further rules of a class


def _learn_further(
    problem: _OneAgainstRest, live: LiveRows, rules: Sequence[Conditions] = (), counts: Sequence[Counts] = ()
) -> list[Conditions]:
    """Learn rules for the live rows, which no rule covers, until the description length grows too much.

    `rules` are the rules before, `counts` what they cover. The new rules are returned.
    """
    totals = problem.totals
    order = shuffle_rows(problem.candidates.place, problem.target, problem.rng)
    found: list[Conditions] = []
    counts, sizes = list(counts), [len(one) for one in rules]
    bits = least = 0.0  # relative to the rules before
    most = problem.settings.max_rules
    while live.size and _is_left_over(totals, counts) and (most is None or len(counts) < most):
        at = len(counts)
        growing, is_held = hold_back(live, order, at, problem.settings.folds)
        rule = _prune(problem, growing, _grow(problem, growing), is_held, on_all_rows=False)
        live, taken = _remove(problem, live, satisfies_all(problem.candidates, rule))
        before = least_data_bits(totals, counts, sizes, at)
        counts.append(taken)
        sizes.append(len(rule))
        bits += relative_bits(totals, at, counts, sizes, before)
        least = min(least, bits)
        if _must_stop(taken, bits, least):
            break
        found.append(rule)
        problem.report()
    return found


def _is_left_over(totals: Totals, counts: Sequence[Counts]) -> bool:
    """Whether positive rows are left that no rule covers."""
    return sum([one.positive for one in counts]) < totals.positive - 1e-6


def _must_stop(counts: Counts, bits: float, least: float) -> bool:
    """Whether the last rule is one too many: too many bits, no positive row, or half of its rows negative."""
    if bits > least + _SURPLUS or counts.positive <= 0:
        return True
    return (counts.covered - counts.positive) / counts.covered >= 0.5


def _grow(
    problem: _OneAgainstRest, live: LiveRows, start: Conditions = (), counts: Counts | None = None
) -> Conditions:
    growth = RuleGrowth(
        "smoothed_foil", stop=problem.settings.min_coverage, max_literals=problem.settings.max_literals
    )
    return grow_rule(live, growth, start, counts).conditions


def _prune(
    problem: _OneAgainstRest, live: LiveRows, rule: Conditions, rows: Array, *, on_all_rows: bool
) -> Conditions:
    """Cut a rule to its best prefix on the rows (n,) held back, as `choose_length` finds it; one sync."""
    if not rule:
        return rule
    counts = count_prefixes(live, rule, rows)
    return rule[: choose_length(counts, smoothing=problem.settings.smoothing, on_all_rows=on_all_rows)]


# ---- one round of optimization


def _optimize_rules(problem: _OneAgainstRest, live: LiveRows, rules: list[Conditions]) -> list[Conditions]:
    """Revise each rule once, learn rules for the rows not covered, and delete those that do not save bits."""
    all_live = live
    masks = [satisfies_all(problem.candidates, one) for one in rules]
    later = _later_rules(problem.candidates.place, masks, problem.candidates.n_rows)
    order = shuffle_rows(problem.candidates.place, problem.target, problem.rng)
    chosen: list[Conditions] = []
    counts: list[Counts] = []
    for at, old in enumerate(rules):
        best, mask = old, masks[at]
        left, found = _remove(problem, live, mask)
        if left.size < live.size:
            best = _best_variant(problem, order, live, rules, counts, mask, later[at])
            if best is not old:
                left, found = _remove(problem, live, satisfies_all(problem.candidates, best))
        chosen.append(best)
        counts.append(found)
        live = left
        if not _is_left_over(problem.totals, counts):
            chosen += rules[at + 1 :]  # no positive row is left for them: `_clean_up` decides
            break
    chosen += _learn_further(problem, live, chosen, counts)
    return _clean_up(problem, all_live, chosen)


def _later_rules(place: Place, masks: list[Array], n_rows: int) -> list[Array]:
    """For each rule, the first rule after it that covers each row (n,); ``len(masks)`` where none does."""
    xp = place.xp
    found = xp.full((n_rows,), len(masks), dtype=xp.int64, device=place.device)
    later = []
    for at in reversed(range(len(masks))):
        later.append(found)
        found = xp.where(masks[at], at, found)
    return later[::-1]


def _best_variant(
    problem: _OneAgainstRest,
    order: Array,
    live: LiveRows,
    rules: list[Conditions],
    counts: list[Counts],
    old_mask: Array,
    later: Array,
) -> Conditions:
    """Choose between a rule, a revision grown from it and a replacement grown from the empty rule.

    `counts` is what the rules before it cover, `old_mask` (n,) the rows that it covers itself, and `later`
    the first rule after it that covers each row.
    """
    at, n = len(counts), len(rules)
    growing, is_held = hold_back(live, order, at, problem.settings.folds)
    held = is_held & (later == n)  # the rows that no later rule covers
    grown = _grow_variants(problem, growing, rules[at], old_mask)
    variants = [_prune(problem, live, one, held, on_all_rows=True) for one in grown]
    variants = [one for one in variants if one != rules[at]]
    if not variants:
        return rules[at]
    masks = [old_mask, *(satisfies_all(problem.candidates, one) for one in variants)]
    tables = _count_variants(problem, live, masks, later, at, n)
    sizes = [len(one) for one in rules]
    others = [*sizes[:at], *sizes[at + 1 :]]
    without = least_data_bits(problem.totals, [*counts, *tables[0][1:]], others, at)
    best, least = rules[at], math.inf
    for variant, table in zip((rules[at], *variants), tables[1:], strict=True):
        sizes[at] = len(variant)
        bits = relative_bits(problem.totals, at, [*counts, *table], sizes, without)
        if bits < least:
            best, least = variant, bits
    return best


def _grow_variants(
    problem: _OneAgainstRest, growing: LiveRows, old: Conditions, old_mask: Array
) -> tuple[Conditions, Conditions]:
    """Grow the revision of a rule on the rows (n,) that it covers, and its replacement on all of them."""
    masks = [growing.is_live & old_mask, growing.is_live]
    (inside, rows), (everywhere, _) = weigh(problem.candidates.place.xp, problem.target, masks)
    covered = focus(growing, old_mask, int(rows.covered))
    return _grow(problem, covered, old, inside), _grow(problem, growing, (), everywhere)


def _count_variants(
    problem: _OneAgainstRest, live: LiveRows, masks: Sequence[Array], later: Array, at: int, n: int
) -> list[list[Counts]]:
    """Count the live rows that rules from `at` on cover: without rule `at`, then with each mask for it."""
    xp, target = problem.candidates.place.xp, problem.target
    is_positive = xp.astype(target.is_positive, xp.int64)
    after = xp.where(live.is_live, 2 * later + is_positive, 2 * n)
    here = 2 * at + is_positive
    keys = xp.stack([after, *(xp.where(mask & live.is_live, here, after) for mask in masks)])
    sums = to_host(histogram(xp, keys, 2 * (n + 1), target.weights))
    weights = (sums if target.weights is None else units_of(sums)).reshape(1 + len(masks), n + 1, 2)
    return [
        [Counts(p * target.unit, (negative + p) * target.unit) for negative, p in by_rule]
        for by_rule in weights[:, at:n].tolist()
    ]


def _clean_up(problem: _OneAgainstRest, live: LiveRows, rules: list[Conditions]) -> list[Conditions]:
    """Delete the rules that need more bits than they save; one sync."""
    if not rules:
        return rules
    masks = [satisfies_all(problem.candidates, one) for one in rules]
    later = _later_rules(problem.candidates.place, masks, problem.candidates.n_rows)[0]
    counts = _count_variants(problem, live, masks[:1], later, 0, len(rules))[1]
    needless = find_needless(problem.totals, counts, [len(one) for one in rules])
    return [rule for at, rule in enumerate(rules) if at not in needless]
