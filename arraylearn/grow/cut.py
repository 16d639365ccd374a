"""Cutting: a new tree in which some nodes are leaves and the nodes below them are dropped."""

from __future__ import annotations

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST, locate
from arraylearn.grow.trees import (
    LEAF,
    NO_MAP,
    NO_SURROGATE,
    Surrogates,
    Trees,
    best_first,
    tree_at,
    tree_on_host,
)

__all__ = ["collapse", "count_errors", "cut_at", "cut_weak", "levels_of", "sum_leaves_below"]

# Rounding error allowed in a decrease of the impurity, as a share of all weight.
_SLACK = 1e-12


def cut_at(tree: Trees, becomes_leaf: HostArray) -> Trees:
    """Turn nodes into leaves.

    Parameters
    ----------
    tree : Trees
        Any trees; they stay as they are.
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
    for nodes in levels_of(old)[1:]:
        parent = parents[nodes]
        is_kept[nodes] = is_kept[parent] & is_inner[parent]
    kept = np.nonzero(is_kept)[0]
    number = np.astype(np.cumulative_sum(np.astype(is_kept, np.int64)) - 1, np.int32)
    inner = is_inner[kept]

    def kept_of(name: str) -> HostArray | None:
        values = getattr(old, name)
        return None if values is None else values[kept]

    def only_inner(name: str, fill: float) -> HostArray | None:
        values = kept_of(name)
        return None if values is None else np.where(inner, values, np.asarray(fill, dtype=values.dtype))

    depth = old.depth[kept]
    made = old._replace(
        roots=np.astype(number[old.roots], old.roots.dtype),
        feature=only_inner("feature", LEAF),
        threshold=only_inner("threshold", 0.0),
        first_child=np.where(inner, number[np.where(inner, old.first_child[kept], 0)], np.int32(LEAF)),
        depth=depth,
        height=int(np.max(depth)),
        gain=only_inner("gain", 0.0),
        n_branches=only_inner("n_branches", 0),
        default_branch=only_inner("default_branch", 0),
        map_start=only_inner("map_start", NO_MAP),
        surrogates=_cut_surrogates(old.surrogates, kept, inner),
        **{name: kept_of(name) for name in ("counts", "probability", "impurity", "sums", "bounds")},
    )
    return tree_at(made, place)


def _cut_surrogates(surrogates: Surrogates | None, kept: HostArray, inner: HostArray) -> Surrogates | None:
    if surrogates is None:
        return None
    fields = [field[kept] for field in surrogates]
    fields[0] = np.where(inner[:, None], fields[0], np.int32(NO_SURROGATE))
    return Surrogates(*fields)


def levels_of(tree: Trees) -> list[HostArray]:
    """Return the positions of the nodes of each level of host trees, the roots first."""
    n_nodes = np.cumulative_sum(histogram(HOST.xp, tree.depth, int(np.max(tree.depth)) + 1))
    return np.split(np.argsort(tree.depth, stable=True), n_nodes[:-1].tolist())


def sum_leaves_below(tree: Trees, values: HostArray) -> HostArray:
    """Sum values (t, ...) over the leaves below each node of a host tree."""
    total, parents = np.where(tree.is_leaf, values.T, 0.0).T, tree.parent
    for nodes in reversed(levels_of(tree)[1:]):
        np.add.at(total, parents[nodes], total[nodes])
    return total


def count_errors(counts: HostArray) -> HostArray:
    """Weigh the rows (...) outside the most frequent class, given host class weights (..., c)."""
    errors: HostArray = np.sum(counts, axis=-1) - np.max(counts, axis=-1)
    return errors


def collapse(tree: Trees, tolerance: float = 1e-3) -> Trees:
    """Cut every subtree that makes no fewer training errors than a leaf in its place, as C4.5 does."""
    old = tree_on_host(tree)
    errors = count_errors(old.counts)
    return cut_at(tree, ~old.is_leaf & (sum_leaves_below(old, errors) >= errors - tolerance))


def cut_weak(
    tree: Trees, decrease: HostArray, weight: HostArray, least: float, max_leaf_nodes: int | None
) -> Trees:
    """Cut the splits that decrease the impurity too little, and keep the best of the others.

    Parameters
    ----------
    tree : Trees
        Grown trees; they stay as they are.
    decrease : float array (m,)
        Of each split, times the weight of its node; on the host.
    weight : float array (t,)
        Of all rows of each tree.
    least : float
        The least decrease of a split, as a share of the weight.
    max_leaf_nodes : int, optional
        Leaves of a tree; the largest decrease goes first.
    """
    old = tree_on_host(tree)
    ends = np.asarray([*old.roots.tolist()[1:], old.n_nodes])
    needed = np.repeat((least - _SLACK) * weight, ends - old.roots)
    is_cut = ~old.is_leaf & (decrease < needed)
    if max_leaf_nodes is not None:
        gain = np.where(old.is_leaf | is_cut, -np.inf, decrease)
        is_cut = ~old.is_leaf
        for start, end in zip(old.roots.tolist(), ends.tolist(), strict=True):
            n_branches = None if old.n_branches is None else old.n_branches[start:end]
            child = old.first_child[start:end] - start
            chosen = best_first(gain[start:end], child, max_leaf_nodes, n_branches)
            is_cut[[start + node for node in chosen]] = False
    return cut_at(tree, is_cut) if bool(np.any(is_cut)) else tree
