"""The support vector machines beside LIBSVM and, where scikit-learn-intelex is installed, oneDAL.

    python -m benchmarks.svm [gaussian] [linear] [decision] [batch] [--threads 1 2] [--turns 3] [--quick]

Contestants take turns in one process and the best turn counts. Beside each ratio (peer / ours, higher is
better) stands how far our dual objective is from the peer's, relative; positive means ours is larger.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

import arraylearn as al
from arraylearn.backend.namespace import HOST
from arraylearn.bench.data import Shape, machine_rows
from arraylearn.svm.solvers.batched import solve_columns
from arraylearn.svm.solvers.stopping import Settings
from benchmarks.harness import race, threads

try:
    from sklearnex import svm as onedal
except ImportError:
    onedal = None


def data(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows by name: "moons", "onehot", or "clusters" with the number of columns."""
    kind = {"moons": "moons", "onehot": "one-hot"}.get(name, "clusters")
    d = {"moons": 10, "onehot": 50}.get(name) or int(name.removeprefix("clusters"))
    rows = machine_rows(Shape(n, d), kind=kind)
    return rows.X, rows.y


def peers(**parameters: Any) -> dict[str, Any]:
    found = {"libsvm": SVC(**parameters)}
    if onedal is not None:
        found["onedal"] = onedal.SVC(**parameters)
    return found


def objective(clf: Any, X: np.ndarray, y: np.ndarray, kernel: str) -> float:
    """The dual objective of a fitted two-class machine, in float64."""
    beta, rows = clf.dual_coef_[0], X[clf.support_]
    sign = 2.0 * y[clf.support_] - 1.0
    if kernel == "linear":
        w = beta @ rows
        return float(beta @ sign - 0.5 * w @ w)
    gamma = 1 / (X.shape[1] * X.var())
    product = sum(
        float(beta[k : k + 500] @ (al.kernels.gram(rows[k : k + 500], rows, gamma=gamma) @ beta))
        for k in range(0, len(rows), 500)
    )
    return float(beta @ sign - 0.5 * product)


def fit(kernel: str, cases: list[tuple[str, int, float]], turns: int) -> None:
    ratios: dict[str, list[float]] = {}
    for name, n, C in cases:
        X, y = data(name, n)
        parameters = {"C": C, "kernel": kernel}
        contestants = {"ours": al.SVC(**parameters)}
        # a million pair steps are enough to tell; what stops there is faster than it should be
        contestants |= peers(**parameters, max_iter=1_000_000 if kernel == "linear" else -1)
        times = race({k: partial(c.fit, X, y) for k, c in contestants.items()}, turns=turns)
        value = objective(contestants["ours"], X, y, kernel)
        parts = []
        for peer in contestants.keys() - {"ours"}:
            ratio = times[peer] / times["ours"]
            ratios.setdefault(peer, []).append(ratio)
            other = objective(contestants[peer], X, y, kernel)
            parts.append(
                f"{peer} {times[peer]:7.3f} s, ratio {ratio:6.2f}, objective {(value - other) / other:+.0e}"
            )
        line = f"{kernel:8s} {name:10s} n={n:<6d} C={C:<5g} ours {times['ours']:7.3f} s; "
        print(line + "; ".join(parts), flush=True)
    summarize(f"{kernel} fit", ratios)


def decision(turns: int, n_queries: int) -> None:
    ratios: dict[str, list[float]] = {}
    for name, n in (("clusters20", 2000), ("clusters100", 5000)):
        X, y = data(name, n)
        rng = np.random.default_rng(1)
        queries = X[rng.integers(0, n, n_queries)] + 0.1 * rng.standard_normal((n_queries, X.shape[1]))
        fitted = {k: c.fit(X, y) for k, c in {"ours": al.SVC(), **peers()}.items()}
        times = race({k: partial(c.decision_function, queries) for k, c in fitted.items()}, turns=turns)
        error = np.abs(fitted["ours"].decision_function(X) - fitted["libsvm"].decision_function(X)).max()
        line = f"decision {name} {len(fitted['ours'].support_)} vectors, {n_queries} queries: "
        print(
            line + ", ".join(f"{k} {t:.3f} s" for k, t in times.items()) + f", apart {error:.0e}", flush=True
        )
        for peer in fitted.keys() - {"ours"}:
            ratios.setdefault(peer, []).append(times[peer] / times["ours"])
    summarize("decision function", ratios)


def batch(turns: int, cases: list[tuple[str, int]]) -> None:
    """Five folds and eight prices on one kernel matrix, the matrix and the decision values included."""
    prices = np.logspace(-1, 2, 8)
    ratios = []
    for name, n in cases:
        X, y = data(name, n)
        gamma = 1 / (X.shape[1] * X.var())
        folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
        bound = np.zeros((len(folds) * len(prices), n))
        for k, (train, _) in enumerate(folds):
            bound[k * len(prices) : (k + 1) * len(prices), train] = prices[:, None]
        sign = np.broadcast_to(2.0 * y - 1.0, bound.shape).copy()

        def ours(X=X, gamma=gamma, sign=sign, bound=bound):
            gram = al.kernels.gram(X, gamma=gamma)
            found = solve_columns(HOST, gram, sign, bound, Settings())
            return found.beta @ gram + found.offset[:, None]

        def loop(X=X, y=y, gamma=gamma, folds=folds):
            return [
                SVC(C=C, gamma=gamma).fit(X[train], y[train]).decision_function(X[test])
                for train, test in folds
                for C in prices
            ]

        times = race({"ours": ours, "libsvm": loop}, turns=turns)
        ratios.append(times["libsvm"] / times["ours"])
        line = f"batch {name} n={n}: ours {times['ours']:.2f} s, loop over libsvm {times['libsvm']:.2f} s"
        print(f"{line}, ratio {ratios[-1]:.2f}", flush=True)
    summarize("batch", {"libsvm": ratios})


def summarize(title: str, ratios: dict[str, list[float]]) -> None:
    for peer, values in ratios.items():
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"== {title}: {peer} / ours, geometric mean {mean:.2f} of {len(values)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("jobs", nargs="*", default=["gaussian", "linear", "decision", "batch"])
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="smaller cases")
    options = parser.parse_args()
    sizes = [5000] if options.quick else [5000, 10_000, 20_000]
    names = ("clusters20", "onehot", "moons")
    warnings.simplefilter("ignore", ConvergenceWarning)
    for n_threads in options.threads:
        print(f"-- {n_threads} thread{'s' * (n_threads > 1)}")
        with threads(n_threads):
            if "gaussian" in options.jobs:
                fit(
                    "rbf",
                    [(name, n, C) for n in sizes for name in names for C in (0.1, 1.0, 10.0)],
                    options.turns,
                )
            if "linear" in options.jobs:
                linear_sizes = [2000] if options.quick else [2000, 5000]
                fit("linear", [(name, n, 1.0) for n in linear_sizes for name in names], options.turns)
            if "decision" in options.jobs:
                decision(options.turns, 20_000 if options.quick else 100_000)
            if "batch" in options.jobs:
                batch(options.turns, [(name, n) for n in sizes[:2] for name in names[:2]])
    return 0


if __name__ == "__main__":
    sys.exit(main())
