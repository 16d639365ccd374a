"""Turn trees grown over bins into trees over values and categories; grow trees of drawn cuts."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.namespace import HOST, Place, to_host
from arraylearn.grow.bounds import clip_shares
from arraylearn.grow.drawn_columns.columns import draw_columns
from arraylearn.grow.drawn_columns.drawn import Bags, DrawnPlan, choose_body, grow_trees
from arraylearn.grow.split import SplitRule
from arraylearn.grow.trees import LEAF, NO_MAP, Limits, Trees, tree_at
from arraylearn.table import Schema, Table
from arraylearn.table.binning import Binning, apply_binning, learn_binning, order_categories, place_bins

__all__ = ["HostBinning", "grow_random", "take_tree", "tree_over_values"]

# Rounding error allowed in a share of the rows.
_ROUNDING = 1e-9


class HostBinning(NamedTuple):
    """The edges and bins of categories of a `Binning`, on the host."""

    edges: HostArray  # (d_numeric, b)
    category_bin: HostArray  # (d_nominal, v + 1)

    @classmethod
    def of(cls, binning: Binning) -> HostBinning:
        """Copy edges and bins of categories to the host."""
        return cls(to_host(binning.edges), to_host(binning.category_bin))


def grow_random(
    place: Place,
    table: Table,
    codes: HostArray,
    weights: HostArray | None,
    rule: SplitRule,
    limits: Limits,
    max_bins: int,
    generator: np.random.Generator,
) -> Trees:
    """Grow a tree whose nodes take the best of one drawn cut per column.

    Missing values are larger than all others, and categories are in the order of their mean class.

    Parameters
    ----------
    weights : array (n,), optional
        Integers.
    """
    binning = learn_binning(place, table, max_bins, weights)
    binning = order_categories(place, binning, table, codes, weights)
    bins = apply_binning(place.xp, binning, table)
    d, n = bins.shape
    times = np.ones(n, dtype=np.int64) if weights is None else np.astype(weights, np.int64)
    rows = np.nonzero(times)[0]
    seed = np.asarray([int(generator.integers(2**63 - 1))], dtype=np.uint64)
    bags = Bags(rows, times[rows], np.asarray([rows.shape[0]]), seed)
    plan = DrawnPlan(
        binning.n_bins,
        int(np.max(codes)) + 1,
        limits._replace(
            min_samples_split=0,
            min_samples_leaf=max(1, math.ceil(limits.min_samples_leaf - _ROUNDING)),
            least_rows=math.ceil(max(limits.least_rows, limits.min_samples_split) - _ROUNDING),
        ),
        draw_columns(d, min(limits.max_features or d, d)),
        place_bins(place, binning),
        rule.measure,
        rule.trend,
    )
    body = choose_body(place, n * d, plan, int(np.sum(times)))
    if isinstance(body, str):
        grown = grow_trees(place, bins, codes, bags, plan)
    else:
        grown = body(place, np.asfortranarray(bins), codes, bags, plan)
    counts = np.astype(grown.sums, np.float64)
    grown = grown._replace(counts=counts, impurity=rule.impurity(HOST.xp, counts))
    tree = take_tree(grown, 0, grown.n_nodes)
    return tree_at(tree_over_values(tree, HostBinning.of(binning), table.schema), place)


def take_tree(trees: Trees, start: int, end: int) -> Trees:
    """Return one of many trees with class weights, on the host; with `n_branches`, which are two."""
    nodes = slice(start, end)
    child = trees.first_child[nodes]
    return Trees(
        roots=np.zeros(1, dtype=np.int32),
        feature=trees.feature[nodes],
        threshold=trees.threshold[nodes],
        first_child=np.where(child == LEAF, np.int32(LEAF), np.astype(child - start, np.int32)),
        depth=np.astype(trees.depth[nodes], np.int32),
        height=int(np.max(trees.depth[nodes])),
        n_branches=np.where(child == LEAF, np.int32(0), np.int32(2)),
        counts=trees.counts[nodes],
        impurity=trees.impurity[nodes],
        bounds=None if trees.bounds is None else trees.bounds[nodes],
    )


def tree_over_values(tree: Trees, binning: HostBinning, schema: Schema) -> Trees:
    """Return a tree from `take_tree`, over bins, as one over values and categories; missing ones go right."""
    columns = np.asarray([*schema.numeric_idx, *schema.nominal_idx])
    n_numeric = len(schema.numeric_idx)
    is_inner = ~tree.is_leaf
    column, cut = np.where(is_inner, tree.feature, 0), np.where(is_inner, tree.threshold, 0)
    is_numeric = is_inner & (column < n_numeric)
    threshold = np.zeros(tree.n_nodes)
    threshold[is_numeric] = np.inf  # a cut after the last bin of numbers parts them from missing values
    known = is_numeric & (cut < binning.edges.shape[1])
    threshold[known] = binning.edges[column[known], cut[known]]
    maps, starts, size = [np.zeros(0, dtype=np.int32)], np.full(tree.n_nodes, NO_MAP, dtype=np.int32), 0
    for node in np.nonzero(is_inner & ~is_numeric)[0].tolist():
        at = int(column[node]) - n_numeric
        bins = binning.category_bin[at, 1 : schema.n_values[at] + 1]
        maps.append(np.astype(bins > cut[node], np.int32))
        starts[node], size = size, size + bins.shape[0]
    weight = np.sum(tree.counts, axis=1)
    held = weight * tree.impurity
    inner = np.nonzero(is_inner)[0]
    child = tree.first_child[inner]
    gain = np.zeros(tree.n_nodes)
    gain[inner] = (held[inner] - held[child] - held[child + 1]) / weight[inner]
    shares = tree.counts / weight[:, None]
    return tree._replace(
        feature=np.astype(np.where(is_inner, columns[column], LEAF), np.int32),
        threshold=threshold,
        gain=gain,
        default_branch=np.astype(is_inner, np.int32),
        map_start=starts,
        category_branch=np.concat(maps),
        probability=shares if tree.bounds is None else clip_shares(shares, tree.bounds),
        bounds=None,
    )
