"""Compiled body of `backend.ops.weighted.weighted_splits`: sums in the order of the portable one."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled
from arraylearn.backend.cpu.unsigned import index, signed
from arraylearn.backend.native.compiled.gini_scan import FEW_CLASSES
from arraylearn.backend.native.compiled.gini_split import line_groups
from arraylearn.backend.threads import parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["weighted_splits"]


def weighted_splits(
    lists: Host,
    columns: Host,
    labels: Host,
    weights: Host | None,
    starts: Host,
    block_at: Host,
    n_classes: int,
    least: float,
) -> tuple[Host, Host, Host, Host]:
    (d, m), k = lists.shape, starts.shape[0]
    if weights is None:
        weights = np.ones(labels.shape[0], dtype=np.int64)
    best, position = np.empty((d, k)), np.empty((d, k), np.int64)
    left, known = (np.empty((d, k, n_classes), weights.dtype) for _ in range(2))
    rows = np.ascontiguousarray(lists).view(np.uint32)
    data = rows, np.ascontiguousarray(columns), labels, weights, starts
    results = best, position, left, known

    def search(group: tuple[int, int]) -> None:
        _search_lists(*group, *data, float(least), *results)

    parallel_map(search, line_groups(d, m))
    return best, position, left.transpose(2, 0, 1), known.transpose(2, 0, 1)


@compiled
def _search_lists(
    first_line: int,
    stop_line: int,
    lists: Host,
    columns: Host,
    labels: Host,
    weights: Host,
    starts: Host,
    least: float,
    best: Host,
    position: Host,
    left: Host,
    known: Host,
) -> None:
    """Search every block of some lists."""
    m, k, c = lists.shape[1], starts.shape[0], known.shape[2]
    own, amount = np.empty(m, np.int32), np.empty(m, weights.dtype)
    sums = np.empty((3, c), weights.dtype)  # at the start of the block, at its end, at the position
    for f in range(first_line, stop_line):
        rows, values = lists[f], columns[f]
        sums[:] = 0
        for b in range(k):
            start, stop = starts[b], m if b == k - 1 else starts[b + 1]
            for j in range(c):
                sums[0, j] = sums[1, j]
            for i in range(index(start), index(stop)):
                own[i], amount[i] = labels[rows[i]], weights[rows[i]]
                sums[1, own[i]] += amount[i]
            for j in range(c):
                known[f, b, j] = sums[1, j] - sums[0, j]
                left[f, b, j] = 0
            if c == 2:
                best[f, b], position[f, b] = _search_two(
                    rows, values, own, amount, start, stop, sums, known[f, b], least, left[f, b]
                )
            else:
                best[f, b], position[f, b] = _search_many(
                    rows, values, own, amount, start, stop, sums, known[f, b], least, left[f, b]
                )


@compiled
def _search_two(
    rows: Host,
    values: Host,
    own: Host,
    amount: Host,
    start: int,
    stop: int,
    sums: Host,
    known: Host,
    least: float,
    left: Host,
) -> tuple[float, int]:
    """Return the best score of a block of two classes, and its position."""
    best, at = -np.inf, -1
    first, second = sums[0, 0], sums[0, 1]
    for i in range(index(start), index(stop - 1)):
        if own[i] == 0:
            first += amount[i]
        else:
            second += amount[i]
        left_first, left_second = first - sums[0, 0], second - sums[0, 1]
        right_first, right_second = known[0] - left_first, known[1] - left_second
        few, many = float(left_first + left_second), float(right_first + right_second)
        surplus = float(left_first) * many - float(right_first) * few
        # what cannot beat the best one is passed over without a division
        if surplus * surplus < best * (few * many) * (1.0 - 1e-12):
            continue
        if few < least or many < least or few <= 0 or many <= 0:
            continue
        score = surplus * surplus * (1.0 / (few * many))
        if score > best and values[rows[i + index(1)]] > values[rows[i]]:
            best, at = score, signed(i)
            left[0], left[1] = left_first, left_second
    return best, at


@compiled
def _search_many(
    rows: Host,
    values: Host,
    own: Host,
    amount: Host,
    start: int,
    stop: int,
    sums: Host,
    known: Host,
    least: float,
    left: Host,
) -> tuple[float, int]:
    """Return what `_search_two` does, for any number of classes."""
    best, at, c = -np.inf, -1, known.shape[0]
    before, here = sums[0], sums[2]
    for j in range(c):
        here[j] = before[j]
    for i in range(index(start), index(stop - 1)):
        here[own[i]] += amount[i]
        if not values[rows[i + index(1)]] > values[rows[i]]:
            continue
        n_left, n_right = here[0] - before[0], known[0] - (here[0] - before[0])
        for j in range(1, c):
            n_left += here[j] - before[j]
            n_right += known[j] - (here[j] - before[j])
        few, many = float(n_left), float(n_right)
        if few < least or many < least or few <= 0 or many <= 0:
            continue
        if c <= FEW_CLASSES:
            score = 0.0
            for j in range(c):
                part = here[j] - before[j]
                surplus = float(part) * many - float(known[j] - part) * few
                score += surplus * surplus
            score *= 1.0 / (few * many)
        else:
            part = here[0] - before[0]
            on_left, on_right = part * part, (known[0] - part) * (known[0] - part)
            for j in range(1, c):
                part = here[j] - before[j]
                on_left += part * part
                on_right += (known[j] - part) * (known[j] - part)
            score = float(on_left) / few + float(on_right) / many
        if score > best:
            best, at = score, signed(i)
            for j in range(c):
                left[j] = here[j] - before[j]
    return best, at
