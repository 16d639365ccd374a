"""Binary trees over binned columns, walked by all rows at once."""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.native import native

__all__ = ["BinnedTrees", "sum_leaves"]


class BinnedTrees(NamedTuple):
    """Binary trees over binned columns, all nodes in one row of arrays."""

    feature: Array  # (m,) int32, 0 at a leaf
    threshold: Array  # (m,) int32: bins above it go right
    is_missing_right: Array  # (m,) bool
    subset: Array  # (m,) int32: the row of `goes_right` that decides instead, or -1
    goes_right: Array  # (s, n_bins) bool
    left: Array  # (m,) int32; a leaf is its own child
    right: Array  # (m,) int32
    value: Array  # (m,) int32 in units of 2**-SCORE_BITS
    root: Array  # (t,) int32
    depth: int


def sum_leaves(xp: Namespace, bins: Array, trees: BinnedTrees, n_outputs: int) -> Array:
    """Sum the values of the leaves that each row reaches.

    Parameters
    ----------
    bins : uint8 array (d, n)
        Column-major bins; the last one of ``range(n_bins)`` is that of missing values.
    trees : BinnedTrees
        A multiple of `n_outputs` trees; tree i adds to output ``i % n_outputs``.
    n_outputs : int
        Number of outputs.

    Returns
    -------
    int32 array (n_outputs, n)
        Exact sums, whatever the order.
    """
    if (fast := native(xp, "sum_leaves")) and (found := fast(bins, trees, n_outputs)) is not None:
        return found
    device = array_api_compat.device(bins)
    n, n_trees = bins.shape[1], trees.root.shape[0]
    sums = xp.zeros((n_outputs, n), dtype=xp.int32, device=device)
    flat = xp.reshape(bins, (-1,))
    for few in row_chunks(n_trees // n_outputs, 64 * n * n_outputs):
        roots = trees.root[few.start * n_outputs : few.stop * n_outputs]
        node = xp.broadcast_to(xp.astype(roots, xp.int64)[:, None], (roots.shape[0], n))
        node = xp.reshape(node, (-1,))
        row = xp.reshape(
            xp.broadcast_to(xp.arange(n, dtype=xp.int64, device=device)[None, :], (roots.shape[0], n)), (-1,)
        )
        for _ in range(trees.depth):
            node = _next_node(xp, flat, n, row, node, trees)
        reached = xp.reshape(xp.take(trees.value, node, axis=0), (-1, n_outputs, n))
        sums = sums + xp.astype(xp.sum(xp.astype(reached, xp.int64), axis=0), xp.int32)
    return sums


def _next_node(xp: Namespace, flat: Array, n: int, row: Array, node: Array, trees: BinnedTrees) -> Array:
    n_bins = trees.goes_right.shape[1]
    column = xp.astype(xp.take(trees.feature, node, axis=0), xp.int64)
    bin_at = xp.astype(xp.take(flat, column * n + row, axis=0), xp.int64)
    goes_right = bin_at > xp.astype(xp.take(trees.threshold, node, axis=0), xp.int64)
    is_missing = bin_at == n_bins - 1
    goes_right = xp.where(is_missing, xp.take(trees.is_missing_right, node, axis=0), goes_right)
    if trees.goes_right.shape[0]:
        subset = xp.astype(xp.take(trees.subset, node, axis=0), xp.int64)
        cell = xp.where(subset < 0, 0, subset) * n_bins + bin_at
        listed = xp.take(xp.reshape(trees.goes_right, (-1,)), cell, axis=0)
        goes_right = xp.where(subset < 0, goes_right, listed)
    child = xp.where(goes_right, xp.take(trees.right, node, axis=0), xp.take(trees.left, node, axis=0))
    return xp.astype(child, xp.int64)
