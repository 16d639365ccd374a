"""Prediction by a tree with any number of branches, where rows with missing values may take several of them.

A row whose value is missing takes the default branch of the node, or the branch of a surrogate split whose
value is known, or goes down all branches with a share of its weight::

    node 0        splits on a feature that is missing in row r; 3 branches with the weights 2, 1, 1
    node 1 2 3    r arrives at each of them, with the shares 1/2, 1/4, 1/4
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host, to_host
from arraylearn.grow.rows import number_copies
from arraylearn.grow.trees import ALL_BRANCHES, NOMINAL, NOTHING, NUMERIC
from arraylearn.table import MISSING_CODE, Table

__all__ = [
    "BranchingTree",
    "Questions",
    "copy_rows",
    "find_missing",
    "follow_branches",
    "has_missing",
    "route",
    "spread_rows",
]


class Questions(NamedTuple):
    """The split of each node: arrays (t,)."""

    kind: Array  # integer, as `Trees.kind`: NOTHING, NUMERIC (a cut) or NOMINAL (a branch per category)
    feature: Array  # int64: position among the features of that kind; 0 at a leaf
    cut: Array  # float: larger values take branch 1, others branch 0
    map_start: Array  # integer: where the branches of the categories begin in `category_branch`


class BranchingTree(NamedTuple):
    """A tree of t nodes with any number of branches; the children of a node stand side by side."""

    asks: Questions
    category_branch: Array  # (v,) int32: branch of each category, one run per nominal split
    child: Array  # (t,) int64: first child; of a leaf: itself
    n_branches: Array  # (t,) int32: 0 for a leaf
    default_branch: Array  # (t,) int32: branch of a missing value, or ALL_BRANCHES
    weight: Array  # (t,) float: of the training rows
    surrogates: tuple[
        tuple[Questions, Array], ...
    ]  # best first, each with whether it flips its branches (t,)
    height: int  # the depth of the deepest leaf


def follow_branches(xp: Namespace, tree: BranchingTree, table: Table) -> Array:
    """Return the leaf (n,) of each row; missing values take the default branch, or the first; no sync."""
    rows = xp.arange(table.n_rows, dtype=xp.int64, device=tree.child.device)
    node = xp.zeros_like(rows)
    default = xp.astype(xp.maximum(tree.default_branch, 0), xp.int64)
    for _ in range(tree.height):
        branch, is_missing = _answer(xp, tree.asks, tree.category_branch, table, node, rows)
        branch = xp.where(is_missing, xp.take(default, node, axis=0), branch)
        node = xp.take(tree.child, node, axis=0) + branch
    return node


def spread_rows(
    place: Place, tree: BranchingTree, table: Table, rows: HostArray
) -> tuple[HostArray, Array, Array]:
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
    xp = place.xp
    entry, rows_on = np.arange(rows.shape[0]), from_host(rows, place)
    node = xp.zeros(rows.shape[0], dtype=xp.int64, device=place.device)
    share = xp.ones(rows.shape[0], dtype=accumulator_dtype(place), device=place.device)
    for _ in range(tree.height):
        here = xp.take(rows_on, from_host(entry, place), axis=0)
        target, spreads = route(xp, tree, table, node, here)
        n_branches = xp.astype(xp.take(tree.n_branches, node, axis=0), xp.int64)
        copies = xp.where(spreads, n_branches, 1)
        copies_host = to_host(copies)
        origin, child = copy_rows(xp, target, copies, int(copies_host.sum()))
        total = xp.take(tree.weight, xp.take(node, origin, axis=0), axis=0)
        part = xp.take(tree.weight, child, axis=0) / xp.where(total > 0, total, 1.0)
        share = xp.take(share, origin, axis=0) * xp.where(xp.take(spreads, origin, axis=0), part, 1.0)
        entry, node = np.repeat(entry, copies_host), child
    return entry, node, share


def route(xp: Namespace, tree: BranchingTree, table: Table, node: Array, rows: Array) -> tuple[Array, Array]:
    """Return the child (m,) to which each row goes, and whether it also goes to all children after that."""
    branch, is_missing = _answer(xp, tree.asks, tree.category_branch, table, node, rows)
    for asks, flips in tree.surrogates:
        found, is_unknown = _answer(xp, asks, tree.category_branch, table, node, rows)
        found = xp.where(xp.take(flips, node, axis=0), 1 - found, found)
        helps = is_missing & (xp.take(asks.kind, node, axis=0) != NOTHING) & ~is_unknown
        branch = xp.where(helps, found, branch)
        is_missing = is_missing & ~helps
    default = xp.astype(xp.take(tree.default_branch, node, axis=0), xp.int64)
    branch = xp.where(is_missing, xp.maximum(default, 0), branch)
    return xp.take(tree.child, node, axis=0) + branch, is_missing & (default == ALL_BRANCHES)


def copy_rows(xp: Namespace, target: Array, copies: Array, total: int) -> tuple[Array, Array]:
    """Copy rows `copies` times, `total` in all; return the origin of each copy and its node, side by side."""
    origin, copy = number_copies(xp, copies, total)
    return origin, xp.take(target, origin, axis=0) + copy


def _answer(
    xp: Namespace, asks: Questions, category_branch: Array, table: Table, node: Array, rows: Array
) -> tuple[Array, Array]:
    """Return the branch (m,) by value, 0 where that is missing or for a leaf, and whether it is missing."""
    kind, feature, cut, map_start = (xp.take(field, node, axis=0) for field in asks)
    branch, is_missing = xp.zeros_like(rows), kind < NOTHING
    d = table.numeric.shape[1]
    if d:
        at = rows * d + xp.minimum(feature, d - 1)
        value = xp.take(xp.reshape(table.numeric, (-1,)), at, axis=0)
        is_numeric = kind == NUMERIC
        branch = xp.where(is_numeric & (value > cut), 1, branch)
        is_missing = is_numeric & xp.isnan(value)
    d = table.codes.shape[0]
    if d and category_branch.shape[0]:
        at = xp.minimum(feature, d - 1) * table.codes.shape[1] + rows
        code = xp.take(xp.reshape(table.codes, (-1,)), at, axis=0)
        is_nominal = kind == NOMINAL
        place = xp.where(is_nominal, xp.astype(map_start, xp.int64) + xp.maximum(code, 0), 0)
        found = xp.astype(xp.take(category_branch, place, axis=0), xp.int64)
        branch = xp.where(is_nominal, found, branch)
        is_missing = is_missing | (is_nominal & (code == MISSING_CODE))
    return xp.where(is_missing, 0, branch), is_missing


def has_missing(xp: Namespace, table: Table) -> Array:
    """Whether any value is missing, as a 0-d bool array."""
    found = xp.any(table.codes == MISSING_CODE)
    if table.n_rows and table.numeric.shape[1]:
        found = found | xp.isnan(xp.max(table.numeric))  # NaN if any of them is
    return found


def find_missing(xp: Namespace, table: Table) -> Array:
    """Mask (n,) of the rows with a missing value."""
    return xp.any(xp.isnan(table.numeric), axis=1) | xp.any(table.codes == MISSING_CODE, axis=0)
