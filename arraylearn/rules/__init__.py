"""Rules: objects and text, matching by bit masks, sequential covering, RIPPER, rules from trees."""

from arraylearn.rules.base import Explanation
from arraylearn.rules.estimators import RipperClassifier, SequentialCoveringClassifier
from arraylearn.rules.from_tree import rules_from_tree
from arraylearn.rules.quality import RuleQuality, measure_rules
from arraylearn.rules.rule import Literal, Rule
from arraylearn.rules.rule_set import RuleSetClassifier
from arraylearn.rules.rule_text import parse_rule, parse_rules

__all__ = [
    "Explanation",
    "Literal",
    "RipperClassifier",
    "Rule",
    "RuleQuality",
    "RuleSetClassifier",
    "SequentialCoveringClassifier",
    "measure_rules",
    "parse_rule",
    "parse_rules",
    "rules_from_tree",
]
