"""Grown trees as a model keeps them: nodes in small dtypes, class shares, the gain of each column."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST, Place, from_host
from arraylearn.backend.ops.binned_trees import BinnedTrees
from arraylearn.grow.trees import LEAF, Trees

__all__ = ["Grove", "Part", "join_parts", "make_part"]

# Class shares are integers in units of 2**-20, so that no sum depends on its order.
_SHARE_BITS = 20


class Grove(NamedTuple):
    """Trees that grew together."""

    trees: BinnedTrees
    shares: Array  # (m, c) int32: class shares of each node in units of 2**-20
    gains: Array  # (d,) float: decrease of the impurity by column, on the host


class Part(NamedTuple):
    """Some trees of a grove, on the host."""

    trees: Trees  # without sums
    shares: Any  # (m, c) int32
    gains: Any  # (t, d) float64


def make_part(trees: Trees, d: int) -> Part:
    """Turn class weights into shares, and sum up what each column gained in each tree."""
    n_trees = trees.roots.shape[0]
    shares = trees.sums / np.einsum("ij->i", trees.sums)[:, None]
    shares *= 1 << _SHARE_BITS
    shares = np.astype(np.round(shares, out=shares), np.int32)
    inner = np.nonzero(trees.first_child != LEAF)[0]
    tree = np.searchsorted(trees.roots, inner, side="right") - 1
    gains = histogram(HOST.xp, tree * d + trees.feature[inner], n_trees * d, trees.gain[inner])
    return Part(trees._replace(sums=None, gain=None), shares, gains.reshape(n_trees, d))


def join_parts(place: Place, parts: list[Part], n_bins: int) -> Grove:
    """Put the trees of several parts, which are used up, into one grove at the place."""
    xp, first = place.xp, 0
    depth = max(int(np.max(part.trees.depth)) for part in parts)
    for part in parts:
        child, roots = part.trees.first_child, part.trees.roots
        child[child != LEAF] += first
        roots += first
        first += part.shares.shape[0]
    shares = from_host(np.concat([part.shares for part in parts]), place)
    # summed tree by tree: the order of the additions must not depend on which trees grew together
    gains = np.sum(np.concat([part.gains for part in parts]), axis=0)
    trees = [part.trees for part in parts]
    parts.clear()
    feature, cut, child, roots = (
        np.concat([getattr(some, name) for some in trees])
        for name in ("feature", "low", "first_child", "roots")
    )
    del trees
    is_leaf = child == LEAF
    left = np.where(is_leaf, np.arange(first, dtype=np.int32), child)
    feature[is_leaf], cut[is_leaf] = 0, n_bins

    def fill(value: int, dtype: Any) -> Array:
        return xp.full((first,), value, dtype=dtype, device=place.device)

    binned = BinnedTrees(
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
    return Grove(binned, shares, gains)
