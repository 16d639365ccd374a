"""Extend a schema by the categories that later rows bring."""

from __future__ import annotations

from typing import Any, NamedTuple

from arraylearn.table.schema import Column, Schema

__all__ = ["ExtendedSchema", "extend_schema"]


class ExtendedSchema(NamedTuple):
    """A schema with the categories of two sets of rows."""

    schema: Schema
    positions: tuple[tuple[int, ...], ...]  # per nominal column: the new codes of its old categories

    @property
    def has_new(self) -> bool:
        """Whether a column has more categories than before."""
        return any(len(old) < new for old, new in zip(self.positions, self.schema.n_values, strict=True))


def extend_schema(old: Schema, new: Schema) -> ExtendedSchema:
    """Add the categories of later rows to a schema.

    Parameters
    ----------
    old, new : Schema
        Of the earlier and the later rows. Columns that are numeric in `old` stay so.

    Returns
    -------
    ExtendedSchema
        Where a column has new categories, all of them are sorted as `learn_schema` does; otherwise its order
        stays.

    Examples
    --------
    >>> from arraylearn.table import learn_schema
    >>> from arraylearn.table.extend_schema import extend_schema
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
