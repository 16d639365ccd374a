"""Where boosted trees grow: the arrays that all threads of a team work on, and the meaning of their lines.

The names of lines are tuples, not enumerations, with which Numba before 0.68 does not index.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arraylearn.backend.cpu.jit import Host

__all__ = [
    "AT",
    "FOUND",
    "GAIN",
    "JOB",
    "KIND",
    "LEAST_ROWS",
    "NODE",
    "PAIR",
    "REAL",
    "Room",
    "Rows",
    "Search",
    "enlarge",
    "make_room",
]

# Rows that a part of a node has at least.
LEAST_ROWS = 4096


class _Node(NamedTuple):
    """Whole numbers of a node, see `BoostedNodes`."""

    FEATURE: int = 0
    THRESHOLD: int = 1
    IS_MISSING_RIGHT: int = 2
    LEFT: int = 3
    PARENT: int = 4
    START: int = 5
    SIZE: int = 6


NODE = _Node()


class _Real(NamedTuple):
    """Real numbers of a node."""

    GAIN: int = 0
    HESSIAN: int = 1
    VALUE: int = 2


REAL = _Real()


class _Pair(NamedTuple):
    """What is known of two siblings."""

    LEFT_CHILD: int = 0
    PARENT_TABLE: int = 1
    SMALL: int = 2  # the smaller and ...
    LARGE: int = 3  # the larger one; -1 if neither may be split
    SPARE: int = 4  # the first of the spare tables of the smaller one and ...
    N_SPARE: int = 5  # how many there are


PAIR = _Pair()


class _Job(NamedTuple):
    """What describes a job."""

    KIND: int = 0
    PAIR: int = 1
    FIRST: int = 2  # the positions of its rows
    LAST: int = 3
    N_LEFT: int = 4  # how many of them go left
    PLACE: int = 5  # where those begin; the spare table of a sum, -1 for that of the node


JOB = _Job()


class _Kind(NamedTuple):
    """What there is to do."""

    WHOLE: int = 0  # all of it for a pair of siblings
    SORT: int = 1  # or in parts: rows of the parent are laid aside by their sides
    PLACE: int = 2  # and put into their places
    SUM: int = 3  # those of the smaller sibling are summed up
    SEARCH: int = 4  # sums are added, the larger sibling has what remains, and splits are found


KIND = _Kind()


class _Found(NamedTuple):
    """The split that was found for a node."""

    IS_GOOD: int = 0
    FEATURE: int = 1
    THRESHOLD: int = 2
    IS_MISSING_RIGHT: int = 3


FOUND = _Found()


class _Gain(NamedTuple):
    """What comes of it."""

    GAIN: int = 0
    LEFT_VALUE: int = 1
    RIGHT_VALUE: int = 2
    LEFT_HESSIAN: int = 3
    RIGHT_HESSIAN: int = 4


GAIN = _Gain()


class _At(NamedTuple):
    """Where the growth stands."""

    TREE: int = 0
    DEPTH: int = 1
    N_NODES: int = 2
    WIDTH: int = 3  # nodes of the level that are worth to be split
    N_PAIRS: int = 4  # pairs of siblings of the level
    N_PARTED: int = 5  # jobs for parts of nodes, then pairs that were parted
    STAGE: int = 6  # the kind of the jobs that were written last; whole pairs go with the sorting of parts


AT = _At()


class Rows(NamedTuple):
    """The rows that the trees of a round are grown on."""

    bins: Host  # (d, n) uint8
    cells: Host  # (n, d) uint8
    packed: Host  # (k, n) int64 gradients
    order: Host  # (m,) int64 row ids of the tree that grows, sorted by node
    aside: Host  # (2, m) int64 working memory


class Search(NamedTuple):
    """What splits are looked for."""

    regular: Host  # (k, 3) float32, see `best_splits`
    unit: Host  # (k,) float64: of gradients and hessians
    is_used: Host  # (k, d) bool
    use_missing: Host  # (k, d) bool: those of them with missing values
    has_missing: Host  # (k,) bool: whether there are any
    limits: Host  # (3,) float64: l2, least hessian and least rows of a leaf
    max_depth: int


class Room(NamedTuple):
    """What a tree needs for a level of `w` tables."""

    at: Host  # (7,) int64
    tables: Host  # (2, w, d, n_bins) int64 sums: those of even levels, those of odd ones
    spare: Host  # (s, d, n_bins) int64 sums of further parts of nodes
    found: Host  # (w, 4) int64 and ...
    gains: Host  # (w, 5) float64: the best split of each table
    level: Host  # (2, w) int64: nodes that may be split, and their tables
    pairs: Host  # (6, w) int64
    jobs: Host  # (6, j) int64
    whole: Host  # (7, v) int64 and ...
    real: Host  # (3, v) float64: the nodes


def make_room(d: int, n_bins: int, n_rows: int, n_threads: int, n_tables: int, n_nodes: int) -> Room:
    """Return room for levels of `n_tables` tables and trees of `n_nodes` nodes."""
    n_parts = n_rows // LEAST_ROWS + 1
    n_spare = min(n_parts, (n_threads - 1) * n_tables)
    return Room(
        np.zeros(len(AT), dtype=np.int64),
        np.empty((2, n_tables, d, n_bins), dtype=np.int64),
        np.empty((n_spare, d, n_bins), dtype=np.int64),
        np.empty((n_tables, len(FOUND)), dtype=np.int64),
        np.empty((n_tables, len(GAIN))),
        np.empty((2, n_tables), dtype=np.int64),
        np.empty((len(PAIR), n_tables), dtype=np.int64),
        np.empty((len(JOB), n_tables + n_parts), dtype=np.int64),
        np.empty((len(NODE), n_nodes), dtype=np.int64),
        np.empty((len(REAL), n_nodes)),
    )


def enlarge(room: Room, n_rows: int, n_threads: int) -> Room:
    """Return a room that is large enough for the next level, with all that the old one holds."""
    _, n_tables, d, n_bins = room.tables.shape
    width, n_nodes = int(room.at[AT.WIDTH]), int(room.at[AT.N_NODES])
    n_tables = max(n_tables, 4 * width)
    larger = make_room(d, n_bins, n_rows, n_threads, n_tables, 2 * n_nodes + 4 * width)
    for old, new in zip(room, larger, strict=True):
        new[tuple(slice(length) for length in old.shape)] = old
    return larger
