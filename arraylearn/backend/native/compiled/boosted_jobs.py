"""The jobs that a level of a boosted tree is made of, in compiled loops.

Siblings are a job together: the rows of their parent are sorted, those of the smaller one are summed up,
the larger one has what remains, and both are searched for splits. When several threads grow a tree, a parent
with many rows becomes several jobs instead. Jobs that are done side by side touch different rows and tables.
"""

from __future__ import annotations

import numpy as np

from arraylearn.backend.cpu.jit import Host, Whole, compiled_part
from arraylearn.backend.native.compiled.boosted_room import (
    AT,
    FOUND,
    GAIN,
    JOB,
    KIND,
    NODE,
    PAIR,
    REAL,
    Room,
    Rows,
    Search,
)
from arraylearn.backend.native.compiled.boosting import add_all, add_block, add_up
from arraylearn.backend.native.compiled.splits import best_cell

__all__ = ["do_job", "pair_up"]


@compiled_part
def do_job(rows: Rows, search: Search, room: Room, job: int, scores: Host, keys: Host) -> None:
    """Do a job; `scores` and `keys` are working memory of `best_cell`."""
    kind, pair = room.jobs[JOB.KIND, job], room.jobs[JOB.PAIR, job]
    first, last = room.jobs[JOB.FIRST, job], room.jobs[JOB.LAST, job]
    if kind == KIND.WHOLE:
        _sort_all(rows, room, pair)
        pair_up(room, search.limits, pair)
        small = room.pairs[PAIR.SMALL, pair]
        if small >= 0:
            start = room.whole[NODE.START, small]
            _sum(rows, room, pair, start, start + room.whole[NODE.SIZE, small], -1)
            _search_pair(search, room, pair, scores, keys)
    elif kind == KIND.SORT:
        room.jobs[JOB.N_LEFT, job] = _divide(rows, room, pair, first, last, rows.aside[0])
    elif kind == KIND.PLACE:
        _place(rows, room, pair, first, last, room.jobs[JOB.N_LEFT, job], room.jobs[JOB.PLACE, job])
    elif kind == KIND.SUM:
        _sum(rows, room, pair, first, last, room.jobs[JOB.PLACE, job])
    else:
        _search_pair(search, room, pair, scores, keys)


@compiled_part
def _sort_all(rows: Rows, room: Room, pair: int) -> None:
    """Sort the rows of a node that was split, and write down where those of its children are."""
    child = room.pairs[PAIR.LEFT_CHILD, pair]
    node = room.whole[NODE.PARENT, child]
    start, size = room.whole[NODE.START, node], room.whole[NODE.SIZE, node]
    order, gone = rows.order, rows.aside[1]
    n_left = _divide(rows, room, pair, start, start + size, order)  # those that stay move towards the front
    for i in range(start, start + size - n_left):
        order[i + n_left] = gone[i]
    room.whole[NODE.START, child], room.whole[NODE.SIZE, child] = start, n_left
    room.whole[NODE.START, child + 1], room.whole[NODE.SIZE, child + 1] = start + n_left, size - n_left


@compiled_part
def _divide(rows: Rows, room: Room, pair: int, first: int, last: int, stayed: Host) -> Whole:
    """Write the rows at positions `first` to `last` that go left to `stayed`, the others aside.

    Both begin at `first`; returns how many go left.
    """
    node = room.whole[NODE.PARENT, room.pairs[PAIR.LEFT_CHILD, pair]]
    # the bins that go right are one run: up to that of missing values, or with it
    begin = room.whole[NODE.THRESHOLD, node] + 1
    run = np.uint64(room.tables.shape[3] - 1 - begin + room.whole[NODE.IS_MISSING_RIGHT, node])
    column, order = rows.bins[room.whole[NODE.FEATURE, node]], rows.order
    gone = rows.aside[1]
    left, right = np.uint64(first), np.uint64(first)
    for position in range(first, last):
        row = np.uint64(order[position])
        side = np.uint64(np.uint64(column[row] - begin) < run)
        stayed[left] = row
        gone[right] = row
        left += np.uint64(1) - side
        right += side
    return np.int64(left) - first


@compiled_part
def _place(rows: Rows, room: Room, pair: int, first: int, last: int, n_left: int, place: int) -> None:
    """Put rows that were laid aside into their places: those that stayed left at `place`."""
    order, stayed, gone = rows.order, rows.aside[0], rows.aside[1]
    child = room.pairs[PAIR.LEFT_CHILD, pair]
    for i in range(n_left):
        order[place + i] = stayed[first + i]
    # of the rows before `first` those that did not stay left are before ours on the right
    right = room.whole[NODE.START, child + 1] + first - place
    for i in range(last - first - n_left):
        order[right + i] = gone[first + i]


@compiled_part
def _sum(rows: Rows, room: Room, pair: int, first: int, last: int, spare: int) -> None:
    """Sum up the rows at positions `first` to `last` in a spare table or in that of the smaller sibling."""
    n, d = rows.cells.shape
    tree, depth, n_bins = room.at[AT.TREE], room.at[AT.DEPTH], room.tables.shape[3]
    table = room.tables[depth & 1, 2 * pair] if spare < 0 else room.spare[spare]
    cells, sums = rows.cells.reshape(-1), table.reshape(-1)
    for i in range(d * n_bins):
        sums[i] = 0
    if depth == 0 and rows.order.shape[0] == n:  # all rows, one after the other
        add_all(cells, rows.packed[tree], first, last, sums, d, n_bins)
    else:
        add_block(cells, rows.packed[tree], rows.order, first, last, sums, d, n_bins)


