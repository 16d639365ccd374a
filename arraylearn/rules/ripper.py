"""RIPPER: repeated incremental pruning to produce error reduction, class after class."""

from __future__ import annotations

from typing import NamedTuple

from arraylearn._typing import Array
from arraylearn.backend.namespace import Place
from arraylearn.backend.random import RandomState
from arraylearn.rules.candidates import Target, prepare
from arraylearn.rules.description_length import Setting
from arraylearn.rules.foil import GAINS
from arraylearn.rules.grow import Growth, weigh
from arraylearn.rules.optimize import (
    Conditions,
    Job,
    cover,
    learn_further,
    mask_of,
    optimize_rules,
)
from arraylearn.rules.pool import open_pool, restrict
from arraylearn.table import Table

__all__ = ["RipperSettings", "learn_ripper"]


class RipperSettings(NamedTuple):
    """How RIPPER learns."""

    rounds: int = 2
    folds: int = 3
    min_weight: float = 2.0
    smoothing: float = 1.0


def learn_ripper(
    place: Place,
    table: Table,
    codes: Array,
    class_weights: list[float],
    weights: Array | None,
    rng: RandomState,
    settings: RipperSettings,
) -> tuple[list[tuple[Conditions, int]], int]:
    """Learn rules for every class but the most frequent one, the rarest first.

    Parameters
    ----------
    place : Place
        Where to compute.
    table : Table
        Rows.
    codes : int array (n,)
        The class of each row.
    class_weights : list of float
        Weight of each class.
    weights : array (n,), optional
        Weight of each row.
    rng : numpy.random.Generator
        Draws the rows that are held back for pruning.
    settings : RipperSettings
        The method's constants.

    Returns
    -------
    rules : list of (conditions, class)
        In order: the first that matches decides.
    default : int
        The class of the rows that none matches.
    """
    xp = place.xp
    candidates = prepare(place, table)
    pool = open_pool(place, candidates)
    growth = Growth(GAINS["smoothed_foil"], stop=settings.min_weight)
    order = sorted(range(len(class_weights)), key=lambda code: class_weights[code])
    rules: list[tuple[Conditions, int]] = []
    for rank, code in enumerate(order[:-1]):
        target = Target(codes == code, weights)
        positive, total, _ = weigh(xp, target, [pool.is_live])[0]
        if positive <= 0:
            continue
        left = sum(class_weights[other] for other in order[rank:])
        setting = Setting(
            positive, total, class_weights[code] / left, max(1.0, float(candidates.n_conditions))
        )
        job = Job(place, candidates, target, setting, growth, settings.folds, settings.smoothing, rng)
        found = learn_further(job, pool)
        for _ in range(settings.rounds):
            found = optimize_rules(job, pool, found)
        rules += [(one, code) for one in found]
        for one in found if rank < len(order) - 2 else ():  # what is left is for the next class
            mask = mask_of(xp, candidates, one)
            pool = restrict(xp, candidates, pool, ~mask, pool.size - cover(xp, target, mask, pool).n_rows)
    return rules, order[-1]
