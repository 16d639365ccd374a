"""Trees made by hand, at random or from scikit-learn's, for the tests of pruning."""

from __future__ import annotations

import numpy as np

from arraylearn.backend.namespace import Place
from arraylearn.grow.trees import Trees, tree_at


def place_of(rung):
    return Place(rung.load(), rung.device)


def make_tree(nested, rung=None):
    """A tree from ``counts`` for a leaf and ``[child, child, ...]`` for a split; numbers as its columns."""
    levels, level = [], [nested]
    while level:
        levels.append(level)
        level = [child for node in level if is_inner(node) for child in node]
    nodes = [node for level in levels for node in level]
    counts = np.array([total(node) for node in nodes], dtype=float)
    inner = np.array([is_inner(node) for node in nodes])
    n_branches = np.array([len(node) if is_inner(node) else 0 for node in nodes], dtype=np.int32)
    return finish(
        counts,
        n_branches,
        depth=np.repeat(np.arange(len(levels)), [len(level) for level in levels]).astype(np.int32),
        feature=np.where(inner, 0, -1),
        threshold=np.zeros(len(nodes)),
        rung=rung,
    )


def is_inner(node):
    return isinstance(node[0], list)


def total(node):
    return np.sum([total(child) for child in node], axis=0) if is_inner(node) else np.array(node, dtype=float)


def finish(counts, n_branches, *, depth, feature, threshold, rung=None, impurity=None):
    n, inner = len(counts), n_branches > 0
    weight = counts.sum(axis=1)
    shares = counts / np.where(weight > 0, weight, 1)[:, None]
    first_child = np.where(inner, 1 + np.cumsum(n_branches) - n_branches, -1)
    tree = Trees(
        roots=np.zeros(1, np.int32),
        feature=feature.astype(np.int32),
        threshold=threshold,
        first_child=first_child.astype(np.int32),
        n_branches=n_branches.astype(np.int32),
        map_start=np.full(n, -1, np.int32),
        category_branch=np.zeros(0, np.int32),
        default_branch=np.zeros(n, np.int32),
        depth=depth.astype(np.int32),
        height=int(depth[-1]),
        counts=counts,
        probability=shares,
        impurity=1 - (shares**2).sum(axis=1) if impurity is None else impurity,
        gain=np.zeros(n),
    )
    return tree if rung is None else tree_at(tree, place_of(rung))


def random_tree(rng, n_leaves, n_classes=3, rung=None):
    """Split random leaves of a root in two or three until there are enough."""

    def grow(n):
        if n == 1:
            return rng.integers(0, 6, n_classes).tolist()
        ways = min(n, int(rng.integers(2, 4)))
        cuts = np.sort(rng.choice(np.arange(1, n), ways - 1, replace=False))
        return [grow(int(size)) for size in np.diff([0, *cuts, n])]

    return make_tree(grow(n_leaves), rung)


def from_scikit_learn(model):
    """The same tree in level order."""
    old = model.tree_
    order, depth, level, d = [], [], [0], 0
    while level:
        order += level
        depth += [d] * len(level)
        pairs = [(old.children_left[i], old.children_right[i]) for i in level if old.children_left[i] >= 0]
        level = [child for pair in pairs for child in pair]
        d += 1
    order_array = np.array(order)
    inner = old.children_left[order_array] >= 0
    return finish(
        old.value[order_array, 0, :] * old.weighted_n_node_samples[order_array, None],
        np.where(inner, 2, 0),
        depth=np.array(depth),
        feature=np.where(inner, old.feature[order_array], -1),
        threshold=np.where(inner, old.threshold[order_array], 0.0),
        impurity=old.impurity[order_array],
    )


def size_and_errors(tree):
    """Nodes and training errors of a host tree."""
    is_leaf = tree.is_leaf
    return tree.n_nodes, float((tree.counts.sum(axis=1) - tree.counts.max(axis=1))[is_leaf].sum())
