"""What a GPU would feel: counts of a fit and a predict, and an ESTIMATE of their time on a named card.

    python -m benchmarks.roofline [--card A100] [--rows 100000] [--columns 20] [learner ...]

The counts (launches, host waits, bytes, arithmetic) are taken on torch by a dispatch counter: they are facts.
The time is a model, launches x launch cost + waits x wait cost + bytes / bandwidth + arithmetic / peak, and
names the largest of the four as the bottleneck. Nothing here ran on a GPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from sklearn.datasets import make_classification

import arraylearn as al
from arraylearn.backend.counting import Counts, count_operations
from arraylearn.backend.selector import resolve

__all__ = ["CARDS", "Card", "Estimate", "estimate"]


class Card(NamedTuple):
    """Published figures of a GPU."""

    bandwidth: float  # bytes per second
    peak32: float  # float32 operations per second
    peak64: float
    launch: float = 5e-6  # seconds per operation
    wait: float = 15e-6  # seconds per host wait


CARDS = {
    "A100": Card(1.56e12, 19.5e12, 9.7e12),
    "H100": Card(3.35e12, 67e12, 34e12),
    "RTX4090": Card(1.01e12, 82.6e12, 1.29e12),
}


class Estimate(NamedTuple):
    """The parts of an estimated time, in seconds."""

    launches: float
    waits: float
    bandwidth: float
    arithmetic: float

    @property
    def total(self) -> float:
        return sum(self)

    @property
    def bottleneck(self) -> str:
        return max(zip(self, self._fields, strict=True))[1]


def estimate(counts: Counts, card: Card, *, double: bool = True) -> Estimate:
    """Turn counts into an estimate for a card; `double` says that the arithmetic is in float64."""
    peak = card.peak64 if double else card.peak32
    return Estimate(
        counts.launches * card.launch,
        counts.syncs * card.wait,
        counts.n_bytes / card.bandwidth,
        counts.n_flops / peak,
    )


LEARNERS: dict[str, Callable[[], Any]] = {
    "naive Bayes": lambda: al.NaiveBayesClassifier(),
    "full Bayes": lambda: al.FullBayesClassifier(),
    "exact tree": lambda: al.DecisionTreeClassifier(max_depth=8, splitter="exact"),
    "binned tree": lambda: al.DecisionTreeClassifier(max_depth=8, splitter="hist"),
    "boosting, 10 rounds": lambda: al.GradientBoostingClassifier(n_estimators=10),
    "forest, 10 trees": lambda: al.RandomForestClassifier(n_estimators=10, random_state=0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Counts on torch, and an estimate for a GPU.")
    parser.add_argument("learners", nargs="*", help=f"of {', '.join(LEARNERS)} (default: all)")
    parser.add_argument("--card", choices=CARDS, default="A100")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=20)
    options = parser.parse_args()
    table = Table(
        title=f"{options.rows} x {options.columns} float32, torch; times are an ESTIMATE for {options.card}"
    )
    for heading in ("learner", "job", "launches", "waits", "MB", "Mflop", "estimate", "bottleneck"):
        table.add_column(heading, justify="left" if heading in ("learner", "job", "bottleneck") else "right")
    X, y = make_classification(options.rows, options.columns, n_informative=10, n_classes=3, random_state=0)
    place = resolve("torch")
    X = place.xp.asarray(X, dtype=place.xp.float32)
    for name in options.learners or LEARNERS:
        model = LEARNERS[name]()
        with count_operations(place) as fitting:
            model.fit(X, y)
        with count_operations(place) as predicting:
            model.predict(X)
        for job, counts in (("fit", fitting), ("predict", predicting)):
            assert counts is not None
            found = estimate(counts, CARDS[options.card])
            table.add_row(
                name, job, str(counts.launches), str(counts.syncs), f"{counts.n_bytes / 1e6:.0f}",
                f"{counts.n_flops / 1e6:.0f}", f"{found.total * 1e3:.2f} ms", found.bottleneck,
            )  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    main()
