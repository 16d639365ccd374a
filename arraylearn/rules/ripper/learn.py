"""RIPPER: repeated incremental pruning to produce error reduction, class after class."""

from __future__ import annotations

from typing import NamedTuple

from arraylearn.backend.random import RandomState
from arraylearn.rules.literals.candidates import prepare, satisfies_all
from arraylearn.rules.literals.gains import GAINS
from arraylearn.rules.literals.grow_rule import RuleGrowth
from arraylearn.rules.literals.live_rows import all_rows, restrict
from arraylearn.rules.literals.target import Target, weigh
from arraylearn.rules.ripper.description_length import Setting
from arraylearn.rules.ripper.optimize import OneAgainstRest, learn_further, optimize_rules, weigh_live
from arraylearn.rules.rule import CodedRule
from arraylearn.rules.training_rows import TrainingRows

__all__ = ["RipperSettings", "learn_ripper"]


class RipperSettings(NamedTuple):
    """How RIPPER learns."""

    rounds: int = 2  # of optimization
    folds: int = 3  # one of so many parts of the rows is held back for pruning
    min_weight: float = 2.0  # least weight of positive rows that a rule covers
    smoothing: float = 1.0  # of the worth of a rule in pruning; see `choose_length`


def learn_ripper(
    rows: TrainingRows, rng: RandomState, settings: RipperSettings
) -> tuple[list[CodedRule], int]:
    """Learn rules for every class but the most frequent one, the rarest first.

    Parameters
    ----------
    rows : TrainingRows
        What to learn from.
    rng : numpy.random.Generator
        Draws the rows that are held back for pruning.
    settings : RipperSettings
        The method's constants.

    Returns
    -------
    rules : list of (conditions, class)
        In order: the first that matches decides.
    default : int
        The class of the rows that no rule matches.
    """
    place, class_weights = rows.place, rows.class_weights
    xp = place.xp
    candidates = prepare(place, rows.table)
    live = all_rows(place, candidates)
    growth = RuleGrowth(GAINS["smoothed_foil"], stop=settings.min_weight)
    order = sorted(range(len(class_weights)), key=lambda code: class_weights[code])
    rules: list[CodedRule] = []
    for rank, code in enumerate(order[:-1]):
        target = Target(rows.codes == code, rows.weights)
        counts = weigh(xp, target, [live.is_live])[0].counts
        if counts.positive <= 0:
            continue
        left = sum(class_weights[other] for other in order[rank:])
        setting = Setting(*counts, class_weights[code] / left, max(1.0, float(candidates.n_conditions)))
        problem = OneAgainstRest(
            place, candidates, target, setting, growth, settings.folds, settings.smoothing, rng
        )
        found = learn_further(problem, live)
        for _ in range(settings.rounds):
            found = optimize_rules(problem, live, found)
        rules += [(one, code) for one in found]
        for one in found if rank < len(order) - 2 else ():  # the next class learns from the rows left
            mask = satisfies_all(xp, candidates, one)
            live = restrict(
                xp, candidates, live, ~mask, live.size - weigh_live(xp, target, mask, live).n_rows
            )
    return rules, order[-1]
