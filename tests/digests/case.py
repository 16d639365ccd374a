"""The form of a case: what is fitted, on which sets, and how the result is compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

import arraylearn as al
from arraylearn.backend.dispatch import CompiledMode
from tests.digests import canonical
from tests.digests.sets import BIG, Rows, load

__all__ = [
    "SEED",
    "Case",
    "Options",
    "Result",
    "fit",
    "hashed",
    "lines_of",
    "make",
    "measured",
    "modes_of",
    "run",
    "whole",
]

Result = tuple[list[str], list[str]] | canonical.Numbers  # lines of model and predictions, or numbers


class Case(NamedTuple):
    """A learner with some options, on some sets."""

    name: str  # learner/option
    result: Callable[[Rows], Result]
    sets: tuple[str, ...]


def modes_of(case: Case) -> tuple[CompiledMode, ...]:
    """Return the modes that must all give what is recorded."""
    return ("auto",) if set(case.sets) <= set(BIG) else ("never", "always")


def run(case: Case, name: str) -> Any:
    """Return what is compared for a case on a set: two digests as text, or numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = case.result(load(name))
    if isinstance(found, dict):
        return found
    return " ".join(canonical.digest(lines) for lines in found)


Options = dict[str, Any] | Callable[[Rows], dict[str, Any]]
SEED = 7


def make(kind: Callable[..., Any], options: Options, rows: Rows) -> Any:
    chosen = options(rows) if callable(options) else options
    nominal = {} if rows.categorical is None else {"categorical_features": rows.categorical}
    if kind is al.DecisionTreeClassifier:
        chosen = {"max_bins": 64} | chosen  # few bins for few rows
    return kind(**chosen, **nominal)


def fit(kind: Callable[..., Any], options: Options, rows: Rows, *, weighted: bool = False) -> Any:
    weight = {"sample_weight": rows.weight} if weighted else {}
    return make(kind, options, rows).fit(rows.X, rows.y, **weight)


def hashed(
    name: str, kind: Callable[..., Any], options: Options, sets: Iterable[str], *, weighted: bool = False
) -> Case:
    """Compare model and predictions to the bit."""

    def result(rows: Rows) -> Result:
        model = fit(kind, options, rows, weighted=weighted)
        return canonical.describe(model), canonical.predictions(model, rows.probe)

    return Case(name, result, tuple(sets))


def measured(
    name: str, kind: Callable[..., Any], options: Options, sets: Iterable[str], *, weighted: bool = False
) -> Case:
    """Compare numbers within a tolerance."""

    def result(rows: Rows) -> Result:
        return canonical.measure(fit(kind, options, rows, weighted=weighted), rows.probe)

    return Case(name, result, tuple(sets))


def lines_of(name: str, lines: Callable[[Rows], list[str]], sets: Iterable[str]) -> Case:
    return Case(name, lambda rows: (lines(rows), []), tuple(sets))


def whole(rows: Rows) -> dict[Any, int]:
    """Give the classes weights of 1, 2, 3, 1, ..."""
    return {label: 1 + i % 3 for i, label in enumerate(np.unique(rows.y).tolist())}
