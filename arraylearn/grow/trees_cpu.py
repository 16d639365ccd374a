"""Number the nodes of trees that grew depth first."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import Host, entry

__all__ = ["in_level_order"]


def in_level_order(first_child: Host, most_nodes: int, n_roots: int = 1) -> tuple[Host, Host, Host]:
    """Return where each node stood, its first child, and its depth, in the order of `Trees`.

    Parameters
    ----------
    first_child : int32 array (s,)
        The left child of each node, -1 for a leaf; the right child follows it. There may be gaps: only roots
        and nodes below them count.
    most_nodes : int
        How many nodes there are, or more.
    n_roots : int
        The first nodes are roots: a level holds the nodes of all their trees.

    Returns
    -------
    three int32 arrays (m,)
        ``field[where]`` is a field in the new order.
    """
    where, first, depth, level, below = np.empty((5, most_nodes), dtype=np.int32)
    n_nodes = _number_nodes(n_roots, first_child, where, first, depth, level, below)
    return where[:n_nodes], first[:n_nodes], depth[:n_nodes]


@entry
def _number_nodes(
    n_roots: int, first_child: Host, where: Host, first: Host, depth: Host, level: Host, below: Host
) -> Any:
    """Go down level by level; `level` holds the new numbers of the nodes to look at, `below` those after."""
    for i in range(n_roots):
        where[i], first[i], depth[i], level[i] = i, -1, 0, i
    n_nodes, n_level, height = n_roots, n_roots, 0
    while n_level > 0:
        height += 1
        n_split = 0
        for i in range(n_level):
            node = level[i]
            child = first_child[where[node]]
            if child < 0:
                continue
            first[node] = n_nodes
            for side in range(2):
                where[n_nodes + side] = child + side
                first[n_nodes + side] = -1
                depth[n_nodes + side] = height
            below[n_split] = n_nodes
            n_split += 1
            n_nodes += 2
        for i in range(n_split):
            level[i], level[n_split + i] = below[i], below[i] + 1
        n_level = 2 * n_split
    return n_nodes
