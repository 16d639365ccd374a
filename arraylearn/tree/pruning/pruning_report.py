"""The report of a pruning: nodes and errors before and after, and level by level."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.grow.cut import count_errors, levels_of
from arraylearn.grow.trees import Trees, check_tree, tree_on_host
from arraylearn.tree.pruning.tree_shape import TreeShape, children_of, find_levels, shape_of

__all__ = [
    "PruningReport",
    "PruningStep",
    "Size",
    "pruning_report",
    "report_cuts",
    "size_of",
    "size_of_shape",
]


class Size(NamedTuple):
    """Nodes, leaves and training errors of a tree."""

    n_nodes: int
    n_leaves: int
    errors: float  # weight of the training rows that the leaves get wrong


class PruningStep(NamedTuple):
    """The changes at one level; the levels below were pruned before."""

    depth: int
    n_cut: int  # nodes that became leaves
    n_raised: int  # nodes that were replaced by their largest branch
    size: Size  # of the tree after that


class PruningReport(NamedTuple):
    """Sizes of a tree before and after pruning, and the steps between."""

    before: Size
    after: Size
    steps: tuple[PruningStep, ...]

    def __str__(self) -> str:
        lines = [f"{'':12}{'nodes':>8}{'leaves':>8}{'errors':>10}{'cut':>6}{'raised':>8}"]
        lines.append(_entry("before", self.before))
        lines += [
            _entry(f"depth {step.depth}", step.size) + f"{step.n_cut:6d}{step.n_raised:8d}"
            for step in self.steps
        ]
        return "\n".join([*lines, _entry("after", self.after)])


def _entry(name: str, size: Size) -> str:
    return f"{name:12}{size.n_nodes:8d}{size.n_leaves:8d}{size.errors:10.6g}"


def pruning_report(before: Trees, after: Trees) -> PruningReport:
    """Compare a tree with what pruning left of it.

    Parameters
    ----------
    before : Trees
        The grown tree.
    after : Trees
        The same tree with some nodes turned into leaves.

    Returns
    -------
    PruningReport
        ``str(report)`` is a table. The steps are the cuts that show in the two trees, the deepest first; cuts
        below other cuts are only in the report of a fit, ``pruning_report_``. Errors are the weight of the
        training rows that leaves get wrong.

    Examples
    --------
    >>> from arraylearn import DecisionTreeClassifier
    >>> from arraylearn.tree.pruning import Pessimistic, prune, pruning_report
    >>> grown = DecisionTreeClassifier().fit([[1], [2], [3], [4], [5]], [0, 0, 1, 0, 0]).tree_
    >>> print(pruning_report(grown, prune(grown, Pessimistic(1.0))))
                   nodes  leaves    errors   cut  raised
    before             5       3         0
    depth 0            1       1         1     1       0
    after              1       1         1
    """
    old, new = tree_on_host(check_tree(before)), tree_on_host(check_tree(after))
    return PruningReport(size_of(old), size_of(new), tuple(_steps_of_cuts(old, _find_cuts(old, new))))


def report_cuts(before: Trees, is_cut: HostArray, after: Trees) -> PruningReport:
    """Report the cuts at the nodes `is_cut` (t,), also those below nodes that were cut later."""
    old, new = tree_on_host(before), tree_on_host(after)
    return PruningReport(size_of(old), size_of(new), tuple(_steps_of_cuts(old, is_cut)))


def size_of(tree: Trees) -> Size:
    """Count nodes, leaves and training errors of a host tree."""
    is_leaf = tree.is_leaf
    n_leaves = int(np.sum(np.astype(is_leaf, np.int64)))
    return Size(tree.n_nodes, n_leaves, _round(np.sum(count_errors(tree.counts)[is_leaf])))


def _round(errors: float) -> float:
    """Round the errors: fractions of rows do not sum exactly."""
    return round(float(errors), 9)


def _find_cuts(old: Trees, new: Trees) -> HostArray:
    """Find the inner nodes (t,) of the old tree that are leaves of the new one."""
    old_shape, new_shape = shape_of(old), shape_of(new)
    old_node, new_node = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    is_cut = np.zeros(old.n_nodes, dtype=np.bool)
    while new_node.shape[0]:
        stays = new_shape.n_branches[new_node] > 0
        same = (old.feature[old_node] == new.feature[new_node]) & (
            old_shape.n_branches[old_node] == new_shape.n_branches[new_node]
        )
        if not bool(np.all(same[stays])):
            raise ValueError(
                "`after` must be `before` with some nodes turned into leaves; its splits differ."
            )
        is_cut[old_node[~stays]] = old_shape.n_branches[old_node[~stays]] > 0
        old_node, _ = children_of(old_shape, old_node[stays])
        new_node, _ = children_of(new_shape, new_node[stays])
    return is_cut


def _steps_of_cuts(tree: Trees, is_cut: HostArray) -> list[PruningStep]:
    """Cut the marked nodes level by level, the deepest first, in one pass over the tree."""
    # rows: nodes, leaves, errors; of each node as a leaf, and of its subtree as pruned so far
    as_leaf = np.stack((np.ones(tree.n_nodes), np.ones(tree.n_nodes), count_errors(tree.counts)))
    below = np.where(tree.is_leaf, as_leaf, 0.0)
    size, parent = np.asarray([float(number) for number in size_of(tree)]), tree.parent
    levels = levels_of(tree)
    steps: list[PruningStep] = []
    for depth in reversed(range(len(levels))):
        inner = levels[depth][~tree.is_leaf[levels[depth]]]
        if depth + 1 < len(levels):
            below_here = levels[depth + 1]
            np.add.at(below.T, parent[below_here], below[:, below_here].T)
            below[0, inner] += 1
        cut = inner[is_cut[inner]]
        if cut.shape[0]:
            size = size + np.sum(as_leaf[:, cut] - below[:, cut], axis=1)
            below[:, cut] = as_leaf[:, cut]
            now = Size(int(size[0]), int(size[1]), _round(size[2]))
            steps.append(PruningStep(depth, int(cut.shape[0]), 0, now))
    return steps


def size_of_shape(shape: TreeShape, errors: HostArray) -> Size:
    """Count nodes, leaves and errors of a tree from the errors (t,) of each node as a leaf."""
    nodes = np.concat(find_levels(shape, np.zeros(1, dtype=np.int64)))
    is_leaf = shape.n_branches[nodes] == 0
    n_leaves = int(np.sum(np.astype(is_leaf, np.int64)))
    return Size(int(nodes.shape[0]), n_leaves, _round(np.sum(errors[nodes][is_leaf])))
