"""Checks of the parameters of a tree, and numbers of rows and columns from shares of them."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from arraylearn.checks import check_choice, check_integer, check_number, refuse
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
    measure = estimator.measure
    if not callable(measure) and not (isinstance(measure, str) and measure in MEASURES):
        listed = ", ".join(map(repr, MEASURES))
        raise refuse("measure", f"must be one of {listed} or a function on counts", repr(measure))
    for name, choices in _CHOICES.items():
        check_choice(name, getattr(estimator, name), choices)
    if estimator.missing == "surrogate" and estimator.nominal == "multiway":
        raise ValueError(
            "`missing` must not be 'surrogate' where `nominal` is 'multiway': a surrogate replaces a split "
            "into two. Use nominal='binary', or another policy."
        )
    check_integer("max_depth", estimator.max_depth, 1, optional=True)
    check_integer("max_leaf_nodes", estimator.max_leaf_nodes, 2, optional=True)
    check_integer("n_bins", estimator.n_bins, 2, _MOST_BINS)
    if estimator.penalize_thresholds and estimator.splitter not in ("auto", "exact"):
        raise ValueError("`penalize_thresholds` counts thresholds between values: use splitter='exact'.")
    if estimator.splitter in ("clouds", "clouds_sampling"):
        if measure != "gini":
            raise refuse("measure", "must be 'gini' for the CLOUDS splitters", repr(measure))
        if estimator.missing == "direction":
            raise ValueError("`missing` must not be 'direction' for the CLOUDS splitters.")
    check_number("min_samples_split", estimator.min_samples_split, 0, closed="neither")
    check_number("min_samples_leaf", estimator.min_samples_leaf, 0, closed="neither")
    check_number("min_gain", estimator.min_gain)


def share_of(amount: float, total: float) -> float:
    """Read an amount below 1 as a share of the total."""
    return amount * total if amount < 1 else float(amount)


def count_features(max_features: Any, n_columns: int) -> int | None:
    """Turn `max_features` into a number of columns; None for all."""
    if max_features is None:
        return None
    named = {"sqrt": math.sqrt(n_columns), "log2": math.log2(max(n_columns, 1))}
    if isinstance(max_features, str) and max_features in named:
        return max(1, int(named[max_features]))
    is_number = isinstance(max_features, Real) and not isinstance(max_features, bool)
    if is_number and isinstance(max_features, Integral) and int(max_features) >= 1:
        return int(max_features)
    if is_number and 0 < max_features <= 1:
        return max(1, int(max_features * n_columns))
    rule = "must be None, 'sqrt', 'log2', an integer of at least 1 or a share above 0 and up to 1"
    raise refuse("max_features", rule, repr(max_features))
