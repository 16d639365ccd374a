"""NumPy body for `arraylearn.backend.ops.bins`: nodes in pieces that stay in the cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["gini_bins"]

# Cells of a piece.
_PIECE = 16_384
# Up to here the classes are summed one by one, in the order of the portable body.
_FEW_CLASSES = 4


def gini_bins(histogram: Host, least: float) -> tuple[Host, Host]:
    d, k, _, b = histogram.shape
    best, cut = np.empty((d, k)), np.empty((d, k), dtype=np.int64)
    step = max(1, _PIECE // max(1, d * b))

    def search(nodes: slice) -> None:
        part = histogram[:, nodes]
        scores = _score(part, least)
        cut[:, nodes] = (_compared(scores, part) if part.dtype.kind == "f" else scores).argmax(axis=-1)
        best[:, nodes] = np.take_along_axis(scores, cut[:, nodes, None], axis=-1)[..., 0]

    pieces = [slice(start, min(k, start + step)) for start in range(0, k, step)]
    if len(pieces) > 1 and get_num_threads() > 1:
        parallel_map(search, pieces)
    else:
        for piece in pieces:
            search(piece)
    return best, cut


def _compared(scores: Host, histogram: Host) -> Host:
    """Round scores of float weights, so that the order of the sums decides nothing."""
    is_bad = scores < 0
    if histogram.shape[2] > _FEW_CLASSES:
        whole = histogram.sum(axis=-1)
        scores = scores - ((whole * whole).sum(axis=-1) / np.maximum(whole.sum(axis=-1), 1e-300))[..., None]
    keys = scores.astype(np.float32)
    np.copyto(keys, np.float32(-np.inf), where=is_bad)
    return keys


def _score(histogram: Host, least: float) -> Host:
    """Score the cuts (d, k, b) as `gini_scores` does, step for step."""
    d, k, c, b = histogram.shape
    left = np.empty((c, d, k, b))
    for j in range(c):
        np.cumsum(histogram[:, :, j], axis=-1, out=left[j])
    total = left[..., -1:].copy()
    n_left = left.sum(axis=0)
    n_right = n_left[..., -1:] - n_left
    is_bad = n_left < least
    is_bad |= n_right < least
    if c > _FEW_CLASSES:
        np.copyto(n_left, 1.0, where=is_bad)
        np.copyto(n_right, 1.0, where=is_bad)
        right = total - left
        left *= left
        right *= right
        scores: Host = left.sum(axis=0)
        scores /= n_left
        squares = right.sum(axis=0)
        squares /= n_right
        scores += squares
    else:
        scores = _surplus_squares(left, total, n_left, n_right)
        n_left *= n_right
        np.copyto(n_left, 1.0, where=is_bad)
        np.divide(1.0, n_left, out=n_left)
        scores *= n_left
    np.copyto(scores, -1.0, where=is_bad)
    return scores


def _surplus_squares(left: Host, total: Host, n_left: Host, n_right: Host) -> Host:
    scores = np.empty(0)
    for j in range(left.shape[0] if left.shape[0] > 2 else 1):
        right = total[j] - left[j]
        right *= n_left
        surplus = left[j]
        surplus *= n_right
        surplus -= right
        surplus *= surplus
        if j == 0:
            scores = surplus
        else:
            scores += surplus
    return scores
