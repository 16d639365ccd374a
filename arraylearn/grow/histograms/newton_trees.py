"""Trees of Newton steps on binned columns: each node carries packed sums of gradients and hessians.

The array program grows a tree level by level, with two syncs a level at most: the best splits, and how many
rows went left. The compiled body grows it in one call. Both give the same `Trees`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.dispatch import why_not_compiled
from arraylearn.backend.namespace import Place, from_host, to_host
from arraylearn.grow.formulas import GRADIENT_BITS, newton_gain, newton_value, unpack
from arraylearn.grow.histograms.gradient_splits import Constraint, GradientSplits, best_splits
from arraylearn.grow.histograms.node_blocks import BlockSplits, block_histograms, split_blocks
from arraylearn.grow.loop import grow_levels
from arraylearn.grow.trees import LEAF, Cuts, Limits, TreeLevels, Trees, best_first
from arraylearn.table.binning import Binning

__all__ = [
    "Columns",
    "KeptBuffers",
    "NewtonRule",
    "NewtonTree",
    "PackedGradients",
    "divide_as",
    "grow_newton_tree",
    "prepare_columns",
    "side_values",
]


class KeptBuffers:
    """The buffers of trees that grow one after the other: made anew where their sizes change."""

    def __init__(self) -> None:
        self._sizes: tuple[int, ...] | None = None
        self._buffers: Any = None

    def get(self, sizes: tuple[int, ...], make: Callable[[], Any]) -> Any:
        """Return the buffers of these sizes, or let `make` make them."""
        if self._sizes != sizes:
            self._sizes, self._buffers = sizes, make()
        return self._buffers


class Columns(NamedTuple):
    """Binned training columns, numeric ones first."""

    bins: Array  # (d, n) uint8
    n_bins: int
    n_numeric: int
    missing: tuple[int, ...]  # the columns with missing values
    buffers: KeptBuffers  # of compiled growth, from round to round


class NewtonRule(NamedTuple):
    """What the gain of a split is made of, and which values nodes may have."""

    l2: float
    min_child_hessian: float
    smoothing: float  # of the order of categories, as a hessian
    trend: tuple[int, ...] | None = None  # of each column: 1 if the score may only rise along it, -1 if fall

    def in_units(self, place: Place) -> Array:
        """Return ridge, least hessian and smoothing (33, 3) in units of packed hessians, by their shift."""
        wanted = (self.l2, self.min_child_hessian, self.smoothing)
        # less than one unit of hessian would be nothing to divide by
        lines = [
            [
                max(x * 2.0 ** (GRADIENT_BITS - shift), least)
                for x, least in zip(wanted, (0, 1, 1), strict=True)
            ]
            for shift in range(33)
        ]
        return place.xp.asarray(lines, dtype=place.xp.float32, device=place.device)


class PackedGradients(NamedTuple):
    """The gradients that one tree is grown on."""

    packed: Array  # (n,) int64: hessian << 32 plus gradient
    shift: Array  # (1,) int64: both are in units of 2 ** (shift - GRADIENT_BITS)
    units: Array  # of `NewtonRule.in_units`


class NewtonTree(NamedTuple):
    """A grown tree, and where its rows ended."""

    nodes: (
        Trees  # with `rows`; of the children of the last level, whose rows are not sorted, they begin at -1
    )
    order: Array  # (m,) row ids
    unit: float  # of the packed sums


def prepare_columns(place: Place, binning: Binning, bins: Array) -> Columns:
    """Make training columns of bins; the host waits to learn which columns have missing values."""
    xp = place.xp
    is_missing = to_host(xp.max(bins, axis=1)) == binning.n_bins - 1
    missing = tuple(j for j, is_some in enumerate(is_missing.tolist()) if is_some)
    return Columns(bins, binning.n_bins, int(binning.edges.shape[0]), missing, KeptBuffers())


def grow_newton_tree(
    place: Place,
    columns: Columns,
    gradients: PackedGradients,
    rows: Array,
    limits: Limits,
    rule: NewtonRule,
    is_used: Array | None,
) -> NewtonTree:
    """Grow a tree on `rows`, which ascend; its order lasts until the next one.

    `is_used` (d,) marks the columns that may be split. `min_samples_leaf` counts rows of average hessian.
    """
    if why_not_compiled(place, math.prod(columns.bins.shape)) is None:
        from arraylearn.grow.histograms import grow_cpu

        return grow_cpu.grow_newton_tree(columns, gradients, rows, limits, rule, is_used)
    program = _NewtonLevels(place, columns, gradients, rows, limits, rule, is_used)
    grow_levels(program, program.first_level())
    return program.finish()


def side_values(gradient: Any, hessian: Any, l2: float, bounds: Any | None) -> tuple[Any, Any]:
    r"""Return v = -G / (H + l2), kept within bounds (2, ...), and what it gains: -2 G v - (H + l2) v^2."""
    ridge = max(l2, 1e-30)
    value = newton_value(gradient, hessian, ridge)
    if bounds is None:
        return value, -gradient * value
    value = np.minimum(np.maximum(value, bounds[0]), bounds[1])
    return value, newton_gain(gradient, hessian + ridge, value)


def divide_as(place: Place, columns: Columns, nodes: Trees, parents: Any) -> BlockSplits:
    """Describe how the rows of inner nodes are divided."""
    feature, low, sets = nodes.feature[parents], nodes.threshold[parents], None
    missing_right = nodes.default_branch[parents]
    if parents.shape[0] and (columns.missing or nodes.sets is not None):
        goes_right = np.arange(columns.n_bins) > low[:, None]
        goes_right[:, -1] = missing_right
        if nodes.sets is not None:
            is_nominal = feature >= columns.n_numeric
            goes_right[is_nominal] = nodes.sets[parents][is_nominal] > 0
        sets = from_host(goes_right, place)
    return _describe(columns, nodes.rows[:, parents], feature, low, missing_right, sets)


def _describe(
    columns: Columns, rows: Any, feature: Any, low: Any, missing_right: Any, sets: Array | None
) -> BlockSplits:
    """Describe how blocks (2, k) of rows are divided: by a bin, or by sets (k, n_bins)."""
    if sets is not None:
        is_left = ~missing_right & np.isin(feature, columns.missing)
        low = np.where((feature < columns.n_numeric) & ~is_left, low, -1)
    starts, sizes = rows.tolist()
    return BlockSplits(starts, sizes, feature.tolist(), low.tolist(), sets)


# ---- the array program


class _NewtonLevel(NamedTuple):
    """Nodes of one depth, and their packed sums."""

    ids: Any  # (k,) int64 on the host, like all but the sums
    start: Any  # (k,) of the rows of each node in the order
    size: Any  # (k,)
    bounds: Any  # (2, k) least and greatest value; None: without limits
    running: Array  # (k, d, n_bins) running sums over the bins


class _NewtonSplits(NamedTuple):
    """The best splits of the nodes of a level."""

    cuts: Cuts
    hessian: Any  # (2, k) of both sides
    value: Any  # (2, k) what the score of each should change by
    goes_right: Array | None  # (k, n_bins) at the place, where a position is not enough


class _NewtonLevels:
    """A tree that grows level by level, for `grow_levels`."""

    def __init__(
        self,
        place: Place,
        columns: Columns,
        gradients: PackedGradients,
        rows: Array,
        limits: Limits,
        rule: NewtonRule,
        is_used: Array | None,
    ) -> None:
        self.place, self.columns, self.gradients = place, columns, gradients
        self.limits, self.rule, self.is_used = limits, rule, is_used
        self.order = place.xp.asarray(rows, copy=True)
        self.regular = place.xp.take(gradients.units, gradients.shift, axis=0)[0, :]
        self.is_nominal = columns.bins.shape[0] > columns.n_numeric
        self.unit = 0.0  # of the packed sums; read with the first splits
        self.trees = TreeLevels(np.zeros((1, 1), dtype=np.int64))
        n = int(self.order.shape[0])
        self.rows = [np.asarray([[0], [n]])]  # (2, nodes of a level): start and size
        self.bounds = [np.asarray([[-np.inf], [np.inf]])]

    def first_level(self) -> _NewtonLevel:
        """Return the root."""
        root, (start, size) = np.arange(1), self.rows[0]
        return _NewtonLevel(root, start, size, self._bounds(root), self._count(start, size))

    def _bounds(self, ids: Any) -> Any:
        """Return the bounds of nodes of the last level."""
        first = self.trees.n_nodes - self.bounds[-1].shape[1]
        return None if self.rule.trend is None else self.bounds[-1][:, ids - first]

    def _count(self, start: Any, size: Any) -> Array:
        columns, blocks = self.columns, (start.tolist(), size.tolist())
        packed = self.gradients.packed
        return block_histograms(self.place.xp, columns.bins, packed, self.order, *blocks, columns.n_bins)

    def search(self, level: _NewtonLevel) -> _NewtonSplits:
        """Find the best split of each node; its gain is computed on the host, the same on every backend."""
        xp, limits, rule = self.place.xp, self.limits, self.rule
        least = limits.min_samples_leaf / level.size
        constraint = None
        if rule.trend is not None:
            trend = xp.asarray(list(rule.trend), dtype=xp.float32, device=self.place.device)
            constraint = Constraint(trend, from_host(level.bounds, self.place, xp.float32))
        best = best_splits(
            xp,
            level.running,
            self.regular,
            from_host(least, self.place, xp.float32),
            self.is_used,
            n_numeric=self.columns.n_numeric,
            missing=self.columns.missing,
            constraint=constraint,
        )
        cell, left, total, is_missing_left, sets = self._read(best)
        gradient, hessian = unpack(np.stack((left, total - left, total)))
        gradient, hessian = gradient * self.unit, hessian * self.unit
        value, score = side_values(gradient, hessian, rule.l2, level.bounds)
        gain = score[0] + score[1] - score[2]
        # float32 chose
        least = np.maximum(0.99999 * least * hessian[2], max(rule.min_child_hessian, self.unit))
        is_good = np.minimum(hessian[0], hessian[1]) >= least
        is_good &= gain > 1e-6 + 1e-6 * abs(gradient[2])
        feature, position = divmod(cell, self.columns.n_bins)
        if rule.trend is not None:
            is_good &= np.asarray(rule.trend)[feature] * (value[1] - value[0]) >= 0
        gain = gain * is_good
        sums = np.stack((left, total - left), axis=1)[:, :, None]
        is_split = self._may_count(level.ids, gain)
        cuts = Cuts(is_split, feature, position, sums, gain, ~is_missing_left, sets)
        return _NewtonSplits(cuts, hessian[:2], value[:2], best.goes_right)

    def _read(self, best: GradientSplits) -> tuple[Any, Any, Any, Any, Any]:
        """Read cell, left and total sum, side of missing values and sets of the best splits in one sync."""
        xp, k = self.place.xp, best.cell.shape[0]
        parts = [best.cell, best.left, best.total, self.gradients.shift]
        if best.is_missing_left is not None:
            parts.append(xp.astype(best.is_missing_left, xp.int64))
        if self.is_nominal and best.goes_right is not None:
            parts.append(xp.reshape(xp.astype(best.goes_right, xp.int64), (-1,)))
        read = to_host(xp.concat(parts))
        cell, left, total = read[: 3 * k].reshape(3, k)
        rest = read[3 * k + 1 :]
        if not self.trees.depth:
            self.unit = 2.0 ** (int(read[3 * k]) - GRADIENT_BITS)
            self.trees.levels[0]["sums"] = total[:, None]
        # where nothing is missing, later rows go where most of the weight is
        is_missing_left = left >= total - left if best.is_missing_left is None else rest[:k] > 0
        return cell, left, total, is_missing_left, rest[k:].reshape(k, -1) > 0 if self.is_nominal else None

    def _may_count(self, ids: Any, gain: Any) -> Any:
        """Whether nodes are split; with a limit of leaves, whether their leaves may still be among these."""
        able = gain > 0
        if self.limits.max_leaf_nodes is None:
            return able
        gains = np.zeros(self.trees.n_nodes)
        if (known := self.trees.join("gain")) is not None:
            gains += known
        gains[ids] = gain
        # nodes that later levels add can only come before these, never after
        hopeful = best_first(gains, self.trees.join("first_child"), self.limits.max_leaf_nodes)
        return able & np.asarray([node in hopeful for node in ids.tolist()], dtype=bool)

    def add(self, level: _NewtonLevel, found: _NewtonSplits) -> Any:
        """Write the splits into the tree; return the left child of each node."""
        left = self.trees.add(level.ids, found.cuts)
        if self.rule.trend is not None and bool(np.any(left != LEAF)):
            chosen = _in_order(left)
            feature = found.cuts.feature[chosen]
            given = level.bounds[:, chosen], np.asarray(self.rule.trend)[feature], found.value[:, chosen]
            self.bounds.append(_pass_bounds_on(*given))
        return left

    def divide(self, level: _NewtonLevel, found: _NewtonSplits, children: Any) -> _NewtonLevel | None:
        """Sort the rows of the nodes that are split, and sum those of their children."""
        chosen = _in_order(children)
        if not chosen.shape[0]:
            return None
        if self.trees.depth == self.limits.max_depth:
            self.rows.append(np.full((2, 2 * chosen.shape[0]), -1))
            return None
        xp, cuts, sets = self.place.xp, found.cuts, found.goes_right
        sets = None if sets is None else xp.take(sets, self._index(chosen), axis=0)
        start, size = level.start[chosen], level.size[chosen]
        split = cuts.feature[chosen], cuts.low[chosen], cuts.missing_right[chosen], sets
        moves = _describe(self.columns, np.stack((start, size)), *split)
        self.order, n_left = split_blocks(xp, self.columns.bins, self.order, moves)
        n_left = to_host(n_left)
        sizes = np.stack((n_left, size - n_left))
        starts = np.stack((start, start + n_left))
        self.rows.append(np.stack((starts.T.reshape(-1), sizes.T.reshape(-1))))
        return self._next_level(level, found, chosen, children[chosen])

    def _next_level(
        self, level: _NewtonLevel, found: _NewtonSplits, chosen: Any, left: Any
    ) -> _NewtonLevel | None:
        """Sum the rows of the smaller children; the larger ones are what remains of their parents."""
        xp, limits = self.place.xp, self.limits
        size = self.rows[-1][1].reshape(-1, 2)
        is_alive = np.max(found.hessian[:, chosen], axis=0) >= 2.0 * self.rule.min_child_hessian
        is_alive &= np.max(size, axis=1) >= 2 * limits.min_samples_leaf
        if not is_alive.all():
            left, chosen, size = left[is_alive], chosen[is_alive], size[is_alive]
        if not left.shape[0]:
            return None
        is_right_small = size[:, 1] < size[:, 0]
        ids = np.concat((left + is_right_small, left + 1 - is_right_small))
        start, size = self.rows[-1][:, ids - (self.trees.n_nodes - self.rows[-1].shape[1])]
        n_small = left.shape[0]
        running = self._count(start[:n_small], size[:n_small])
        parents = xp.take(level.running, self._index(chosen), axis=0)
        running = xp.concat((running, parents - running), axis=0)
        alive = np.nonzero(size >= 2 * limits.min_samples_leaf)[0]
        if alive.shape[0] < ids.shape[0]:
            if not alive.shape[0]:
                return None
            ids, start, size = ids[alive], start[alive], size[alive]
            running = xp.take(running, self._index(alive), axis=0)
        return _NewtonLevel(ids, start, size, self._bounds(ids), running)

    def _index(self, positions: Any) -> Array:
        return from_host(positions, self.place, self.place.xp.int64)

    def finish(self) -> NewtonTree:
        """Return the tree."""
        nodes = self.trees.finish()._replace(rows=np.concat(self.rows, axis=1))
        if self.rule.trend is not None:
            nodes = nodes._replace(bounds=np.concat(self.bounds, axis=1).T)
        return NewtonTree(nodes, self.order, self.unit)


def _in_order(left: Any) -> Any:
    """Return the nodes that are split, in the order of their children."""
    chosen = np.nonzero(left != LEAF)[0]
    return chosen[np.argsort(left[chosen])]


def _pass_bounds_on(bounds: Any, way: Any, value: Any) -> Any:
    """Bound the children (2, 2 k) of nodes: a split along a trend keeps its sides apart at their middle."""
    (low, high), middle = bounds, (value[0] + value[1]) / 2
    left = np.where(way < 0, middle, low), np.where(way > 0, middle, high)
    right = np.where(way > 0, middle, low), np.where(way < 0, middle, high)
    return np.stack((left, right), axis=2).reshape(2, -1)
