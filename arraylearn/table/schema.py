"""What a table's columns are: which are nominal, their categories, and a table read by that knowledge."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np

from arraylearn._typing import Array

__all__ = [
    "MISSING_CODE",
    "Column",
    "ExtendedSchema",
    "Schema",
    "Table",
    "choose_nominal",
    "extend_schema",
    "numeric_schema",
]

# The code of a missing value of a nominal column; a category that `fit` has not met counts as missing.
MISSING_CODE = -1


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name : str
        Its name in the data frame, or ``"x0"``, ``"x1"``, ... for a plain array.
    kind : {"numeric", "nominal"}
        Numbers that have an order and distances, or categories.
    domain : tuple or None
        The categories of a nominal column as host scalars, code 0 first: declared order for a categorical
        type that declares one, sorted otherwise. None for a numeric column.
    """

    name: str
    kind: Literal["numeric", "nominal"]
    domain: tuple[Any, ...] | None = None

    @property
    def is_nominal(self) -> bool:
        """Whether the column holds categories."""
        return self.kind == "nominal"


@dataclass(frozen=True)
class Schema:
    """The columns of a table, as learned in fit.

    Attributes
    ----------
    columns : tuple of Column
        In the order of the input.
    has_names : bool
        Whether the names come from the user's data frame (all of them strings).

    Examples
    --------
    >>> from arraylearn.table import learn_schema
    >>> schema = learn_schema([["sunny", 20.5], ["rain", 11.0]])
    >>> schema.nominal_idx, schema.numeric_idx, schema.n_values
    ((0,), (1,), (2,))
    >>> schema.columns[0].domain
    ('rain', 'sunny')
    """

    columns: tuple[Column, ...]
    has_names: bool = False

    @property
    def n_columns(self) -> int:
        """Number of columns of the input."""
        return len(self.columns)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def numeric_idx(self) -> tuple[int, ...]:
        """Positions of the numeric columns in the input."""
        return tuple(j for j, column in enumerate(self.columns) if not column.is_nominal)

    @cached_property
    def nominal_idx(self) -> tuple[int, ...]:
        """Positions of the nominal columns in the input."""
        return tuple(j for j, column in enumerate(self.columns) if column.is_nominal)

    @cached_property
    def domains(self) -> tuple[tuple[Any, ...], ...]:
        """Categories of the nominal columns, in order."""
        return tuple(column.domain or () for column in self.columns if column.is_nominal)

    @cached_property
    def text_values(self) -> tuple[str | None, ...]:
        """For each nominal column, in order, a category that is text; None where there is none."""
        return tuple(
            next((value for value in domain if isinstance(value, str)), None) for domain in self.domains
        )

    @cached_property
    def n_values(self) -> tuple[int, ...]:
        """Number of categories of the nominal columns, in order."""
        return tuple(len(domain) for domain in self.domains)

    def with_names(self, names: Sequence[str] | None) -> Schema:
        """Return the same columns under other names; None keeps the present ones."""
        if names is None:
            return self
        given = [str(name) for name in names]
        if isinstance(names, str) or len(given) != self.n_columns:
            raise ValueError(
                f"`feature_names` must hold one name for each of the {self.n_columns} columns; got {names!r}."
            )
        columns = tuple(replace(column, name=name) for column, name in zip(self.columns, given, strict=True))
        return Schema(columns, has_names=True)


class Table(NamedTuple):
    """A table at the place where computations run."""

    numeric: Array  # (n, d_numeric) float32 or float64; NaN is missing
    codes: Array  # (d_nominal, n) int32, column-major, or MISSING_CODE
    schema: Schema

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.numeric.shape[0])


@lru_cache(maxsize=128)
def numeric_schema(n_columns: int) -> Schema:
    """Return the schema of a plain array of numbers; cached by the number of columns."""
    return Schema(tuple(Column(f"x{j}", "numeric") for j in range(n_columns)))


# ---- which columns are nominal


def choose_nominal(chosen: Any, n_columns: int, names: tuple[str, ...] | None) -> tuple[bool, ...] | None:
    """Turn ``categorical_features`` into a mask; None for "from_dtype": the types of the columns decide."""
    if isinstance(chosen, str):
        if chosen == "from_dtype":
            return None
        _refuse_choice(f"got {chosen!r}. A single name goes into a list: [{chosen!r}]")
    if chosen is None:
        return (False,) * n_columns
    if not isinstance(chosen, Iterable):
        _refuse_choice(f"got {chosen!r}")
    entries = [entry.item() if isinstance(entry, np.generic) else entry for entry in chosen]
    if entries and all(isinstance(entry, bool) for entry in entries):
        if len(entries) != n_columns:
            _refuse_choice(f"got a mask of {len(entries)} for {n_columns} columns")
        return tuple(entries)
    positions = {_position(entry, n_columns, names) for entry in entries}
    return tuple(j in positions for j in range(n_columns))


def _position(entry: Any, n_columns: int, names: tuple[str, ...] | None) -> int:
    if isinstance(entry, str):
        if names is None:
            _refuse_choice(f"got the name {entry!r}, but `X` has no column names")
        if entry not in names:
            _refuse_choice(f"got {entry!r}; the columns are {', '.join(map(repr, names))}")
        return names.index(entry)
    try:
        position = operator.index(entry)
    except TypeError:
        _refuse_choice(f"got {entry!r}")
    if isinstance(entry, bool) or not 0 <= position < n_columns:
        _refuse_choice(f"got {entry!r} for {n_columns} columns")
    return position


def _refuse_choice(what: str) -> NoReturn:
    raise ValueError(
        "`categorical_features` must be 'from_dtype', None, positions, a mask over all columns, or names of "
        f"a data frame's columns; {what}."
    )


# ---- categories of later rows


class ExtendedSchema(NamedTuple):
    """A schema with the categories of two sets of rows."""

    schema: Schema
    positions: tuple[tuple[int, ...], ...]  # per nominal column: the new codes of its old categories

    @property
    def has_new(self) -> bool:
        """Whether a column has more categories than before."""
        return any(len(old) < new for old, new in zip(self.positions, self.schema.n_values, strict=True))


def extend_schema(old: Schema, new: Schema) -> ExtendedSchema:
    """Add the categories of later rows to a schema; columns that are numeric in `old` stay so.

    Where a column has new categories, all of them are sorted as `learn_schema` does; otherwise its order
    stays.

    >>> from arraylearn.table import learn_schema
    >>> from arraylearn.table.schema import extend_schema
    >>> extended = extend_schema(learn_schema([["a"], ["c"]]), learn_schema([["b"]]))
    >>> extended.schema.domains, extended.positions
    ((('a', 'b', 'c'),), ((0, 2),))
    """
    columns, positions = [], []
    for column, later in zip(old.columns, new.columns, strict=True):
        if not column.is_nominal:
            columns.append(column)
            continue
        known = column.domain or ()
        domain = _joined(known, (later.domain or ()) if later.is_nominal else ())
        place = {value: position for position, value in enumerate(domain)}
        columns.append(Column(column.name, "nominal", domain))
        positions.append(tuple(place[value] for value in known))
    return ExtendedSchema(Schema(tuple(columns), old.has_names), tuple(positions))


def _joined(known: tuple[Any, ...], later: tuple[Any, ...]) -> tuple[Any, ...]:
    seen = set(known)
    added = [value for value in later if value not in seen]
    if not added:
        return known
    return tuple(sorted([*known, *added], key=lambda value: (isinstance(value, str), value)))
