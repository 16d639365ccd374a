"""Grow one boosted tree level by level, all nodes of a level at once, at most two waits for the host a level."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import NamedTuple

from arraylearn._typing import Array
from arraylearn.backend import ops
from arraylearn.backend.namespace import Place, to_host
from arraylearn.ensemble.columns import Columns

__all__ = ["Growth", "GrownTree", "Limits", "grow_tree"]

# One step of a tree moves a score by no more than this, in units of the log odds.
_LONGEST_STEP = 16.0


class Limits(NamedTuple):
    """What stops a tree, and the size of its steps."""

    max_depth: int | None
    max_leaf_nodes: int | None
    l2: float
    min_child_hessian: float
    smoothing: float  # of the order of categories, as a hessian
    learning_rate: float


@dataclass
class GrownTree:
    """A tree on the host; node 0 is the root, -1 for the children of a leaf."""

    feature: list[int] = field(default_factory=list)
    threshold: list[int] = field(default_factory=list)
    is_missing_right: list[bool] = field(default_factory=list)
    goes_right: list[list[bool] | None] = field(default_factory=list)  # of nominal splits
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    value: list[int] = field(default_factory=list)  # in units of 2**-SCORE_BITS
    gain: list[float] = field(default_factory=list)  # of the split that was made
    hessian: list[float] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)

    def add(self, value: int, hessian: float, parent: int) -> int:
        """Append a leaf and return its id."""
        self.feature.append(0)
        self.threshold.append(0)
        self.is_missing_right.append(False)
        self.goes_right.append(None)
        self.left.append(-1)
        self.right.append(-1)
        self.value.append(value)
        self.gain.append(0.0)
        self.hessian.append(hessian)
        self.depth.append(self.depth[parent] + 1 if parent >= 0 else 0)
        self.parent.append(parent)
        return len(self.feature) - 1


class Growth(NamedTuple):
    """A grown tree and where the training rows ended."""

    tree: GrownTree
    order: Array  # (m,) row ids
    starts: list[int]  # of the blocks of `order`
    sizes: list[int]
    leaves: list[int]  # the leaf of each block


class _Split(NamedTuple):
    """What the host reads of the best split of a node."""

    feature: int
    position: int
    is_missing_left: bool
    left: tuple[float, float]  # gradient and hessian
    right: tuple[float, float]
    gain: float
    goes_right: list[int]  # empty unless there are nominal columns


@dataclass
class _Level:
    """The nodes of one depth, with their blocks and their packed sums."""

    nodes: list[int]
    starts: list[int]
    sizes: list[int]
    sums: Array  # (k, d, n_bins)


def grow_tree(
    place: Place,
    columns: Columns,
    packed: Array,
    shifts: Array,
    order: Array,
    limits: Limits,
    is_used: Array | None,
) -> Growth:
    """Grow a tree on the rows in `order`.

    `packed` (n,) and `shifts` (2,) are one line of `ops.log_loss_gradients`; `is_used` (d,) marks the columns
    that may be split. `order` belongs to this function.
    """
    xp = place.xp
    regular = _in_units(place, shifts, limits)
    tree = GrownTree()
    blocks: dict[int, tuple[int, int]] = {0: (0, int(order.shape[0]))}
    sums = _histograms(place, columns, packed, order, [0], [int(order.shape[0])])
    level = _Level([0], [0], [int(order.shape[0])], sums)
    depth = 0
    while level.nodes:
        best = ops.best_splits(
            xp,
            level.sums,
            regular,
            is_used,
            n_numeric=columns.n_numeric,
            has_missing=any(columns.has_missing),
        )
        splits = [_judge(row, limits) for row in _read_splits(place, best, shifts, columns)]
        if depth == 0:
            gradient, hessian = (a + b for a, b in zip(splits[0].left, splits[0].right, strict=True))
            tree.add(_step(gradient, hessian, limits), hessian, -1)
        chosen = _choose(tree, level.nodes, splits, limits)
        if not chosen:
            break
        order, sizes = _route(place, columns, order, level, splits, chosen, best.goes_right)
        depth += 1
        families = _add_children(tree, level, splits, chosen, sizes, blocks, limits)
        if depth == limits.max_depth:
            break
        level = _next_level(place, columns, packed, order, tree, level, families, blocks, limits)
    _cut_back(tree, limits.max_leaf_nodes)
    leaves = _leaf_of_each(tree, blocks)
    return Growth(tree, order, [start for start, _ in blocks.values()], [n for _, n in blocks.values()], leaves)


def _in_units(place: Place, shifts: Array, limits: Limits) -> Array:
    """Return ridge, least hessian and smoothing in units of the packed hessians, without a wait."""
    xp = place.xp
    powers = [2.0 ** (ops.GRADIENT_BITS - shift) for shift in range(33)]
    scale = xp.take(xp.asarray(powers, dtype=xp.float32, device=place.device), shifts[1:], axis=0)
    numbers = xp.asarray(
        [limits.l2, limits.min_child_hessian, limits.smoothing], dtype=xp.float32, device=place.device
    )
    # less than one unit of hessian would be nothing to divide by
    floor = xp.asarray([0.0, 1.0, 1.0], dtype=xp.float32, device=place.device)
    return xp.maximum(numbers * scale, floor)


def _histograms(
    place: Place, columns: Columns, packed: Array, order: Array, starts: list[int], sizes: list[int]
) -> Array:
    return ops.block_histograms(
        place.xp, columns.bins, columns.pairs, packed, order, starts, sizes, columns.n_bins
    )


def _read_splits(place: Place, best: ops.Splits, shifts: Array, columns: Columns) -> list[list[int]]:
    """Read everything about the best splits in one wait."""
    xp = place.xp
    parts = [best.feature, best.position, best.is_missing_left, best.left, best.total]
    k = best.feature.shape[0]
    table = [xp.astype(part, xp.int64)[:, None] for part in parts] + [xp.broadcast_to(shifts, (k, 2))]
    if columns.bins.shape[0] > columns.n_numeric:
        table.append(xp.astype(best.goes_right, xp.int64))
    rows: list[list[int]] = to_host(xp.concat(table, axis=1)).tolist()
    return rows


def _judge(row: list[int], limits: Limits) -> _Split:
    """Compute the gain of a split in Python's floats: the same on every backend."""
    feature, position, is_missing_left, packed_left, packed_total, *rest = row
    units = [2.0 ** (shift - ops.GRADIENT_BITS) for shift in rest[:2]]
    left, right, total = (
        (gradient * units[0], hessian * units[1])
        for gradient, hessian in map(ops.unpack, (packed_left, packed_total - packed_left, packed_total))
    )
    gain = 0.0
    if min(left[1], right[1]) >= max(limits.min_child_hessian, units[1]):
        scores = [gradient * gradient / (hessian + limits.l2) for gradient, hessian in (left, right, total)]
        gain = scores[0] + scores[1] - scores[2]
    least = 1e-6 * (1.0 + abs(total[0]))
    return _Split(feature, position, bool(is_missing_left), left, right, gain if gain > least else 0.0, rest[2:])


