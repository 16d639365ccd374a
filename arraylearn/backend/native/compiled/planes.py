"""Compiled body for `arraylearn.backend.ops.binned_trees`: one bit per row and condition, 64 rows in a word.

Every distinct condition of the trees is a plane of bits, and the sides that rows take at a level are picked
from the planes of its nodes by the sides above, as in `arraylearn.backend.native.numpy_planes`. Few rows, and
those of deep trees, walk from node to node instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled, compiled_part
from arraylearn.backend.cpu.portions import even_portions
from arraylearn.backend.cpu.wide_words import WORDS, choose_words, mark_rows
from arraylearn.backend.native.compiled.walk_bins import walk_rows
from arraylearn.backend.native.numpy_planes import compile_planes
from arraylearn.backend.threads import parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["sum_leaves"]

# Words of all planes that go through the trees together, so that they stay in the second-level cache, and
# most of one plane.
_ALL_WORDS = 1 << 16
_MOST_WORDS = 32
# Trees whose leaves are added together.
_TREES = 4
# The number of a leaf is a byte; for fewer rows it does not pay to look for the distinct conditions.
_DEEPEST = 8
_FEWEST_ROWS = 512
# Rows times trees that a thread must have, or it costs more than it brings.
_LEAST_WALKS = 100_000


def sum_leaves(bins: Host, trees: Any, n_outputs: int) -> Host:
    n, n_trees = bins.shape[1], trees.root.shape[0]
    sums = np.zeros((n_outputs, n), dtype=np.int32)
    portions = even_portions(n, _LEAST_WALKS // max(1, n_trees))
    if trees.depth == 0 or trees.depth > _DEEPEST or n < _FEWEST_ROWS:
        parallel_map(walk_rows(bins, trees, sums), portions)
        return sums
    n_bins = trees.goes_right.shape[1]
    planes = compile_planes(trees, n_bins, _occurs(bins, n_bins - 1))
    conditions = np.stack((planes.feature, planes.threshold, planes.is_missing_left, planes.subset))
    conditions = conditions.astype(np.int64)
    sets = np.ascontiguousarray(trees.goes_right)
    words = max(1, min(_MOST_WORDS, _ALL_WORDS // conditions.shape[1]) // WORDS) * WORDS
    nodes = planes.of_node.astype(np.int64)

    def run(rows: tuple[int, int]) -> None:
        _sum_rows(bins, conditions, sets, nodes, planes.value, words, *rows, sums)

    parallel_map(run, portions)
    return sums


@compiled
def _occurs(bins: Host, wanted: int) -> Host:
    """Return for each column whether a bin occurs in it."""
    d, n = bins.shape
    found = np.empty(d, dtype=np.bool_)
    for j in range(d):
        number = 0
        for row in range(n):
            number += bins[j, row] == wanted
        found[j] = number > 0
    return found


@compiled
def _sum_rows(
    bins: Host,
    conditions: Host,
    sets: Host,
    of_node: Host,
    value: Host,
    words: int,
    first: int,
    last: int,
    sums: Host,
) -> None:
    """Sum the leaves of the rows `first` to `last`."""
    n_outputs, n_trees = sums.shape[0], of_node.shape[0]
    depth = 0
    while (2 << depth) - 1 <= of_node.shape[1]:
        depth += 1
    planes = np.empty((conditions.shape[1], words), dtype=np.uint64)
    above = np.empty((sets.shape[1], words), dtype=np.uint64)
    sides = np.empty(depth * words, dtype=np.uint64)
    choice = np.empty((1 << depth) // 2 * WORDS, dtype=np.uint64)
    leaf = np.empty((_TREES, 64 * words), dtype=np.uint8)
    for start in range(first, last, 64 * words):
        m = min(64 * words, last - start)
        _fill_planes(bins[:, start : start + m], conditions, sets, above, planes)
        for c in range(n_outputs):
            line = sums[c, start : start + m]
            for tree in range(c, n_trees, _TREES * n_outputs):
                few = min(_TREES, (n_trees - tree - 1) // n_outputs + 1)
                for t in range(few):
                    _find_sides(planes.reshape(-1), of_node[tree + t * n_outputs], words, choice, sides)
                    _number_leaves(sides, words, leaf[t])
                if few == _TREES:
                    _add_four(value, tree, n_outputs, leaf, line)
                else:
                    for t in range(few):
                        _add_one(value[tree + t * n_outputs], leaf[t], line)


@compiled_part
def _fill_planes(bins: Host, conditions: Host, sets: Host, above: Host, planes: Host) -> None:
    """Write the planes of some rows; conditions on one column lie side by side, by threshold, then sets."""
    n_conditions, n_bins, words = conditions.shape[1], sets.shape[1], planes.shape[1]
    stop = 0
    while stop < n_conditions:
        start, feature = stop, conditions[0, stop]
        for b in range(n_bins):
            for w in range(words):
                above[b, w] = 0
        column = bins[feature]
        for row in range(bins.shape[1]):
            above[column[row], row >> 6] |= np.uint64(1) << np.uint64(row & 63)
        # so far `above[b]` are the rows whose bin is b
        while stop < n_conditions and conditions[0, stop] == feature:
            if conditions[3, stop] >= 0:
                _join_bins(above, sets[conditions[3, stop]], planes[stop])
            stop += 1
        missing = n_bins - 1
        for b in range(n_bins - 3, -1, -1):
            for w in range(words):
                above[b, w] |= above[b + 1, w]
        # and now those from b on, without missing ones
        for v in range(start, stop):
            after = conditions[1, v] + 1
            if conditions[3, v] < 0:
                for w in range(words):
                    known = above[after, w] if after < missing else np.uint64(0)
                    planes[v, w] = known if conditions[2, v] else known | above[missing, w]


@compiled_part
def _join_bins(equal: Host, is_in: Host, plane: Host) -> None:
    for w in range(plane.shape[0]):
        plane[w] = 0
    for b in range(is_in.shape[0]):
        if is_in[b]:
            for w in range(plane.shape[0]):
                plane[w] |= equal[b, w]


@compiled_part
def _find_sides(planes: Host, of_node: Host, words: int, choice: Host, sides: Host) -> None:
    """Write the side that each row takes at each level.

    It is that of one of the nodes of the level. Each side above halves the choice: of the two halves a and b,
    ``a ^ (side & (a ^ b))``.
    """
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


@compiled_part
def _number_leaves(sides: Host, words: int, leaf: Host) -> None:
    """Write the number that the sides of each row spell."""
    depth = sides.shape[0] // words
    for i in range(leaf.shape[0]):
        leaf[i] = 0
    for w in range(words):
        for level in range(depth):
            mark_rows(sides, level * words + w, 1 << (depth - 1 - level), leaf, 64 * w)


@compiled_part
def _add_four(value: Host, tree: int, step: int, leaf: Host, line: Host) -> None:
    one, two, three, four = value[tree], value[tree + step], value[tree + 2 * step], value[tree + 3 * step]
    first, second, third, fourth = leaf[0], leaf[1], leaf[2], leaf[3]
    for i in range(line.shape[0]):
        line[i] += one[first[i]] + two[second[i]] + three[third[i]] + four[fourth[i]]


@compiled_part
def _add_one(value: Host, leaf: Host, line: Host) -> None:
    for i in range(line.shape[0]):
        line[i] += value[leaf[i]]
