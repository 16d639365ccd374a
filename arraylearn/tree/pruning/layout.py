"""Where the nodes of a tree hang while it is being pruned, on the host, and the finished tree from that."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST
from arraylearn.tree.nodes import LEAF, Tree

__all__ = ["Layout", "children_of", "find_levels", "lay_out", "sum_children_of"]


class Layout(NamedTuple):
    """The shape of a tree over the nodes of a grown one: host arrays (t,)."""

    split_of: Any  # the grown node whose split stands here
    first_child: Any
    n_branches: Any  # 0 for a leaf

    def cut(self, nodes: Any) -> Layout:
        """Turn nodes into leaves."""
        return self._replace(n_branches=_with(self.n_branches, nodes, 0))

    def lift(self, nodes: Any, branches: Any) -> Layout:
        """Put other nodes, with all that hangs below them, in the place of nodes."""
        return Layout(*(_with(field, nodes, field[branches]) for field in self))


def _with(field: Any, nodes: Any, values: Any) -> Any:
    made = np.asarray(field, copy=True)
    made[nodes] = values
    return made


def children_of(layout: Layout, nodes: Any) -> tuple[Any, Any]:
    """Children of the nodes, side by side, and which node (its position) each belongs to."""
    n_branches = layout.n_branches[nodes]
    owner = np.repeat(np.arange(nodes.shape[0]), n_branches)
    start = np.cumulative_sum(n_branches) - n_branches
    return layout.first_child[nodes][owner] + np.arange(owner.shape[0]) - start[owner], owner


def find_levels(layout: Layout, roots: Any) -> list[Any]:
    """Nodes of each level from the roots (r,) down."""
    levels = [roots]
    while True:
        below, _ = children_of(layout, levels[-1])
        if below.shape[0] == 0:
            return levels
        levels.append(below)


def sum_children_of(layout: Layout, nodes: Any, values: Any) -> Any:
    """Sum values (t,) over the children of each of the nodes (k,)."""
    child, owner = children_of(layout, nodes)
    return histogram(HOST.xp, owner, nodes.shape[0], values[child])


def lay_out(tree: Tree, layout: Layout, counts: Any, impurity: Any) -> Tree:
    """Make a tree in level order of a layout over a grown host tree, with the counts (t, c) of its nodes."""
    levels = find_levels(layout, np.zeros(1, dtype=np.int64))
    nodes = np.concat(levels)
    depth = np.repeat(np.arange(len(levels)), np.asarray([level.shape[0] for level in levels]))
    split, n_branches = layout.split_of[nodes], layout.n_branches[nodes]
    inner = n_branches > 0
    _, owner = children_of(layout, nodes)
    parent = np.concat((np.asarray([-1]), owner))  # the children come in the order of the nodes
    first_child = 1 + np.cumulative_sum(n_branches) - n_branches
    weight = np.sum(counts[nodes], axis=1)
    probability = counts[nodes] / np.where(weight > 0, weight, 1.0)[:, None]
    for level in range(1, len(levels)):
        empty = np.nonzero((depth == level) & (weight <= 0))[0]
        probability[empty] = probability[parent[empty]]

    def only_inner(values: Any, fill: Any) -> Any:
        return np.where(inner, values, np.asarray(fill, dtype=values.dtype))

    def whole(values: Any) -> Any:
        return np.astype(values, np.int32)

    return Tree(
        kind=only_inner(tree.kind[split], LEAF),
        feature=only_inner(tree.feature[split], -1),
        threshold=only_inner(tree.threshold[split], 0.0),
        first_child=whole(np.where(inner, first_child, -1)),
        n_branches=whole(n_branches),
        map_start=only_inner(tree.map_start[split], 0),
        category_branch=tree.category_branch,
        default_branch=only_inner(tree.default_branch[split], 0),
        parent=whole(parent),
        depth=whole(depth),
        counts=counts[nodes],
        probability=probability,
        impurity=impurity(HOST.xp, counts[nodes]),
        gain=only_inner(tree.gain[split], 0.0),
    )
