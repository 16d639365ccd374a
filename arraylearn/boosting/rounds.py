"""Rounds of boosting: gradients, a tree for each output, new scores, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from arraylearn._typing import Array
from arraylearn.backend.namespace import Place, from_host
from arraylearn.boosting.boosted import pack_grown, sum_scores
from arraylearn.boosting.gradients import Gradients, GradientTables, gradient_tables, log_loss_gradients
from arraylearn.boosting.grow_boosted import BoostingRule, Growth, grow_trees
from arraylearn.boosting.loss import mean_log_loss, start_scores
from arraylearn.grow.columns import Columns
from arraylearn.grow.histograms.choose import choose_body
from arraylearn.grow.histograms.node_blocks import add_to_sides
from arraylearn.grow.trees import Trees

__all__ = ["Boosting", "BoostingRows", "Holdout", "Plan", "boost"]


class Plan(NamedTuple):
    """How to boost."""

    n_rounds: int
    rule: BoostingRule
    subsample: float
    n_features: int | None  # columns of each tree, None for all
    patience: int | None  # rounds without improvement on held-out rows
    tol: float


class BoostingRows(NamedTuple):
    """The rows that trees are grown on."""

    columns: Columns
    codes: Array  # (n,) int64
    weights: Array | None  # (n,) float32 in [0, 1]


class Tables(NamedTuple):
    """What is looked up in every round."""

    gradients: GradientTables
    units: Array  # of `NewtonRule.in_units`


class Holdout(NamedTuple):
    """Rows that no tree is grown on, to know when to stop."""

    bins: Array  # (d, m)
    codes: Array  # (m,)
    weights: Array | None


class Boosting(NamedTuple):
    """What came of it."""

    start: list[int]
    trees: list[Trees]  # round after round
    losses: list[float]  # on the held-out rows after each round, that before the first in front


def boost(
    place: Place,
    sample: BoostingRows,
    n_classes: int,
    plan: Plan,
    generators: list[Any],
    *,
    holdout: Holdout | None = None,
    report: Callable[[float | None], None] | None = None,
) -> Boosting:
    """Boost trees on binned columns.

    `generators` has a random generator for each round. `report`, if given, gets the loss after each round: of
    the held-out rows, else of those in use.
    """
    xp, columns = place.xp, sample.columns
    start = start_scores(place, sample.codes, sample.weights, n_classes)
    scores = _first_scores(place, start, int(columns.bins.shape[1]))
    held = None
    losses: list[float] = []
    if holdout is not None:
        held = _first_scores(place, start, int(holdout.codes.shape[0]))
        losses.append(mean_log_loss(place, held, holdout.codes, holdout.weights))
    trees: list[Trees] = []
    tables = Tables(gradient_tables(xp, place.device, len(start)), plan.rule.newton.in_units(place))
    for generator in generators[: plan.n_rounds]:
        grown, scores = _add_round(place, sample, tables, scores, plan, generator)
        trees += grown
        loss = None
        if holdout is not None and held is not None:
            held = held + _score(place, columns, trees[-len(start) :], holdout.bins)
            loss = mean_log_loss(place, held, holdout.codes, holdout.weights)
            losses.append(loss)
        elif report is not None:
            loss = mean_log_loss(place, scores, sample.codes, sample.weights)
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
    place: Place, sample: BoostingRows, tables: Tables, scores: Array, plan: Plan, generator: Any
) -> tuple[list[Trees], Array]:
    """Grow one tree for each output; return the trees and the new scores of all rows, drawn or not."""
    xp, columns = place.xp, sample.columns
    gradients = _derive(place, sample, tables.gradients, scores)
    d, n = columns.bins.shape
    rows = xp.arange(n, dtype=xp.int64, device=place.device)
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
    for c, grown in enumerate(grow_trees(place, columns, gradients, rows, plan.rule, tables.units, is_used)):
        trees.append(grown.tree)
        if rows.shape[0] == n:
            scores[c, :] = _step(place, columns, grown, scores[c, :])
    if rows.shape[0] < n:
        scores = scores + _score(place, columns, trees, columns.bins)
    return trees, scores


def _derive(place: Place, sample: BoostingRows, tables: GradientTables, scores: Array) -> Gradients:
    """Return the gradients of all rows."""
    if isinstance(choose_body(place, math.prod(sample.columns.bins.shape)), str):
        return log_loss_gradients(place.xp, tables, scores, sample.codes, sample.weights)
    from arraylearn.boosting import gradients_cpu

    return Gradients(*gradients_cpu.log_loss_gradients(*tables, scores, sample.codes, sample.weights))


def _step(place: Place, columns: Columns, grown: Growth, scores: Array) -> Array:
    """Add to the scores (n,) what the leaf of each row adds; they belong to this function from now on."""
    given = columns.bins, grown.order, grown.splits, grown.steps
    if isinstance(choose_body(place, math.prod(columns.bins.shape)), str):
        return add_to_sides(place.xp, scores, *given)
    from arraylearn.grow.histograms import node_blocks_cpu

    return node_blocks_cpu.add_to_sides(scores, *given)


def _score(place: Place, columns: Columns, trees: list[Trees], bins: Array) -> Array:
    """Return what the trees of a round add to the scores (k, n) of rows."""
    packed, value = pack_grown(place, trees, columns.bins.shape[0], columns.n_numeric, columns.n_bins)
    return sum_scores(place.xp, bins, packed, value, len(trees))
