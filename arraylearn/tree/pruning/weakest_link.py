"""The weakest link: the price of a leaf at which each node of a tree turns into one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.backend import ops
from arraylearn.backend.namespace import Place, accumulator_dtype, to_host
from arraylearn.tree.nodes import LEAF, Tree
from arraylearn.tree.pruning.levels import least_above, sum_children

__all__ = ["Links", "weakest_links"]


class Links(NamedTuple):
    """When each node turns into a leaf: float arrays (t,)."""

    alpha: Array  # price of a leaf from which on the node is one; inf: never, or one above was first
    risk_step: Array  # what the risk of the tree grows by then
    leaf_step: Array  # what the number of leaves falls by then
    node_step: Array  # what the number of nodes falls by then


class _Rest(NamedTuple):
    """What is left of the tree, in level order: arrays (r,)."""

    node: Array  # number in the whole tree
    parent: Array  # position in the rest
    risk: Array
    is_inner: Array
    bounds: tuple[int, ...]


def weakest_links(place: Place, tree: Tree, bounds: Sequence[int], risk: Array) -> Links:
    r"""Find the price at which each node turns into a leaf.

    The weakest link has the least :math:`g(t) = (R(t) - R(T_t)) / (|T_t| - 1)`. Pruning it changes g only
    above it and never lowers it there; so every node whose g is the least of all above and below it is as
    good as the weakest, and all of them are pruned at once. The host waits once per round.

    Parameters
    ----------
    bounds : from `read_bounds`
        The levels.
    risk : float array (t,)
        R, the risk of each node as a leaf.
    """
    xp, dtype = place.xp, accumulator_dtype(place)
    node = xp.arange(tree.n_nodes, dtype=xp.int64, device=place.device)
    parent = xp.astype(tree.parent, xp.int64)
    rest = _Rest(node, parent, xp.astype(risk, dtype), tree.kind != LEAF, tuple(bounds))
    found = []
    while len(rest.bounds) > 2:  # more than the root is left
        steps, least_below = _judge(xp, rest)
        price = steps[:, 0]
        least = least_above(xp, rest.parent, rest.bounds, price, xp.inf)
        is_cut = rest.is_inner & (price <= least_below) & (price <= least)
        marks = -xp.astype(is_cut, dtype)
        is_gone = least_above(xp, rest.parent, rest.bounds, marks, 0.0) < 0
        # of links of one price, one above the other, the upper one takes the lower ones along
        is_cut = is_cut & ~is_gone
        sizes = _read_sizes(xp, rest.bounds, ~is_gone, is_cut)
        found.append([ops.compress(xp, part, is_cut, sizes[-1]) for part in (rest.node, steps)])
        rest = _shrink(xp, rest._replace(is_inner=rest.is_inner & ~is_cut), ~is_gone, sizes[:-1])
    return _collect(xp, found, rest.risk, tree.n_nodes)


def _judge(xp: Namespace, rest: _Rest) -> tuple[Array, Array]:
    """Price, rise of the risk, leaves and nodes less (r, 4); least price strictly below (r,)."""
    parts = []
    below, below_price = None, None
    for level in reversed(range(len(rest.bounds) - 1)):
        span = slice(rest.bounds[level], rest.bounds[level + 1])
        risk, is_inner = rest.risk[span], rest.is_inner[span]
        one, never = xp.ones_like(risk), xp.full_like(risk, xp.inf)
        own, least = xp.stack((risk, one, one), axis=1), never
        if below is not None and below_price is not None:
            grown = sum_children(xp, rest.parent, rest.bounds, level, below)
            own = xp.where(is_inner[:, None], xp.astype(grown, risk.dtype), own)
            own = xp.stack((own[:, 0], own[:, 1], own[:, 2] + xp.where(is_inner, one, 0.0)), axis=1)
            above = rest.parent[span.stop : rest.bounds[level + 2]] - span.start
            least = -ops.segment_max(xp, -below_price, above, risk.shape[0])
        gap = xp.maximum(risk - own[:, 0], xp.zeros_like(risk))
        price = xp.where(is_inner, gap / xp.where(is_inner, own[:, 1] - 1, one), never)
        parts.append((xp.stack((price, gap, own[:, 1] - 1, own[:, 2] - 1), axis=1), least))
        below, below_price = own, xp.minimum(price, least)
    steps, least = (xp.concat(list(reversed(part)), axis=0) for part in zip(*parts, strict=True))
    return steps, least


def _read_sizes(xp: Namespace, bounds: Sequence[int], stays: Array, is_cut: Array) -> list[int]:
    """Nodes that stay on each level, and the number of cuts; the host waits here."""
    sizes = [xp.sum(xp.astype(stays[first:last], xp.int64)) for first, last in pairwise(bounds)]
    return [int(size) for size in to_host(xp.stack([*sizes, xp.sum(xp.astype(is_cut, xp.int64))]))]


def _shrink(xp: Namespace, rest: _Rest, stays: Array, sizes: Sequence[int]) -> _Rest:
    """Leave out the nodes below the cuts."""
    number = xp.cumulative_sum(xp.astype(stays, xp.int64)) - 1
    # the root has no parent: any number will do
    parent = xp.take(number, xp.where(rest.parent < 0, 0, rest.parent), axis=0)
    fields = (rest.node, parent, rest.risk, rest.is_inner)
    node, parent, risk, is_inner = (ops.compress(xp, field, stays, sum(sizes)) for field in fields)
    bounds = [0]
    for size in sizes:
        if size:
            bounds.append(bounds[-1] + size)
    return _Rest(node, parent, risk, is_inner, tuple(bounds))


def _collect(xp: Namespace, found: list[list[Array]], like: Array, n_nodes: int) -> Links:
    """Bring what the rounds found into the order of the nodes."""
    if not found:
        nothing = xp.zeros_like(like)
        return Links(nothing + xp.inf, nothing, nothing, nothing)
    node, steps = (xp.concat(list(parts), axis=0) for parts in zip(*found, strict=True))
    told = xp.concat((steps, xp.ones_like(steps[:, :1])), axis=1)
    by_node = ops.segment_sum(xp, told, node, n_nodes)
    alpha = xp.where(by_node[:, 4] > 0, by_node[:, 0], xp.inf)
    return Links(alpha, by_node[:, 1], by_node[:, 2], by_node[:, 3])
