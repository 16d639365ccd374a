"""Coverage and accuracy of rules on data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from arraylearn.backend.namespace import from_host, locate, to_host
from arraylearn.backend.selector import choose_place
from arraylearn.rules.match import compile_rules, match_rows
from arraylearn.rules.resolve import weigh_matches
from arraylearn.rules.rule import Rule, find_scalar, resolve_rule
from arraylearn.rules.rule_text import parse_rule, parse_rules
from arraylearn.table import encode_labels, learn_schema, read_table
from arraylearn.weights import read_weights

__all__ = ["RuleQuality", "measure_rules", "read_rules"]


class RuleQuality(NamedTuple):
    """What a rule is worth on some rows."""

    coverage: float  # share of the rows that it matches
    accuracy: float  # share of its class among these; NaN where it matches none
    weight: float  # weight of the rows that it matches


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
    sums = weigh_matches(xp, words, from_host(rule_codes, place, xp.int64), codes, weights)
    covered, right = to_host(sums).tolist()
    total = float(table.n_rows) if weights is None else float(to_host(xp.sum(weights)))
    return [
        RuleQuality(weight / total, good / weight if weight > 0 else float("nan"), weight)
        for weight, good in zip(covered, right, strict=True)
    ]
