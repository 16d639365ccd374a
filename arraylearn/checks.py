"""Checks of parameters: the error names the argument, the rule and what arrived."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

__all__ = ["check_number", "check_whole"]


def check_whole(
    name: str, value: Any, least: int, most: int | None = None, *, optional: bool = False
) -> None:
    """Raise unless `value` is an integer of a range (or None where that is allowed)."""
    if value is None and optional:
        return
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):
        rule = f"an integer of at least {least}" if most is None else f"an integer from {least} to {most}"
        raise ValueError(f"`{name}` must be {rule}{', or None' if optional else ''}; got {value!r}.")


def check_number(name: str, value: Any, low: float, high: float, rule: str, *, is_open: bool = False) -> None:
    """Raise unless `value` is a number of [low, high], or of (low, high] if it is open."""
    is_number = isinstance(value, (int, float, Real)) and not isinstance(value, bool)
    is_number = is_number and math.isfinite(value)
    if not is_number or value > high or value < low or (is_open and value == low):
        raise ValueError(f"`{name}` must be {rule}; got {value!r}.")
