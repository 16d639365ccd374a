"""Exact Gini scores of the positions that a scan in float32 found, and the best of each block."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.native.numpy_gini_scan import Blocks, Hits, choose_hits

Host = np.ndarray[Any, Any]
Result = tuple[Host, Host, Host, Host]

__all__ = [
    "FEW_CLASSES",
    "Result",
    "exact_scores",
    "gains_of",
    "is_between_equals",
    "run_sizes",
    "select_hits",
]

# Up to here scores are sums of squared surpluses, above sums of squared counts: see `gini_scores`.
FEW_CLASSES = 4


def exact_scores(blocks: Blocks, hits: Hits) -> Host:
    """Score positions as `gini_scores` does, step for step; -1 where a side is too small."""
    n_left = (hits.position - blocks.starts.take(hits.block) + 1).astype(np.float64)
    size = blocks.sizes.take(hits.block).astype(np.float64)
    n_right = size - n_left
    is_bad = (n_left < blocks.least) | (n_right < blocks.least)
    np.copyto(n_left, 1.0, where=is_bad)
    np.copyto(n_right, 1.0, where=is_bad)
    left = by_class(hits.below, n_left)
    total = blocks.counts.take(hits.block, axis=0).T.astype(np.float64)
    n_classes = total.shape[0]
    if n_classes > FEW_CLASSES:
        right = total - left
        scores: Host = (left * left).sum(axis=0) / n_left + (right * right).sum(axis=0) / n_right
    else:
        surplus = left * n_right - (total - left) * n_left
        surplus *= surplus
        scores = surplus[0]
        for c in range(1, n_classes if n_classes > 2 else 1):
            scores = scores + surplus[c]
        scores = scores * (1.0 / (n_left * n_right))
    np.copyto(scores, -1.0, where=is_bad)
    return scores


def is_between_equals(lists: Host, columns: Host, hits: Hits) -> Host:
    """Whether the next value of the list is the same."""
    m, n = lists.shape[1], columns.shape[1]
    at = hits.line * m + hits.position
    rows, values = lists.ravel(), columns.ravel()
    first = hits.line * n
    low = values.take(first + rows.take(at))
    high = values.take(first + rows.take(at + 1, mode="clip"), mode="clip")
    is_same: Host = low == high
    return is_same


def gains_of(blocks: Blocks, block: Host, scores: Host) -> Host:
    """Turn scores into gains as `gini_gains` does, in float32."""
    total = blocks.sizes.astype(np.float64)
    n_classes = blocks.counts.shape[1]
    if n_classes > FEW_CLASSES:
        before = (blocks.counts * blocks.counts).sum(axis=1) / total
        gains = (scores - before.take(block)) / total.take(block)
    else:
        gains = scores * (2.0 if n_classes == 2 else 1.0) / (total * total).take(block)
    return np.where(gains > 0, gains, 0.0).astype(np.float32)


def select_hits(blocks: Blocks, hits: Hits, exact: Host, top: Host) -> tuple[Result, Host]:
    """Choose list, score, position and left side of each block; also tell whose best was not allowed."""
    k = blocks.starts.shape[0]
    line, score = np.zeros(k, dtype=np.int64), np.full(k, -1.0)
    position = blocks.starts.copy()
    left = np.zeros_like(blocks.counts)
    is_lost = top >= 0
    is_valid = exact >= 0
    if not is_valid.all():
        hits, exact = choose_hits(hits, is_valid), exact.compress(is_valid)
    if exact.shape[0]:
        d, m = int(hits.line.max()) + 1, int(hits.position.max()) + 1
        order = ((hits.block * d + hits.line) * m + hits.position).argsort()  # all keys differ
        hits, exact = Hits(*(field.take(order, axis=-1) for field in hits)), exact.take(order)
        first = _first_of_runs(hits.block)
        sizes = run_sizes(first, exact.shape[0])
        gains = gains_of(blocks, hits.block, exact)
        at = _first_equal(gains, first, sizes)
        found = hits.block.take(first)
        line[found] = hits.line.take(at)
        in_line = np.where(hits.line == line.take(found).repeat(sizes), exact, -1.0)
        at = _first_equal(in_line, first, sizes)
        score[found], position[found] = exact.take(at), hits.position.take(at)
        n_left = position.take(found) - blocks.starts.take(found) + 1
        left[found] = by_class(hits.below.take(at, axis=1), n_left).T
        # the best lies between equal values: others may be better than those near it
        is_lost[found] = np.maximum.reduceat(hits.score, first) < top.take(found)
    return (line, score, position, left), is_lost


def by_class(below: Host, n_left: Host) -> Host:
    """Turn rows of class c or less (c - 1, h), and of all classes (h,), into rows of each class (c, h)."""
    left = np.empty((below.shape[0] + 1, n_left.shape[0]))
    left[:-1] = below
    left[-1] = n_left
    left[1:] -= below
    return left


def run_sizes(first: Host, n: int) -> Host:
    sizes = np.empty_like(first)
    np.subtract(first[1:], first[:-1], out=sizes[:-1])
    sizes[-1] = n - first[-1]
    return sizes


def _first_of_runs(keys: Host) -> Host:
    is_first = np.empty(keys.shape[0], dtype=np.bool_)
    is_first[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    return is_first.nonzero()[0]


def _first_equal(values: Host, first: Host, sizes: Host) -> Host:
    """Return the first position of the largest value of each run."""
    (at,) = (values == np.maximum.reduceat(values, first).repeat(sizes)).nonzero()
    # the first of them at or after the start of each run
    found: Host = at.take(at.searchsorted(first))
    return found
