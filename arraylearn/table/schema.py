"""What a table's columns are, and a table read by that knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

from arraylearn._typing import Array

__all__ = ["Column", "Schema", "Table", "numeric_schema"]


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
    """A table at the place where it is computed with."""

    numeric: Array  # (n, d_numeric) float32 or float64; NaN is missing
    codes: Array  # (d_nominal, n) int32, column-major; -1 is missing
    schema: Schema

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.numeric.shape[0])


@lru_cache(maxsize=128)
def numeric_schema(n_columns: int) -> Schema:
    """Return the schema of a plain array of numbers; one object per width."""
    return Schema(tuple(Column(f"x{j}", "numeric") for j in range(n_columns)))
