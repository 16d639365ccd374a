"""Literals and rules, as values that compare, print and parse the same on every backend."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple
from typing import Literal as Choice

from arraylearn.table import Schema

__all__ = [
    "UNKNOWN",
    "CodedRule",
    "Condition",
    "Conditions",
    "Literal",
    "Relation",
    "Rule",
    "find_contradiction",
    "find_scalar",
    "resolve_rule",
    "sort_literals",
]

Relation = Choice["=", "in", "<=", ">"]
RELATIONS: tuple[Relation, ...] = ("=", "in", "<=", ">")


@dataclass(frozen=True)
class Literal:
    """One condition on one column; a missing value never meets it.

    Attributes
    ----------
    column : str
        Name of the column.
    relation : {"=", "in", "<=", ">"}
        The first two for categories, the others for numbers.
    value : scalar or tuple
        The category, the tuple of categories (sorted, without repetition) or the threshold.

    Examples
    --------
    >>> from arraylearn.rules import Literal
    >>> str(Literal("hair", "=", "Blonde")), str(Literal("age", "<=", 39.5))
    ('hair = Blonde', 'age <= 39.5')
    """

    column: str
    relation: Relation
    value: Any

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise ValueError(f"`relation` must be '=', 'in', '<=' or '>'; got {self.relation!r}.")
        if self.relation == "in":
            if isinstance(self.value, str) or not isinstance(self.value, Iterable):
                raise ValueError(f"`value` must be several categories for 'in'; got {self.value!r}.")
            distinct = sorted(set(self.value), key=lambda value: (isinstance(value, str), value))
            object.__setattr__(self, "value", tuple(distinct))
        elif self.relation != "=":
            object.__setattr__(self, "value", _check_threshold(self.value))

    def __str__(self) -> str:
        from arraylearn.rules.rule_text import format_literal

        return format_literal(self)


def _check_threshold(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"`value` must be a finite number for '<=' and '>'; got {value!r}.")
    return number


@dataclass(frozen=True)
class Rule:
    """A conjunction of literals and the class it concludes; no literal at all matches every row.

    Attributes
    ----------
    literals : tuple of Literal
        All of them must hold.
    label : scalar
        The class.

    Examples
    --------
    >>> from arraylearn.rules import Rule, parse_rule
    >>> rule = parse_rule("hair = Blonde and eyes = Blue -> C1")
    >>> rule.label, len(rule.literals)
    ('C1', 2)
    >>> str(rule)
    'hair = Blonde and eyes = Blue -> C1'
    """

    literals: tuple[Literal, ...]
    label: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "literals", tuple(self.literals))

    def __str__(self) -> str:
        from arraylearn.rules.rule_text import format_rule

        return format_rule(self)

    def __len__(self) -> int:
        return len(self.literals)


class Condition(NamedTuple):
    """A literal with columns and categories as numbers of a schema, as the kernels need it."""

    column: int  # position in the input
    relation: Relation
    value: Any  # code (UNKNOWN: no row has it), tuple of codes, or threshold


Conditions = tuple[Condition, ...]
CodedRule = tuple[Conditions, int]  # and the position of the class among the labels
# Position of a category or label that is not among the known ones.
UNKNOWN = -1


def sort_literals(literals: Iterable[Literal], schema: Schema) -> tuple[Literal, ...]:
    """Order literals by column, and on one column lower bounds first."""
    rank = {"=": 0, "in": 0, ">": 1, "<=": 2}
    return tuple(sorted(literals, key=lambda one: (schema.names.index(one.column), rank[one.relation])))


def find_contradiction(literals: Iterable[Literal]) -> str | None:
    """Describe the literals of a conjunction that exclude each other; None where there are none."""
    by_column: dict[str, list[Literal]] = {}
    for literal in literals:
        by_column.setdefault(literal.column, []).append(literal)
    for column, group in by_column.items():
        sets = [set(one.value) if one.relation == "in" else {one.value} for one in group if _is_nominal(one)]
        lows = [one.value for one in group if one.relation == ">"]
        highs = [one.value for one in group if one.relation == "<="]
        is_empty = bool(sets) and not set.intersection(*sets)
        if is_empty or (lows and highs and max(lows) >= min(highs)):
            return f"the literals on {column!r} exclude each other: {' and '.join(map(str, group))}"
    return None


def _is_nominal(literal: Literal) -> bool:
    return literal.relation in ("=", "in")


def resolve_rule(rule: Rule, schema: Schema) -> tuple[Conditions, list[str]]:
    """Translate a rule to conditions on a schema.

    Parameters
    ----------
    rule : Rule
        Its columns must be those of the schema, its literals free of contradiction.
    schema : Schema
        The columns.

    Returns
    -------
    conditions : tuple of Condition
        One per literal, in order.
    unknown : list of str
        The literals that name a category which the schema does not have: they hold for no row.
    """
    if problem := find_contradiction(rule.literals):
        raise ValueError(f"rule {str(rule)!r} can never match: {problem}.")
    conditions, unknown = [], []
    for literal in rule.literals:
        condition, is_known = _resolve_literal(literal, schema, rule)
        conditions.append(condition)
        if not is_known:
            unknown.append(str(literal))
    return tuple(conditions), unknown


def _resolve_literal(literal: Literal, schema: Schema, rule: Rule) -> tuple[Condition, bool]:
    if literal.column not in schema.names:
        raise ValueError(
            f"rule {str(rule)!r} names the column {literal.column!r}; "
            f"the columns are {', '.join(map(repr, schema.names))}."
        )
    position = schema.names.index(literal.column)
    column = schema.columns[position]
    if column.is_nominal != _is_nominal(literal):
        kind, fitting = ("nominal", "'=' or 'in'") if column.is_nominal else ("numeric", "'<=' or '>'")
        raise ValueError(
            f"rule {str(rule)!r} has {str(literal)!r}, but the column is {kind}; use {fitting} "
            "there, or name the column's kind in `categorical_features`."
        )
    if not column.is_nominal:
        return Condition(position, literal.relation, literal.value), True
    values = literal.value if literal.relation == "in" else (literal.value,)
    codes = [find_scalar(value, column.domain or ()) for value in values]
    found = tuple(sorted(code for code in codes if code != UNKNOWN))
    if literal.relation == "in":
        return Condition(position, "in", found), UNKNOWN not in codes
    return Condition(position, "=", codes[0]), codes[0] != UNKNOWN


def find_scalar(value: Any, known: Iterable[Any]) -> int:
    """Return the position of a category or label among the known ones, by value or by text; or UNKNOWN."""
    values = list(known)
    for position, candidate in enumerate(values):
        if candidate == value and isinstance(candidate, bool) == isinstance(value, bool):
            return position
    texts = [str(candidate) for candidate in values]
    return texts.index(str(value)) if str(value) in texts else UNKNOWN
