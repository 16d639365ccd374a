"""Judging and choosing models beside a loop over scikit-learn: peer's time over ours (higher is better).

python -m benchmarks.selection                       # all jobs, one thread each
python -m benchmarks.selection --job svc --rows 5000 --gammas 5 --threads 2 --one-in 10
python -m benchmarks.selection --clock cpu           # time on our cores only, for a machine that others use
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as LIBSVM

import arraylearn as al
from arraylearn.bench.data import Shape, machine_rows
from benchmarks.harness import race, threads

BARS = {"svc": 3.0, "leave-one-out": 1.0}


def overlapping(n: int, d: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Draw two classes that overlap, with 5 % wrong labels."""
    rows = machine_rows(Shape(n, d))
    return rows.X, rows.y


def moons(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw two moons and eight columns of noise."""
    rows = machine_rows(Shape(n, 10), kind="moons")
    return rows.X, rows.y


def noisy(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw ten numeric and forty 0/1 columns with a nonlinear target and 15 % wrong labels."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(n, 10)) @ rng.normal(size=(10, 10)) / 2
    kind = np.clip((8 * abs(Z[:, 0]) + 0.3 * rng.integers(0, 40, n)).astype(int), 0, 39)
    value = (
        np.sin(1.5 * Z[:, 0])
        + 0.5 * Z[:, 1] * Z[:, 2]
        + np.cos(2 * Z[:, 3])
        + 0.7 * rng.normal(size=40)[kind]
    )
    y = (value > np.median(value)) ^ (rng.random(n) < 0.15)
    return StandardScaler().fit_transform(np.concatenate([Z, np.eye(40)[kind]], axis=1)), y.astype(int)


DATA: dict[str, Callable[[int], tuple[np.ndarray, np.ndarray]]] = {
    "overlapping": overlapping,
    "moons": moons,
    "noisy": noisy,
}


def svc_grid(X: np.ndarray, n_prices: int, n_gammas: int) -> dict[str, list[float]]:
    """Return prices from 0.1 to 100 and gammas around one over the columns."""
    scale = 1 / X.shape[1]
    gammas = scale * np.logspace(-1, 1, n_gammas) if n_gammas > 1 else np.array([scale])
    return {"C": np.logspace(-1, 2, n_prices).tolist(), "gamma": gammas.tolist()}


def libsvm_loop(X: np.ndarray, y: np.ndarray, folds: list[Any], params: list[Any], one_in: int) -> Any:
    """Fit and score one in so many pairs of candidate and fold: every price and every fold as often."""
    scores = {}
    for c, values in enumerate(params):
        for f, (train, test) in enumerate(folds):
            if (c + 4 * f) % one_in == 0:
                model = LIBSVM(cache_size=200, **values).fit(X[train], y[train])
                scores[c, f] = model.score(X[test], y[test])
    return scores


def search_svc(
    name: str, n: int, n_prices: int, n_gammas: int, turns: int, clock: Any, one_in: int = 1
) -> float:
    """Race 5 folds x prices x gammas, without the refit; print a line and return the ratio."""
    X, y = DATA[name](n)
    grid = svc_grid(X, n_prices, n_gammas)
    folds = list(StratifiedKFold(5).split(X, y))
    params = list(ParameterGrid(grid))
    found: dict[str, Any] = {}

    def ours() -> None:
        found["ours"] = al.GridSearch(al.SVC(), grid, cv=folds, refit=False, progress=False).fit(X, y)

    def peer() -> None:
        found["peer"] = libsvm_loop(X, y, folds, params, one_in)

    times = race({"ours": ours, "peer": peer}, turns=turns, clock=clock)
    loop = times["peer"] * one_in
    results = found["ours"].cv_results_
    off = max(abs(results[f"split{f}_test_score"][c] - score) for (c, f), score in found["peer"].items())
    part = "" if one_in == 1 else f" (from 1 in {one_in} fits)"
    print(
        f"svc search {name:12s} n={n:6d}  5 x {n_prices} x {n_gammas}: ours {times['ours']:7.2f} s, LIBSVM "
        f"loop{part} {loop:7.2f} s, ratio {loop / times['ours']:5.2f} (bar {BARS['svc']:g}); best score "
        f"{results['mean_test_score'].max():.4f}, a fold's score differs by at most {off:.1e}",
        flush=True,
    )
    return loop / times["ours"]


def leave_out(n: int, d: int, k: int, clock: Any) -> None:
    """Time leave-one-out of the Bayes classifiers; the loop is timed on 20 rows and multiplied."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, k, n)
    X = rng.normal(size=(n, d)) + 0.3 * y[:, None]
    for model in (
        al.NaiveBayesClassifier(),
        al.FullBayesClassifier(),
        al.FullBayesClassifier(covariance="shared"),
    ):
        begin = clock()
        report = al.leave_one_out(model, X, y, refit=False, progress=False)
        ours = clock() - begin
        begin = clock()
        for i in range(20):
            clone(model).fit(np.delete(X, i, 0), np.delete(y, i)).predict(X[i : i + 1])
        loop = (clock() - begin) / 20 * n
        print(
            f"leave-one-out {model!s:44s} n={n} d={d} k={k}: {ours:6.3f} s "
            f"(bar {BARS['leave-one-out']:g} s); "
            f"loop {loop:8.1f} s, ratio {loop / ours:7.0f}; error {report.error:.4f}",
            flush=True,
        )


def other_searches(n: int, clock: Any) -> None:
    """Time the other fast paths beside our own loop: the same classifier, candidate by candidate."""
    X, y = overlapping(n)
    searches = {
        "one tree": (al.DecisionTreeClassifier(splitter="exact"), {}),
        "tree leaves": (al.DecisionTreeClassifier(splitter="exact"), {"min_samples_leaf": [1, 5, 20, 80]}),
        "tree prunings": (
            al.DecisionTreeClassifier(),
            [
                {"pruning": ["pessimistic", "mdl", None]},
                {"pruning": ["cost_complexity"], "alpha": [0.001, 0.01]},
            ],
        ),
        "tree depths": (al.DecisionTreeClassifier(), {"max_depth": [2, 3, 4, 5, 6, 8, 10, 12, None]}),
        "boosting rounds": (
            al.GradientBoostingClassifier(max_depth=4),
            {"n_estimators": [10, 20, 40, 60, 80, 100]},
        ),
        "naive Bayes": (al.NaiveBayesClassifier(), {"variance_floor": [1e-9, 1e-6, 1e-3, 1e-2, 1e-1]}),
        "full Bayes": (al.FullBayesClassifier(), {"shrinkage": [0.0, 0.1, 0.2, 0.3, 0.5]}),
    }
    for name, (model, grid) in searches.items():
        runs = {
            key: lambda flag=key == "fast", model=model, grid=grid: al.GridSearch(
                model, grid, refit=False, fast=flag, progress=False
            ).fit(X, y)
            for key in ("fast", "loop")
        }
        times = race(runs, turns=2, clock=clock)
        print(
            f"{name:16s} n={n}: fast {times['fast']:6.2f} s, loop {times['loop']:6.2f} s, "
            f"ratio {times['loop'] / times['fast']:5.2f}",
            flush=True,
        )


def main() -> None:
    """Run the jobs that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", choices=("svc", "bayes", "others", "all"), default="all")
    parser.add_argument("--rows", type=int, nargs="*", default=[2000, 5000])
    parser.add_argument("--data", nargs="*", choices=tuple(DATA), default=list(DATA))
    parser.add_argument("--prices", type=int, default=20)
    parser.add_argument("--gammas", type=int, default=1)
    parser.add_argument("--one-in", type=int, default=1, help="time one in so many fits of the LIBSVM loop")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    chosen = parser.parse_args()
    clock = time.perf_counter if chosen.clock == "wall" else time.process_time
    with threads(chosen.threads):
        if chosen.job in ("bayes", "all"):
            leave_out(10_000, 20, 3, clock)
            leave_out(10_000, 50, 10, clock)
        if chosen.job in ("others", "all"):
            other_searches(chosen.rows[0], clock)
        if chosen.job in ("svc", "all"):
            ratios = [
                search_svc(name, n, chosen.prices, chosen.gammas, chosen.turns, clock, chosen.one_in)
                for n in chosen.rows
                for name in chosen.data
            ]
            mean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
            print(f"svc search, geometric mean of {len(ratios)} ratios: {mean:.2f} (bar {BARS['svc']:g})")


if __name__ == "__main__":
    main()
