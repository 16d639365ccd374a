"""Training rows at the place of computation, and the nodes of a level with their rows."""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat
import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.arrays.segments import block_index
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host, to_host
from arraylearn.table import MISSING_CODE, Table

__all__ = [
    "UNKNOWN_BRANCH",
    "Entries",
    "Level",
    "Roots",
    "Rows",
    "is_missing_number",
    "level_of",
    "nominal_column",
    "number_copies",
    "numeric_column",
    "prepare_rows",
    "rows_at",
    "take_flat",
]

# In place of the branch of a row whose value is missing, and of a category without rows in the node.
UNKNOWN_BRANCH = -1


class Rows(NamedTuple):
    """Training rows, numbered by class: the rows of class 0 first."""

    columns: Array  # (d_numeric, n) float, NaN is missing
    codes: Array  # (d_nominal, n) int32, or MISSING_CODE
    labels: Array | None  # (n,) int32; None: rows have no class, and their weights are summed
    weights: Array | None  # (n,) int64 or float; None: every row counts 1
    class_ends: tuple[int, ...]  # rows below class_ends[c] have class c or less
    n_values: tuple[int, ...]  # categories of each nominal column
    column_order: tuple[int, ...]  # numeric, then nominal columns -> position of each column of the table
    has_missing_numbers: bool
    has_missing_codes: bool
    order: HostArray | None = None  # (n,): the number of each row in the table
    class_weights: HostArray | None = None  # (c,): of all rows; integers where weights are
    # (d_numeric, b): where `columns` are bins; bin i holds values up to edges[i]
    edges: HostArray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.columns.shape[1])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.class_ends)

    @property
    def has_missing(self) -> bool:
        """Whether any value is missing."""
        return self.has_missing_numbers or self.has_missing_codes


class Entries(NamedTuple):
    """The items of lists: rows of the table, of several trees, or copies of rows with fractional weights."""

    labels: Array | None  # (n,) class of each entry; None: there are no classes, `weights` are summed
    weights: Array | None  # (n,) None: every entry counts 1
    source: Array | None = None  # (n,) row of the table; None: the entry itself
    # (n,) int64 or float: number of rows (0, 1, or a fraction) that each entry counts as; None: its weight
    rows: Array | None = None

    @property
    def n_entries(self) -> int:
        """Number of entries."""
        first = self.weights if self.labels is None else self.labels
        assert first is not None
        return int(first.shape[0])


class Roots(NamedTuple):
    """The roots of trees to be grown, with their rows, one tree after the other."""

    lists: Array  # (d, m) int32: entries of each tree, in a list per numeric column or in one
    entries: Entries  # what the lists hold
    counts: HostArray  # (t, c): class weights, or packed sums
    sizes: HostArray  # (t,): entries


class Level(NamedTuple):
    """The nodes of one level that may still be split, with their rows, one node after the other."""

    ids: HostArray  # (k,): number of each node in the tree
    counts: HostArray  # (k, c): class weights, or packed sums
    sizes: HostArray  # (k,): rows
    depth: int
    lists: Array  # (d, m) int32: rows of each node, in a list per numeric column or in one
    starts: Array  # (k,) int64
    block_at: Array  # (m,) int64: the node of each position, counted within the level
    counts_on: Array  # (k, c): `counts` at the place
    entries: Entries  # what the lists hold
    sums: Array | None = (
        None  # (d, k, c, b) class weights, or summed weights, of every bin, if they are counted
    )
    seeds: HostArray | None = None  # (k,) uint64: the seeds of all that is drawn in the nodes
    bounds: HostArray | None = None  # (k, 2): least and greatest value, where a column has a trend

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.ids.shape[0])

    @property
    def labels(self) -> Array | None:
        """Class (n,) of each entry."""
        return self.entries.labels

    @property
    def weights(self) -> Array | None:
        """Weight (n,) of each entry."""
        return self.entries.weights

    @property
    def source(self) -> Array | None:
        """Row (n,) of the table of each entry; None: entry i is row i."""
        return self.entries.source

    @property
    def members(self) -> Array:
        """Rows (m,) of the nodes, node after node."""
        return self.lists[0, :]


