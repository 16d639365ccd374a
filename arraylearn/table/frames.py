"""Data frames of any library that narwhals reads: pandas, polars, pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from arraylearn._typing import Array, Dtype, HostArray
from arraylearn.backend.namespace import Place, from_host
from arraylearn.backend.threads import parallel_map
from arraylearn.table.categories import distinct_numbers, encode_numbers, encode_objects
from arraylearn.table.schema import MISSING_CODE, Column, Schema, numeric_schema
from arraylearn.table.sources import Source, learn_object_column, objects_to_numbers

__all__ = ["FrameSource", "as_frame", "declared_series", "declared_values", "series_to_host"]


class Dictionary(NamedTuple):
    """A text column as integers."""

    codes: HostArray  # (n,), or MISSING_CODE
    values: list[Any]  # what they stand for
    is_declared: bool  # whether the column's type states the values, present or not


_ROWS = 4_096  # rows of a block whose columns are interleaved in the cache


def as_frame(X: Any) -> Any:
    """Return a narwhals data frame or series, or None if `X` is neither."""
    wrapped = nw.from_native(X, pass_through=True, allow_series=True)
    if isinstance(wrapped, nw.DataFrame | nw.Series):
        return wrapped
    if isinstance(wrapped, nw.LazyFrame):
        raise TypeError(f"`X` is a lazy frame ({type(X).__name__}). Call .collect() on it first.")
    return None


class FrameSource(Source):
    """A data frame: its string, categorical, enum and boolean columns are nominal."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.shape = frame.shape
        self.labels: list[Any] = frame.columns
        self.dtypes: list[Any] = list(frame.schema.values())
        is_named = all(isinstance(label, str) for label in self.labels)
        self.names = tuple(self.labels) if is_named else None
        self._columns: dict[int, Any] = {}
        self._texts: dict[int, Dictionary] = {}

    def learn(self, chosen: tuple[bool, ...] | None) -> tuple[Column, ...]:
        """Describe the columns."""
        return tuple(
            self._learn_column(j, name, None if chosen is None else chosen[j])
            if chosen or not self.dtypes[j].is_numeric()
            else Column(name, "numeric")
            for j, name in enumerate(self.names or numeric_schema(self.shape[1]).names)
        )

    def numeric(self, idx: Sequence[int], place: Place) -> Array:
        """Bring the numeric columns (n, d) to `place`."""
        dtypes = {self.dtypes[j] for j in idx}
        if len(idx) == self.shape[1] and dtypes == {nw.Float64()}:
            block = self.frame.to_numpy()  # one block of memory in pandas and polars
        else:
            host = np.float32 if dtypes == {nw.Float32()} else np.float64
            columns = [_to_numbers(self._series(j), host) for j in idx]
            block = _interleave(columns, self.shape[0], host)
        return from_host(block, place)

    def codes(self, schema: Schema, place: Place) -> Array:
        """Bring the codes (d, n) of the nominal columns to `place`."""
        codes = np.empty((len(schema.nominal_idx), self.shape[0]), dtype=np.int32)
        for i, (j, domain) in enumerate(zip(schema.nominal_idx, schema.domains, strict=True)):
            self._encode_column(j, domain, codes[i])
        return from_host(codes, place)

    # ---- one column; what was read from the frame to learn it is kept for encoding

    def _series(self, j: int) -> Any:
        if j not in self._columns:
            self._columns[j] = self.frame.get_column(self.labels[j])
        return self._columns[j]

    def _dictionary(self, j: int) -> Dictionary:
        if j not in self._texts:
            column = self._arrays[j]
            if hasattr(column, "categories"):
                self._texts[j] = Dictionary(column.codes, column.categories.to_list(), is_declared=True)
            else:
                self._texts[j] = _read_dictionary(self._series(j), self.dtypes[j])
        return self._texts[j]

    @cached_property
    def _arrays(self) -> list[Any]:
        """The arrays behind the columns of a pandas frame: ten times as fast to reach as its series."""
        if not self.frame.implementation.is_pandas():
            return [None] * self.shape[1]
        return [column.array for _, column in self.frame.to_native().items()]

    def _learn_column(self, j: int, name: str, is_nominal: bool | None) -> Column:
        dtype = self.dtypes[j]
        if is_nominal is not False and _is_text(dtype):
            return Column(name, "nominal", _text_domain(self._dictionary(j)))
        return _learn_column(self._series(j), name, is_nominal)

    def _encode_column(self, j: int, domain: tuple[Any, ...], out: HostArray) -> None:
        if not _is_text(self.dtypes[j]):
            out[:] = _encode_column(self._series(j), domain)
            return
        codes, values, _ = self._dictionary(j)
        if values == list(domain):
            out[:] = codes
        else:
            table = np.append(encode_objects(values, domain, repr(self.labels[j])), np.int32(MISSING_CODE))
            table.take(codes, mode="wrap", out=out)


