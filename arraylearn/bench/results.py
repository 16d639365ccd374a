"""What a run gives: records for its figures, reading and writing them, and the bars that they reach."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from arraylearn.bench.bars import BARS, Against
from arraylearn.bench.case import SIZES, Size
from arraylearn.bench.harness import Ratio

__all__ = ["BarSummary", "BenchReport", "Contestant", "Result", "join_reports", "summarize"]


@dataclass
class Contestant:
    """The figures of one program in a case."""

    seconds: float  # of the best turn
    turns: list[float]
    rows_per_second: float
    peak_bytes: int  # allocated beyond what was held before, in a separate run
    quality: float | None


@dataclass
class Result:
    """One case at one size, with one number of threads, on one backend."""

    family: str
    case: str
    size: Size
    n_rows: int
    n_columns: int
    n_classes: int
    threads: int
    backend: str
    quality_name: str
    bar: str | None  # key of `bars.BARS`
    bars: dict[str, float]  # peers, joined by " or " -> the least ratio
    ours: Contestant
    peers: dict[str, Contestant] = field(default_factory=dict)
    ratios: dict[str, Ratio] = field(default_factory=dict)


@dataclass
class BenchReport:
    """One run: the machine, the results, what was skipped and why."""

    machine: dict[str, Any]
    clock: str
    began: str
    load_before: float | None
    load_after: float | None
    quiet: bool | None
    seconds: float
    results: list[Result]
    skipped: dict[str, str]

    def save(self, path: str | Path) -> None:
        """Write the run as JSON."""
        Path(path).write_text(json.dumps(asdict(self), indent=1, allow_nan=False) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: str | Path) -> BenchReport:
        """Read a run that `save` wrote."""
        raw = json.loads(Path(path).read_text(encoding="utf-8"))
        raw["results"] = [_read_result(result) for result in raw["results"]]
        return cls(**raw)


def join_reports(reports: Sequence[BenchReport]) -> BenchReport:
    """Join runs of one machine into one; of a case that was run again, the later result counts."""
    first = reports[0]
    if any(one.machine != first.machine or one.clock != first.clock for one in reports):
        raise ValueError(
            "`read`: the runs are of different machines, versions or clocks; show them one by one."
        )
    quiet_ones = [one.quiet for one in reports]
    last = {
        (result.family, result.case, result.size, result.threads, result.backend): result
        for one in reports
        for result in one.results
    }
    return replace(
        first,
        load_before=max((one.load_before for one in reports if one.load_before is not None), default=None),
        load_after=max((one.load_after for one in reports if one.load_after is not None), default=None),
        quiet=None if None in quiet_ones else all(quiet_ones),
        seconds=round(sum(one.seconds for one in reports), 1),
        results=list(last.values()),
        skipped={name: reason for one in reports for name, reason in one.skipped.items()},
    )


def _read_result(raw: dict[str, Any]) -> Result:
    return Result(
        **{
            **raw,
            "ours": Contestant(**raw["ours"]),
            "peers": {name: Contestant(**peer) for name, peer in raw["peers"].items()},
            "ratios": {name: Ratio(**ratio) for name, ratio in raw["ratios"].items()},
        }
    )


@dataclass
class BarSummary:
    """A bar and what the cases of its job reached together."""

    job: str
    threads: int
    backend: str
    sizes: str
    peers: str
    n_cases: int
    mean: float  # geometric mean of the ratios to the fastest of the peers
    least: float
    goal: float
    is_set_size: bool  # whether the bar was set for these sizes

    @property
    def verdict(self) -> str:
        """Whether the bar is reached."""
        reached = "reached" if self.mean >= self.least else "MISSED"
        return reached if self.is_set_size else f"{reached.lower()} below its size"


def summarize(results: Sequence[Result]) -> list[BarSummary]:
    """Compare the geometric mean of each job's ratios with its bar."""
    groups: dict[tuple[str, int, str, Against, bool], list[Result]] = {}
    for result in results:
        if result.bar is None:
            continue
        bar = BARS[result.bar]
        for against in bar.against:
            if any(peer in result.ratios for peer in against.peers):
                key = (result.bar, result.threads, result.backend, against, result.size in bar.sizes)
                groups.setdefault(key, []).append(result)
    return [
        BarSummary(
            BARS[name].job,
            n_threads,
            backend,
            ", ".join(size for size in SIZES if any(one.size == size for one in found)),
            " or ".join(peer for peer in against.peers if any(peer in one.ratios for one in found)),
            len(found),
            geometric_mean(_least_ratio(one, against) for one in found),
            against.least,
            against.goal,
            is_set_size,
        )
        for (name, n_threads, backend, against, is_set_size), found in groups.items()
    ]


def _least_ratio(result: Result, against: Against) -> float:
    """Return the ratio to the fastest of the peers that ran."""
    return min(result.ratios[peer].ratio for peer in against.peers if peer in result.ratios)
