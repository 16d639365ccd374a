"""The column types of a Parquet file: which of them are rows of numbers and categories, and which are not."""

from __future__ import annotations

import datetime
import decimal
import numbers
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from arraylearn.checks import list_some
from arraylearn.table.categories import is_missing_object

__all__ = ["plain_columns"]

# the columns in which pandas stores its row index, which is not data
_ROW_NUMBERS = re.compile(r"__index_level_\d+__")
# pandas keeps these as Python objects; the other libraries have types of these names
_OBJECT_TYPES: dict[type, str] = {
    bytes: "Binary",
    list: "List",
    np.ndarray: "List",
    dict: "Struct",
    datetime.datetime: "Datetime",
    datetime.date: "Date",
    datetime.time: "Time",
    datetime.timedelta: "Duration",
}


def plain_columns(frame: Any, path: Path, text: Collection[str] = ()) -> Any:
    """Return a frame of numbers, booleans, text and categories, or raise for the columns of other types.

    Decimals and columns without any value become float64, numbers in the columns `text` become text. The row
    numbers of pandas are left out.
    """
    frame = frame.drop([name for name in frame.columns if _ROW_NUMBERS.fullmatch(name)])
    refused: dict[str, str] = {}
    casts: dict[str, Any] = {}
    for name, dtype in frame.schema.items():
        if dtype in (nw.Object, nw.Unknown):
            kind = _type_of_values(frame.get_column(name))
        else:
            kind = "decimal" if dtype == nw.Decimal else None if _is_plain(dtype) else type(dtype).__name__
        if name in text and (kind in ("decimal", "nothing") or dtype.is_numeric()):
            casts[name] = nw.String
        elif kind in ("decimal", "nothing"):
            casts[name] = nw.Float64
        elif kind is not None:
            refused[name] = kind
    if refused:
        raise ValueError(_refusal(refused, path))
    return frame.with_columns(*[nw.col(name).cast(dtype) for name, dtype in casts.items()])


def _is_plain(dtype: Any) -> bool:
    return bool(dtype.is_numeric()) or dtype in (nw.Boolean, nw.String, nw.Categorical, nw.Enum)


def _type_of_values(series: Any) -> str | None:
    """Name the type of values whose column has none; None: those that can stay."""
    kinds = {type(value) for value in series.to_list() if not is_missing_object(value)}
    if not kinds:
        return "nothing"
    if all(issubclass(kind, decimal.Decimal) for kind in kinds):
        return "decimal"
    for kind in kinds:
        if not issubclass(kind, str | numbers.Number | np.generic):
            return next((name for known, name in _OBJECT_TYPES.items() if issubclass(kind, known)), "Unknown")
    return None


def _refusal(refused: dict[str, str], path: Path) -> str:
    name, kind = next(iter(refused.items()))
    others = list(refused)[1:]
    more = f"; the same holds for {list_some(others, 5)}" if others else ""
    return (
        f"`path`: column {name!r} of {str(path)!r} has type {kind}; numbers, booleans, text and categories "
        f"can be read{more}. Drop the column, or convert it to those first."
    )
