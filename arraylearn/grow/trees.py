"""The record of trees, grown or in a model, and that of limits, for single trees, forests and boosting."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.arrays.segments import scatter
from arraylearn.backend.namespace import (
    HOST,
    Place,
    copy_together,
    from_host,
    is_array,
    locate,
    move,
    supports_float64,
    to_host,
)
from arraylearn.backend.selector import choose_place
from arraylearn.grow.rows import number_copies

__all__ = [
    "ALL_BRANCHES",
    "LEAF",
    "NOMINAL",
    "NOTHING",
    "NO_MAP",
    "NO_PARENT",
    "NO_SURROGATE",
    "NUMERIC",
    "Limits",
    "Surrogates",
    "Trees",
    "best_first",
    "check_tree",
    "concat_trees",
    "join_trees",
    "tree_at",
    "tree_on_host",
]

# `Trees.feature` and `Trees.first_child` of a leaf.
LEAF = -1
# `Trees.parent` of a root; `Trees.map_start` of a node without a nominal split; `Surrogates.feature` where
# there is no further surrogate.
NO_PARENT, NO_MAP, NO_SURROGATE = -1, -1, -1
# `Trees.default_branch` where a row without a value goes down all branches, by their weight.
ALL_BRANCHES = -1
# Values of `Trees.kind`.
NOTHING, NUMERIC, NOMINAL = 0, 1, 2
# Integers up to here are exact in float32, the dtype of copies from a device without float64.
_EXACT_IN_FLOAT32 = 1 << 24


class Limits(NamedTuple):
    """Limits of growth: `min_samples_split` and `min_samples_leaf` are weights, `*_rows` numbers of rows."""

    max_depth: int | None = None
    min_samples_split: float = 2
    min_samples_leaf: float = 1
    least_rows: float = 0  # least number of rows, of any weight, of a node that is split
    side_rows: int = 1  # of each side of a split among drawn columns; in other trees: `SplitRule.least_rows`
    max_leaf_nodes: int | None = None
    min_gain: float = 0.0
    max_features: int | None = None  # columns that a node considers; None: all


class Surrogates(NamedTuple):
    """Splits used where the value for a node's own split is missing, best first: arrays (m, s)."""

    feature: Array  # int32: column of the table, or NO_SURROGATE
    kind: Array  # int8: NUMERIC or NOMINAL
    threshold: Array  # float: values up to it go to `low_branch`
    low_branch: Array  # int32: 0, or 1 where the surrogate sends low values to branch 1
    map_start: Array  # int32: where the branches of the categories begin in `Trees.category_branch`
    agreement: Array  # float: share of the rows, known in both, that both send the same way


