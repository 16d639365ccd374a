"""Grown trees as a model keeps them: nodes in small dtypes, class shares, the gain of each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST, Place, from_host
from arraylearn.grow.bounds import clip_shares
from arraylearn.grow.trees import Trees, concat_trees, join_trees
from arraylearn.table.binning import Binning
from arraylearn.walk.packed import PackedTrees, pack_trees

__all__ = ["SHARE_UNIT", "Forest", "Grove", "join_grove", "pack_groves", "share_sums"]

# Class shares are integers in units of 2**-20, so that no sum depends on its order.
_SHARE_BITS = 20
SHARE_UNIT = 2.0**-_SHARE_BITS


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
    shares = clip_shares(trees.sums / weight, trees.bounds)
    shares *= 1 << _SHARE_BITS
    shares = np.astype(np.round(shares, out=shares), np.int32)
    return trees._replace(sums=np.astype(weight, np.float32), probability=shares, bounds=None)


def join_grove(place: Place, parts: list[Trees], n_bins: int, d: int) -> Grove:
    """Put trees with shares into one grove at the place; empties the list, to free its arrays early."""
    shares = from_host(np.concat([part.probability for part in parts]), place)
    weight = from_host(np.concat([part.sums[:, 0] for part in parts]), place)
    # free these arrays before the rest is joined
    parts[:] = [part._replace(probability=None, sums=None) for part in parts]
    gains = np.zeros(d)
    for part in parts:
        inner = np.nonzero(~part.is_leaf)[0]
        # summed tree by tree: the order of the additions must not depend on which trees grew together
        tree = np.searchsorted(part.roots, inner, side="right") - 1
        cell = tree * d + part.feature[inner]
        by_tree = histogram(HOST.xp, cell, part.roots.shape[0] * d, part.gain[inner])
        for gain in by_tree.reshape(-1, d):
            total = np.sum(gain)
            gains += gain / total if total > 0 else 0.0
    return Grove(join_trees(place, parts, d, n_bins)._replace(probability=shares), gains, weight)


def pack_groves(
    xp: Namespace, groves: Sequence[Grove], n_features: int, n_bins: int
) -> tuple[PackedTrees, Array]:
    """Return the trees of all groves for walks, and the class shares of their nodes."""
    trees = concat_trees(xp, [grove.trees for grove in groves])
    return pack_trees(xp, trees, n_features, n_bins), trees.probability
