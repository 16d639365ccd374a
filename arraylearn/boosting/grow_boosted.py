"""Grow the boosted trees of a round, and turn their leaves into steps of the scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.namespace import Place
from arraylearn.boosting.gradients import SCORE_BITS, Gradients
from arraylearn.grow.columns import Columns
from arraylearn.grow.formulas import unpack
from arraylearn.grow.histograms.newton_trees import (
    NewtonRule,
    NewtonTree,
    PackedGradients,
    divide_as,
    grow_newton_tree,
    side_values,
)
from arraylearn.grow.histograms.node_blocks import BlockSplits
from arraylearn.grow.trees import LEAF, Limits, Trees, best_first

__all__ = ["BoostingRule", "Growth", "grow_trees"]

# One step of a tree moves a score by no more than this, in units of the log odds.
_LONGEST_STEP = 16.0


class BoostingRule(NamedTuple):
    """How the trees of a round grow."""

    limits: Limits  # `min_samples_leaf` counts rows of average hessian
    newton: NewtonRule
    learning_rate: float


class Growth(NamedTuple):
    """A grown tree and where the training rows ended."""

    tree: Trees  # with the steps of its leaves as values
    order: Array  # (m,) row ids
    splits: BlockSplits  # blocks of `order`; the last level is described here and not sorted
    steps: tuple[list[int], list[int]]  # of the left and the right side of each block


def grow_trees(
    place: Place,
    columns: Columns,
    gradients: Gradients,
    rows: Array,
    rule: BoostingRule,
    units: Array,
    is_used: Sequence[Array | None],
) -> Iterator[Growth]:
    """Grow a tree for each line of `gradients` on `rows`, which ascend; its order lasts until the next one.

    `units` comes from `NewtonRule.in_units`; `is_used` (d,) marks the columns that each tree may split.
    """
    for c, used in enumerate(is_used):
        given = PackedGradients(gradients.packed[c, :], gradients.shifts[c : c + 1], units)
        grown = grow_newton_tree(place, columns, given, rows, rule.limits, rule.newton, used)
        yield _finish(place, columns, grown, rule)


def _finish(place: Place, columns: Columns, grown: NewtonTree, rule: BoostingRule) -> Growth:
    """Give the nodes their steps, and describe what each row adds to its score."""
    nodes = _step_nodes(grown, rule)
    assert nodes.rows is not None
    start, size = nodes.rows
    left = nodes.first_child
    inner = np.nonzero(left != LEAF)[0]
    parents = inner[start[left[inner]] < 0]
    tree, leaf = _cut_back(nodes, rule.limits.max_leaf_nodes)
    assert tree.value is not None
    step = tree.value[leaf]
    ends = np.nonzero((left == LEAF) & (start >= 0))[0]
    below = left[parents]
    sides = (np.concat((step[below + side], step[ends])).tolist() for side in (0, 1))
    split = divide_as(place, columns, nodes, parents)
    # blocks of leaves come after those that are split; no bin is above such a threshold
    kept = (start[ends].tolist(), size[ends].tolist(), [0] * len(ends), [1 << 30] * len(ends))
    fields = ([*one, *other] for one, other in zip(split[:4], kept, strict=True))
    return Growth(tree, grown.order, BlockSplits(*fields, split.goes_right), (next(sides), next(sides)))


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


def _cut_back(nodes: Trees, max_leaf_nodes: int | None) -> tuple[Trees, Any]:
    """Return the tree of the leaves that count, and the node of it that stands for each node's rows."""
    n = nodes.feature.shape[0]
    leaf = np.arange(n)
    if max_leaf_nodes is None:
        return nodes, leaf
    split = np.zeros(n, dtype=bool)
    split[list(best_first(nodes.gain, nodes.first_child, max_leaf_nodes))] = True
    child = np.where(split, nodes.first_child, LEAF)
    is_kept = np.zeros(n, dtype=bool)
    is_kept[0] = True
    for node in np.nonzero(nodes.first_child != LEAF)[0].tolist():  # parents come before their children
        below = nodes.first_child[node] + np.arange(2)
        is_kept[below] = is_kept[node] and child[node] != LEAF
        leaf[below] = np.where(is_kept[below], below, leaf[node])
    kept = np.nonzero(is_kept)[0]
    number = np.cumulative_sum(np.astype(is_kept, np.int64)) - 1
    child = np.where(child[kept] == LEAF, LEAF, number[child[kept]])
    fields = {
        name: part[kept]
        for name, part in nodes._asdict().items()
        if part is not None and name not in ("roots", "rows")
    }
    tree = nodes._replace(**fields)._replace(first_child=child, rows=None)
    is_leaf = child == LEAF
    tree = tree._replace(
        feature=np.where(is_leaf, LEAF, tree.feature), gain=np.where(is_leaf, 0.0, tree.gain)
    )
    return tree, number[leaf]
