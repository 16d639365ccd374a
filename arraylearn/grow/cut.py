"""Cutting: a new tree in which some nodes are leaves and the nodes below them are dropped."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import HOST, locate
from arraylearn.grow.trees import LEAF, Surrogates, Trees, tree_at, tree_on_host

__all__ = ["collapse", "count_errors", "cut_at", "subtree_sums"]


def cut_at(tree: Trees, becomes_leaf: Any) -> Trees:
    """Turn nodes into leaves.

    Parameters
    ----------
    tree : Trees
        Any tree; it stays as it is.
    becomes_leaf : bool array (t,)
        Which nodes; those below one of them are dropped in any case. On the host.

    Returns
    -------
    Trees
        In level order again, at the place of `tree`.
    """
    place = locate(tree.feature)
    old = tree_on_host(tree)
    is_inner, parents = ~old.is_leaf & ~becomes_leaf, old.parent
    is_kept = np.ones(old.n_nodes, dtype=np.bool)
    # parents come first: a node stays if its parent stays and is not a leaf
    for nodes in _levels(old):
        if int(nodes[0]) > 0:
            parent = parents[nodes]
            is_kept[nodes] = is_kept[parent] & is_inner[parent]
    kept = np.nonzero(is_kept)[0]
    number = np.astype(np.cumulative_sum(np.astype(is_kept, np.int64)) - 1, np.int32)
    inner = is_inner[kept]

    def only_inner(values: Any, fill: Any) -> Any:
        return np.where(inner, values[kept], np.asarray(fill, dtype=values.dtype))

    depth = old.depth[kept]
    made = old._replace(
        feature=only_inner(old.feature, LEAF),
        threshold=only_inner(old.threshold, 0.0),
        first_child=np.where(inner, number[np.where(inner, old.first_child[kept], 0)], np.int32(LEAF)),
        depth=depth,
        height=int(depth[-1]),
        gain=only_inner(old.gain, 0.0),
        n_branches=only_inner(old.n_branches, 0),
        default_branch=only_inner(old.default_branch, 0),
        map_start=only_inner(old.map_start, -1),
        surrogates=_cut_surrogates(old.surrogates, kept, inner),
        counts=old.counts[kept],
        probability=old.probability[kept],
        impurity=old.impurity[kept],
    )
    return tree_at(made, place)


def _cut_surrogates(surrogates: Surrogates | None, kept: Any, inner: Any) -> Surrogates | None:
    if surrogates is None:
        return None
    fields = [field[kept] for field in surrogates]
    fields[0] = np.where(inner[:, None], fields[0], np.int32(-1))
    return Surrogates(*fields)


def _levels(tree: Trees) -> list[Any]:
    """Positions of the nodes of each level, the root first."""
    ends = np.searchsorted(tree.depth, np.arange(int(tree.depth[-1]) + 1), side="right")
    starts = np.concat((np.zeros(1, dtype=ends.dtype), ends[:-1]))
    return [np.arange(int(start), int(end)) for start, end in zip(starts, ends, strict=True)]


def subtree_sums(tree: Trees, values: Any) -> Any:
    """Sum host values (t,) over the leaves below each node of a host tree."""
    total, parents = np.where(tree.is_leaf, values, 0.0), tree.parent
    for nodes in reversed(_levels(tree)[1:]):
        parent = parents[nodes]
        # siblings are neighbours: one run per parent
        first = np.concat((np.ones(1, dtype=np.bool), parent[1:] != parent[:-1]))
        starts = np.nonzero(first)[0]
        running = np.concat((np.zeros(1), np.cumulative_sum(total[nodes])))
        ends = np.concat((starts[1:], np.asarray([nodes.shape[0]])))
        total[parent[starts]] = running[ends] - running[starts]
    return total


def count_errors(xp: Namespace, counts: Array) -> Array:
    """Weight (...) of the rows outside the most frequent class, of class weights (..., c)."""
    return xp.sum(counts, axis=-1) - xp.max(counts, axis=-1)


def collapse(tree: Trees, tolerance: float = 1e-3) -> Trees:
    """Cut every subtree that makes no fewer training errors than a leaf in its place, as C4.5 does."""
    old = tree_on_host(tree)
    errors = count_errors(HOST.xp, old.counts)
    return cut_at(tree, ~old.is_leaf & (subtree_sums(old, errors) >= errors - tolerance))
