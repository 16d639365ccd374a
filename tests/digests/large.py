"""The core learners above every automatic threshold."""

from __future__ import annotations

from collections.abc import Iterable

import arraylearn as al
from tests.digests.case import SEED, Case, hashed, measured
from tests.digests.sets import BIG

__all__ = ["big_cases"]


def big_cases() -> Iterable[Case]:
    tree = al.DecisionTreeClassifier
    few = {"n_estimators": 3, "random_state": SEED}
    learners = {
        "tree_exact": (tree, {"splitter": "exact", "max_depth": 6, "missing": "known_fraction"}),
        "tree_exact_entropy": (
            tree,
            {"splitter": "exact", "max_depth": 3, "criterion": "entropy", "missing": "known_fraction"},
        ),
        "tree_hist": (tree, {"splitter": "hist", "max_depth": 12, "missing": "known_fraction"}),
        "tree_hist_gain_ratio": (
            tree,
            {
                "splitter": "hist",
                "max_depth": 8,
                "criterion": "gain_ratio",
                "missing": "known_fraction",
                "nominal": "binary",
            },
        ),
        "forest": (al.RandomForestClassifier, few),
        "extra": (al.ExtraTreesClassifier, few),
        "boosting": (al.GradientBoostingClassifier, {"n_estimators": 5}),
        "boosting_leaves": (
            al.GradientBoostingClassifier,
            {"n_estimators": 3, "max_leaf_nodes": 20, "subsample": 0.5, "random_state": SEED},
        ),
        "adaboost": (
            al.AdaBoostClassifier,
            {"estimator": tree(max_depth=2, missing="known_fraction"), **few},
        ),
    }
    for name, (kind, options) in learners.items():
        yield hashed(f"{name}/big", kind, options, BIG)
    yield hashed("tree_exact/big_grown", tree, {"splitter": "exact"}, BIG[:1])
    yield hashed("tree_hist/big_weight", tree, {"splitter": "hist"}, BIG[:1], weighted=True)
    yield hashed("c45/big", al.c45, {"max_depth": 3}, BIG)
    few_rules = {"rounds": 1, "min_coverage": 3000.0, "random_state": SEED}
    yield hashed("ripper/big", al.RipperClassifier, few_rules, BIG)
    yield hashed("covering/big", al.SequentialCoveringClassifier, {"max_rules": 2, "max_literals": 3}, BIG)
    yield measured("naive/big", al.NaiveBayesClassifier, {}, BIG)
    yield measured("full/big", al.FullBayesClassifier, {}, BIG[:1])
