"""Categories to codes: numbers by look-up tables or by search, other values by a dictionary."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import array_api_extra as xpx
import numpy as np

from arraylearn._typing import Array, Dtype, HostArray, Namespace
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host
from arraylearn.backend.threads import parallel_map
from arraylearn.table.schema import MISSING_CODE

__all__ = [
    "distinct_numbers",
    "distinct_objects",
    "encode_numbers",
    "encode_objects",
    "encode_on_device",
    "is_missing_object",
    "refuse_objects",
]


Result = TypeVar("Result")

# Elements of a block: it and what is computed from it stay in the cache.
_BLOCK = 131_072
# Distinct integers are found in a table of flags up to this range, by sorting beyond it.
_DENSE_RANGE = 1 << 20
# Rows that are treated as one long row, because loops over a short row are slow.
_FOLD = 16
# Rows from which the range of a column is guessed before all are read.
_FIRST_ROWS = 2_048
# Longest range whose values are collected as the bits of an int64.
_BITS = 62


# ---- numbers on the host


class _Dense(NamedTuple):
    """Columns whose categories are integers of a short range, and where their cells lie in one table."""

    idx: list[int]  # which of the columns
    low: HostArray  # (d,) smallest value
    size: HostArray  # (d,) length of the range; the cell after it stands for everything else
    offset: HostArray  # (d,) first cell
    n_cells: int

    @classmethod
    def make(cls, ranges: list[tuple[int, int] | None], dtype: Dtype) -> _Dense:
        """Lay out the columns that have a range."""
        idx = [i for i, found in enumerate(ranges) if found is not None]
        low = np.array([found[0] for found in ranges if found is not None], dtype=dtype)
        size = np.array([found[1] - found[0] + 1 for found in ranges if found is not None], dtype=np.int64)
        end = np.cumsum(size + 1)
        return cls(idx, low, size, end - size - 1, int(end[-1]) if idx else 0)

    def positions(self, block: HostArray) -> HostArray:
        """Return the position of each value (m, d), int64 or float64, in its range, or the size of that."""
        shifted = block - self.low if self.low.any() else block
        if block.dtype.kind == "i":
            # as an unsigned integer, a value below the range becomes huge
            clipped: HostArray = folded(np.minimum, shifted.view(np.uint64), self.size.view(np.uint64))
            return clipped.view(np.int64)
        with np.errstate(invalid="ignore"):
            positions = shifted.astype(np.int64)
        is_outside = positions != shifted  # fractions, NaN and infinity
        is_outside |= positions.view(np.uint64) >= self.size.view(np.uint64)
        np.copyto(positions, self.size, where=is_outside)
        return positions


def folded(function: np.ufunc, block: HostArray, values: HostArray | None = None) -> Array:
    """Combine a block (m, d) with a row of values, or reduce it to one, several rows at a time."""
    m, d = block.shape
    rest = m % _FOLD
    if m < _FOLD or not block.flags.c_contiguous or (values is not None and rest):
        return function.reduce(block, axis=0) if values is None else function(block, values)
    wide = block[: m - rest].reshape(m // _FOLD, _FOLD * d)
    if values is None:
        parts = (function.reduce(wide, axis=0).reshape(_FOLD, d), block[m - rest :])
        return function.reduce(np.concatenate(parts) if rest else parts[0], axis=0)
    return function(wide, np.tile(values, _FOLD)).reshape(m, d)


def distinct_numbers(x: HostArray, idx: Sequence[int]) -> list[tuple[Any, ...]]:
    """Find the sorted distinct values of the columns `idx` of a table of numbers; NaN is missing."""
    if x.dtype.kind != "f" and x.shape[0] > 2 * _FIRST_ROWS:
        # the first rows mostly show the range of all rows: then one pass is enough
        found = _distinct_within(x, idx, _integer_ranges(x[:_FIRST_ROWS], idx))
        if found is not None:
            return found
    found = _distinct_within(x, idx, _integer_ranges(x, idx))
    if found is None:
        raise AssertionError("a value lies outside the range of its column")
    return found


def _distinct_within(
    x: HostArray, idx: Sequence[int], ranges: list[tuple[int, int] | None]
) -> list[tuple[Any, ...]] | None:
    """Find the distinct values given the columns' ranges; None where an integer lies outside its range."""
    dtype = np.float64 if x.dtype.kind == "f" else np.int64
    dense = _Dense.make(ranges, dtype)
    seen = np.zeros(dense.n_cells, dtype=bool)
    is_short = bool(dense.idx) and int(dense.size.max()) <= _BITS

    def mark(block: HostArray, _: slice) -> HostArray | None:
        positions = dense.positions(block)
        if is_short:
            bits_of_block: HostArray = folded(np.bitwise_or, np.left_shift(1, positions))
            return bits_of_block
        positions = positions + dense.offset
        seen[positions] = True  # threads write the same value, so their order does not matter
        return None

    marks = _for_blocks(mark, x, [idx[i] for i in dense.idx], dtype)
    bits = None
    if is_short:
        bits = np.bitwise_or.reduce([part for part in marks if part is not None], axis=0)
    is_outside = seen[dense.offset + dense.size] if bits is None else bits >> dense.size & 1
    if x.dtype.kind != "f" and is_outside.any():
        return None
    result: list[tuple[Any, ...]] = [()] * len(idx)
    for position, i in enumerate(dense.idx):
        start, size = int(dense.offset[position]), int(dense.size[position])
        is_seen = seen[start : start + size] if bits is None else bits[position] >> np.arange(size) & 1
        values = np.flatnonzero(is_seen) + dense.low[position]
        result[i] = tuple(values.astype(x.dtype).tolist())
    others = [i for i in range(len(idx)) if ranges[i] is None]
    for i, values in zip(others, parallel_map(lambda i: _sorted_distinct(x[:, idx[i]]), others), strict=True):
        result[i] = tuple(values.tolist())
    return result


