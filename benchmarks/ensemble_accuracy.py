"""Accuracy of the ensembles beside the peers', as the mean over seeds: within half a point is the bar.

python -m benchmarks.ensemble_accuracy                                   # every family on every set
python -m benchmarks.ensemble_accuracy --family forest adaboost --sets letter splice --seeds 10
python -m benchmarks.ensemble_accuracy --family forest --sets generated_100000_2 --seeds 3

A seed draws the split (a third of the rows is kept for the test; generated sets are drawn anew, with 20,000
rows to test) and seeds both sides. The reference sets are read from the folder that the environment variable
ARRAYLEARN_REFERENCE_DATA names, or from ../shared/data. Forests and AdaBoost get categories as numbers, since
their peers know no others, with missing values as a value below all others.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn import ensemble as peers
from sklearn.tree import DecisionTreeClassifier as PeerTree

import arraylearn as al
from benchmarks.ensemble import as_numbers, contestants, load

BAR = -0.5
Makers = Mapping[str, Callable[[], Any]]

SETS = (
    "breast_cancer",
    "digits",
    "credit.a",
    "segment",
    "splice",
    "mushroom",
    "letter",
    *(f"generated_{n}_{k}" for n in (10_000, 100_000) for k in (2, 3, 10)),
)


def forest(seed: int, n_threads: int) -> Makers:
    """Return forests of 100 full-grown trees."""
    return {
        "ours": lambda: al.RandomForestClassifier(n_estimators=100, random_state=seed),
        "scikit-learn": lambda: peers.RandomForestClassifier(100, random_state=seed, n_jobs=n_threads),
    }


def extra(seed: int, n_threads: int) -> Makers:
    """Return 100 extremely randomized trees."""
    return {
        "ours": lambda: al.ExtraTreesClassifier(n_estimators=100, random_state=seed),
        "scikit-learn": lambda: peers.ExtraTreesClassifier(100, random_state=seed, n_jobs=n_threads),
    }


def adaboost(seed: int, n_threads: int) -> Makers:
    """Return 50 rounds of AdaBoost with trees of depth 3."""
    del n_threads
    return {
        "ours": lambda: al.AdaBoostClassifier(
            al.DecisionTreeClassifier(max_depth=3), n_estimators=50, random_state=seed
        ),
        "scikit-learn": lambda: peers.AdaBoostClassifier(
            PeerTree(max_depth=3), n_estimators=50, random_state=seed
        ),
    }


def stumps(seed: int, n_threads: int) -> Makers:
    """Return 50 rounds of AdaBoost with trees of one split."""
    del n_threads
    return {
        "ours": lambda: al.AdaBoostClassifier(n_estimators=50, random_state=seed),
        "scikit-learn": lambda: peers.AdaBoostClassifier(n_estimators=50, random_state=seed),
    }


def boosting(seed: int, n_threads: int) -> Makers:
    """Return 100 rounds of boosted trees of depth 6."""
    return contestants("boosted", n_threads, seed)


FAMILIES: dict[str, Callable[[int, int], Makers]] = {
    "forest": forest,
    "extra": extra,
    "adaboost": adaboost,
    "stumps": stumps,
    "boosting": boosting,
}
# families whose peers take categories as they are
KNOW_CATEGORIES = ("boosting",)


def prepare(family: str, X: Any) -> Any:
    """Return rows as the family's contestants take them."""
    if isinstance(X, np.ndarray) or family in KNOW_CATEGORIES:
        return X
    return as_numbers(X).fillna(-1.0)


def compare(family: str, name: str, seeds: range, n_threads: int) -> None:
    """Print the mean accuracy of ours and of the peers on a set, and our lead over the best of them."""
    hits: dict[str, list[float]] = {}
    began = time.perf_counter()
    for seed in seeds:
        X, new, y, truth = load(name, seed)
        X, new = prepare(family, X), prepare(family, new)
        for label, make in FAMILIES[family](seed, n_threads).items():
            model = make().fit(X, y)
            hits.setdefault(label, []).append(100 * float((model.predict(new) == truth).mean()))
    means = {label: float(np.mean(values)) for label, values in hits.items()}
    best = max((label for label in means if label != "ours"), key=means.__getitem__)
    leads = np.subtract(hits["ours"], hits[best])
    mark = "ok  " if leads.mean() >= BAR else "MISS"
    error = float(leads.std(ddof=1) / len(leads) ** 0.5) if len(leads) > 1 else float("nan")
    listed = ", ".join(f"{label} {value:.2f}" for label, value in means.items())
    print(
        f"{mark} {family:9s} {name:20s} lead {leads.mean():+.2f} +- {error:.2f} ({listed}), "
        f"seeds {seeds.start}-{seeds.stop - 1}, {time.perf_counter() - began:.0f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--family", nargs="*", choices=list(FAMILIES), default=list(FAMILIES))
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    al.set_num_threads(options.threads)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for family in options.family:
        for name in options.sets:
            compare(family, name, seeds, options.threads)


if __name__ == "__main__":
    main()
