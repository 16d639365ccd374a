"""Rows sent down a finished tree: the leaf of each, or its shares of several leaves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.arrays.blocks import block_index
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host, to_host
from arraylearn.backend.ops.descent import follow_thresholds
from arraylearn.table import Schema, Table
from arraylearn.tree.nodes import LEAF, NOMINAL, NUMERIC, Tree

__all__ = ["Walker", "find_leaves", "leaf_shares", "make_walker"]


class Walker(NamedTuple):
    """A tree with what the descent of rows looks up, prepared once."""

    tree: Tree
    slot: Array  # (t,) int64: position of the node's column among those of its kind; 0 for a leaf
    cut: Array  # (t,) float: threshold, inf for a leaf
    child: Array  # (t,) int64: first child; of a leaf: itself
    label: Array  # (t,) int64: the most probable class
    n_levels: int  # below the root
    is_numeric: bool  # whether there are thresholds only
    spreads: bool  # whether missing values need more than a default branch


def make_walker(place: Place, tree: Tree, schema: Schema) -> Walker:
    """Prepare a tree that is on the host, and bring it to the place."""
    position = {column: i for i, column in enumerate(schema.numeric_idx)}
    position |= {column: i for i, column in enumerate(schema.nominal_idx)}
    table = np.asarray([position[j] for j in range(schema.n_columns)], dtype=np.int64)
    is_leaf = tree.kind == LEAF
    slot = np.where(is_leaf, 0, table[np.clip(tree.feature, min=0)])
    cut = np.where(tree.kind == NUMERIC, tree.threshold, np.inf)
    child = np.where(is_leaf, np.arange(tree.n_nodes), np.astype(tree.first_child, np.int64))
    label = np.astype(np.argmax(tree.probability, axis=1), np.int64)
    spreads = tree.surrogates is not None or bool(np.any(tree.default_branch < 0))
    surrogates = tree.surrogates
    if surrogates is not None:
        at_kind = table[np.clip(surrogates.feature, min=0)]
        surrogates = surrogates._replace(feature=np.where(surrogates.feature < 0, -1, at_kind))
        surrogates = type(surrogates)(*(from_host(part, place) for part in surrogates))
    arrays = {name: from_host(getattr(tree, name), place) for name in Tree._fields[:-1]}
    return Walker(
        Tree(**arrays, surrogates=surrogates),
        from_host(slot, place),
        from_host(cut, place),
        from_host(child, place),
        from_host(label, place),
        int(tree.depth[-1]),
        not bool(np.any(tree.kind == NOMINAL)),
        spreads,
    )


def find_leaves(place: Place, walker: Walker, table: Table, has_missing: bool) -> Array:
    """Return the leaf (n,) of each row; missing values take the default branch, or the first."""
    xp = place.xp
    default = xp.maximum(walker.tree.default_branch, 0) if has_missing else None
    if walker.is_numeric:
        return follow_thresholds(
            xp, table.numeric, walker.slot, walker.cut, walker.child, walker.n_levels, default
        )
    node = xp.zeros(table.n_rows, dtype=xp.int64, device=place.device)
    for _ in range(walker.n_levels):
        branch, is_missing = branch_of(place, walker, table, node)
        if default is not None:
            branch = xp.where(is_missing, xp.astype(xp.take(default, node, axis=0), xp.int64), branch)
        node = xp.take(walker.child, node, axis=0) + branch
    return node


def branch_of(
    place: Place, walker: Walker, table: Table, node: Array, rows: Array | None = None
) -> tuple[Array, Array]:
    """Return the branch (m,) by value, 0 where that is missing or for a leaf, and whether it is missing."""
    xp, tree = place.xp, walker.tree
    return _branch_by(
        place,
        table,
        rows if rows is not None else xp.arange(table.n_rows, dtype=xp.int64, device=place.device),
        xp.take(walker.slot, node, axis=0),
        xp.take(tree.kind, node, axis=0),
        xp.take(walker.cut, node, axis=0),
        xp.take(tree.map_start, node, axis=0),
        tree.category_branch,
    )


def _branch_by(
    place: Place,
    table: Table,
    rows: Array,
    slot: Array,
    kind: Array,
    cut: Array,
    map_start: Array,
    category_branch: Array,
) -> tuple[Array, Array]:
    xp = place.xp
    branch = xp.zeros(rows.shape, dtype=xp.int64, device=place.device)
    is_missing = xp.zeros(rows.shape, dtype=xp.bool, device=place.device)
    d = table.numeric.shape[1]
    if d:
        at = rows * d + xp.minimum(slot, d - 1)
        value = xp.take(xp.reshape(table.numeric, (-1,)), at, axis=0)
        is_numeric = kind == NUMERIC
        branch = xp.where(is_numeric & (value > cut), 1, branch)
        is_missing = is_numeric & xp.isnan(value)
    d = table.codes.shape[0]
    if d and category_branch.shape[0]:
        at = xp.minimum(slot, d - 1) * table.codes.shape[1] + rows
        code = xp.take(xp.reshape(table.codes, (-1,)), at, axis=0)
        is_nominal = kind == NOMINAL
        entry = xp.where(is_nominal, xp.astype(map_start, xp.int64) + xp.maximum(code, 0), 0)
        found = xp.astype(xp.take(category_branch, entry, axis=0), xp.int64)
        branch = xp.where(is_nominal, found, branch)
        is_missing = is_missing | (is_nominal & (code < 0))
    return xp.where(is_missing, 0, branch), is_missing


def has_missing(place: Place, table: Table) -> Array:
    """Whether any value is missing, as a 0-d bool array."""
    xp = place.xp
    found = xp.zeros((), dtype=xp.bool, device=place.device)
    if table.n_rows and table.numeric.shape[1]:
        found = xp.isnan(xp.max(table.numeric))  # NaN if any of them is
    return found | xp.any(table.codes < 0)


def find_missing(place: Place, table: Table) -> Array:
    """Mask (n,) of the rows with a missing value."""
    xp = place.xp
    return xp.any(xp.isnan(table.numeric), axis=1) | xp.any(table.codes < 0, axis=0)


def leaf_shares(place: Place, walker: Walker, table: Table, rows: Any) -> tuple[Any, Array, Array]:
    """Send rows with missing values down by shares or surrogates; one sync per level.

    Parameters
    ----------
    rows : int64 array (r,)
        Rows of the table, on the host.

    Returns
    -------
    row, node, share : arrays (e,)
        Leaves reached: position in `rows` (host), leaf and share; the shares of a row sum to 1.
    """
    xp, dtype = place.xp, accumulator_dtype(place)
    tree = walker.tree
    entry = np.arange(rows.shape[0])
    node = xp.zeros(rows.shape[0], dtype=xp.int64, device=place.device)
    share = xp.ones(rows.shape[0], dtype=dtype, device=place.device)
    rows_on = from_host(rows, place)
    weight = xp.sum(tree.counts, axis=1)
    for _ in range(walker.n_levels):
        here = xp.take(rows_on, from_host(entry, place), axis=0)
        branch, is_missing = branch_of(place, walker, table, node, here)
        if tree.surrogates is not None:
            branch, is_missing = _apply_surrogates(place, walker, table, node, here, branch, is_missing)
        default = xp.astype(xp.take(tree.default_branch, node, axis=0), xp.int64)
        branch = xp.where(is_missing, xp.maximum(default, 0), branch)
        n_branches = xp.astype(xp.take(tree.n_branches, node, axis=0), xp.int64)
        copies = xp.where(is_missing & (default < 0), n_branches, 1)
        copies_host = to_host(copies)
        total = int(copies_host.sum())
        origin = block_index(xp, copies, total)
        first = xp.cumulative_sum(copies) - copies
        copy = xp.arange(total, dtype=xp.int64, device=place.device) - xp.take(first, origin, axis=0)
        is_copied = xp.take(copies, origin, axis=0) > 1
        parent = xp.take(node, origin, axis=0)
        node = xp.take(walker.child, parent, axis=0) + xp.where(
            is_copied, copy, xp.take(branch, origin, axis=0)
        )
        part = xp.take(weight, node, axis=0) / _known_weight(place, walker, weight, parent)
        share = xp.take(share, origin, axis=0) * xp.where(is_copied, part, 1.0)
        entry = np.repeat(entry, copies_host)
    return entry, node, share


def _known_weight(place: Place, walker: Walker, weight: Array, parent: Array) -> Array:
    """Weight of the children of each node: that of the node itself, as every row went down."""
    total = place.xp.take(weight, parent, axis=0)
    return place.xp.where(total > 0, total, 1.0)


def _apply_surrogates(
    place: Place, walker: Walker, table: Table, node: Array, rows: Array, branch: Array, is_missing: Array
) -> tuple[Array, Array]:
    """Take the branch of the best surrogate whose value is known."""
    xp, tree = place.xp, walker.tree
    surrogates = tree.surrogates
    assert surrogates is not None
    for rank in range(surrogates.feature.shape[1]):
        column = xp.take(surrogates.feature[:, rank], node, axis=0)
        found, is_unknown = _branch_by(
            place,
            table,
            rows,
            xp.astype(xp.maximum(column, 0), xp.int64),
            xp.take(surrogates.kind[:, rank], node, axis=0),
            xp.take(surrogates.threshold[:, rank], node, axis=0),
            xp.take(surrogates.map_start[:, rank], node, axis=0),
            tree.category_branch,
        )
        low = xp.astype(xp.take(surrogates.low_branch[:, rank], node, axis=0), xp.int64)
        is_number = xp.take(surrogates.kind[:, rank], node, axis=0) == NUMERIC
        found = xp.where(is_number & (low > 0), 1 - found, found)
        helps = is_missing & (column >= 0) & ~is_unknown
        branch = xp.where(helps, found, branch)
        is_missing = is_missing & ~helps
    return branch, is_missing
