"""Trees of Newton steps on binned columns: each node carries packed sums of gradients and hessians.

The array program grows a tree by `arraylearn.grow.loop`, with one sync per level. The compiled body grows it
in one call. Both give the same `Trees`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.dispatch import get_tuning, why_not_compiled
from arraylearn.backend.namespace import Place, from_host, to_host
from arraylearn.grow.bounds import constrain
from arraylearn.grow.builder import Builder, Splits
from arraylearn.grow.finder import NodeChoice
from arraylearn.grow.formulas import GRADIENT_BITS, newton_gain, newton_value, unpack
from arraylearn.grow.histograms.bin_finder import BinnedFinder
from arraylearn.grow.histograms.gradient_splits import best_splits
from arraylearn.grow.loop import grow
from arraylearn.grow.rows import Entries, Level, Roots, Rows
from arraylearn.grow.split import SplitRule
from arraylearn.grow.trees import Limits, Trees, best_first
from arraylearn.table.binning import Binning

__all__ = [
    "CATEGORY_PRICE",
    "NOT_DIVIDED",
    "Columns",
    "KeptBuffers",
    "NewtonRule",
    "NewtonTree",
    "PackedGradients",
    "grow_newton_tree",
    "prepare_columns",
    "side_values",
]


# What the best set gains on average for each category of a column that has no part in the classes: the square
# of the mean of abs(z) for a normal z.
CATEGORY_PRICE = 2.0 / math.pi

# `Trees.rows` of the children of the last level, whose rows stay in the order of the parent.
NOT_DIVIDED = -1


class KeptBuffers:
    """Buffers that are reused from tree to tree while their sizes stay the same."""

    def __init__(self) -> None:
        self._sizes: tuple[int, ...] | None = None
        self._buffers: Any = None

    def get(self, sizes: tuple[int, ...], make: Callable[[], Any]) -> Any:
        """Return the buffers; call `make` for new ones if the sizes differ from those of the last call."""
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
    """Regularization of the gain of a split, and constraints."""

    l2: float
    min_child_hessian: float
    smoothing: float  # of the order of categories, as a hessian
    trend: tuple[int, ...] | None = None  # by column: 1 if the score may only rise along it, -1 if only fall
    groups: tuple[tuple[int, ...], ...] | None = None  # one of them has all columns of a path; None: no limit
    price: float = CATEGORY_PRICE  # taken off the gain of a nominal column for each category beyond two

    def in_units(self, place: Place) -> Array:
        """Return ridge, least hessian, smoothing and price of a category, in units by shift: (33, 4)."""
        wanted = (self.l2, self.min_child_hessian, self.smoothing, self.price)
        # a least hessian of one unit, so that no division is by 0
        by_shift = [
            [
                max(x * 2.0 ** (GRADIENT_BITS - shift), least)
                for x, least in zip(wanted, (0, 1, 1, 0), strict=True)
            ]
            for shift in range(33)
        ]
        return place.xp.asarray(by_shift, dtype=place.xp.float32, device=place.device)


class PackedGradients(NamedTuple):
    """The gradients that one tree is grown on."""

    packed: Array  # (n,) int64: hessian << 32 plus gradient
    shift: Array  # (1,) int64: both are in units of 2 ** (shift - GRADIENT_BITS)
    units: Array  # of `NewtonRule.in_units`


class NewtonTree(NamedTuple):
    """A grown tree, and where its rows ended."""

    nodes: Trees
    # (m,) row ids in the order of the leaves, which ``nodes.rows`` maps to nodes. Children of the last
    # level have the start NOT_DIVIDED there. None: the order is not known
    order: Array | None
    unit: float  # of the packed sums


def prepare_columns(place: Place, binning: Binning, bins: Array) -> Columns:
    """Make training columns of bins; one sync to read which columns have missing values."""
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
    """Grow a tree on `rows`, which ascend; the order of its rows is overwritten by the next tree.

    `is_used` (d,) marks the columns that may be split. `min_samples_leaf` counts rows of average hessian.
    """
    work = math.prod(columns.bins.shape), get_tuning().compiled_tree
    if rule.groups is None and why_not_compiled(place, *work) is None:
        from arraylearn.grow.histograms import grow_cpu

        return grow_cpu.grow_newton_tree(columns, gradients, rows, limits, rule, is_used)
    total, unit = _read_root(place, gradients, rows)
    finder = _NewtonFinder(place, columns, gradients, limits, rule, is_used, unit)
    lists = place.xp.astype(rows, place.xp.int32)[None, :]
    sizes = np.asarray([rows.shape[0]])
    nodes = grow(finder, Roots(lists, Entries(None, gradients.packed), total, sizes)).finish_trees()
    return NewtonTree(nodes, None, unit)


def side_values(
    gradient: HostArray, hessian: HostArray, l2: float, bounds: HostArray | None
) -> tuple[HostArray, HostArray]:
    r"""Return v = -G / (H + l2), kept within bounds (2, ...), and its gain -2 G v - (H + l2) v^2."""
    ridge = max(l2, 1e-30)
    value = newton_value(gradient, hessian, ridge)
    if bounds is None:
        return value, -gradient * value
    value = np.minimum(np.maximum(value, bounds[0]), bounds[1])
    return value, newton_gain(gradient, hessian + ridge, value)


# ---- the array program


def _read_root(place: Place, gradients: PackedGradients, rows: Array) -> tuple[HostArray, float]:
    """Return the packed sum (1, 1) of the gradients of some rows, and its unit, on the host; one sync."""
    xp, packed = place.xp, gradients.packed
    if rows.shape[0] < packed.shape[0]:
        packed = xp.take(packed, rows, axis=0)
    total, shift = to_host(xp.stack((xp.sum(packed), gradients.shift[0]))).tolist()
    return np.asarray([[total]]), 2.0 ** (shift - GRADIENT_BITS)


class _NewtonFinder(BinnedFinder):
    """Finds the splits of nodes that carry packed sums of gradients."""

    cells_per_row = math.inf  # nodes of any size are counted

    def __init__(
        self,
        place: Place,
        columns: Columns,
        gradients: PackedGradients,
        limits: Limits,
        newton: NewtonRule,
        is_used: Array | None,
        unit: float,
    ) -> None:
        rule = SplitRule(nominal="binary", missing="direction", trend=newton.trend)
        self.max_leaf_nodes = limits.max_leaf_nodes  # applied in `accept`, by the gains computed there
        limits = limits._replace(max_leaf_nodes=None)
        given = place, _as_rows(place, columns, gradients), rule, limits, None
        super().__init__(*given, columns.bins, columns.n_bins)
        self.columns, self.gradients, self.newton, self.is_used = columns, gradients, newton, is_used
        self.regular = place.xp.take(gradients.units, gradients.shift, axis=0)[0, :]
        self.unit = unit  # of the packed sums
        # (groups, nodes) of each level: whether all columns above a node lie in the group
        self.groups = [np.ones((len(newton.groups or ()), 1), dtype=bool)]

    def choose(self, level: Level) -> NodeChoice:
        """Find the best bin of every column in every node."""
        xp, place = self.place.xp, self.place
        assert level.sums is not None
        running = xp.cumulative_sum(xp.permute_dims(level.sums[:, :, 0, :], (1, 0, 2)), axis=-1)
        best = best_splits(
            xp,
            running,
            self.regular,
            from_host(self.limits.min_samples_leaf / level.sizes, place, xp.float32),
            self._used_in(level),
            n_numeric=self.columns.n_numeric,
            missing=self.columns.missing,
            constraint=constrain(place, self.rule.trend, level, xp.float32),
        )
        is_nominal = self.columns.n_numeric < int(self.columns.bins.shape[0])
        return NodeChoice(
            best.cell // self.n_bins,
            best.left != best.total,
            best.cell % self.n_bins,
            best.is_missing_left,
            goes_right=best.goes_right,
            sets=best.goes_right if is_nominal else None,
            left=best.left[:, None],
        )

    def _used_in(self, level: Level) -> Array | None:
        """Return which columns may be split: (1, d), or (k, d) for each node; None for all."""
        used = None if self.is_used is None else self.is_used[None, :]
        if self.newton.groups is None:
            return used
        members = np.zeros((len(self.newton.groups), self.columns.bins.shape[0]), dtype=bool)
        for member, group in zip(members, self.newton.groups, strict=True):
            member[list(group)] = True
        allowed = from_host(_last(self.groups, level).T @ members, self.place)
        return allowed if used is None else allowed & used

    def accept(self, level: Level, splits: Splits, builder: Builder) -> Splits:
        """Compute the gains on the host, the same on every backend."""
        limits, rule = self.limits, self.newton
        left, right = splits.child_counts[::2, 0], splits.child_counts[1::2, 0]
        gradient, hessian = unpack(np.stack((left, right, level.counts[:, 0])))
        gradient, hessian = gradient * self.unit, hessian * self.unit
        bounds = None if level.bounds is None else level.bounds.T
        value, score = side_values(gradient, hessian, rule.l2, bounds)
        gain = score[0] + score[1] - score[2]
        # the cut was chosen in float32; its gain is computed in float64
        least = 0.99999 * (limits.min_samples_leaf / level.sizes) * hessian[2]
        is_good = np.minimum(hessian[0], hessian[1]) >= np.maximum(
            least, max(rule.min_child_hessian, self.unit)
        )
        is_good &= (gain > 1e-6 + 1e-6 * abs(gradient[2])) & (splits.score > 0)
        if rule.trend is not None:
            is_good &= np.asarray(rule.trend)[splits.column] * (value[1] - value[0]) >= 0
        gain = gain * is_good
        is_split = gain > 0
        if self.max_leaf_nodes is not None:
            is_split &= _may_count(builder, level.ids, gain, self.max_leaf_nodes)
        if rule.groups is not None and bool(np.any(is_split)):
            holds = np.asarray([np.isin(splits.column[is_split], group) for group in rule.groups])
            self.groups.append(np.repeat(_last(self.groups, level)[:, is_split] & holds, 2, axis=1))
        # if no value is missing, those met in prediction go to the heavier side
        is_left = left >= right if splits.missing_left is None else splits.missing_left > 0
        default = np.where(is_left, 0, 1)
        values = np.reshape(value[:2].T, (-1,))
        return splits._replace(is_split=is_split, gain=gain, score=gain, default=default, values=values)

    def may_split(self, counts: HostArray, sizes: HostArray, depth: int) -> HostArray:
        """Whether nodes have enough hessian and rows for two children."""
        hessian = unpack(counts[:, 0])[1] * self.unit
        is_heavy: HostArray = hessian >= 2.0 * self.newton.min_child_hessian
        return is_heavy & (sizes >= 2 * self.limits.min_samples_leaf) & (depth != self.limits.max_depth)


def _as_rows(place: Place, columns: Columns, gradients: PackedGradients) -> Rows:
    """Return rows without classes and with packed gradients as weights."""
    d, n = columns.bins.shape
    no_codes = place.xp.zeros((0, n), dtype=place.xp.int32, device=place.device)
    return Rows(columns.bins, no_codes, None, gradients.packed, (n,), (), tuple(range(d)), False, False)


def _last(levels: list[HostArray], level: Level) -> HostArray:
    """Return the values (..., k) of a level's nodes, which are in the last of `levels`."""
    first = sum(part.shape[1] for part in levels[:-1])
    return levels[-1][:, level.ids - first]


def _may_count(builder: Builder, ids: HostArray, gain: HostArray, max_leaf_nodes: int) -> HostArray:
    """Whether nodes may be among the splits that `max_leaf_nodes` keeps: later ones only displace them."""
    gains = builder.join("gain")
    gains[ids] = gain
    hopeful = best_first(np.where(gains > 0, gains, -np.inf), builder.join("first_child"), max_leaf_nodes)
    return np.asarray([node in hopeful for node in ids.tolist()], dtype=bool)