def _integer_ranges(x: HostArray, idx: Sequence[int]) -> list[tuple[int, int] | None]:
    """Return smallest and largest value of each column that holds integers of a short range, else None."""
    is_float = x.dtype.kind == "f"

    def measure(block: HostArray, _: slice) -> tuple[HostArray, HostArray, HostArray]:
        if not is_float:
            is_integer = np.ones(block.shape[1], dtype=bool)
            return folded(np.minimum, block), folded(np.maximum, block), is_integer
        with np.errstate(invalid="ignore"):
            is_integer = (np.trunc(block) == block) | np.isnan(block)
        return np.fmin.reduce(block, axis=0), np.fmax.reduce(block, axis=0), is_integer.all(axis=0)

    parts = _for_blocks(measure, x, idx, x.dtype)
    if not parts:
        return [None] * len(idx)
    low = np.fmin.reduce([part[0] for part in parts])
    high = np.fmax.reduce([part[1] for part in parts])
    is_integer = np.all([part[2] for part in parts], axis=0) & np.isfinite(low) & np.isfinite(high)
    return [_short_range(low[i], high[i]) if is_integer[i] else None for i in range(len(idx))]


def _short_range(low: float, high: float) -> tuple[int, int] | None:
    """Return the bounds as integers if a table of what lies between is small, and floats hold it exactly."""
    low, high = int(low), int(high)
    is_short = high - low < _DENSE_RANGE and -(2**53) <= low <= high <= 2**53
    return (low, high) if is_short else None


def _sorted_distinct(column: HostArray) -> HostArray:
    values = np.sort(column)
    if values.dtype.kind == "f":
        values = values[: values.shape[0] - np.count_nonzero(np.isnan(values))] + values.dtype.type(0)
    is_first = np.ones(values.shape[0], dtype=bool)
    np.not_equal(values[1:], values[:-1], out=is_first[1:])
    return values[is_first]


def encode_numbers(x: HostArray, idx: Sequence[int], domains: Sequence[tuple[Any, ...]]) -> HostArray:
    """Return the codes (d, n) of the d columns `idx` of a table of numbers, or MISSING_CODE."""
    codes = np.empty((len(idx), x.shape[0]), dtype=np.int32)
    dtype = np.float64 if x.dtype.kind == "f" else np.int64
    arrays = [np.asarray(domain if domain else (0,)) for domain in domains]
    ranges = [
        _short_range(array.min(), array.max())
        if array.dtype.kind != "f" or np.all(np.trunc(array) == array)
        else None
        for array in arrays
    ]
    dense = _Dense.make(ranges, dtype)
    table = np.full(dense.n_cells, MISSING_CODE, dtype=np.int32)
    is_complete = True  # whether codes are positions
    for position, i in enumerate(dense.idx):
        if domains[i]:
            cells = arrays[i].astype(np.int64) - int(dense.low[position])
            is_complete &= bool(np.array_equal(cells, np.arange(dense.size[position])))
            table[cells + dense.offset[position]] = np.arange(len(domains[i]), dtype=np.int32)
        else:
            is_complete = False

    def look_up(block: HostArray, rows: slice) -> None:
        if is_complete and block.dtype.kind == "i":
            found = block - dense.low if dense.low.any() else block
            is_outside = folded(np.greater_equal, found.view(np.uint64), dense.size.view(np.uint64))
            if is_outside.any():
                found = np.where(is_outside, MISSING_CODE, found)
        else:
            found = table.take(dense.positions(block) + dense.offset)
        codes[slice(None) if len(dense.idx) == len(idx) else dense.idx, rows] = found.T

    def search(i: int) -> None:
        codes[i] = _search(x[:, idx[i]], arrays[i])

    _for_blocks(look_up, x, [idx[i] for i in dense.idx], dtype)
    parallel_map(search, [i for i in range(len(idx)) if ranges[i] is None])
    return codes


def _search(column: HostArray, domain: HostArray) -> HostArray:
    if column.dtype.kind == "f":
        domain = domain.astype(column.dtype)
    order = np.argsort(domain, kind="stable")
    position = np.minimum(np.searchsorted(domain, column, sorter=order), domain.shape[0] - 1)
    code = order.take(position)
    return np.where(domain.take(code) == column, code, MISSING_CODE)


