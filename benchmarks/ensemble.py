"""Boosted trees and forests beside LightGBM, XGBoost, scikit-learn: peer's time over ours (higher is better).

python -m benchmarks.ensemble                              # fit and predict, one thread each
python -m benchmarks.ensemble --rows 1e5 --threads 2 --classes 3
python -m benchmarks.ensemble --kind forest                # random forests beside scikit-learn's
python -m benchmarks.ensemble --accuracy --seeds 10        # mean accuracy on generated and reference data
python -m benchmarks.ensemble --memory --rows 1e6          # peak memory of a fit beyond the input
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import xgboost
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import AdaBoostClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split

import arraylearn as al
from arraylearn.bench.data import curved
from benchmarks.harness import race, threads
from tests.reference_data import load_reference

TREES = 100
# rows -> least ratio of the best peer's time to ours, for fit; prediction: one bar
FIT_BARS = {"boosted": {10_000: 0.8, 100_000: 1.0, 1_000_000: 1.0}, "forest": {10_000: 2.5, 100_000: 2.5}}
PREDICT_BAR = {"boosted": 1.3, "forest": 1.0}


def make_rows(n: int, d: int, k: int, seed: int = 0, n_new: int = 50_000) -> tuple[np.ndarray, ...]:
    """Draw rows with a curved boundary, and new rows to judge by."""
    return tuple(curved((n, d, k), seed=seed, n_new=n_new))


def contestants(kind: str, n_threads: int, seed: int = 0) -> dict[str, Callable[[], Any]]:
    """Return fresh boosted classifiers of 100 trees of depth 6, or forests of 100 trees."""
    if kind == "forest":
        return {
            "ours": lambda: al.RandomForestClassifier(n_estimators=TREES, random_state=seed),
            "sklearn": lambda: RandomForestClassifier(TREES, random_state=seed, n_jobs=n_threads),
        }
    return {
        "ours": lambda: al.GradientBoostingClassifier(n_estimators=TREES),
        "lightgbm": lambda: lightgbm.LGBMClassifier(
            n_estimators=TREES, max_depth=6, num_leaves=64, n_jobs=n_threads, verbose=-1
        ),
        "xgboost": lambda: xgboost.XGBClassifier(
            n_estimators=TREES,
            max_depth=6,
            learning_rate=0.1,
            tree_method="hist",
            n_jobs=n_threads,
            enable_categorical=True,
        ),
        "sklearn": lambda: HistGradientBoostingClassifier(
            max_iter=TREES,
            max_depth=6,
            max_leaf_nodes=64,
            early_stopping=False,
            categorical_features="from_dtype",
        ),
    }


def compare(
    kind: str, n: int, d: int, k: int, n_threads: int, turns: int, *, is_fit_only: bool = False
) -> None:
    """Time fit and prediction of all contestants in turns."""
    X, y, new, truth = make_rows(n, d, k)
    clock = time.process_time if n_threads == 1 else time.perf_counter
    models: dict[str, Any] = {}
    makers = contestants(kind, n_threads)

    def fitting(name: str) -> Callable[[], None]:
        def run() -> None:
            models[name] = makers[name]().fit(X, y)

        return run

    with threads(n_threads):
        fit = race({name: fitting(name) for name in makers}, turns=turns, budget=120, clock=clock)
        rows = np.concatenate([new] * 4)
        jobs = {name: (lambda model=model: model.predict_proba(rows)) for name, model in models.items()}
        predict = {} if is_fit_only else race(jobs, turns=max(turns, 3), clock=clock)
    accuracy = {name: 100 * (model.predict(new) == truth).mean() for name, model in models.items()}
    for job, times, bar in (
        ("fit", fit, FIT_BARS[kind].get(n, 1.0)),
        ("predict", predict, PREDICT_BAR[kind]),
    )[: 1 if is_fit_only else 2]:
        best = min(seconds for name, seconds in times.items() if name != "ours")
        ratio = best / times["ours"]
        listed = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in times.items())
        mark = "ok  " if ratio >= bar else "MISS"
        print(f"{mark} {job:8s} {n} x {d}, {k} classes, {n_threads} threads: ratio {ratio:.2f} ({listed})")
    print("     accuracy " + ", ".join(f"{name} {value:.2f}" for name, value in accuracy.items()), flush=True)


def load(name: str, seed: int) -> tuple[Any, Any, Any, Any]:
    """Return training and test rows of a named data set."""
    if name.startswith("generated"):
        _, n, k = name.split("_")
        X, y, new, truth = make_rows(int(n), 20, int(k), seed, n_new=20_000)
        return X, new, y, truth
    if name in ("breast_cancer", "digits"):
        data = load_breast_cancer() if name == "breast_cancer" else load_digits()
        X, y = pd.DataFrame(data.data).add_prefix("x"), data.target
    else:
        X, y = reference_frame(name)
    return tuple(train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y))


def reference_frame(name: str) -> tuple[Any, Any]:
    """Read a reference set as a frame of numbers and categories; identifiers are left out."""
    data = load_reference(name)
    wide = [c for c in data.X.columns if data.X[c].dtype == "category" and data.X[c].nunique() > 255]
    frame = data.X.drop(columns=wide)
    frame.columns = [f"x{j}" for j in range(frame.shape[1])]
    return frame, pd.Series(data.y).astype("category").cat.codes.to_numpy()


def as_numbers(frame: Any) -> Any:
    """Turn categories into their codes."""
    codes = {c: frame[c].cat.codes for c in frame.columns if frame[c].dtype == "category"}
    return frame.assign(**codes).astype(float)


ACCURACY_SETS = (
    "breast_cancer",
    "digits",
    "credit.a",
    "segment",
    "splice",
    "mushroom",
    "letter",
    *(f"generated_{n}_{k}" for n in (10_000, 100_000) for k in (2, 3, 10)),
)


def compare_accuracy(kind: str, names: tuple[str, ...], seeds: int) -> None:
    """Print the mean accuracy over seeds of ours and of the best peer."""
    for name in names:
        hits: dict[str, list[float]] = {}
        for seed in range(seeds):
            X, new, y, truth = load(name, seed)
            if kind == "forest" and not isinstance(X, np.ndarray):
                X, new = as_numbers(X), as_numbers(new)  # the peer knows no categories
            for label, make in contestants(kind, 1, seed).items():
                hits.setdefault(label, []).append(100 * (make().fit(X, y).predict(new) == truth).mean())
        means = {label: float(np.mean(values)) for label, values in hits.items()}
        lead = means["ours"] - max(value for label, value in means.items() if label != "ours")
        mark = "ok  " if lead >= -0.5 else "MISS"
        listed = ", ".join(f"{label} {value:.2f}" for label, value in means.items())
        print(f"{mark} {name:20s} lead {lead:+.2f} ({listed}), {seeds} seeds", flush=True)


def compare_adaboost(seeds: int) -> None:
    """Print errors of AdaBoost with stumps beside scikit-learn's."""
    for k in (2, 3):
        X, y, new, truth = make_rows(10_000, 20, k, n_new=10_000)
        for seed in range(seeds):
            ours = al.AdaBoostClassifier(random_state=seed).fit(X, y)
            peer = AdaBoostClassifier(random_state=seed).fit(X, y)
            print(f"     adaboost {k} classes: {ours.score(new, truth):.4f}, {peer.score(new, truth):.4f}")


