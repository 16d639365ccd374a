"""Rules given by hand: read, translated to the columns of a table, measured on its rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from arraylearn._typing import Array
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host, locate, to_host
from arraylearn.backend.selector import choose_place
from arraylearn.rules.decide import compile_rules, fired, match_rows
from arraylearn.rules.rule import Condition, Conditions, Literal, Rule, parse_rule, parse_rules
from arraylearn.table import Schema, encode_labels, learn_schema, read_table
from arraylearn.weights import read_weights

__all__ = [
    "UNKNOWN",
    "RuleQuality",
    "find_contradiction",
    "find_scalar",
    "measure_rules",
    "read_rules",
    "resolve_rule",
]

# Position of a category or label that is not among the known ones.
UNKNOWN = -1


def read_rules(rules: Any) -> tuple[Rule, ...]:
    """Read rules given as text (one per line), or as a sequence of rules and texts."""
    if isinstance(rules, str):
        return parse_rules(rules)
    if isinstance(rules, Rule):
        return (rules,)
    if not isinstance(rules, Iterable):
        raise TypeError(f"`rules` must be text or a sequence of rules; got {type(rules).__name__}.")
    read = []
    for rule in rules:
        if not isinstance(rule, Rule | str):
            raise TypeError(f"`rules` must hold rules and texts; got {type(rule).__name__}.")
        read.append(parse_rule(rule) if isinstance(rule, str) else rule)
    return tuple(read)


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


# ---- quality


class RuleQuality(NamedTuple):
    """Coverage and accuracy of a rule on some rows."""

    coverage: float  # share of the rows that it matches
    accuracy: float  # share of its class among these; NaN where it matches none
    weight: float  # weight of the rows that it matches


def measure_rules(
    rules: Any,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    categorical_features: Any = "from_dtype",
    backend: str | None = None,
) -> list[RuleQuality]:
    r"""Measure coverage and accuracy of rules, each for itself.

    .. math:: \text{coverage} = \frac{p + n}{N}, \qquad \text{accuracy} = \frac{p}{p + n}

    Parameters
    ----------
    rules : str, Rule, or sequence of Rule and str
        Rules as objects or as text.
    X : array, data frame or list of lists, (n, d)
        Rows; the columns of an array are called ``x0``, ``x1``, ...
    y : array-like (n,)
        Class labels.
    sample_weight : array-like (n,), optional
        Weights of the rows.
    categorical_features : "from_dtype", None, or sequence of int, bool or str, default "from_dtype"
        Which columns are nominal.
    backend : str, optional
        Where to compute; default: where the data is.

    Returns
    -------
    list of RuleQuality
        One per rule. All rules are matched against all rows in a few array calls.

    Examples
    --------
    >>> from arraylearn.datasets import load_loans
    >>> from arraylearn.rules import measure_rules
    >>> loans = load_loans()
    >>> measure_rules("x1 = Single -> No", loans.X, loans.y)[0]
    RuleQuality(coverage=0.4, accuracy=0.5, weight=4.0)
    """
    read = read_rules(rules)
    schema, labels = learn_schema(X, categorical_features), encode_labels(y)
    place = choose_place(locate(X), backend)
    table = read_table(X, schema, place)
    if labels.codes.shape[0] != table.n_rows:
        raise ValueError(
            f"`X` has {table.n_rows} rows and `y` {labels.codes.shape[0]}; pass as many labels as rows."
        )
    conditions = [resolve_rule(rule, schema)[0] for rule in read]
    rule_codes = [find_scalar(rule.label, labels.classes.tolist()) for rule in read]
    if not read:
        return []
    xp, weights = place.xp, read_weights(sample_weight, table.n_rows, place)
    words = match_rows(xp, compile_rules(place, conditions, schema), table)
    codes = from_host(labels.codes, place, xp.int64)
    sums = _weigh_matches(place, words, from_host(rule_codes, place, xp.int64), codes, weights)
    covered, right = to_host(sums).tolist()
    total = float(table.n_rows) if weights is None else float(to_host(xp.sum(weights)))
    return [
        RuleQuality(weight / total, good / weight if weight > 0 else float("nan"), weight)
        for weight, good in zip(covered, right, strict=True)
    ]


def _weigh_matches(
    place: Place, words: Array, rule_codes: Array, codes: Array, weights: Array | None
) -> Array:
    """Weigh all rows that match each of r rules, and those of the rule's class among them: (2, r).

    `words` (n, n_words) is what `match_rows` returns; `rule_codes` (r,) and `codes` (n,) are the classes of
    the rules and of the rows.
    """
    xp, dtype, r = place.xp, accumulator_dtype(place), rule_codes.shape[0]
    total = xp.zeros((2, r), dtype=dtype, device=place.device)
    for rows in row_chunks(words.shape[0], 8 * 6 * r):
        is_fired = xp.astype(fired(xp, words[rows, :], r), dtype)
        if weights is not None:
            is_fired = is_fired * weights[rows][:, None]
        is_right = xp.astype(codes[rows][:, None] == rule_codes[None, :], dtype)
        total = total + xp.stack((xp.sum(is_fired, axis=0), xp.sum(is_fired * is_right, axis=0)))
    return total
