"""Grown trees as a model keeps them: nodes in small dtypes, class shares, the gain of each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST, Place, from_host
from arraylearn.grow.binned_trees import BinnedTrees
from arraylearn.grow.trees import LEAF, Trees
from arraylearn.walk.packed import BinaryNodes, PackedTrees, pack_trees

__all__ = ["Grove", "join_trees", "pack_groves", "share_sums"]

# Class shares are integers in units of 2**-20, so that no sum depends on its order.
_SHARE_BITS = 20


class Grove(NamedTuple):
    """Trees that grew together."""

    trees: BinnedTrees
    shares: Array  # (m, c) int32: class shares of each node in units of 2**-20
    gains: Array  # (d,) float: decrease of the impurity by column, on the host


def share_sums(trees: Trees) -> Trees:
    """Turn class weights into shares in units of 2**-20, int32."""
    shares = trees.sums / np.einsum("ij->i", trees.sums)[:, None]
    shares *= 1 << _SHARE_BITS
    return trees._replace(sums=np.astype(np.round(shares, out=shares), np.int32))


def join_trees(place: Place, parts: list[Trees], n_bins: int, d: int) -> Grove:
    """Put trees with shares into one grove at the place; the list is used up."""
    xp, first = place.xp, 0
    depth = max(int(np.max(part.depth)) for part in parts)
    for part in parts:
        child, roots = part.first_child, part.roots
        child[child != LEAF] += first
        roots += first
        first += child.shape[0]

    def join(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        free: dict[str, Any] = {name: None}
        parts[:] = [part._replace(**free) for part in parts]  # free the field before the next is joined
        return np.concat(arrays)

    shares = from_host(join("sums"), place)  # the largest one first
    feature, cut, child, roots, gain = map(join, ("feature", "low", "first_child", "roots", "gain"))
    is_leaf = child == LEAF
    # summed tree by tree: the order of the additions must not depend on which trees grew together
    tree = np.searchsorted(roots, np.nonzero(~is_leaf)[0], side="right") - 1
    gains = histogram(HOST.xp, tree * d + feature[~is_leaf], roots.shape[0] * d, gain[~is_leaf])
    left = np.where(is_leaf, np.arange(first, dtype=np.int32), child)
    feature[is_leaf], cut[is_leaf] = 0, n_bins

    def fill(value: int, dtype: Any) -> Array:
        return xp.full((first,), value, dtype=dtype, device=place.device)

    trees = BinnedTrees(
        from_host(feature, place),
        from_host(cut, place),
        fill(True, xp.bool),
        fill(-1, xp.int32),
        xp.zeros((0, n_bins), dtype=xp.bool, device=place.device),
        from_host(left, place),
        from_host(left + ~is_leaf, place),
        fill(0, xp.int32),
        from_host(np.astype(roots, np.int32), place),
        depth,
    )
    return Grove(trees, shares, np.sum(gains.reshape(-1, d), axis=0))


def pack_groves(xp: Namespace, groves: Sequence[Grove], n_features: int) -> tuple[PackedTrees, Array]:
    """Return the trees of all groves for walks, and the class shares of their nodes."""
    lefts, roots, first = [], [], 0
    for grove in groves:
        lefts.append(grove.trees.left + first)
        roots.append(grove.trees.root + first)
        first += int(grove.trees.left.shape[0])
    nodes = BinaryNodes(
        xp.concat([grove.trees.feature for grove in groves]),
        xp.concat([grove.trees.threshold for grove in groves]),
        xp.concat(lefts),
        xp.concat(roots),
        max(grove.trees.depth for grove in groves),
    )
    packed = pack_trees(xp, nodes, n_features, int(groves[0].trees.goes_right.shape[1]))
    return packed, xp.concat([grove.shares for grove in groves])
