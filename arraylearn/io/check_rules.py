"""Checks of rule sets."""

from __future__ import annotations

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.io.check_table import check_classifier
from arraylearn.io.fields import Fields
from arraylearn.rules.decide import WORD, Matcher, RuleModel
from arraylearn.rules.rule import RELATIONS, Literal, Rule

__all__ = ["check_rules"]


def check_rules(fields: Fields) -> None:
    """Check a fitted classifier by rules."""
    check_classifier(fields)
    rules = fields.parts("rules_", Rule, _check_rule)
    fields.sizes["r"] = len(rules)
    fields.scalar("default_")
    fields.part("model_", RuleModel, _check_model)
    fields.refuse("rules must name columns of the schema", unless=_known(rules) <= set(fields.schema.names))
    fields.array("coverage_", "float64", "r", low=0)
    fields.array("accuracy_", "float64", "r", is_finite=False)


def _known(rules: tuple[Rule, ...]) -> set[str]:
    return {literal.column for rule in rules for literal in rule.literals}


def _check_rule(fields: Fields) -> None:
    fields.parts("literals", Literal, _check_literal)
    fields.scalar("label")


def _check_literal(fields: Fields) -> None:
    fields.text("column")
    relation = fields.text("relation", RELATIONS)
    if relation == "in":
        fields.take("value", lambda value: type(value) is tuple, "a tuple of categories")
    else:
        fields.scalar("value")


def _check_model(fields: Fields) -> None:
    n_rules, n_classes = fields.sizes["r"], fields.sizes["k"]
    fields.part("matcher", Matcher, _check_matcher)
    fields.sizes["decisions"] = n_rules + 1
    fields.array("codes", "int64", "decisions", low=0, high=n_classes - 1)
    fields.array("probability", "float", "decisions k", low=0)
    fields.array("votes", "float", "r k", low=0)
    fields.array("prior", "float", "k", low=0)
    order = fields.numbers("order", tuple, "r")
    fields.refuse("the order must name every rule once", unless=sorted(order) == list(range(n_rules)))
    fields.flag("is_vote")


def _check_matcher(fields: Fields) -> None:
    """Check that every cell that a value can lead to exists, and that no bit beyond the rules is set."""
    n_rules, schema = fields.sizes["r"], fields.schema
    fields.natural("n_rules", low=n_rules, high=n_rules)
    all_rules = fields.array("all_rules", "int64", "words")
    every = (1 << n_rules) - 1
    words = [(every >> (WORD * word)) & ((1 << WORD) - 1) for word in range(max(1, -(-n_rules // WORD)))]
    fields.refuse("there must be a bit per rule", unless=all_rules.tolist() == words)
    masks = fields.array("masks", "int64", "cells words", low=0)
    fields.refuse("masks must name rules only", unless=(masks & ~all_rules == 0).all())
    numeric = fields.array("numeric", "int64", "u_numeric", low=0, high=fields.sizes["d_numeric"] - 1)
    nominal = fields.array("nominal", "int64", "u_nominal", low=0, high=fields.sizes["d_nominal"] - 1)
    edges = fields.array("edges", "float", "u_numeric e", is_finite=False)
    fields.refuse("edges must ascend", unless=_ascends(edges))
    fields.sizes["used"] = numeric.shape[0] + nominal.shape[0]
    offsets = fields.array("offsets", "int64", "used 1", low=0, high=masks.shape[0])
    missing = fields.array("missing", "int64", "used 1", low=0, high=masks.shape[0])
    n_edges = np.sum(np.isfinite(edges), axis=1, dtype=np.int64)
    n_values = np.asarray(schema.n_values, dtype=np.int64)[nominal]
    # cells of a column: one per bin or category, the last one for a missing value
    n_cells = np.concatenate((n_edges + 2, n_values + 1))
    fields.refuse("a missing value must have the last cell", unless=(missing[:, 0] == n_cells - 1).all())
    is_inside = offsets[:, 0] + n_cells <= masks.shape[0]
    fields.refuse("cells of columns must exist", unless=is_inside.all())


def _ascends(edges: HostArray) -> bool:
    """Whether edges ascend; rows are padded with infinity."""
    return bool((edges[:, 1:] >= edges[:, :-1]).all() and not (np.isnan(edges) | (edges == -np.inf)).any())
