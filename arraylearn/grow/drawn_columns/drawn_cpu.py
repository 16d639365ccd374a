"""Trees whose nodes look at drawn columns, in compiled loops: `drawn.grow_trees` for CPUs.

A tree grows depth first, the smaller child first: the rows of a small node stay in the cache until all below
it is done, and at most log2(n) nodes are pending. The rows of a node lie side by side::

    entries    | ... |  left child   |    right child     | ... |
                     start       start + n_left      start + size

Two families share the loop; Numba compiles each for itself, since `left` is None in one of them:

- two classes: a sum is one packed integer, the pair ``weight << 32 | weight of the second class``;
- more classes: a sum is a vector of class weights.

The rows of a node are put in order by each column, and cuts scored after each row. Large nodes are counted by
groups of bins instead, as are heavy ones, whose products of weights do not fit 32 bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.cpu.jit import Host, Int, entry, index, inlined, part
from arraylearn.backend.namespace import Place
from arraylearn.grow import formulas
from arraylearn.grow.drawn_columns.drawn import Bags, DrawnPlan, pack_rows, with_gains
from arraylearn.grow.trees import LEAF, Trees
from arraylearn.grow.trees_cpu import number_nodes

__all__ = ["grow_trees"]

# Rows of `_Nodes.ints`, and columns of `_Nodes.stack`.
_FEATURE, _CUT, _CHILD = range(3)
_NODE, _START, _SIZE, _DEPTH = range(4)
# Pending nodes, at most: the smaller child of each pair is taken first, and trees have up to 2**31 rows.
_PENDING = 34
# Rows of `_Scratch.ints` and, the first three, of `_Scratch.wide`: weight on the left after each row or group
# (for two classes the pair), sums of squared class weights on both sides, loads, keys, and keys in order.
_LEFT, _INSIDE, _OUTSIDE, _LOAD, _KEY, _ORDERED = range(6)
# A load is what a row adds: its weight in the upper field, and in the lower one its class, or, for two
# classes, the weight again if it is in the second one. A key is bin and place. Fields have 16 bits, in `wide`
# and `loads` 32.
_NARROW, _WIDE = 16, 32
_NARROW_MASK, _WIDE_MASK = (1 << 16) - 1, (1 << 32) - 1
# Products of weights up to here fit 32 bits, and they themselves a narrow field.
_HEAVIEST = 46_340
# Columns whose bins are gathered together; loops of vectors go a few items beyond the rows of a node.
_TOGETHER, _LANES = 8, 8
# Nodes of up to so many rows compare each row with each other; larger ones sort bins by two digits.
_COMPARED = 40
_DIGIT_BITS, _DIGITS = 6, 64
_BEYOND = np.int32(2**31 - 1)  # of all bins
_NO_GAIN, _NO_SCORE, _NO_SPLIT = np.float32(formulas.NO_GAIN), np.float32(0), -1

_gini_of_two = part(formulas.gini_of_two)
_gini_squares = part(formulas.gini_squares)
_group_bits = part(formulas.group_bits)
_draw_position = part(formulas.draw_position)


class _Task(NamedTuple):
    """What is the same for all nodes of all trees; the last five as in `CutRules`."""

    bins: Host  # (n * d,) int16: the bins of a row side by side
    columns: Host  # (draws, f) int32: a node looks at the columns of one draw
    every: Host  # (1, d) int32: all columns
    positions: Host  # (d * n_bins,) int64: where bins lie, if cuts are drawn; else empty
    max_depth: int  # -1: any
    min_split: int  # a node of less weight is a leaf
    n_bins: int
    class_bits: int
    payload_bits: int
    min_side: int
    large: int


class _Nodes(NamedTuple):
    """The nodes of a tree in the order in which they were made, siblings side by side, and pending ones."""

    ints: Host  # (3, 2 m) int32: feature, cut, left child; filled with LEAF
    sums: Host  # (2 m, c) int64: class weights; (2 m, 1): pairs
    stack: Host  # (pending, 4) int64: node, first entry, number of entries, depth
    seeds: Host  # (pending,) uint64
    places: Host  # (5, 2 m) int32: see `number_nodes`


class _Scratch(NamedTuple):
    """Buffers for nodes of up to m rows, of which s or fewer are put in order."""

    spare: Host  # (m,) int64: entries on their way to the right side
    offsets: Host  # (m,) int64: where the bins of each row begin
    loads: Host  # (m,) int64: wide loads
    found: Host  # (8, m + 8) int32: the bins of the rows in some columns
    ints: Host  # (6, s + 8) int32
    wide: Host  # (3, groups) int64
    scores: Host  # (s + 8,) float32
    score_bits: Host  # the same memory as int32: the same order, as no score is negative
    digits: Host  # (2, 64) int32
    cells: Host  # (groups * c,) int64


def grow_trees(place: Place, bins: Host, codes: Host, bags: Bags, plan: DrawnPlan) -> Trees:
    """Grow one tree per bag on `bins` (d, n), those of a row side by side: see `drawn.grow_trees`."""
    rows, limits = pack_rows(codes, bags, plan), plan.limits
    most, is_pair = int(bags.sizes.max()), plan.n_classes <= 2
    task = _Task(
        np.ascontiguousarray(bins.T, dtype=np.int16).reshape(-1),
        np.ascontiguousarray(plan.columns, dtype=np.int32),
        np.arange(bins.shape[0], dtype=np.int32)[None, :],
        np.ascontiguousarray(() if plan.positions is None else plan.positions, dtype=np.int64),
        -1 if limits.max_depth is None else limits.max_depth,
        int(max(limits.min_samples_split, 2 * limits.min_samples_leaf)),
        *rows.rules,
    )
    roots = rows.sums
    if is_pair:
        roots = (np.sum(roots, axis=1, keepdims=True) << _WIDE) + roots[:, -1:]
    nodes = _Nodes(
        np.empty((3, 2 * most), dtype=np.int32),
        np.empty((2 * most, roots.shape[1]), dtype=np.int64),
        np.empty((_PENDING, 4), dtype=np.int64),
        np.empty(_PENDING, dtype=np.uint64),
        np.empty((5, 2 * most), dtype=np.int32),
    )
    scratch = _make_scratch(most, plan.n_bins, roots.shape[1])
    left = None if is_pair else np.empty(plan.n_classes, dtype=np.int64)
    parts, start, first = [], 0, 0
    for size, seed, root in zip(bags.sizes.tolist(), bags.seeds, roots, strict=True):
        nodes.ints.fill(LEAF)
        nodes.sums[0] = root
        n_nodes = _grow_tree(task, rows.entries[start : start + size].copy(), seed, nodes, scratch, left)
        where, child, depth = nodes.places[:3, :n_nodes].copy()
        child[child != LEAF] += first
        feature, cut, sums = (np.take(field, where, axis=0) for field in (*nodes.ints[:_CHILD], nodes.sums))
        parts.append((feature, cut, child, depth, sums))
        start, first = start + size, first + n_nodes
    feature, cut, child, depth, sums = (np.concatenate(column) for column in zip(*parts, strict=True))
    if is_pair:
        second = sums & _WIDE_MASK
        sums = np.concatenate(((sums >> _WIDE) - second, second), axis=1)[:, -plan.n_classes :]
    roots = np.nonzero(depth == 0)[0]
    return with_gains(Trees(roots, feature, cut, child, depth, sums=sums))


def _make_scratch(m: int, n_bins: int, n_words: int) -> _Scratch:
    n_groups, s = max(n_bins, formulas.MOST_GROUPS), min(m, _HEAVIEST) + _LANES
    spare, offsets, loads = np.empty((3, m + _LANES), dtype=np.int64)
    scores = np.empty(max(s, n_groups), dtype=np.float32)
    return _Scratch(
        spare,
        offsets,
        loads,
        np.empty((_TOGETHER, m + _LANES), dtype=np.int32),
        np.empty((6, s), dtype=np.int32),
        np.empty((3, n_groups), dtype=np.int64),
        scores,
        scores.view(np.int32),
        np.empty((2, _DIGITS), dtype=np.int32),
        np.empty(n_groups * n_words, dtype=np.int64),
    )


# ---- the loop


@entry
def _grow_tree(
    task: _Task, entries: Host, seed: Any, nodes: _Nodes, scratch: _Scratch, left: Host | None
) -> Int:
    """Grow a tree from the root, whose sums are known; number its nodes, and return how many they are.

    The split of a node is searched among the columns of the draw of its seed; where none of them can be cut,
    among all.
    """
    ints, sums, stack, seeds, found = nodes.ints, nodes.sums, nodes.stack, nodes.seeds, scratch.found
    bins, offsets, n_columns, is_drawn = (
        task.bins,
        scratch.offsets,
        task.every.shape[1],
        len(task.positions) > 0,
    )
    n_nodes, n_pending = 1, 0
    if task.max_depth != 0 and _may_split(sums[0], task.min_split, left):
        stack[0, _NODE], stack[0, _START], stack[0, _SIZE], stack[0, _DEPTH] = 0, 0, entries.shape[0], 0
        seeds[0] = seed
        n_pending = 1
    while n_pending > 0:
        n_pending -= 1
        node, start = stack[n_pending, _NODE], stack[n_pending, _START]
        size, depth = stack[n_pending, _SIZE], stack[n_pending, _DEPTH] + 1
        seed, own, total = seeds[n_pending], entries[start : start + size], sums[node]
        is_light = _weigh(total, left) <= _HEAVIEST and (is_drawn or size < task.large)
        _unpack(task, own, is_light, scratch, left)
        best, feature, cut, pair = np.int32(0), np.int64(_NO_SPLIT), np.int64(0), np.int64(0)
        columns, draw = task.columns, np.int64(seed % np.uint64(task.columns.shape[0]))
        for turn in range(2):
            if turn == 1:
                if feature != _NO_SPLIT or columns.shape[1] == n_columns:
                    break
                columns, draw = task.every, np.int64(0)
            for first in range(0, columns.shape[1], _TOGETHER):
                last = min(_TOGETHER, columns.shape[1] - first) - 1
                for j in range(0, last + 1, 4):  # the bins of a row lie close together
                    j_b, j_c, j_d = min(j + 1, last), min(j + 2, last), min(j + 3, last)
                    a, b = np.int64(columns[draw, first + j]), np.int64(columns[draw, first + j_b])
                    c, d = np.int64(columns[draw, first + j_c]), np.int64(columns[draw, first + j_d])
                    for i in range(size):
                        row = offsets[i]
                        found[j, i], found[j_b, i] = bins[index(row + a)], bins[index(row + b)]
                        found[j_c, i], found[j_d, i] = bins[index(row + c)], bins[index(row + d)]
                for j in range(last + 1):
                    column = np.int64(columns[draw, first + j])
                    if is_drawn:
                        number = np.int64(_mix(seed + np.uint64(column + 3)) >> np.uint64(32))
                        at = _draw_cut(found[j], size, number, task.positions, column * task.n_bins)
                        top, held = _score_drawn(task, scratch, found[j], size, at, is_light, total, left)
                    elif is_light:
                        top, at, held = _search_in_order(task, scratch, j, size, best, total, left)
                    else:
                        top, at, held = _search_groups(task, scratch, j, size, best, total, left)
                    if top > best:
                        best, feature, cut, pair = top, column, at, held
        if feature == _NO_SPLIT:
            continue
        child, n_left = n_nodes, np.int64(-1)
        n_nodes += 2
        ints[_FEATURE, node], ints[_CUT, node], ints[_CHILD, node] = feature, cut, child
        if left is None:
            sums[child, 0], sums[child + 1, 0] = pair, total[0] - pair
        else:
            n_left = _divide(task, own, feature, cut, scratch.spare)
            _add_classes(task, own, n_left, sums, node, child)
        is_inner = depth != task.max_depth
        left_open = is_inner and _may_split(sums[child], task.min_split, left)
        right_open = is_inner and _may_split(sums[child + 1], task.min_split, left)
        if not (left_open or right_open):
            continue
        if n_left < 0:
            n_left = _divide(task, own, feature, cut, scratch.spare)
        for turn in range(2):  # the smaller child last, so that it is taken first
            is_left = (turn == 0) == (2 * n_left >= size)
            if left_open if is_left else right_open:
                stack[n_pending, _NODE], stack[n_pending, _DEPTH] = child if is_left else child + 1, depth
                stack[n_pending, _START] = start if is_left else start + n_left
                stack[n_pending, _SIZE] = n_left if is_left else size - n_left
                seeds[n_pending] = _mix(seed + np.uint64(1 if is_left else 2))
                n_pending += 1
    return number_nodes(1, ints[_CHILD], nodes.places)


@part
def _may_split(sums: Host, min_split: Int, left: Host | None) -> Any:
    """Whether a node has weight enough, and rows of more than one class."""
    n, most = _weigh(sums, left), np.int64(0)
    if left is None:
        most = max(sums[0] & _WIDE_MASK, n - (sums[0] & _WIDE_MASK))
    else:
        for c in range(sums.shape[0]):
            most = max(most, sums[c])
    return n >= min_split and most < n


@part
def _weigh(sums: Host, left: Host | None) -> Any:
    """Return the weight of a node."""
    if left is None:
        return sums[0] >> _WIDE
    else:
        n = np.int64(0)
        for c in range(sums.shape[0]):
            n += sums[c]
        return n


@part
def _mix(number: Any) -> Any:
    """`arraylearn.backend.random.splitmix`."""
    number = number + np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@part
def _divide(task: _Task, own: Host, feature: Int, cut: Int, spare: Host) -> Int:
    """Put the entries of the left side first, all in their old order; return their number.

    ::

        own      | l r l l r r l |  ->  | l l l l | . . . |  ->  | l l l l | r r r |
        spare                           | r r r |
    """
    bins, payload_bits, width = task.bins, task.payload_bits, task.every.shape[1]
    n_left, n_right = index(0), index(0)
    for i in range(own.shape[0]):
        row = own[i]
        right = index(bins[index((row >> payload_bits) * width + feature)] > cut)
        own[n_left] = row
        spare[n_right] = row
        n_left += index(1) - right
        n_right += right
    for i in range(n_right):
        own[n_left + i] = spare[i]
    return np.int64(n_left)


@part
def _add_classes(task: _Task, own: Host, n_left: Int, sums: Host, node: Int, child: Int) -> None:
    """Sum the class weights of the smaller side; those of the larger one are what remains."""
    class_mask = (1 << task.class_bits) - 1
    weight_mask = (1 << (task.payload_bits - task.class_bits)) - 1
    is_left_small = 2 * n_left <= own.shape[0]
    counted = child if is_left_small else child + 1
    first, stop = (0, n_left) if is_left_small else (n_left, own.shape[0])
    for c in range(sums.shape[1]):
        sums[counted, c] = 0
    for i in range(index(first), index(stop)):
        sums[counted, index(own[i] & class_mask)] += (own[i] >> task.class_bits) & weight_mask
    for c in range(sums.shape[1]):
        sums[2 * child + 1 - counted, c] = sums[node, c] - sums[counted, c]


# ---- the best cut of a node


@inlined
def _unpack(task: _Task, own: Host, is_light: Any, scratch: _Scratch, left: Host | None) -> None:
    """Write where the bins of each row begin, and its load."""
    offsets, loads, ints, m = scratch.offsets, scratch.loads, scratch.ints, own.shape[0]
    class_bits, payload_bits, n_columns = task.class_bits, task.payload_bits, task.every.shape[1]
    class_mask, weight_mask = (1 << class_bits) - 1, (1 << (payload_bits - class_bits)) - 1
    for i in range(m):
        offsets[i] = (own[i] >> payload_bits) * n_columns
    if is_light:
        for i in range(m):
            weight, code = (own[i] >> class_bits) & weight_mask, own[i] & class_mask
            ints[_LOAD, i] = weight << _NARROW | (code * weight if left is None else code)
        for i in range(m, m + _LANES):
            ints[_LOAD, i] = 0
    else:
        for i in range(m):
            weight, code = (own[i] >> class_bits) & weight_mask, own[i] & class_mask
            loads[i] = weight << _WIDE | (code * weight if left is None else code)


@part
def _score_pairs(sums: Host, n: Int, total: Int, min_side: Int, scores: Host) -> None:
    """Score the cuts after each of `n` pairs on the left, with fields of half their bits; `total` is wide."""
    kind = sums.dtype.type
    bits = _NARROW if sums.itemsize == 4 else _WIDE
    mask, least = (1 << bits) - 1, kind(min_side)
    weight, second = kind(total >> _WIDE), kind(total & _WIDE_MASK)
    for i in range(n):
        n_left, held = kind((sums[i] >> bits) & mask), kind(sums[i] & mask)
        n_right = kind(weight - n_left)
        surplus, product = kind(held * weight - n_left * second), kind(n_left * n_right)
        score = _gini_of_two(np.float32(surplus), np.float32(product), _NO_GAIN)
        scores[i] = score if (n_left >= least) & (n_right >= least) else _NO_SCORE


@part
def _score_squares(sums: Host, n: Int, total: Int, min_side: Int, scores: Host) -> None:
    """Score the cuts after each of `n` weights on the left, by the squares on both sides: rows of `sums`."""
    kind = sums.dtype.type
    weight, least = kind(total), kind(min_side)
    for i in range(n):
        n_left, inside, outside = sums[_LEFT, i], np.float32(sums[_INSIDE, i]), np.float32(sums[_OUTSIDE, i])
        n_right = kind(weight - n_left)
        score = _gini_squares(inside, np.float32(n_left), outside, np.float32(n_right))
        scores[i] = score if (n_left >= least) & (n_right >= least) else _NO_SCORE


@part
def _sum_cells(cells: Host, n: Int, total: Host, left: Host, sums: Host) -> None:
    """Sum weights up to each of `n` cells (0 if it is empty), and squares of class weights on both sides."""
    n_classes, n_left = left.shape[0], np.int64(0)
    for c in range(n_classes):
        left[c] = 0
    for i in range(n):
        weight, inside, outside = np.int64(0), np.int64(0), np.int64(0)
        for c in range(n_classes):
            weight += cells[i * n_classes + c]
            here = left[c] + cells[i * n_classes + c]
            left[c] = here
            inside += here * here
            outside += (total[c] - here) * (total[c] - here)
        n_left += weight
        sums[_LEFT, i] = n_left if weight else 0
        sums[_INSIDE, i], sums[_OUTSIDE, i] = inside, outside


@part
def _draw_cut(found: Host, m: Int, number: Int, positions: Host, first: Int) -> Int:
    """Return the drawn cut of a column as `best_cuts` describes it; -1 where all bins are the same."""
    lowest, highest = found[0], found[0]
    for i in range(m):
        lowest, highest = min(lowest, found[i]), max(highest, found[i])
    if lowest == highest:
        return np.int64(-1)
    low, size = np.int64(lowest), np.int64(highest - lowest)
    drawn = _draw_position(positions[first + low], positions[first + low + size], number)
    while size > 1:  # without a branch, which would be guessed wrong half of the time
        half = size >> 1
        low = low + half if positions[index(first + low + half)] <= drawn else low
        size -= half
    return low


@inlined
def _score_drawn(
    task: _Task, scratch: _Scratch, found: Host, m: Int, cut: Int, is_light: Any, sums: Host, left: Any
) -> tuple[Any, Int]:
    """Return the score of one cut, as an integer, and the pair of its left side."""
    loads, ints, cells, wide = scratch.loads, scratch.ints, scratch.cells, scratch.wide
    limit, pair = np.int32(cut), np.int64(0)
    if left is None:
        if is_light:
            narrow = np.int32(0)
            for i in range(m):
                narrow = np.int32(narrow + (ints[_LOAD, i] if found[i] <= limit else np.int32(0)))
            pair = np.int64((narrow >> _NARROW) & _NARROW_MASK) << _WIDE | np.int64(narrow & _NARROW_MASK)
        else:
            for i in range(m):
                pair += loads[i] if found[i] <= limit else np.int64(0)
        wide[_LEFT, 0] = pair
        _score_pairs(wide[_LEFT], 1, sums[0], task.min_side, scratch.scores)
    else:
        for c in range(left.shape[0]):
            cells[c] = 0
        if is_light:
            for i in range(m):
                weight = (ints[_LOAD, i] >> _NARROW) & _NARROW_MASK if found[i] <= limit else 0
                cells[index(ints[_LOAD, i] & _NARROW_MASK)] += weight
        else:
            for i in range(m):
                weight = loads[i] >> _WIDE if found[i] <= limit else 0
                cells[index(loads[i] & _WIDE_MASK)] += weight
        _sum_cells(cells, 1, sums, left, wide)
        _score_squares(wide, 1, _weigh(sums, left), task.min_side, scratch.scores)
    return scratch.score_bits[0], pair


@part
def _search_groups(
    task: _Task, scratch: _Scratch, j: Int, m: Int, best: Any, sums: Host, left: Host | None
) -> tuple[Any, Int, Int]:
    """Find the best cut between groups of bins: score as an integer, cut, and pair of the left side."""
    found, loads, bits = scratch.found, scratch.loads, scratch.score_bits
    cells, wide = scratch.cells, scratch.wide
    low, high = found[j, 0], found[j, 0]
    for i in range(m):
        low, high = min(low, found[j, i]), max(high, found[j, i])
    bin_bits, size_bits, spread_bits = 0, 0, 0
    while task.n_bins >> bin_bits:
        bin_bits += 1
    while m >> size_bits:
        size_bits += 1
    while (high - low) >> spread_bits:
        spread_bits += 1
    width = _group_bits(size_bits, bin_bits) if m >= task.large else bin_bits
    shift = max(spread_bits - width, 0)
    n, n_words = ((high - low) >> shift) + 1, sums.shape[0]
    for i in range(n * n_words):
        cells[i] = 0
    if left is None:
        for i in range(m):
            cells[index((found[j, i] - low) >> shift)] += loads[i]
        pair = np.int64(0)
        for i in range(n):
            pair += cells[i]
            wide[_LEFT, i] = pair
        _score_pairs(wide[_LEFT], n, sums[0], task.min_side, scratch.scores)
    else:
        for i in range(m):
            group = np.int64((found[j, i] - low) >> shift)
            cells[index(group * n_words + (loads[i] & _WIDE_MASK))] += loads[i] >> _WIDE
        _sum_cells(cells, n, sums, left, wide)
        _score_squares(wide, n, _weigh(sums, left), task.min_side, scratch.scores)
    top, here = np.int32(0), 0
    for i in range(n):
        top = max(top, bits[i])
    if top <= best:
        return top, np.int64(0), np.int64(0)
    while bits[here] != top:
        here += 1
    after, pair = here + 1, wide[_LEFT, here]
    while wide[_LEFT, after] == (pair if left is None else 0):  # an empty group
        after += 1
    return top, low + ((((here + after) >> 1) + 1) << shift) - 1, pair


@inlined
def _search_in_order(
    task: _Task, scratch: _Scratch, j: Int, m: Int, best: Any, sums: Host, left: Host | None
) -> tuple[Any, Int, Int]:
    """Find the best cut of a light node: score as an integer, cut, and pair of the left side."""
    found, ints, scores, bits = scratch.found, scratch.ints, scratch.scores, scratch.score_bits
    lanes, is_ordered = (m + _LANES - 1) // _LANES * _LANES, m > _COMPARED or left is not None
    if m > _COMPARED:
        _sort(found[j], m, ints, scratch.digits)
    elif left is None:  # what does not lie behind each row
        for i in range(m, lanes):
            found[j, i] = _BEYOND
        for i in range(m):
            bin_at, running = found[j, i], np.int32(0)
            for other in range(lanes):
                load = ints[_LOAD, other] if found[j, other] <= bin_at else np.int32(0)
                running = np.int32(running + load)
            ints[_LEFT, i] = running
    else:  # the place of a key is the number of smaller ones
        for i in range(m):
            ints[_KEY, i] = (found[j, i] << _NARROW) | i
        for i in range(m, lanes):
            ints[_KEY, i] = _BEYOND
        for i in range(m):
            key, rank = ints[_KEY, i], np.int32(0)
            for other in range(lanes):
                rank = np.int32(rank + (np.int32(1) if ints[_KEY, other] < key else np.int32(0)))
            ints[_ORDERED, index(rank)] = key
    if left is None:
        if is_ordered:
            running = np.int32(0)
            for i in range(m):
                running = np.int32(running + ints[_LOAD, ints[_ORDERED, i] & _NARROW_MASK])
                ints[_LEFT, i] = running
        _score_pairs(ints[_LEFT], m, sums[0], task.min_side, scores)
    else:
        _sum_rows(ints, m, sums, left)
        _score_squares(ints, m, _weigh(sums, left), task.min_side, scores)
    if is_ordered:  # no cut parts equal bins
        m -= 1
        for i in range(m):
            bits[i] = bits[i] if (ints[_ORDERED, i] ^ ints[_ORDERED, i + 1]) >> _NARROW else np.int32(0)
    top, here, low, high = np.int32(0), 0, _BEYOND, _BEYOND
    for i in range(m):
        top = max(top, bits[i])
    if top <= best:
        return top, np.int64(0), np.int64(0)
    if is_ordered:
        while bits[here] != top:
            here += 1
        low, high = ints[_ORDERED, here] >> _NARROW, ints[_ORDERED, here + 1] >> _NARROW
    else:
        for i in range(m):
            if bits[i] == top and found[j, i] < low:
                low, here = found[j, i], i
        for i in range(m):
            high = found[j, i] if low < found[j, i] < high else high
    pair = np.int64(ints[_LEFT, here])
    pair = ((pair >> _NARROW) & _NARROW_MASK) << _WIDE | (pair & _NARROW_MASK)
    return top, np.int64(low + high) >> 1, pair


@part
def _sort(found: Host, m: Int, ints: Host, digits: Host) -> None:
    """Sort keys by the lower digit of their bins, then by the upper one."""
    for digit in range(_DIGITS):
        digits[0, digit], digits[1, digit] = 0, 0
    for i in range(m):
        digits[0, index(found[i] & (_DIGITS - 1))] += 1
        digits[1, index(found[i] >> _DIGIT_BITS)] += 1
    for half in range(2):
        before = np.int32(0)
        for digit in range(_DIGITS):
            size = digits[half, digit]
            digits[half, digit] = before
            before = np.int32(before + size)
    for i in range(m):
        lower = index(found[i] & (_DIGITS - 1))
        rank = digits[0, lower]
        digits[0, lower] = rank + 1
        ints[_KEY, index(rank)] = (found[i] << _NARROW) | i
    for i in range(m):
        key = ints[_KEY, i]
        upper = index(key >> (_NARROW + _DIGIT_BITS))
        rank = digits[1, upper]
        digits[1, upper] = rank + 1
        ints[_ORDERED, index(rank)] = key


@part
def _sum_rows(ints: Host, m: Int, total: Host, left: Host) -> None:
    """Sum weights up to each row in order, and squares of class weights on both sides."""
    n_left, inside, outside = np.int64(0), np.int64(0), np.int64(0)
    for c in range(left.shape[0]):
        left[c] = 0
        outside += total[c] * total[c]
    for i in range(m):
        load = np.int64(ints[_LOAD, ints[_ORDERED, i] & _NARROW_MASK])
        weight, code = (load >> _NARROW) & _NARROW_MASK, index(load & _NARROW_MASK)
        here = left[code]
        left[code] = here + weight
        n_left += weight
        inside += weight * (2 * here + weight)
        outside -= weight * (2 * (total[code] - here) - weight)
        ints[_LEFT, i], ints[_INSIDE, i], ints[_OUTSIDE, i] = n_left, inside, outside