def prepare_rows(
    place: Place, table: Table, codes: HostArray, n_classes: int, weights: HostArray | None
) -> Rows:
    """Sort the rows by class and turn the table into columns; `codes` and `weights` are on the host."""
    short = np.astype(codes, np.int16) if n_classes < 2**15 else codes  # NumPy sorts int16 by radix
    order = np.argsort(short, stable=True)
    if weights is not None:
        kept = np.nonzero(weights[order] > 0)[0]
        order = order[kept]
        weights = weights[order]
        if bool(np.all(weights == np.floor(weights))) and float(np.sum(weights)) < 2**52:
            weights = np.astype(weights, np.int64)
            if bool(np.all(weights == 1)):
                weights = None
    labels = np.take(codes, order)
    class_weights = np.bincount(labels, weights, minlength=n_classes)
    if weights is None or weights.dtype.kind == "i":
        class_weights = np.astype(class_weights, np.int64)
    ends = np.searchsorted(labels, np.arange(n_classes), side="right")
    xp, order_on = place.xp, from_host(order, place)
    numeric = xp.take(table.numeric, order_on, axis=0)
    columns = _contiguous(xp, xp.permute_dims(numeric, (1, 0)))
    nominal = xp.take(table.codes, order_on, axis=1)
    missing = xp.stack((xp.any(xp.isnan(columns)), xp.any(nominal == MISSING_CODE)))
    has_missing_numbers, has_missing_codes = (bool(flag) for flag in to_host(missing))
    schema = table.schema
    return Rows(
        columns,
        nominal,
        from_host(labels, place, xp.int32),
        None if weights is None else _weights_at(place, weights),
        tuple(int(end) for end in ends),
        schema.n_values,
        (*schema.numeric_idx, *schema.nominal_idx),
        has_missing_numbers,
        has_missing_codes,
        order,
        class_weights,
    )


def _contiguous(xp: Namespace, x: Array) -> Array:
    return xp.asarray(xp.reshape(xp.reshape(x, (-1,)), x.shape))


def _weights_at(place: Place, weights: HostArray) -> Array:
    if weights.dtype.kind == "i":
        return from_host(weights, place, place.xp.int64)
    return from_host(weights, place, accumulator_dtype(place))


def level_of(
    place: Place,
    ids: HostArray,
    counts: HostArray,
    sizes: HostArray,
    depth: int,
    lists: Array,
    entries: Entries,
) -> Level:
    """Describe the blocks of a level at the place."""
    xp = place.xp
    starts = np.cumulative_sum(sizes) - sizes
    if sizes.shape[0] == 1:
        block_at = xp.zeros(lists.shape[1], dtype=xp.int64, device=place.device)
    else:
        block_at = block_index(xp, from_host(sizes, place), lists.shape[1])
    dtype = xp.int64 if counts.dtype.kind == "i" else accumulator_dtype(place)
    counts_on = from_host(counts, place, dtype)
    return Level(ids, counts, sizes, depth, lists, from_host(starts, place), block_at, counts_on, entries)


def number_copies(xp: Namespace, copies: Array, total: int) -> tuple[Array, Array]:
    """Return for each of the `total` copies the entry it is copied from, and its number among its copies."""
    origin = block_index(xp, copies, total)
    first = xp.take(xp.cumulative_sum(copies) - copies, origin, axis=0)
    return origin, xp.arange(total, dtype=xp.int64, device=array_api_compat.device(copies)) - first


def rows_at(xp: Namespace, level: Level, entries: Array) -> Array:
    """Return the rows of the table behind entries of the lists."""
    if level.source is None:
        return entries
    found = xp.take(level.source, xp.reshape(entries, (-1,)), axis=0)
    return xp.reshape(found, entries.shape)


def numeric_column(xp: Namespace, rows: Rows, column: Array) -> Array:
    """Return positions among the numeric columns; for nominal ones any valid position."""
    d = rows.columns.shape[0]
    return column if not rows.n_values else xp.where(column < d, column, d - 1)


def nominal_column(xp: Namespace, rows: Rows, column: Array) -> Array:
    """Return positions among the nominal columns; for numeric ones any valid position."""
    d = rows.columns.shape[0]
    return column if d == 0 else xp.where(column < d, 0, column - d)


def is_missing_number(xp: Namespace, rows: Rows, values: Array) -> Array:
    """Whether numbers, or bins, stand for a missing value."""
    if rows.edges is not None and xp.isdtype(values.dtype, "integral"):
        return values == rows.edges.shape[1] + 1
    return xp.isnan(values)


def take_flat(xp: Namespace, table: Array, rows: Array, positions: Array) -> Array:
    """Return ``table[rows, positions]`` for a table (d, n) and index arrays of one shape."""
    n = table.shape[1]
    flat = xp.astype(rows, xp.int64) * n + xp.astype(positions, xp.int64)
    found = xp.take(xp.reshape(table, (-1,)), xp.reshape(flat, (-1,)), axis=0)
    return xp.reshape(found, flat.shape)
