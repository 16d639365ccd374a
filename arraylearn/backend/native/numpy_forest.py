"""NumPy body for `arraylearn.backend.ops.forest`: bit planes, then packed records of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.native.numpy_planes import Planes, compile_planes, fill_planes, find_leaves
from arraylearn.backend.threads import parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["reach_leaves"]

# Rows that go down a tree together.
_ROWS = 8_192
# The first levels of so many trees at a time are taken by bit planes, if there are rows enough.
_TOP = 7
_GROUP = 16
_MANY_ROWS = 1_024


def reach_leaves(bins: Host, trees: Any) -> Host:
    n, n_trees = bins.shape[1], trees.root.shape[0]
    result = np.empty((n_trees, n), dtype=np.int32)
    is_leaf = trees.left == trees.right
    # one record for a node: left child, column and threshold; siblings are neighbours
    record = (trees.left.astype(np.int64) << 32) | (trees.feature.astype(np.int64) << 16)
    record |= trees.threshold
    top = _compile_top(trees, bins.shape[0]) if trees.depth and n >= _MANY_ROWS else None

    def walk(start: int) -> None:
        chunk = bins[:, start : start + _ROWS]
        m, d = chunk.shape[1], chunk.shape[0]
        lines = np.ascontiguousarray(chunk.T).reshape(-1)
        base = np.arange(m) * d
        found = result[:, start : start + m]
        if top is None:
            for t, root in enumerate(trees.root.tolist()):
                _go_down(np.full(m, root), lines, base, record, is_leaf, found[t])
            return
        for group, planes in top:
            leaf = find_leaves(fill_planes(chunk, trees.goes_right, planes), planes.of_node, planes.depth)
            for i, t in enumerate(range(group.start, group.stop)):
                node = planes.value[i].take(leaf[i, :m]).astype(np.int64)
                _go_down(node, lines, base, record, is_leaf, found[t])

    parallel_map(walk, range(0, n, _ROWS))
    return result


def _compile_top(trees: Any, d: int) -> list[tuple[slice, Planes]]:
    """Compile the first levels of groups of trees; their leaves are the numbers of the nodes below."""
    nodes = np.arange(trees.left.shape[0], dtype=np.int32)
    head = trees._replace(depth=min(trees.depth, _TOP), value=nodes)
    has_missing = np.zeros(d, dtype=bool)  # they are larger than all others anyway
    compiled = []
    for start in range(0, trees.root.shape[0], _GROUP):
        group = slice(start, min(start + _GROUP, trees.root.shape[0]))
        few = head._replace(root=trees.root[group])
        compiled.append((group, compile_planes(few, trees.goes_right.shape[1], has_missing)))
    return compiled


def _go_down(node: Host, lines: Host, base: Host, record: Host, is_leaf: Host, out: Host) -> None:
    """Send rows from their nodes to the leaves; every other level those that are there drop out."""
    out[...] = node
    active = np.flatnonzero(~is_leaf.take(node))
    node, base = node.take(active), base.take(active)
    while node.shape[0]:
        for _ in range(2):
            here = record.take(node)
            cell = here >> 16
            cell &= 0xFFFF
            cell += base
            node = here >> 32
            here &= 0xFFFF
            node += lines.take(cell) > here
        is_done = is_leaf.take(node)
        done = np.flatnonzero(is_done)
        out[active.take(done)] = node.take(done)
        kept = np.flatnonzero(np.logical_not(is_done, out=is_done))
        active, node, base = active.take(kept), node.take(kept), base.take(kept)
