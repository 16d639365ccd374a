"""Compiled body of the search for splits: one pass over the running sums, no table of scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.native.compiled.jit import compiled
from arraylearn.backend.native.compiled.portions import even_portions
from arraylearn.backend.threads import parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["search_splits"]

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
    """Find the best cells of the nodes `first` to `last`; the first among equals."""
    d, n_bins = running.shape[1], running.shape[2]
    half, two = np.float32(0.5), np.float32(2)
    scores = np.empty(n_bins, dtype=np.float32)
    # scores are not negative: as integers their bits have the same order, and a maximum has no exceptions
    keys = scores.view(np.int32)
    for node in range(first, last):
        hessian = np.float32(total[node] >> 32)
        slope = np.float32(np.int32(total[node])) / max(hessian + two * ridge[0], half)
        best, where = np.int32(0), 0
        for j in range(d):
            if is_used[j]:
                _score_column(running[node, j], hessian, slope, ridge[0], least[node], scores)
                highest = np.int32(0)
                for b in range(n_bins):
                    highest = max(highest, keys[b])
                if highest > best:
                    best = highest
                    where = j * n_bins
                    while keys[where - j * n_bins] != best:
                        where += 1
        keys[0] = best
        score[node], cell[node] = scores[0], where
        left[node] = running[node, where // n_bins, where % n_bins] if best > 0 else total[node]


@compiled
def _score_column(
    sums: Host, hessian: np.float32, slope: np.float32, ridge: np.float32, least: np.float32, scores: Host
) -> None:
    """Score the left sums of a column by q**2 / (h_L h_R); 0 where a side is too light."""
    half, nothing = np.float32(0.5), np.float32(0)
    for b in range(sums.shape[0]):
        left = np.float32(sums[b] >> 32)
        right = hessian - left
        is_heavy = min(left, right) >= least
        left += ridge
        right += ridge
        q = np.float32(np.int32(sums[b])) - slope * left
        scores[b] = q * q / max(left * right, half) if is_heavy else nothing
