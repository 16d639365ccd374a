"""NumPy body for `arraylearn.backend.ops.binned_trees`: one bit per row and condition, 64 rows in a word.

Every distinct condition of the trees is a plane of bits. The side that a row takes at a level is picked from
the planes of its nodes by the sides above; the sides, one bit per level, are the number of its leaf.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["compile_planes", "fill_planes", "find_leaves", "sum_leaves"]

# Rows of a chunk, and trees that go down together: planes and bits stay in the second-level cache.
_ROWS = 16_384
_TREES = 8
# Trees of at most this depth are treated as complete ones; for few rows that does not pay.
_DEEPEST = 7
_FEWEST_ROWS = 256
# Up to this depth the leaves of two trees are looked up together.
_PAIR_DEPTH = 6


class Planes(NamedTuple):
    """The trees as complete binary trees of planes."""

    feature: Host  # (u,) of each plane, ascending
    threshold: Host  # (u,) larger bins go right; n_bins, which the bins' dtype holds: none; a set: -1
    is_missing_left: Host  # (u,)
    subset: Host  # (u,) row of `goes_right`, or -1
    of_node: Host  # (t, 2**depth - 1) the plane of each node
    value: Host  # (t, 2**depth) of each leaf
    depth: int


def sum_leaves(bins: Host, trees: Any, n_outputs: int) -> Host | None:
    n = bins.shape[1]
    if trees.depth > _DEEPEST or n < _FEWEST_ROWS:
        return None
    sums = np.zeros((n_outputs, n), dtype=np.int32)
    if trees.depth == 0 or n == 0:
        sums += trees.value[trees.root].reshape(-1, n_outputs).sum(axis=0, dtype=np.int32)[:, None]
        return sums
    n_bins = trees.goes_right.shape[1]
    has_missing = (bins == n_bins - 1).any(axis=1)
    planes = compile_planes(trees, n_bins, has_missing)
    # longer calls for several threads: who finds the interpreter lock taken sleeps longer than a short one
    most = _ROWS if get_num_threads() == 1 else 4 * _ROWS
    step = max(64, min(most, -(-n // get_num_threads()) + 63 & ~63))

    def run(start: int) -> None:
        rows = slice(start, min(start + step, n))
        _sum_chunk(bins[:, rows], trees.goes_right, planes, n_outputs, sums[:, rows])

    parallel_map(run, range(0, n, step))
    return sums


def compile_planes(trees: Any, n_bins: int, has_missing: Host) -> Planes:
    """Find the distinct conditions, and the plane of every node of the completed trees."""
    is_leaf = trees.left == trees.right
    is_left = ~trees.is_missing_right & has_missing[trees.feature] & (trees.subset < 0) & ~is_leaf
    threshold = np.where(is_leaf, n_bins, trees.threshold).astype(np.int64)
    detail = np.where(trees.subset < 0, 2 * threshold + is_left, 2 * (n_bins + 1) + trees.subset)
    code = trees.feature.astype(np.int64) * (2 * (n_bins + 1) + trees.goes_right.shape[0]) + detail
    heap = trees.root.astype(np.int64)[:, None]
    levels = []
    for _ in range(trees.depth):
        levels.append(heap)
        heap = np.stack((trees.left[heap], trees.right[heap]), axis=2).reshape(heap.shape[0], -1)
    inner = np.concatenate(levels, axis=1)
    _, node, of_node = np.unique(code[inner], return_index=True, return_inverse=True)
    node = inner.reshape(-1)[node]
    subset = np.where(is_leaf, -1, trees.subset)[node]
    return Planes(
        trees.feature[node],
        np.where(subset < 0, threshold[node], -1),
        is_left[node],
        subset,
        of_node.reshape(inner.shape),
        np.ascontiguousarray(trees.value[heap]),
        trees.depth,
    )


def _sum_chunk(bins: Host, goes_right: Host, planes: Planes, n_outputs: int, out: Host) -> None:
    m = bins.shape[1]
    bits = fill_planes(bins, goes_right, planes)
    n_trees = planes.value.shape[0]
    depth = planes.depth
    sums = np.zeros((n_outputs, 64 * bits.shape[1]), dtype=np.int32)
    for c in range(n_outputs):
        for start in range(c, n_trees, _TREES * n_outputs):
            few = slice(start, min(start + _TREES * n_outputs, n_trees), n_outputs)
            leaf = find_leaves(bits, planes.of_node[few], depth)
            _add_leaves(leaf, planes.value[few], depth, sums[c])
    out[...] = sums[:, :m]


def fill_planes(bins: Host, goes_right: Host, planes: Planes) -> Host:
    """Return the planes (u, words) of a chunk."""
    d, m = bins.shape
    width = -(-m // 64)
    packed = np.zeros((planes.feature.shape[0], 8 * width), dtype=np.uint8)
    bounds = np.searchsorted(planes.feature, np.arange(d + 1))
    for f in range(d):
        mine = np.arange(bounds[f], bounds[f + 1])
        if not mine.shape[0]:
            continue
        kinds = (planes.subset[mine] >= 0) * 2 + planes.is_missing_left[mine]
        for kind in np.unique(kinds):
            which = mine[kinds == kind]
            if kind == 2:
                right = goes_right[planes.subset[which]].take(bins[f], axis=1)
            else:
                column = bins[f] if kind == 0 else np.where(bins[f] == goes_right.shape[1] - 1, 0, bins[f])
                right = column > planes.threshold[which, None].astype(bins.dtype)
            lines = np.packbits(right, axis=1)
            packed[which, : lines.shape[1]] = lines
    return packed.view(np.uint64)


def find_leaves(bits: Host, of_node: Host, depth: int) -> Host:
    """Return the leaf (trees, rows) of each row, as the number that its sides spell.

    The side of a row at a level is that of one of its nodes. Each side above halves the choice: of the two
    halves a and b, ``a ^ (side & (a ^ b))``.
    """
    sides = np.empty((depth, of_node.shape[0], bits.shape[1]), dtype=np.uint64)
    of_level = np.ascontiguousarray(of_node.T)  # nodes first, so that halves are contiguous
    for level in range(depth):
        choice = bits.take(of_level[(1 << level) - 1 : (2 << level) - 1], axis=0)
        for above in range(level):
            half = choice.shape[0] // 2
            choice, other = choice[:half], choice[half:]
            other ^= choice
            other &= sides[above]
            choice ^= other
        sides[level] = choice[0]
    spread = _spread()
    octets = sides.view(np.uint8)
    leaf = spread[depth - 1].take(octets[0])
    for level in range(1, depth):
        leaf |= spread[depth - 1 - level].take(octets[level])
    numbers: Host = leaf.view(np.uint8)
    return numbers


@cache
def _spread() -> list[Host]:
    """For each shift a table from 8 bits to 8 bytes that hold one shifted bit each."""
    single = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    return [np.left_shift(single, shift).view(np.uint64).ravel() for shift in range(8)]


def _add_leaves(leaf: Host, value: Host, depth: int, sums: Host) -> None:
    """Add the values of the leaves of several trees, two trees in one table where it is small."""
    n_trees = leaf.shape[0]
    i = 0
    while i < n_trees:
        if i + 1 < n_trees and depth <= _PAIR_DEPTH:
            both = np.left_shift(leaf[i], depth, dtype=np.uint16)
            both |= leaf[i + 1]
            sums += (value[i][:, None] + value[i + 1]).ravel().take(both)
            i += 2
        else:
            sums += value[i].take(leaf[i])
            i += 1
