"""Rules: learned, given, and read from trees."""

from __future__ import annotations

from collections.abc import Iterable

import arraylearn as al
from arraylearn.tree import leaf_rules
from tests.digests.case import SEED, Case, fit, hashed, lines_of
from tests.digests.sets import SMALL, Rows

__all__ = ["rule_cases"]

_COVERING = {
    "default": {},
    "foil": {"gain": "foil"},
    "strictest": {"conflict": "strictest"},
    "vote": {"conflict": "vote", "gain": "foil"},
    "accuracy": {"min_accuracy": 0.8},
    "coverage": {"min_coverage": 6.0},
    "literals": {"max_literals": 2, "min_coverage": 3.0},
    "rules": {"max_rules": 3, "gain": "foil"},
}
_RIPPER = {
    "default": {},
    "no_rounds": {"rounds": 0},
    "one_round": {"rounds": 1, "folds": 4},
    "weight_of_rule": {"min_coverage": 5.0},
    "cohen": {"smoothing": 0.0},
}


def rule_cases() -> Iterable[Case]:
    for name, options in _COVERING.items():
        sets = [
            one for one in SMALL if one not in ("digits", "mixed", "ten_classes") or "min" in str(options)
        ]
        yield hashed(f"covering/{name}", al.SequentialCoveringClassifier, options, sets)
    yield hashed(
        "covering/weight", al.SequentialCoveringClassifier, {"min_coverage": 5.0}, SMALL, weighted=True
    )
    for name, options in _RIPPER.items():
        sets = [one for one in SMALL if one != "digits" or name in ("default", "no_rounds")]
        yield hashed(f"ripper/{name}", al.RipperClassifier, {**options, "random_state": SEED}, sets)
    sets = [one for one in SMALL if one != "digits"]
    yield hashed("ripper/weight", al.RipperClassifier, {"random_state": SEED}, sets, weighted=True)
    yield hashed("rule_set/from_c45", al.RuleSetClassifier, {}, SMALL)
    yield hashed("rule_set/unpruned", al.RuleSetClassifier, {"post_prune": False}, SMALL)
    grown = {"rules": al.DecisionTreeClassifier(nominal="binary", max_depth=4), "conflict": "vote"}
    yield hashed("rule_set/from_tree", al.RuleSetClassifier, grown, SMALL)
    by_hand = "colour in {red, blue} and size > 40.5 -> 1\nflag = True and weight <= 12 -> 0\notherwise -> 1"
    for conflict in ("first", "strictest", "vote"):
        options = {"rules": by_hand, "conflict": conflict}
        yield hashed(f"rule_set/by_hand_{conflict}", al.RuleSetClassifier, options, ("mixed",))
    yield lines_of("rules/of_tree", _leaves_as_rules, SMALL)


def _leaves_as_rules(rows: Rows) -> list[str]:
    model = fit(al.DecisionTreeClassifier, {"max_depth": 4}, rows)
    return [*leaf_rules(model), *map(str, al.rules.rules_from_tree(model))]