@compiled_part
def pair_up(room: Room, limits: Host, pair: int) -> None:
    """Write down which of two siblings is the smaller one, if one of them may be split."""
    whole, real, left = room.whole, room.real, room.pairs[PAIR.LEFT_CHILD, pair]
    heaviest = max(real[REAL.HESSIAN, left], real[REAL.HESSIAN, left + 1])
    largest = max(whole[NODE.SIZE, left], whole[NODE.SIZE, left + 1])
    small = large = -1
    if heaviest >= 2.0 * limits[1] and largest >= 2 * limits[2]:
        small = left + (1 if whole[NODE.SIZE, left + 1] < whole[NODE.SIZE, left] else 0)
        large = 2 * left + 1 - small
    room.pairs[PAIR.SMALL, pair], room.pairs[PAIR.LARGE, pair] = small, large
    room.pairs[PAIR.SPARE, pair], room.pairs[PAIR.N_SPARE, pair] = 0, 0


@compiled_part
def _search_pair(search: Search, room: Room, pair: int, scores: Host, keys: Host) -> None:
    """Make running sums of the smaller sibling's sums, subtract them from the parent's, and search both."""
    parity = room.at[AT.DEPTH] & 1
    sums = room.tables[parity, 2 * pair]
    for i in range(room.pairs[PAIR.N_SPARE, pair]):
        _add(sums.reshape(-1), room.spare[room.pairs[PAIR.SPARE, pair] + i].reshape(-1))
    add_up(sums)
    _find_split(search, room, room.pairs[PAIR.SMALL, pair], 2 * pair, sums, scores, keys)
    if room.pairs[PAIR.LARGE, pair] >= 0:
        parent = room.tables[1 - parity, room.pairs[PAIR.PARENT_TABLE, pair]]
        rest = room.tables[parity, 2 * pair + 1]
        _subtract(parent.reshape(-1), sums.reshape(-1), rest.reshape(-1))
        _find_split(search, room, room.pairs[PAIR.LARGE, pair], 2 * pair + 1, rest, scores, keys)


@compiled_part
def _add(sums: Host, more: Host) -> None:
    for i in range(sums.shape[0]):
        sums[i] += more[i]


@compiled_part
def _subtract(whole: Host, part: Host, rest: Host) -> None:
    for i in range(whole.shape[0]):
        rest[i] = whole[i] - part[i]


@compiled_part
def _find_split(
    search: Search, room: Room, node: int, table: int, running: Host, scores: Host, keys: Host
) -> None:
    """Write down the best split of a node, and whether it is good enough."""
    room.found[table, FOUND.IS_GOOD] = 0
    limits, size, tree = search.limits, room.whole[NODE.SIZE, node], room.at[AT.TREE]
    if node > 0 and size < 2 * limits[2]:
        return
    n_bins, unit, ridge = running.shape[1], search.unit[tree], search.regular[tree, 0]
    total = running[0, n_bins - 1]
    share = limits[2] / size
    least = max(search.regular[tree, 1], np.float32(share) * np.float32(total >> 32))
    cell = best_cell(running, total, ridge, least, search.is_used[tree], False, scores, keys)
    best = keys[0]
    left = running[cell // n_bins, cell % n_bins] if best > 0 else total
    is_left = False
    if search.has_missing[tree]:
        other = best_cell(running, total, ridge, least, search.use_missing[tree], True, scores, keys)
        if keys[0] > best:
            is_left, cell = True, other
            column = running[cell // n_bins]
            left = column[cell % n_bins] + (column[n_bins - 1] - column[n_bins - 2])
    feature, threshold = cell // n_bins, cell % n_bins
    right = total - left
    # where nothing is missing, later rows go where most of the weight is
    if running[feature, n_bins - 2] == running[feature, n_bins - 1]:
        is_left = left >= right
    gradient, hessian, value, score = _side(total, unit, limits[0])
    if node == 0:
        room.real[REAL.VALUE, 0] = value
    _, left_hessian, left_value, left_score = _side(left, unit, limits[0])
    _, right_hessian, right_value, right_score = _side(right, unit, limits[0])
    gain = left_score + right_score - score
    # float32 chose
    lightest = max(0.99999 * share * hessian, max(limits[1], unit))
    is_good = min(left_hessian, right_hessian) >= lightest and gain > 1e-6 + 1e-6 * abs(gradient)
    found, gains = room.found[table], room.gains[table]
    found[FOUND.IS_GOOD] = 1 if is_good and gain > 0 else 0
    found[FOUND.FEATURE], found[FOUND.THRESHOLD] = feature, threshold
    found[FOUND.IS_MISSING_RIGHT] = 0 if is_left else 1
    gains[GAIN.GAIN] = gain
    gains[GAIN.LEFT_VALUE], gains[GAIN.RIGHT_VALUE] = left_value, right_value
    gains[GAIN.LEFT_HESSIAN], gains[GAIN.RIGHT_HESSIAN] = left_hessian, right_hessian


@compiled_part
def _side(packed: int, unit: float, l2: float) -> tuple[float, float, float, float]:
    """Return gradient, hessian, value and score of a packed sum."""
    whole = (packed + (1 << 31)) >> 32
    gradient, hessian = (packed - (whole << 32)) * unit, whole * unit
    value = gradient / -(hessian + max(l2, 1e-30))
    return gradient, hessian, value, -gradient * value
