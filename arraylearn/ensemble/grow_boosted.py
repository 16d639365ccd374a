"""Grow one boosted tree level by level, all nodes of a level at once, with two waits a level at most."""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

from arraylearn._typing import Array
from arraylearn.backend import ops
from arraylearn.backend.namespace import HOST, Place, from_host, to_host
from arraylearn.ensemble.columns import Columns

__all__ = ["GrownTree", "Growth", "Limits", "grow_tree"]

host = HOST.xp

# One step of a tree moves a score by no more than this, in units of the log odds.
_LONGEST_STEP = 16.0


class Limits(NamedTuple):
    """What stops a tree, and the size of its steps."""

    max_depth: int | None
    max_leaf_nodes: int | None
    l2: float
    min_child_hessian: float
    min_samples_leaf: float  # rows of average hessian
    smoothing: float  # of the order of categories, as a hessian
    learning_rate: float


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


class Growth(NamedTuple):
    """A grown tree and where the training rows ended."""

    tree: GrownTree
    order: Array  # (m,) row ids
    starts: Any  # (b,) int64 of the blocks of `order`
    sizes: Any  # (b,) int64
    leaves: Any  # (b,) int64: the leaf of each block


class _Splits(NamedTuple):
    """The best splits of the nodes of a level, on the host."""

    feature: Any  # (k,) int64
    position: Any  # (k,) int64
    is_missing_left: Any  # (k,) bool
    gradient: Any  # (2, k) float64 of the left and the right side
    hessian: Any  # (2, k) float64
    gain: Any  # (k,) float64, 0 where a node cannot be split
    goes_right: Any  # (k, n_bins) bool, or (k, 0)


class _Level(NamedTuple):
    """The nodes of one depth and their packed sums."""

    nodes: Any  # (k,) int64
    sums: Array  # (k, d, n_bins)


class _Nodes:
    """The nodes of a growing tree: arrays that double their length when they are full."""

    feature: Any
    threshold: Any
    is_missing_right: Any
    left: Any  # the right child is the next node; -1 at a leaf
    parent: Any
    value: Any
    start: Any  # of the block of rows
    size: Any
    gain: Any
    hessian: Any
    goes_right: Any  # (m, n_bins)

    _WHOLE = ("feature", "threshold", "is_missing_right", "left", "parent", "value", "start", "size")
    _REAL = ("gain", "hessian")

    def __init__(self, n_rows: int, n_bins: int) -> None:
        self.n, self.room = 1, 128
        for name in self._WHOLE:
            setattr(self, name, host.full(self.room, -1, dtype=host.int64))
        for name in self._REAL:
            setattr(self, name, host.zeros(self.room, dtype=host.float64))
        self.goes_right = host.zeros((self.room, n_bins), dtype=bool)
        self.start[0], self.size[0] = 0, n_rows

    def reserve(self, n: int) -> int:
        """Make room for `n` more nodes and return the first."""
        while self.n + n > self.room:
            for name in (*self._WHOLE, *self._REAL, "goes_right"):
                old = getattr(self, name)
                fresh = host.full(old.shape, -1 if name in self._WHOLE else 0, dtype=old.dtype)
                setattr(self, name, host.concat((old, fresh)))
            self.room *= 2
        self.n += n
        return self.n - n


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
    regular = _in_units(place, shifts, limits)
    is_nominal = columns.bins.shape[0] > columns.n_numeric
    nodes = _Nodes(int(order.shape[0]), columns.n_bins if is_nominal else 0)
    level = _Level(host.arange(1), _histograms(place, columns, packed, order, nodes, host.arange(1)))
    depth = 0
    while level.nodes.shape[0]:
        least = limits.min_samples_leaf / nodes.size[level.nodes]
        best = ops.best_splits(
            place.xp,
            level.sums,
            regular,
            from_host(least, place, place.xp.float32),
            is_used,
            n_numeric=columns.n_numeric,
            has_missing=any(columns.has_missing),
        )
        splits = _read_splits(place, best, shifts, least, limits, is_nominal)
        if depth == 0:
            nodes.value[:1] = _steps(splits.gradient.sum(axis=0), splits.hessian.sum(axis=0), limits)
        chosen = _choose(nodes, level.nodes, splits, limits)
        if not chosen.shape[0]:
            break
        order, n_left = _route(place, columns, order, nodes, level, splits, chosen, best.goes_right)
        _add_children(nodes, level.nodes, splits, chosen, n_left, limits)
        depth += 1
        if depth == limits.max_depth:
            break
        level = _next_level(place, columns, packed, order, nodes, level, chosen, limits)
    return _finish(nodes, order, limits.max_leaf_nodes)


