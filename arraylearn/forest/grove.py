"""Grown trees as a model keeps them: nodes in small dtypes, class shares, the gain of each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST, Place, from_host
from arraylearn.backend.ops.grown import GrownTrees
from arraylearn.grow.binned_trees import BinnedTrees
from arraylearn.walk.packed import BinaryNodes, PackedTrees, pack_trees

__all__ = ["Grove", "Part", "join_parts", "make_part", "pack_groves"]

# Class shares are integers in units of 2**-20, so that no sum depends on its order.
_SHARE_BITS = 20


class Grove(NamedTuple):
    """Trees that grew together."""

    trees: BinnedTrees
    shares: Array  # (m, c) int32: class shares of each node in units of 2**-20
    gains: Array  # (d,) float: decrease of the impurity by column, on the host


class Part(NamedTuple):
    """Some trees of a grove, on the host."""

    feature: Any  # (m,) int32
    threshold: Any  # (m,) int32: all bins at a leaf
    left: Any  # (m,) int32; a leaf is its own child
    shares: Any  # (m, c) int32
    gains: Any  # (t, d) float64
    roots: Any  # (t,) int32
    depth: int


def make_part(grown: GrownTrees, n_bins: int, d: int) -> Part:
    """Turn class weights into shares, and sum up what each column gained in each tree."""
    n_nodes, n_trees = grown.left.shape[0], grown.roots.shape[0]
    here = np.arange(n_nodes, dtype=np.int32)
    is_leaf = grown.left < 0
    left = np.where(is_leaf, here, np.astype(grown.left, np.int32))
    total = np.sum(grown.counts, axis=1)
    shares = grown.counts / total[:, None]
    shares = np.astype(np.round(shares * (1 << _SHARE_BITS)), np.int32)
    impurity = total - np.sum(grown.counts * grown.counts, axis=1) / total
    inner = np.nonzero(~is_leaf)[0]
    below = left[inner]
    gain = impurity[inner] - impurity[below] - impurity[below + 1]
    tree = np.searchsorted(grown.roots, inner, side="right") - 1
    cell = tree * d + grown.feature[inner]
    return Part(
        np.astype(grown.feature, np.int32),
        np.where(is_leaf, np.asarray(n_bins, dtype=np.int32), np.astype(grown.threshold, np.int32)),
        left,
        shares,
        histogram(HOST.xp, cell, n_trees * d, gain).reshape(n_trees, d),
        np.astype(grown.roots, np.int32),
        grown.depth,
    )


def join_parts(place: Place, parts: list[Part], n_bins: int) -> Grove:
    """Put the trees of several parts, which are used up, into one grove at the place."""
    xp, depth, first = place.xp, max(part.depth for part in parts), 0
    for part in parts:
        for links in (part.left, part.roots):
            links += first
        first += part.left.shape[0]

    def join(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        free: dict[str, Any] = {name: None}
        parts[:] = [part._replace(**free) for part in parts]  # free the field before the next is joined
        return np.concat(arrays)

    def fill(value: int, dtype: Any) -> Array:
        return xp.full((first,), value, dtype=dtype, device=place.device)

    shares = from_host(join("shares"), place)  # the largest one first
    left = join("left")
    right = left + (left != np.arange(first, dtype=np.int32))
    trees = BinnedTrees(
        from_host(join("feature"), place),
        from_host(join("threshold"), place),
        fill(True, xp.bool),
        fill(-1, xp.int32),
        xp.zeros((0, n_bins), dtype=xp.bool, device=place.device),
        from_host(left, place),
        from_host(right, place),
        fill(0, xp.int32),
        from_host(join("roots"), place),
        depth,
    )
    # summed tree by tree: the order of the additions must not depend on which trees grew together
    return Grove(trees, shares, np.sum(join("gains"), axis=0))


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
