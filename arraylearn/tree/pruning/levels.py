"""Passes over the levels of a host tree, from the leaves to the root or back."""

from __future__ import annotations

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.grow.cut import levels_of
from arraylearn.grow.trees import Trees

__all__ = ["TIE", "choose_cuts", "least_above"]

# Costs that differ by less than this are equal.
TIE = 1e-6


def choose_cuts(
    tree: Trees, leaf_cost: HostArray, split_cost: HostArray | None = None, slack: float = TIE
) -> HostArray:
    r"""Choose the nodes at which a leaf costs no more than the subtree, pruned in the same way.

    .. math:: K(t) = \min\bigl(\ell(t),\; s(t) + \sum_{u \in \mathrm{children}(t)} K(u)\bigr)

    Parameters
    ----------
    tree : Trees
        On the host.
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
    subtree = np.zeros(tree.n_nodes) if split_cost is None else np.array(split_cost, dtype=np.float64)
    is_cut: HostArray = ~tree.is_leaf
    parent = tree.parent
    levels = levels_of(tree)
    for nodes, depth in zip(reversed(levels), reversed(range(len(levels))), strict=True):
        is_cut[nodes] &= leaf_cost[nodes] <= subtree[nodes] + slack
        if depth > 0:
            is_leaf = is_cut[nodes] | tree.is_leaf[nodes]
            np.add.at(subtree, parent[nodes], np.where(is_leaf, leaf_cost[nodes], subtree[nodes]))
    return is_cut


def least_above(tree: Trees, values: HostArray, start: float) -> HostArray:
    """Take the least of the values (t,) of the nodes strictly above each node; `start` for the root."""
    least, parent = np.full(tree.n_nodes, start), tree.parent
    for nodes in levels_of(tree)[1:]:
        above = parent[nodes]
        least[nodes] = np.minimum(least[above], values[above])
    return least
