"""Parts of rows at the nodes of a tree that is being pruned: missing values divide a row over branches.

A row whose value is missing is divided over the branches in proportion to the known training rows there::

    node 0: rows a b c?          c? has no value for the split, weight 1
    branch 1: a, c (1/2)         branch 2: b, c (1/2)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.arrays.segments import LEFT_OUT, histogram
from arraylearn.backend.namespace import HOST
from arraylearn.table import Table
from arraylearn.tree.pruning.held_out import Sample
from arraylearn.walk.spread import BranchingTree, copy_rows, route

__all__ = ["RowParts", "keep_at", "send_down", "start_at_root", "tally"]


class RowParts(NamedTuple):
    """Rows, or parts of rows, at nodes: arrays (e,) of small dtypes, since all levels are kept."""

    row: HostArray  # int32
    node: HostArray  # int32
    weight: HostArray  # float64: of the part


def start_at_root(sample: Sample) -> RowParts:
    """Put the rows of a sample at the root; rows of weight 0 are left out."""
    weight = np.ones(sample.codes.shape[0]) if sample.weights is None else sample.weights
    rows = np.nonzero(weight > 0)[0]
    at_root = np.zeros(rows.shape[0], dtype=np.int32)
    return RowParts(np.astype(rows, np.int32), at_root, np.astype(weight[rows], np.float64))


def keep_at(parts: RowParts, nodes: HostArray, goes_to: HostArray, n_nodes: int) -> RowParts:
    """Keep the parts at some nodes (k,), and move them to other nodes (k,)."""
    target = np.full(n_nodes, LEFT_OUT, dtype=np.int32)
    target[nodes] = goes_to
    node = target[parts.node]
    stays = node != LEFT_OUT
    return RowParts(*(field.compress(stays) for field in parts._replace(node=node)))


def send_down(tree: BranchingTree, samples: list[tuple[Table, RowParts]]) -> list[list[RowParts]]:
    """Send training rows down level by level, and other rows in the proportions that these set.

    Parameters
    ----------
    samples : list of (table, parts)
        The first are the training rows, whose known values determine the shares of the branches.

    Returns
    -------
    list of list of RowParts
        For each sample the parts at each level, the first ones as given; those at leaves do not go on.
    """
    arrivals = [[parts] for _, parts in samples]
    while any(levels[-1].row.shape[0] for levels in arrivals):
        known: tuple[HostArray, HostArray] | None = None
        for i, (table, _) in enumerate(samples):
            made, known = _step(tree, table, arrivals[i][-1], known)
            arrivals[i].append(made)
    return arrivals


def _step(
    tree: BranchingTree, table: Table, parts: RowParts, known: tuple[HostArray, HostArray] | None
) -> tuple[RowParts, tuple[HostArray, HostArray]]:
    """Go one level down; also return the known weight by child and by node, computed if None."""
    here, rows = (np.astype(field, np.int64) for field in (parts.node, parts.row))
    target, spreads = route(HOST.xp, tree, table, here, rows)
    n_branches = np.astype(tree.n_branches[here], np.int64)
    if known is None:
        weight = np.where(spreads, 0.0, parts.weight)
        by_child, by_node = (histogram(HOST.xp, at, tree.child.shape[0], weight) for at in (target, here))
        known = by_child, by_node
    copies = np.where(n_branches > 0, np.where(spreads, n_branches, 1), 0)
    origin, child = copy_rows(HOST.xp, target, copies, int(np.sum(copies)))
    row, node, weight = (field[origin] for field in parts)
    at_node = known[1][node]
    # where no value is known, all branches get equal shares
    even, share = 1 / n_branches[origin], known[0][child] / np.where(at_node > 0, at_node, 1.0)
    share = np.where(at_node > 0, share, even)
    weight = weight * np.where(spreads[origin], share, 1.0)
    return RowParts(row, np.astype(child, np.int32), weight), known


def tally(arrivals: list[RowParts], labels: HostArray, n_nodes: int, n_classes: int) -> HostArray:
    """Weigh the classes (t, c) at each node, `labels` (n,) being those of the rows."""
    keys = [np.astype(parts.node, np.int64) * n_classes + labels[parts.row] for parts in arrivals]
    weight = np.concat([parts.weight for parts in arrivals])
    counts: HostArray = histogram(HOST.xp, np.concat(keys), n_nodes * n_classes, weight)
    return counts.reshape(n_nodes, n_classes)
