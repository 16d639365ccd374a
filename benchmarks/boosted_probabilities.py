"""Log loss and accuracy of boosting beside three peers, all by their defaults, by five stratified folds.

python -m benchmarks.boosted_probabilities                        # both halves of the sets
python -m benchmarks.boosted_probabilities --half reported
python -m benchmarks.boosted_probabilities --set l2_regularization=1 --half chosen

Defaults are chosen on one half of the sets and judged on the other: by name, the first, third, ... set is of
the half "chosen". Smaller sets are shuffled and divided more often, of larger ones 2,000 rows are drawn. The
line of a set has the log losses, ours over the better of LightGBM and XGBoost with the standard error of
this ratio over the shuffles, our rank by log loss, the accuracies and our rank by those. Probabilities below
1e-7 count as 1e-7. The bars are a mean rank by log loss of 2 and 1.5 times the better peer on every set.

Reference sets are read as `benchmarks.reference_accuracy` reads them.
"""

from __future__ import annotations

import argparse
import ast
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import StratifiedKFold, train_test_split

import arraylearn as al
from arraylearn.bench.data import (
    Shape,
    curved,
    interval_rules,
    machine_rows,
    nominal_rows,
    nominal_rules,
    normal,
)
from arraylearn.bench.peers import load_peer
from benchmarks.reference_accuracy import is_here, reference_frame
from tests.reference_data import ACCURACIES

__all__ = ["SETS", "Scores", "halves", "main", "score_set"]

MEAN_RANK_BAR, RATIO_BAR = 2.0, 1.5
N_ROWS, LEAST = 2_000, 1e-7
SHIPPED = {
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
    "iris": load_iris,
    "wine": load_wine,
}
GENERATED: dict[str, Callable[[], Any]] = {
    "curved, 200 rows, 2 classes": lambda: curved(Shape(200, 10, 2), seed=1),
    "curved, 1000 rows, 5 classes": lambda: curved(Shape(1000, 10, 5), seed=2),
    "curved, 2000 rows, 3 classes": lambda: curved(Shape(2000, 20, 3), seed=3),
    "normal, 300 rows, 3 classes": lambda: normal(Shape(300, 10, 3)),
    "nominal, 1000 rows, 4 classes": lambda: nominal_rows(Shape(1000, 10, 4)),
    "nominal rules, 400 rows": lambda: nominal_rules(Shape(400, 8)),
    "interval rules, 800 rows": lambda: interval_rules(Shape(800, 10)),
    "clusters, 600 rows, 3 classes": lambda: machine_rows(Shape(600, 10, 3)),
    "one-hot, 2000 rows": lambda: machine_rows(Shape(2000, 30), kind="one-hot"),
}
SETS = sorted([*ACCURACIES, "letter", *SHIPPED, *GENERATED])
PEERS: dict[str, Callable[[int], Any]] = {
    "lightgbm": lambda seed: load_peer("lightgbm", "LGBMClassifier")(random_state=seed, n_jobs=1, verbose=-1),
    "xgboost": lambda seed: load_peer("xgboost", "XGBClassifier")(
        random_state=seed, n_jobs=1, enable_categorical=True
    ),
    "histogram": lambda seed: load_peer("sklearn.ensemble", "HistGradientBoostingClassifier")(
        random_state=seed
    ),
}


class Scores(NamedTuple):
    """Means over the folds of each shuffle, (shuffles, learners): ours, then the peers."""

    log_loss: np.ndarray
    accuracy: np.ndarray  # per cent


def halves(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the sets to choose on and those to report."""
    return {"chosen": list(names[::2]), "reported": list(names[1::2])}


def load_set(name: str) -> tuple[Any, Any]:
    """Return a frame and class codes of at most so many rows."""
    if name in SHIPPED:
        data = SHIPPED[name]()
        X, y = pd.DataFrame(data.data).add_prefix("x"), data.target
    elif name in GENERATED:
        rows = GENERATED[name]()
        X, y = pd.DataFrame(rows.X).add_prefix("x"), rows.y
        if name.startswith("nominal"):
            X = X.astype("category")
    else:
        X, y = reference_frame(name)
    if len(y) > N_ROWS:
        X, _, y, _ = train_test_split(X, y, train_size=N_ROWS, random_state=0, stratify=y)
    return X.reset_index(drop=True), y


def score_set(name: str, makers: Mapping[str, Callable[[int], Any]]) -> Scores:
    """Judge learners on the same folds of a set."""
    X, y = load_set(name)
    n_shuffles = min(max(800 // len(y), 1), 8) + 1
    losses, accuracies = np.zeros((2, n_shuffles, len(makers)))
    for seed in range(n_shuffles):
        for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
            for j, make in enumerate(makers.values()):
                p = make(seed).fit(X.iloc[train], y[train]).predict_proba(X.iloc[test])
                p = np.clip(p / p.sum(axis=1, keepdims=True), LEAST, 1)
                losses[seed, j] -= np.log(p[np.arange(len(test)), y[test]]).sum() / len(y)
                accuracies[seed, j] += 100 * (p.argmax(axis=1) == y[test]).sum() / len(y)
    return Scores(losses, accuracies)


def rank(values: np.ndarray) -> float:
    """Return the rank of the first value from below; equal ones share the mean of their ranks."""
    return 1 + float((values < values[0]).sum()) + float((values[1:] == values[0]).sum()) / 2


def report(names: Sequence[str], makers: Mapping[str, Callable[[int], Any]]) -> bool:
    """Print a line for each set and the means; return whether the bars are reached."""
    print(f"{'':30s} log loss: {', '.join(makers)}; over the better; rank | accuracy; rank")
    ranks, ratios = [], []
    for name in names:
        found = score_set(name, makers)
        loss, right = found.log_loss.mean(axis=0), found.accuracy.mean(axis=0)
        better = 1 + int(loss[1:3].argmin())
        ratio = loss[0] / loss[better]
        each = found.log_loss[:, 0] / found.log_loss[:, better]
        error = each.std(ddof=1) / len(each) ** 0.5
        ranks.append((rank(loss), rank(-right)))
        ratios.append(ratio)
        shown = " ".join(f"{x:6.4f}" for x in loss), " ".join(f"{x:5.2f}" for x in right)
        print(
            f"{name:30s} {shown[0]}  {ratio:4.2f} +- {error:4.2f}  {ranks[-1][0]:3.1f} | "
            f"{shown[1]}  {ranks[-1][1]:3.1f}",
            flush=True,
        )
    by_loss, by_accuracy = np.mean(ranks, axis=0)
    print(f"mean rank {by_loss:.2f} by log loss, {by_accuracy:.2f} by accuracy; worst {max(ratios):.2f}")
    return bool(by_loss <= MEAN_RANK_BAR and max(ratios) <= RATIO_BAR)


def main(arguments: Sequence[str] | None = None) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--half", choices=["chosen", "reported"], help="default: both")
    parser.add_argument("--set", nargs="*", default=[], metavar="PARAMETER=VALUE", help="of ours")
    options = parser.parse_args(arguments)
    pairs = (each.partition("=") for each in options.set)
    settings = {name: ast.literal_eval(value) for name, _, value in pairs}
    makers = {"ours": lambda seed: al.GradientBoostingClassifier(random_state=seed, **settings), **PEERS}
    is_reached = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes of few rows
        for half, names in halves([name for name in SETS if is_here(name)]).items():
            if options.half in (None, half):
                print(f"the half {half}")
                is_reached &= report(names, makers)
    return 0 if is_reached else 1


if __name__ == "__main__":
    raise SystemExit(main())