def _in_units(place: Place, shifts: Array, limits: Limits) -> Array:
    """Return ridge, least hessian and smoothing in units of the packed hessians, without a wait."""
    xp = place.xp
    powers = [2.0 ** (ops.GRADIENT_BITS - shift) for shift in range(33)]
    scale = xp.take(xp.asarray(powers, dtype=xp.float32, device=place.device), shifts[1:], axis=0)
    numbers = [limits.l2, limits.min_child_hessian, limits.smoothing]
    # less than one unit of hessian would be nothing to divide by
    floor = xp.asarray([0.0, 1.0, 1.0], dtype=xp.float32, device=place.device)
    return xp.maximum(xp.asarray(numbers, dtype=xp.float32, device=place.device) * scale, floor)


def _histograms(
    place: Place, columns: Columns, packed: Array, order: Array, nodes: _Nodes, which: Any
) -> Array:
    starts, sizes = nodes.start[which].tolist(), nodes.size[which].tolist()
    return ops.block_histograms(
        place.xp, columns.bins, columns.pairs, packed, order, starts, sizes, columns.n_bins
    )


def _read_splits(
    place: Place, best: ops.Splits, shifts: Array, least: Any, limits: Limits, is_nominal: bool
) -> _Splits:
    """Read the best splits in one wait, and compute their gains on the host: the same on every backend."""
    xp = place.xp
    k = best.feature.shape[0]
    is_left = xp.astype(best.is_missing_left, xp.int64)
    parts = [best.feature, best.position, is_left, best.left, best.total, shifts]
    if is_nominal:
        parts.append(xp.reshape(xp.astype(best.goes_right, xp.int64), (-1,)))
    read = to_host(xp.concat(parts))
    feature, position, is_missing_left, left, total = read[: 5 * k].reshape(5, k)
    units = [2.0 ** (shift - ops.GRADIENT_BITS) for shift in read[5 * k : 5 * k + 2].tolist()]
    gradient, hessian = ops.unpack(host.stack((left, total - left, total)))
    gradient, hessian = gradient * units[0], hessian * units[1]
    score = gradient * gradient / host.maximum(hessian + limits.l2, 1e-30)
    gain = score[0] + score[1] - score[2]
    least = host.maximum(
        0.99999 * least * hessian[2], max(limits.min_child_hessian, units[1])
    )  # float32 chose
    is_heavy = host.minimum(hessian[0], hessian[1]) >= least
    gain = gain * (is_heavy & (gain > 1e-6 * (1.0 + abs(gradient[2]))))
    goes_right = read[5 * k + 2 :].reshape(k, -1) > 0
    return _Splits(feature, position, is_missing_left > 0, gradient[:2], hessian[:2], gain, goes_right)


def _steps(gradient: Any, hessian: Any, limits: Limits) -> Any:
    """Return the values of leaves in units of the scores."""
    ridged = hessian + limits.l2
    step = -limits.learning_rate * gradient / host.where(ridged > 0, ridged, host.inf)
    step = host.minimum(host.maximum(step, -_LONGEST_STEP), _LONGEST_STEP)
    return host.astype(host.round(step * (1 << ops.SCORE_BITS)), host.int64)


def _choose(nodes: _Nodes, ids: Any, splits: _Splits, limits: Limits) -> Any:
    """Choose what is split, as positions in the level; with a limit of leaves, what may still count."""
    nodes.gain[ids] = splits.gain
    able = splits.gain > 0
    if limits.max_leaf_nodes is not None:
        # nodes that later levels add can only come before these, never make room for them
        hopeful = _best_first(nodes, limits.max_leaf_nodes)
        able = able & host.asarray([node in hopeful for node in ids.tolist()], dtype=bool)
    return host.nonzero(able)[0]


def _best_first(nodes: _Nodes, max_leaf_nodes: int) -> set[int]:
    """Return the nodes that are split when the largest gain always goes first."""
    gain, left = nodes.gain[: nodes.n].tolist(), nodes.left[: nodes.n].tolist()
    chosen: set[int] = set()
    heap = [(-gain[0], 0)] if gain[0] > 0 else []
    while heap and len(chosen) < max_leaf_nodes - 1:
        _, node = heapq.heappop(heap)
        chosen.add(node)
        for child in (left[node], left[node] + 1) if left[node] >= 0 else ():
            if gain[child] > 0:
                heapq.heappush(heap, (-gain[child], child))
    return chosen


def _route(
    place: Place,
    columns: Columns,
    order: Array,
    nodes: _Nodes,
    level: _Level,
    splits: _Splits,
    chosen: Any,
    goes_right: Array,
) -> tuple[Array, Any]:
    """Sort the rows of the chosen nodes by side; the host waits for the numbers that went left."""
    xp = place.xp
    ids, feature = level.nodes[chosen], splits.feature[chosen]
    has_missing = host.asarray(columns.has_missing)[feature]
    is_plain = (feature < columns.n_numeric) & ~(splits.is_missing_left[chosen] & has_missing)
    thresholds = host.where(is_plain, splits.position[chosen], -1)
    if chosen.shape[0] < level.nodes.shape[0]:
        idx = xp.asarray(chosen.tolist(), dtype=xp.int64, device=place.device)
        goes_right = xp.take(goes_right, idx, axis=0)
    starts, sizes = nodes.start[ids].tolist(), nodes.size[ids].tolist()
    order, n_left = ops.split_blocks(
        xp, columns.bins, order, starts, sizes, feature.tolist(), thresholds.tolist(), goes_right
    )
    return order, to_host(n_left)


