"""The weakest link: the price of a leaf at which each node of a tree turns into one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.arrays.segments import segment_max, segment_sum
from arraylearn.backend.namespace import HOST
from arraylearn.grow.trees import NO_PARENT, Trees

__all__ = ["Links", "weakest_links"]


class Links(NamedTuple):
    """The price at which each node turns into a leaf, and the change of the tree then: arrays (t,)."""

    alpha: HostArray  # price of a leaf from which on the node is one; inf: never, or after a node above
    risk_step: HostArray  # growth of the risk of the tree
    leaf_step: HostArray  # fall of the number of leaves
    node_step: HostArray  # fall of the number of nodes


def weakest_links(tree: Trees, risk: HostArray) -> Links:
    r"""Find the price at which each node of a host tree turns into a leaf.

    The weakest link has the least :math:`g(t) = (R(t) - R(T_t)) / (|T_t| - 1)`. Pruning it changes g only in
    the nodes above, and never lowers it. So every node whose g is the least among the nodes above and below
    it becomes a weakest link at some price, and all such nodes are pruned in one round. Sums over subtrees
    take steps of 1, 2, 4, ... levels, so that their number grows with the logarithm of the depth.

    Parameters
    ----------
    risk : float array (t,)
        R, the risk of each node as a leaf.
    """
    t, n_levels = tree.n_nodes, int(tree.depth[-1]) + 1
    links = np.zeros((4, t))
    links[0] = np.inf
    # of the nodes that are still in the tree; the parent is a position among them
    node, is_inner = np.arange(t), ~tree.is_leaf
    parent = np.where(tree.parent == NO_PARENT, t, tree.parent)
    while node.shape[0] > 1:
        r, jumps = node.shape[0], _double_jumps(parent, n_levels)
        steps = _judge(risk, is_inner, jumps)
        price = steps[0]
        is_least = (price <= _least_below(price, jumps)) & (price <= _least_above(price, jumps))
        is_cut = is_inner & is_least
        stays = _least_above(np.where(is_cut, -1.0, 0.0), jumps) >= 0
        # if several links of one price are on one path, the uppermost is cut, and the others with it
        is_cut &= stays
        links[:, node[is_cut]] = steps[:, is_cut]
        number = np.append(np.cumulative_sum(np.astype(stays, np.int64)) - 1, np.sum(stays))
        is_inner = is_inner & ~is_cut
        parent = number[np.minimum(parent, r)][stays]
        node, risk, is_inner = (part[stays] for part in (node, risk, is_inner))
    return Links(*links)


def _double_jumps(parent: HostArray, n_levels: int) -> list[HostArray]:
    """Return the ancestors (r,) of 1, 2, 4, ... levels above; r where there is none."""
    jumps, n = [parent], 1
    while 2 * n < n_levels:
        jumps.append(np.append(jumps[-1], parent.shape[0])[jumps[-1]])
        n *= 2
    return jumps


def _judge(risk: HostArray, is_inner: HostArray, jumps: list[HostArray]) -> HostArray:
    """Return price, rise of the risk, fall of leaves and nodes (4, r) if each node were a leaf."""
    is_leaf = np.where(is_inner, 0.0, 1.0)
    below = np.stack((risk * is_leaf, is_leaf, np.ones_like(risk)), axis=1)
    for jump in jumps:
        below = below + segment_sum(HOST.xp, below, jump, risk.shape[0] + 1)[:-1]
    leaf_risk, n_leaves, n_nodes = below.T
    gap = np.maximum(risk - leaf_risk, 0.0)
    price = np.where(is_inner, gap / np.where(is_inner, n_leaves - 1, 1.0), np.inf)
    return np.stack((price, gap, n_leaves - 1, n_nodes - 1))


def _least_below(price: HostArray, jumps: list[HostArray]) -> HostArray:
    """Return the least price (r,) of each node and all below it."""
    most = -price
    for jump in jumps:
        most = np.maximum(most, segment_max(HOST.xp, most, jump, price.shape[0] + 1)[:-1])
    return -most


def _least_above(values: HostArray, jumps: list[HostArray]) -> HostArray:
    """Return the least value (r,) strictly above each node; inf for the root."""
    least = np.append(values, np.inf)[jumps[0]]
    for jump in jumps:
        least = np.minimum(least, np.append(least, np.inf)[jump])
    return least
