"""Tables from files: CSV, ARFF and Parquet to a data frame, a target split off.

Numbers and text are distinguished in the same way whichever data frame library is installed: a column is
numeric if everything in it that is not missing reads as a number. Empty cells, ``?``, ``NA``, ``NaN`` and
``null`` are missing.
"""

from __future__ import annotations

import csv
import importlib.util
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO

import narwhals.stable.v2 as nw
import numpy as np

from arraylearn.backend.dispatch import get_tuning
from arraylearn.checks import list_some
from arraylearn.io.arff import arff_rows, read_arff_header
from arraylearn.io.parquet import plain_columns
from arraylearn.table import DeclaredLabels
from arraylearn.table.categories import is_missing_object
from arraylearn.table.frames import declared_series, declared_values, series_to_host

__all__ = ["read_table_file", "split_target"]

# A fit to text columns of pyarrow takes a quarter of the time of the others, or less.
_BEST_FOR_TEXT = "pyarrow"
_MISSING = {"", "?", "na", "nan", "null", "none"}

# "any": text or numbers, depending on the cells; "string": text, only None is missing; a tuple: its values
Kind = Literal["numeric", "text", "any", "string"] | tuple[str, ...]


class Wanted(NamedTuple):
    """The columns to read from a file."""

    columns: Collection[str] | None  # None: all
    text: Collection[str]


def read_table_file(
    path: str | os.PathLike[str], *, columns: Collection[str] | None = None, text: Collection[str] = ()
) -> Any:
    """Read a CSV (``.csv``, ``.tsv``, ``.txt``), ARFF or Parquet file, by its ending, into a data frame.

    A CSV file has a header line. The frame is one of polars, pyarrow or pandas, whichever is installed. Of
    `columns` only those that the file has are read, and the others may be of any type; default: all. Columns
    of `text` are text even if everything in them reads as a number.
    """
    place = Path(path)
    readers: dict[str, Callable[[Path, Wanted], Any]] = {
        ".csv": _read_csv,
        ".tsv": _read_csv,
        ".txt": _read_csv,
        ".arff": _read_arff,
        ".parquet": _read_parquet,
    }
    reader = readers.get(place.suffix.lower())
    if reader is None:
        known = ", ".join(readers)
        raise ValueError(f"`path` must end with one of {known}; got {place.name!r}.")
    if not place.is_file():
        if place.is_dir():
            raise ValueError(f"`path` must name a file; {str(place)!r} is a folder.")
        raise ValueError(f"`path`: there is no file {str(place)!r}.")
    wanted = Wanted(None if columns is None else frozenset(columns), frozenset(text))
    frame = reader(place, wanted)
    # without any of the wanted columns there are no rows to count: the caller reports what is missing
    if not frame.shape[0] and (frame.shape[1] or columns is None):
        raise ValueError(f"`path`: {str(place)!r} holds no rows.")
    return nw.to_native(frame)


def _library(best: str) -> Any:
    """Return an installed data frame library: `best` if it is installed, else another."""
    for name in sorted(get_tuning().frame_libraries, key=lambda name: name != best):
        if importlib.util.find_spec(name) is not None:
            return name
    raise ValueError(
        "reading files needs a data frame library and found none: pip install 'arraylearn[files]' (pyarrow), "
        "polars or pandas."
    )


def _read_parquet(path: Path, wanted: Wanted) -> Any:
    library = _library("polars")  # 100,000 columns: a fifth of the time of the others
    try:
        frame = nw.read_parquet(str(path), backend=library)
    except Exception as error:  # each library has its own classes for a file it cannot read
        raise ValueError(f"`path`: {str(path)!r} cannot be read as Parquet: {error}") from error
    if wanted.columns is not None:
        frame = frame.select([name for name in frame.columns if name in wanted.columns])
    return plain_columns(frame, path, wanted.text)


