"""Rounds of boosting: gradients, a tree for each output, the steps of its leaves, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.dispatch import get_tuning, why_not_compiled
from arraylearn.backend.namespace import Place, from_host
from arraylearn.boosting.boosted import pack_grown, sum_scores
from arraylearn.boosting.log_loss import (
    SCORE_BITS,
    Gradients,
    GradientTables,
    gradient_tables,
    log_loss_gradients,
    mean_log_loss,
)
from arraylearn.grow.formulas import unpack
from arraylearn.grow.histograms.newton_trees import (
    Columns,
    NewtonRule,
    NewtonTree,
    PackedGradients,
    grow_newton_tree,
    side_values,
)
from arraylearn.grow.trees import LEAF, Limits, Trees, best_first

__all__ = [
    "Boosting",
    "BoostingRows",
    "BoostingRule",
    "Holdout",
    "Plan",
    "boost",
    "boosting_work",
    "choose_body",
]

# One step of a tree moves a score by no more than this, in units of the log odds.
_LONGEST_STEP = 16.0
# The calls of the array program for a tree take as long as so many cells.
_CELLS_PER_TREE = 10_000


class BoostingRule(NamedTuple):
    """Settings of the trees of a round."""

    limits: Limits  # `min_samples_leaf` counts rows of average hessian
    newton: NewtonRule
    learning_rate: float


class Plan(NamedTuple):
    """Settings of all rounds."""

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
    scores: Array  # (k, n) int32: before the first round


class RoundBody(NamedTuple):
    """The compiled loops of a round."""

    derive: Callable[..., tuple[Array, Array]]  # `log_loss_gradients`: returns the fields of `Gradients`
    step: Callable[..., Array]  # `add_steps`: adds the values of a tree's leaves to the scores


class Tools(NamedTuple):
    """The body, the tables and the units that all rounds use."""

    body: RoundBody | str  # or the reason why the array program runs
    gradients: GradientTables
    units: Array  # of `NewtonRule.in_units`


class Holdout(NamedTuple):
    """Rows that decide when to stop, and how they are judged."""

    bins: Array  # (d, m)
    scores: Array  # (k, m) int32: before the first round
    judge: Callable[[Array], float]  # their loss, from their scores; the host syncs


class Boosting(NamedTuple):
    """The grown trees, and the losses on held-out rows."""

    trees: list[Trees]  # round after round
    losses: list[float]  # of the held-out rows before the first and after each round


def boosting_work(n_cells: int, n_trees: int) -> tuple[int, int]:
    """Return the work of growing trees on so many bins, and from how much on compiled bodies do it."""
    return (n_cells + _CELLS_PER_TREE) * n_trees, get_tuning().compiled_boosting


def choose_body(place: Place, work: tuple[int, int], rule: NewtonRule) -> RoundBody | str:
    """Return the loops of a round for `boosting_work`, or the reason why the array program runs."""
    if rule.groups is not None:
        return "columns that may not stand on one path"
    if (reason := why_not_compiled(place, *work)) is not None:
        return reason
    from arraylearn.boosting import rounds_cpu

    return RoundBody(rounds_cpu.log_loss_gradients, rounds_cpu.add_steps)


def boost(
    place: Place,
    sample: BoostingRows,
    plan: Plan,
    generators: Sequence[np.random.Generator],
    *,
    holdout: Holdout | None = None,
    report: Callable[[float | None], None] | None = None,
) -> Boosting:
    """Boost trees on binned columns.

    `generators` has a random generator for each round. `report`, if given, gets the loss after each round: of
    the held-out rows, else of those in use.
    """
    xp, columns, scores = place.xp, sample.columns, sample.scores
    n_outputs = int(scores.shape[0])
    if holdout is None:
        held, losses = None, []
    else:
        held, losses = holdout.scores, [holdout.judge(holdout.scores)]
    trees: list[Trees] = []
    work = boosting_work(math.prod(columns.bins.shape), len(generators) * n_outputs)
    tools = Tools(
        choose_body(place, work, plan.rule.newton),
        gradient_tables(xp, place.device, n_outputs),
        plan.rule.newton.in_units(place),
    )
    if not isinstance(tools.body, str):
        scores = xp.asarray(scores, copy=True)  # steps are added in place
    for generator in generators:
        grown, scores = _add_round(place, sample, tools, scores, plan, generator)
        trees += grown
        loss = None
        if holdout is not None:
            held = held + _score(place, columns, grown, holdout.bins)
            loss = holdout.judge(held)
            losses.append(loss)
        elif report is not None:
            loss = mean_log_loss(place, scores, sample.codes, sample.weights)
        if report is not None:
            report(loss)
        if _is_over(losses, plan):
            break
    return Boosting(trees, losses)


def _is_over(losses: list[float], plan: Plan) -> bool:
    """Whether none of the last rounds was better than all before them."""
    if plan.patience is None or len(losses) <= plan.patience:
        return False
    return min(losses[-plan.patience :]) > min(losses[: -plan.patience]) - plan.tol


def _add_round(
    place: Place,
    sample: BoostingRows,
    tools: Tools,
    scores: Array,
    plan: Plan,
    generator: np.random.Generator,
) -> tuple[list[Trees], Array]:
    """Grow one tree for each output; return the trees and the new scores of all rows, drawn or not."""
    xp, columns = place.xp, sample.columns
    gradients = _derive(place, sample, tools, scores)
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
    trees, has_order = [], rows.shape[0] == n and not isinstance(tools.body, str)
    for c, grown in enumerate(_grow_trees(place, columns, gradients, rows, plan.rule, tools.units, is_used)):
        trees.append(grown.tree)
        if has_order and not isinstance(tools.body, str):
            scores[c, :] = tools.body.step(scores[c, :], columns, grown.nodes, grown.order, grown.step)
    if not has_order:
        scores = scores + _score(place, columns, trees, columns.bins)
    return trees, scores


def _derive(place: Place, sample: BoostingRows, tools: Tools, scores: Array) -> Gradients:
    """Return the gradients of all rows."""
    if isinstance(tools.body, str):
        return log_loss_gradients(place.xp, tools.gradients, scores, sample.codes, sample.weights)
    return Gradients(*tools.body.derive(*tools.gradients, scores, sample.codes, sample.weights))


def _score(place: Place, columns: Columns, trees: list[Trees], bins: Array) -> Array:
    """Return what the trees of a round add to the scores (k, n) of rows."""
    packed, value = pack_grown(place, trees, columns.bins.shape[0], columns.n_numeric, columns.n_bins)
    return sum_scores(place.xp, bins, packed, value, len(trees))


# ---- the trees of a round


class Growth(NamedTuple):
    """A grown tree."""

    tree: Trees  # with the steps of its leaves as values
    nodes: Trees  # the same before it was cut back
    order: Array | None  # (m,) row ids in the order of `nodes`; None: rows must walk down the tree
    step: HostArray  # (nodes,) integers: the change that each of `nodes` makes to the scores of its rows


def _grow_trees(
    place: Place,
    columns: Columns,
    gradients: Gradients,
    rows: Array,
    rule: BoostingRule,
    units: Array,
    is_used: Sequence[Array | None],
) -> Iterator[Growth]:
    """Grow a tree for each output on `rows`, which ascend; `Growth.order` is overwritten by the next tree.

    `units` comes from `NewtonRule.in_units`; `is_used` (d,) marks the columns that each tree may split.
    """
    for c, used in enumerate(is_used):
        given = PackedGradients(gradients.packed[c, :], gradients.shifts[c : c + 1], units)
        grown = grow_newton_tree(place, columns, given, rows, rule.limits, rule.newton, used)
        nodes = _step_nodes(grown, rule)
        tree, leaf = _cut_back(nodes, rule.limits.max_leaf_nodes)
        yield Growth(tree, nodes, grown.order, tree.value[leaf])


def _step_nodes(grown: NewtonTree, rule: BoostingRule) -> Trees:
    """Return the nodes with their gains, and their values in units of the scores."""
    nodes = grown.nodes
    gradient, hessian = (part * grown.unit for part in unpack(nodes.sums[:, 0]))
    bounds = None if nodes.bounds is None else nodes.bounds.T
    value, score = side_values(gradient, hessian, rule.newton.l2, bounds)
    gain = np.zeros(value.shape[0])
    inner = np.nonzero(nodes.first_child != LEAF)[0]
    left = nodes.first_child[inner]
    gain[inner] = score[left] + score[left + 1] - score[inner]
    step = np.minimum(np.maximum(rule.learning_rate * value, -_LONGEST_STEP), _LONGEST_STEP)
    return nodes._replace(gain=gain, value=np.astype(np.round(step * (1 << SCORE_BITS)), np.int64))


def _cut_back(nodes: Trees, max_leaf_nodes: int | None) -> tuple[Trees, HostArray]:
    """Cut to `max_leaf_nodes`: return the tree, and the node of it in which the rows of each old node are."""
    n = nodes.feature.shape[0]
    if max_leaf_nodes is None:
        return nodes, np.arange(n)
    gain = np.where(nodes.gain > 0, nodes.gain, -np.inf)
    split = best_first(gain, nodes.first_child, max_leaf_nodes)
    kept_nodes, leaf_of = [True] * n, list(range(n))
    for node, below in enumerate(nodes.first_child.tolist()):  # parents come before their children
        if below != LEAF and not (kept_nodes[node] and node in split):
            for child_node in (below, below + 1):
                kept_nodes[child_node], leaf_of[child_node] = False, leaf_of[node]
    is_kept, leaf = np.asarray(kept_nodes), np.asarray(leaf_of)
    kept = np.nonzero(is_kept)[0]
    number = np.cumulative_sum(np.astype(is_kept, np.int64)) - 1
    child = nodes.first_child[kept]
    is_leaf = (child == LEAF) | ~np.isin(kept, list(split))
    child = np.where(is_leaf, LEAF, number[child])
    fields = {
        name: part[kept]
        for name, part in nodes._asdict().items()
        if part is not None and name not in ("roots", "rows")
    }
    tree = nodes._replace(**fields)._replace(first_child=child, rows=None)
    tree = tree._replace(
        feature=np.where(is_leaf, LEAF, tree.feature), gain=np.where(is_leaf, 0.0, tree.gain)
    )
    return tree, number[leaf]