class Trees(NamedTuple):
    """The m nodes of t trees, one tree after the other; the arrays are of one library, and can be moved.

    A tree is in level order. The children of a node stand side by side: branch b of node i leads to
    ``first_child[i] + b``. A level of a grown tree of two branches holds first the children of left children,
    then those of right ones::

        level 0          0
        level 1      1       2
        level 2     3 4     5 6      nodes 1 and 2 were split: children of 1, then of 2
        level 3    7 8 11 12  9 10   nodes 3, 4 and 5 were split: first the left children 3 and 5, then 4

    A field that a family has no use for is None.
    """

    roots: Array  # (t,) integer: the first node of each tree
    # (m,) int32: the column that splits the node, LEAF for a leaf; of the table in single trees, elsewhere
    # among the numeric, then the nominal columns
    feature: Array
    # (m,): a value or bin, in growth also a row of a sorted list; rows up to it go to the first child
    threshold: Array
    first_child: Array  # (m,) int32: LEAF for a leaf
    depth: Array = None  # (m,) integer: 0 for a root; None in models of many trees
    height: int | None = None  # the depth of the deepest leaf; None in growth
    gain: Array = None  # (m,) float: of the split, 0 for a leaf; None in models of many trees

    # how rows branch, where it is not by a threshold alone
    n_branches: Array = None  # (m,) int32: 0 for a leaf; None: two at each split
    # (m,) branch of missing values, or ALL_BRANCHES; None: missing values are compared like others, the
    # missing bin as the largest bin, and NaN as the least number
    default_branch: Array = None
    map_start: Array = None  # (m,) int32: where a nominal split begins in `category_branch`, or NO_MAP
    category_branch: Array = None  # (v,) integer: for nominal splits the branch of each category, or bin
    surrogates: Surrogates | None = None

    # contents of nodes
    counts: Array = None  # (m, c) float: weight of the training rows by class
    # (m, c): class shares, those of the parent where a node has no row; in forests int32, of unit 2**-20
    probability: Array = None
    impurity: Array = None  # (m,) float
    value: Array = None  # (m,) integer: what a leaf adds to the score of its rows

    # in growth only
    high: Array = None  # (m,) int32: the next bin that holds a row of the node, or the next row, on the right
    sums: Array = None  # (m, w) int64: class weights, or one packed pair (hessian << 32) + gradient
    rows: Array = None  # (2, m) int64: the first row of a leaf in the final order, and their number
    bounds: Array = None  # (m, 2) float64: least and greatest value that a node may have
    sets: Array = None  # (m, n_bins) bool: bins that go right, where the column of a node is nominal

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.feature.shape[0])

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return int(self.roots.shape[0])

    @property
    def n_classes(self) -> int:
        """Number of classes of trees that keep class weights."""
        return int(self.counts.shape[1])

    @property
    def is_leaf(self) -> Array:
        """Whether each node (m,) is a leaf."""
        return self.first_child == LEAF

    @property
    def kind(self) -> Array:
        """Kind of each node (m,), int8: NOTHING (a leaf), NUMERIC (a threshold) or NOMINAL (categories)."""
        xp = locate(self.feature).xp
        kind = xp.astype(self.first_child != LEAF, xp.int8)
        return kind if self.map_start is None else kind + xp.astype(self.map_start != NO_MAP, xp.int8)

    @property
    def parent(self) -> Array:
        """The parent of each node (m,), int32; NO_PARENT for a root; no sync."""
        place = locate(self.feature)
        xp, n_children = place.xp, self.n_nodes - self.n_trees
        if self.n_branches is None:
            n_branches = 2 * xp.astype(~self.is_leaf, xp.int64)
        else:
            n_branches = xp.astype(self.n_branches, xp.int64)
        above, branch = number_copies(xp, n_branches, n_children)
        child = xp.astype(xp.take(self.first_child, above, axis=0), xp.int64) + branch
        written = scatter(xp, above - NO_PARENT, child, self.n_nodes)  # 0 in the place of roots
        return xp.astype(written + NO_PARENT, xp.int32)

    def to(self, backend: str) -> Trees:
        """Return the trees on another backend.

        Parameters
        ----------
        backend : str
            ``"numpy"``, ``"torch"``, ``"torch:cuda"``, ``"cupy"``, ...

        Returns
        -------
        Trees
            The same numbers in that library and on that device.
        """
        return tree_at(self, choose_place(locate(self.feature), backend))


def check_tree(tree: Any) -> Trees:
    """Raise unless `tree` is a single tree: a frequent mistake is the estimator in place of its `tree_`."""
    if isinstance(tree, Trees) and tree.counts is not None:
        return tree
    raise TypeError(
        "`tree` must be the tree of a fitted DecisionTreeClassifier, its `tree_`; "
        f"got {'trees that keep no class weights' if isinstance(tree, Trees) else type(tree).__name__}."
    )


def tree_at(tree: Trees, place: Place) -> Trees:
    """Bring trees to a place."""
    moved: Trees = _map_arrays(tree, lambda field: move(field, place))
    return moved


def tree_on_host(tree: Trees) -> Trees:
    """Copy trees to the host; on a GPU one sync."""
    place = locate(tree.feature)
    if place.library == "numpy":
        return tree
    if not supports_float64(place) and tree.n_nodes > _EXACT_IN_FLOAT32:
        moved: Trees = _map_arrays(tree, to_host)
        return moved
    fields: list[Array] = []
    _map_arrays(tree, fields.append)
    copies = iter(copy_together(place, *fields))
    copied: Trees = _map_arrays(tree, lambda _: next(copies))
    return copied