def _step(gradient: float, hessian: float, limits: Limits) -> int:
    """Return the value of a leaf in units of the scores."""
    if hessian + limits.l2 <= 0:
        return 0
    step = -limits.learning_rate * gradient / (hessian + limits.l2)
    return round(min(max(step, -_LONGEST_STEP), _LONGEST_STEP) * (1 << ops.SCORE_BITS))


def _choose(tree: GrownTree, nodes: list[int], splits: list[_Split], limits: Limits) -> list[int]:
    """Choose the positions in the level that are split; with a limit of leaves, those that may still count."""
    for node, split in zip(nodes, splits, strict=True):
        tree.gain[node] = split.gain
    able = [i for i, split in enumerate(splits) if split.gain > 0]
    if limits.max_leaf_nodes is None:
        return able
    # nodes that later levels add can only come before these, never make room for them
    hopeful = _best_first(tree, limits.max_leaf_nodes)
    return [i for i in able if nodes[i] in hopeful]


def _best_first(tree: GrownTree, max_leaf_nodes: int) -> set[int]:
    """Return the nodes that are split when the largest gain always goes first."""
    chosen: set[int] = set()
    heap = [(-tree.gain[0], 0)] if tree.gain[0] > 0 else []
    while heap and len(chosen) < max_leaf_nodes - 1:
        _, node = heapq.heappop(heap)
        chosen.add(node)
        for child in (tree.left[node], tree.right[node]):
            if child >= 0 and tree.gain[child] > 0:
                heapq.heappush(heap, (-tree.gain[child], child))
    return chosen


