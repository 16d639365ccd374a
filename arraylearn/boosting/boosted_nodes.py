"""The nodes of a boosted tree while it grows, and the tree that comes of them; on the host."""

from __future__ import annotations

import heapq
import itertools
from typing import Any, NamedTuple

import numpy as np

from arraylearn.boosting.gradients import SCORE_BITS
from arraylearn.grow.formulas import newton_gain, newton_value

__all__ = [
    "BoostingLimits",
    "GrownTree",
    "Nodes",
    "SplitsRead",
    "best_first",
    "cut_back",
    "leaf_steps",
    "side_values",
]

# One step of a tree moves a score by no more than this, in units of the log odds.
_LONGEST_STEP = 16.0


class BoostingLimits(NamedTuple):
    """What stops a tree, and the size of its steps."""

    max_depth: int | None
    max_leaf_nodes: int | None
    l2: float
    min_child_hessian: float
    min_samples_leaf: float  # rows of average hessian
    smoothing: float  # of the order of categories, as a hessian
    learning_rate: float
    trend: tuple[int, ...] | None = None  # of each column: 1 if the score may only rise along it, -1 if fall


class GrownTree(NamedTuple):
    """A tree on the host; node 0 is the root, parents come before their children."""

    feature: Any  # (m,) int64, 0 at a leaf
    threshold: Any  # (m,) int64: bins above it go right
    is_missing_right: Any  # (m,) bool
    goes_right: Any  # (m, n_bins) bool, or (m, 0) without nominal columns
    left: Any  # (m,) int64, -1 at a leaf
    right: Any  # (m,) int64
    value: Any  # (m,) int64 in units of 2**-SCORE_BITS
    gain: Any  # (m,) float64 of the split, 0 at a leaf
    depth: int


class SplitsRead(NamedTuple):
    """The best splits of the nodes of a level, on the host."""

    feature: Any  # (k,) int64
    position: Any  # (k,) int64
    is_missing_left: Any  # (k,) bool
    hessian: Any  # (3, k) float64 of the left, the right side and the node
    value: Any  # (3, k) float64: what the score of each should change by
    gain: Any  # (k,) float64, 0 where a node cannot be split
    goes_right: Any  # (k, n_bins) bool, or (k, 0)


class Nodes:
    """The nodes of a growing tree: arrays that double their length when they are full."""

    feature: Any
    threshold: Any
    is_missing_right: Any
    left: Any  # the right child is the next node; -1 at a leaf
    parent: Any
    start: Any  # of the block of rows; -1 where the rows were not sorted any more
    size: Any
    gain: Any
    hessian: Any
    value: Any
    low: Any  # the least value that a node may have, and the greatest
    high: Any
    goes_right: Any  # (m, n_bins)

    _WHOLE = ("feature", "threshold", "is_missing_right", "left", "parent", "start", "size")
    _REAL = ("gain", "hessian", "value")

    def __init__(self, n_rows: int, n_bins: int, *, is_bounded: bool) -> None:
        self.n, self.room = 1, 128
        self._name_fields(
            np.full((len(self._WHOLE), self.room), -1, dtype=np.int64),
            np.zeros((len(self._REAL), self.room)),
        )
        self.goes_right = np.zeros((self.room, n_bins), dtype=bool)
        room = self.room if is_bounded else 0
        self.low, self.high = (np.full(room, sign * np.inf) for sign in (-1, 1))
        self.start[0], self.size[0] = 0, n_rows

    @classmethod
    def of_fields(cls, whole: Any, real: Any) -> Nodes:
        """Take the nodes of a tree that is not bounded and has no nominal columns; see `BoostedNodes`."""
        nodes = cls(0, 0, is_bounded=False)
        nodes.n = nodes.room = whole.shape[1]
        nodes.goes_right = np.zeros((nodes.n, 0), dtype=bool)
        nodes._name_fields(whole, real)
        return nodes

    def _name_fields(self, whole: Any, real: Any) -> None:
        for name, line in zip((*self._WHOLE, *self._REAL), (*whole, *real), strict=True):
            setattr(self, name, line)

    def reserve(self, n: int) -> int:
        """Make room for `n` more nodes and return the first."""
        while self.n + n > self.room:
            whole, real = (
                np.stack([getattr(self, name) for name in names]) for names in (self._WHOLE, self._REAL)
            )
            self._name_fields(
                np.concat((whole, np.full_like(whole, -1)), axis=1),
                np.concat((real, np.zeros_like(real)), axis=1),
            )
            for name in ("goes_right", "low", "high"):
                old = getattr(self, name)
                setattr(self, name, np.concat((old, np.zeros_like(old))))
            self.room *= 2
        self.n += n
        return self.n - n

    def add_children(self, ids: Any, splits: SplitsRead, chosen: Any, limits: BoostingLimits) -> int:
        """Write the chosen splits into the tree, with siblings side by side; return the first of them."""
        parents = ids[chosen]
        first = self.reserve(2 * parents.shape[0])
        self.feature[parents] = splits.feature[chosen]
        self.threshold[parents] = splits.position[chosen]
        self.is_missing_right[parents] = ~splits.is_missing_left[chosen]
        if splits.goes_right.shape[1]:
            self.goes_right[parents] = splits.goes_right[chosen]
        self.left[parents] = np.arange(first, self.n, 2)
        for side in (0, 1):
            children = slice(first + side, self.n, 2)
            self.parent[children] = parents
            self.value[children] = splits.value[side][chosen]
            self.hessian[children] = splits.hessian[side][chosen]
        if limits.trend is not None:
            self._pass_bounds_on(parents, first, limits.trend)
        return first

    def _pass_bounds_on(self, parents: Any, first: int, trend: tuple[int, ...]) -> None:
        """Bound the children: a split along a constrained column keeps its sides apart at their middle."""
        one, other = slice(first, self.n, 2), slice(first + 1, self.n, 2)
        for side in (one, other):
            self.low[side], self.high[side] = self.low[parents], self.high[parents]
        middle = (self.value[one] + self.value[other]) / 2
        way = np.asarray(trend)[self.feature[parents]]
        self.high[one] = np.where(way > 0, middle, self.high[one])
        self.low[other] = np.where(way > 0, middle, self.low[other])
        self.low[one] = np.where(way < 0, middle, self.low[one])
        self.high[other] = np.where(way < 0, middle, self.high[other])


