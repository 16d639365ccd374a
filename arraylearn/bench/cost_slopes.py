r"""How cost grows: each learner at four sizes, and the slope of time and memory on logarithmic axes.

A slope of 1 means twice the time for twice the rows, 2 four times the time:
:math:`\log t = a + b \log n`, with b by least squares over the four sizes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.costs import measure_peak
from arraylearn.backend.namespace import from_host
from arraylearn.bench.cases import refuse_unknown
from arraylearn.bench.conditions import (
    Stage,
    describe_machine,
    find_stage,
    is_quiet,
    load_average,
    quiet_text,
    threads,
)
from arraylearn.bench.data import Shape, TrainTest, curved, interval_rules, machine_rows, noise, normal
from arraylearn.bench.harness import race_turns
from arraylearn.bench.show import text_table

__all__ = [
    "AXES",
    "CostSlope",
    "SlopeReport",
    "measure_slopes",
    "print_slopes",
    "read_slopes",
    "slope",
]

# axis -> what it counts
AXES = {"n_rows": "rows", "n_columns": "columns", "n_classes": "classes"}
_HEADINGS = ("family", "learner", "along", "sizes", "time", "slope", "memory", "slope")


class _Subject(NamedTuple):
    """A learner and the smallest table that it is fitted to."""

    family: str
    name: str
    base: Shape
    data: Callable[[Shape], TrainTest]
    make: Callable[[], Any]
    axes: tuple[str, ...] = tuple(AXES)


@dataclass
class CostSlope:
    """Time and memory of one learner's fit along one axis."""

    family: str
    learner: str
    axis: str
    sizes: list[int]
    seconds: list[float]
    peak_bytes: list[int]
    time_slope: float
    memory_slope: float


@dataclass
class SlopeReport:
    """All slopes of a run, and the machine it was made on."""

    machine: dict[str, Any]
    backend: str
    threads: int
    load_before: float | None
    quiet: bool | None
    slopes: list[CostSlope]

    def save(self, path: str | Path) -> None:
        """Write the figures as JSON."""
        Path(path).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the least-squares slope of log(values) over log(sizes).

    >>> round(slope([1, 2, 4, 8], [3, 12, 48, 192]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-12)), 1)[0])


def _subjects() -> list[_Subject]:
    import arraylearn as al
    from arraylearn.tree.pruning import cost_complexity_path

    class GrowAndPrune:
        def fit(self, X: Any, y: Any) -> Any:
            return cost_complexity_path(al.DecisionTreeClassifier().fit(X, y).tree_)

    class GramMatrix:
        def fit(self, X: Any, y: Any) -> Any:
            return al.kernels.gram(X, gamma=0.01)

    class SearchPrices:
        def fit(self, X: Any, y: Any) -> Any:
            grid = {"C": [0.1, 1.0, 10.0]}
            return al.GridSearch(al.SVC(gamma=0.05), grid, cv=3, refit=False, verbose=0).fit(X, y)

    exact = partial(al.DecisionTreeClassifier, splitter="exact")
    binned = partial(al.DecisionTreeClassifier, splitter="hist", max_depth=8)
    boosting = partial(al.GradientBoostingClassifier, n_estimators=10)
    forest = partial(al.RandomForestClassifier, n_estimators=10, random_state=0)
    ripper = partial(al.RipperClassifier, random_state=1)
    linear = partial(al.SVC, kernel="linear")
    two = ("n_rows", "n_columns")
    return [
        _Subject("bayes", "naive Bayes", Shape(20_000, 10), normal, al.NaiveBayesClassifier),
        _Subject("bayes", "full Bayes", Shape(20_000, 10), normal, al.FullBayesClassifier),
        _Subject("tree", "exact tree", Shape(5000, 8), curved, exact),
        _Subject("tree", "binned tree, depth 8", Shape(20_000, 8), curved, binned),
        _Subject("pruning", "grow and weakest links", Shape(1000, 4), noise, GrowAndPrune),
        _Subject("boosting", "boosting, 10 rounds", Shape(10_000, 8), curved, boosting),
        _Subject("forest", "forest, 10 trees", Shape(2000, 8), curved, forest),
        _Subject("svm", "SVC, gaussian", Shape(500, 20), machine_rows, al.SVC),
        _Subject("svm", "SVC, linear", Shape(500, 20), machine_rows, linear),
        _Subject("rules", "RIPPER", Shape(1000, 10), interval_rules, ripper, two),
        _Subject("selection", "SVC: 3 folds x 3 prices", Shape(200, 20), machine_rows, SearchPrices),
        _Subject("kernels", "gaussian gram", Shape(500, 20), machine_rows, GramMatrix, two),
    ]