def _is_text(dtype: Any) -> bool:
    return bool(dtype == nw.String) or _is_categorical(dtype)


def _is_categorical(dtype: Any) -> bool:
    return bool(dtype == nw.Categorical or dtype == nw.Enum)


def _learn_column(series: Any, name: str, is_nominal: bool | None) -> Column:
    """Describe a column that does not hold text, or is asked to be numeric."""
    dtype = series.dtype
    if dtype == nw.Object:
        return learn_object_column(series.to_list(), name, repr(name), is_nominal)
    can_be_read = _is_text(dtype) or dtype.is_numeric() or dtype == nw.Boolean
    if not can_be_read and series.null_count() < len(series):
        raise TypeError(
            f"column {name!r} has type {dtype}; numbers, strings, categories and booleans can be read. "
            "Convert it first."
        )
    if is_nominal is None:
        is_nominal = dtype == nw.Boolean
    if not is_nominal:
        if _is_text(dtype):
            raise ValueError(
                f"column {name!r} holds text ({dtype}) and is not among `categorical_features`. "
                "Name it there, or drop it."
            )
        return Column(name, "numeric")
    if dtype == nw.Boolean:
        return Column(name, "nominal", (False, True))
    return Column(name, "nominal", distinct_numbers(_to_numbers(series)[:, None], (0,))[0])


def _text_domain(text: Dictionary) -> tuple[Any, ...]:
    if text.is_declared:
        return tuple(text.values)
    is_present = np.zeros(len(text.values) + 1, dtype=bool)
    is_present[text.codes] = True  # MISSING_CODE marks the spare cell at the end
    return tuple(sorted(value for value, found in zip(text.values, is_present, strict=False) if found))


def _read_dictionary(series: Any, dtype: Any) -> Dictionary:
    """Return a text column as integers."""
    is_categorical = _is_categorical(dtype)
    if is_categorical and series.implementation.is_pandas() and not hasattr(series.to_native(), "cat"):
        series, is_categorical = series.cast(nw.String), False  # a dictionary of arrow
    if not is_categorical:
        series = series.cast(nw.Categorical)
    native, library = series.to_native(), series.implementation
    if library.is_pandas_like():
        return Dictionary(native.cat.codes.to_numpy(), native.cat.categories.to_list(), is_categorical)
    if library.is_polars():
        if dtype == nw.Enum:
            return Dictionary(_physical(native), list(dtype.categories), is_declared=True)
        distinct = native.unique().drop_nulls()
        positions = np.full(
            int(_physical(distinct).max(initial=MISSING_CODE)) + 2, MISSING_CODE, dtype=np.int64
        )
        positions[_physical(distinct)] = np.arange(len(distinct))
        codes = positions.take(_physical(native), mode="wrap")
        return Dictionary(codes, distinct.to_list(), is_declared=False)
    if library.is_pyarrow():
        array = native.unify_dictionaries().combine_chunks()
        indices = array.indices.cast("int64").fill_null(MISSING_CODE)
        codes = indices.to_numpy(zero_copy_only=False)
        return Dictionary(codes, array.dictionary.to_pylist(), is_declared=array.type.ordered)
    raise TypeError(f"text columns of {library} cannot be read. Convert the data frame to pandas or polars.")