def measure_memory(n: int, d: int, k: int) -> None:
    """Print the peak of allocated memory in a fit, as a multiple of the input."""
    X, y, _, _ = make_rows(n, d, k, n_new=1)
    tracemalloc.start()
    al.GradientBoostingClassifier(n_estimators=3).fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    ratio = peak / X.nbytes
    print(f"{'ok  ' if ratio <= 3 else 'MISS'} memory {n} x {d}, {k} classes: {ratio:.2f} x the input")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kind", choices=["boosted", "forest"], default="boosted")
    parser.add_argument("--rows", type=float, nargs="*", default=[1e4, 1e5])
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--classes", type=int, nargs="*", default=[2])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--fit-only", action="store_true")
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--adaboost", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--sets", nargs="*", default=list(ACCURACY_SETS))
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    al.set_num_threads(options.threads)
    if options.accuracy:
        compare_accuracy(options.kind, tuple(options.sets), options.seeds)
    elif options.adaboost:
        compare_adaboost(options.seeds)
    else:
        for n in map(int, options.rows):
            for k in options.classes:
                if options.memory:
                    measure_memory(n, options.columns, k)
                else:
                    sizes = (n, options.columns, k, options.threads, options.turns)
                    compare(options.kind, *sizes, is_fit_only=options.fit_only)


if __name__ == "__main__":
    main()
