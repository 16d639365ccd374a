"""The host's part of growth: node records, the numbers of children, and the finished arrays of trees."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST, Place
from arraylearn.grow.bounds import clip_shares, hand_on
from arraylearn.grow.cut import cut_at
from arraylearn.grow.rows import UNKNOWN_BRANCH, Rows
from arraylearn.grow.split import SplitRule
from arraylearn.grow.trees import (
    ALL_BRANCHES,
    LEAF,
    NO_MAP,
    NO_PARENT,
    NO_SURROGATE,
    NOMINAL,
    NUMERIC,
    Limits,
    Surrogates,
    Trees,
    best_first,
    tree_at,
)

__all__ = ["NO_SIBLING", "Builder", "NextLevel", "Splits"]

# `NextLevel.sibling` of a child whose sibling is not in the next level, and where there are other than two.
NO_SIBLING = -1


class Splits(NamedTuple):
    """The best split of each of the k nodes of a level, on the host."""

    is_split: HostArray  # (k,) bool: whether the node is split; all False until splits are accepted
    column: HostArray  # (k,) among the numeric, then the nominal columns
    gain: HostArray  # (k,) -inf: there is no split
    score: HostArray  # (k,) by which the column was chosen; reported as the gain of the node
    threshold: HostArray  # (k,)
    missing_left: HostArray | None  # (k,) bool, if the split learned it; else None
    offset: HostArray  # (k,) first child, counted from the first child of the level
    n_branches: HostArray  # (k,)
    child_counts: HostArray  # (t, c) class weights or packed sums of the children, rows with a known value
    child_sizes: HostArray  # (t,) their rows
    missing_counts: HostArray  # (k, c) class weights of the rows whose value is missing
    missing_sizes: HostArray  # (k,)
    branches: HostArray | None  # (k, v + 1) branch of each category of a binary nominal split
    surrogates: tuple[HostArray, ...] | None  # the fields of a `SurrogateChoice`
    sets: HostArray | None  # (k, b) bool: bins that take branch 1, where columns are nominal
    default: HostArray | None = None  # (k,) branch of missing values; None: the builder chooses it
    values: HostArray | None = None  # (t,) of the children, if these are no shares of class 1: see `bounds`


# Class weights or sums (k, c), numbers of rows and depth of nodes -> whether they may be split (k,).
MaySplit = Callable[[HostArray, HostArray, int], HostArray]


class NextLevel(NamedTuple):
    """The accepted splits of a level, as far as dividing the rows needs them."""

    is_split: HostArray  # (k,) bool
    default: HostArray  # (k,) branch of the missing values, or ALL_BRANCHES
    share: HostArray  # (t,) part of a missing row that goes to each child
    is_live: HostArray  # (t,) bool: whether the child may be split further
    branch_sizes: list[int]  # rows of live children by branch
    parent: HostArray  # of the live children, counted within the old level
    ids: HostArray  # live children in the order of their blocks: branch 0 first, then by parent
    branch: HostArray
    sibling: HostArray  # position among them of the other child of a split into two, or NO_SIBLING
    counts: HostArray
    sizes: HostArray
    bounds: HostArray | None  # (live, 2)


class Builder:
    """Collects the nodes of trees that grow together, level by level."""

    def __init__(self, rows: Rows, rule: SplitRule, limits: Limits, roots: HostArray) -> None:
        self.rows, self.rule, self.limits = rows, rule, limits
        self.n_numeric = int(rows.columns.shape[0])
        self.levels: list[dict[str, HostArray]] = []
        self.maps: list[HostArray] = []
        self.map_size = 0
        self.n_nodes = 0
        self.depth = 0
        free = None if rule.trend is None else np.tile([-np.inf, np.inf], (roots.shape[0], 1))
        self._append(roots, np.full(roots.shape[0], NO_PARENT), np.arange(roots.shape[0]), free)

    def _append(
        self, counts: HostArray, parent: HostArray, tree: HostArray, bounds: HostArray | None
    ) -> None:
        t = counts.shape[0]
        # feature, first child; branches, start of the map, default branch, depth
        ints = np.zeros((6, t), dtype=np.int32)
        ints[:2] = LEAF
        ints[5] = self.depth
        floats = np.zeros((3, t), dtype=np.float64)
        floats[2] = -np.inf
        self.levels.append(
            {
                "kind": np.zeros(t, dtype=np.int8),
                "feature": ints[0],
                "first_child": ints[1],
                "n_branches": ints[2],
                "map_start": ints[3],
                "default_branch": ints[4],
                "depth": ints[5],
                "parent": np.astype(parent, np.int32),
                "tree": tree,
                "counts": counts,
                "threshold": floats[0],
                "gain": floats[1],
                "priority": floats[2],
            }
        )
        if bounds is not None:
            self.levels[-1]["bounds"] = bounds
        self.n_nodes += t

    def add(self, ids: HostArray, splits: Splits, may_split: MaySplit) -> NextLevel:
        """Split nodes of the last level, append their children and return those that may be split next."""
        is_split = splits.is_split
        node_of_child, branch = _children_of(splits)
        weight = np.astype(np.sum(splits.child_counts, axis=1), np.float64)
        heaviest = _first_largest(weight, splits.offset, splits.n_branches)
        default = self._default_branches(splits, heaviest)
        counts, sizes, share = self._place_missing(splits, node_of_child, branch, weight, default)
        exists = is_split[node_of_child]
        if not bool(np.any(is_split)):
            none = ids[:0]
            live = none, none, none, none, counts[:0], sizes[:0], None
            return NextLevel(is_split, default, share, exists, [], *live)
        first_child = self._number_children(splits, is_split)
        at = ids - (self.n_nodes - self.levels[-1]["kind"].shape[0])
        self._record(at[is_split], splits, is_split, first_child, default, heaviest)
        self.depth += 1
        parent, tree = ids[node_of_child], self.levels[-1]["tree"][at][node_of_child]
        bounds = self._hand_on(at, splits, node_of_child, counts)
        of_new = None if bounds is None else bounds[exists]
        self._append(counts[exists], parent[exists], tree[exists], of_new)
        is_live = exists & may_split(counts, sizes, self.depth)
        if self.limits.max_leaf_nodes is not None:
            is_live = is_live & self._affordable()[parent]
        order = np.nonzero(is_live)[0]
        order = order[np.argsort(branch[order], stable=True)]
        taken, live_sizes, node = branch[order], sizes[order], node_of_child[order]
        position = np.full(counts.shape[0] + 1, NO_SIBLING)
        position[order] = np.arange(order.shape[0])
        other = np.where(splits.n_branches[node] == 2, splits.offset[node] + 1 - taken, counts.shape[0])
        n_branches = int(taken[-1]) + 1 if order.shape[0] else 0
        ends = [0, *np.searchsorted(taken, np.arange(n_branches), side="right").tolist()]
        return NextLevel(
            is_split,
            default,
            share,
            is_live,
            [int(live_sizes[start:end].sum()) for start, end in pairwise(ends)],
            node,
            first_child[node] + taken,
            taken,
            position[other],
            counts[order],
            live_sizes,
            None if bounds is None else bounds[order],
        )

    def add_all(self, ids: HostArray, nodes: Trees) -> None:
        """Append finished subtrees, splits into two; `nodes` begins with the nodes of the level."""
        k, column = ids.shape[0], np.astype(nodes.feature, np.int64)
        split = np.nonzero(column != LEAF)[0]
        if split.shape[0] == 0:
            return
        number = np.concat((ids, np.arange(self.n_nodes, self.n_nodes + column.shape[0] - k)))
        first = nodes.first_child[split]
        parent = np.empty_like(number)
        parent[first] = parent[first + 1] = number[split]
        weight = np.sum(nodes.sums, axis=1)
        is_right = weight[first + 1] > weight[first]
        if nodes.default_branch is not None:
            is_right = nodes.default_branch[split]
        default = np.astype(is_right, np.int64)
        if self.rule.missing == "fractional":
            default = np.full_like(default, ALL_BRANCHES)
        upper, base = self.levels[-1], self.n_nodes - self.levels[-1]["kind"].shape[0]
        depth = self.depth + nodes.depth[k:]
        bounds = None if nodes.bounds is None else nodes.bounds[k:]
        self._append(np.astype(nodes.sums[k:], np.int64), parent[k:], np.zeros_like(parent[k:]), bounds)
        lower = self.levels[-1]
        lower["depth"][:] = depth
        n_upper = int(np.searchsorted(split, k))
        split_columns = column[split]
        fields = {
            "kind": np.where(split_columns < self.n_numeric, NUMERIC, NOMINAL),
            "feature": np.asarray(self.rows.column_order)[split_columns],
            "threshold": self._thresholds(
                split_columns, split_columns < self.n_numeric, nodes.threshold[split]
            ),
            "map_start": self._store_sets(split_columns, first, nodes, split),
            "first_child": number[first],
            "n_branches": np.full(split.shape[0], 2, dtype=np.int32),
            "default_branch": default,
            "gain": nodes.gain[split],
            "priority": weight[split] * np.astype(nodes.gain[split], np.float64),
        }
        for name, values in fields.items():
            upper[name][ids[split[:n_upper]] - base] = values[:n_upper]
            lower[name][split[n_upper:] - k] = values[n_upper:]

    def _hand_on(
        self, at: HostArray, splits: Splits, node_of_child: HostArray, counts: HostArray
    ) -> HostArray | None:
        """Return the bounds (t, 2) of the children, where a column has a trend."""
        if self.rule.trend is None:
            return None
        weight = np.sum(counts, axis=1)
        values = counts[:, -1] / np.where(weight > 0, weight, 1) if splits.values is None else splits.values
        trend = np.asarray(self.rule.trend)[splits.column]
        return hand_on(self.levels[-1]["bounds"][at], trend, values, node_of_child)

    def _store_sets(
        self, column: HostArray, first_child: HostArray, nodes: Trees, split: HostArray
    ) -> HostArray:
        """Store the branches of the categories of finished splits, by level; return where each begins."""
        starts = np.zeros(column.shape[0], dtype=np.int32)
        nominal = np.nonzero(column >= self.n_numeric)[0]
        # children are numbered in the order in which level by level their parents are split
        nominal = nominal[np.argsort(first_child[nominal], stable=True)]
        if nominal.shape[0] == 0:
            return starts
        assert nodes.sets is not None
        sets, widths = nodes.sets[split[nominal]], np.asarray(self.rows.n_values)
        widths = widths[column[nominal] - self.n_numeric]
        self.maps.append(np.astype(sets[np.arange(sets.shape[1]) < widths[:, None]], np.int32))
        starts[nominal] = self.map_size + np.cumulative_sum(widths) - widths
        self.map_size += int(np.sum(widths))
        return starts

    def _default_branches(self, splits: Splits, heaviest: HostArray) -> HostArray:
        """Return the branch of missing values (k,), or ALL_BRANCHES."""
        if splits.default is not None:
            return splits.default
        if self.rule.missing == "fractional":
            return np.full_like(heaviest, ALL_BRANCHES)
        if self.rule.missing != "direction" or splits.missing_left is None:
            return heaviest
        learned = np.where(splits.missing_left > 0, 0, 1)
        is_learned = (splits.column < self.n_numeric) & (splits.missing_sizes > 0)
        default = np.where(is_learned, learned, heaviest)
        if splits.branches is None:
            return default
        is_nominal = (splits.column >= self.n_numeric) & (splits.branches[:, -1] != UNKNOWN_BRANCH)
        return np.where(is_nominal, splits.branches[:, -1], default)

    def _place_missing(
        self,
        splits: Splits,
        node_of_child: HostArray,
        branch: HostArray,
        weight: HostArray,
        default: HostArray,
    ) -> tuple[HostArray, HostArray, HostArray]:
        """Add the rows without a value to the children they go to; also return the share of each child."""
        counts, sizes = splits.child_counts, splits.child_sizes
        if not bool(np.any(splits.missing_sizes > 0)):
            return counts, sizes, weight
        known = histogram(HOST.xp, node_of_child, splits.column.shape[0], weight)
        share = weight / np.where(known > 0, known, 1.0)[node_of_child]
        if self.rule.missing == "fractional":
            extra = splits.missing_counts[node_of_child] * share[:, None]
            counts = np.astype(counts, np.float64) + extra
            sizes = sizes + splits.missing_sizes[node_of_child]
        else:
            takes = branch == default[node_of_child]
            counts = counts + np.where(takes[:, None], splits.missing_counts[node_of_child], 0)
            sizes = sizes + np.where(takes, splits.missing_sizes[node_of_child], 0)
        return counts, sizes, share

    def _number_children(self, splits: Splits, is_split: HostArray) -> HostArray:
        """Give the children of the splitting nodes their numbers in the tree: (k,) the first of each."""
        n_branches = np.where(is_split, splits.n_branches, 0)
        return self.n_nodes + np.cumulative_sum(n_branches) - n_branches

    def _record(
        self,
        at: HostArray,
        splits: Splits,
        is_split: HostArray,
        first_child: HostArray,
        default: HostArray,
        heaviest: HostArray,
    ) -> None:
        level = self.levels[-1]
        column = np.astype(splits.column[is_split], np.int64)
        is_numeric = column < self.n_numeric
        level["kind"][at] = np.where(is_numeric, NUMERIC, NOMINAL)
        level["feature"][at] = np.asarray(self.rows.column_order)[column]
        level["threshold"][at] = self._thresholds(column, is_numeric, splits.threshold[is_split])
        level["first_child"][at] = first_child[is_split]
        level["n_branches"][at] = splits.n_branches[is_split]
        level["default_branch"][at] = default[is_split]
        level["gain"][at] = splits.score[is_split]
        level["map_start"][at] = self._record_maps(splits, is_split, heaviest)
        if splits.sets is not None:
            level["sets"] = np.zeros((level["kind"].shape[0], splits.sets.shape[1]), dtype=np.bool)
            level["sets"][at] = splits.sets[is_split]
        if self.limits.max_leaf_nodes is not None:
            weight = np.astype(np.sum(level["counts"][at], axis=1), np.float64)
            level["priority"][at] = weight * splits.gain[is_split]
        if splits.surrogates is not None:
            self._record_surrogates(level, at, splits.surrogates, is_split)

    def _thresholds(self, column: HostArray, is_numeric: HostArray, threshold: HostArray) -> HostArray:
        """Turn bins into edges; a cut after the last bin, which parts missing values off, is at infinity."""
        if self.rows.edges is not None and bool(np.any(is_numeric)):
            bins = np.astype(np.where(is_numeric, threshold, 0.0), np.int64)
            last = self.rows.edges.shape[1] - 1
            edge = self.rows.edges[np.where(is_numeric, column, 0), np.minimum(bins, last)]
            threshold = np.where(bins > last, np.inf, edge)
        return np.where(is_numeric, threshold, 0.0)

    def _record_maps(self, splits: Splits, is_split: HostArray, heaviest: HostArray) -> HostArray:
        """Store the branches of the categories of nominal splits; return where each begins."""
        chosen = np.nonzero(is_split)[0]
        starts = np.zeros(chosen.shape[0], dtype=np.int32)
        nominal = np.nonzero(splits.column[chosen] >= self.n_numeric)[0]
        if nominal.shape[0] == 0:
            return starts
        nodes = chosen[nominal]
        widths = np.asarray(self.rows.n_values)[np.astype(splits.column[nodes], np.int64) - self.n_numeric]
        node_idx = np.repeat(np.arange(nodes.shape[0]), widths)
        run_start = np.cumulative_sum(widths) - widths
        category = np.arange(node_idx.shape[0]) - run_start[node_idx]
        branches = category if splits.branches is None else splits.branches[nodes[node_idx], category]
        # categories without rows in the node take the heaviest branch
        branches = np.where(branches == UNKNOWN_BRANCH, heaviest[nodes[node_idx]], branches)
        self.maps.append(np.astype(branches, np.int32))
        starts[nominal] = self.map_size + run_start
        self.map_size += node_idx.shape[0]
        return starts

    def _record_surrogates(
        self, level: dict[str, HostArray], at: HostArray, found: tuple[HostArray, ...], is_split: HostArray
    ) -> None:
        column, threshold, low_branch, agreement, maps = (part[is_split] for part in found)
        column = np.astype(column, np.int64)
        is_numeric, is_used = column < self.n_numeric, column != NO_SURROGATE
        at_column = np.where(is_used, column, 0)
        feature = np.where(is_used, np.asarray(self.rows.column_order)[at_column], NO_SURROGATE)
        fields = Surrogates(
            feature=np.astype(feature, np.int32),
            kind=np.astype(np.where(is_numeric, NUMERIC, NOMINAL), np.int8),
            threshold=self._thresholds(at_column, is_numeric & is_used, threshold),
            low_branch=np.astype(low_branch, np.int32),
            map_start=self._surrogate_maps(column, is_used & ~is_numeric, maps),
            agreement=np.astype(agreement, np.float64),
        )
        t = level["kind"].shape[0]
        for name, values in zip(Surrogates._fields, fields, strict=True):
            key = f"surrogate_{name}"
            fill = NO_SURROGATE if name == "feature" else 0
            level[key] = np.full((t, values.shape[1]), fill, dtype=values.dtype)
            level[key][at] = values

    def _surrogate_maps(self, column: HostArray, is_nominal: HostArray, maps: HostArray) -> HostArray:
        """Store the branches of the categories of nominal surrogates (k, s); return where each begins."""
        starts = np.zeros(column.shape, dtype=np.int32)
        for node, rank in zip(*(part.tolist() for part in np.nonzero(is_nominal)), strict=True):
            width = self.rows.n_values[int(column[node, rank]) - self.n_numeric]
            starts[node, rank] = self.map_size
            self.maps.append(np.astype(maps[node, rank, :width], np.int32))
            self.map_size += width
        return starts

    def _affordable(self) -> HostArray:
        """Whether best-first growth would split each node: (nodes so far,)."""
        parts = (self.join(name) for name in ("priority", "first_child", "n_branches"))
        priority, first_child, n_branches = parts
        assert self.limits.max_leaf_nodes is not None
        chosen = best_first(priority, first_child, self.limits.max_leaf_nodes, n_branches)
        is_kept = np.zeros(self.n_nodes, dtype=np.bool)
        is_kept[list(chosen)] = True
        return is_kept

    def join(self, name: str) -> HostArray:
        """Return a field of all nodes so far."""
        return np.concat([level[name] for level in self.levels])

    def _join_some(self, name: str, fill: int = 0) -> HostArray | None:
        """Return a field that some levels have, with `fill` in the others; None if none has it."""
        some = next((level[name] for level in self.levels if name in level), None)
        if some is None:
            return None
        parts = [
            level.get(name, np.full((level["kind"].shape[0], *some.shape[1:]), fill, dtype=some.dtype))
            for level in self.levels
        ]
        return np.concat(parts)

    def finish_trees(self) -> Trees:
        """Return trees with two branches per split: all nodes of the first tree, then those of the next."""
        nodes: dict[str, Array] = {}
        for name in ("feature", "first_child", "depth", "gain", "sets", "bounds"):
            if (part := self._join_some(name)) is not None:
                nodes[name] = part
        is_leaf = nodes["feature"] == LEAF
        nodes["threshold"] = np.where(is_leaf, np.int32(LEAF), np.astype(self.join("threshold"), np.int32))
        nodes |= {"default_branch": self.join("default_branch") > 0, "sums": self.join("counts")}
        n_trees = self.levels[0]["kind"].shape[0]
        roots = np.arange(n_trees)
        if n_trees > 1:
            tree = np.astype(self.join("tree"), np.int16 if n_trees < 2**15 else np.int64)
            order = np.argsort(tree, stable=True)
            rank = np.empty(order.shape[0], dtype=np.int32)
            rank[order] = np.arange(order.shape[0], dtype=np.int32)
            child = nodes["first_child"]
            nodes["first_child"] = np.where(child == LEAF, child, rank[child])
            nodes = {name: part[order] for name, part in nodes.items()}
            roots = np.nonzero(nodes["depth"] == 0)[0]
        return Trees(roots, **nodes)

    def finish(self, place: Place) -> Trees:
        """Assemble the tree at the place of the rows."""
        joined = {
            name: self.join(name)
            for name in self.levels[0]
            if not name.startswith("surrogate") and name not in ("priority", "tree", "sets", "bounds")
        }
        kind, parent = joined.pop("kind"), joined.pop("parent")
        counts = np.astype(joined.pop("counts"), np.float64)
        weight = np.sum(counts, axis=1)
        probability = counts / np.where(weight > 0, weight, 1.0)[:, None]
        empty = np.nonzero(weight <= 0)[0]
        probability[empty] = probability[parent[empty]]
        if (bounds := self._join_some("bounds")) is not None:
            probability = clip_shares(probability, bounds)
        map_start = np.where(kind == NOMINAL, joined.pop("map_start"), np.int32(NO_MAP))
        maps = np.concat(self.maps) if self.maps else np.zeros(0, dtype=np.int32)
        tree = Trees(
            roots=np.zeros(1, dtype=np.int32),
            **joined,
            height=int(joined["depth"][-1]),
            map_start=map_start,
            category_branch=maps,
            counts=counts,
            probability=probability,
            impurity=self.rule.impurity(HOST.xp, counts),
            surrogates=self._join_surrogates(),
        )
        if self.limits.max_leaf_nodes is not None:
            tree = cut_at(tree, ~tree.is_leaf & ~self._affordable())
        return tree_at(tree, place)

    def _join_surrogates(self) -> Surrogates | None:
        feature = self._join_some("surrogate_feature", NO_SURROGATE)
        if feature is None:
            return None
        return Surrogates(feature, *(self._join_some(f"surrogate_{name}") for name in Surrogates._fields[1:]))


def _children_of(splits: Splits) -> tuple[HostArray, HostArray]:
    """Return node, counted within the level, and branch of each child."""
    k, t = splits.column.shape[0], splits.child_sizes.shape[0]
    child = np.arange(t)
    if t == 2 * k and bool(np.all(splits.n_branches == 2)):
        return child // 2, child % 2
    node = np.repeat(np.arange(k), splits.n_branches)
    return node, child - splits.offset[node]


def _first_largest(weight: HostArray, offset: HostArray, n_branches: HostArray) -> HostArray:
    """Return the branch (k,) of the heaviest child of each node; the first among equals."""
    if weight.shape[0] == 2 * offset.shape[0] and bool(np.all(n_branches == 2)):
        return np.astype(weight[1::2] > weight[::2], np.int64)
    node = np.repeat(np.arange(offset.shape[0]), n_branches)
    # ascending by node and weight, and among equals the first branch last
    order = np.argsort(-weight, stable=True)
    order = order[np.argsort(node[order], stable=True)]
    return order[offset] - offset