def _route(
    place: Place,
    columns: Columns,
    order: Array,
    level: _Level,
    splits: list[_Split],
    chosen: list[int],
    goes_right: Array,
) -> tuple[Array, list[int]]:
    """Sort the rows of the chosen nodes by side; the host waits for the number that went left."""
    xp = place.xp
    features = [splits[i].feature for i in chosen]
    thresholds = []
    for i, feature in zip(chosen, features, strict=True):
        is_plain = feature < columns.n_numeric and not (
            splits[i].is_missing_left and columns.has_missing[feature]
        )
        thresholds.append(splits[i].position if is_plain else -1)
    if len(chosen) < len(splits):
        goes_right = xp.take(goes_right, xp.asarray(chosen, dtype=xp.int64, device=place.device), axis=0)
    starts, sizes = ([part[i] for i in chosen] for part in (level.starts, level.sizes))
    order, left = ops.split_blocks(xp, columns.bins, order, starts, sizes, features, thresholds, goes_right)
    left_sizes: list[int] = to_host(left).tolist()
    return order, left_sizes


def _add_children(
    tree: GrownTree,
    level: _Level,
    splits: list[_Split],
    chosen: list[int],
    left_sizes: list[int],
    blocks: dict[int, tuple[int, int]],
    limits: Limits,
) -> list[tuple[int, int, int]]:
    """Write the chosen splits into the tree; return (position in the level, left child, right child)."""
    families = []
    for i, n_left in zip(chosen, left_sizes, strict=True):
        node, split = level.nodes[i], splits[i]
        left, right = (tree.add(_step(*side, limits), side[1], node) for side in (split.left, split.right))
        tree.feature[node], tree.threshold[node] = split.feature, split.position
        tree.is_missing_right[node] = not split.is_missing_left
        tree.left[node], tree.right[node] = left, right
        tree.goes_right[node] = [bool(cell) for cell in split.goes_right] or None
        start, size = blocks.pop(node)
        blocks[left], blocks[right] = (start, n_left), (start + n_left, size - n_left)
        families.append((i, left, right))
    return families


def _next_level(
    place: Place,
    columns: Columns,
    packed: Array,
    order: Array,
    tree: GrownTree,
    level: _Level,
    families: list[tuple[int, int, int]],
    blocks: dict[int, tuple[int, int]],
    limits: Limits,
) -> _Level:
    """Sum the rows of the smaller children; the larger ones are what remains of their parents."""
    xp = place.xp
    least = 2.0 * limits.min_child_hessian
    families = [family for family in families if max(tree.hessian[family[1]], tree.hessian[family[2]]) >= least]
    if not families:
        return _Level([], [], [], level.sums)
    by_size = [sorted(children, key=lambda node: blocks[node][1]) for _, *children in families]
    small, large = [pair[0] for pair in by_size], [pair[1] for pair in by_size]
    nodes = small + large
    starts, sizes = [blocks[node][0] for node in nodes], [blocks[node][1] for node in nodes]
    k = len(small)
    sums = _histograms(place, columns, packed, order, starts[:k], sizes[:k])
    parents = level.sums
    if k < len(level.nodes):
        idx = xp.asarray([i for i, _, _ in families], dtype=xp.int64, device=place.device)
        parents = xp.take(parents, idx, axis=0)
    return _Level(nodes, starts, sizes, xp.concat((sums, parents - sums), axis=0))


def _cut_back(tree: GrownTree, max_leaf_nodes: int | None) -> None:
    """Make leaves of the nodes that a growth by largest gain would not have split."""
    if max_leaf_nodes is None:
        return
    kept = _best_first(tree, max_leaf_nodes)
    for node in range(len(tree.left)):
        if node not in kept:
            tree.left[node] = tree.right[node] = -1


def _leaf_of_each(tree: GrownTree, blocks: dict[int, tuple[int, int]]) -> list[int]:
    """Find the leaf of the finished tree that each block lies in."""
    leaf = list(range(len(tree.left)))
    for node, parent in enumerate(tree.parent):  # parents come before their children
        if parent >= 0 and tree.left[parent] < 0:
            leaf[node] = leaf[parent]
    return [leaf[node] for node in blocks]
