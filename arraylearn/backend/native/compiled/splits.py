"""Compiled body of the search for splits: one pass over the running sums, no table of scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled, compiled_part
from arraylearn.backend.cpu.portions import even_portions
from arraylearn.backend.threads import parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["best_cell", "search_splits"]

# Cells that a thread must have, or it costs more than it brings.
_LEAST_CELLS = 300_000


def search_splits(
    running: Host, total: Host, ridge: Host, least: Host, is_used: Host | None
) -> tuple[Host, Host, Host]:
    k, d, n_bins = running.shape
    score, cell, left = (
        np.empty(k, dtype=np.float32),
        np.empty(k, dtype=np.int64),
        np.empty(k, dtype=np.int64),
    )
    used = np.ones(d, dtype=np.bool_) if is_used is None else is_used
    sums, whole = np.ascontiguousarray(running), np.ascontiguousarray(total)
    parallel_map(
        lambda nodes: _search(sums, whole, ridge, least, used, *nodes, score, cell, left),
        even_portions(k, _LEAST_CELLS // (d * n_bins)),
    )
    return score, cell, left


@compiled
def _search(
    running: Host,
    total: Host,
    ridge: Host,
    least: Host,
    is_used: Host,
    first: int,
    last: int,
    score: Host,
    cell: Host,
    left: Host,
) -> None:
    """Find the best cells of the nodes `first` to `last`."""
    n_bins = running.shape[2]
    scores = np.empty(n_bins, dtype=np.float32)
    keys = scores.view(np.int32)
    for node in range(first, last):
        where = best_cell(running[node], total[node], ridge[0], least[node], is_used, False, scores, keys)
        score[node], cell[node] = scores[0], where
        left[node] = running[node, where // n_bins, where % n_bins] if keys[0] > 0 else total[node]


@compiled_part
def best_cell(
    running: Host,
    total: int,
    ridge: np.float32,
    least: np.float32,
    is_used: Host,
    is_missing_left: bool,
    scores: Host,
    keys: Host,
) -> int:
    """Return the best cell of a node, the first among equals, and leave its score at `scores[0]`.

    `scores` (n_bins,) float32 is working memory, `keys` its view as int32: scores are not negative, so that
    their bits have the same order, and the maximum of integers has no exceptions.
    """
    d, n_bins = running.shape
    hessian = np.float32(total >> 32)
    slope = np.float32(np.int32(total)) / max(hessian + np.float32(2) * ridge, np.float32(0.5))
    best, where = np.int32(0), 0
    for j in range(d):
        if is_used[j]:
            missing = running[j, n_bins - 1] - running[j, n_bins - 2] if is_missing_left else 0
            _score_column(running, j, missing, hessian, slope, ridge, least, scores)
            highest = np.int32(0)
            for b in range(n_bins):
                highest = max(highest, keys[b])
            if highest > best:
                best, where = highest, 0
                while keys[where] != best:
                    where += 1
                where += j * n_bins
    keys[0] = best
    return where


@compiled_part
def _score_column(
    running: Host,
    j: int,
    missing: int,
    hessian: np.float32,
    slope: np.float32,
    ridge: np.float32,
    least: np.float32,
    scores: Host,
) -> None:
    """Score the left sums of a column by q**2 / (h_L h_R); 0 where a side is too light."""
    half, nothing = np.float32(0.5), np.float32(0)
    for b in range(running.shape[1]):
        packed = running[j, b] + missing
        left = np.float32(packed >> 32)
        right = hessian - left
        is_heavy = min(left, right) >= least
        left += ridge
        right += ridge
        q = np.float32(np.int32(packed)) - slope * left
        scores[b] = q * q / max(left * right, half) if is_heavy else nothing