def measure_slopes(
    families: Sequence[str] = (),
    *,
    backend: str = "numpy",
    n_threads: int = 1,
    size: str = "small",
    only: str = "",
    on_learner: Callable[[str], None] | None = None,
) -> SlopeReport:
    """Fit each learner at four sizes along each axis: 1, 2, 4 and 8 times the base.

    `size` "medium" starts from four times as many rows, "large" from sixteen times as many.
    """
    refuse_unknown(families)
    stage, before = find_stage(backend), load_average()
    factor = {"small": 1, "medium": 4, "large": 16}[size]
    slopes = []
    with threads(n_threads):
        for one in _subjects():
            if (families and one.family not in families) or only not in one.name:
                continue
            base = one.base._replace(n_rows=one.base.n_rows * factor)
            slopes += [_measure_along(one, base, axis, stage) for axis in one.axes]
            if on_learner is not None:
                on_learner(one.name)
    return SlopeReport(describe_machine(), backend, n_threads, before, is_quiet(before), slopes)


def _measure_along(one: _Subject, base: Shape, axis: str, stage: Stage) -> CostSlope:
    sizes = [getattr(base, axis) * step for step in (1, 2, 4, 8)]
    runs = {str(size): _fit(one, base._replace(**{axis: size}), stage) for size in sizes}
    timed = race_turns(runs, turns=3, budget=6.0)
    seconds = [min(timed[str(size)]) for size in sizes]
    peaks = []
    for run in runs.values():
        with measure_peak(stage.place, traced=stage.place.library == "numpy") as peak:
            run()
        peaks.append(peak.n_bytes)
    return CostSlope(
        one.family, one.name, axis, sizes, seconds, peaks, slope(sizes, seconds), slope(sizes, peaks)
    )


def _fit(one: _Subject, shape: Shape, stage: Stage) -> Callable[[], Any]:
    rows = one.data(shape)
    X, y = from_host(rows.X, stage.place), from_host(rows.y, stage.place)
    return stage.bring(lambda place: lambda: one.make().fit(X, y))


def print_slopes(report: SlopeReport) -> None:
    """Print the slopes, a row for each learner and axis."""
    from rich.console import Console

    rows = [
        (
            one.family,
            one.learner,
            AXES[one.axis],
            f"{one.sizes[0]} - {one.sizes[-1]}",
            f"{one.seconds[0] * 1e3:.3g} - {one.seconds[-1] * 1e3:.3g} ms",
            f"{one.time_slope:.2f}",
            f"{one.peak_bytes[0] / 1e6:.3g} - {one.peak_bytes[-1] / 1e6:.3g} MB",
            f"{one.memory_slope:.2f}",
        )
        for one in report.slopes
    ]
    console = Console()
    title = f"Growth of a fit on {report.backend}, {report.threads} thread(s): log-log slopes over four sizes"
    console.print(text_table(title, _HEADINGS, rows))
    console.print(f"Machine {quiet_text(report.quiet)}, load {report.load_before} before.", highlight=False)


def read_slopes(paths: Sequence[str | Path]) -> SlopeReport:
    """Read runs that `save` wrote, and join them."""
    read = [json.loads(Path(path).read_text(encoding="utf-8")) for path in paths]
    if any((one["machine"], one["backend"]) != (read[0]["machine"], read[0]["backend"]) for one in read):
        raise ValueError("`read`: the runs are of different machines, versions or backends.")
    slopes = [CostSlope(**raw) for one in read for raw in one["slopes"]]
    return SlopeReport(**{**read[0], "slopes": slopes})
