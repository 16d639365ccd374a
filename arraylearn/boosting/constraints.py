"""Read the user's constraints: in which direction a column may move the score, which columns may interact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from arraylearn.checks import refuse
from arraylearn.table import Schema

__all__ = ["read_groups", "read_trend"]


def read_trend(
    monotonic_cst: Any, schema: Schema, names: Sequence[str] | None, n_classes: int
) -> tuple[int, ...] | None:
    """Return -1, 0 or 1 for each column, numeric ones first; None where nothing is constrained.

    `monotonic_cst` has a number for each column, or is a mapping from some of their `names`.
    """
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


def read_groups(
    interaction_cst: Any, schema: Schema, names: Sequence[str] | None
) -> tuple[tuple[int, ...], ...]:
    """Return the groups of columns that may be used on one path, numeric columns first.

    `interaction_cst` is "pairwise", "no_interactions", or sets of columns, by position or by one of `names`;
    the columns that no set holds form one more.
    """
    order = (*schema.numeric_idx, *schema.nominal_idx)
    if isinstance(interaction_cst, str):
        sizes = {"pairwise": min(2, len(order)), "no_interactions": 1}
        if interaction_cst not in sizes:
            raise refuse(
                "interaction_cst",
                "must be None, 'pairwise', 'no_interactions' or sets of columns",
                repr(interaction_cst),
            )
        return tuple(combinations(range(len(order)), sizes[interaction_cst]))
    known = {} if names is None else {name: j for j, name in enumerate(names)}
    try:
        listed = [{known.get(column, column) for column in group} for group in interaction_cst]
    except TypeError:
        raise refuse("interaction_cst", "must hold sets of columns", repr(interaction_cst)) from None
    for column in set[Any]().union(*listed):
        if column not in range(len(order)):
            rule = f"must hold columns of `X`: names, or positions from 0 to {len(order) - 1}"
            raise refuse("interaction_cst", rule, repr(column))
    rest = set(range(len(order))).difference(*listed)
    position = {column: i for i, column in enumerate(order)}
    return tuple(tuple(sorted(position[j] for j in group)) for group in [*listed, rest] if group)
