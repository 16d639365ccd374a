"""NumPy bodies for `arraylearn.backend.arrays.blocks`: pieces that stay in the cache, lists in threads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["block_index", "block_max", "scatter", "split_lists"]

# Positions in a piece: fewer cost more calls, more leave the second-level cache. At most 65535.
_PIECE = 32_768
# Positions of short lists that are split together.
_GROUP = 131_072
_WORTH_A_THREAD = 50_000
# Up to here one pass per branch is cheaper than a stable sort.
_FEW_BRANCHES = 12


def block_index(sizes: Host, total: int) -> Host:
    return np.repeat(np.arange(sizes.shape[0]), sizes)


def block_max(values: Host, starts: Host, block_at: Host) -> Host:
    return np.maximum.reduceat(values, starts, axis=1)


def scatter(values: Host, positions: Host, n: int) -> Host:
    result = np.zeros(n, dtype=values.dtype)
    result[positions] = values
    return result


def split_lists(lists: Host, branch: Host, sizes: Sequence[int]) -> Host:
    d, m = lists.shape
    result = np.empty((d, sum(sizes)), dtype=lists.dtype)
    starts = [0, *accumulate(sizes)][:-1]
    n_branches = len(sizes)
    kind = np.int8 if n_branches < 127 else np.int32
    branch = branch.astype(kind, copy=False)

    def split_group(lines: slice) -> None:
        source, target = lists[lines], result[lines]
        if m > _PIECE:
            for j in range(source.shape[0]):
                _split_line(source[j], branch, starts, target[j])
            return
        key = branch.take(source)
        if n_branches > _FEW_BRANCHES:
            for j in range(source.shape[0]):
                target[j] = _sorted_by(source[j], key[j])
            return
        flat, key = source.ravel(), key.ravel()
        for b, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            target[:, start : start + size] = flat.compress(key == b).reshape(source.shape[0], size)

    _map_groups(split_group, d, m)
    return result


def _split_line(source: Host, branch: Host, starts: list[int], target: Host) -> None:
    """Split one long list piece by piece."""
    if len(starts) > _FEW_BRANCHES:
        target[:] = _sorted_by(source, branch.take(source))
        return
    filled = list(starts)
    for first in range(0, source.shape[0], _PIECE):
        rows = source[first : first + _PIECE]
        key = branch.take(rows)
        for b, start in enumerate(filled):
            (chosen,) = (key == b).nonzero()
            filled[b] = start + chosen.shape[0]
            rows.take(chosen, out=target[start : filled[b]], mode="clip")  # which needs no buffer


def _sorted_by(rows: Host, key: Host) -> Host:
    order = np.argsort(key, kind="stable")
    return rows.take(order[int(np.count_nonzero(key < 0)) :])


def _map_groups(work: Any, d: int, m: int) -> None:
    """Call ``work(slice of lists)`` for groups of lists, on several threads where that pays."""
    n_threads = get_num_threads() if d * m >= _WORTH_A_THREAD else 1
    per_group = max(1, min(-(-d // n_threads), _GROUP // max(1, m) if n_threads == 1 else d))
    groups = [slice(j, min(d, j + per_group)) for j in range(0, d, per_group)]
    if n_threads == 1:
        for group in groups:
            work(group)
    else:
        parallel_map(work, groups)
