"""The best Gini split of one block of presorted lists: a scan of each list with running class counts.

A position is scored as the portable body does it only where a cheaper form of the score says that it may beat
the best one so far; that form has no division, and a margin that covers its rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled
from arraylearn.backend.cpu.unsigned import index, signed

Host = np.ndarray[Any, Any]

__all__ = ["FEW_CLASSES", "class_bounds", "gain_of", "is_perfect", "search_block"]

# Up to here scores are sums of squared surpluses, above sums of squared counts: see `gini_scores`.
FEW_CLASSES = 4
# What rounding may take from the cheap form of a score, and much more.
_MARGIN = 1e-12
# Positions that are passed over together where none of them can reach the best score.
_STRIDE = 64


def class_bounds(class_ends: Sequence[int]) -> tuple[Host, Host]:
    """Return what tells classes apart: three bounds for two to four of them, or the class of each row.

    Rows from the last bound on have the last class.
    """
    c = len(class_ends)
    bounds = np.full(3, class_ends[-1], dtype=np.int64)
    kind = np.uint8 if c <= 256 else np.int32
    if 2 <= c <= FEW_CLASSES:
        bounds[: c - 1] = class_ends[:-1]
        return bounds, np.empty(0, dtype=kind)
    return bounds, np.arange(c, dtype=kind).repeat(np.diff(class_ends, prepend=0))


@compiled
def search_block(
    first_line: int,
    stop_line: int,
    lists: Host,
    columns: Host,
    bounds: Host,
    class_of: Host,
    start: int,
    stop: int,
    counts: Host,
    least: int,
    allowed: Host,
    block: int,
    side: Host,
    left: Host,
) -> tuple[int, np.float32, float, int]:
    """Return list, gain, score and position of the best split among some of the lists.

    Parameters
    ----------
    lists : uint32 array (d, m)
        As for `gini_split`; unsigned, because an index that may be negative costs a test.
    bounds, class_of : int64 array (3,), int array (n,)
        From `class_bounds`.
    allowed : bool array (d, k)
        Which lists may be chosen; nothing where all may.
    side : int64 array (2, c)
        Room to work in.
    left : int64 array (c,)
        Where the classes of the left side are written.
    """
    c = counts.shape[0]
    running, squares = np.empty((3, _STRIDE), np.int32), np.empty((2, _STRIDE), np.int64)
    line, gain, score, position = 0, np.float32(-np.inf), -1.0, start
    for f in range(first_line, stop_line):
        if allowed.shape[0] > 0 and not allowed[f, block]:
            continue
        # a list whose best is no better than that of a list before it does not win
        rows, values = lists[f], columns[f]
        if c == 2:
            top, at = _scan_two(
                rows, values, bounds[0], start, stop, counts, least, score, side[1], running[0]
            )
        elif c == 3 or c == 4:
            top, at = _scan_four(rows, values, bounds, start, stop, counts, least, score, side[1], running)
        else:
            top, at = _scan_many(rows, values, class_of, start, stop, counts, least, score, side, squares)
        if at < 0:
            continue
        gained = gain_of(top, counts, stop - start)
        if gained > gain:
            line, gain, score, position = f, gained, top, at
            for j in range(c):
                left[j] = side[1, j]
            if is_perfect(left, counts):
                break  # the others are at most as good
    return line, gain, score, position


@compiled
def is_perfect(left: Host, counts: Host) -> bool:
    """Whether both sides hold one class each."""
    n_left, n_right = 0, 0
    for j in range(counts.shape[0]):
        n_left += left[j] > 0
        n_right += counts[j] > left[j]
    return n_left <= 1 and n_right <= 1


@compiled
def gain_of(score: float, counts: Host, size: int) -> np.float32:
    """Turn a score into a gain as `gini_gains` does, in float32."""
    total, c = float(size), counts.shape[0]
    if c > FEW_CLASSES:
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
    left: Host,
    running: Host,
) -> tuple[float, int]:
    """Return the best score above `top` of a block of two classes, and its position; -1 where there is none.

    With l of the first m rows in the first class, and L of all M, the surplus of the score is M l - m L.
    """
    size, first_class = stop - start, counts[0]
    best, at, n_first, border = -1.0, -1, 0, np.uint32(bound)
    total, share = float(size), float(first_class)
    largest_step = _STRIDE * max(share, total - share)
    enough = top * (1.0 - _MARGIN)
    i, last = start, stop - least
    while i < last:
        until, first = min(i + _STRIDE, last), index(i)
        width, n_left = index(until - i), i - start
        if n_left > 0:
            # whether the surplus can grow enough within the stride
            reach = abs(total * float(n_first) - float(n_left) * share) + largest_step
            far = min(n_left + _STRIDE, size - 1)
            room = min(float(n_left) * float(size - n_left), float(far) * float(size - far))
            if reach * reach < enough * room:
                for j in range(width):
                    n_first += rows[first + j] < border
                i = until
                continue
        counted = np.int32(n_first)
        for j in range(width):
            counted += np.int32(rows[first + j] < border)
            running[j] = counted
        n_hits = 0
        for j in range(width):
            few = float(n_left + 1) + float(np.int32(j))
            surplus = total * float(running[j]) - few * share
            n_hits += surplus * surplus > enough * (few * (total - few))
        if n_hits > 0:
            for j in range(width):
                n_few = n_left + 1 + signed(j)
                few, many, held = float(n_few), float(size - n_few), signed(running[j])
                # step for step as the portable body
                surplus = float(held) * many - float(first_class - held) * few
                found = surplus * surplus * (1.0 / (few * many))
                if found > top and n_few >= least:
                    at_row = first + j
                    if values[rows[at_row + index(1)]] > values[rows[at_row]]:
                        best, at, top = found, signed(at_row), found
                        left[0], left[1] = held, n_few - held
            enough = top * (1.0 - _MARGIN)
        n_first, i = signed(counted), until
    return best, at


@compiled
def _scan_four(
    rows: Host,
    values: Host,
    bounds: Host,
    start: int,
    stop: int,
    counts: Host,
    least: int,
    top: float,
    left: Host,
    running: Host,
) -> tuple[float, int]:
    """Return what `_scan_two` does for three or four classes, of which `bounds` (3,) are the ends."""
    size, c = stop - start, counts.shape[0]
    best, at, total = -1.0, -1, float(stop - start)
    border_0, border_1, border_2 = np.uint32(bounds[0]), np.uint32(bounds[1]), np.uint32(bounds[2])
    share_0, share_1, share_2 = float(counts[0]), float(counts[1]), float(counts[2])
    n_0, n_1, n_2 = np.int32(0), np.int32(0), np.int32(0)
    largest_step = _STRIDE * 1.4143 * total
    enough = top * (1.0 - _MARGIN)
    i, last = start, stop - least
    while i < last:
        until, first = min(i + _STRIDE, last), index(i)
        width, n_left = index(until - i), i - start
        if n_left > 0:
            few = float(n_left)
            q_0, q_1 = total * float(n_0) - few * share_0, total * float(n_1 - n_0) - few * share_1
            q_2 = total * float(n_2 - n_1) - few * share_2
            q_3 = q_0 + q_1 + q_2
            reach = math.sqrt(q_0 * q_0 + q_1 * q_1 + q_2 * q_2 + q_3 * q_3) + largest_step
            far = min(n_left + _STRIDE, size - 1)
            if reach * reach < enough * min(few * (total - few), float(far) * float(size - far)):
                for j in range(width):
                    row = rows[first + j]
                    n_0 += np.int32(row < border_0)
                    n_1 += np.int32(row < border_1)
                    n_2 += np.int32(row < border_2)
                i = until
                continue
        for j in range(width):
            row = rows[first + j]
            n_0 += np.int32(row < border_0)
            n_1 += np.int32(row < border_1)
            n_2 += np.int32(row < border_2)
            running[0, j], running[1, j], running[2, j] = n_0, n_1, n_2
        n_hits = 0
        for j in range(width):
            few = float(n_left + 1) + float(np.int32(j))
            q_0 = total * float(running[0, j]) - few * share_0
            q_1 = total * float(running[1, j] - running[0, j]) - few * share_1
            q_2 = total * float(running[2, j] - running[1, j]) - few * share_2
            q_3 = q_0 + q_1 + q_2
            squares = q_0 * q_0 + q_1 * q_1 + (q_2 * q_2 + q_3 * q_3)
            n_hits += squares > enough * (few * (total - few))
        if n_hits > 0:
            for j in range(width):
                n_few = n_left + 1 + signed(j)
                few, many, found, before = float(n_few), float(size - n_few), 0.0, 0
                for k in range(c):
                    # step for step as the portable body
                    below = signed(running[k, j]) if k < c - 1 else n_few
                    surplus = float(below - before) * many - float(counts[k] - (below - before)) * few
                    found += surplus * surplus
                    before = below
                found *= 1.0 / (few * many)
                if found > top and n_few >= least:
                    at_row = first + j
                    if values[rows[at_row + index(1)]] > values[rows[at_row]]:
                        best, at, top, before = found, signed(at_row), found, 0
                        for k in range(c):
                            below = signed(running[k, j]) if k < c - 1 else n_few
                            left[k] = below - before
                            before = below
            enough = top * (1.0 - _MARGIN)
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
    squares: Host,
) -> tuple[float, int]:
    """Return what `_scan_two` does, for any number of classes.

    With l squared counts on the left and r on the right, the score is l / m + r / (M - m), or, for few
    classes, M times that less the squared counts of all.
    """
    size, c = stop - start, counts.shape[0]
    best, at, here = -1.0, -1, side[0]
    on_left, on_right = 0, 0
    for j in range(c):
        here[j] = 0
        on_right += counts[j] * counts[j]
    few_classes = c <= FEW_CLASSES
    base = float(on_right) if few_classes else 0.0
    scale = 1.0 / float(size) if few_classes else 1.0
    total = float(size)
    enough = (top + base) * scale * (1.0 - _MARGIN) if top >= 0.0 else -1.0
    i, last = start, stop - least
    while i < last:
        until, first = min(i + _STRIDE, last), index(i)
        width, n_left = index(until - i), i - start
        for j in range(width):
            own = class_of[rows[first + j]]
            held = here[own]
            here[own] = held + 1
            on_left += 2 * held + 1
            on_right += 2 * (held - counts[own]) + 1
            squares[0, j], squares[1, j] = on_left, on_right
        n_hits = 0
        for j in range(width):
            few = float(n_left + 1) + float(np.int32(j))
            many = total - few
            n_hits += float(squares[0, j]) * many + float(squares[1, j]) * few >= enough * (few * many)
        if n_hits > 0:
            for j in range(width):  # back to the start of the stride
                here[class_of[rows[first + j]]] -= 1
            for j in range(width):
                at_row = first + j
                here[class_of[rows[at_row]]] += 1
                n_few = n_left + 1 + signed(j)
                few, many = float(n_few), float(size - n_few)
                if few_classes:
                    found = 0.0
                    for k in range(c):
                        surplus = float(here[k]) * many - float(counts[k] - here[k]) * few
                        found += surplus * surplus
                    found *= 1.0 / (few * many)
                else:
                    found = float(squares[0, j]) / few + float(squares[1, j]) / many
                is_better = found > top and n_few >= least
                if is_better and values[rows[at_row + index(1)]] > values[rows[at_row]]:
                    best, at, top = found, signed(at_row), found
                    for k in range(c):
                        side[1, k] = here[k]
            enough = (top + base) * scale * (1.0 - _MARGIN) if top >= 0.0 else -1.0
        i = until
    return best, at