def _map_arrays(part: Any, function: Callable[[Array], Any]) -> Any:
    """Replace every array of trees, in order, by a function of it."""
    if is_array(part):
        return function(part)
    if isinstance(part, tuple):
        return type(part)(*(_map_arrays(field, function) for field in part))
    return part


def best_first(
    gain: HostArray, first_child: HostArray, max_leaf_nodes: int, n_branches: HostArray | None = None
) -> set[int]:
    """Return the nodes of a tree that are split if the largest gain is always split first.

    `gain` (m,) is ``-inf`` where a node has no split; `n_branches` (m,) None: two branches each.
    """
    gains, first = gain.tolist(), first_child.tolist()
    branches = [2] * len(gains) if n_branches is None else n_branches.tolist()
    chosen: set[int] = set()
    numbers = itertools.count()  # among equal gains the node that came up first
    heap, n_leaves = [(-gains[0], next(numbers), 0)], 1
    while heap:
        loss, _, node = heapq.heappop(heap)
        n_leaves += branches[node] - 1
        if loss == math.inf or n_leaves > max_leaf_nodes:
            break
        chosen.add(node)
        for child in range(first[node], first[node] + branches[node]) if first[node] != LEAF else ():
            heapq.heappush(heap, (-gains[child], next(numbers), child))
    return chosen


def concat_trees(xp: Namespace, parts: Sequence[Trees]) -> Trees:
    """Put trees of many parts one after the other: the fields for walks, sets, shares and values."""
    children, roots, first = [], [], 0
    for part in parts:
        children.append(xp.where(part.is_leaf, LEAF, part.first_child + first))
        roots.append(part.roots + first)
        first += part.n_nodes

    def join(name: str) -> Array | None:
        """Return a field of all nodes: zeros for parts without (trees of one leaf have no sets)."""
        fields = [getattr(part, name) for part in parts]
        some = next((each for each in fields if each is not None), None)
        if some is None:
            return None
        return xp.concat(
            [
                xp.zeros((part.n_nodes, *some.shape[1:]), dtype=some.dtype, device=device(some))
                if each is None
                else each
                for part, each in zip(parts, fields, strict=True)
            ]
        )

    names = ("feature", "threshold", "default_branch", "sets", "probability", "value")
    fields: dict[str, Array] = {name: join(name) for name in names}
    heights = [part.height for part in parts if part.height is not None]
    return Trees(
        roots=xp.concat(roots),
        first_child=xp.concat(children),
        height=max(heights) if len(heights) == len(parts) else None,
        **fields,
    )


def join_trees(place: Place, parts: Sequence[Trees], n_numeric: int, n_bins: int) -> Trees:
    """Return the model at `place` of trees that were grown over bins.

    Columns from `n_numeric` on are nominal where trees have sets.
    """
    xp, trees = place.xp, concat_trees(HOST.xp, parts)
    default, map_start, category_branch = trees.default_branch, None, None
    if default is not None:
        default = from_host(default & ~trees.is_leaf, place, xp.int8)
    if trees.sets is not None:
        nominal = np.nonzero(~trees.is_leaf & (trees.feature >= n_numeric))[0]
        starts = np.full(trees.n_nodes, NO_MAP)
        starts[nominal] = n_bins * np.arange(nominal.shape[0])
        map_start = from_host(starts, place, xp.int32)
        category_branch = from_host(np.reshape(trees.sets[nominal] > 0, (-1,)), place, xp.int8)
    return Trees(
        roots=from_host(trees.roots, place, xp.int32),
        feature=from_host(np.where(trees.is_leaf, LEAF, trees.feature), place, xp.int32),
        threshold=from_host(np.where(trees.is_leaf, 0, trees.threshold), place, xp.int32),
        first_child=from_host(trees.first_child, place, xp.int32),
        height=max(int(np.max(part.depth)) for part in parts),
        default_branch=default,
        map_start=map_start,
        category_branch=category_branch,
        probability=None if trees.probability is None else from_host(trees.probability, place),
        value=None if trees.value is None else from_host(trees.value, place, xp.int32),
    )
