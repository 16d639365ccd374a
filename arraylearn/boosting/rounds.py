"""Rounds of boosting: gradients, a tree for each output, new scores, and when to stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from arraylearn._typing import Array
from arraylearn.backend.namespace import Place, from_host
from arraylearn.backend.ops.boosting import add_to_sides
from arraylearn.backend.ops.gradients import GradientTables, gradient_tables, log_loss_gradients
from arraylearn.boosting.boosted import pack_grown, sum_scores
from arraylearn.boosting.boosted_nodes import GrownTree, Limits
from arraylearn.boosting.grow_boosted import grow_trees, limits_in_units
from arraylearn.boosting.loss import mean_log_loss, start_scores
from arraylearn.grow.columns import Columns

__all__ = ["Boosting", "Holdout", "Plan", "boost"]


class Plan(NamedTuple):
    """What boosting is told."""

    n_rounds: int
    limits: Limits
    subsample: float
    n_features: int | None  # columns of each tree, None for all
    patience: int | None  # rounds without improvement on held-out rows
    tol: float


class Holdout(NamedTuple):
    """Rows that no tree is grown on, to know when to stop."""

    bins: Array  # (d, m)
    codes: Array  # (m,)
    weights: Array | None


class Boosting(NamedTuple):
    """What came of it."""

    start: list[int]
    trees: list[GrownTree]  # round after round
    losses: list[float]  # on the held-out rows after each round, that before the first in front


def boost(
    place: Place,
    columns: Columns,
    codes: Array,
    weights: Array | None,
    n_classes: int,
    plan: Plan,
    generators: list[Any],
    *,
    holdout: Holdout | None = None,
    report: Callable[[float | None], None] | None = None,
) -> Boosting:
    """Boost trees on binned columns.

    `codes` (n,) int64, `weights` (n,) float32 in [0, 1] or None. `generators` has a random generator for each
    round. `report`, if given, is told the loss after each round: of the held-out rows, else of those in use.
    """
    xp = place.xp
    start = start_scores(place, codes, weights, n_classes)
    scores = _first_scores(place, start, int(columns.bins.shape[1]))
    held = None
    losses: list[float] = []
    if holdout is not None:
        held = _first_scores(place, start, int(holdout.codes.shape[0]))
        losses.append(mean_log_loss(place, held, holdout.codes, holdout.weights))
    trees: list[GrownTree] = []
    tables = gradient_tables(xp, place.device, len(start))
    units = limits_in_units(place, plan.limits)
    rows = xp.arange(columns.bins.shape[1], dtype=xp.int64, device=place.device)
    for generator in generators[: plan.n_rounds]:
        grown, scores = _add_round(
            place, columns, tables, units, rows, codes, weights, scores, plan, generator
        )
        trees += grown
        loss = None
        if holdout is not None and held is not None:
            held = held + _score(place, columns, trees[-len(start) :], holdout.bins)
            loss = mean_log_loss(place, held, holdout.codes, holdout.weights)
            losses.append(loss)
        elif report is not None:
            loss = mean_log_loss(place, scores, codes, weights)
        if report is not None:
            report(loss)
        if _is_over(losses, plan):
            break
    if holdout is not None:
        best = min(range(len(losses)), key=losses.__getitem__)
        trees = trees[: max(1, best) * len(start)]
    return Boosting(start, trees, losses)


def _is_over(losses: list[float], plan: Plan) -> bool:
    """Whether none of the last rounds was better than all before them."""
    if plan.patience is None or len(losses) <= plan.patience:
        return False
    return min(losses[-plan.patience :]) > min(losses[: -plan.patience]) - plan.tol


def _first_scores(place: Place, start: list[int], n: int) -> Array:
    """Return the scores (k, n) before the first round."""
    xp = place.xp
    first = xp.asarray(start, dtype=xp.int32, device=place.device)[:, None]
    return xp.zeros((len(start), n), dtype=xp.int32, device=place.device) + first


def _add_round(
    place: Place,
    columns: Columns,
    tables: GradientTables,
    units: Array,
    rows: Array,
    codes: Array,
    weights: Array | None,
    scores: Array,
    plan: Plan,
    generator: Any,
) -> tuple[list[GrownTree], Array]:
    """Grow one tree for each output; return the trees and the new scores of all `rows`, drawn or not."""
    xp = place.xp
    gradients = log_loss_gradients(xp, tables, scores, codes, weights)
    n, d = columns.bins.shape[1], columns.bins.shape[0]
    if plan.subsample < 1:
        drawn = generator.permutation(n)[: max(1, round(plan.subsample * n))]
        drawn.sort()
        rows = from_host(drawn, place, xp.int64)
    is_used: list[Array | None] = [None] * scores.shape[0]
    if plan.n_features is not None and plan.n_features < d:
        draws = [set(generator.permutation(d)[: plan.n_features].tolist()) for _ in is_used]
        is_used = [
            xp.asarray([j in used for j in range(d)], dtype=xp.bool, device=place.device) for used in draws
        ]
    trees = []
    for c, grown in enumerate(grow_trees(place, columns, gradients, rows, plan.limits, units, is_used)):
        trees.append(grown.tree)
        if rows.shape[0] == n:
            scores[c, :] = add_to_sides(
                xp, scores[c, :], columns.bins, grown.order, grown.splits, grown.steps
            )
    if rows.shape[0] < n:
        scores = scores + _score(place, columns, trees, columns.bins)
    return trees, scores


def _score(place: Place, columns: Columns, trees: list[GrownTree], bins: Array) -> Array:
    """Return what the trees of a round add to the scores (k, n) of rows."""
    packed, value = pack_grown(place, trees, columns.bins.shape[0], columns.n_numeric, columns.n_bins)
    return sum_scores(place.xp, bins, packed, value, len(trees))
