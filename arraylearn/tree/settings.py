"""Checks of the tree's parameters: argument, rule, what arrived."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from arraylearn.measures import MEASURES

__all__ = ["check_settings", "count_features", "share_of"]

_MOST_BINS = 32_766
_CHOICES = {
    "splitter": ("auto", "exact", "hist", "clouds", "clouds_sampling"),
    "nominal": ("multiway", "binary"),
    "missing": ("fractional", "surrogate", "direction", "known_fraction"),
}


def check_settings(estimator: Any) -> None:
    """Raise for a parameter that a tree cannot work with."""
    if not callable(estimator.measure):
        _check_choice("measure", estimator.measure, tuple(MEASURES), " or a function on counts")
    for name, choices in _CHOICES.items():
        _check_choice(name, getattr(estimator, name), choices)
    if estimator.missing == "surrogate" and estimator.nominal == "multiway":
        raise ValueError(
            "`missing` must not be 'surrogate' where `nominal` is 'multiway': a surrogate stands in for a "
            "split into two. Use nominal='binary', or another policy."
        )
    _check_whole("max_depth", estimator.max_depth, 1)
    _check_whole("max_leaf_nodes", estimator.max_leaf_nodes, 2)
    _check_whole("n_bins", estimator.n_bins, 2)
    if estimator.n_bins is None or estimator.n_bins > _MOST_BINS:
        raise ValueError(f"`n_bins` must be an integer of 2 to {_MOST_BINS}; got {estimator.n_bins!r}.")
    if estimator.penalize_thresholds and estimator.splitter not in ("auto", "exact"):
        raise ValueError("`penalize_thresholds` counts thresholds between values: use splitter='exact'.")
    if estimator.splitter in ("clouds", "clouds_sampling"):
        if estimator.measure not in ("gini", "gini_gain"):
            raise ValueError(f"`measure` must be 'gini' for the CLOUDS splitters; got {estimator.measure!r}.")
        if estimator.missing == "direction":
            raise ValueError("`missing` must not be 'direction' for the CLOUDS splitters.")
    for name in ("min_samples_split", "min_samples_leaf"):
        value = getattr(estimator, name)
        if not _is_number(value) or not 0 < value < math.inf:
            raise ValueError(
                f"`{name}` must be a positive number (below 1: a share of all rows); got {value!r}."
            )
    if not _is_number(estimator.min_gain) or math.isnan(estimator.min_gain):
        raise ValueError(f"`min_gain` must be a number; got {estimator.min_gain!r}.")


def _check_choice(name: str, value: Any, choices: tuple[str, ...], more: str = "") -> None:
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ValueError(f"`{name}` must be one of {listed}{more}; got {value!r}.")


def _check_whole(name: str, value: Any, least: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"`{name}` must be None or an integer of at least {least}; got {value!r}.")


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def share_of(amount: float, total: float) -> float:
    """Read an amount below 1 as a share of the total."""
    return amount * total if amount < 1 else float(amount)


def count_features(max_features: Any, n_columns: int) -> int | None:
    """Turn `max_features` into a number of columns; None for all."""
    if max_features is None:
        return None
    if isinstance(max_features, str):
        named = {"sqrt": math.sqrt(n_columns), "log2": math.log2(max(n_columns, 1))}
        _check_choice("max_features", max_features, tuple(named), ", a number or None")
        return max(1, int(named[max_features]))
    if isinstance(max_features, Integral) and not _is_flag(max_features) and int(max_features) >= 1:
        return int(max_features)
    if _is_number(max_features) and 0 < max_features <= 1:
        return max(1, int(max_features * n_columns))
    raise ValueError(
        "`max_features` must be None, 'sqrt', 'log2', an integer of at least 1 or a share of (0, 1]; "
        f"got {max_features!r}."
    )