def _add_children(nodes: _Nodes, ids: Any, splits: _Splits, chosen: Any, n_left: Any, limits: Limits) -> None:
    """Write the chosen splits and their children into the tree; siblings are neighbours."""
    parents = ids[chosen]
    first = nodes.reserve(2 * parents.shape[0])
    nodes.feature[parents] = splits.feature[chosen]
    nodes.threshold[parents] = splits.position[chosen]
    nodes.is_missing_right[parents] = ~splits.is_missing_left[chosen]
    if splits.goes_right.shape[1]:
        nodes.goes_right[parents] = splits.goes_right[chosen]
    nodes.left[parents] = host.arange(first, nodes.n, 2)
    gradient, hessian = splits.gradient[:, chosen], splits.hessian[:, chosen]
    values = _steps(gradient, hessian, limits)
    start, size = nodes.start[parents], nodes.size[parents]
    starts, sizes = (start, start + n_left), (n_left, size - n_left)
    for side in (0, 1):
        children = slice(first + side, nodes.n, 2)
        nodes.parent[children] = parents
        nodes.value[children] = values[side]
        nodes.hessian[children] = hessian[side]
        nodes.start[children] = starts[side]
        nodes.size[children] = sizes[side]


def _next_level(
    place: Place,
    columns: Columns,
    packed: Array,
    order: Array,
    nodes: _Nodes,
    level: _Level,
    chosen: Any,
    limits: Limits,
) -> _Level:
    """Sum the rows of the smaller children; the larger ones are what remains of their parents."""
    xp = place.xp
    left = nodes.left[level.nodes[chosen]]
    is_alive = host.maximum(nodes.hessian[left], nodes.hessian[left + 1]) >= 2.0 * limits.min_child_hessian
    is_alive &= host.maximum(nodes.size[left], nodes.size[left + 1]) >= 2 * limits.min_samples_leaf
    left, chosen = left[is_alive], chosen[is_alive]
    if not left.shape[0]:
        return _Level(left, level.sums)
    is_right_small = host.astype(nodes.size[left + 1] < nodes.size[left], host.int64)
    small = left + is_right_small
    sums = _histograms(place, columns, packed, order, nodes, small)
    parents = level.sums
    if chosen.shape[0] < level.nodes.shape[0]:
        idx = xp.asarray(chosen.tolist(), dtype=xp.int64, device=place.device)
        parents = xp.take(parents, idx, axis=0)
    large = left + 1 - is_right_small
    return _Level(host.concat((small, large)), xp.concat((sums, parents - sums), axis=0))


def _finish(nodes: _Nodes, order: Array, max_leaf_nodes: int | None) -> Growth:
    """Cut back to the leaves that count, and say in which of them the rows are."""
    n = nodes.n
    left, parent = nodes.left[:n].copy(), nodes.parent[:n]
    ends = host.nonzero(left < 0)[0]  # every row is in one of these blocks
    leaf = host.arange(n)
    kept = leaf
    if max_leaf_nodes is not None:
        split = _best_first(nodes, max_leaf_nodes)
        left[[node not in split for node in range(n)]] = -1
        is_kept = [True] * n
        for node in range(1, n):
            above = int(parent[node])
            if left[above] < 0 or not is_kept[above]:
                is_kept[node] = False
                leaf[node] = leaf[above]
        kept = host.nonzero(host.asarray(is_kept))[0]
    new_id = host.zeros(n, dtype=host.int64)
    new_id[kept] = host.arange(kept.shape[0])
    left = left[kept]
    is_leaf = left < 0
    tree = GrownTree(
        host.where(is_leaf, 0, nodes.feature[kept]),
        nodes.threshold[kept],
        nodes.is_missing_right[kept] > 0,
        nodes.goes_right[kept],
        host.where(is_leaf, -1, new_id[left]),
        host.where(is_leaf, -1, new_id[host.where(is_leaf, 0, left + 1)]),
        nodes.value[kept],
        host.where(is_leaf, 0.0, nodes.gain[kept]),
        _depth(new_id[parent[kept]].tolist()),
    )
    return Growth(tree, order, nodes.start[ends], nodes.size[ends], new_id[leaf[ends]])


def _depth(parents: list[int]) -> int:
    """Return the depth of the deepest node; parents come before their children, the root is its own."""
    depth = [0] * len(parents)
    for node, parent in enumerate(parents[1:], start=1):
        depth[node] = depth[parent] + 1
    return max(depth)
