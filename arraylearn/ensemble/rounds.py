"""Rounds of boosting: gradients, a tree for each output, new scores, and when to stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from arraylearn._typing import Array
from arraylearn.backend import ops
from arraylearn.backend.namespace import Place, from_host
from arraylearn.ensemble.boosted import join_trees
from arraylearn.ensemble.columns import Columns
from arraylearn.ensemble.grow_boosted import GrownTree, Growth, Limits, grow_tree
from arraylearn.ensemble.loss import mean_log_loss, start_scores

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
    n = columns.bins.shape[1]
    scores = [xp.full((n,), value, dtype=xp.int32, device=place.device) for value in start]
    held = None
    losses: list[float] = []
    if holdout is not None:
        first = xp.asarray(start, dtype=xp.int32, device=place.device)[:, None]
        held = xp.zeros((len(start), holdout.codes.shape[0]), dtype=xp.int32, device=place.device) + first
        losses.append(mean_log_loss(place, held, holdout.codes, holdout.weights))
    trees: list[GrownTree] = []
    for generator in generators[: plan.n_rounds]:
        grown = _grow_round(place, columns, codes, weights, scores, plan, generator)
        trees += [growth.tree for growth in grown]
        scores = _move_scores(place, columns, scores, grown)
        loss = None
        if holdout is not None and held is not None:
            joined = join_trees(place, trees[-len(start) :], columns.n_numeric, columns.n_bins)
            held = held + ops.sum_leaves(xp, holdout.bins, joined, len(start))
            loss = mean_log_loss(place, held, holdout.codes, holdout.weights)
            losses.append(loss)
        elif report is not None:
            loss = mean_log_loss(place, _as_table(place, scores), codes, weights)
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


def _as_table(place: Place, scores: list[Array]) -> Array:
    return scores[0][None, :] if len(scores) == 1 else place.xp.stack(scores)


def _grow_round(
    place: Place,
    columns: Columns,
    codes: Array,
    weights: Array | None,
    scores: list[Array],
    plan: Plan,
    generator: Any,
) -> list[Growth]:
    """Grow one tree for each output."""
    xp = place.xp
    gradients = ops.log_loss_gradients(xp, _as_table(place, scores), codes, weights)
    n, d = columns.bins.shape[1], columns.bins.shape[0]
    every = xp.arange(n, dtype=xp.int64, device=place.device)
    grown = []
    rows = None
    if plan.subsample < 1:
        rows = generator.permutation(n)[: max(1, round(plan.subsample * n))]
        rows.sort()
        rows = from_host(rows, place, xp.int64)
    for c in range(len(scores)):
        is_used = None
        if plan.n_features is not None and plan.n_features < d:
            used = set(generator.permutation(d)[: plan.n_features].tolist())
            is_used = xp.asarray([j in used for j in range(d)], dtype=xp.bool, device=place.device)
        order = xp.asarray(every if rows is None else rows, copy=True)
        shifts = gradients.shifts[:, c]
        grown.append(grow_tree(place, columns, gradients.packed[c, :], shifts, order, plan.limits, is_used))
    return grown


def _move_scores(place: Place, columns: Columns, scores: list[Array], grown: list[Growth]) -> list[Array]:
    """Add the leaves of a round to the scores of all rows, drawn or not."""
    xp = place.xp
    if grown[0].order.shape[0] < columns.bins.shape[1]:
        joined = join_trees(place, [growth.tree for growth in grown], columns.n_numeric, columns.n_bins)
        steps = ops.sum_leaves(xp, columns.bins, joined, len(scores))
        return [line + steps[c, :] for c, line in enumerate(scores)]
    moved = []
    for line, growth in zip(scores, grown, strict=True):
        blocks = (growth.starts, growth.sizes, growth.tree.value[growth.leaves])
        moved.append(ops.add_to_blocks(xp, line, growth.order, *(part.tolist() for part in blocks)))
    return moved
