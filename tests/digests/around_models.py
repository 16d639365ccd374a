"""What is done with models and rows: judging, choosing, cutting into intervals, weighing columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

import arraylearn as al
from arraylearn.measures import MEASURES
from arraylearn.table import discretize
from arraylearn.tree import class_histogram, pruning, threshold_scores
from arraylearn.tree.pruning import Confidence, CostComplexity
from tests.digests import canonical
from tests.digests.case import SEED, Case, fit, lines_of
from tests.digests.ensembles import HELD_OUT
from tests.digests.sets import COMPLETE, SCALED, SMALL, Rows
from tests.digests.trees import PRUNINGS

__all__ = ["importance_cases", "selection_cases", "table_cases"]

_JUDGED = {
    "tree": (al.DecisionTreeClassifier(), SMALL),
    "tree_pruned": (al.DecisionTreeClassifier(ccp_alpha=0.01), SMALL),
    "c45": (al.c45(), ("iris", "wine", "ties", "mixed")),
    "forest": (al.RandomForestClassifier(n_estimators=3, random_state=SEED), ("iris", "missing")),
    "boosting": (
        al.GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=SEED),
        ("iris", "ties", "mixed"),
    ),
    "ripper": (al.RipperClassifier(random_state=SEED), ("iris",)),
    "naive": (al.NaiveBayesClassifier(), ("tennis", "mixed", "ten_classes")),
}
_JUDGED_FLOAT = {
    "naive": (al.NaiveBayesClassifier(), ("iris", "wine", "float32")),
    "full": (al.FullBayesClassifier(), ("iris", "wine")),
    "svc": (al.SVC(tol=1e-5), SCALED),
    "svc_ova": (al.SVC(tol=1e-5, multiclass="ovr", kernel="linear"), SCALED),
}
_GRIDS = {
    "tree_alpha": (
        al.DecisionTreeClassifier(),
        {"pruning": [CostComplexity(alpha) for alpha in (0.0, 0.003, 0.01, 0.05)]},
    ),
    "tree_depth": (al.DecisionTreeClassifier(), {"max_depth": [1, 3, 6], "min_samples_leaf": [1, 4]}),
    "tree_hist": (
        al.DecisionTreeClassifier(splitter="hist", max_bins=64),
        {"max_depth": [2, 4], "criterion": ["gini", "chi2"]},
    ),
    "c45_confidence": (al.c45(), {"pruning": [Confidence(cf, raising=True) for cf in (0.05, 0.25)]}),
    "boosting_rounds": (
        al.GradientBoostingClassifier(max_depth=2, random_state=SEED),
        {"n_estimators": [1, 3, 5], "learning_rate": [0.1, 0.5]},
    ),
    "forest_rounds": (al.RandomForestClassifier(random_state=SEED), {"n_estimators": [1, 3, 5]}),
}
_GRIDS_FLOAT = {
    "svc_price": (al.SVC(tol=1e-5), {"C": [0.1, 1.0, 10.0], "gamma": [0.5, 2.0]}),
    "svc_linear": (al.SVC(tol=1e-5, kernel="linear"), {"C": [0.1, 1.0, 10.0]}),
    "naive_floor": (al.NaiveBayesClassifier(), {"var_smoothing": [1e-9, 1e-2]}),
    "full_shrinkage": (al.FullBayesClassifier(), {"shrinkage": [None, 0.1, 0.5]}),
}


def _few(rows: Rows, n_classes: int) -> int:
    """Return a number of folds that every class has rows for."""
    return max(2, min(4, int(np.unique(rows.y, return_counts=True)[1].min()), n_classes + 2))


def _judge(estimator: Any, rows: Rows) -> Any:
    model = _with_nominal(estimator, rows)
    return al.evaluate(model, rows.X, rows.y, cv=_few(rows, 2), verbose=0)


def _with_nominal(estimator: Any, rows: Rows) -> Any:
    made = clone(estimator)
    return made if rows.categorical is None else made.set_params(categorical_features=rows.categorical)


def _report_lines(report: Any) -> list[str]:
    found = [canonical.show_labels(part) for part in report.predictions]
    return [*found, str(report.confusion.tolist()), canonical.show_array(report.errors)]


def _report_numbers(report: Any) -> canonical.Numbers:
    return {"confusion": [float(one) for one in report.confusion.reshape(-1)], "error": [report.error]}


def _search(estimator: Any, grid: Any, rows: Rows) -> Any:
    model = _with_nominal(estimator, rows)
    cv = StratifiedKFold(_few(rows, 2))
    return al.GridSearch(model, grid, cv=cv, verbose=0, refit=False).fit(rows.X, rows.y)


def _search_scores(search: Any) -> Any:
    found = search.cv_results_
    return np.stack([found[f"split{i}_test_score"] for i in range(search.n_splits_)])


def selection_cases() -> Iterable[Case]:
    for name, (model, sets) in _JUDGED.items():
        yield lines_of(f"cross_validate/{name}", lambda rows, m=model: _report_lines(_judge(m, rows)), sets)
    for name, (model, sets) in _JUDGED_FLOAT.items():
        yield Case(
            f"cross_validate/{name}_numbers", lambda rows, m=model: _report_numbers(_judge(m, rows)), sets
        )
        if name != "svc_ova":
            yield Case(
                f"leave_one_out/{name}_numbers",
                lambda rows, m=model: _report_numbers(al.leave_one_out(m, rows.X, rows.y, verbose=0)),
                sets[:1],
            )
    tree = al.DecisionTreeClassifier()
    yield lines_of(
        "leave_one_out/tree",
        lambda rows: _report_lines(al.leave_one_out(tree, rows.X, rows.y, verbose=0)),
        ("tennis", "hire"),
    )
    for name, (model, grid) in _GRIDS.items():
        yield lines_of(
            f"grid/{name}",
            lambda rows, m=model, g=grid: [canonical.show_array(_search_scores(_search(m, g, rows)))],
            ("iris", "wine", "ties", "missing", "mixed"),
        )
    for name, (model, grid) in _GRIDS_FLOAT.items():
        yield Case(
            f"grid/{name}_numbers",
            lambda rows, m=model, g=grid: {
                "scores": _search_scores(_search(m, g, rows)).reshape(-1).tolist(),
            },
            ("iris_scaled", "wine_scaled"),
        )


def table_cases() -> Iterable[Case]:
    plain = (*COMPLETE, "missing")
    for method in ("width", "frequency", "tree"):
        for n_bins in (4, 10):
            yield lines_of(
                f"discretize/{method}_{n_bins}",
                lambda rows, m=method, n=n_bins: [
                    canonical.show_array(part) for part in discretize(rows.X, rows.y, method=m, n_bins=n)
                ],
                plain,
            )
    yield lines_of("counts/histogram", _histogram_lines, plain)
    yield Case("measures/thresholds", _threshold_numbers, plain)
    yield lines_of("resample/random", _resampled_lines, ("iris", "wine", "digits", "float32"))
    yield Case("resample/smote", _smote_numbers, ("wine", "cancer", "float32"))


def _binned(rows: Rows) -> tuple[Any, Any, int]:
    bins = discretize(rows.X, method="frequency", n_bins=6).codes.T + 1
    return bins, np.unique(rows.y, return_inverse=True)[1], 7


def _histogram_lines(rows: Rows) -> list[str]:
    bins, codes, n_bins = _binned(rows)
    nodes, n_classes = np.arange(len(codes)) % 3, int(codes.max()) + 1
    found = [
        class_histogram(bins, codes, n_bins, n_classes),
        class_histogram(bins, codes, n_bins, n_classes, nodes=nodes, n_nodes=3),
        class_histogram(bins, codes, n_bins, n_classes, weights=rows.weight),
    ]
    return [canonical.show_array(counts) for counts in found]


def _threshold_numbers(rows: Rows) -> canonical.Numbers:
    bins, codes, n_bins = _binned(rows)
    counts = class_histogram(bins, codes, n_bins, int(codes.max()) + 1)
    return {name: canonical.project(threshold_scores(counts, name)) for name in MEASURES}


def _resampled_lines(rows: Rows) -> list[str]:
    kinds = (al.resample.RandomOverSampler, al.resample.RandomUnderSampler)
    found = [kind(random_state=SEED).fit_resample(rows.X, rows.y) for kind in kinds]
    return [canonical.show_array(part) for pair in found for part in pair]


def _smote_numbers(rows: Rows) -> canonical.Numbers:
    X, y = al.resample.SMOTE(random_state=SEED, k_neighbors=3).fit_resample(rows.X, rows.y)
    return {"labels": canonical.show_labels(y), "rows": canonical.project(X)}


def importance_cases() -> Iterable[Case]:
    models = {
        "tree": (al.DecisionTreeClassifier, {}),
        "tree_entropy": (al.DecisionTreeClassifier, {"criterion": "entropy", "nominal": "binary"}),
        "c45": (al.c45, {}),
        "forest": (al.RandomForestClassifier, {"n_estimators": 5, "random_state": SEED}),
        "extra": (al.ExtraTreesClassifier, {"n_estimators": 5, "random_state": SEED}),
        "boosting": (al.GradientBoostingClassifier, {"n_estimators": 4, "min_samples_leaf": 3}),
        "adaboost": (
            al.AdaBoostClassifier,
            {"estimator": al.DecisionTreeClassifier(max_depth=4), "n_estimators": 3},
        ),
    }
    for name, (kind, options) in models.items():
        yield Case(
            f"importances/{name}",
            lambda rows, k=kind, o=options: _importances(fit(k, o, rows), rows),
            ("iris", "wine", "missing", "mixed", "ten_classes"),
        )
    yield Case("path/cost_complexity", _path_numbers, SMALL)
    stopping = {"n_estimators": 8, "early_stopping": True, "random_state": SEED, "min_samples_leaf": 3}
    yield Case(
        "losses/boosting",
        lambda rows: {
            "losses": (-fit(al.GradientBoostingClassifier, stopping, rows).validation_score_).tolist()
        },
        HELD_OUT,
    )


def _importances(model: Any, rows: Rows) -> canonical.Numbers:
    shuffled = al.permutation_importance(model, rows.X, rows.y, n_repeats=2, random_state=SEED)
    return {
        "gains": np.asarray(model.feature_importances_).tolist(),
        "shuffled": shuffled.importances_mean.tolist(),
    }


def _path_numbers(rows: Rows) -> canonical.Numbers:
    tree = fit(al.DecisionTreeClassifier, {}, rows).tree_
    found = {}
    for risk in ("impurity", "error"):
        path = pruning.cost_complexity_path(tree, risk=risk)
        found[risk] = [number for part in path for number in canonical.project(part)]
    chosen = fit(al.DecisionTreeClassifier, {**PRUNINGS["alpha_chosen"], "random_state": SEED}, rows)
    choice = chosen.alpha_choice_
    found["choice"] = [float(choice.best), float(choice.chosen), *canonical.project(choice.errors)]
    return found
