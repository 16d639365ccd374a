"""Subtree raising: a node is replaced by its largest branch where that is better (C4.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.arrays.segments import segment_max
from arraylearn.backend.namespace import HOST
from arraylearn.grow.cut import count_errors
from arraylearn.grow.trees import LEAF, Trees
from arraylearn.measures import IMPURITIES
from arraylearn.measures.count_measures import Measure
from arraylearn.tree.predict import make_branching
from arraylearn.tree.pruning.held_out import Sample
from arraylearn.tree.pruning.levels import TIE
from arraylearn.tree.pruning.pruning_report import PruningStep, size_of_shape
from arraylearn.tree.pruning.row_parts import RowParts, keep_at, send_down, start_at_root, tally
from arraylearn.tree.pruning.tree_shape import (
    children_of,
    find_levels,
    make_tree,
    shape_of,
    sum_children_of,
)
from arraylearn.walk.spread import BranchingTree

__all__ = ["Estimate", "prune_and_raise"]

# Returns the errors (k,) expected of leaves, from the class weights (k, c) of their training rows and the
# weight (k,) of the held-out rows that they get wrong (0 without held-out rows).
Estimate = Callable[[HostArray, HostArray], HostArray]


class _Frame(NamedTuple):
    """Subtrees to be pruned, level by level from below."""

    levels: list[HostArray]  # nodes of each level, the first one the roots of the subtrees
    parts: list[list[RowParts]]  # of each sample, the parts of rows at the nodes of each level


def prune_and_raise(
    tree: Trees,
    training: Sample,
    estimate: Estimate,
    *,
    slack: float = 0.0,
    held_out: Sample | None = None,
    impurity: Measure = IMPURITIES["entropy"],
) -> tuple[Trees, list[PruningStep]]:
    """Prune from the leaves up; each node stays, turns into a leaf or is replaced by its largest branch.

    A raised branch gets all rows of the node, and is pruned again with them. All nodes of a level are judged
    at once, on the host.

    Parameters
    ----------
    tree : Trees
        A grown tree on the host; it stays as it is.
    training : Sample
        The rows that it was grown from.
    estimate : callable
        Errors expected of leaves.
    slack : float
        A leaf, and then a raised branch, may have this many errors more.
    held_out : Sample, optional
        Rows for the estimate, beside the training rows.
    impurity : callable
        Impurity of the nodes of the new tree.

    Returns
    -------
    tree : Trees
        On the host.
    steps : list of PruningStep
        The levels at which nodes were cut or raised.
    """
    if tree.surrogates is not None:
        raise ValueError(
            "subtrees cannot be raised where missing values follow surrogates. Set raising=False or "
            "another policy for missing values, such as `missing='fractional'`."
        )
    samples = [training] if held_out is None else [training, held_out]
    work = _Work(tree, [sample.on_host() for sample in samples], estimate, slack + TIE)
    steps = work.run()
    return make_tree(work.tree, work.shape, work.counts, impurity), steps


class _Work:
    """The state of a tree while nodes are cut and branches raised."""

    def __init__(self, tree: Trees, samples: list[Sample], estimate: Estimate, slack: float) -> None:
        self.tree, self.samples, self.estimate, self.slack = tree, samples, estimate, slack
        n = tree.n_nodes
        self.shape = shape_of(tree)
        self.counts = np.zeros((n, tree.n_classes))  # training rows at each node, as of now
        self.wrong = np.zeros(n)  # held-out rows that each node as a leaf gets wrong
        self.cost = np.zeros(n)  # errors expected of the subtree of each node
        self._walker: BranchingTree | None = None  # made from `shape` when needed; None after `shape` changed

    def run(self) -> list[PruningStep]:
        """Prune all levels; the stack holds frames whose raised subtrees are to be pruned first."""
        frames = [self._open(np.zeros(1, dtype=np.int64), [start_at_root(sample) for sample in self.samples])]
        steps = []
        n_cut = n_raised = 0
        while frames:
            frame = frames[-1]
            nodes, parts = frame.levels.pop(), [part.pop() for part in frame.parts]
            cut, raised = self._decide(nodes, parts)
            n_cut, n_raised = n_cut + cut.shape[0], n_raised + raised.shape[0]
            if raised.shape[0]:
                frames.append(self._open(raised, self._keep(parts, raised, raised)))
                continue
            while frames and not frames[-1].levels:
                frames.pop()
            if len(frames) <= 1 and n_cut + n_raised:
                depth = len(frames[0].levels) if frames else 0
                size = size_of_shape(self.shape, count_errors(self.counts))
                steps.append(PruningStep(depth, n_cut, n_raised, size))
                n_cut = n_raised = 0
        return steps

    def _open(self, roots: HostArray, parts: list[RowParts]) -> _Frame:
        """Route rows down from some roots and record which rows reach each node."""
        levels = find_levels(self.shape, roots)
        arrivals = self._send(parts)
        below = np.concat(levels)
        counts, wrong = self._tally(levels, arrivals)
        self.counts[below] = counts[below]
        self.wrong[below] = wrong[below]
        # the last parts are empty; they also stand for deeper levels that no row reaches
        padded = [reached + reached[-1:] * len(levels) for reached in arrivals]
        return _Frame(levels, [reached[: len(levels)] for reached in padded])

    def _send(self, parts: list[RowParts]) -> list[list[RowParts]]:
        tables = [sample.table for sample in self.samples]
        return send_down(self._walk(), list(zip(tables, parts, strict=True)))

    def _keep(self, parts: list[RowParts], nodes: HostArray, goes_to: HostArray) -> list[RowParts]:
        return [keep_at(part, nodes, goes_to, self.tree.n_nodes) for part in parts]

    def _decide(self, nodes: HostArray, parts: list[RowParts]) -> tuple[HostArray, HostArray]:
        """Decide on the nodes of a level, after those below; return the nodes that were cut and raised."""
        shape = self.shape
        as_leaf = self.estimate(self.counts[nodes], self.wrong[nodes])
        self.cost[nodes] = as_leaf
        is_inner = shape.n_branches[nodes] > 0
        inner, as_leaf = nodes[is_inner], as_leaf[is_inner]
        if inner.shape[0] == 0:
            return inner, inner
        as_tree = sum_children_of(shape, inner, self.cost)
        self.cost[inner] = as_tree
        largest = self._largest(inner)
        as_branch = self._branch_costs(inner, largest, parts)
        is_cut = (as_leaf <= as_tree + self.slack) & (as_leaf <= as_branch + self.slack)
        is_raised = ~is_cut & (as_branch <= as_tree + self.slack)
        self.cost[inner[is_cut]] = as_leaf[is_cut]
        if bool(np.any(is_cut | is_raised)):
            self.shape = shape.cut(inner[is_cut]).raise_branches(inner[is_raised], largest[is_raised])
            self._walker = None
        return inner[is_cut], inner[is_raised]

    def _tally(self, levels: list[HostArray], arrivals: list[list[RowParts]]) -> tuple[HostArray, HostArray]:
        """Class weights (t, c) of the training rows; held-out rows (t,) that nodes as leaves get wrong."""
        size = self.counts.shape
        pairs = zip(arrivals, self.samples, strict=True)
        counts, *held_out = (tally(reached, sample.codes, *size) for reached, sample in pairs)
        wrong = np.zeros(size[0])
        if held_out:
            label = np.argmax(counts, axis=1)
            for above in levels[:-1]:  # a node without rows predicts as its parent
                child, owner = children_of(self.shape, above)
                is_empty = np.sum(counts[child], axis=1) <= 0
                label[child] = np.where(is_empty, label[above[owner]], label[child])
            wrong = np.sum(held_out[0], axis=1) - held_out[0][np.arange(size[0]), label]
        return counts, wrong

    def _largest(self, nodes: HostArray) -> HostArray:
        """Return the child of the largest weight; the last among equals, as in C4.5's successors."""
        child, owner = children_of(self.shape, nodes)
        weight = np.sum(self.counts[child], axis=1)
        is_largest = weight >= segment_max(HOST.xp, weight, owner, nodes.shape[0])[owner] - TIE
        largest: HostArray = segment_max(HOST.xp, np.where(is_largest, child, -1), owner, nodes.shape[0])
        return largest

    def _branch_costs(self, nodes: HostArray, largest: HostArray, parts: list[RowParts]) -> HostArray:
        """Errors expected if all rows of each node were sent to its largest branch."""
        arrivals = self._send(self._keep(parts, nodes, largest))
        levels = find_levels(self.shape, largest)
        counts, wrong = self._tally(levels, arrivals)
        cost = np.zeros(self.tree.n_nodes)
        for here in reversed(levels):
            cost[here] = self.estimate(counts[here], wrong[here])
            inner = here[self.shape.n_branches[here] > 0]
            cost[inner] = sum_children_of(self.shape, inner, cost)
        return cost[largest]

    def _walk(self) -> BranchingTree:
        """Return the tree of the present shape, prepared for sending rows down."""
        if self._walker is None:
            shape, tree = self.shape, self.tree
            is_leaf = shape.n_branches == 0
            moved = tree._replace(
                feature=np.where(is_leaf, np.int32(LEAF), tree.feature[shape.split_of]),
                threshold=tree.threshold[shape.split_of],
                first_child=np.where(is_leaf, LEAF, shape.first_child),
                n_branches=shape.n_branches,
                map_start=tree.map_start[shape.split_of],
                default_branch=tree.default_branch[shape.split_of],
            )
            self._walker = make_branching(HOST, moved, self.samples[0].schema)
        return self._walker
