"""Sequential covering: rules for one class after the other, each grown on the rows not covered yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import Place
from arraylearn.rules.literals.candidates import Candidates, prepare, satisfies_all
from arraylearn.rules.literals.gains import Gain
from arraylearn.rules.literals.grow_rule import GrownRule, RuleGrowth, grow_rule
from arraylearn.rules.literals.live_rows import LiveRows, all_rows_in_blocks, lay_out_again, restrict
from arraylearn.rules.literals.row_blocks import lay_out
from arraylearn.rules.literals.target import Counts, Target, Weight, weigh
from arraylearn.rules.rule import CodedRule, Conditions
from arraylearn.rules.training_rows import TrainingRows, default_class

__all__ = ["CoveringSettings", "learn_covering"]


class CoveringSettings(NamedTuple):
    """How sequential covering learns."""

    gain: Gain
    must_gain: bool  # as in `RuleGrowth`
    min_accuracy: float  # a rule of less accuracy ends the rules of its class
    min_coverage: float  # least weight of positive rows that a rule covers
    max_literals: int | None  # per rule
    max_rules: int | None  # per class


def learn_covering(rows: TrainingRows, settings: CoveringSettings) -> tuple[list[CodedRule], int]:
    """Learn rules for every class, in the order of the classes.

    Each class starts from all rows: those of the class that none of its rules covers yet are what the next
    rule has to cover, all others are what it has to avoid. A rule counts if its accuracy is above that of the
    empty rule and at least `min_accuracy`.

    Returns
    -------
    rules : list of (conditions, class)
        In the order in which they were learned.
    default : int
        The most frequent class of the rows that no rule covers; of all rows, where there are none.
    """
    place = rows.place
    xp = place.xp
    candidates = prepare(place, rows.table)
    layout = lay_out(place, candidates, candidates.lists)
    rules: list[CodedRule] = []
    is_covered = xp.zeros((candidates.n_rows,), dtype=xp.bool, device=place.device)
    for code, class_weight in enumerate(rows.class_weights):
        if class_weight <= 0 or class_weight == sum(rows.class_weights):
            continue
        target = Target(rows.codes == code, rows.weights)
        live = all_rows_in_blocks(place, candidates, layout, target)
        for conditions, mask in _cover_class(place, candidates, live, target, settings):
            rules.append((conditions, code))
            is_covered = is_covered | mask
    return rules, default_class(rows, is_covered)


def _cover_class(
    place: Place, candidates: Candidates, live: LiveRows, target: Target, settings: CoveringSettings
) -> Iterator[tuple[Conditions, Array]]:
    """Learn the rules of a class, and which rows (n,) each of them matches."""
    xp = place.xp
    growth = RuleGrowth(
        settings.gain, settings.must_gain, least=settings.min_coverage, max_literals=settings.max_literals
    )
    counts = weigh(xp, target, [live.is_live])[0].counts
    share = counts.accuracy
    for _ in range(settings.max_rules or candidates.n_rows):
        grown = grow_rule(xp, candidates, live, target, growth, counts=counts)
        conditions, accuracy = _shortest(grown)
        if not conditions or accuracy <= share or accuracy < settings.min_accuracy:
            return
        mask = satisfies_all(xp, candidates, conditions)
        yield conditions, mask
        gone = _weigh_covered(xp, target, mask & live.is_live, grown.counts[len(conditions) - 1])
        counts = Counts(counts.positive - gone.counts.positive, counts.covered - gone.counts.covered)
        live = restrict(xp, candidates, live, ~mask, live.size - gone.n_rows)
        live = lay_out_again(place, candidates, live)


def _weigh_covered(xp: Namespace, target: Target, is_covered: Array, counts: Counts) -> Weight:
    """Weigh the live rows that a rule covers: with weights one sync, without them the counts are known."""
    if target.weights is None:
        return Weight(counts, int(counts.covered))
    return weigh(xp, target, [is_covered])[0]


def _shortest(grown: GrownRule) -> tuple[Conditions, float]:
    """Cut off the last literals that did not raise the accuracy, and return the accuracy."""
    if not grown.counts:
        return (), 0.0
    accuracy = [counts.accuracy for counts in grown.counts]
    best = max(accuracy)
    length = next(i for i, value in enumerate(accuracy) if value >= best - 1e-12) + 1
    return grown.conditions[:length], best
