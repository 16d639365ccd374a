"""Number the nodes of trees that grew depth first."""

from __future__ import annotations

from arraylearn.backend.cpu.jit import Host, Int, part
from arraylearn.grow.trees import LEAF

__all__ = ["number_nodes"]

# Rows of the buffer `places`: slots of nodes, first child, depth, and two of scratch.
_WHERE, _FIRST, _DEPTH, _LEVEL, _BELOW = range(5)


@part
def number_nodes(n_roots: int, first_child: Host, places: Host) -> Int:
    """Write slot, first child and depth of each node, in the order of `Trees`; return the number of nodes.

    Parameters
    ----------
    n_roots : int
        The first nodes are roots: a level holds the nodes of all their trees.
    first_child : int32 array (s,)
        The left child of each node, or LEAF; the right child follows it. There may be gaps: only roots
        and nodes below them count.
    places : int32 array (5, s)
        Its first three rows receive the result; with the first of them as ``slot``, ``field[slot]`` is a
        field in the new order. The fourth row has the new numbers of the nodes of one level, the fifth of the
        next.
    """
    for i in range(n_roots):
        places[_WHERE, i], places[_FIRST, i], places[_DEPTH, i], places[_LEVEL, i] = i, LEAF, 0, i
    n_nodes, n_level, height = n_roots, n_roots, 0
    while n_level > 0:
        height += 1
        n_split = 0
        for i in range(n_level):
            node = places[_LEVEL, i]
            child = first_child[places[_WHERE, node]]
            if child == LEAF:
                continue
            places[_FIRST, node] = n_nodes
            for side in range(2):
                places[_WHERE, n_nodes + side] = child + side
                places[_FIRST, n_nodes + side] = LEAF
                places[_DEPTH, n_nodes + side] = height
            places[_BELOW, n_split] = n_nodes
            n_split += 1
            n_nodes += 2
        for i in range(n_split):
            places[_LEVEL, i], places[_LEVEL, n_split + i] = places[_BELOW, i], places[_BELOW, i] + 1
        n_level = 2 * n_split
    return n_nodes
