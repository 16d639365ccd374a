"""Checks of the ensembles' parameters: argument, rule, what arrived."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from sklearn.utils.class_weight import compute_class_weight

from arraylearn._typing import Array
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host
from arraylearn.estimator import read_weights
from arraylearn.table import Labels

__all__ = ["check_number", "check_whole", "join_weights"]


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


def join_weights(
    sample_weight: Any, class_weight: Mapping[Any, float] | str | None, labels: Labels, place: Place
) -> Array | None:
    """Return the weight of each row at `place`, its class's included; None where all are 1."""
    weights = read_weights(sample_weight, labels.codes.shape[0], place)
    if class_weight is None:
        return weights
    by_class = compute_class_weight(class_weight, classes=labels.classes, y=labels.classes.take(labels.codes))
    by_row = from_host(by_class.take(labels.codes), place, accumulator_dtype(place))
    return by_row if weights is None else weights * by_row
