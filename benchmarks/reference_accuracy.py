"""Accuracy on reference data sets: beside peers on held-out rows, and beside published figures of Weka.

python -m benchmarks.reference_accuracy                                  # every learner on its sets
python -m benchmarks.reference_accuracy forest adaboost --sets letter splice --seeds 10
python -m benchmarks.reference_accuracy forest --sets generated_100000_2 --seeds 3
python -m benchmarks.reference_accuracy ripper c45 naive-bayes --seeds 3

forest, extra, adaboost, stumps, boosting: mean accuracy over seeds beside the best peer; half a point below
is the bar. A seed draws the split (30 % of the rows are held out; generated sets, whose names give rows and
classes, are drawn anew with 20,000 rows to test) and seeds both learners. All but boosting get categories as
numbers, since their peers take no others, and missing values as -1.

ripper, c45, naive-bayes: ten stratified folds beside JRip, J48 and NaiveBayes of Weka 3.9 on twelve sets; the
mean may be one point lower. RIPPER's number of rules is compared as well.

Reference sets are read from the folder that the environment variable ARRAYLEARN_REFERENCE_DATA names, or from
../shared/data; a set that is not there is left out.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn import ensemble as peers
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.tree import DecisionTreeClassifier as PeerTree

import arraylearn as al
from arraylearn.bench.cases.boosting import boosted_learners
from arraylearn.bench.data import Shape, curved
from arraylearn.bench.peers import installed_peers
from tests.reference_data import ACCURACIES, load_reference, reference_folder
from tests.rules.test_reference import RULES

__all__ = ["Lead", "compare_held_out", "compare_with_weka", "main"]

HELD_OUT_BAR, WEKA_BAR = -0.5, -1.0  # least lead in points
GENERATED = tuple(f"generated_{n}_{k}" for n in (10_000, 100_000) for k in (2, 3, 10))
REFERENCE = ("credit.a", "segment", "splice", "mushroom", "letter")
SETS = ("breast_cancer", "digits", *REFERENCE, *GENERATED)
Makers = Mapping[str, Callable[[], Any]]


class Lead(NamedTuple):
    """Accuracy on one set, in per cent."""

    learner: str
    data: str
    ours: float
    peers: dict[str, float]
    lead: float  # over the best peer
    error: float  # standard error of the lead; NaN for a single seed

    def __str__(self) -> str:
        listed = ", ".join(f"{name} {value:.2f}" for name, value in {"ours": self.ours, **self.peers}.items())
        return f"{self.learner:11s} {self.data:20s} lead {self.lead:+.2f} +- {self.error:.2f} ({listed})"


# ---- beside peers, on held-out rows


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
    ours, peer = al.DecisionTreeClassifier(max_depth=3), PeerTree(max_depth=3)
    return {
        "ours": lambda: al.AdaBoostClassifier(ours, n_estimators=50, random_state=seed),
        "scikit-learn": lambda: peers.AdaBoostClassifier(peer, n_estimators=50, random_state=seed),
    }


def stumps(seed: int, n_threads: int) -> Makers:
    """Return 50 rounds of AdaBoost with trees of one split."""
    return {
        "ours": lambda: al.AdaBoostClassifier(n_estimators=50, random_state=seed),
        "scikit-learn": lambda: peers.AdaBoostClassifier(n_estimators=50, random_state=seed),
    }


def boosting(seed: int, n_threads: int) -> Makers:
    """Return 100 rounds of boosted trees of depth 6, as `arraylearn bench boosting` times them."""
    learners, shape = boosted_learners(), Shape(0, 0)
    makers: dict[str, Callable[[], Any]] = {"ours": lambda: learners.ours(shape)}
    for name in installed_peers() & set(learners.peers):
        makers[name] = lambda make=learners.peers[name]: make(shape, n_threads)
    return makers


HELD_OUT: dict[str, Callable[[int, int], Makers]] = {
    "forest": forest,
    "extra": extra,
    "adaboost": adaboost,
    "stumps": stumps,
    "boosting": boosting,
}
TAKE_CATEGORIES = ("boosting",)


def load_split(name: str, seed: int, *, as_numbers: bool) -> tuple[Any, Any, Any, Any]:
    """Return X, X_new, y, y_new of a named set."""
    if name.startswith("generated"):
        _, n, k = name.split("_")
        rows = curved(Shape(int(n), 20, int(k)), seed=seed, n_new=20_000)
        return rows.X, rows.X_new, rows.y, rows.y_new
    if name in ("breast_cancer", "digits"):
        data = load_breast_cancer() if name == "breast_cancer" else load_digits()
        frame, y = pd.DataFrame(data.data).add_prefix("x"), data.target
    else:
        frame, y = reference_frame(name)
    if as_numbers:
        codes = {c: frame[c].cat.codes for c in frame.columns if frame[c].dtype == "category"}
        frame = frame.assign(**codes).astype(float).fillna(-1.0)
    return tuple(train_test_split(frame, y, test_size=0.3, random_state=seed, stratify=y))


def reference_frame(name: str) -> tuple[Any, Any]:
    """Read a reference set as numbers and categories, without identifiers (more than 255 categories)."""
    data = load_reference(name)
    wide = [c for c in data.X.columns if data.X[c].dtype == "category" and data.X[c].nunique() > 255]
    frame = data.X.drop(columns=wide)
    frame.columns = [f"x{j}" for j in range(frame.shape[1])]
    return frame, pd.Series(data.y).astype("category").cat.codes.to_numpy()


def compare_held_out(learner: str, name: str, seeds: Sequence[int], n_threads: int = 1) -> Lead:
    """Return the mean accuracy of ours and of the peers over seeds."""
    hits: dict[str, list[float]] = {}
    for seed in seeds:
        X, X_new, y, y_new = load_split(name, seed, as_numbers=learner not in TAKE_CATEGORIES)
        for label, make in HELD_OUT[learner](seed, n_threads).items():
            predicted = make().fit(X, y).predict(X_new)
            hits.setdefault(label, []).append(100 * float((predicted == y_new).mean()))
    means = {label: float(np.mean(values)) for label, values in hits.items()}
    ours = means.pop("ours")
    best = max(means, key=means.__getitem__)
    leads = np.subtract(hits["ours"], hits[best])
    error = float(leads.std(ddof=1) / len(leads) ** 0.5) if len(leads) > 1 else float("nan")
    return Lead(learner, name, ours, means, float(leads.mean()), error)


# ---- beside published figures, by ten folds


class Published(NamedTuple):
    """A learner and its counterpart in Weka."""

    make: Callable[[int], Any]  # seed -> classifier
    peer: str
    column: int  # of `ACCURACIES`


PUBLISHED = {
    "ripper": Published(lambda seed: al.RipperClassifier(random_state=seed), "JRip", 1),
    "c45": Published(lambda seed: al.c45(), "J48", 0),
    "naive-bayes": Published(lambda seed: al.NaiveBayesClassifier(), "NaiveBayes", 2),
}


def compare_with_weka(learner: str, name: str, seeds: Sequence[int]) -> Lead:
    """Return the mean accuracy of ten stratified folds over seeds, beside Weka's."""
    ours, data = PUBLISHED[learner], load_reference(name)
    found = [100 * _ten_folds(ours.make, data, seed) for seed in seeds]
    expected = ACCURACIES[name][ours.column]
    error = float(np.std(found, ddof=1) / len(found) ** 0.5) if len(found) > 1 else float("nan")
    mean = float(np.mean(found))
    return Lead(learner, name, mean, {ours.peer: expected}, mean - expected, error)


