"""Work of a GPU: counts of a fit and a predict, and an ESTIMATE of their time on named cards.

    python -m benchmarks.roofline [--on torch cupy] [--rows 20000] [--columns 20] [--classes 3]
                                  [--json FILE] [--read FILE ...] [learner ...]

The counts are facts, taken on devices that stand in for a GPU (tests/backends): torch on a computing fake
CUDA device under a dispatch counter, and the real CuPy on an emulated device. The device counts launches and
syncs (the host waits for the device). Bytes are what torch's operations read and write, and for CuPy twice
what it allocates (written once, read once). Arithmetic is counted on torch, one per element and two per term
of an inner product; CuPy runs the same algorithm. Products of cuBLAS are not among CuPy's launches.

The time is a model: launches x launch cost + syncs x sync cost + bytes / bandwidth + arithmetic / peak (of
float64, as published). The largest of the four is the bottleneck. Nothing here ran on a GPU.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import arraylearn as al
from arraylearn.backend.costs import OperationCounts, count_operations
from arraylearn.backend.namespace import Place
from arraylearn.bench.data import Shape, curved
from tests.backends.rungs import RUNGS, Rung

__all__ = ["CARDS", "LEARNERS", "Card", "Estimate", "Row", "count", "estimate", "measure", "table_rows"]


class Card(NamedTuple):
    """Published figures of a GPU."""

    bandwidth: float  # bytes per second
    peak32: float  # float32 operations per second
    peak64: float
    launch: float = 5e-6  # seconds per operation
    sync: float = 15e-6  # seconds per sync


CARDS = {
    "A100": Card(1.56e12, 19.5e12, 9.7e12),
    "H100": Card(3.35e12, 67e12, 34e12),
    "RTX 4090": Card(1.01e12, 82.6e12, 1.29e12),
}


class Estimate(NamedTuple):
    """The parts of an estimated time, in seconds."""

    launches: float
    syncs: float
    bandwidth: float
    arithmetic: float

    @property
    def total(self) -> float:
        return sum(self)

    @property
    def bottleneck(self) -> str:
        return max(zip(self, self._fields, strict=True))[1]


def estimate(counts: OperationCounts, card: Card, *, double: bool = True) -> Estimate:
    """Turn counts into an estimate for a card; `double` says that the arithmetic is in float64."""
    peak = card.peak64 if double else card.peak32
    return Estimate(
        counts.launches * card.launch,
        counts.syncs * card.sync,
        counts.n_bytes / card.bandwidth,
        counts.n_flops / peak,
    )


LEARNERS: dict[str, Callable[[], Any]] = {
    "naive Bayes": lambda: al.NaiveBayesClassifier(),
    "full Bayes": lambda: al.FullBayesClassifier(),
    "exact tree, depth 8": lambda: al.DecisionTreeClassifier(max_depth=8, splitter="exact"),
    "binned tree, depth 8": lambda: al.DecisionTreeClassifier(max_depth=8, splitter="hist"),
    "boosting, 5 rounds": lambda: al.GradientBoostingClassifier(n_estimators=5),
    "forest, 10 trees": lambda: al.RandomForestClassifier(n_estimators=10, max_depth=8, random_state=0),
    "AdaBoost, 5 stumps": lambda: al.AdaBoostClassifier(n_estimators=5, random_state=0),
    "SVC, gaussian": lambda: al.SVC(),
    "SVC, linear": lambda: al.SVC(kernel="linear"),
    "RIPPER": lambda: al.RipperClassifier(random_state=0),
}
# the emulated devices are slow: fewer rows where the cost grows faster than the rows
FEW_ROWS = {"SVC, gaussian": 1000, "SVC, linear": 1000, "RIPPER": 1000}
STAND_INS = {"torch": "fake_cuda", "cupy": "cupy"}
LIMIT = {"torch": 1_000_000, "cupy": 2000}  # a scan on the emulated device takes 3 us per element


@dataclass
class Row:
    """The counts of one job of one learner."""

    library: str
    learner: str
    job: str
    n_rows: int
    counts: OperationCounts


@contextmanager
def count(rung: Rung) -> Iterator[OperationCounts]:
    """Count launches, syncs, bytes and (on torch) arithmetic inside the block, on a device that stands in."""
    before, counts = rung.counts(), OperationCounts()
    assert before is not None
    if rung.name == "cupy":
        with _allocations(counts):
            yield counts
    else:
        with count_operations(Place(rung.load(), rung.device)) as seen:
            yield counts
        assert seen is not None
        counts.n_bytes, counts.n_flops = seen.n_bytes, seen.n_flops
    after = rung.counts()
    assert after is not None
    counts.launches = after["launches"] - before["launches"]
    counts.syncs = after["syncs"] - before["syncs"]


@contextmanager
def _allocations(counts: OperationCounts) -> Iterator[None]:
    """Count the bytes that CuPy asks for."""
    import cupy

    allocate = cupy.cuda.get_allocator()

    def counting(size: int) -> Any:
        counts.n_bytes += 2 * size
        return allocate(size)

    cupy.cuda.set_allocator(counting)
    try:
        yield
    finally:
        cupy.cuda.set_allocator(allocate)


def measure(rung: Rung, names: list[str], shape: Shape) -> Iterator[Row]:
    """Count the fit and the predict of learners; what is done once per process is done before."""
    for name in names:
        n = min(shape.n_rows, FEW_ROWS.get(name, shape.n_rows))
        rows = curved(shape._replace(n_rows=n), n_new=0)
        x, y = rung.from_host(rows.X), rung.from_host(rows.y.astype(np.int64))
        few = slice(0, min(n, 200))
        model = LEARNERS[name]()
        model.fit(x[few], y[few]).predict(x[few])
        for job, work in (("fit", lambda m=model, x=x, y=y: m.fit(x, y)), ("predict", None)):
            if work is None:
                model.predict(x)  # the form of the model that predictions use is made once
                work = lambda m=model, x=x: m.predict(x)  # noqa: E731
            with count(rung) as counts:
                work()
            yield Row("cupy" if rung.name == "cupy" else "torch", name, job, n, counts)


def with_arithmetic(rows: list[Row]) -> list[Row]:
    """Give CuPy's rows the arithmetic per row of the table that was counted on torch."""
    known = {
        (row.learner, row.job): row.counts.n_flops / row.n_rows for row in rows if row.library == "torch"
    }
    for row in rows:
        if row.library == "cupy":
            row.counts.n_flops = round(known.get((row.learner, row.job), 0) * row.n_rows)
    return rows


