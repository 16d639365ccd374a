"""Rules: objects and text, matching by bit masks, sequential covering, RIPPER, rules from trees."""

from arraylearn.rules.covering import SequentialCoveringClassifier
from arraylearn.rules.from_tree import rules_from_tree
from arraylearn.rules.given_rules import RuleQuality, measure_rules
from arraylearn.rules.ripper import RipperClassifier
from arraylearn.rules.rule import Literal, Rule, parse_rule, parse_rules
from arraylearn.rules.rule_classifier import Explanation
from arraylearn.rules.rule_set import RuleSetClassifier

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
