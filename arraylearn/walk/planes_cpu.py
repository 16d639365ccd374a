"""CPU body of `arraylearn.walk.leaves` for shallow trees over bins: 64 rows in a word.

A plane holds one bit per row: whether a condition of the trees (feature, cut) sends the row to the right;
equal conditions share a plane. At each level of a tree, the side of a row is its bit in one of the planes of
that level's nodes, chosen by its sides at the levels above; the sides of all levels, read as a binary number,
are the number of its leaf::

    level 0    side = plane of node 0
    level 1    side = plane of node 1 where the side above is 0, that of node 2 where it is 1
    leaf       binary number of the sides, the first level is the highest bit
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arraylearn.backend.cpu.intrinsics import WORDS, choose_words, mark_rows
from arraylearn.backend.cpu.jit import Host, entry, part
from arraylearn.backend.dispatch import get_tuning
from arraylearn.backend.threads import even_portions, parallel_map
from arraylearn.walk.packed import PackedTrees

__all__ = ["pays_for", "walk_trees"]

# Words of all planes that are worked on together, so that they stay in the second-level cache; and the most
# words of one plane.
_ALL_WORDS = 1 << 16
_MOST_WORDS = 32
# Trees whose leaves are added together.
_TREES = 4
# The number of a leaf is a byte; and the least number of rows, below which finding the distinct conditions
# costs more than it saves.
_DEEPEST = 8
_LEAST_ROWS = 512
_MOST_BINS = 256
# In place of the subset of a plane: it compares bins with a cut.
_BY_CUT = -1


class Planes(NamedTuple):
    """The trees as complete binary trees of planes."""

    condition: Host  # (4, u) int64 of each plane: feature, cut, whether missing goes left, subset or _BY_CUT
    goes_right: Host  # (s, n_bins) bool
    of_node: Host  # (t, 2**depth - 1) int64: the plane of each node
    value: Host  # (t, 2**depth) int32 of each leaf
    depth: int


class PlaneScratch(NamedTuple):
    """Buffers of one worker."""

    planes: Host  # (u, words)
    above: Host  # (n_bins, words): first the rows whose bin is b, then those whose bin is b or higher
    sides: Host  # (depth * words,)
    choice: Host  # (2**depth / 2 * WORDS,)
    leaf: Host  # (_TREES, 64 * words) uint8


def pays_for(trees: PackedTrees, n_rows: int, n_columns: int) -> bool:
    """Whether planes serve these trees, and are faster than walks."""
    fits = n_columns == 1 and trees.missing_bin is not None and trees.missing_bin < _MOST_BINS
    return fits and 0 < trees.height <= _DEEPEST and n_rows >= _LEAST_ROWS


def walk_trees(rows: Host, trees: PackedTrees, table: Host, n_outputs: int) -> Host:
    """Sum what leaves hold, by planes: see `arraylearn.walk.leaves.sum_leaves`."""
    n = rows.shape[1]
    sums = np.zeros((n_outputs, n), dtype=np.int32)
    planes = _compile(trees, table, rows.max(axis=1) == trees.missing_bin)
    n_planes, n_bins = planes.condition.shape[1], planes.goes_right.shape[1]
    words = max(1, min(_MOST_WORDS, _ALL_WORDS // n_planes) // WORDS) * WORDS

    def run(portion: tuple[int, int]) -> None:
        scratch = PlaneScratch(
            np.empty((n_planes, words), dtype=np.uint64),
            np.empty((n_bins, words), dtype=np.uint64),
            np.empty(planes.depth * words, dtype=np.uint64),
            np.empty((1 << planes.depth) // 2 * WORDS, dtype=np.uint64),
            np.empty((_TREES, 64 * words), dtype=np.uint8),
        )
        _sum_rows(rows, planes, scratch, *portion, sums)

    steps_per_row = trees.roots.shape[0] * trees.height
    parallel_map(run, even_portions(n, get_tuning().walk_thread_steps // steps_per_row))
    return sums.astype(np.int64)


def _compile(trees: PackedTrees, table: Host, has_missing: Host) -> Planes:
    """Find the distinct conditions, and the plane of every node of the completed trees."""
    record, n_bins = trees.record, int(trees.missing_bin or 0) + 1
    feature = record & trees.feature_mask
    child, is_leaf = record >> trees.child_shift, (record & trees.leaf_bit) != 0
    top = (1 << trees.cut_bits) - 1
    field = (record >> trees.cut_shift) & top
    by_subset = (record & trees.subset_bit) != 0
    flips = ((record & trees.flip_bit) != 0) & has_missing[feature] & ~by_subset
    cut = np.where(is_leaf | by_subset, n_bins, top - field)
    detail = np.where(by_subset, 2 * (n_bins + 1) + field, 2 * cut + flips)
    code = feature * (2 * (n_bins + 1) + top + 1) + detail
    heap = trees.roots[:, None]
    levels = []
    for _ in range(trees.height):
        levels.append(heap)
        first = child[heap]
        heap = np.stack((first, first + ~is_leaf[heap]), axis=2).reshape(heap.shape[0], -1)
    inner = np.concatenate(levels, axis=1)
    _, node, of_node = np.unique(code[inner], return_index=True, return_inverse=True)
    node = inner.reshape(-1)[node]
    subset = np.where(by_subset, field, _BY_CUT)
    goes_right = np.zeros((0, n_bins), dtype=np.bool_) if trees.goes_right is None else trees.goes_right
    return Planes(
        np.stack((feature[node], cut[node], flips[node], subset[node])).astype(np.int64),
        np.ascontiguousarray(goes_right),
        of_node.reshape(inner.shape).astype(np.int64),
        np.ascontiguousarray(table[:, 0][heap], dtype=np.int32),
        trees.height,
    )


@entry
def _sum_rows(bins: Host, planes: Planes, scratch: PlaneScratch, first: int, last: int, sums: Host) -> None:
    """Sum the leaves of the rows `first` to `last`."""
    n_outputs, n_trees, words = sums.shape[0], planes.of_node.shape[0], scratch.planes.shape[1]
    value, leaf = planes.value, scratch.leaf
    for start in range(first, last, 64 * words):
        m = min(64 * words, last - start)
        _fill_planes(bins[:, start : start + m], planes.condition, planes.goes_right, scratch)
        for c in range(n_outputs):
            total = sums[c][start : start + m]
            for tree in range(c, n_trees, _TREES * n_outputs):
                n_together = min(_TREES, (n_trees - tree - 1) // n_outputs + 1)
                for t in range(n_together):
                    _number_leaves(scratch, planes.of_node[tree + t * n_outputs], leaf[t])
                if n_together == _TREES:
                    _add_four(value, tree, n_outputs, leaf, total)
                else:
                    for t in range(n_together):
                        held, own = value[tree + t * n_outputs], leaf[t]
                        for i in range(m):
                            total[i] += held[own[i]]


@part
def _fill_planes(bins: Host, condition: Host, goes_right: Host, scratch: PlaneScratch) -> None:
    """Write the planes of some rows; conditions on one feature lie side by side, by cut, then subsets."""
    planes, above = scratch.planes, scratch.above
    n_conditions, n_bins, words = condition.shape[1], goes_right.shape[1], planes.shape[1]
    stop, missing = 0, n_bins - 1
    while stop < n_conditions:
        start, feature = stop, condition[0, stop]
        for b in range(n_bins):
            for w in range(words):
                above[b, w] = 0
        column = bins[feature]
        for row in range(bins.shape[1]):
            above[column[row], row >> 6] |= np.uint64(1) << np.uint64(row & 63)
        # so far `above[b]` are the rows whose bin is b
        while stop < n_conditions and condition[0, stop] == feature:
            subset = condition[3, stop]
            if subset != _BY_CUT:
                for w in range(words):
                    planes[stop, w] = 0
                for b in range(n_bins):
                    if goes_right[subset, b]:
                        for w in range(words):
                            planes[stop, w] |= above[b, w]
            stop += 1
        for b in range(n_bins - 3, -1, -1):
            for w in range(words):
                above[b, w] |= above[b + 1, w]
        # and now the rows whose bin is b or higher, without missing values
        for v in range(start, stop):
            after = condition[1, v] + 1
            if condition[3, v] == _BY_CUT:
                for w in range(words):
                    known = above[after, w] if after < missing else np.uint64(0)
                    planes[v, w] = known if condition[2, v] else known | above[missing, w]


@part
def _number_leaves(scratch: PlaneScratch, of_node: Host, leaf: Host) -> None:
    """Write the side that each row takes at each level, and the number that the sides spell.

    Each side of a level above halves the candidates among the planes of a level: with the two halves a and b,
    ``a ^ (side & (a ^ b))`` takes b where the side is 1 and a elsewhere.
    """
    planes, sides, choice = scratch.planes.reshape(-1), scratch.sides, scratch.choice
    words = scratch.planes.shape[1]
    depth = sides.shape[0] // words
    for here in range(0, words, WORDS):
        for w in range(WORDS):
            sides[here + w] = planes[of_node[0] * words + here + w]
        for level in range(1, depth):
            half = 1 << (level - 1)
            for i in range(half):
                one, other = of_node[2 * half - 1 + i], of_node[3 * half - 1 + i]
                choose_words(planes, one * words + here, other * words + here, sides, here, choice, WORDS * i)
            for above in range(1, level):
                half >>= 1
                for i in range(half):
                    side = above * words + here
                    choose_words(choice, WORDS * i, WORDS * (half + i), sides, side, choice, WORDS * i)
            for w in range(WORDS):
                sides[level * words + here + w] = choice[w]
    for i in range(leaf.shape[0]):
        leaf[i] = 0
    for w in range(words):
        for level in range(depth):
            mark_rows(sides, level * words + w, 1 << (depth - 1 - level), leaf, 64 * w)


@part
def _add_four(value: Host, tree: int, step: int, leaf: Host, total: Host) -> None:
    one, two, three, four = value[tree], value[tree + step], value[tree + 2 * step], value[tree + 3 * step]
    first, second, third, fourth = leaf[0], leaf[1], leaf[2], leaf[3]
    for i in range(total.shape[0]):
        total[i] += one[first[i]] + two[second[i]] + three[third[i]] + four[fourth[i]]