HEADINGS = ("library", "learner", "job", "rows", "launches", "syncs", "MB", "Mflop", *CARDS)


def table_rows(rows: list[Row]) -> list[tuple[str, ...]]:
    """Return a line of text for each job, with the estimates and bottlenecks of all cards."""
    return [
        (
            row.library,
            row.learner,
            row.job,
            str(row.n_rows),
            str(row.counts.launches),
            str(row.counts.syncs),
            f"{row.counts.n_bytes / 1e6:.3g}",
            f"{row.counts.n_flops / 1e6:.3g}",
            *(
                f"{found.total * 1e3:.3g} ms ({found.bottleneck})"
                for found in (estimate(row.counts, card) for card in CARDS.values())
            ),
        )
        for row in rows
    ]


def print_table(rows: list[Row], shape: Shape) -> None:
    title = f"ESTIMATE, nothing ran on a GPU: {shape.n_columns} columns of float32, {shape.n_classes} classes"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    numbers = ("launches", "syncs", "MB", "Mflop")
    for heading in ("job", *numbers, *CARDS):
        is_number = heading in numbers
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=is_number)
    for library, learner, job, n_rows, *rest in table_rows(rows):
        counts, times = rest[: len(numbers)], rest[len(numbers) :]
        about = f"{library}: {learner}\n  {job}, {n_rows} rows"
        table.add_row(about, *counts, *(time.replace(" (", "\n(") for time in times))
    Console().print(table)


def count_everywhere(libraries: list[str], learners: list[str], shape: Shape) -> list[Row]:
    """Count on the stand-ins of the named libraries; one that is not here is left out with its reason."""
    rungs = {library: RUNGS[STAND_INS[library]] for library in libraries}
    for rung in rungs.values():
        rung.prepare()  # the emulator must be in place before anything imports CuPy
    rows: list[Row] = []
    for library, rung in rungs.items():
        if reason := rung.unavailable():
            print(f"{library} is left out: {reason}")
            continue
        limited = shape._replace(n_rows=min(shape.n_rows, LIMIT[library]))
        with rung.active(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for row in measure(rung, learners, limited):
                rows.append(row)
                print(f"counted: {library}, {row.learner}, {row.job}", flush=True)
    return rows


def read_rows(path: Path) -> list[Row]:
    """Read what ``--json`` wrote."""
    rows = json.loads(path.read_text())
    return [Row(**{**raw, "counts": OperationCounts(**raw["counts"])}) for raw in rows]


def main(arguments: list[str] | None = None) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("learners", nargs="*", help=f"of {', '.join(LEARNERS)} (default: all)")
    parser.add_argument("--on", nargs="+", choices=STAND_INS, default=list(STAND_INS))
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--classes", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--read", type=Path, nargs="+", help="show earlier counts instead of counting")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.learners if name not in LEARNERS]:
        parser.error(f"learner {unknown[0]!r} is not one of {', '.join(LEARNERS)}")
    shape = Shape(options.rows, options.columns, options.classes)
    if options.read:
        rows = [row for path in options.read for row in read_rows(path)]
    else:
        rows = count_everywhere(options.on, options.learners or list(LEARNERS), shape)
    with_arithmetic(rows)
    print_table(rows, shape)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
