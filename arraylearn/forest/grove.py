"""Grown trees as a model keeps them: nodes in small dtypes, class shares, the gain of each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST, Place, from_host
from arraylearn.grow.trees import LEAF, Trees, join_trees
from arraylearn.walk.packed import BinaryNodes, PackedTrees, pack_trees

__all__ = ["Grove", "join_grove", "pack_groves", "share_sums"]

# Class shares are integers in units of 2**-20, so that no sum depends on its order.
_SHARE_BITS = 20


class Grove(NamedTuple):
    """Trees that grew together."""

    trees: BinaryNodes  # over bins
    shares: Array  # (m, c) int32: class shares of each node in units of 2**-20
    gains: Array  # (d,) float: decrease of the impurity by column, on the host


def share_sums(trees: Trees) -> Trees:
    """Turn class weights into shares in units of 2**-20, int32."""
    shares = trees.sums / np.einsum("ij->i", trees.sums)[:, None]
    shares *= 1 << _SHARE_BITS
    return trees._replace(sums=np.astype(np.round(shares, out=shares), np.int32))


def join_grove(place: Place, parts: list[Trees], n_bins: int, d: int) -> Grove:
    """Put trees with shares into one grove at the place; the list is used up."""
    shares = from_host(np.concat([part.sums for part in parts]), place)
    parts[:] = [part._replace(sums=None) for part in parts]  # free them before the rest is joined
    gains = np.zeros(d)
    for part in parts:
        inner = np.nonzero(part.first_child != LEAF)[0]
        # summed tree by tree: the order of the additions must not depend on which trees grew together
        tree = np.searchsorted(part.roots, inner, side="right") - 1
        cell = tree * d + part.feature[inner]
        by_tree = histogram(HOST.xp, cell, part.roots.shape[0] * d, part.gain[inner])
        for gain in by_tree.reshape(-1, d):
            gains += gain
    return Grove(join_trees(place, parts, d, n_bins), shares, gains)


def pack_groves(
    xp: Namespace, groves: Sequence[Grove], n_features: int, n_bins: int
) -> tuple[PackedTrees, Array]:
    """Return the trees of all groves for walks, and the class shares of their nodes."""
    children, roots, first = [], [], 0
    for grove in groves:
        children.append(grove.trees.child + first)
        roots.append(grove.trees.root + first)
        first += int(grove.trees.child.shape[0])
    nodes = BinaryNodes(
        xp.concat([grove.trees.feature for grove in groves]),
        xp.concat([grove.trees.cut for grove in groves]),
        xp.concat(children),
        xp.concat(roots),
        max(grove.trees.depth for grove in groves),
    )
    return pack_trees(xp, nodes, n_features, n_bins), xp.concat([grove.shares for grove in groves])
