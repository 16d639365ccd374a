"""Checks of parameters, whose errors name the argument, the rule and the value; amounts given as shares."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, Literal, TypeGuard

import numpy as np

__all__ = [
    "check_choice",
    "check_class_weight",
    "check_flag",
    "check_integer",
    "check_number",
    "check_rows",
    "count_features",
    "is_number",
    "list_some",
    "refuse",
    "share_of",
]

Closed = Literal["both", "left", "right", "neither"]


def refuse(name: str, rule: str, got: object) -> ValueError:
    """Make the error for an argument that breaks a rule: ``"`name` must be positive; got -1."``."""
    return ValueError(f"`{name}` {rule}; got {got}.")


def list_some(names: Iterable[object], most: int = 10) -> str:
    """Return ``'a', 'b' and 7 more``: at most so many names, so that a message stays one readable line."""
    every = list(names)
    shown = ", ".join(map(repr, every[:most]))
    return shown if len(every) <= most else f"{shown} and {len(every) - most} more"


def is_number(value: object) -> TypeGuard[Any]:
    """Whether `value` is a number of Python, NumPy or the numeric tower, but not a truth value."""
    return isinstance(value, int | float | Real) and not isinstance(value, bool)


def check_choice(name: str, value: object, choices: Iterable[object]) -> None:
    """Raise unless `value` is one of the choices."""
    known = list(choices)
    if isinstance(value, str | bool | np.bool_ | int | float | Real | None) and value in known:
        return
    *first, last = map(repr, known)
    raise refuse(name, f"must be {', '.join(first)} or {last}" if first else f"must be {last}", repr(value))


def check_flag(name: str, value: object) -> None:
    """Raise unless `value` is True or False."""
    check_choice(name, value, (True, False))


def check_integer(
    name: str, value: Any, low: int, high: int | None = None, *, optional: bool = False
) -> None:
    """Raise unless `value` is an integer of ``low .. high`` (or None where that is allowed)."""
    if value is None and optional:
        return
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or value < low or (high is not None and value > high):
        rule = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
        raise refuse(name, f"must be {rule}{', or None' if optional else ''}", repr(value))


def check_number(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    closed: Closed = "both",
    optional: bool = False,
) -> None:
    """Raise unless `value` is a finite number of an interval (or None where that is allowed).

    `closed`: which ends belong to the interval.
    """
    if value is None and optional:
        return
    is_finite = is_number(value) and math.isfinite(value)
    is_above = is_finite and (value > low or (value == low and closed in ("both", "left")))
    is_below = is_finite and (value < high or (value == high and closed in ("both", "right")))
    if not (is_above and is_below):
        rule = f"must be a finite number{_interval(low, high, closed)}{', or None' if optional else ''}"
        raise refuse(name, rule, repr(value))


def _interval(low: float, high: float, closed: Closed) -> str:
    """Describe an interval: " of at least 0", " above 0 and up to 1"."""
    parts = []
    if low > -math.inf:
        parts.append(f"of at least {low:g}" if closed in ("both", "left") else f"above {low:g}")
    if high < math.inf:
        parts.append(f"up to {high:g}" if closed in ("both", "right") else f"below {high:g}")
    return f" {' and '.join(parts)}" if parts else ""


def check_rows(name: str, value: Any, low: int, *, may_be_auto: bool = False) -> None:
    """Raise unless `value` is an integer of at least `low`, or a float in (0, 1]: a share of all rows."""
    if may_be_auto and isinstance(value, str) and value == "auto":
        return
    is_integer = is_number(value) and isinstance(value, Integral)
    if not is_number(value) or not (int(value) >= low if is_integer else 0 < value <= 1):
        rule = f"must be an integer of at least {low}, or a float above 0 and up to 1.0, a share of all rows"
        raise refuse(name, f"{rule}, or 'auto'" if may_be_auto else rule, repr(value))


def check_class_weight(value: Any) -> None:
    """Raise unless `value` is something that gives each class a weight."""
    if (
        value is not None
        and not isinstance(value, Mapping)
        and not (isinstance(value, str) and value == "balanced")
    ):
        raise refuse(
            "class_weight", "must be a mapping of classes to weights, 'balanced' or None", repr(value)
        )


def share_of(amount: Any, total: float) -> float:
    """Return an integer as it is, and a float as a share of the total: 1 is one, 1.0 is all."""
    return float(amount) if isinstance(amount, Integral) else float(amount) * total


def count_features(max_features: Any, n_columns: int) -> int | None:
    """Turn `max_features` into a number of columns; None for all."""
    if max_features is None:
        return None
    named = {"sqrt": math.sqrt(n_columns), "log2": math.log2(max(n_columns, 1))}
    if isinstance(max_features, str) and max_features in named:
        return max(1, int(named[max_features]))
    if is_number(max_features) and isinstance(max_features, Integral) and int(max_features) >= 1:
        return int(max_features)
    if is_number(max_features) and 0 < max_features <= 1:
        return max(1, int(max_features * n_columns))
    rule = "must be None, 'sqrt', 'log2', an integer of at least 1 or a share above 0 and up to 1"
    raise refuse("max_features", rule, repr(max_features))