def _for_blocks(
    function: Callable[[HostArray, slice], Result], x: HostArray, idx: Sequence[int], dtype: Dtype
) -> list[Result]:
    """Call ``function(block, rows)`` for each block of rows, on several threads; blocks are read only."""
    if not idx or not x.shape[0]:
        return []
    step = max(64, _BLOCK // len(idx) // _FOLD * _FOLD)
    is_all = len(idx) == x.shape[1] and list(idx) == list(range(x.shape[1]))

    def work(start: int) -> Result:
        rows = slice(start, min(start + step, x.shape[0]))
        block = x[rows] if is_all else x[rows][:, idx]
        return function(np.asarray(block, dtype=dtype, order="C"), rows)

    return parallel_map(work, range(0, x.shape[0], step))


# ---- numbers on a device


def encode_on_device(place: Place, columns: Array, domains: Sequence[tuple[Any, ...]]) -> Array:
    """Return the codes (d, n) of columns (d, n) of numbers that live at `place`; without a sync."""
    xp = place.xp
    arrays = [np.asarray(domain) for domain in domains]
    if xp.isdtype(columns.dtype, "real floating"):
        dtype: Dtype = columns.dtype
    elif all(array.dtype.kind in "iub" for array in arrays):
        dtype = xp.int64
    else:
        dtype = accumulator_dtype(place)
    ordered, codes = _search_tables(arrays, is_float=dtype != xp.int64)
    return search_codes(
        xp, xp.astype(columns, dtype, copy=False), from_host(ordered, place, dtype), from_host(codes, place)
    )


def search_codes(xp: Namespace, columns: Array, ordered: Array, codes: Array) -> Array:
    """Find the int32 code of each value of columns (d, n) by binary search; MISSING_CODE: it is no category.

    `ordered` holds the sorted categories (d, k) of each column in the dtype of the values, padded at the end;
    `codes` their codes, int32, MISSING_CODE for the padding. NaN is no category.
    """
    position = xp.astype(xpx.searchsorted(ordered, columns, side="left", xp=xp), xp.int64)
    # not clip: that of array-api-compat 1.16 syncs on CuPy
    position = xp.where(position < ordered.shape[1], position, ordered.shape[1] - 1)
    is_found = xp.take_along_axis(ordered, position, axis=1) == columns
    return xp.where(is_found, xp.take_along_axis(codes, position, axis=1), MISSING_CODE)


def _search_tables(arrays: list[HostArray], *, is_float: bool) -> tuple[HostArray, HostArray]:
    """Return sorted categories and their codes as rectangles, padded with the largest value, MISSING_CODE."""
    width = max(1, *(array.shape[0] for array in arrays))
    pad: float = np.inf if is_float else np.iinfo(np.int64).max
    ordered = np.full((len(arrays), width), pad, dtype=np.float64 if is_float else np.int64)
    codes = np.full(ordered.shape, MISSING_CODE, dtype=np.int32)
    for i, array in enumerate(arrays):
        order = np.argsort(array, kind="stable")
        ordered[i, : order.shape[0]] = array[order]
        codes[i, : order.shape[0]] = order
    return ordered, codes


# ---- any other values


class _CodeOf(dict[Any, int]):
    """Codes by category; MISSING_CODE for what is not there: missing values need no test of their own."""

    def __missing__(self, key: object) -> int:
        return MISSING_CODE


def is_missing_object(value: object) -> bool:
    """Whether a value stands for "missing": None, NaN, or a data frame library's NA and NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, numbers.Number) and bool(value != value)


def distinct_objects(values: Sequence[Any], column: object) -> tuple[Any, ...]:
    """Find the sorted distinct strings, numbers and booleans of a column; missing ones do not count."""
    try:
        distinct = [value for value in set(values) if not is_missing_object(value)]
    except TypeError:
        refuse_objects(values, column)
        raise
    refuse_objects(distinct, column)
    plain = [value.item() if isinstance(value, np.generic) else value for value in distinct]
    # numbers before strings where a column has both
    return tuple(sorted(plain, key=lambda value: (isinstance(value, str), value)))


def refuse_objects(values: Iterable[Any], column: object) -> None:
    """Raise for the first value that is neither a string nor a number nor missing."""
    for value in values:
        if isinstance(value, complex | np.complexfloating):
            raise ValueError(f"Complex data not supported: got {value!r} in column {column}.")
        if not isinstance(value, str | numbers.Number | np.generic) and not is_missing_object(value):
            raise TypeError(
                f"argument must be a string or a number; got {type(value).__name__} in column {column}"
            )


def encode_objects(values: Sequence[Any], domain: tuple[Any, ...], column: object) -> HostArray:
    """Return the code of each value; MISSING_CODE for what is not in the domain."""
    code_of = _CodeOf({value: code for code, value in enumerate(domain)})
    try:
        return np.fromiter(map(code_of.__getitem__, values), dtype=np.int32, count=len(values))
    except TypeError:
        refuse_objects(values, column)
        raise
