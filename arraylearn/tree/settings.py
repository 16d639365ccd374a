"""Checks of the parameters of a tree."""

from __future__ import annotations

from typing import Any

from arraylearn.checks import check_choice, check_integer, check_number, refuse
from arraylearn.measures import MEASURES
from arraylearn.table import Schema
from arraylearn.tree.pruning.apply import PRUNINGS, RAISING
from arraylearn.tree.pruning.confidence import LIMITS

__all__ = ["check_nominal", "check_settings"]

_MOST_BINS = 32_766
_CHOICES = {
    "splitter": ("auto", "exact", "hist", "clouds", "clouds_sampling"),
    "nominal": ("multiway", "binary"),
    "missing": ("fractional", "surrogate", "direction", "known_fraction"),
}


def check_settings(estimator: Any, validation: Any) -> None:
    """Raise for a parameter, or held-out rows, that a tree cannot work with."""
    _check_growth(estimator)
    _check_pruning(estimator)
    if validation is not None and estimator.pruning != "reduced_error":
        raise refuse("validation", "needs `pruning` to be 'reduced_error'", repr(estimator.pruning))
    if validation is not None and (not isinstance(validation, tuple) or len(validation) != 2):
        raise refuse("validation", "must be a tuple (X, y)", type(validation).__name__)


def check_nominal(estimator: Any, schema: Schema) -> None:
    """Raise where surrogates would have to replace splits into more than two branches."""
    if estimator.missing == "surrogate" and estimator.nominal == "multiway" and schema.nominal_idx:
        raise ValueError(
            "`missing` must not be 'surrogate' where `nominal` is 'multiway' and columns are nominal: a "
            "surrogate replaces a split into two. Use nominal='binary', or another policy."
        )


def _check_growth(estimator: Any) -> None:
    measure = estimator.measure
    if not callable(measure) and not (isinstance(measure, str) and measure in MEASURES):
        listed = ", ".join(map(repr, MEASURES))
        raise refuse("measure", f"must be one of {listed} or a function on counts", repr(measure))
    for name, choices in _CHOICES.items():
        check_choice(name, getattr(estimator, name), choices)
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


def _check_pruning(estimator: Any) -> None:
    check_choice("pruning", estimator.pruning, (None, *PRUNINGS))
    check_choice("confidence_limit", estimator.confidence_limit, LIMITS)
    is_c45 = estimator.confidence_limit == "c45"
    closed: Any = "right" if is_c45 else "neither"
    check_number("confidence", estimator.confidence, 0, 0.5 if is_c45 else 1, closed=closed)
    check_number("penalty", estimator.penalty, 0)
    check_number("alpha", estimator.alpha, 0, optional=True)
    check_choice("alpha_risk", estimator.alpha_risk, ("impurity", "error"))
    check_integer("alpha_folds", estimator.alpha_folds, 2)
    check_number("alpha_standard_errors", estimator.alpha_standard_errors, 0)
    check_number("validation_fraction", estimator.validation_fraction, 0, 1, closed="neither")
    check_number("significance", estimator.significance, 0, 1, closed="neither", optional=True)
    if estimator.raise_subtrees and estimator.pruning not in RAISING:
        listed = ", ".join(map(repr, RAISING))
        raise refuse("raise_subtrees", f"needs `pruning` to be one of {listed}", repr(estimator.pruning))
