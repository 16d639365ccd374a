"""Single trees: every measure, splitter, limit, policy of missing values and pruning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import arraylearn as al
from arraylearn.measures import MEASURES
from arraylearn.tree.pruning import ChiSquare, Confidence, CostComplexity, Pessimistic, ReducedError
from tests.digests import canonical
from tests.digests.case import SEED, Case, Result, hashed, make, whole
from tests.digests.sets import MISSING, NOMINAL, SMALL, Rows

__all__ = ["PRUNINGS", "tree_cases"]

_LIMITS = {
    "depth": {"max_depth": 3},
    "split": {"min_samples_split": 12},
    "split_share": {"min_samples_split": 0.1},
    "leaf": {"min_samples_leaf": 5},
    "leaf_share": {"min_samples_leaf": 0.04},
    "leaves": {"max_leaf_nodes": 7},
    "gain": {"min_impurity_decrease": 0.02},
}
_DRAWN = {
    "columns_2": {"max_features": 2},
    "columns_sqrt": {"max_features": "sqrt"},
    "columns_log2": {"max_features": "log2"},
    "columns_half": {"max_features": 0.5},
}
PRUNINGS = {
    "reduced_error": {"pruning": "reduced_error"},
    "reduced_error_more": {"pruning": ReducedError(0.4)},
    "reduced_error_raised": {"pruning": ReducedError(raising=True)},
    "pessimistic": {"pruning": "pessimistic"},
    "pessimistic_dear": {"pruning": Pessimistic(1.5)},
    "pessimistic_raised": {"pruning": Pessimistic(raising=True)},
    "confidence": {"pruning": "confidence"},
    "confidence_low": {"pruning": Confidence(0.05)},
    "confidence_normal": {"pruning": Confidence(0.6, limit="normal")},
    "confidence_raised": {"pruning": Confidence(raising=True)},
    "mdl": {"pruning": "mdl"},
    "alpha": {"ccp_alpha": 0.01},
    "alpha_error": {"pruning": CostComplexity(0.02, risk="error")},
    "alpha_chosen": {"pruning": CostComplexity(folds=4)},
    "alpha_chosen_error": {"pruning": CostComplexity(risk="error", folds=3, standard_errors=0.0)},
    "significance": {"pruning": ChiSquare(0.05)},
}
# A split knows where missing values go also where the training rows have none.
_ANY_POLICY = tuple(dict.fromkeys((*MISSING, *NOMINAL, "iris", "ties", "float32")))
_MISSING = ("fractional", "surrogate", "direction", "known_fraction")


def _own_measure(xp: Any, counts: Any) -> Any:
    """Stand for a measure that the library does not know by name."""
    return MEASURES["gini"](xp, counts)


def tree_cases() -> Iterable[Case]:
    tree = al.DecisionTreeClassifier
    for measure in MEASURES:
        yield hashed(f"tree/{measure}", tree, {"criterion": measure}, SMALL)
        yield hashed(f"tree/{measure}_hist", tree, {"criterion": measure, "splitter": "hist"}, SMALL)
        binary = {"criterion": measure, "nominal": "binary", "missing": "direction"}
        yield hashed(f"tree/{measure}_binary", tree, binary, NOMINAL)
    yield hashed("tree/own_measure", tree, {"criterion": _own_measure}, SMALL)
    for splitter, n_bins in (
        ("exact", 64),
        ("hist", 8),
        ("hist", 300),
        ("clouds", 16),
        ("clouds_sampling", 16),
    ):
        options = {"splitter": splitter, "max_bins": n_bins}
        yield hashed(f"tree/{splitter}_{n_bins}", tree, options, SMALL)
    for splitter in ("exact", "hist"):
        for name, options in (_LIMITS | _DRAWN).items():
            options = {**options, "splitter": splitter, "random_state": SEED}
            yield hashed(f"tree/{name}_{splitter}", tree, options, SMALL)
        yield hashed(f"tree/weight_{splitter}", tree, {"splitter": splitter}, SMALL, weighted=True)
        entropy = {"splitter": splitter, "criterion": "entropy", "min_samples_leaf": 3}
        yield hashed(f"tree/weight_entropy_{splitter}", tree, entropy, SMALL, weighted=True)
        yield hashed(
            f"tree/class_weight_{splitter}",
            tree,
            lambda rows, s=splitter: {"splitter": s, "class_weight": whole(rows)},
            SMALL,
        )
    yield hashed("tree/balanced", tree, {"class_weight": "balanced"}, SMALL)
    yield from _missing_cases(tree)
    yield from _c45_cases(tree)
    for name, options in PRUNINGS.items():
        yield hashed(f"tree/{name}", tree, {**options, "random_state": SEED}, SMALL)
    for name in ("confidence_raised", "mdl", "alpha_chosen", "reduced_error"):
        options = {**PRUNINGS[name], "random_state": SEED, "criterion": "entropy", "splitter": "hist"}
        yield hashed(f"tree/{name}_hist_weight", tree, options, SMALL, weighted=True)
    yield Case("tree/reduced_error_given", _prune_on_given, SMALL)


def _missing_cases(tree: Any) -> Iterable[Case]:
    for missing in _MISSING:
        for nominal in ("multiway", "binary"):
            if missing == "surrogate" and nominal == "multiway":
                continue
            for splitter in ("exact", "hist", "clouds"):
                if missing == "direction" and splitter == "clouds":
                    continue
                options = {"missing": missing, "nominal": nominal, "splitter": splitter}
                name = f"tree/{missing}_{nominal}_{splitter}"
                yield hashed(name, tree, options, _ANY_POLICY)
                yield hashed(f"{name}_weight", tree, options, MISSING, weighted=True)


def _c45_cases(tree: Any) -> Iterable[Case]:
    ratio = {"criterion": "gain_ratio"}
    yield hashed("tree/penalize_thresholds", tree, {**ratio, "penalize_thresholds": True}, SMALL)
    yield hashed("tree/average_gain", tree, {**ratio, "require_average_gain": True}, SMALL)
    hist = {**ratio, "require_average_gain": True, "splitter": "hist"}
    yield hashed("tree/average_gain_hist", tree, hist, SMALL)
    yield hashed("tree/collapse", tree, {"collapse": True, "min_samples_leaf": 4}, SMALL)
    yield hashed("id3/default", al.id3, {}, SMALL)
    yield hashed("id3/limits", al.id3, {"max_depth": 3, "min_samples_leaf": 3}, SMALL)
    yield hashed("c45/default", al.c45, {}, SMALL)
    yield hashed("c45/weight", al.c45, {}, SMALL, weighted=True)
    yield hashed("c45/grown", al.c45, {"pruning": None, "min_samples_leaf": 1}, SMALL)
    yield hashed("c45/plain", al.c45, {"pruning": Confidence(0.1)}, SMALL)
    yield hashed("c45/mdl", al.c45, {"pruning": "mdl", "max_depth": 5}, SMALL)
    yield hashed(
        "cart/default",
        al.cart,
        {"random_state": SEED, "pruning": CostComplexity(risk="error", folds=5)},
        SMALL,
    )
    yield hashed("cart/grown", al.cart, {"pruning": None, "max_leaf_nodes": 12}, SMALL)
    yield hashed(
        "cart/weight",
        al.cart,
        {"pruning": CostComplexity(0.01, risk="error"), "min_samples_leaf": 3},
        SMALL,
        weighted=True,
    )


def _prune_on_given(rows: Rows) -> Result:
    model = make(al.DecisionTreeClassifier, {"pruning": "reduced_error"}, rows)
    n = len(rows.y)
    take = rows.X.iloc if hasattr(rows.X, "iloc") else rows.X
    held = np.arange(n) % 3 == 0
    model.fit(take[~held], rows.y[~held], validation=(take[held], rows.y[held]))
    report = [str(part) for part in model.pruning_report_[:2]]
    return canonical.describe(model) + report, canonical.predictions(model, rows.probe)
