"""Binary trees over binned columns, as the models of forests and boosting keep them."""

from __future__ import annotations

from typing import NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.walk.packed import BinaryNodes, PackedTrees, pack_trees

__all__ = ["BinnedTrees", "pack_binned"]


class BinnedTrees(NamedTuple):
    """Binary trees over binned columns, all nodes in one row of arrays."""

    feature: Array  # (m,) int32, 0 at a leaf
    threshold: Array  # (m,) int32: bins above it go right
    is_missing_right: Array  # (m,) bool
    subset: Array  # (m,) int32: the row of `goes_right` that decides instead, or -1
    goes_right: Array  # (s, n_bins) bool
    left: Array  # (m,) int32; a leaf is its own child
    right: Array  # (m,) int32: the node after the left one; a leaf is its own child
    value: Array  # (m,) int32 in units of 2**-SCORE_BITS
    root: Array  # (t,) int32
    depth: int


def pack_binned(xp: Namespace, trees: BinnedTrees, n_features: int) -> PackedTrees:
    """Pack trees for walks of bins; the last bin is that of missing values."""
    nodes = BinaryNodes(
        trees.feature,
        trees.threshold,
        trees.left,
        trees.root,
        trees.depth,
        trees.is_missing_right,
        trees.subset,
        trees.goes_right,
    )
    return pack_trees(xp, nodes, n_features, int(trees.goes_right.shape[1]))
