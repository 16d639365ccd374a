"""The trees of a forest one by one: cut back after growth, and as trees over values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from arraylearn.backend.namespace import HOST, to_host
from arraylearn.forest.grove import SHARE_UNIT, Grove
from arraylearn.grow.cut import cut_at, cut_weak
from arraylearn.grow.split import SplitRule
from arraylearn.grow.trees import LEAF, Trees, tree_on_host
from arraylearn.table import Schema
from arraylearn.table.binning import Binning
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
        cost_complexity_cuts(_take_tree(grown, start, end), alpha=alpha) for start, end in node_ranges(trees)
    ]
    return cut_at(trees, np.concat(cuts))


def node_ranges(trees: Trees) -> Iterator[tuple[int, int]]:
    """Yield where the nodes of each tree begin and end."""
    roots = to_host(trees.roots).tolist()
    return zip(roots, [*roots[1:], trees.n_nodes], strict=True)


def _take_tree(trees: Trees, start: int, end: int) -> Trees:
    """Return one of many trees on the host, with as many branches as there are."""
    nodes = slice(start, end)
    child = trees.first_child[nodes]
    return Trees(
        roots=np.zeros(1, dtype=np.int32),
        feature=trees.feature[nodes],
        threshold=trees.threshold[nodes],
        first_child=np.where(child < 0, np.int32(LEAF), np.astype(child - start, np.int32)),
        depth=trees.depth[nodes],
        height=int(np.max(trees.depth[nodes])),
        n_branches=np.where(child < 0, np.int32(0), np.int32(2)),
        counts=trees.counts[nodes],
        impurity=trees.impurity[nodes],
    )


def members_of(grove: Grove, binning: Binning, schema: Schema, rule: SplitRule) -> Iterator[Trees]:
    """Yield each tree as one over values and categories, as single trees are; missing values go right."""
    trees, edges = tree_on_host(grove.trees), to_host(binning.edges)
    category_bin = to_host(binning.category_bin)
    columns = np.asarray([*schema.numeric_idx, *schema.nominal_idx])
    n_numeric = len(schema.numeric_idx)
    shares = np.astype(trees.probability, np.float64) * SHARE_UNIT
    weight = np.astype(to_host(grove.weight), np.float64)
    # weights are integers, of which shares keep the first 20 bits
    trees = trees._replace(counts=np.round(shares * weight[:, None]), depth=_depths(trees))
    trees = trees._replace(impurity=rule.impurity(HOST.xp, trees.counts))
    for start, end in node_ranges(trees):
        tree, share = _take_tree(trees, start, end), shares[start:end]
        is_inner = ~tree.is_leaf
        column, cut = np.where(is_inner, tree.feature, 0), np.where(is_inner, tree.threshold, 0)
        is_numeric = is_inner & (column < n_numeric)
        threshold = np.zeros(tree.n_nodes)
        # after the last bin of the numbers there are the missing values
        known = is_numeric & (cut < edges.shape[1])
        threshold[is_numeric] = np.inf
        threshold[known] = edges[column[known], cut[known]]
        nominal = np.nonzero(is_inner & ~is_numeric)[0]
        maps, starts, size = [np.zeros(0, dtype=np.int32)], np.full(tree.n_nodes, -1, dtype=np.int32), 0
        for node in nominal.tolist():
            at = int(column[node]) - n_numeric
            bins = category_bin[at, 1 : schema.n_values[at] + 1]
            maps.append(np.astype(bins > cut[node], np.int32))
            starts[node], size = size, size + bins.shape[0]
        held = np.sum(tree.counts, axis=1) * tree.impurity
        gain = np.zeros(tree.n_nodes)
        inner = np.nonzero(is_inner)[0]
        child = tree.first_child[inner]
        total = np.sum(tree.counts[inner], axis=1)
        gain[inner] = (held[inner] - held[child] - held[child + 1]) / np.where(total > 0, total, 1.0)
        yield tree._replace(
            feature=np.astype(np.where(is_inner, columns[column], LEAF), np.int32),
            threshold=threshold,
            gain=gain,
            default_branch=np.astype(is_inner, np.int32),
            map_start=starts,
            category_branch=np.concat(maps),
            probability=share / np.sum(share, axis=1, keepdims=True),
        )


def _depths(trees: Trees) -> Any:
    """Return the depth (m,) of each node of a model, which keeps none."""
    depth = np.zeros(trees.n_nodes, dtype=np.int32)
    at = np.nonzero(~trees.is_leaf[trees.roots])[0]
    nodes = trees.roots[at]
    while nodes.shape[0]:
        child = trees.first_child[nodes]
        below = np.concat((child, child + 1))
        depth[below] = np.concat((depth[nodes], depth[nodes])) + 1
        nodes = below[~trees.is_leaf[below]]
    return depth
