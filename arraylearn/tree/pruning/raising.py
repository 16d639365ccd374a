"""Subtree raising: a node makes room for its largest branch where that is better (C4.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.arrays.segments import segment_max
from arraylearn.backend.namespace import HOST, from_host, locate
from arraylearn.measures import IMPURITIES
from arraylearn.tree.nodes import LEAF, Tree, tree_at, tree_on_host
from arraylearn.tree.predict import Walker, make_walker
from arraylearn.tree.pruning.descent import Entries, Sample, enter, keep_at, send_down, tally
from arraylearn.tree.pruning.errors import count_errors
from arraylearn.tree.pruning.layout import Layout, children_of, find_levels, lay_out, sum_children_of
from arraylearn.tree.pruning.levels import TIE
from arraylearn.tree.pruning.report import PruningStep, size_of_layout

__all__ = ["Estimate", "prune_and_raise"]

# Errors (k,) expected of leaves: from class weights (k, c) of the training rows, and the held-out rows (k,)
# that they would get wrong, if there are any.
Estimate = Callable[[Any, Any], Any]


class _Frame(NamedTuple):
    """Subtrees to be pruned, level by level from below."""

    levels: list[Any]  # nodes of each level, the first one the roots of the subtrees
    entries: list[list[Entries]]  # of each sample, what is at the nodes of each level


def prune_and_raise(
    tree: Tree,
    training: Sample,
    estimate: Estimate,
    *,
    slack: float = 0.0,
    held_out: Sample | None = None,
    impurity: Any = IMPURITIES["entropy"],
) -> tuple[Tree, list[PruningStep]]:
    """Prune from below; each node stays, turns into a leaf or makes room for its largest branch.

    A raised branch takes the rows of the whole node, and is pruned again with them. All nodes of a level are
    judged at once; the rows go down at their place, what becomes of the nodes is decided on the host.

    Parameters
    ----------
    tree : Tree
        A grown tree; it stays as it is.
    training : Sample
        The rows that it was grown from.
    estimate : callable
        Errors expected of leaves.
    slack : float
        A leaf, and then a raised branch, may have this many errors more.
    held_out : Sample, optional
        Rows for the estimate, beside the training rows.
    impurity : callable
        What the nodes of the new tree report.

    Returns
    -------
    tree : Tree
        At the place of the old one.
    steps : list of PruningStep
        The levels at which something happened.
    """
    if tree.surrogates is not None:
        raise ValueError(
            "subtrees cannot be raised where missing values follow surrogates. Set `raise_subtrees=False` or "
            "another policy for missing values, such as `missing='fractional'`."
        )
    samples = [training] if held_out is None else [training, held_out]
    work = _Work(tree_on_host(tree), samples, estimate, slack + TIE)
    steps = work.run()
    return tree_at(lay_out(work.tree, work.layout, work.counts, impurity), locate(tree.kind)), steps


class _Work:
    """A tree while its subtrees move."""

    def __init__(self, tree: Tree, samples: list[Sample], estimate: Estimate, slack: float) -> None:
        self.tree, self.samples, self.estimate, self.slack = tree, samples, estimate, slack
        self.place = samples[0].place
        self.labels = [from_host(sample.codes, self.place, self.place.xp.int64) for sample in samples]
        n = tree.n_nodes
        first_child = np.astype(tree.first_child, np.int64)
        self.layout = Layout(np.arange(n), first_child, np.astype(tree.n_branches, np.int64))
        self.counts = np.zeros((n, tree.n_classes))
        self.wrong = np.zeros(n)
        self.cost = np.zeros(n)
        self._walker: Walker | None = None

    def run(self) -> list[PruningStep]:
        """Prune everything; frames on the stack wait for the subtrees raised inside them."""
        frames = [self._open(np.zeros(1, dtype=np.int64), [enter(sample) for sample in self.samples])]
        steps = []
        n_cut = n_raised = 0
        while frames:
            frame = frames[-1]
            nodes, entries = frame.levels.pop(), [part.pop() for part in frame.entries]
            cut, raised = self._decide(nodes, entries)
            n_cut, n_raised = n_cut + cut.shape[0], n_raised + raised.shape[0]
            if raised.shape[0]:
                frames.append(self._open(raised, self._keep(entries, raised, raised)))
                continue
            while frames and not frames[-1].levels:
                frames.pop()
            if len(frames) <= 1 and n_cut + n_raised:
                depth = len(frames[0].levels) if frames else 0
                size = size_of_layout(self.layout, count_errors(HOST.xp, self.counts))
                steps.append(PruningStep(depth, n_cut, n_raised, size))
                n_cut = n_raised = 0
        return steps

    def _open(self, roots: Any, entries: list[Entries]) -> _Frame:
        """Send rows down from some roots and take down who comes by."""
        levels = find_levels(self.layout, roots)
        arrivals = self._send(entries)
        below = np.concat(levels)
        counts, wrong = self._tally(levels, arrivals)
        self.counts[below] = counts[below]
        self.wrong[below] = wrong[below]
        # levels that no row reaches have the last entries, of which there are none
        padded = [parts + parts[-1:] * len(levels) for parts in arrivals]
        return _Frame(levels, [parts[: len(levels)] for parts in padded])

    def _send(self, entries: list[Entries]) -> list[list[Entries]]:
        tables = [sample.table for sample in self.samples]
        return send_down(self.place, self._walk(), list(zip(tables, entries, strict=True)))

    def _keep(self, entries: list[Entries], nodes: Any, goes_to: Any) -> list[Entries]:
        return [keep_at(self.place, part, nodes, goes_to, self.tree.n_nodes) for part in entries]

    def _decide(self, nodes: Any, entries: list[Entries]) -> tuple[Any, Any]:
        """Choose for each node of a level, those below being done; return which were cut and raised."""
        layout = self.layout
        as_leaf = self.estimate(self.counts[nodes], self.wrong[nodes])
        self.cost[nodes] = as_leaf
        is_inner = layout.n_branches[nodes] > 0
        inner, as_leaf = nodes[is_inner], as_leaf[is_inner]
        if inner.shape[0] == 0:
            return inner, inner
        as_tree = sum_children_of(layout, inner, self.cost)
        self.cost[inner] = as_tree
        largest = self._largest(inner)
        as_branch = self._branch_costs(inner, largest, entries)
        is_cut = (as_leaf <= as_tree + self.slack) & (as_leaf <= as_branch + self.slack)
        is_raised = ~is_cut & (as_branch <= as_tree + self.slack)
        self.cost[inner[is_cut]] = as_leaf[is_cut]
        if bool(np.any(is_cut | is_raised)):
            self.layout = layout.cut(inner[is_cut]).lift(inner[is_raised], largest[is_raised])
            self._walker = None
        return inner[is_cut], inner[is_raised]

    def _tally(self, levels: list[Any], arrivals: list[list[Entries]]) -> tuple[Any, Any]:
        """Class weights (t, c) of the training rows; held-out rows (t,) that nodes as leaves get wrong."""
        shape = self.counts.shape
        pairs = zip(arrivals, self.labels, strict=True)
        counts, *held_out = (tally(self.place, parts, labels, *shape) for parts, labels in pairs)
        wrong = np.zeros(shape[0])
        if held_out:
            label = np.argmax(counts, axis=1)
            for above in levels[:-1]:  # a node without rows says what its parent says
                child, owner = children_of(self.layout, above)
                is_empty = np.sum(counts[child], axis=1) <= 0
                label[child] = np.where(is_empty, label[above[owner]], label[child])
            wrong = np.sum(held_out[0], axis=1) - held_out[0][np.arange(shape[0]), label]
        return counts, wrong

    def _largest(self, nodes: Any) -> Any:
        """Return the child of the largest weight; the last among equals, as in C4.5's successors."""
        child, owner = children_of(self.layout, nodes)
        weight = np.sum(self.counts[child], axis=1)
        is_largest = weight >= segment_max(HOST.xp, weight, owner, nodes.shape[0])[owner] - TIE
        return segment_max(HOST.xp, np.where(is_largest, child, -1), owner, nodes.shape[0])

    def _branch_costs(self, nodes: Any, largest: Any, entries: list[Entries]) -> Any:
        """Errors expected were each node's rows all sent to its largest branch."""
        arrivals = self._send(self._keep(entries, nodes, largest))
        levels = find_levels(self.layout, largest)
        counts, wrong = self._tally(levels, arrivals)
        cost = np.zeros(self.tree.n_nodes)
        for here in reversed(levels):
            cost[here] = self.estimate(counts[here], wrong[here])
            inner = here[self.layout.n_branches[here] > 0]
            cost[inner] = sum_children_of(self.layout, inner, cost)
        return cost[largest]

    def _walk(self) -> Walker:
        """Return the tree as it is by now, ready for rows."""
        if self._walker is None:
            layout, tree = self.layout, self.tree
            is_leaf = layout.n_branches == 0
            moved = tree._replace(
                kind=np.where(is_leaf, np.int8(LEAF), tree.kind[layout.split_of]),
                feature=np.where(is_leaf, np.int32(-1), tree.feature[layout.split_of]),
                threshold=tree.threshold[layout.split_of],
                first_child=layout.first_child,
                n_branches=layout.n_branches,
                map_start=tree.map_start[layout.split_of],
                default_branch=tree.default_branch[layout.split_of],
            )
            self._walker = make_walker(self.place, moved, self.samples[0].schema)
        return self._walker
