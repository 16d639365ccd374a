"""Rows down a tree whose splits have moved: where they come by, and with what part of their weight."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.arrays.blocks import block_index
from arraylearn.backend.arrays.order import compress
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host, to_host
from arraylearn.table import Schema, Table
from arraylearn.tree.predict import Walker, branch_of

__all__ = ["Entries", "Sample", "enter", "keep_at", "send_down", "tally"]


class Sample(NamedTuple):
    """Labelled rows."""

    place: Place
    schema: Schema
    table: Table
    codes: Any  # (n,) class of each row, on the host
    weights: Any | None  # (n,) on the host; None: 1 each


class Entries(NamedTuple):
    """Rows, or parts of rows, at nodes: arrays (e,). There are some for every level: they are kept small."""

    row: Array  # int32
    node: Array  # int32
    weight: Array  # float


def enter(sample: Sample) -> Entries:
    """Put the rows of a sample, those without weight left out, at the root."""
    place, xp = sample.place, sample.place.xp
    weight = np.ones(sample.codes.shape[0]) if sample.weights is None else sample.weights
    rows = np.nonzero(weight > 0)[0]
    return Entries(
        from_host(rows, place, xp.int32),
        xp.zeros(rows.shape[0], dtype=xp.int32, device=place.device),
        from_host(weight[rows], place, accumulator_dtype(place)),
    )


def keep_at(place: Place, entries: Entries, nodes: Any, goes_to: Any, n_nodes: int) -> Entries:
    """Keep what is at some nodes (k,), and move it to other ones (k,); the host waits here."""
    xp = place.xp
    target = np.full(n_nodes, -1, dtype=np.int32)
    target[nodes] = goes_to
    node = xp.take(from_host(target, place), entries.node, axis=0)
    stays = node >= 0
    size = int(to_host(xp.sum(xp.astype(stays, xp.int64))))
    moved = entries._replace(node=node)
    return Entries(*(compress(xp, field, stays, size) for field in moved))


def send_down(place: Place, walker: Walker, samples: list[tuple[Table, Entries]]) -> list[list[Entries]]:
    """Send training rows, and rows that follow their shares, one level down after the other.

    Parameters
    ----------
    samples : list of (table, entries)
        The first are the training rows: a row whose value is missing is split up as they are.

    Returns
    -------
    list of list of Entries
        For each sample the entries at each level, the first one as given; those at leaves drop out. The host
        waits once per level and sample.
    """
    arrivals = [[entries] for _, entries in samples]
    while any(parts[-1].row.shape[0] for parts in arrivals):
        known: tuple[Array, Array] | None = None
        for i, (table, _) in enumerate(samples):
            made, known = _step(place, walker, table, arrivals[i][-1], known)
            arrivals[i].append(made)
    return arrivals


def _step(
    place: Place, walker: Walker, table: Table, entries: Entries, known: tuple[Array, Array] | None
) -> tuple[Entries, tuple[Array, Array]]:
    """Go one level down; also return the known weight by child and by node, found unless given."""
    xp, tree = place.xp, walker.tree
    here, rows = xp.astype(entries.node, xp.int64), xp.astype(entries.row, xp.int64)
    branch, is_missing = branch_of(place, walker, table, here, rows)
    default = xp.astype(xp.take(tree.default_branch, here, axis=0), xp.int64)
    spreads = is_missing & (default < 0)
    branch = xp.where(is_missing & ~spreads, default, branch)
    first = xp.take(walker.child, here, axis=0)
    n_branches = xp.astype(xp.take(tree.n_branches, here, axis=0), xp.int64)
    if known is None:
        weight = xp.where(spreads, 0.0, entries.weight)
        t = walker.slot.shape[0]
        by_child = histogram(xp, xp.where(spreads, first, first + branch), t, weight)
        known = by_child, histogram(xp, here, t, weight)
    copies = xp.where(n_branches > 0, xp.where(spreads, n_branches, 1), 0)
    total = int(to_host(xp.sum(copies)))
    origin = block_index(xp, copies, total)
    start = xp.take(xp.cumulative_sum(copies) - copies, origin, axis=0)
    copy = xp.arange(total, dtype=xp.int64, device=place.device) - start
    row, node, weight = (xp.take(field, origin, axis=0) for field in entries)
    is_copy = xp.take(spreads, origin, axis=0)
    child = xp.take(first, origin, axis=0) + xp.where(is_copy, copy, xp.take(branch, origin, axis=0))
    whole = xp.take(known[1], node, axis=0)
    # where no value is known all branches get the same
    even = 1 / xp.astype(xp.take(n_branches, origin, axis=0), weight.dtype)
    share = xp.take(known[0], child, axis=0) / xp.where(whole > 0, whole, 1.0)
    weight = weight * xp.where(is_copy, xp.where(whole > 0, share, even), 1.0)
    return Entries(row, xp.astype(child, xp.int32), weight), known


def tally(place: Place, arrivals: list[Entries], labels: Array, n_nodes: int, n_classes: int) -> Any:
    """Weigh the classes (t, c) at each node, `labels` (n,) being those of the rows; the host waits here."""
    xp = place.xp
    keys = [
        xp.astype(entries.node, xp.int64) * n_classes + xp.take(labels, entries.row, axis=0)
        for entries in arrivals
    ]
    weight = xp.concat([entries.weight for entries in arrivals])
    counts = to_host(histogram(xp, xp.concat(keys), n_nodes * n_classes, weight))
    return np.astype(np.reshape(counts, (n_nodes, n_classes)), np.float64)
