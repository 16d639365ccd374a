"""Forests and boosting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import arraylearn as al
from tests.digests import canonical
from tests.digests.case import SEED, Case, Result, fit, hashed, whole
from tests.digests.sets import SMALL, Rows

__all__ = ["HELD_OUT", "adaboost_cases", "boosting_cases", "forest_cases"]

_FOREST = {
    "default": {},
    "all_columns": {"max_features": None},
    "half_columns": {"max_features": 0.5},
    "log2_columns": {"max_features": "log2"},
    "depth": {"max_depth": 4, "max_features": 2},
    "split": {"min_samples_split": 9},
    "leaf": {"min_samples_leaf": 4},
    "other_bags": {"bootstrap": None},  # the other value of each kind of forest
    "out_of_bag": {"bootstrap": True, "oob_score": True, "n_estimators": 30},
    "balanced": {"class_weight": "balanced", "bootstrap": True},
}


def forest_cases() -> Iterable[Case]:
    kinds = {"forest": (al.RandomForestClassifier, False), "extra": (al.ExtraTreesClassifier, True)}
    for family, (kind, other_bags) in kinds.items():
        for name, options in _FOREST.items():
            options = {"n_estimators": 6, "random_state": SEED, **options}
            if name == "other_bags":
                options["bootstrap"] = other_bags
            yield hashed(f"{family}/{name}", kind, options, SMALL)
        few = {"n_estimators": 6, "random_state": SEED}
        yield hashed(f"{family}/weight", kind, few, SMALL, weighted=True)
        yield hashed(
            f"{family}/class_weight",
            kind,
            lambda rows, few=few: {**few, "class_weight": whole(rows)},
            SMALL,
        )
        yield Case(f"{family}/warm_start", lambda rows, kind=kind: _grow_on(kind, rows), SMALL)
    yield hashed(
        "forest/weight_without_bags",
        al.RandomForestClassifier,
        {"n_estimators": 4, "random_state": SEED, "bootstrap": False},
        SMALL,
        weighted=True,
    )


def _grow_on(kind: Any, rows: Rows) -> Result:
    model = fit(kind, {"n_estimators": 2, "random_state": SEED, "warm_start": True}, rows)
    model.set_params(n_estimators=5).fit(rows.X, rows.y)
    return canonical.describe(model), canonical.predictions(model, rows.probe)


_BOOSTING = {
    "default": {},
    "learning_rate": {"learning_rate": 0.4},
    "deep": {"max_depth": None},
    "leaves": {"max_leaf_nodes": 6},
    "leaves_only": {"max_leaf_nodes": 9, "max_depth": None},
    "l2": {"l2_regularization": 2.0},
    "hessian": {"min_child_hessian": 3.0},
    "small_leaves": {"min_samples_leaf": 1, "max_depth": 3},
    "bins": {"max_bins": 10},
    "subsample": {"subsample": 0.6},
    "columns": {"max_features": 0.5},
    "smoothing": {"categorical_smoothing": 0.5},
    "early_stopping": {"early_stopping": True, "n_iter_no_change": 2, "n_estimators": 12},
    "early_stopping_more": {
        "early_stopping": True,
        "validation_fraction": 0.3,
        "tol": 0.01,
        "n_iter_no_change": 1,
        "n_estimators": 12,
    },
    "balanced": {"class_weight": "balanced"},
}
HELD_OUT = tuple(name for name in SMALL if name not in ("tennis", "hire"))


def boosting_cases() -> Iterable[Case]:
    kind = al.GradientBoostingClassifier
    base = {"n_estimators": 4, "random_state": SEED, "max_depth": 4, "min_samples_leaf": 5}
    for name, options in _BOOSTING.items():
        sets = HELD_OUT if "early" in name else SMALL
        yield hashed(f"boosting/{name}", kind, base | options, sets)
    yield hashed("boosting/weight", kind, base, SMALL, weighted=True)
    yield hashed("boosting/weight_subsample", kind, base | {"subsample": 0.5}, SMALL, weighted=True)
    yield hashed("boosting/class_weight", kind, lambda rows: base | {"class_weight": whole(rows)}, SMALL)
    two = ("cancer", "ties", "single", "duplicates")
    for name, options in (("", {}), ("_leaves", {"max_leaf_nodes": 6}), ("_columns", {"max_features": 0.6})):
        yield hashed(
            f"boosting/monotonic{name}",
            kind,
            lambda rows, more=options: base | more | {"monotonic_cst": _trend(rows)},
            two,
        )
    mixed = base | {"monotonic_cst": {"size": 1, "weight": -1}}
    yield hashed("boosting/monotonic_by_name", kind, mixed, ("mixed",))


def _trend(rows: Rows) -> list[int]:
    return [(1, -1, 0)[j % 3] for j in range(rows.X.shape[1])]


# AdaBoost gives a forest whose least numbers of rows are the defaults others that the forest refuses.
_NO_DEFAULTS = {"min_samples_leaf": 2, "min_samples_split": 4}


def adaboost_cases() -> Iterable[Case]:
    kind = al.AdaBoostClassifier
    base = {"n_estimators": 5, "random_state": SEED}
    tree = al.DecisionTreeClassifier
    inner = {
        "default": {"estimator": None},
        "depth": {"estimator": tree(max_depth=3)},
        "hist": {"estimator": tree(max_depth=2, splitter="hist", max_bins=64)},
        "entropy": {"estimator": tree(max_depth=3, criterion="entropy", max_features=0.5)},
        "learning_rate": {"learning_rate": 0.5},
        "forest": {"estimator": al.ExtraTreesClassifier(n_estimators=2, bootstrap=True, **_NO_DEFAULTS)},
    }
    sets = tuple(name for name in SMALL if name != "ten_classes")
    for name, options in inner.items():
        yield hashed(f"adaboost/{name}", kind, base | options, sets)
    yield hashed("adaboost/weight", kind, base | {"estimator": tree(max_depth=2)}, sets, weighted=True)
    yield hashed("adaboost/deep", kind, base | {"estimator": tree(max_depth=5)}, ("ten_classes",))