def _read_csv(path: Path, wanted: Wanted) -> Any:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            separator = _separator(file)
            rows = csv.reader(file, delimiter=separator, skipinitialspace=True)
            n_empty, header = next(((i, row) for i, row in enumerate(rows) if row), (0, None))
            if header is None:
                raise ValueError(f"`path`: {str(path)!r} is empty.")
            names = _distinct([name.strip() for name in header], path)
            text = None if n_empty or "\n" in "".join(header) else _read_cells(path, separator, names)
            frame = None if text is None else _convert_cells(text, wanted)
            if frame is None:
                cells: Iterable[list[str | None]] = ([cell.strip() for cell in row] for row in rows if row)
                frame = _frame(path, dict.fromkeys(names, "any"), cells, wanted)
            return frame
    except UnicodeDecodeError as error:
        raise ValueError(f"`path`: {str(path)!r} is not UTF-8 text ({error}). Convert it first.") from error
    except csv.Error as error:
        raise ValueError(f"`path`: {str(path)!r} cannot be read as text with separators: {error}.") from error


def _separator(file: TextIO) -> str:
    """Return the separator that the header has most of; a name may contain the others."""
    first = file.readline()
    file.seek(0)
    return max("\t;,", key=lambda mark: (first.count(mark), mark == ","))


def _read_cells(path: Path, separator: str, names: list[str]) -> Any:
    """Read the lines below the header by a data frame library: a frame of text, or None where it cannot.

    None also if a row may be short, which these libraries fill up: then the last column has an empty cell.
    """
    library = _library(_BEST_FOR_TEXT)
    given: dict[str, Any]
    try:
        if library == "pyarrow":
            import pyarrow as pa
            from pyarrow import csv as arrow

            native = arrow.read_csv(
                path,
                arrow.ReadOptions(column_names=names, skip_rows=1),
                arrow.ParseOptions(delimiter=separator, newlines_in_values=True),
                arrow.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
            )
        elif library == "polars":
            import polars as pl

            given = {"separator": separator, "new_columns": names, "infer_schema": False}
            native = pl.read_csv(path, has_header=False, skip_rows=1, **given)
        else:
            import pandas as pd

            given = {"sep": separator, "names": names, "dtype": str, "na_filter": False}
            native = pd.read_csv(path, header=None, skiprows=1, index_col=False, **given)
    except Exception:  # each library has its own classes; Python reads the rows again and reports the error
        return None
    frame = nw.from_native(native, eager_only=True)
    last = frame[:, -1]
    may_be_short = not len(frame) or (last.is_null() | (last == "")).any()
    return frame if list(frame.columns) == names and not may_be_short else None


def _convert_cells(frame: Any, wanted: Wanted) -> Any:
    """Turn the columns of numbers of a frame of text into such; None where the text needs another reader."""
    kept = [name for name in frame.columns if wanted.columns is None or name in wanted.columns]
    made = {name: _as_numbers(frame[name]) for name in kept if name not in wanted.text}
    others = [name for name in kept if made.get(name) is None]
    cells = (nw.col(name).str.strip_chars() for name in others)
    known = frame.select(nw.when(~cell.str.to_lowercase().is_in(list(_MISSING))).then(cell) for cell in cells)
    for name in others:
        numbers = None if name in wanted.text else _as_numbers(known[name])
        made[name] = known[name] if numbers is None else numbers
        if numbers is None and not (name in wanted.text or _is_text(known[name])):
            return None
    # a quote after a space opens a cell, which the libraries do not know
    is_quoted = (made[name].str.starts_with('"').any() for name in kept if made[name].dtype == nw.String)
    return None if any(is_quoted) else frame.select(made[name].alias(name) for name in kept)


def _as_numbers(cells: Any) -> Any:
    """Return text as float64, None as NaN, or None where a cell is no number."""
    try:
        return cells.cast(nw.Float64).fill_null(float("nan"))
    except Exception:  # each library has its own class for it
        return None


def _is_text(cells: Any) -> bool:
    """Whether a column has a cell that Python cannot read as a number, or nothing at all."""
    known = cells.drop_nulls()
    return not len(known) or not all(map(_reads_as_number, known.to_list()))


def _reads_as_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _distinct(names: list[str], path: Path) -> list[str]:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(
            f"`path`: {str(path)!r} has several columns named {list_some(repeated)}. Rename or drop them."
        )
    return names


