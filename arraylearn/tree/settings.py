"""Checks of the parameters of a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from arraylearn.checks import check_choice, check_integer, check_number, check_rows, refuse
from arraylearn.measures import MEASURES
from arraylearn.table import Schema
from arraylearn.tree.pruning.apply import PRUNINGS, Pruning
from arraylearn.tree.pruning.cost_complexity import CostComplexity
from arraylearn.tree.pruning.reduced_error import ReducedError

__all__ = ["check_criterion", "check_limits", "check_nominal", "check_settings", "read_trend"]

_MOST_BINS = 32_766
_CHOICES = {
    "splitter": ("auto", "exact", "best", "hist", "clouds", "clouds_sampling", "random"),
    "nominal": ("multiway", "binary"),
    "missing": ("fractional", "surrogate", "direction", "known_fraction"),
}


def check_settings(estimator: Any, validation: Any) -> Pruning | None:
    """Raise for invalid parameters, or held-out rows that no pruning would use; return the way of pruning."""
    _check_growth(estimator)
    pruning = _read_pruning(estimator)
    if validation is not None and not isinstance(pruning, ReducedError):
        raise refuse("validation", "needs `pruning` to be 'reduced_error'", repr(estimator.pruning))
    if validation is not None and (not isinstance(validation, tuple) or len(validation) != 2):
        raise refuse("validation", "must be a tuple (X, y)", type(validation).__name__)
    return pruning


def check_nominal(estimator: Any, schema: Schema) -> None:
    """Raise where surrogates would have to replace splits into more than two branches."""
    if estimator.missing == "surrogate" and estimator.nominal == "multiway" and schema.nominal_idx:
        raise ValueError(
            "`missing` must not be 'surrogate' where `nominal` is 'multiway' and columns are nominal: a "
            "surrogate replaces a split into two. Use nominal='binary', or another policy."
        )


def read_trend(
    monotonic_cst: Any, schema: Schema, names: Sequence[str] | None, n_classes: int
) -> tuple[int, ...] | None:
    """Return -1, 0 or 1 for each column, numeric ones first; None where no column is constrained.

    `monotonic_cst` has a number for each column, or is a mapping from some of their `names`.
    """
    if monotonic_cst is None:
        return None
    n_columns = len(schema.numeric_idx) + len(schema.nominal_idx)
    if isinstance(monotonic_cst, Mapping):
        if names is None:
            raise ValueError("`monotonic_cst` may name columns where `X` does; got an array without names.")
        unknown = [name for name in monotonic_cst if name not in set(names)]
        if unknown:
            raise ValueError(f"`monotonic_cst` must name columns of `X`; got {unknown[0]!r}.")
        listed = [monotonic_cst.get(name, 0) for name in names]
    else:
        listed = list(monotonic_cst)
    if len(listed) != n_columns:
        raise ValueError(
            f"`monotonic_cst` must have a number for each of {n_columns} columns; got {len(listed)}."
        )
    wrong = [way for way in listed if way not in (-1, 0, 1)]
    if wrong:
        raise ValueError(f"`monotonic_cst` must hold -1, 0 and 1; got {wrong[0]!r}.")
    if not any(listed):
        return None
    if n_classes > 2:
        raise ValueError(
            f"`monotonic_cst` must be None with more than two classes; got {n_classes} classes. "
            "Which of them should become more likely?"
        )
    ordered = [j for j in schema.nominal_idx if listed[j]]
    if ordered:
        first = ordered[0]
        raise ValueError(
            f"`monotonic_cst` must be 0 for nominal columns; got {listed[first]} for column {first}."
        )
    return tuple(int(listed[j]) for j in (*schema.numeric_idx, *schema.nominal_idx))


def _check_growth(estimator: Any) -> None:
    criterion = estimator.criterion
    check_criterion(criterion)
    for name, choices in _CHOICES.items():
        check_choice(name, getattr(estimator, name), choices)
    check_integer("max_bins", estimator.max_bins, 2, _MOST_BINS)
    if estimator.penalize_thresholds and estimator.splitter not in ("auto", "exact", "best"):
        raise ValueError("`penalize_thresholds` counts thresholds between values: use splitter='exact'.")
    if estimator.require_average_gain and estimator.splitter == "random":
        raise ValueError("`require_average_gain` compares the best cuts of columns: use another splitter.")
    if estimator.splitter in ("clouds", "clouds_sampling"):
        if criterion != "gini":
            raise refuse("criterion", "must be 'gini' for the CLOUDS splitters", repr(criterion))
        if estimator.missing == "direction":
            raise ValueError("`missing` must not be 'direction' for the CLOUDS splitters.")
        if estimator.monotonic_cst is not None:
            raise ValueError("`monotonic_cst` must be None for the CLOUDS splitters.")
    if estimator.missing == "surrogate" and estimator.monotonic_cst is not None:
        raise ValueError(
            "`missing` must not be 'surrogate' with `monotonic_cst`: the value of a column would also decide "
            "where rows go at splits on other columns. Use another policy."
        )
    check_limits(estimator)


def check_limits(estimator: Any) -> None:
    """Raise for an invalid limit of the growth of a tree or of a forest."""
    check_integer("max_depth", estimator.max_depth, 1, optional=True)
    check_integer("max_leaf_nodes", estimator.max_leaf_nodes, 2, optional=True)
    check_rows("min_samples_split", estimator.min_samples_split, 2)
    check_rows("min_samples_leaf", estimator.min_samples_leaf, 1)
    check_number("min_weight_fraction_leaf", estimator.min_weight_fraction_leaf, 0, 0.5)
    check_number("min_impurity_decrease", estimator.min_impurity_decrease, 0)
    check_number("ccp_alpha", estimator.ccp_alpha, 0)


def check_criterion(criterion: Any) -> None:
    """Raise unless a criterion is known, or a function."""
    if not callable(criterion) and not (isinstance(criterion, str) and criterion in (*MEASURES, "log_loss")):
        listed = ", ".join(map(repr, MEASURES))
        raise refuse("criterion", f"must be one of {listed} or a function on counts", repr(criterion))


def _read_pruning(estimator: Any) -> Pruning | None:
    """Return the object that `pruning` or `ccp_alpha` stands for."""
    pruning = estimator.pruning
    if pruning is None:
        return CostComplexity(estimator.ccp_alpha) if estimator.ccp_alpha > 0 else None
    if estimator.ccp_alpha > 0:
        raise ValueError(
            "`ccp_alpha` must be 0 where `pruning` is given; got "
            f"{estimator.ccp_alpha!r} and {pruning!r}. Choose one way to prune."
        )
    if isinstance(pruning, Pruning):
        return pruning
    if isinstance(pruning, str) and pruning in PRUNINGS:
        return PRUNINGS[pruning]()
    listed = ", ".join(map(repr, PRUNINGS))
    raise refuse("pruning", f"must be None, {listed} or an object of `al.pruning`", repr(pruning))
