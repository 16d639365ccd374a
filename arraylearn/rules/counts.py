"""The class that rules are learned for, and what a rule covers of it: by masks, and by the values of columns.

Rows are weighed by value in columns of few distinct values; on NumPy 64 rows at a time, by bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.arrays.segments import paired_histogram
from arraylearn.backend.dispatch import native, numpy_body
from arraylearn.backend.namespace import HOST, Place, from_host, to_host
from arraylearn.table import MISSING_CODE

__all__ = [
    "NOT_COUNTED",
    "CountedColumns",
    "Counts",
    "Target",
    "count_bits",
    "count_cells",
    "count_columns",
    "group_by_size",
    "pack_weights",
    "rows_of",
    "units_of",
    "weigh",
]

# In place of the number of values of a column that is kept sorted.
NOT_COUNTED = -1
# A sum of weights holds the number of its rows in its lower bits, the sum itself in the others.
_ROW_BITS = 31
# Up to this many values a bit per row and value is less to read than the value of each row.
MOST_BITS = 64
# Words that are counted at once stay in the cache.
_BLOCK = 1 << 16


def pack_weights(units: HostArray, place: Place) -> tuple[Array, int]:
    """Turn weights (n,) from `grid_weights` into those of a `Target`, rounded if their sum exceeds 2**31.

    Also return the size of their unit in units of the grid.
    """
    coarser = max(1, round(float(units.sum()) / 2.0**31))
    kept = (units / coarser).round().clip(1).astype(np.int64)
    return from_host((kept << _ROW_BITS) + 1, place), coarser


def units_of(sums: Array) -> Array:
    """Return the weights in sums of packed weights."""
    return sums >> _ROW_BITS


def rows_of(sums: Array) -> Array:
    """Return the number of rows in sums of packed weights."""
    return sums & ((1 << _ROW_BITS) - 1)


class Target(NamedTuple):
    """The positive rows, which a rule shall cover, and the weights of all rows."""

    is_positive: Array  # (n,) bool: the rows of the class
    weights: Array | None = None  # (n,) int64 from `pack_weights`; None: every row counts 1
    unit: float = 1.0  # rows per unit of weight, as evidence


class Counts(NamedTuple):
    """How much a rule covers: weights, in rows, or numbers of rows."""

    positive: float  # of the positive rows
    covered: float  # of all rows

    @property
    def accuracy(self) -> float:
        """Share of the positive rows; 0 where nothing is covered."""
        return self.positive / self.covered if self.covered > 0 else 0.0


def weigh(xp: Namespace, target: Target, masks: Sequence[Array]) -> list[tuple[Counts, Counts]]:
    """Weigh the rows of each mask (n,), and count them; one sync."""
    both = [part for mask in masks for part in (mask & target.is_positive, mask)]
    if target.weights is None:
        sums = [xp.astype(xp.count_nonzero(part), xp.int64) for part in both]
    else:
        sums = [xp.sum(xp.where(part, target.weights, 0)) for part in both]
    numbers = to_host(xp.stack(sums)).tolist()
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    if target.weights is None:
        return [(Counts(float(p), float(n)), Counts(p, n)) for p, n in pairs]
    return [
        (Counts(*(units_of(one) * target.unit for one in pair)), Counts(*map(rows_of, pair)))
        for pair in pairs
    ]


# ---- columns of few values


class Bits(NamedTuple):
    """One bit per row for each value that occurs in a column."""

    words: HostArray  # (l, n_words) uint64
    present: HostArray  # (l,) which of the d * n_cells values these are
    ones: HostArray  # (n_words,) float32


class CountedColumns(NamedTuple):
    """Columns with similar numbers of distinct values, which are counted by value; a cell is one value."""

    cells: Array  # (d, n) uint8 or int32: value of each row, n_cells where missing
    n_cells: int  # largest number of values of a column
    values: Array | None = None  # (d, n_cells) numbers behind the cells, ascending; None for nominal columns
    bits: Bits | None = None  # None: the cells are counted


def group_by_size(sizes: Sequence[int]) -> list[list[int]]:
    """Group columns by their number of values, so that no table is much wider than it needs to be.

    Columns of the size NOT_COUNTED are left out.
    """
    groups: dict[float, list[int]] = {}
    for j, size in enumerate(sizes):
        if size != NOT_COUNTED:
            groups.setdefault(next(c for c in (MOST_BITS, 255, math.inf) if size <= c), []).append(j)
    return [groups[size] for size in sorted(groups)]


def count_columns(xp: Namespace, codes: Array, n_cells: int, values: Array | None = None) -> CountedColumns:
    """Prepare columns (d, n) of codes in ``range(n_cells)``, or MISSING_CODE, to be counted."""
    cells = xp.astype(
        xp.where(codes == MISSING_CODE, n_cells, codes), xp.uint8 if n_cells < 256 else xp.int32
    )
    pack = native(xp, "pack_bits")
    return CountedColumns(cells, n_cells, values, pack(cells, n_cells) if pack else None)


@numpy_body
def _pack_bits(cells: HostArray, n_cells: int) -> Bits | None:
    d, n = cells.shape
    if n_cells > MOST_BITS or n >= 1 << 24:  # float32 counts up to there
        return None
    bits = np.zeros((d, n_cells, -(-n // 64) * 8), dtype=np.uint8)
    for value in range(n_cells):
        bits[:, value, : -(-n // 8)] = np.packbits(cells == value, axis=1)
    words = bits.reshape(d * n_cells, -1).view(np.uint64)
    present = np.flatnonzero(words.any(axis=1))
    return Bits(words[present], present, np.ones(words.shape[1], dtype=np.float32))


def count_cells(xp: Namespace, group: CountedColumns, is_live: Array, target: Target) -> tuple[Array, Array]:
    """Weigh the live rows, and the positive ones among them, by value.

    Parameters
    ----------
    group : CountedColumns
        d columns of n rows.
    is_live : bool array (n,)
        Which rows count.
    target : Target
        Which of them are positive, and their weights.

    Returns
    -------
    positive, covered : arrays (d, n_cells)
        int64 sums of the positive live rows and of all live rows of each value.
    """
    cells, n_cells, weights = group.cells, group.n_cells, target.weights
    if group.bits is not None and weights is None:
        both = np.zeros((2, cells.shape[0] * n_cells), dtype=np.int64)
        both[:, group.bits.present] = count_bits(group.bits, is_live, target)
        p, covered = both.reshape(2, -1, n_cells)
        return p, covered
    keys = xp.where(is_live, xp.astype(target.is_positive, xp.int64), 2)
    if xp is HOST.xp:
        rows = np.flatnonzero(is_live)
        cells, keys = cells.take(rows, axis=1), keys.take(rows)
        weights = None if weights is None else weights.take(rows)
    counts = paired_histogram(xp, cells, keys, n_cells + 1, 3, weights)[:, :, :n_cells]
    return counts[:, 1, :], counts[:, 0, :] + counts[:, 1, :]


def count_bits(bits: Bits, is_live: HostArray, target: Target) -> HostArray:
    """Count the positive live rows and the live rows of each row of bits: float32 (2, l), exact."""
    n, n_words = is_live.shape[0], bits.words.shape[1]
    masks = np.zeros((2, 64 * n_words), dtype=bool)
    np.logical_and(is_live, target.is_positive, out=masks[0, :n])
    masks[1, :n] = is_live
    words = np.packbits(masks, axis=1).view(np.uint64)[:, None, :]
    step = max(1, _BLOCK // max(1, n_words))
    parts = [
        np.bitwise_count(bits.words[start : start + step] & words).astype(np.float32) @ bits.ones
        for start in range(0, max(1, bits.words.shape[0]), step)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
