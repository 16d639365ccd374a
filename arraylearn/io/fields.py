"""Checks of types, shapes and ranges, so that no unchecked field of a file reaches a kernel."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.table import Schema

__all__ = ["Fields", "fields_of", "is_number", "is_scalar"]

Kind = TypeVar("Kind")
# Declared names of dtypes that stand for several: a model follows the float dtype of its rows.
_SEVERAL = {"float": ("float32", "float64")}


def fields_of(record: Any) -> dict[str, Any]:
    """Return the fields of a named tuple or a data class."""
    if isinstance(record, tuple) and hasattr(record, "_fields"):
        return dict(zip(record._fields, record, strict=True))
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


class Fields:
    """The fields of one record, asked for one by one by the check of its type.

    Every method raises a `ValueError` for a field that is not as declared, and `finish` for one that no
    method was called for: a check cannot forget a field. `owner` is what the record is called in errors.
    `sizes` are letters of shapes that are known already, such as ``k``, the number of classes; any other
    letter stands for the size it first meets.
    """

    def __init__(
        self,
        owner: str,
        values: Mapping[str, Any],
        sizes: Mapping[str, int] | None = None,
        schema: Schema | None = None,
    ) -> None:
        self.owner = owner
        self.sizes = dict(sizes or {})
        self._values = values
        self._schema = schema
        self._asked: set[str] = set()

    @property
    def schema(self) -> Schema:
        """The columns of the model."""
        if self._schema is None:
            raise ValueError(f"{self.owner} has no schema.")
        return self._schema

    @schema.setter
    def schema(self, schema: Schema) -> None:
        self._schema = schema
        self.sizes.update(
            d=schema.n_columns, d_numeric=len(schema.numeric_idx), d_nominal=len(schema.nominal_idx)
        )

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def refuse(self, rule: str, *, unless: Any) -> None:
        """Raise for a broken rule that concerns several fields."""
        if not bool(unless):
            raise ValueError(f"{self.owner}: {rule}.")

    def finish(self) -> None:
        """Raise if there is a field that was not asked for."""
        unknown = sorted(set(self._values) - self._asked)
        if unknown:
            raise ValueError(f"{self.owner} has no {unknown[0]!r}.")

    def take(self, name: str, is_right: Callable[[Any], bool], rule: str) -> Any:
        """Return a field that fulfils a condition."""
        if name not in self._values:
            raise ValueError(f"{self.owner}.{name} is missing.")
        self._asked.add(name)
        value = self._values[name]
        if not is_right(value):
            raise ValueError(f"{self.owner}.{name} must be {rule}; got {_describe(value)}.")
        return value

    def nothing(self, names: str) -> None:
        """Check that fields that other models use are None."""
        for name in names.split():
            self.take(name, lambda value: value is None, "null")

    # ---- plain values

    def natural(self, names: str, *, low: int = 0, high: int | None = None) -> int:
        """Return the last of some integers within bounds."""
        top, value = math.inf if high is None else high, 0
        for name in names.split():
            rule = f"an integer from {low} to {top}"
            value = self.take(name, lambda value: type(value) is int and low <= value <= top, rule)
        return value

    def number(self, names: str, *, is_finite: bool = True) -> None:
        """Check numbers."""
        for name in names.split():
            self.take(name, lambda value: is_number(value, is_finite=is_finite), "a finite number")

    def flag(self, name: str) -> None:
        """Check a truth value."""
        self.take(name, lambda value: type(value) is bool, "true or false")

    def text(self, name: str, choices: Collection[str | None] | None = None) -> Any:
        """Return a text, one of the `choices` if there are any."""
        if choices is None:
            return self.take(name, lambda value: type(value) is str, "text")
        return self.take(name, lambda value: value in choices, f"one of {sorted(map(str, choices))}")

    def numbers(
        self, name: str, kind: type[list[Any]] | type[tuple[Any, ...]] = list, length: str | None = None
    ) -> Any:
        """Return a list or tuple of finite numbers, of the size that the letter `length` names."""
        value = self.take(
            name,
            lambda value: type(value) is kind and all(is_number(one) for one in value),
            f"a {kind.__name__} of finite numbers",
        )
        if length is not None:
            self._match(name, (len(value),), (length,))
        return value

    def scalar(self, name: str) -> Any:
        """Return a label or category: text or a number."""
        return self.take(name, is_scalar, "text or a number")

    # ---- arrays

    def array(
        self,
        names: str,
        dtype: str,
        *shapes: str,
        low: float | None = None,
        high: float | None = None,
        is_finite: bool = True,
    ) -> HostArray:
        """Return the last of some arrays of one dtype and shape, such as ``"n k"`` (or another of `shapes`).

        Values lie in ``low .. high``; floats are finite unless `is_finite` is False.
        """
        wanted = _SEVERAL.get(dtype, (dtype,))
        for name in names.split():
            array: HostArray = self.take(
                name,
                lambda value: isinstance(value, np.ndarray) and value.dtype.name in wanted,
                f"an array of {dtype}",
            )
            self._match(name, array.shape, shapes)
            self._bound(name, array, low, high, is_finite)
        return array

    def optional_array(
        self, name: str, dtype: str, shape: str, *, low: float | None = None, high: float | None = None
    ) -> HostArray | None:
        """Return an array as `array` does, or None where the field is None."""
        if self._values.get(name, "") is None:
            self.nothing(name)
            return None
        return self.array(name, dtype, shape, low=low, high=high)

    def _match(self, name: str, shape: tuple[int, ...], shapes: tuple[str, ...]) -> None:
        """Check a shape, and note the sizes of letters that are not known yet."""
        for letters in map(str.split, shapes):
            # a letter without a size yet is shown as a letter
            wanted = [int(one) if one.isdigit() else self.sizes.get(one, one) for one in letters]
            pairs = list(zip(wanted, shape, strict=False))
            if len(wanted) == len(shape) and all(isinstance(one, str) or one == size for one, size in pairs):
                self.sizes.update({one: size for one, size in pairs if isinstance(one, str)})
                return
        expected = ", ".join(map(str, wanted))
        raise ValueError(f"{self.owner}.{name} must have shape ({expected}); got {shape}.")

    def _bound(
        self, name: str, array: HostArray, low: float | None, high: float | None, is_finite: bool
    ) -> None:
        if not array.size:
            return
        least, most = array.min().item(), array.max().item()  # NaN if any value is
        if is_finite and not (math.isfinite(least) and math.isfinite(most)):
            raise ValueError(f"{self.owner}.{name} must be finite; got NaN or infinity.")
        if not ((low is None or least >= low) and (high is None or most <= high)):
            raise ValueError(f"{self.owner}.{name} must lie in {low} .. {high}; got {least} .. {most}.")

    # ---- records

    def optional_part(self, name: str, kind: type[Kind], check: Callable[[Fields], None]) -> None:
        """Check a record that is there only if an option asked for it."""
        if name in self:
            self.part(name, kind, check)

    def part(self, name: str, kind: type[Kind], check: Callable[[Fields], None]) -> Kind:
        """Check a record among the fields; the letters of its owner hold in it."""
        record: Kind = self.take(name, lambda value: type(value) is kind, f"a {kind.__name__}")
        self.check_part(f"{self.owner}.{name}", record, check)
        return record

    def parts(self, name: str, kind: type[Kind], check: Callable[[Fields], None]) -> tuple[Kind, ...]:
        """Check a tuple of records."""
        records: tuple[Kind, ...] = self.take(
            name,
            lambda value: type(value) is tuple and all(type(one) is kind for one in value),
            f"a tuple of {kind.__name__}",
        )
        for i, record in enumerate(records):
            self.check_part(f"{self.owner}.{name}[{i}]", record, check)
        return records

    def check_part(self, owner: str, record: Any, check: Callable[[Fields], None]) -> None:
        """Check a record that belongs to this one."""
        fields = Fields(owner, fields_of(record), self.sizes, self._schema)
        check(fields)
        fields.finish()


def is_scalar(value: object) -> bool:
    """Whether a value can be a label or a category."""
    return isinstance(value, bool | int | float | str | np.generic)


def is_number(value: object, *, is_finite: bool = True) -> bool:
    """Whether a value is a number, and finite if asked for."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return not is_finite or math.isfinite(value)


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype.name} with shape {value.shape}"
    text = repr(value) if is_scalar(value) or value is None else f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."
