"""Forests: the leaves that rows reach."""

from __future__ import annotations

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.native import native
from arraylearn.backend.ops.binned_trees import BinnedTrees

__all__ = ["reach_leaves"]


def reach_leaves(xp: Namespace, bins: Array, trees: BinnedTrees) -> Array:
    """Find the leaf that each row reaches in each tree of thresholds.

    Parameters
    ----------
    bins : integer array (d, n)
        Column-major bins.
    trees : BinnedTrees
        Without subsets; missing values are larger than all others.

    Returns
    -------
    int32 array (t, n)
        Nodes.
    """
    if fast := native(xp, "reach_leaves"):
        return fast(bins, trees)
    device = array_api_compat.device(bins)
    n, n_trees = bins.shape[1], trees.root.shape[0]
    flat = xp.reshape(bins, (-1,))
    row = xp.arange(n, dtype=xp.int64, device=device)[None, :]
    parts = []
    for few in row_chunks(n_trees, 64 * n):
        node = xp.broadcast_to(xp.astype(trees.root[few], xp.int64)[:, None], (few.stop - few.start, n))
        shape = node.shape
        for _ in range(trees.depth):
            node = xp.reshape(node, (-1,))
            column = xp.reshape(xp.astype(xp.take(trees.feature, node, axis=0), xp.int64), shape)
            bin_at = xp.take(flat, xp.reshape(column * n + row, (-1,)), axis=0)
            right = xp.astype(bin_at, xp.int32) > xp.take(trees.threshold, node, axis=0)
            child = xp.where(right, xp.take(trees.right, node, axis=0), xp.take(trees.left, node, axis=0))
            node = xp.reshape(xp.astype(child, xp.int64), shape)
        parts.append(xp.astype(node, xp.int32))
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
