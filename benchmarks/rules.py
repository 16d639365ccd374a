"""RIPPER beside the Python package wittgenstein, and on many rows.

    python -m benchmarks.rules [small] [large] [covering] [accuracy] [letter]
                               [--turns 5] [--cpu-time] [--weka weka.jar]

``small``: mushroom and kr.vs.kp, the same data frame of categories for both; the data sets are looked for
as the tests do (see `tests.reference_data`). ``large``: 100,000 generated rows, 20 numeric columns; with
``--weka`` beside the build time that Weka's JRip prints. ``covering``: sequential covering of the same rows,
by accuracy and by FOIL's gain. ``accuracy``: ten folds and number of rules (with the default) on the twelve
sets that JRip's results are known of. ``letter``: 15,000 rows of 26 classes, judged on 5,000 others.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

import arraylearn as al
from arraylearn.bench.data import Shape, interval_rules
from benchmarks.harness import race, report
from tests.reference_data import ACCURACIES, load_reference
from tests.rules.test_reference import RULES


def small(**how: Any) -> bool:
    try:
        import wittgenstein
    except ImportError:
        print("wittgenstein is not installed: pip install --no-deps wittgenstein")
        return True
    is_met = True
    for name, positive in (("kr.vs.kp", "won"), ("mushroom", "p")):
        data = load_reference(name)
        y = (data.y == positive).astype(int)

        def ours(X: Any = data.X, y: Any = y) -> Any:
            return al.RipperClassifier(random_state=1).fit(X, y)

        def theirs(X: Any = data.X, y: Any = y) -> Any:
            learner = wittgenstein.RIPPER(random_state=1)
            learner.fit(X, y=y)
            return learner

        one, other = ours(), theirs()
        print(f"{name}: ours {len(one.rules_)} rules, accuracy {one.score(data.X, y):.4f}; ", end="")
        print(f"wittgenstein {len(other.ruleset_.rules)} rules, accuracy {other.score(data.X, y):.4f}")
        times = race({"RIPPER": ours, "wittgenstein": theirs}, **how)
        is_met &= report(f"RIPPER on {name}", times, ours="RIPPER", bars={"wittgenstein": 1 / 20})
    return is_met


def large(weka: Path | None, clock: Any = time.perf_counter, **_: Any) -> bool:
    X, y, X_new, y_new = interval_rules(Shape(100_000, 20))
    start = clock()
    model = al.RipperClassifier(random_state=1).fit(X, y)
    elapsed = clock() - start
    accuracy = model.score(X_new, y_new)
    print(
        f"100,000 x 20: {elapsed:.1f} s, {len(model.rules_) + 1} rules, accuracy on new rows {accuracy:.4f}"
    )
    if weka is None:
        return True
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.arff"
        header = [f"@attribute x{j} numeric" for j in range(X.shape[1])]
        rows = [
            ",".join(map(repr, (*line, label))) for line, label in zip(X.tolist(), y.tolist(), strict=True)
        ]
        path.write_text("\n".join(["@relation rows", *header, "@attribute y {0,1}", "@data", *rows, ""]))
        command = ["java", "-cp", str(weka), "weka.classifiers.rules.JRip", "-no-cv", "-v", "-t", str(path)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds = float(re.search(r"build model: ([\d.]+) seconds", text)[1])  # type: ignore[index]
    n_rules = int(re.search(r"Number of Rules : (\d+)", text)[1])  # type: ignore[index]
    print(f"JRip: {seconds:.1f} s printed, {n_rules} rules; ratio {seconds / elapsed:.1f}")
    return elapsed < seconds


def covering(clock: Any) -> None:
    X, y, X_new, y_new = interval_rules(Shape(100_000, 20))
    for gain in ("accuracy", "foil"):
        model = al.SequentialCoveringClassifier(gain=gain)
        start = clock()
        model.fit(X, y)
        elapsed = clock() - start
        share = model.score(X_new, y_new)
        print(
            f"covering by {gain}, 100,000 x 20: {elapsed:.1f} s, {len(model.rules_)} rules, "
            f"accuracy on new rows {share:.4f}"
        )


def accuracy(shuffles: int = 3) -> bool:
    found, expected, is_near = [], [], []
    for name, n_expected in RULES.items():
        data = load_reference(name)
        shares = [ten_folds(data, seed) for seed in range(shuffles)]
        fits = [al.RipperClassifier(random_state=seed).fit(data.X, data.y) for seed in range(5)]
        n_rules = float(np.mean([len(one.rules_) + 1 for one in fits]))
        found.append(np.mean(shares))
        expected.append(ACCURACIES[name][1])
        is_near.append(abs(n_rules - n_expected) <= 0.3 * n_expected)
        shown = f"{found[-1]:6.2f} (JRip {expected[-1]:6.2f}), {n_rules:4.1f} rules (JRip {n_expected})"
        print(f"{name:14s} {shown}")
    print(f"mean {np.mean(found):.2f} (JRip {np.mean(expected):.2f}), {sum(is_near)} of 12 within 30 %")
    return bool(np.mean(found) > np.mean(expected) - 1.0 and sum(is_near) >= 7)


def ten_folds(data: Any, seed: int) -> float:
    right = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # glass has a class of nine rows
        folds = list(StratifiedKFold(10, shuffle=True, random_state=seed).split(data.y, data.y))
    for train, test in folds:
        clf = al.RipperClassifier(random_state=seed).fit(data.X.iloc[train], data.y[train])
        right += int((clf.predict(data.X.iloc[test]) == data.y[test]).sum())
    return 100 * right / len(data.y)


def letter(clock: Any) -> None:
    data = load_reference("letter")
    order = np.random.default_rng(0).permutation(len(data.y))
    train, test = order[:15_000], order[15_000:]
    start = clock()
    clf = al.RipperClassifier(random_state=0).fit(data.X.iloc[train], data.y[train])
    elapsed = clock() - start
    share = clf.score(data.X.iloc[test], data.y[test])
    print(f"letter: {elapsed:.1f} s, {len(clf.rules_) + 1} rules, accuracy on new rows {share:.3f}")


def main() -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    jobs = ["small", "large", "covering", "accuracy", "letter"]
    parser.add_argument("jobs", nargs="*", choices=jobs, default=jobs[:2])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--cpu-time", action="store_true", help="time on our cores only")
    parser.add_argument("--weka", type=Path, help="weka.jar of Weka 3.9")
    options = parser.parse_args()
    clock = time.process_time if options.cpu_time else time.perf_counter
    is_met = True
    if "small" in options.jobs:
        is_met &= small(turns=options.turns, clock=clock)
    if "large" in options.jobs:
        is_met &= large(options.weka, clock)
    if "covering" in options.jobs:
        covering(clock)
    if "accuracy" in options.jobs:
        is_met &= accuracy()
    if "letter" in options.jobs:
        letter(clock)
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
