"""Forests: the best cuts of many nodes of many trees at once, and the leaves that rows reach.

The rows of a node lie side by side, node after node; a row is a row id and a payload, which holds its weight
(a whole number) and its class: ``weight << class_bits | class``. Sorting packed keys node | bin | payload
orders all rows of all nodes by one column each, with everything that a scan needs inside the key.
"""

from __future__ import annotations

from collections.abc import Sequence

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.backend.native import native
from arraylearn.backend.ops.binned_trees import BinnedTrees
from arraylearn.backend.ops.blocks import block_index, block_max, first_in_block

__all__ = ["best_cuts", "reach_leaves"]

# Room for the weight of a row in its payload.
_WEIGHT_BITS = 24


def best_cuts(
    xp: Namespace,
    bins: Array,
    rows: Array,
    payload: Array,
    sizes: Sequence[int],
    features: Array,
    counts: Array,
    *,
    n_bins: int,
    class_bits: int,
    least: int,
) -> tuple[Array, Array, Array]:
    r"""Find the cut of each node with the purest sides, among some columns of its own.

    .. math:: \sum_c l_c^2 / l + \sum_c r_c^2 / r

    Parameters
    ----------
    bins : integer array (d, n)
        Column-major bins in ``range(n_bins)``.
    rows : int64 array (m,)
        Row ids, the rows of each node side by side.
    payload : int64 array (m,)
        Weight and class of each.
    sizes : sequence of k int
        Rows of each node, one at least.
    features : int64 array (k, f)
        The columns that each node looks at.
    counts : int64 array (k, c)
        Weight of each class in each node.
    n_bins, class_bits : int
        See above.
    least : int
        Least weight of a side.

    Returns
    -------
    score : float array (k,)
        The formula, in the accumulator's dtype; 0 where no cut is allowed.
    slot : int64 array (k,)
        Which of the columns; the first of the best.
    cut : int64 array (k,)
        Bins above it go right: halfway between the last bin on the left and the first on the right.
    """
    if fast := native(xp, "best_cuts"):
        score, slot, cut = fast(bins, rows, payload, sizes, features, counts, n_bins, class_bits, least)
        return score, slot, cut
    device = array_api_compat.device(rows)
    m, n, (k, f) = rows.shape[0], bins.shape[1], features.shape
    size = xp.asarray(list(sizes), dtype=xp.int64, device=device)
    block = block_index(xp, size, m)
    starts = xp.cumulative_sum(size) - size
    bits = (class_bits + _WEIGHT_BITS, n_bins.bit_length())
    column = xp.permute_dims(xp.take(features, block, axis=0), (1, 0))
    bin_at = xp.take(xp.reshape(bins, (-1,)), xp.reshape(column * n + rows[None, :], (-1,)), axis=0)
    key = ((block << bits[1]) + xp.reshape(xp.astype(bin_at, xp.int64), (f, m))) << bits[0]
    key = xp.sort(key + payload[None, :], axis=-1)
    weight = (key & ((1 << bits[0]) - 1)) >> class_bits
    code = key & ((1 << class_bits) - 1)
    key = key >> bits[0]
    # the node of a position is the same in every sorted line
    left_squares = right_squares = n_left = xp.zeros((f, m), dtype=xp.int64, device=device)
    for c in range(counts.shape[1]):
        total = xp.take(counts[:, c], block, axis=0)[None, :]
        before = xp.take(xp.cumulative_sum(counts[:, c]) - counts[:, c], block, axis=0)[None, :]
        left = xp.cumulative_sum(xp.where(code == c, weight, 0), axis=-1) - before
        left_squares, n_left = left_squares + left * left, n_left + left
        right_squares = right_squares + (total - left) * (total - left)
    dtype = accumulator_dtype(Place(xp, device))
    n_right = xp.take(xp.sum(counts, axis=1), block, axis=0)[None, :] - n_left
    is_last = xp.ones((f, 1), dtype=xp.bool, device=device)
    is_step = xp.concat((key[:, 1:] != key[:, :-1], is_last), axis=1)
    is_allowed = is_step & (n_left >= least) & (n_right >= max(least, 1))
    sides = [
        xp.astype(squares, dtype) / xp.astype(xp.where(is_allowed, number, 1), dtype)
        for squares, number in ((left_squares, n_left), (right_squares, n_right))
    ]
    scores = xp.where(is_allowed, sides[0] + sides[1], 0.0)
    best = block_max(xp, scores, starts, block)  # (f, k)
    slot = xp.astype(xp.argmax(best, axis=0), xp.int64)
    line = xp.arange(k, dtype=xp.int64, device=device)
    score = xp.take(xp.reshape(best, (-1,)), slot * k + line, axis=0)
    is_hit = scores == xp.take(best, block, axis=1)
    first = xp.take(xp.reshape(first_in_block(xp, is_hit, starts, block), (-1,)), slot * k + line, axis=0)
    flat = xp.reshape(key, (-1,))
    at = slot * m + xp.maximum(first, xp.zeros_like(first))
    after = xp.minimum(at + 1, xp.full_like(at, f * m - 1))
    mask = (1 << bits[1]) - 1
    cut = ((xp.take(flat, at, axis=0) & mask) + (xp.take(flat, after, axis=0) & mask)) >> 1
    return score, slot, xp.where(score > 0, cut, 0)


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
