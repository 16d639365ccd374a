"""Checks of the parameters of a tree."""

from __future__ import annotations

from typing import Any

from arraylearn.checks import check_choice, check_integer, check_number, refuse
from arraylearn.measures import MEASURES

__all__ = ["check_settings"]

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
