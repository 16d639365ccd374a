"""Sequential covering: rules for one class after the other, each grown on what the ones before left over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import Place, to_host
from arraylearn.rules.blocks import Layout, lay_out
from arraylearn.rules.candidates import Candidates, Target, prepare
from arraylearn.rules.foil import Gain
from arraylearn.rules.grow import Grown, Growth, Weight, grow_rule, weigh
from arraylearn.rules.optimize import Conditions, mask_of
from arraylearn.rules.pool import lay_out_again, open_blocks, restrict
from arraylearn.table import Table

__all__ = ["CoveringSettings", "default_class", "learn_covering"]


class CoveringSettings(NamedTuple):
    """How sequential covering learns."""

    gain: Gain
    must_gain: bool
    min_accuracy: float
    min_coverage: float
    max_literals: int | None
    max_rules: int | None  # per class


def learn_covering(
    place: Place,
    table: Table,
    codes: Array,
    class_weights: list[float],
    weights: Array | None,
    settings: CoveringSettings,
) -> tuple[list[tuple[Conditions, int]], int]:
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
    xp = place.xp
    candidates = prepare(place, table)
    layout = lay_out(place, candidates, candidates.lists)
    rules: list[tuple[Conditions, int]] = []
    is_covered = xp.zeros((table.n_rows,), dtype=xp.bool, device=place.device)
    for code, class_weight in enumerate(class_weights):
        if class_weight <= 0 or class_weight == sum(class_weights):
            continue
        target = Target(codes == code, weights)
        for conditions, mask in _cover_class(place, candidates, layout, target, settings):
            rules.append((conditions, code))
            is_covered = is_covered | mask
    return rules, default_class(place, codes, is_covered, weights, class_weights)


def _cover_class(
    place: Place, candidates: Candidates, layout: Layout, target: Target, settings: CoveringSettings
) -> Iterator[tuple[Conditions, Array]]:
    """Learn the rules of a class, and which rows (n,) each of them matches."""
    xp = place.xp
    growth = Growth(
        settings.gain, settings.must_gain, least=settings.min_coverage, max_literals=settings.max_literals
    )
    pool = open_blocks(place, candidates, layout, target)
    weight = weigh(xp, target, [pool.is_live])[0]
    share = _share(weight[:2])
    for _ in range(settings.max_rules or candidates.n_rows):
        grown = grow_rule(xp, candidates, pool, target, growth, weight=weight)
        conditions, accuracy = _shortest(grown)
        if not conditions or accuracy <= share or accuracy < settings.min_accuracy:
            return
        mask = mask_of(xp, candidates, conditions)
        yield conditions, mask
        taken = _taken(xp, target, mask & pool.is_live, grown.counts[len(conditions) - 1])
        positive, covered, n_rows = taken
        weight = Weight(weight.positive - positive, weight.covered - covered, weight.n_rows - n_rows)
        pool = restrict(xp, candidates, pool, ~mask, weight.n_rows)
        pool = lay_out_again(place, candidates, pool)


def _taken(xp: Namespace, target: Target, gone: Array, counts: tuple[float, float]) -> Weight:
    """Weigh the rows that a rule takes; without weights its counts tell, with weights the host waits."""
    if target.weights is None:
        return Weight(*counts, int(counts[1]))
    return weigh(xp, target, [gone])[0]


def _share(counts: tuple[float, float]) -> float:
    return counts[0] / counts[1] if counts[1] > 0 else 0.0


def _shortest(grown: Grown) -> tuple[Conditions, float]:
    """Cut the literals at the end that brought nothing."""
    if not grown.counts:
        return (), 0.0
    accuracy = [_share(counts) for counts in grown.counts]
    best = max(accuracy)
    length = next(i for i, value in enumerate(accuracy) if value >= best - 1e-12) + 1
    return grown.conditions[:length], best


def default_class(
    place: Place, codes: Array, is_covered: Array, weights: Array | None, class_weights: list[float]
) -> int:
    """Choose the heaviest class of the uncovered rows; the host waits once."""
    xp = place.xp
    k = len(class_weights)
    line = xp.arange(k, dtype=codes.dtype, device=place.device)
    is_class = (codes[:, None] == line[None, :]) & ~is_covered[:, None]
    if weights is None:
        sums = xp.sum(xp.astype(is_class, xp.int64), axis=0)
    else:
        sums = xp.sum(xp.astype(is_class, weights.dtype) * weights[:, None], axis=0)
    left: list[float] = to_host(sums).tolist()
    if max(left) <= 0:
        left = class_weights
    return left.index(max(left))
