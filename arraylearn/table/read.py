"""Read what the user passes as `X`: check it, learn its columns, bring numbers and codes to the place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.namespace import (
    Place,
    from_host,
    is_array,
    is_on_host,
    locate,
    move,
    native_float,
    read_together,
    same_place,
    supports_float64,
    to_host,
)
from arraylearn.backend.threads import parallel_map
from arraylearn.table.categories import distinct_numbers, encode_numbers, encode_on_device
from arraylearn.table.frames import FrameSource, as_frame
from arraylearn.table.labels import Labels, encode_labels
from arraylearn.table.schema import Column, Schema, Table, choose_nominal, numeric_schema
from arraylearn.table.sources import ObjectSource, Source, refuse_text_domain

__all__ = ["holds_bad_numbers", "learn_schema", "learn_schema_and_labels", "open_frame", "read_table"]

# Values of a chunk: its two passes stay in the cache.
_CHUNK = 1 << 17
# With at least this many chunks several threads are faster than one.
_CHUNKS_WORTH_A_THREAD = 32
# Integers are copied from a device as two halves, each of which a float64 holds exactly.
_HALF = 1 << 32


def learn_schema(X: Any, categorical_features: Any = "from_dtype") -> Schema:
    """Learn which columns are numeric and which nominal, and the categories of the latter.

    Parameters
    ----------
    X : array, data frame or list of lists, (n, d)
        An array of any supported library, a pandas, polars or pyarrow data frame, or nested lists. NaN, None
        and null are missing.
    categorical_features : "from_dtype", None, or sequence of int, bool or str
        Which columns are nominal. ``"from_dtype"``: the string, categorical, enum and boolean columns of a
        data frame; the columns of an object array that hold other things than numbers (text, or nothing but
        booleans); all columns of an array of strings; none of an array of numbers or booleans, which count
        as 0 and 1. Otherwise positions, a mask over all columns, or the names of a data frame's columns;
        None for none.

    Returns
    -------
    Schema
        Columns with their domains. The domain of an enum or of a pandas categorical is what its type
        declares, in that order; that of a boolean column of a data frame (False, True); any other domain
        holds the distinct values, sorted. Numbers come before text where a column has both.

    Examples
    --------
    >>> import numpy as np
    >>> from arraylearn.table import learn_schema
    >>> schema = learn_schema(np.array([[3, 1.5], [7, np.nan], [3, 2.0]]), categorical_features=[0])
    >>> schema.columns[0].domain
    (3.0, 7.0)
    >>> schema.numeric_idx
    (1,)
    """
    source = _open(X)
    chosen = choose_nominal(categorical_features, source.shape[1], source.names)
    if isinstance(source, ArraySource) and not (chosen and any(chosen)):
        return numeric_schema(source.shape[1])
    return Schema(source.learn(chosen), has_names=source.names is not None)


def open_frame(X: Any) -> Any:
    """Wrap a data frame that is read twice, to learn its schema and for its rows; return others unchanged."""
    if is_array(X) or as_frame(X) is None:
        return X
    return _open(X)


def read_table(X: Any, schema: Schema, place: Place) -> Table:
    """Read rows with the columns of a schema, and bring them to where they are computed with.

    What is at `place` already is not copied. The numeric block has the dtype of an input of floats (half
    floats become float32), is float64 for other inputs, and float32 on a device without float64. A category
    that is not in the domain is missing: code -1.

    >>> from arraylearn.backend.namespace import HOST
    >>> from arraylearn.table import learn_schema, read_table
    >>> schema = learn_schema([["sunny", 20.5], ["rain", 11.0]])
    >>> table = read_table([["rain", 12.5], ["snow", None]], schema, HOST)
    >>> table.codes
    array([[ 0, -1]], dtype=int32)
    >>> table.numeric
    array([[12.5],
           [ nan]])
    """
    source = _open(X)
    _check_columns(source, schema)
    numeric = source.numeric(schema.numeric_idx, place)
    if schema.nominal_idx:
        codes = source.codes(schema, place)
    else:
        codes = place.xp.empty((0, source.shape[0]), dtype=place.xp.int32, device=place.device)
    return Table(numeric, codes, schema)


def holds_bad_numbers(place: Place, x: Array, *, nan_is_bad: bool, limit: float) -> Array:
    """Whether a value is infinite, beyond a limit, or NaN where that is bad: a 0-d array, without a sync."""
    xp = place.xp
    if not isinstance(x, np.ndarray):
        is_beyond = xp.abs(x) > limit if math.isfinite(limit) else xp.isinf(x)
        return xp.any(is_beyond | xp.isnan(x)) if nan_is_bad else xp.any(is_beyond)

    def is_bad(chunk: HostArray) -> bool:
        # NaN anywhere makes both extremes NaN, and every comparison false
        low, high = chunk.min(), chunk.max()
        if -limit <= low and high <= limit and -math.inf < low and high < math.inf:
            return False
        is_beyond = np.abs(chunk) > limit if math.isfinite(limit) else np.isinf(chunk)
        return bool(is_beyond.any()) or (nan_is_bad and bool(np.isnan(chunk).any()))

    if not x.shape[1]:
        return xp.asarray(False)
    step = max(1, _CHUNK // x.shape[1])
    chunks = [x[start : start + step] for start in range(0, x.shape[0], step)]
    with np.errstate(over="ignore", invalid="ignore"):
        judge = parallel_map if len(chunks) >= _CHUNKS_WORTH_A_THREAD else map
        return xp.asarray(any(judge(is_bad, chunks)))


# ---- rows and labels on a device


def learn_schema_and_labels(
    X: Any, y: Any, categorical_features: Any = "from_dtype"
) -> tuple[Schema, Labels]:
    """Learn the columns of X and the classes of y, see `learn_schema` and `encode_labels`.

    Nominal columns and labels on the same device are copied together: the host syncs once, not twice.
    """
    if not _are_on_one_device(X, y):
        return learn_schema(X, categorical_features), encode_labels(y)
    chosen = choose_nominal(categorical_features, _open(X).shape[1], None) or ()
    idx = [j for j, is_nominal in enumerate(chosen) if is_nominal]
    if not idx:
        return learn_schema(X, None), encode_labels(y)
    place = locate(X)
    columns = place.xp.take(X, from_host(np.asarray(idx, dtype=np.int64), place), axis=1)
    on_host, labels = _read_exactly(place, columns, y)
    domains = dict(zip(idx, learn_schema(on_host, range(len(idx))).domains, strict=True))
    return Schema(
        tuple(
            Column(f"x{j}", "nominal", domains[j]) if j in domains else Column(f"x{j}", "numeric")
            for j in range(X.shape[1])
        )
    ), encode_labels(labels)


def _are_on_one_device(X: Any, y: Any) -> bool:
    if not is_array(X) or not is_array(y) or X.ndim != 2 or y.ndim != 1 or 0 in X.shape:
        return False
    place = locate(X)
    if is_on_host(place) or not same_place(place, locate(y)):
        return False
    are_numbers = not any(place.xp.isdtype(a.dtype, "complex floating") for a in (X, y))
    return are_numbers and supports_float64(place)


def _read_exactly(place: Place, *arrays: Array) -> list[HostArray]:
    """Copy arrays of numbers to the host in one go; integers go as two halves, exact as floats."""
    xp, parts = place.xp, []
    for array in arrays:
        if xp.isdtype(array.dtype, "integral"):
            wide = xp.astype(array, xp.int64)
            high = wide // _HALF
            parts += [high, wide - high * _HALF]
        else:
            parts += [array]
    numbers = iter(read_together(place, *parts))
    result = []
    for array in arrays:
        values = next(numbers)
        if xp.isdtype(array.dtype, "integral"):
            values = values.astype(np.int64) * _HALF + next(numbers).astype(np.int64)
        result.append(values.astype(str(array.dtype).rpartition(".")[2]))
    return result


# ---- kinds of input


class ArraySource(Source):
    """A two-dimensional array of numbers or booleans of any library."""

    def __init__(self, x: Array) -> None:
        self.x = x
        self.shape = (int(x.shape[0]), int(x.shape[1]))
        self.home = locate(x)

    def learn(self, chosen: tuple[bool, ...] | None) -> tuple[Column, ...]:
        """Describe the columns."""
        is_nominal = chosen or (False,) * self.shape[1]
        idx = [j for j in range(self.shape[1]) if is_nominal[j]]
        domains = iter(distinct_numbers(*self._host_columns(idx)) if idx else ())
        return tuple(
            Column(f"x{j}", "nominal", next(domains)) if is_nominal[j] else Column(f"x{j}", "numeric")
            for j in range(self.shape[1])
        )

    def numeric(self, idx: Sequence[int], place: Place) -> Array:
        """Bring the numeric columns (n, d) to `place`."""
        x = move(self._columns(idx), place)
        return place.xp.astype(x, native_float(x, place), copy=False)

    def codes(self, schema: Schema, place: Place) -> Array:
        """Bring the codes (d, n) of the nominal columns to `place`."""
        refuse_text_domain(schema)
        if is_on_host(self.home) or is_on_host(place):
            x, idx = self._host_columns(schema.nominal_idx)
            return from_host(encode_numbers(x, idx, schema.domains), place)
        x = move(self._columns(schema.nominal_idx), place)
        every = place.xp.arange(x.shape[1], dtype=place.xp.int64, device=place.device)
        columns = place.xp.take(place.xp.permute_dims(x, (1, 0)), every, axis=0)  # a contiguous copy
        return encode_on_device(place, columns, schema.domains)

    def _host_columns(self, idx: Sequence[int]) -> tuple[HostArray, Sequence[int]]:
        """Return a table on the host that has these columns, and where; one transfer from a device."""
        if is_on_host(self.home):
            return to_host(self.x), idx
        return to_host(self._columns(idx)), range(len(idx))

    def _columns(self, idx: Sequence[int]) -> Array:
        if len(idx) == self.shape[1]:
            return self.x
        if isinstance(self.x, np.ndarray):
            return self.x.take(np.asarray(idx, dtype=np.int64), axis=1)
        positions = from_host(np.asarray(idx, dtype=np.int64), self.home)
        return self.home.xp.take(self.x, positions, axis=1)


def _open(X: Any) -> Source:
    """Check what can be checked without looking at values, and wrap the input."""
    if type(X) is np.ndarray:
        return _open_numpy(X)
    if isinstance(X, Source):
        return X
    if hasattr(X, "nnz") or "sparse" in str(getattr(X, "layout", "")):
        raise TypeError(
            "`X` is a sparse container, but dense data is required. Convert it with X.toarray() or "
            "X.to_dense(), or reduce its columns first."
        )
    if isinstance(X, np.ma.MaskedArray):
        return _open_numpy(_fill_masked(X))
    if not isinstance(X, np.ndarray) and is_array(X):
        _check_array(X, is_complex=locate(X).xp.isdtype(X.dtype, "complex floating"))
        return ArraySource(X.detach() if getattr(X, "requires_grad", False) else X)
    frame = as_frame(X)
    if frame is not None:
        if hasattr(frame, "columns"):
            _check_shape(frame.shape)
            return FrameSource(frame)
        _refuse_dimensions(1, frame.to_list()[:3])
    return _open_numpy(_from_sequence(X))


def _open_numpy(x: HostArray) -> Source:
    kind = x.dtype.kind
    _check_array(x, is_complex=kind == "c")
    if kind in "fiub":
        if not x.dtype.isnative:
            x = x.astype(x.dtype.newbyteorder("="))
        return ArraySource(x)
    if kind in "USTO":
        return ObjectSource(x.astype(str).astype(object) if kind == "S" else x.astype(object, copy=False))
    raise TypeError(
        f"`X` must hold numbers, text or booleans; got dtype {x.dtype}. Convert dates to numbers first."
    )


def _check_array(x: Array, *, is_complex: bool) -> None:
    if x.ndim != 2:
        _refuse_dimensions(x.ndim, x)
    if is_complex:
        raise ValueError("Complex data not supported: `X` must hold real numbers. Pass X.real or X.imag.")
    _check_shape(x.shape)


def _fill_masked(x: np.ma.MaskedArray[Any, Any]) -> HostArray:
    is_number = x.dtype.kind in "fiub"
    values = np.array(x.data, dtype=np.promote_types(x.dtype, np.float32) if is_number else object)
    values[np.ma.getmaskarray(x)] = np.nan if is_number else None
    return values


def _from_sequence(X: Any) -> HostArray:
    try:
        x = np.asarray(X)
        if x.dtype.kind in "US" and isinstance(X, list | tuple):
            x = np.asarray(X, dtype=object)  # numbers beside text stay numbers
    except ValueError as error:
        raise ValueError(
            f"`X` must be a table whose rows have the same length; NumPy reports: {error}"
        ) from error
    return x


def _refuse_dimensions(ndim: int, x: Any) -> NoReturn:
    if ndim > 2:
        raise ValueError(
            f"Expected 2D array, got {ndim}D array instead. Reshape your data to rows and columns."
        )
    found = "scalar array" if ndim == 0 else "1D array"
    raise ValueError(
        f"Expected 2D array, got {found} instead:\narray={x}.\nReshape your data either using "
        "array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if it contains a "
        "single sample."
    )


def _check_shape(shape: tuple[int, ...]) -> None:
    for length, what in zip(shape, ("sample(s)", "feature(s)"), strict=True):
        if length == 0:
            raise ValueError(
                f"Found array with 0 {what} (shape={tuple(shape)}) while a minimum of 1 is required."
            )


def _check_columns(source: Source, schema: Schema) -> None:
    if source.shape[1] != schema.n_columns:
        raise ValueError(
            f"`X` has {source.shape[1]} columns; the model was fitted on {schema.n_columns}. "
            "Pass the same columns as in fit."
        )
    if schema.has_names and source.names is not None and source.names != schema.names:
        where = next(j for j in range(schema.n_columns) if source.names[j] != schema.names[j])
        raise ValueError(
            f"column {where} of `X` is {source.names[where]!r}; in fit it was {schema.names[where]!r}. "
            "Pass the columns under the same names in the same order: X[list(names)]."
        )
