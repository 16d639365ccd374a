"""Compiled bodies for `arraylearn.backend.ops.gini_split`: one scan of each list with running class counts.

A position is scored as the portable body does it only where a cheaper form of the score says that it may beat
the best one so far; that form has no division, and a margin that covers its rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from arraylearn.backend.native.compiled.jit import compiled
from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["class_table", "gini_split", "line_groups", "search_lines"]

# Up to here scores are sums of squared surpluses, above sums of squared counts: see `gini_scores`.
_FEW_CLASSES = 4
# Positions of all lists from which a second thread pays.
_WORTH_A_THREAD = 100_000
# What rounding may take from the cheap form of a score, and much more.
_MARGIN = 1e-12
# Positions that are passed over together where none of them can reach the best score.
_STRIDE = 64


def gini_split(
    lists: Host,
    columns: Host,
    class_ends: Sequence[int],
    starts: Host,
    block_at: Host,
    counts: Host,
    least: int,
    is_tied: Sequence[bool],
    allowed: Host | None,
) -> tuple[Host, Host, Host, Host]:
    k, c = counts.shape
    groups = line_groups(*lists.shape)
    line, position = np.zeros((len(groups), k), np.int64), np.empty((len(groups), k), np.int64)
    gain, score = np.empty((len(groups), k), np.float32), np.empty((len(groups), k))
    left = np.zeros((len(groups), k, c), np.int64)
    lists, columns = np.ascontiguousarray(lists), np.ascontiguousarray(columns)
    table = class_table(class_ends)
    # no list is closed to any block where none is said to be
    may = np.ones((0, 0), np.bool_) if allowed is None else np.ascontiguousarray(allowed)
    given = lists, columns, class_ends[0], table, np.ascontiguousarray(starts), np.ascontiguousarray(counts)

    def search(g: int) -> None:
        first, stop = groups[g]
        found = line[g], gain[g], score[g], position[g], left[g]
        search_lines(first, stop, *given, max(1, int(least)), may, *found)

    parallel_map(search, range(len(groups)))
    if allowed is not None and (is_none := (score < 0).all(axis=0)).any():
        # where none of the allowed lists has a split, all may
        may = may | is_none
        parallel_map(search, range(len(groups)))
    if len(groups) == 1:
        return line[0], score[0], position[0], left[0]
    best, nodes = gain.argmax(axis=0), np.arange(k)
    return line[best, nodes], score[best, nodes], position[best, nodes], left[best, nodes]


def line_groups(d: int, m: int) -> list[tuple[int, int]]:
    """Cut the lists into one group for each thread that pays."""
    n_groups = min(d, get_num_threads()) if d * m >= _WORTH_A_THREAD else 1
    bounds = [round(d * g / n_groups) for g in range(n_groups + 1)]
    return list(zip(bounds[:-1], bounds[1:], strict=True))


def class_table(class_ends: Sequence[int]) -> Host:
    """Return the class of each row; nothing for two classes, where one bound tells them apart."""
    c = len(class_ends)
    kind = np.uint8 if c <= 256 else np.int32
    if c == 2:
        return np.empty(0, dtype=kind)
    return np.arange(c, dtype=kind).repeat(np.diff(class_ends, prepend=0))


@compiled
def search_lines(
    first_line: int,
    stop_line: int,
    lists: Host,
    columns: Host,
    bound: int,
    class_of: Host,
    starts: Host,
    counts: Host,
    least: int,
    allowed: Host,
    line: Host,
    gain: Host,
    score: Host,
    position: Host,
    left: Host,
) -> None:
    """Find the best split of each block among some of the lists."""
    m, (k, c) = lists.shape[1], counts.shape
    side, best_left = np.empty(c, np.int64), np.empty(c, np.int64)
    for b in range(k):
        start, stop = starts[b], m if b == k - 1 else starts[b + 1]
        line[b], gain[b], score[b], position[b] = 0, -np.inf, -1.0, start
        for f in range(first_line, stop_line):
            if allowed.shape[0] > 0 and not allowed[f, b]:
                continue
            # a list whose best is no better than that of a list before it does not win
            if c == 2:
                top, at = _scan_two(
                    lists[f], columns[f], bound, start, stop, counts[b], least, score[b], side
                )
            else:
                top, at = _scan_many(
                    lists[f], columns[f], class_of, start, stop, counts[b], least, score[b], side, best_left
                )
            if at < 0:
                continue
            gained = _gain(top, counts[b], stop - start)
            if gained > gain[b]:
                line[b], gain[b], score[b], position[b] = f, gained, top, at
                for j in range(c):
                    left[b, j] = side[j] if c == 2 else best_left[j]


@compiled
def _gain(score: float, counts: Host, size: int) -> np.float32:
    """Turn a score into a gain as `gini_gains` does, in float32."""
    total, c = float(size), counts.shape[0]
    if c > _FEW_CLASSES:
        squares = 0
        for j in range(c):
            squares += counts[j] * counts[j]
        gained = (score - float(squares) / total) / total
    else:
        gained = score * (2.0 if c == 2 else 1.0) / (total * total)
    return np.float32(gained if gained > 0.0 else 0.0)


@compiled
def _scan_two(
    rows: Host,
    values: Host,
    bound: int,
    start: int,
    stop: int,
    counts: Host,
    least: int,
    top: float,
    side: Host,
) -> tuple[float, int]:
    """Return the best score above `top` of a block of two classes, and its position; -1 where there is none.

    With l of the first m rows in the first class, and L of all M, the surplus of the score is M l - m L.
    """
    size, first_class = stop - start, counts[0]
    best, at, n_first = -1.0, -1, 0
    enough = top * (1.0 - _MARGIN)
    largest_step = float(max(first_class, size - first_class))
    i, last = start, stop - least
    while i < last:
        if i + _STRIDE <= last:
            # whether the surplus can grow enough within the stride
            n_left = i - start
            reach = abs(float(size * n_first - n_left * first_class)) + _STRIDE * largest_step
            far = n_left + _STRIDE
            least_room = min(float(n_left + 1) * float(size - n_left - 1), float(far) * float(size - far))
            if reach * reach < enough * least_room:
                more = 0
                for j in range(i, i + _STRIDE):
                    more += rows[j] < bound
                n_first += more
                i += _STRIDE
                continue
            until = i + _STRIDE
        else:
            until = last
        for j in range(i, until):
            n_first += rows[j] < bound
            n_left = j - start + 1
            n_right = size - n_left
            surplus = float(size * n_first - n_left * first_class)
            if surplus * surplus <= enough * float(n_left * n_right) or n_left < least:
                continue
            # step for step as the portable body
            few, many = float(n_left), float(n_right)
            exact = float(n_first) * many - float(first_class - n_first) * few
            found = exact * exact * (1.0 / (few * many))
            if found > top and values[rows[j + 1]] > values[rows[j]]:
                best, at, top = found, j, found
                enough = top * (1.0 - _MARGIN)
                side[0], side[1] = n_first, n_left - n_first
        i = until
    return best, at


@compiled
def _scan_many(
    rows: Host,
    values: Host,
    class_of: Host,
    start: int,
    stop: int,
    counts: Host,
    least: int,
    top: float,
    side: Host,
    best_left: Host,
) -> tuple[float, int]:
    """Return what `_scan_two` does, for any number of classes.

    With l squared counts on the left and r on the right, the score is l / m + r / (M - m), or, for few
    classes, M times that less the squared counts of all.
    """
    size, c = stop - start, counts.shape[0]
    best, at = -1.0, -1
    squares_left, squares_right = 0, 0
    for j in range(c):
        side[j] = 0
        squares_right += counts[j] * counts[j]
    few_classes = c <= _FEW_CLASSES
    base = float(squares_right) if few_classes else 0.0
    scale = 1.0 / float(size) if few_classes else 1.0
    enough = (top + base) * scale * (1.0 - _MARGIN) if top >= 0.0 else -1.0
    for i in range(start, stop - least):
        own = class_of[rows[i]]
        held = side[own]
        side[own] = held + 1
        squares_left += 2 * held + 1
        squares_right -= 2 * (counts[own] - held) - 1
        n_left = i - start + 1
        n_right = size - n_left
        few, many = float(n_left), float(n_right)
        if float(squares_left) * many + float(squares_right) * few < enough * (few * many) or n_left < least:
            continue
        if few_classes:
            surplus = float(side[0]) * many - float(counts[0] - side[0]) * few
            found = surplus * surplus
            for j in range(1, c):
                surplus = float(side[j]) * many - float(counts[j] - side[j]) * few
                found += surplus * surplus
            found *= 1.0 / (few * many)
        else:
            found = float(squares_left) / few + float(squares_right) / many
        if found > top and values[rows[i + 1]] > values[rows[i]]:
            best, at, top = found, i, found
            enough = (top + base) * scale * (1.0 - _MARGIN)
            for j in range(c):
                best_left[j] = side[j]
    return best, at