def _read_arff(path: Path, wanted: Wanted) -> Any:
    """Read Weka's format; nominal attributes keep their declared values, even if these are numbers."""
    with path.open(encoding="utf-8", errors="replace") as file:
        attributes = read_arff_header(file, path)
        _distinct([name for name, _ in attributes], path)
        return _frame(path, dict(attributes), arff_rows(file, path), wanted)


def _frame(path: Path, columns: dict[str, Kind], rows: Iterable[list[str | None]], wanted: Wanted) -> Any:
    """Make a data frame of rows of text."""
    library = _library(_BEST_FOR_TEXT)
    table: list[list[str | None]] = []
    for number, row in enumerate(rows, start=1):
        if len(row) != len(columns):
            raise ValueError(
                f"`path`: row {number} of {str(path)!r} has {len(row)} cells; the header has {len(columns)}."
            )
        table.append(row)
    made = {
        name: _column(list(cells), _kind(kind, name in wanted.text), name, path)
        for (name, kind), cells in zip(columns.items(), zip(*table, strict=True), strict=bool(table))
        if wanted.columns is None or name in wanted.columns
    }
    frame = nw.from_dict(made, backend=library)
    # a list of None alone has no type
    untyped = [name for name, dtype in frame.schema.items() if name in wanted.text and dtype != nw.String]
    frame = frame.with_columns(nw.col(*untyped).cast(nw.String)) if untyped else frame
    declared = [
        declared_series(name, made[name], kind, frame.implementation)
        for name, kind in columns.items()
        if name in made and isinstance(kind, tuple)
    ]
    return frame.with_columns(*declared) if declared else frame


def _kind(declared: Kind, is_text: bool) -> Kind:
    return "text" if is_text and declared in ("numeric", "any") else declared


def _column(cells: list[str | None], kind: Kind, name: str, path: Path) -> Any:
    if isinstance(kind, tuple):
        unknown = sorted({cell for cell in cells if cell is not None} - set(kind))
        if unknown:
            raise ValueError(
                f"`path`: attribute {name!r} of {str(path)!r} has the value {unknown[0]!r}; it declares "
                f"{list_some(kind, 5)}. Add the value there."
            )
    if kind == "string" or isinstance(kind, tuple):
        return cells
    is_missing = [cell is None or cell.lower() in _MISSING for cell in cells]
    if kind != "text":
        filled = ["nan" if missing else cell for cell, missing in zip(cells, is_missing, strict=True)]
        try:
            return np.asarray(filled, dtype=np.str_).astype(np.float64)
        except ValueError as error:
            if kind == "numeric":
                raise ValueError(f"`path`: numeric attribute {name!r} of {str(path)!r}: {error}.") from None
    return [None if missing else cell for cell, missing in zip(cells, is_missing, strict=True)]


def split_target(frame: Any, target: str | None) -> tuple[Any, Any, str]:
    """Return the other columns, the labels and the name of the target, by default the last column.

    Labels that are whole numbers come as integers. Where a column declares its values, their order is that of
    the classes.
    """
    wrapped = nw.from_native(frame, eager_only=True)
    names = wrapped.columns
    name = names[-1] if target is None else target
    if name not in names:
        raise ValueError(f"`target` must be a column of the file ({list_some(names)}); got {name!r}.")
    if len(names) == 1:
        raise ValueError(f"`target`: the file has no column besides {name!r}.")
    column = wrapped.get_column(name)
    labels, declared = series_to_host(column), declared_values(column)
    n_missing = sum(map(is_missing_object, labels.tolist()))
    if n_missing:
        raise ValueError(f"`target`: {n_missing} rows have no {name!r}. Drop them first.")
    # beyond 2**53 a float no longer identifies one integer
    if labels.dtype.kind == "f" and bool(((labels == np.round(labels)) & (np.abs(labels) < 2**53)).all()):
        labels = labels.astype(np.int64)
    if declared is not None:
        labels = DeclaredLabels.of(labels, declared)
    return nw.to_native(wrapped.drop(name)), labels, name