def side_values(gradient: Any, hessian: Any, l2: float, bounds: tuple[Any, Any] | None) -> tuple[Any, Any]:
    r"""Return the values v = -G / (H + l2), kept within bounds, and what they gain: -2 G v - (H + l2) v^2."""
    ridge = max(l2, 1e-30)
    value = newton_value(gradient, hessian, ridge)
    if bounds is None:
        return value, -gradient * value
    value = np.minimum(np.maximum(value, bounds[0]), bounds[1])
    return value, newton_gain(gradient, hessian + ridge, value)


def leaf_steps(value: Any, learning_rate: float) -> Any:
    """Return the steps of leaves in units of the scores."""
    step = np.minimum(np.maximum(learning_rate * value, -_LONGEST_STEP), _LONGEST_STEP)
    return np.astype(np.round(step * (1 << SCORE_BITS)), np.int64)


def best_first(nodes: Nodes, max_leaf_nodes: int) -> set[int]:
    """Return the nodes that are split when the largest gain always goes first."""
    gain, left = nodes.gain[: nodes.n].tolist(), nodes.left[: nodes.n].tolist()
    chosen: set[int] = set()
    numbers = itertools.count()  # of equal gains the one that was met first
    heap = [(-gain[0], next(numbers), 0)] if gain[0] > 0 else []
    while heap and len(chosen) < max_leaf_nodes - 1:
        *_, node = heapq.heappop(heap)
        chosen.add(node)
        for child in (left[node], left[node] + 1) if left[node] >= 0 else ():
            if gain[child] > 0:
                heapq.heappush(heap, (-gain[child], next(numbers), child))
    return chosen


def cut_back(nodes: Nodes, limits: BoostingLimits) -> tuple[GrownTree, Any]:
    """Return the tree of the leaves that count, and the leaf that stands for each node's rows."""
    n = nodes.n
    left, parent = nodes.left[:n].copy(), nodes.parent[:n]
    leaf = np.arange(n)
    kept = leaf
    if limits.max_leaf_nodes is not None:
        split = best_first(nodes, limits.max_leaf_nodes)
        left[[node not in split for node in range(n)]] = -1
        is_kept = [True] * n
        for node in range(1, n):
            above = int(parent[node])
            if left[above] < 0 or not is_kept[above]:
                is_kept[node] = False
                leaf[node] = leaf[above]
        kept = np.nonzero(np.asarray(is_kept))[0]
    new_id = np.zeros(n, dtype=np.int64)
    new_id[kept] = np.arange(kept.shape[0])
    left = left[kept]
    is_leaf = left < 0
    tree = GrownTree(
        np.where(is_leaf, 0, nodes.feature[kept]),
        np.where(is_leaf, -1, nodes.threshold[kept]),
        (nodes.is_missing_right[kept] > 0) & ~is_leaf,
        nodes.goes_right[kept] & ~is_leaf[:, None],
        np.where(is_leaf, -1, new_id[left]),
        np.where(is_leaf, -1, new_id[np.where(is_leaf, 0, left + 1)]),
        leaf_steps(nodes.value[kept], limits.learning_rate),
        np.where(is_leaf, 0.0, nodes.gain[kept]),
        _depth(new_id[parent[kept]].tolist()),
    )
    return tree, new_id[leaf]


def _depth(parents: list[int]) -> int:
    """Return the depth of the deepest node; parents come before their children, the root is its own."""
    depth = [0] * len(parents)
    for node, parent in enumerate(parents[1:], start=1):
        depth[node] = depth[parent] + 1
    return max(depth)
