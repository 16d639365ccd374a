"""Passes over the levels of a tree, from the leaves to the root or back, all nodes of a level at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.segments import segment_sum
from arraylearn.backend.namespace import to_host
from arraylearn.grow.trees import Trees

__all__ = ["choose_cuts", "least_above", "read_bounds", "sum_children", "sum_upward"]

# Costs that differ by less than this are equal: the order of summation differs between devices.
TIE = 1e-6


def read_bounds(tree: Trees) -> tuple[int, ...]:
    """Find where each level begins, and where the last one ends; one sync."""
    depth = to_host(tree.depth)
    wanted = np.arange(int(depth[-1]) + 2, dtype=depth.dtype)
    return tuple(np.searchsorted(depth, wanted, side="left").tolist())


def sum_children(xp: Namespace, parent: Array, bounds: Sequence[int], level: int, below: Array) -> Array:
    """Sum values (m, ...) of the level below over the children of each node of a level: (k, ...)."""
    start, stop = bounds[level], bounds[level + 1]
    above = xp.astype(parent[stop : bounds[level + 2]], xp.int64) - start
    return segment_sum(xp, below, above, stop - start)


def sum_upward(xp: Namespace, tree: Trees, bounds: Sequence[int], values: Array) -> Array:
    """Sum the values (t, ...) of the leaves below each node; the values of inner nodes are not used."""
    parent, is_leaf_at, below, parts = tree.parent, tree.is_leaf, None, []
    for level in reversed(range(len(bounds) - 1)):
        nodes = slice(bounds[level], bounds[level + 1])
        own = values[nodes, ...]
        if below is not None:
            summed = sum_children(xp, parent, bounds, level, below)
            is_leaf = is_leaf_at[nodes]
            shape = (is_leaf.shape[0],) + (1,) * (own.ndim - 1)
            own = xp.where(xp.reshape(is_leaf, shape), xp.astype(own, summed.dtype), summed)
        parts.append(own)
        below = own
    dtype = parts[-1].dtype
    return xp.concat([xp.astype(part, dtype) for part in reversed(parts)], axis=0)


def choose_cuts(
    xp: Namespace,
    tree: Trees,
    bounds: Sequence[int],
    leaf_cost: Array,
    split_cost: Array | None = None,
    slack: float = TIE,
) -> Array:
    r"""Choose the nodes at which a leaf costs no more than the subtree, pruned in the same way.

    .. math:: K(t) = \min\bigl(\ell(t),\; s(t) + \sum_{u \in \mathrm{children}(t)} K(u)\bigr)

    Parameters
    ----------
    bounds : from `read_bounds`
        The levels.
    leaf_cost : float array (t,)
        :math:`\ell`, the cost of each node as a leaf.
    split_cost : float array (t,), optional
        :math:`s`, the cost of a split besides its children; default: 0.
    slack : float
        A leaf may cost this much more.

    Returns
    -------
    bool array (t,)
        Inner nodes that become leaves.
    """
    parent, is_inner_at, below, parts = tree.parent, ~tree.is_leaf, None, []
    for level in reversed(range(len(bounds) - 1)):
        nodes = slice(bounds[level], bounds[level + 1])
        best = leaf_cost[nodes]
        is_cut = is_inner_at[nodes]  # False for all on the deepest level, which has no inner nodes
        if below is not None:
            subtree = xp.astype(sum_children(xp, parent, bounds, level, below), best.dtype)
            if split_cost is not None:
                subtree = subtree + split_cost[nodes]
            is_inner = is_cut
            is_cut = is_inner & (best <= subtree + slack)
            best = xp.where(is_inner & ~is_cut, subtree, best)
        parts.append(is_cut)
        below = best
    return xp.concat(list(reversed(parts)))


def least_above(xp: Namespace, parent: Array, bounds: Sequence[int], values: Array, start: float) -> Array:
    """Take the least of the values (t,) of the nodes strictly above each node; `start` for the root."""
    above = xp.full_like(values[:1], start)
    parts = [above]
    for (first, last), stop in zip(pairwise(bounds[:-1]), bounds[2:], strict=True):
        least = xp.minimum(above, values[first:last])
        above = xp.take(least, xp.astype(parent[last:stop], xp.int64) - first, axis=0)
        parts.append(above)
    return xp.concat(parts)
