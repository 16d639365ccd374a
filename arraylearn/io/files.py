"""Tables from files: CSV, ARFF and Parquet to a data frame, a target split off.

Numbers and text are told apart in the same way whichever data frame library is installed: a column is
numeric if everything in it that is not missing reads as a number. Empty cells, ``?``, ``NA``, ``NaN`` and
``null`` are missing.
"""

from __future__ import annotations

import csv
import importlib.util
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

import narwhals.stable.v2 as nw
import numpy as np

__all__ = ["read_table_file", "split_target"]

_MISSING = {"", "?", "na", "nan", "null", "none"}
_FRAMES = ("polars", "pyarrow", "pandas")
_ATTRIBUTE = re.compile(r"""@attribute\s+('(?:[^'\\]|\\.)*'|"[^"]*"|\S+)\s+(.+)""", flags=re.IGNORECASE)


def read_table_file(path: str | os.PathLike[str]) -> Any:
    """Read a CSV (``.csv``, ``.tsv``, ``.txt``), ARFF or Parquet file into a data frame.

    Parameters
    ----------
    path : path-like
        A file with a header line (CSV) or header section (ARFF); the ending says which.

    Returns
    -------
    data frame
        Of polars, pyarrow or pandas, whichever is installed.
    """
    place = Path(path)
    readers: dict[str, Callable[[Path], Any]] = {
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
        raise ValueError(f"`path`: there is no file {str(place)!r}.")
    frame = reader(place)
    if not frame.shape[0] or not frame.shape[1]:
        raise ValueError(f"`path`: {str(place)!r} holds no rows.")
    return nw.to_native(frame)


def _library() -> Any:
    for name in _FRAMES:
        if importlib.util.find_spec(name) is not None:
            return name
    raise ValueError(
        "reading files needs a data frame library and found none: pip install 'arraylearn[files]' (pyarrow), "
        "polars or pandas."
    )


def _read_parquet(path: Path) -> Any:
    try:
        return nw.read_parquet(str(path), backend=_library())
    except Exception as error:  # each library has its own classes for a file it cannot read
        raise ValueError(f"`path`: {str(path)!r} cannot be read as Parquet: {error}") from error


def _read_csv(path: Path) -> Any:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = _csv_rows(file, path)
        header = next(rows, None)
        if header is None:
            raise ValueError(f"`path`: {str(path)!r} is empty.")
        names = [name.strip() for name in header]
        return _frame(path, names, [None] * len(names), rows)


def _csv_rows(file: TextIO, path: Path) -> Iterator[list[str]]:
    first = file.readline()
    file.seek(0)
    # the separator that the header has most of; a name may contain the others
    separator = max("\t;,", key=lambda mark: (first.count(mark), mark == ","))
    try:
        yield from (row for row in csv.reader(file, delimiter=separator, skipinitialspace=True) if row)
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"`path`: {str(path)!r} cannot be read as text with separators: {error}") from error


def _read_arff(path: Path) -> Any:
    """Read a file of Weka's; nominal attributes stay text even if their values are numbers."""
    names: list[str] = []
    kinds: list[bool | None] = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            stripped = line.strip()
            if stripped.lower().startswith("@data"):
                break
            if found := _ATTRIBUTE.match(stripped):
                names.append(found[1].strip("'\""))
                kinds.append(_is_arff_text(found[2].strip(), names[-1], path))
        if not names:
            raise ValueError(f"`path`: {str(path)!r} declares no @attribute.")
        return _frame(path, names, kinds, _arff_rows(file, path))


def _is_arff_text(kind: str, name: str, path: Path) -> bool:
    word = kind.lower()
    if word.startswith(("numeric", "real", "integer")):
        return False
    if word.startswith(("{", "string")):
        return True
    raise ValueError(
        f"`path`: attribute {name!r} of {str(path)!r} has type {kind!r}; numeric, real, integer, string and "
        "nominal ones can be read."
    )


def _arff_rows(lines: Iterable[str], path: Path) -> Iterator[list[str]]:
    for line in lines:
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        if text.startswith("{"):
            raise ValueError(
                f"`path`: {str(path)!r} has sparse rows, which cannot be read. Write them in full."
            )
        yield next(csv.reader([text], quotechar='"' if '"' in text else "'", skipinitialspace=True))


def _frame(path: Path, names: list[str], is_text: list[bool | None], rows: Iterable[list[str]]) -> Any:
    """Make a data frame of rows of text; `is_text` says what a column is, None: look at it."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"`path`: {str(path)!r} has several columns named {repeated[0]!r}.")
    table = []
    for number, row in enumerate(rows, start=1):
        if len(row) != len(names):
            raise ValueError(
                f"`path`: row {number} of {str(path)!r} has {len(row)} cells; the header has {len(names)}."
            )
        table.append(row)
    columns = {
        name: _column([cell.strip() for cell in cells], kind, name, path)
        for name, kind, cells in zip(names, is_text, zip(*table, strict=True), strict=bool(table))
    }
    return nw.from_dict(columns, backend=_library())


def _column(cells: list[str], is_text: bool | None, name: str, path: Path) -> Any:
    if is_text:
        return [None if cell == "?" else cell for cell in cells]
    is_missing = [cell.lower() in _MISSING for cell in cells]
    filled = ["nan" if missing else cell for cell, missing in zip(cells, is_missing, strict=True)]
    try:
        return np.asarray(filled, dtype=np.str_).astype(np.float64)
    except ValueError as error:
        if is_text is False:
            raise ValueError(f"`path`: numeric attribute {name!r} of {str(path)!r}: {error}.") from None
        return [None if missing else cell for cell, missing in zip(cells, is_missing, strict=True)]


def split_target(frame: Any, target: str | None) -> tuple[Any, Any, str]:
    """Return the other columns, the labels and the name of the target, by default the last column.

    Labels that are whole numbers come as integers.
    """
    wrapped = nw.from_native(frame, eager_only=True)
    name = wrapped.columns[-1] if target is None else target
    if name not in wrapped.columns:
        known = ", ".join(map(repr, wrapped.columns))
        raise ValueError(f"`target` must be a column of the file ({known}); got {name!r}.")
    if len(wrapped.columns) == 1:
        raise ValueError(f"`target`: the file has no column besides {name!r}.")
    labels = wrapped.get_column(name).to_numpy()
    is_missing = [label is None or label != label for label in labels.tolist()]
    if any(is_missing):
        raise ValueError(f"`target`: {sum(is_missing)} rows have no {name!r}. Drop them first.")
    if labels.dtype.kind == "f" and bool((labels == np.round(labels)).all()):
        labels = labels.astype(np.int64)
    return nw.to_native(wrapped.drop(name)), labels, name
