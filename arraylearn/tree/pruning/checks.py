"""Checks of the arguments of the prunings: argument, rule, what arrived."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from arraylearn.tree.nodes import Tree

__all__ = ["check_choice", "check_folds", "check_inside", "check_not_negative", "check_tree"]


def check_tree(tree: Any) -> Tree:
    """Refuse what is no tree; an estimator is asked for its `tree_`, which exists after `fit`."""
    if isinstance(tree, Tree):
        return tree
    raise TypeError(
        f"`tree` must be a Tree, the `tree_` of a fitted DecisionTreeClassifier; got {type(tree).__name__}."
    )


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Refuse what is not among the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}; got {value!r}.")


def check_folds(name: str, value: Any) -> None:
    """Refuse anything but a whole number of at least 2."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 2:
        raise ValueError(f"`{name}` must be an integer of at least 2; got {value!r}.")


def check_inside(name: str, value: Any, low: float, high: float, *, closed: bool = False) -> float:
    """Refuse a number outside an open interval (with `closed`, the upper end belongs to it)."""
    if _is_number(value) and low < value and (value < high or (closed and value == high)):
        return float(value)
    raise ValueError(f"`{name}` must be in ({low:g}, {high:g}{']' if closed else ')'}; got {value!r}.")


def check_not_negative(name: str, value: Any) -> float:
    """Refuse anything but a finite number of at least 0."""
    if _is_number(value) and 0 <= value < math.inf:
        return float(value)
    raise ValueError(f"`{name}` must be a finite number of at least 0; got {value!r}.")


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and not math.isnan(value)
