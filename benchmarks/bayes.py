"""Bayes classifiers beside scikit-learn's: fit and predict, peer's time over ours (higher is better).

python -m benchmarks.bayes                      # all regimes
python -m benchmarks.bayes --rows 1e6 --threads 2 --kind full
python -m benchmarks.bayes --small              # the door: 100 to 1000 rows
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import CategoricalNB, GaussianNB

import arraylearn as al
from arraylearn.bench.data import Shape, nominal_rows, normal
from benchmarks.harness import race, threads

# kind -> ours, the peer, and the least ratio from 10,000 rows on
KINDS: dict[str, tuple[Callable[[int], Any], Callable[[], Any], float]] = {
    "naive": (lambda d: al.NaiveBayesClassifier(), GaussianNB, 3.0),
    "nominal": (lambda d: al.NaiveBayesClassifier(categorical_features=range(d)), CategoricalNB, 3.0),
    "full": (lambda d: al.FullBayesClassifier(), QuadraticDiscriminantAnalysis, 3.0),
}
SMALL_BAR = 1 / 1.5


def make_rows(kind: str, n: int, d: int, k: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of k classes: normal columns, or eight values per column."""
    rows = nominal_rows(Shape(n, d, k)) if kind == "nominal" else normal(Shape(n, d, k), dtype=dtype)
    return rows.X, rows.y


def compare(kind: str, n: int, d: int, k: int, dtype: str, n_threads: int, turns: int) -> float:
    """Race fit + predict; print a line and return the ratio."""
    make_ours, make_peer, bar = KINDS[kind]
    X, y = make_rows(kind, n, d, k, dtype)
    ours, peer = make_ours(d), make_peer()
    accuracy: dict[str, float] = {}

    def run(name: str, model: Any) -> Callable[[], None]:
        def work() -> None:
            accuracy[name] = float(np.mean(model.fit(X, y).predict(X) == y))

        return work

    repeats = max(1, 20_000 // n)

    def repeated(work: Callable[[], None]) -> Callable[[], None]:
        return work if repeats == 1 else lambda: [work() for _ in range(repeats)] and None

    contestants = {"ours": repeated(run("ours", ours)), "peer": repeated(run("peer", peer))}
    clock = time.process_time if n_threads == 1 else time.perf_counter
    with threads(n_threads):
        times = race(contestants, turns=turns, clock=clock)
    ratio = times["peer"] / times["ours"]
    bar = bar if n >= 10_000 else SMALL_BAR
    print(
        f"{'ok  ' if ratio >= bar else 'MISS'} {kind:8s} {n:8d} x {d}, {k} classes, {dtype:8s} "
        f"{n_threads} thread(s): "
        f"ours {times['ours'] / repeats * 1e3:9.3f} ms, peer {times['peer'] / repeats * 1e3:9.3f} ms, "
        f"ratio {ratio:5.2f} (bar {bar:.2g}); accuracy {accuracy['ours']:.4f}, peer {accuracy['peer']:.4f}",
        flush=True,
    )
    return ratio


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=float, nargs="*", default=[1e4, 1e5, 1e6])
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--classes", type=int, default=5)
    parser.add_argument("--kind", choices=KINDS, nargs="*", default=list(KINDS))
    parser.add_argument("--dtype", nargs="*", default=["float64", "float32"])
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    sizes = (
        [(100, 4), (150, 4), (1000, 10)]
        if options.small
        else [(int(n), options.columns) for n in options.rows]
    )
    for kind in options.kind:
        ratios = [
            compare(kind, n, d, options.classes, dtype, n_threads, options.turns)
            for n, d in sizes
            for n_threads in options.threads
            for dtype in (options.dtype if kind != "nominal" else ["int64"])
        ]
        print(f"     {kind}: geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main()
