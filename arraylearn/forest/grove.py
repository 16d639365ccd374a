"""Grown trees as a model keeps them: nodes in small dtypes, class shares, the gain of each column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST, Place, from_host
from arraylearn.grow.bounds import clip_shares
from arraylearn.grow.trees import LEAF, Trees, concat_trees
from arraylearn.table.binning import Binning
from arraylearn.walk.packed import PackedTrees, pack_trees

__all__ = ["SHARE_UNIT", "Forest", "Grove", "join_grove", "pack_groves", "share_sums"]

# Class shares are integers in units of 2**-20, so that no sum depends on its order.
_SHARE_BITS = 20
SHARE_UNIT = 2.0**-_SHARE_BITS
# A grove may have an eighth more nodes than its first trees suggest, before its arrays are moved.
_SPARE = 8


class Grove(NamedTuple):
    """Trees that grew together."""

    trees: Trees  # over bins
    # (d,) float, on the host: decrease of the impurity by column, as a share of that of its tree, summed
    gains: Array
    weight: Array  # (m,) float32: of the rows of each node


class Forest(NamedTuple):
    """A fitted forest."""

    binning: Binning
    groves: tuple[Grove, ...]


def share_sums(trees: Trees) -> Trees:
    """Turn class weights into their sums (m, 1) and probabilities in units of 2**-20, int32."""
    weight = np.einsum("ij->i", trees.sums)[:, None]
    shares = trees.sums / weight
    if trees.bounds is not None:
        shares = clip_shares(shares, trees.bounds)
    shares *= 1 << _SHARE_BITS
    shares = np.astype(np.round(shares, out=shares), np.int32)
    return trees._replace(sums=np.astype(weight, np.float32), probability=shares, bounds=None)


def join_grove(place: Place, parts: Iterable[Trees], n_trees: int, d: int) -> Grove:
    """Put trees with shares into one grove at the place; parts come as they are grown, and none is kept."""
    gains, height, roots = np.zeros(d), 0, [np.zeros(0, dtype=np.int64)]
    columns = {name: _Column() for name in ("feature", "threshold", "first_child", "probability", "weight")}
    n_nodes = n_grown = 0
    for part in parts:
        assert part.sets is None
        assert part.default_branch is None
        _add_gains(gains, part, d)
        height = max(height, int(np.max(part.depth)))
        n_grown += part.roots.shape[0]
        expected = -(-(n_nodes + part.n_nodes) * n_trees // n_grown)
        is_leaf, first = part.is_leaf, n_nodes
        fields = {
            "feature": np.where(is_leaf, np.int32(LEAF), part.feature),
            "threshold": np.where(is_leaf, np.int32(0), part.threshold),
            "first_child": np.where(is_leaf, np.int32(LEAF), part.first_child + np.int32(first)),
            "probability": part.probability,
            "weight": part.sums[:, 0],
        }
        for name, values in fields.items():
            columns[name].append(values, expected)
        roots.append(part.roots + first)
        n_nodes += part.n_nodes
    made = {name: from_host(column.finish(), place) for name, column in columns.items()}
    weight = made.pop("weight")
    trees = Trees(roots=from_host(np.concat(roots), place, place.xp.int32), height=height, **made)
    return Grove(trees, gains, weight)


def _add_gains(gains: HostArray, part: Trees, d: int) -> None:
    """Add, for each tree, the share of each column in its gains.

    They are summed tree by tree: the order of the additions must not depend on which trees grew together.
    """
    inner = np.nonzero(~part.is_leaf)[0]
    tree = np.searchsorted(part.roots, inner, side="right") - 1
    cell = tree * d + part.feature[inner]
    by_tree = histogram(HOST.xp, cell, part.roots.shape[0] * d, part.gain[inner])
    for gain in by_tree.reshape(-1, d):
        total = np.sum(gain)
        gains += gain / total if total > 0 else 0.0


class _Column:
    """Values of nodes, in memory that has room for all expected ones; the system gives it as it is filled."""

    def __init__(self) -> None:
        self._values: HostArray | None = None
        self._n = 0

    def append(self, values: HostArray, expected: int) -> None:
        """Add values; `expected` is the number of all of them by what is known so far."""
        end = self._n + values.shape[0]
        if self._values is None:
            self._values = np.empty((expected + expected // _SPARE, *values.shape[1:]), values.dtype)
        if end > self._values.shape[0]:
            size = max(end, expected + expected // _SPARE)
            self._values.resize((size, *values.shape[1:]), refcheck=False)
        self._values[self._n : end] = values
        self._n = end

    def finish(self) -> HostArray:
        """Return all values, without the room to spare."""
        assert self._values is not None
        self._values.resize((self._n, *self._values.shape[1:]), refcheck=False)
        return self._values


def pack_groves(
    xp: Namespace, groves: Sequence[Grove], n_features: int, n_bins: int
) -> tuple[PackedTrees, Array]:
    """Return the trees of all groves for walks, and the class shares of their nodes."""
    trees = concat_trees(xp, [grove.trees for grove in groves])
    return pack_trees(xp, trees, n_features, n_bins), trees.probability
