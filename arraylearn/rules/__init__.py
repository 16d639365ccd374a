"""Rules: objects and text, matching by bit masks, sequential covering and RIPPER."""

from arraylearn.rules.classifier import Explanation
from arraylearn.rules.learners import RipperClassifier, SequentialCoveringClassifier
from arraylearn.rules.quality import RuleQuality, measure_rules
from arraylearn.rules.rule import Literal, Rule
from arraylearn.rules.text import parse_rule, parse_rules

__all__ = [
    "Explanation",
    "Literal",
    "RipperClassifier",
    "Rule",
    "RuleQuality",
    "SequentialCoveringClassifier",
    "measure_rules",
    "parse_rule",
    "parse_rules",
]
