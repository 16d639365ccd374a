"""Decision trees beside scikit-learn's: exact and binned growth, prediction, by rows, classes and threads.

python -m benchmarks.tree                       # one thread each, then two
python -m benchmarks.tree --rows 1e4 1e5 --threads 1 --turns 3

With one thread the time on our core counts, which others on the machine disturb less than the clock.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Sequence

import numpy as np
from sklearn.tree import DecisionTreeClassifier as Peer

import arraylearn as al
from arraylearn.bench.data import curved
from benchmarks.harness import race, report, threads


def make_rows(
    n: int, n_classes: int, *, d: int = 20, n_values: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows with a curved boundary between the classes and a tenth of the labels at random."""
    rows = curved((n, d, n_classes), n_values=n_values, n_new=0)
    return rows.X, rows.y


def compare(
    title: str, X: np.ndarray, y: np.ndarray, bar: float, n_threads: int, turns: int, **settings: object
) -> float:
    """Race two fits; return peer / ours."""
    depth = settings.get("max_depth")
    clock = time.thread_time if n_threads == 1 else time.perf_counter
    with threads(n_threads):
        times = race(
            {
                "ours": lambda: al.DecisionTreeClassifier(**settings).fit(X, y),
                "peer": lambda: Peer(max_depth=depth, random_state=0).fit(X, y),
            },
            turns=turns,
            clock=clock,
        )
    report(f"{title}, {n_threads} threads", times, ours="ours", bars={"peer": 1 / bar})
    return times["peer"] / times["ours"]


def compare_prediction(n: int, n_threads: int, turns: int) -> None:
    X, y = make_rows(2 * n, 2)
    ours = al.DecisionTreeClassifier(splitter="exact").fit(X[:n], y[:n])
    peer = Peer(random_state=0).fit(X[:n], y[:n])
    queries = X[n:]
    ours.predict(queries[:10])
    clock = time.thread_time if n_threads == 1 else time.perf_counter
    with threads(n_threads):
        times = race(
            {"ours": lambda: ours.predict(queries), "peer": lambda: peer.predict(queries)},
            turns=turns,
            clock=clock,
        )
    report(f"predict {n} rows, full tree, {n_threads} threads", times, ours="ours", bars={"peer": 1.0})


def measure_memory(n: int) -> None:
    """Print the peak of traced memory of a binned fit, in multiples of the input."""
    X, y = make_rows(n, 2)
    tracemalloc.start()
    al.DecisionTreeClassifier(splitter="hist", max_depth=8).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"memory of a binned fit of {n} rows: {peak / X.nbytes:.2f} x the input (bar 3)")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the races."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=float, nargs="+", default=[1e4, 1e5])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args(arguments)
    for n_threads in options.threads:
        ratios: dict[str, list[float]] = {"few classes": [], "many classes or ties": [], "binned": []}
        for n in (int(rows) for rows in options.rows):
            for n_classes, n_values in ((2, None), (3, None), (10, None), (2, 16)):
                X, y = make_rows(n, n_classes, n_values=n_values)
                is_few = n_classes < 4 and n_values is None
                kind, bar = ("few classes", 7.0) if is_few else ("many classes or ties", 2.0)
                title = f"exact {n} x 20, {n_classes} classes{'' if n_values is None else ', 16 values'}"
                ratios[kind].append(compare(title, X, y, bar, n_threads, options.turns, splitter="exact"))
                if n >= 100_000 and is_few:
                    settings = {"splitter": "hist", "max_depth": 8}
                    title = f"binned {n} x 20, depth 8, {n_classes} classes"
                    ratios["binned"].append(compare(title, X, y, 20.0, n_threads, options.turns, **settings))
            compare_prediction(n, n_threads, options.turns)
        for kind, found in ratios.items():
            if found:
                print(f"{kind}, {n_threads} threads: geometric mean {np.exp(np.mean(np.log(found))):.2f}")
    measure_memory(int(max(options.rows)))


if __name__ == "__main__":
    main()
