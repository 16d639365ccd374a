"""A finished tree in the forms that prediction uses."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.namespace import HOST, Place, from_host
from arraylearn.grow.trees import ALL_BRANCHES, LEAF, NO_MAP, NOTHING, NUMERIC, Trees
from arraylearn.table import Schema, Table
from arraylearn.walk.leaves import find_leaves
from arraylearn.walk.packed import PackedTrees, pack_trees, packed_at
from arraylearn.walk.spread import BranchingTree, Questions, follow_branches, spread_rows

__all__ = ["Walker", "leaves_of", "make_branching", "make_walker", "shares_of"]


class Walker(NamedTuple):
    """A tree prepared for prediction, with the tables looked up at its leaves."""

    packed: PackedTrees | None  # None where a split is nominal
    branching: Callable[[], BranchingTree]  # makes it once: for nominal splits, and rows that spread
    label: Array  # (t,) int64: the most probable class
    probability: Array  # (t, c) float
    spreads: bool  # whether a row without a value may take several branches, or a surrogate's


def make_walker(place: Place, tree: Trees, schema: Schema) -> Walker:
    """Prepare a tree that is on the host, and bring it to the place."""
    spreads = tree.surrogates is not None or bool(np.any(tree.default_branch == ALL_BRANCHES))
    is_numeric = not bool(np.any(tree.map_start != NO_MAP))
    return Walker(
        _pack(place, tree, schema) if is_numeric else None,
        cache(partial(make_branching, place, tree, schema)),
        from_host(np.astype(np.argmax(tree.probability, axis=1), np.int64), place),
        from_host(tree.probability, place),
        spreads,
    )


def leaves_of(place: Place, walker: Walker, table: Table) -> Array:
    """Return the leaf (n,) of each row; missing values take the default branch, or the first; no sync."""
    if walker.packed is not None:
        return find_leaves(place.xp, table.numeric, walker.packed)[0, :]
    return follow_branches(place.xp, walker.branching(), table)


def shares_of(place: Place, walker: Walker, table: Table, rows: HostArray) -> tuple[HostArray, Array, Array]:
    """Send rows (on the host) with missing values down a tree that spreads: see `spread_rows`."""
    return spread_rows(place, walker.branching(), table, rows)


def _positions(schema: Schema) -> HostArray:
    """Return the position (d,) of each column of the table among those of its kind."""
    position = np.zeros(schema.n_columns, dtype=np.int64)
    for columns in (schema.numeric_idx, schema.nominal_idx):
        position[list(columns)] = np.arange(len(columns))
    return position


def _first_children(tree: Trees) -> HostArray:
    return np.where(tree.is_leaf, np.arange(tree.n_nodes), np.astype(tree.first_child, np.int64))


def _pack(place: Place, tree: Trees, schema: Schema) -> PackedTrees:
    among_numeric = tree._replace(
        feature=_positions(schema)[np.clip(tree.feature, min=0)],
        default_branch=tree.default_branch if bool(np.any(tree.default_branch > 0)) else None,
    )
    return packed_at(place, pack_trees(HOST.xp, among_numeric, len(schema.numeric_idx)))


def make_branching(place: Place, tree: Trees, schema: Schema) -> BranchingTree:
    """Prepare a tree that is on the host for rows that spread, and bring it to the place."""
    position = _positions(schema)

    def questions(kind: Array, feature: Array, cut: Array, map_start: Array) -> Questions:
        asks = np.where(feature == LEAF, NOTHING, kind), position[np.clip(feature, min=0)], cut, map_start
        return Questions(*(from_host(part, place) for part in asks))

    assert tree.height is not None
    surrogates = []
    if tree.surrogates is not None:
        found = tree.surrogates
        for rank in range(found.feature.shape[1]):
            kind, low_branch = found.kind[:, rank], found.low_branch[:, rank]
            asks = questions(kind, found.feature[:, rank], found.threshold[:, rank], found.map_start[:, rank])
            surrogates.append((asks, from_host((kind == NUMERIC) & (low_branch > 0), place)))
    return BranchingTree(
        questions(tree.kind, tree.feature, tree.threshold, tree.map_start),
        from_host(tree.category_branch, place),
        from_host(_first_children(tree), place),
        from_host(tree.n_branches, place),
        from_host(tree.default_branch, place),
        from_host(np.sum(tree.counts, axis=1), place),
        tuple(surrogates),
        tree.height,
    )
