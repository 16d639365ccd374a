"""The weakest link: the price of a leaf at which each node of a tree turns into one."""

from __future__ import annotations

from typing import NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.order import compress
from arraylearn.backend.arrays.segments import segment_max, segment_sum
from arraylearn.backend.namespace import Place, accumulator_dtype, to_host
from arraylearn.grow.trees import NO_PARENT, Trees

__all__ = ["Links", "weakest_links"]


class Links(NamedTuple):
    """The price at which each node turns into a leaf, and the change of the tree then: float arrays (t,)."""

    alpha: Array  # price of a leaf from which on the node is one; inf: never, or a node above is cut first
    risk_step: Array  # growth of the risk of the tree
    leaf_step: Array  # fall of the number of leaves
    node_step: Array  # fall of the number of nodes


class _Rest(NamedTuple):
    """The nodes that are still in the tree: arrays (r,)."""

    node: Array  # number in the grown tree
    parent: Array  # position among these, r for the root
    risk: Array  # of the node as a leaf
    is_inner: Array  # whether it still is a split


def weakest_links(place: Place, tree: Trees, n_levels: int, risk: Array) -> Links:
    r"""Find the price at which each node turns into a leaf.

    The weakest link has the least :math:`g(t) = (R(t) - R(T_t)) / (|T_t| - 1)`. Pruning it changes g only in
    the nodes above, and never lowers it. So every node whose g is the least among the nodes above and below
    it becomes a weakest link at some price, and all such nodes are pruned in one round. Sums over subtrees
    take steps of 1, 2, 4, ... levels, so that their number grows with the logarithm of the depth. One sync
    per round.

    Parameters
    ----------
    n_levels : int
        Number of levels of the tree.
    risk : float array (t,)
        R, the risk of each node as a leaf.
    """
    xp, dtype, t = place.xp, accumulator_dtype(place), tree.n_nodes
    node = xp.arange(t, dtype=xp.int64, device=place.device)
    parent = xp.astype(tree.parent, xp.int64)
    parent = xp.where(parent == NO_PARENT, t, parent)
    rest = _Rest(node, parent, xp.astype(risk, dtype), ~tree.is_leaf)
    found: list[tuple[Array, Array]] = []  # per round: nodes cut, and their rows of `steps`
    while rest.node.shape[0] > 1:
        jumps = _double_jumps(xp, rest.parent, n_levels)
        steps = _judge(xp, rest, jumps)
        price = steps[:, 0]
        is_least = (price <= _least_below(xp, price, jumps)) & (price <= _least_above(xp, price, jumps))
        is_cut = rest.is_inner & is_least
        is_gone = _least_above(xp, -xp.astype(is_cut, dtype), jumps) < 0
        # if several links of one price are on one path, the uppermost is cut, and the others with it
        is_cut = is_cut & ~is_gone
        n_cut, n_left = _read_sizes(xp, is_cut, ~is_gone)
        cut, cut_steps = (compress(xp, part, is_cut, n_cut) for part in (rest.node, steps))
        found.append((cut, cut_steps))
        rest = _shrink(xp, rest._replace(is_inner=rest.is_inner & ~is_cut), ~is_gone, n_left)
    return _collect(xp, found, rest.risk, t)


def _double_jumps(xp: Namespace, parent: Array, n_levels: int) -> list[Array]:
    """Ancestors (r,) of 1, 2, 4, ... levels above; r where there is none."""
    r = parent.shape[0]
    jumps, n = [parent], 1
    while 2 * n < n_levels:
        above = jumps[-1]
        further = xp.take(above, xp.where(above < r, above, 0), axis=0)
        jumps.append(xp.where(above < r, further, r))
        n *= 2
    return jumps


def _judge(xp: Namespace, rest: _Rest, jumps: list[Array]) -> Array:
    """Price, rise of the risk, fall of leaves and nodes (r, 4) if each node were a leaf; inf for leaves."""
    one, zero = xp.ones_like(rest.risk), xp.zeros_like(rest.risk)
    leaf_risk, leaf = (xp.where(rest.is_inner, zero, value) for value in (rest.risk, one))
    below = xp.stack((leaf_risk, leaf, one), axis=1)
    for jump in jumps:
        further = segment_sum(xp, below, jump, rest.node.shape[0] + 1)
        below = below + xp.astype(further[:-1, :], rest.risk.dtype)
    gap = xp.maximum(rest.risk - below[:, 0], zero)
    price = xp.where(rest.is_inner, gap / xp.where(rest.is_inner, below[:, 1] - 1, one), xp.inf)
    return xp.stack((price, gap, below[:, 1] - 1, below[:, 2] - 1), axis=1)


def _least_below(xp: Namespace, price: Array, jumps: list[Array]) -> Array:
    """Least price (r,) of each node and all below it."""
    most = -price
    for jump in jumps:
        most = xp.maximum(most, segment_max(xp, most, jump, price.shape[0] + 1)[:-1])
    return -most


def _least_above(xp: Namespace, values: Array, jumps: list[Array]) -> Array:
    """Least value (r,) strictly above each node; inf for the root."""
    r = values.shape[0]
    least = _take_or_inf(xp, values, jumps[0], r)
    for jump in jumps:
        least = xp.minimum(least, _take_or_inf(xp, least, jump, r))
    return least


def _take_or_inf(xp: Namespace, values: Array, at: Array, r: int) -> Array:
    return xp.where(at < r, xp.take(values, xp.where(at < r, at, 0), axis=0), xp.inf)


def _read_sizes(xp: Namespace, *masks: Array) -> list[int]:
    """Count the masks; one sync."""
    counts = xp.stack([xp.sum(xp.astype(mask, xp.int64)) for mask in masks])
    return [int(count) for count in to_host(counts)]


def _shrink(xp: Namespace, rest: _Rest, stays: Array, size: int) -> _Rest:
    """Leave out the nodes below the cuts."""
    r = rest.node.shape[0]
    number = xp.cumulative_sum(xp.astype(stays, xp.int64)) - 1
    moved = xp.take(number, xp.where(rest.parent < r, rest.parent, 0), axis=0)
    parent = xp.where(rest.parent < r, moved, size)
    fields = (rest.node, parent, rest.risk, rest.is_inner)
    node, parent, risk, is_inner = (compress(xp, field, stays, size) for field in fields)
    return _Rest(node, parent, risk, is_inner)


def _collect(xp: Namespace, found: list[tuple[Array, Array]], like: Array, n_nodes: int) -> Links:
    """Bring the links found in all rounds into the order of the nodes."""
    if not found:
        nothing = xp.zeros_like(like)
        return Links(nothing + xp.inf, nothing, nothing, nothing)
    node, steps = (xp.concat(list(parts), axis=0) for parts in zip(*found, strict=True))
    marked = xp.concat((steps, xp.ones_like(steps[:, :1])), axis=1)
    by_node = segment_sum(xp, marked, node, n_nodes)
    alpha = xp.where(by_node[:, 4] > 0, by_node[:, 0], xp.inf)
    return Links(alpha, by_node[:, 1], by_node[:, 2], by_node[:, 3])
