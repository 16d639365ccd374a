"""Read which columns may interact."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from arraylearn.checks import refuse
from arraylearn.table import Schema

__all__ = ["read_groups"]


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
