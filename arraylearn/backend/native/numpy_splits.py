"""NumPy body of the search for splits: nodes in chunks that stay in the cache, few passes, no copies."""

from __future__ import annotations

from typing import Any

import numpy as np

Host = np.ndarray[Any, Any]

__all__ = ["search_splits"]

# Cells of one chunk of nodes.
_CELLS = 16_384
_LOWER, _UPPER = (0, 1) if np.little_endian else (1, 0)


def search_splits(
    running: Host, total: Host, ridge: Host, least: Host, is_used: Host | None
) -> tuple[Host, Host, Host]:
    k, d, n_bins = running.shape
    score = np.empty(k, dtype=np.float32)
    cell = np.empty(k, dtype=np.int64)
    left = np.empty(k, dtype=np.int64)
    total = np.ascontiguousarray(total)
    gradient, hessian = (x.reshape(k, 1, 1) for x in _halves(total))
    slope = gradient / np.maximum(hessian + np.float32(2) * ridge, np.float32(0.5))
    step = max(1, _CELLS // (d * n_bins))
    least = least.reshape(k, 1, 1)
    for start in range(0, k, step):
        part = slice(start, start + step)
        sums = running[part]
        scores = _scores(sums, hessian[part], slope[part], ridge, least[part], is_used)
        scores = scores.reshape(scores.shape[0], -1)
        where = scores.argmax(axis=1)
        every = np.arange(scores.shape[0])
        best = scores[every, where]
        found = sums[every, where // n_bins, where % n_bins]
        score[part], cell[part] = best, where
        left[part] = np.where(best > 0, found, total[part])
    return score, cell, left


def _halves(packed: Host) -> tuple[Host, Host]:
    words = packed.view(np.int32).reshape(*packed.shape, 2)
    return words[..., _LOWER].astype(np.float32), words[..., _UPPER].astype(np.float32)


def _scores(sums: Host, hessian: Host, slope: Host, ridge: Host, least: Host, is_used: Host | None) -> Host:
    q, left = _halves(sums)
    right = hessian - left
    work = np.minimum(left, right)
    is_heavy = work >= least
    if is_used is not None:
        is_heavy &= is_used[:, None]
    left += ridge
    right += ridge
    np.multiply(slope, left, out=work)
    q -= work
    q *= q
    left *= right
    if ridge[0] < 1:
        np.maximum(left, np.float32(0.5), out=left)  # an empty side; it is not heavy anyway
    q /= left
    q *= is_heavy
    return q
