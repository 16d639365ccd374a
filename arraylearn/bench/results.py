"""What a run gives: records for its figures, reading and writing them, and the bars that they reach."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import geometric_mean, mean
from typing import Any, NamedTuple

from arraylearn.bench.bars import BARS, Against, Bar
from arraylearn.bench.case import Size
from arraylearn.bench.harness import Ratio

__all__ = ["BarSummary", "BenchReport", "Contestant", "Result", "join_reports", "summarize"]

# Rows from which on second threads and memory are judged.
LARGE = 100_000


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
    input_bytes: int
    quality_name: str
    bars: list[str]  # keys of `bars.BARS`
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


class BarSummary(NamedTuple):
    """A bar, and what the cases of its job reached together on one backend."""

    job: str
    beside: str
    backend: str
    ratios: dict[int, float]  # number of threads -> ratio; higher is better
    least: float
    quality: tuple[float, float] | None  # mean accuracy of ours and of the best peers
    n_cases: int

    @property
    def is_reached(self) -> bool:
        """Whether every ratio reaches the bar."""
        return all(ratio >= self.least for ratio in self.ratios.values())


def summarize(results: Sequence[Result]) -> list[BarSummary]:
    """Compare the ratios of each job with its bar, in the order of `bars.BARS`."""
    found: list[BarSummary] = []
    for name, bar in BARS.items():
        for backend in dict.fromkeys(one.backend for one in results):
            cases = [
                one
                for one in results
                if name in one.bars and one.backend == backend and one.size in bar.sizes
            ]
            large = [one for one in cases if one.n_rows >= LARGE]
            summaries = [_beside_peers(bar, against, backend, cases) for against in bar.against]
            if bar.second is not None:
                gains = {2: _gains_of_two(large)}
                summaries.append(_join(f"{bar.job}: second thread", "first", backend, gains, bar.second))
            if bar.memory is not None:
                shares = _by_threads(large, lambda one: one.input_bytes / max(1, one.ours.peak_bytes))
                about = f"{bar.job}: memory"
                summaries.append(_join(about, "the input", backend, shares, bar.memory, min))
            found += [one for one in summaries if one.ratios]
    return found


def _beside_peers(bar: Bar, against: Against, backend: str, cases: list[Result]) -> BarSummary:
    cases = [one for one in cases if any(peer in one.ratios for peer in against.peers)]

    def reached(one: Result) -> float:
        """Return the ratio to the fastest of the peers that ran, or the bar where our time suffices."""
        ratio = min(one.ratios[peer].ratio for peer in against.peers if peer in one.ratios)
        return max(ratio, against.least) if one.ours.seconds <= bar.enough else ratio

    ran = [peer for peer in against.peers if any(peer in one.ratios for one in cases)]
    ratios = _by_threads(cases, reached)
    joined = _join(
        bar.job, " or ".join(ran), backend, ratios, against.least, min if bar.is_each else geometric_mean
    )
    pairs = []
    for one in cases:
        theirs = [one.peers[peer].quality for peer in ran if peer in one.peers]
        known = [quality for quality in theirs if quality is not None]
        if one.quality_name == "accuracy" and one.ours.quality is not None and known:
            pairs.append((one.ours.quality, max(known)))
    return joined._replace(quality=(mean(a for a, _ in pairs), mean(b for _, b in pairs)) if pairs else None)


def _by_threads(cases: Sequence[Result], figure: Callable[[Result], float]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for one in cases:
        found.setdefault(one.threads, []).append(figure(one))
    return found


def _gains_of_two(cases: Sequence[Result]) -> list[float]:
    """Return our time with one thread over that with two, for the cases that ran with both."""
    seconds = {(one.family, one.case, one.size, one.threads): one.ours.seconds for one in cases}
    pairs = ((key, seconds.get((*key[:3], 2))) for key in seconds if key[3] == 1)
    return [seconds[key] / other for key, other in pairs if other is not None]


def _join(
    job: str,
    beside: str,
    backend: str,
    figures: Mapping[int, Sequence[float]],
    least: float,
    combine: Callable[[Sequence[float]], float] = geometric_mean,
) -> BarSummary:
    ratios = {n: combine(some) for n, some in figures.items() if some}
    return BarSummary(job, beside, backend, ratios, least, None, max(map(len, figures.values()), default=0))
