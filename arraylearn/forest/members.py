"""Single trees of a forest: cut back after growth, and turned into trees over values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.namespace import HOST, to_host
from arraylearn.forest.grove import SHARE_UNIT, Grove
from arraylearn.grow.cut import cut_at, cut_weak
from arraylearn.grow.split import SplitRule
from arraylearn.grow.trees import Trees, tree_on_host
from arraylearn.table import Schema
from arraylearn.table.binning import Binning
from arraylearn.tree.over_values import HostBinning, take_tree, tree_over_values
from arraylearn.tree.pruning.cost_complexity import cost_complexity_cuts

__all__ = ["cut_back", "members_of", "node_ranges"]


def cut_back(trees: Trees, rule: SplitRule, least: float, max_leaf_nodes: int | None, alpha: float) -> Trees:
    """Cut grown trees as `min_impurity_decrease`, `max_leaf_nodes` and `ccp_alpha` ask for."""
    if least > 0 or max_leaf_nodes is not None:
        weight = np.sum(trees.sums[trees.roots], axis=1)
        trees = cut_weak(trees, trees.gain, weight, least, max_leaf_nodes)
    if alpha <= 0:
        return trees
    counts = np.astype(trees.sums, np.float64)
    grown = trees._replace(counts=counts, impurity=rule.impurity(HOST.xp, counts), sums=None, gain=None)
    cuts = [
        cost_complexity_cuts(take_tree(grown, start, end), alpha=alpha) for start, end in node_ranges(trees)
    ]
    return cut_at(trees, np.concat(cuts))


def node_ranges(trees: Trees) -> Iterator[tuple[int, int]]:
    """Yield where the nodes of each tree begin and end."""
    roots = to_host(trees.roots).tolist()
    return zip(roots, [*roots[1:], trees.n_nodes], strict=True)


def members_of(grove: Grove, binning: Binning, schema: Schema, rule: SplitRule) -> Iterator[Trees]:
    """Yield each tree as one over values and categories, like single trees; missing values go right."""
    trees, shares = tree_on_host(grove.trees), to_host(grove.trees.probability) * SHARE_UNIT
    # shares hold 20 bits, so that their products with the integer weight are rounded
    counts = np.round(shares * np.astype(to_host(grove.weight), np.float64)[:, None])
    trees = trees._replace(counts=counts, depth=_depths(trees), impurity=rule.impurity(HOST.xp, counts))
    on_host = HostBinning.of(binning)
    for start, end in node_ranges(trees):
        yield tree_over_values(take_tree(trees, start, end), on_host, schema)


def _depths(trees: Trees) -> HostArray:
    """Return the depth (m,) of each node; models do not store it."""
    depth = np.zeros(trees.n_nodes, dtype=np.int32)
    at = np.nonzero(~trees.is_leaf[trees.roots])[0]
    nodes = trees.roots[at]
    while nodes.shape[0]:
        child = trees.first_child[nodes]
        below = np.concat((child, child + 1))
        depth[below] = np.concat((depth[nodes], depth[nodes])) + 1
        nodes = below[~trees.is_leaf[below]]
    return depth
