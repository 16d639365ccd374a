"""The registry: every case of every family, in the order of the tables."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from arraylearn.bench.case import Case

__all__ = ["FAMILIES", "all_cases", "refuse_unknown"]

FAMILIES = (
    *("bayes", "tree", "pruning", "forest", "boosting", "svm", "rules", "selection", "kernels"),
    *("small_sets", "torch_input", "first_fit"),
)


def refuse_unknown(families: Sequence[str]) -> None:
    """Raise unless all names are families."""
    unknown = [name for name in families if name not in FAMILIES]
    if unknown:
        known = ", ".join(FAMILIES)
        raise ValueError(f"`family` must be one of {known}; got {', '.join(map(repr, unknown))}.")


def all_cases(families: tuple[str, ...] = ()) -> list[Case]:
    """Return the cases of the named families, or of all.

    >>> {case.family for case in all_cases(("bayes",))}
    {'bayes'}
    """
    refuse_unknown(families)
    cases: list[Case] = []
    for family in FAMILIES:
        if not families or family in families:
            cases += importlib.import_module(f"arraylearn.bench.cases.{family}").CASES
    return cases
