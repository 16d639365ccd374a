"""Rows down a forest: all trees at once, a whole node in one integer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.native import native
from arraylearn.backend.ops.binned_trees import BinnedTrees

__all__ = ["ForestWalk", "prepare_walk", "sum_shares"]


class ForestWalk(NamedTuple):
    """The trees of a forest, made ready for rows.

    A record holds, from the top: the left child, which is the right one less 1; what is missing from the
    threshold to all ones; whether the node is a leaf; the column. A bin that is shifted to the threshold's
    place and added carries 1 into the child exactly where it is above the threshold. A leaf is its own child
    and no bin is above its threshold.
    """

    record: Array  # (m,) int64
    shares: Array  # (m, c) int32
    root: Array  # (t,) int64
    depth: int
    column_bits: int
    threshold_bits: int
    native: Any = None  # what a native body made ready beside it

    @property
    def bin_shift(self) -> int:
        """How far a bin is shifted."""
        return self.column_bits + 1

    @property
    def child_shift(self) -> int:
        """Where the child begins."""
        return self.bin_shift + self.threshold_bits


def prepare_walk(
    xp: Namespace, trees: Sequence[BinnedTrees], shares: Sequence[Array], n_columns: int
) -> ForestWalk:
    """Join trees of thresholds and pack their nodes.

    Parameters
    ----------
    trees : sequence of BinnedTrees
        Without subsets; missing values are larger than all others; the right child follows the left one.
    shares : sequence of int32 arrays (m, c)
        What each node of these trees stands for: in the sum over 2**10 trees it must fit 31 bits.
    n_columns : int
        Number of columns of the bins.
    """
    lefts, roots, offset = [], [], 0
    for few in trees:
        lefts.append(xp.astype(few.left, xp.int64) + offset)
        roots.append(xp.astype(few.root, xp.int64) + offset)
        offset += few.left.shape[0]
    left, root = xp.concat(lefts), xp.concat(roots)
    is_leaf = left == xp.arange(offset, dtype=xp.int64, device=array_api_compat.device(left))
    column_bits = max(1, (n_columns - 1).bit_length())
    threshold_bits = trees[0].goes_right.shape[1].bit_length()
    if offset.bit_length() + threshold_bits + column_bits > 62:
        raise ValueError(f"A node must fit 63 bits; got {offset} nodes over {n_columns} columns.")
    top = (1 << threshold_bits) - 1
    threshold = xp.astype(xp.concat([few.threshold for few in trees]), xp.int64)
    column = xp.astype(xp.concat([few.feature for few in trees]), xp.int64)
    record = (left << threshold_bits) + top - xp.where(is_leaf, top, threshold)
    record = (((record << 1) + xp.astype(is_leaf, xp.int64)) << column_bits) + xp.where(is_leaf, 0, column)
    depth = max(few.depth for few in trees)
    walk = ForestWalk(record, xp.concat(list(shares)), root, depth, column_bits, threshold_bits)
    if fast := native(xp, "prepare_walk"):
        return walk._replace(native=fast(walk, n_columns))
    return walk


def sum_shares(xp: Namespace, bins: Array, walk: ForestWalk) -> Array:
    """Sum the shares of the leaves that each row reaches, over all trees.

    Parameters
    ----------
    bins : integer array (d, n)
        Column-major bins.
    walk : ForestWalk
        From `prepare_walk`.

    Returns
    -------
    int64 array (n, c)
        Exact sums, whatever the order.
    """
    if (fast := native(xp, "sum_shares")) and (found := fast(bins, walk)) is not None:
        return found
    n, n_trees, n_classes = bins.shape[1], walk.root.shape[0], walk.shares.shape[1]
    parts = []
    for rows in row_chunks(n, n_trees * (48 + 12 * n_classes)):
        leaves = xp.reshape(_leaves_of(xp, bins, walk, rows), (-1,))
        reached = xp.reshape(xp.take(walk.shares, leaves, axis=0), (n_trees, -1, n_classes))
        parts.append(xp.sum(reached, axis=0, dtype=xp.int64))
    if not parts:
        device = array_api_compat.device(bins)
        return xp.zeros((0, n_classes), dtype=xp.int64, device=device)
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)


def _leaves_of(xp: Namespace, bins: Array, walk: ForestWalk, rows: slice) -> Array:
    """Return the leaves (t, rows) of some rows."""
    device = array_api_compat.device(bins)
    n, shape = bins.shape[1], (walk.root.shape[0], rows.stop - rows.start)
    flat = xp.reshape(bins, (-1,))
    row = xp.arange(rows.start, rows.stop, dtype=xp.int64, device=device)
    row = xp.reshape(xp.broadcast_to(row[None, :], shape), (-1,))
    roots = xp.take(walk.record, walk.root, axis=0)
    record = xp.reshape(xp.broadcast_to(roots[:, None], shape), (-1,))
    column_mask = (1 << walk.column_bits) - 1
    for _ in range(walk.depth):
        bin_at = xp.take(flat, (record & column_mask) * n + row, axis=0)
        record = record + (xp.astype(bin_at, xp.int64) << walk.bin_shift)
        record = xp.take(walk.record, record >> walk.child_shift, axis=0)
    return xp.reshape(record >> walk.child_shift, shape)
