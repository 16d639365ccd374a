"""Binary trees over binned columns, as the models of forests and boosting keep them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import Place, from_host
from arraylearn.grow.trees import LEAF, Trees
from arraylearn.walk.packed import BinaryNodes, PackedTrees, pack_trees

__all__ = ["BinnedTrees", "join_trees", "pack_binned"]


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


def join_trees(place: Place, parts: Sequence[Trees], n_numeric: int, n_bins: int) -> BinnedTrees:
    """Write grown trees side by side into arrays at `place`; columns from `n_numeric` on may be nominal."""
    xp = place.xp
    sizes = np.asarray([part.feature.shape[0] for part in parts])
    firsts = np.cumulative_sum(sizes) - sizes

    def join(name: str, missing: Any = None) -> Any:
        fields = [getattr(part, name) for part in parts]
        return missing if fields[0] is None else np.concat(fields)

    first_child, n = join("first_child"), int(sizes.sum())
    is_leaf = first_child == LEAF
    # a leaf is its own child; no bin is above its threshold
    left = np.where(is_leaf, np.arange(n), first_child + np.repeat(firsts, sizes))
    feature, sets = join("feature"), join("sets")
    subset = np.full(n, -1)
    if sets is not None:
        nominal = np.nonzero(~is_leaf & (feature >= n_numeric))[0]
        subset[nominal] = np.arange(nominal.shape[0])
        sets = sets[nominal] > 0
    else:
        sets = np.zeros((0, n_bins), dtype=bool)
    roots = np.concat([part.roots + first for part, first in zip(parts, firsts, strict=True)])
    return BinnedTrees(
        from_host(np.where(is_leaf, 0, feature), place, xp.int32),
        from_host(np.where(is_leaf, n_bins, join("low")), place, xp.int32),
        from_host(join("missing_right", np.ones(n, dtype=bool)) & ~is_leaf, place),
        from_host(subset, place, xp.int32),
        from_host(sets, place),
        from_host(left, place, xp.int32),
        from_host(left + ~is_leaf, place, xp.int32),
        from_host(join("value", np.zeros(n, dtype=np.int64)), place, xp.int32),
        from_host(roots, place, xp.int32),
        max(int(np.max(part.depth)) for part in parts),
    )


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
