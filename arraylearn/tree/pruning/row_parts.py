"""Parts of rows at the nodes of a tree that is being pruned: missing values divide a row over branches.

A row whose value is missing is divided over the branches in proportion to the known training rows there::

    node 0: rows a b c?          c? has no value for the split, weight 1
    branch 1: a, c (1/2)         branch 2: b, c (1/2)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.arrays.order import compress
from arraylearn.backend.arrays.segments import LEFT_OUT, histogram
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host, to_host
from arraylearn.table import Table
from arraylearn.tree.pruning.held_out import Sample
from arraylearn.walk.spread import BranchingTree, copy_rows, route

__all__ = ["RowParts", "keep_at", "send_down", "start_at_root", "tally"]


class RowParts(NamedTuple):
    """Rows, or parts of rows, at nodes: arrays (e,) of small dtypes, since all levels are kept."""

    row: Array  # int32
    node: Array  # int32
    weight: Array  # float: of the part


def start_at_root(sample: Sample) -> RowParts:
    """Put the rows of a sample at the root; rows of weight 0 are left out."""
    place, xp = sample.place, sample.place.xp
    weight = np.ones(sample.codes.shape[0]) if sample.weights is None else sample.weights
    rows = np.nonzero(weight > 0)[0]
    return RowParts(
        from_host(rows, place, xp.int32),
        xp.zeros(rows.shape[0], dtype=xp.int32, device=place.device),
        from_host(weight[rows], place, accumulator_dtype(place)),
    )


def keep_at(place: Place, parts: RowParts, nodes: HostArray, goes_to: HostArray, n_nodes: int) -> RowParts:
    """Keep the parts at some nodes (k,), and move them to other nodes (k,); one sync."""
    xp = place.xp
    target = np.full(n_nodes, LEFT_OUT, dtype=np.int32)
    target[nodes] = goes_to
    node = xp.take(from_host(target, place), parts.node, axis=0)
    stays = node != LEFT_OUT
    size = int(to_host(xp.sum(xp.astype(stays, xp.int64))))
    moved = parts._replace(node=node)
    return RowParts(*(compress(xp, field, stays, size) for field in moved))


def send_down(
    place: Place, tree: BranchingTree, samples: list[tuple[Table, RowParts]]
) -> list[list[RowParts]]:
    """Send training rows down level by level, and other rows in the proportions that these set.

    Parameters
    ----------
    samples : list of (table, parts)
        The first are the training rows, whose known values determine the shares of the branches.

    Returns
    -------
    list of list of RowParts
        For each sample the parts at each level, the first ones as given; those at leaves do not go on. One
        sync per level and sample.
    """
    arrivals = [[parts] for _, parts in samples]
    while any(levels[-1].row.shape[0] for levels in arrivals):
        known: tuple[Array, Array] | None = None
        for i, (table, _) in enumerate(samples):
            made, known = _step(place, tree, table, arrivals[i][-1], known)
            arrivals[i].append(made)
    return arrivals


def _step(
    place: Place, tree: BranchingTree, table: Table, parts: RowParts, known: tuple[Array, Array] | None
) -> tuple[RowParts, tuple[Array, Array]]:
    """Go one level down; also return the known weight by child and by node, computed if None."""
    xp = place.xp
    here, rows = xp.astype(parts.node, xp.int64), xp.astype(parts.row, xp.int64)
    target, spreads = route(xp, tree, table, here, rows)
    n_branches = xp.astype(xp.take(tree.n_branches, here, axis=0), xp.int64)
    if known is None:
        weight = xp.where(spreads, 0.0, parts.weight)
        t = tree.child.shape[0]
        by_child = histogram(xp, target, t, weight)
        known = by_child, histogram(xp, here, t, weight)
    copies = xp.where(n_branches > 0, xp.where(spreads, n_branches, 1), 0)
    origin, child = copy_rows(xp, target, copies, int(to_host(xp.sum(copies))))
    row, node, weight = (xp.take(field, origin, axis=0) for field in parts)
    is_copy = xp.take(spreads, origin, axis=0)
    at_node = xp.take(known[1], node, axis=0)
    # where no value is known, all branches get equal shares
    even = 1 / xp.astype(xp.take(n_branches, origin, axis=0), weight.dtype)
    share = xp.take(known[0], child, axis=0) / xp.where(at_node > 0, at_node, 1.0)
    weight = weight * xp.where(is_copy, xp.where(at_node > 0, share, even), 1.0)
    return RowParts(row, xp.astype(child, xp.int32), weight), known


def tally(place: Place, arrivals: list[RowParts], labels: Array, n_nodes: int, n_classes: int) -> HostArray:
    """Weigh the classes (t, c) at each node, `labels` (n,) being those of the rows; one sync."""
    xp = place.xp
    keys = [
        xp.astype(parts.node, xp.int64) * n_classes + xp.take(labels, parts.row, axis=0) for parts in arrivals
    ]
    weight = xp.concat([parts.weight for parts in arrivals])
    counts = to_host(histogram(xp, xp.concat(keys), n_nodes * n_classes, weight))
    return np.astype(np.reshape(counts, (n_nodes, n_classes)), np.float64)
