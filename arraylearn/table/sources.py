"""Inputs behind one interface, `Source`, and arrays of objects (numbers: `read.py`; frames: `frames.py`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.namespace import Place, from_host
from arraylearn.table.categories import distinct_objects, encode_objects, is_missing_object, refuse_objects
from arraylearn.table.schema import Column, Schema

__all__ = ["ObjectSource", "Source", "refuse_text_domain"]


class Source(ABC):
    """An input that passed the checks at the door."""

    shape: tuple[int, int]
    names: tuple[str, ...] | None = None

    @abstractmethod
    def learn(self, chosen: tuple[bool, ...] | None) -> tuple[Column, ...]:
        """Describe the columns; `chosen` marks the nominal ones; None: their types decide."""

    @abstractmethod
    def numeric(self, idx: Sequence[int], place: Place) -> Array:
        """Bring the numeric columns (n, d) to `place`."""

    @abstractmethod
    def codes(self, schema: Schema, place: Place) -> Array:
        """Bring the codes (d, n) of the nominal columns to `place`."""


def refuse_text_domain(schema: Schema) -> None:
    """Raise where a column of numbers arrives for categories that are text."""
    for j, text in zip(schema.nominal_idx, schema.text_values, strict=True):
        if text is not None:
            raise ValueError(
                f"column {schema.names[j]!r} held categories such as {text!r} in fit; got numbers. "
                "Pass the categories themselves."
            )


class ObjectSource(Source):
    """A two-dimensional NumPy array of objects or strings."""

    def __init__(self, x: HostArray) -> None:
        self.x = x
        self.shape = (x.shape[0], x.shape[1])

    def learn(self, chosen: tuple[bool, ...] | None) -> tuple[Column, ...]:
        """Describe the columns."""
        return tuple(
            learn_object_column(self.x[:, j].tolist(), f"x{j}", j, None if chosen is None else chosen[j])
            for j in range(self.shape[1])
        )

    def numeric(self, idx: Sequence[int], place: Place) -> Array:
        """Bring the numeric columns (n, d) to `place`."""
        block = np.empty((self.shape[0], len(idx)), dtype=np.float64)
        for position, j in enumerate(idx):
            block[:, position] = objects_to_numbers(self.x[:, j].tolist(), j)
        return from_host(block, place)

    def codes(self, schema: Schema, place: Place) -> Array:
        """Bring the codes (d, n) of the nominal columns to `place`."""
        codes = np.empty((len(schema.nominal_idx), self.shape[0]), dtype=np.int32)
        for i, (j, domain) in enumerate(zip(schema.nominal_idx, schema.domains, strict=True)):
            codes[i] = encode_objects(self.x[:, j].tolist(), domain, j)
        return from_host(codes, place)


def learn_object_column(values: list[Any], name: str, column: object, is_nominal: bool | None) -> Column:
    """Describe a column of Python objects: numbers make it numeric, anything else nominal."""
    if is_nominal is None:
        is_nominal = _holds_categories(values)
    if not is_nominal:
        objects_to_numbers(values, column)
        return Column(name, "numeric")
    return Column(name, "nominal", distinct_objects(values, column))


def _holds_categories(values: list[Any]) -> bool:
    """Whether values are other things than numbers; booleans alone are categories, as in a data frame."""
    types = set(map(type, values))
    if not all(_is_number_type(kind) for kind in types):
        return True
    if not types & {bool, np.bool_}:
        return False
    return all(isinstance(value, bool | np.bool_) or is_missing_object(value) for value in values)


def _is_number_type(kind: type) -> bool:
    if kind in (float, int, bool, type(None)):
        return True
    if issubclass(kind, complex | np.complexfloating):
        return False
    return kind.__name__ in ("NAType", "NaTType", "Decimal", "Fraction") or issubclass(kind, _NUMBERS)


_NUMBERS = (int, float, np.number, np.bool_)


def objects_to_numbers(values: list[Any], column: object) -> HostArray:
    """Convert Python objects to float64; missing ones become NaN."""
    foreign = {kind for kind in set(map(type, values)) if not _is_number_type(kind)}
    if foreign:
        refuse_objects(values, column)
        text = next(value for value in values if type(value) in foreign)
        raise ValueError(
            f"column {column} is numeric; got the text {text!r}. "
            "Convert it to numbers, or name the column in `categorical_features`."
        )
    try:
        return np.array(values, dtype=np.float64)
    except TypeError:  # a data frame library's NA
        return np.array([np.nan if is_missing_object(value) else value for value in values], dtype=np.float64)
