"""The shape of a tree during pruning, on the host, and the finished tree made from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST
from arraylearn.grow.trees import LEAF, NO_MAP, NO_PARENT, Trees
from arraylearn.measures.count_measures import Measure

__all__ = ["TreeShape", "children_of", "find_levels", "make_tree", "shape_of", "sum_children_of"]


class TreeShape(NamedTuple):
    """The present split and children of each node of a grown tree: host arrays (t,).

    ::

        grown            cut node 1       raise node 2 into node 0
           0                0                0 (split_of 2, first_child 5)
         1    2           1   2            5   6
        3 4  5 6             5 6
    """

    split_of: HostArray  # the grown node whose split the node has
    first_child: HostArray  # the node whose number the first child has; siblings follow
    n_branches: HostArray  # 0 for a leaf

    def cut(self, nodes: HostArray) -> TreeShape:
        """Turn nodes into leaves."""
        return self._replace(n_branches=_with(self.n_branches, nodes, 0))

    def raise_branches(self, nodes: HostArray, branches: HostArray) -> TreeShape:
        """Put branches, with all nodes below them, in the place of nodes."""
        return TreeShape(*(_with(field, nodes, field[branches]) for field in self))


def _with(field: HostArray, nodes: HostArray, values: HostArray | int) -> HostArray:
    made = np.asarray(field, copy=True)
    made[nodes] = values
    return made


def shape_of(tree: Trees) -> TreeShape:
    """Return the shape of a host tree."""
    numbers = (np.astype(field, np.int64) for field in (tree.first_child, tree.n_branches))
    return TreeShape(np.arange(tree.n_nodes), *numbers)


def children_of(shape: TreeShape, nodes: HostArray) -> tuple[HostArray, HostArray]:
    """Children of the nodes (k,), one after the other, and the position of the parent of each in `nodes`."""
    n_branches = shape.n_branches[nodes]
    owner = np.repeat(np.arange(nodes.shape[0]), n_branches)
    start = np.cumulative_sum(n_branches) - n_branches
    return shape.first_child[nodes][owner] + np.arange(owner.shape[0]) - start[owner], owner


def find_levels(shape: TreeShape, roots: HostArray) -> list[HostArray]:
    """Nodes of each level from the roots (r,) down."""
    levels = [roots]
    while True:
        below, _ = children_of(shape, levels[-1])
        if below.shape[0] == 0:
            return levels
        levels.append(below)


def sum_children_of(shape: TreeShape, nodes: HostArray, values: HostArray) -> HostArray:
    """Sum values (t,) over the children of each of the nodes (k,)."""
    child, owner = children_of(shape, nodes)
    sums: HostArray = histogram(HOST.xp, owner, nodes.shape[0], values[child])
    return sums


def make_tree(tree: Trees, shape: TreeShape, counts: HostArray, impurity: Measure) -> Trees:
    """Make a tree in level order from a grown host tree, its new shape and the counts (t, c) of its nodes."""
    levels = find_levels(shape, np.zeros(1, dtype=np.int64))
    nodes = np.concat(levels)
    depth = np.repeat(np.arange(len(levels)), np.asarray([level.shape[0] for level in levels]))
    split, n_branches = shape.split_of[nodes], shape.n_branches[nodes]
    inner = n_branches > 0
    _, owner = children_of(shape, nodes)
    parent = np.concat((np.asarray([NO_PARENT]), owner))  # the children are in the order of their parents
    first_child = 1 + np.cumulative_sum(n_branches) - n_branches
    weight = np.sum(counts[nodes], axis=1)
    probability = counts[nodes] / np.where(weight > 0, weight, 1.0)[:, None]
    for level in range(1, len(levels)):
        empty = np.nonzero((depth == level) & (weight <= 0))[0]
        probability[empty] = probability[parent[empty]]

    def only_inner(values: HostArray, fill: float) -> HostArray:
        return np.where(inner, values, np.asarray(fill, dtype=values.dtype))

    def as_int32(values: HostArray) -> HostArray:
        return np.astype(values, np.int32)

    return tree._replace(
        feature=only_inner(tree.feature[split], LEAF),
        threshold=only_inner(tree.threshold[split], 0.0),
        first_child=as_int32(np.where(inner, first_child, LEAF)),
        depth=as_int32(depth),
        height=len(levels) - 1,
        gain=only_inner(tree.gain[split], 0.0),
        n_branches=as_int32(n_branches),
        default_branch=only_inner(tree.default_branch[split], 0),
        map_start=only_inner(tree.map_start[split], NO_MAP),
        counts=counts[nodes],
        probability=probability,
        impurity=impurity(HOST.xp, counts[nodes]),
    )