def _ten_folds(make: Callable[[int], Any], data: Any, seed: int) -> float:
    n_right = 0
    for train, test in StratifiedKFold(10, shuffle=True, random_state=seed).split(data.y, data.y):
        model = make(seed).fit(data.X.iloc[train], data.y[train])
        n_right += int((model.predict(data.X.iloc[test]) == data.y[test]).sum())
    return n_right / len(data.y)


def count_rules(name: str, seeds: Iterable[int]) -> float:
    """Return the mean number of RIPPER's rules on all rows, with the default rule."""
    data = load_reference(name)
    fits = [al.RipperClassifier(random_state=seed).fit(data.X, data.y) for seed in seeds]
    return float(np.mean([len(one.rules_) + 1 for one in fits]))


# ---- the command


def is_here(name: str) -> bool:
    """Whether a set is generated, part of scikit-learn, or in the folder of reference data."""
    return name not in {*REFERENCE, *ACCURACIES} or (reference_folder() / f"{name}.arff").exists()


def main(arguments: Sequence[str] | None = None) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    known = [*HELD_OUT, *PUBLISHED]
    parser.add_argument("learners", nargs="*", help=f"of {', '.join(known)} (default: all)")
    parser.add_argument("--sets", nargs="*", help="default: all sets of each learner")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.learners if name not in known]:
        parser.error(f"learner {unknown[0]!r} is not one of {', '.join(known)}")
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    al.set_num_threads(options.threads)
    is_reached = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # glass has a class of nine rows
        for learner in options.learners or known:
            sets = options.sets or (ACCURACIES if learner in PUBLISHED else SETS)
            is_reached &= _report(learner, [name for name in sets if is_here(name)], seeds, options.threads)
    return 0 if is_reached else 1


def _report(learner: str, sets: Sequence[str], seeds: range, n_threads: int) -> bool:
    """Print a line for each set; return whether the bar is reached."""
    leads = []
    for name in sets:
        began = time.perf_counter()
        if learner in HELD_OUT:
            one = compare_held_out(learner, name, seeds, n_threads)
        else:
            one = compare_with_weka(learner, name, seeds)
        leads.append(one.lead)
        rules = f", {count_rules(name, seeds):.1f} rules (JRip {RULES[name]})" if learner == "ripper" else ""
        print(f"{one}{rules}; {len(seeds)} seeds, {time.perf_counter() - began:.0f} s", flush=True)
    if not leads:
        print(f"{learner}: no data")
        return True
    is_reached = min(leads) >= HELD_OUT_BAR if learner in HELD_OUT else float(np.mean(leads)) >= WEKA_BAR
    print(f"{learner}: {'reached' if is_reached else 'MISSED'}; mean lead {np.mean(leads):+.2f}", flush=True)
    return is_reached


if __name__ == "__main__":
    raise SystemExit(main())
