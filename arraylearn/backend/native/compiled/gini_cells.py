"""The best Gini split of one block of rows whose values are bins: class counts of the bins of each column."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled
from arraylearn.backend.cpu.unsigned import index, signed
from arraylearn.backend.native.compiled.gini_scan import FEW_CLASSES, gain_of, is_perfect

Host = np.ndarray[Any, Any]

__all__ = ["count_cells", "search_cells", "search_few_rows", "subtract_cells"]

# What rounding may take from the cheap form of a score, and much more.
_MARGIN = 1e-12
# Keys of a bin and, in the lower bits, a class.
_CLASS_BITS = 32
_CLASS = (1 << _CLASS_BITS) - 1


@compiled
def count_cells(
    first_line: int, stop_line: int, rows: Host, start: int, counts: Host, bins: Host, cells: Host
) -> None:
    """Count the classes (d, b, c) of each bin; the rows of a block are in the order of their classes."""
    for f in range(first_line, stop_line):
        column, cell = bins[f], cells[f]
        cell[:] = 0
        first = start
        for j in range(counts.shape[0]):
            own = index(j)
            for i in range(index(first), index(first + counts[j])):
                cell[index(column[rows[i]]), own] += 1
            first += counts[j]


@compiled
def subtract_cells(whole: Host, part: Host) -> None:
    """Take the counts of a part off those of the whole."""
    for f in range(whole.shape[0]):
        for j in range(whole.shape[1]):
            for i in range(index(whole.shape[2])):
                whole[f, j, i] -= part[f, j, i]


@compiled
def search_cells(
    first_line: int,
    stop_line: int,
    cells: Host,
    counts: Host,
    size: int,
    least: int,
    side: Host,
    left: Host,
) -> tuple[int, np.float32, float, int, int]:
    """Return column, gain, score, and the bins on both sides of the best split among some of the columns.

    `left` (c,) takes the classes of the left side, `side` (2, c) is room to work in.
    """
    n_bins, c = cells.shape[1], cells.shape[2]
    line, gain, score, low, high = 0, np.float32(-np.inf), -1.0, 0, 0
    for f in range(first_line, stop_line):
        top, cut = _search_column(cells[f], counts, size, least, score, side)
        if cut < 0:
            continue
        gained = gain_of(top, counts, size)
        if gained > gain:
            line, gain, score, low, high = f, gained, top, cut, cut + 1
            for j in range(c):
                left[j] = side[1, j]
            if is_perfect(left, counts):
                break  # the others are at most as good
    if score >= 0:
        while high < n_bins - 1 and _count_bin(cells[line], high) == 0:
            high += 1
    return line, gain, score, low, high


@compiled
def _count_bin(cells: Host, at: int) -> int:
    total = 0
    for j in range(cells.shape[1]):
        total += cells[at, j]
    return total


@compiled
def _search_column(
    cells: Host, counts: Host, size: int, least: int, top: float, side: Host
) -> tuple[float, int]:
    """Return the best score above `top` of the bins (b, c) of a column, and its bin; -1 without one."""
    c, best, cut, n_left, here = cells.shape[1], -1.0, -1, 0, side[0]
    on_left, on_right = 0, 0  # squared counts
    for j in range(c):
        here[j] = 0
        on_right += counts[j] * counts[j]
    enough, total, share = top * (1.0 - _MARGIN), float(size), float(counts[0])
    for at in range(index(cells.shape[0])):
        if c == 2:
            first = signed(cells[at, 0])
            added = first + signed(cells[at, 1])
            here[0] += first
        else:
            added = 0
            for j in range(index(c)):
                held, before = signed(cells[at, j]), here[j]
                added += held
                on_left += held * (2 * before + held)
                on_right += held * (held - 2 * (counts[j] - before))
                here[j] = before + held
        if added == 0:
            continue  # the score is that of the bin before
        n_left += added
        if n_left < least:
            continue
        if size - n_left < least:
            break
        few, many = float(n_left), float(size - n_left)
        if c == 2:
            surplus = total * float(here[0]) - few * share
            if surplus * surplus <= enough * (few * many):
                continue
            here[1] = n_left - here[0]
        if c > FEW_CLASSES:
            found = float(on_left) / few + float(on_right) / many
        else:
            found = score_of(here, counts, few, many)
        if found > top:
            best, cut, top = found, signed(at), found
            enough = top * (1.0 - _MARGIN)
            for j in range(c):
                side[1, j] = here[j]
    return best, cut


@compiled
def score_of(left: Host, counts: Host, few: float, many: float) -> float:
    """Score a split of few classes as `gini_scores` does, step for step."""
    c, found = counts.shape[0], 0.0
    for j in range(c if c > 2 else 1):
        surplus = float(left[j]) * many - float(counts[j] - left[j]) * few
        found += surplus * surplus
    return found * (1.0 / (few * many))


@compiled
def search_few_rows(
    rows: Host,
    start: int,
    stop: int,
    bins: Host,
    counts: Host,
    least: int,
    keys: Host,
    side: Host,
    left: Host,
) -> tuple[int, np.float32, float, int, int]:
    """Return what `search_cells` does, for a block of few rows: sorted by insertion, column by column."""
    c, size, here = counts.shape[0], stop - start, side[0]
    line, gain, score, low, high = 0, np.float32(-np.inf), -1.0, 0, 0
    for f in range(bins.shape[0]):
        column = bins[f]
        own, until = 0, counts[0]
        for i in range(size):
            while i == until:
                own += 1
                until += counts[own]
            key = (signed(column[rows[index(start + i)]]) << _CLASS_BITS) + own
            at = i
            while at > 0 and keys[at - 1] > key:
                keys[at] = keys[at - 1]
                at -= 1
            keys[at] = key
        on_left, on_right = 0, 0
        for j in range(c):
            here[j] = 0
            on_right += counts[j] * counts[j]
        top, is_found = score, False
        for i in range(size - least):
            own = keys[i] & _CLASS
            held = here[own]
            here[own] = held + 1
            on_left += 2 * held + 1
            on_right += 2 * (held - counts[own]) + 1
            if i + 1 < least or keys[i] >> _CLASS_BITS == keys[i + 1] >> _CLASS_BITS:
                continue
            few, many = float(i + 1), float(size - i - 1)
            if c > FEW_CLASSES:
                found = float(on_left) / few + float(on_right) / many
            else:
                found = score_of(here, counts, few, many)
            if found > top:
                top, is_found, cut, beyond = found, True, keys[i] >> _CLASS_BITS, keys[i + 1] >> _CLASS_BITS
                for j in range(c):
                    side[1, j] = here[j]
        if not is_found:
            continue
        gained = gain_of(top, counts, size)
        if gained > gain:
            line, gain, score, low, high = f, gained, top, cut, beyond
            for j in range(c):
                left[j] = side[1, j]
            if is_perfect(left, counts):
                break
    return line, gain, score, low, high