def _physical(native: Any) -> HostArray:
    """Return the integers behind a polars categorical, MISSING_CODE for null."""
    return np.asarray(native.to_physical().cast(int).fill_null(MISSING_CODE))


def _encode_column(series: Any, domain: tuple[Any, ...]) -> HostArray:
    dtype, name = series.dtype, series.name
    if series.null_count() == len(series):
        return np.full(len(series), MISSING_CODE, dtype=np.int32)
    if dtype == nw.Object or any(isinstance(value, str) for value in domain):
        if dtype != nw.Object:
            raise ValueError(
                f"column {name!r} held text in fit; got {dtype}. Pass the categories themselves."
            )
        return encode_objects(series.to_list(), domain, repr(name))
    return encode_numbers(_to_numbers(series)[:, None], (0,), (domain,)).reshape(-1)


def _to_numbers(series: Any, dtype: Dtype | None = None) -> HostArray:
    """Return a column as numbers; null becomes NaN."""
    if series.dtype == nw.Object:
        return objects_to_numbers(series.to_list(), repr(series.name))
    if series.null_count() == len(series):  # a column of missing values alone may have no type
        return np.full(len(series), np.nan, dtype=dtype)
    if _is_text(series.dtype):
        raise ValueError(
            f"column {series.name!r} was numeric in fit; got {series.dtype}. Convert it to numbers."
        )
    is_exact = series.dtype.is_float() or (series.dtype.is_integer() and not series.null_count())
    if not is_exact:  # booleans, decimals, integers with nulls
        series = series.cast(nw.Float64)
    return np.asarray(series.to_numpy(), dtype=dtype)


def _interleave(columns: list[HostArray], n: int, dtype: Dtype) -> HostArray:
    """Return columns as a row-major table, block by block so that reads and writes stay in the cache."""
    block = np.empty((n, len(columns)), dtype=dtype)

    def fill(start: int) -> None:
        rows = slice(start, min(start + _ROWS, n))
        block[rows] = np.stack([column[rows] for column in columns]).T

    if columns:
        parallel_map(fill, range(0, n, _ROWS))
    return block


def declared_series(name: str, values: list[Any], domain: Sequence[str], library: Any) -> Any:
    """Make a column of text whose type declares its values in their order; None is missing."""
    native = library.to_native_namespace()
    if library.is_polars():
        made = native.Series(name, values, dtype=native.Enum(list(domain)))
    elif library.is_pyarrow():
        position = {value: code for code, value in enumerate(domain)}
        codes = native.array([position.get(value) for value in values], native.int32())
        words = native.array(list(domain), native.string())
        # in Arrow's terms an ordered dictionary is one whose order has a meaning
        made = native.chunked_array([native.DictionaryArray.from_arrays(codes, words, ordered=True)])
    else:
        made = native.Series(native.Categorical(values, categories=list(domain)), name=name)
    return nw.from_native(made, series_only=True).alias(name)


def declared_values(series: Any) -> tuple[Any, ...] | None:
    """Return the values that the type of a column of text declares; None where it declares none."""
    if not _is_categorical(series.dtype):
        return None
    found = _read_dictionary(series, series.dtype)
    return tuple(found.values) if found.is_declared else None


def series_to_host(series: Any) -> HostArray:
    """Return a column as a NumPy array; categories become objects, null None or NaN."""
    if _is_categorical(series.dtype) and not series.implementation.is_pandas_like():
        series = series.cast(nw.String)  # narwhals 2.28 loses the nulls of an arrow dictionary otherwise
    return np.asarray(series.to_numpy())
