"""Run cases: ours on every chosen backend and the peers, interleaved; results as plain numbers for a file."""

from __future__ import annotations

import gc
import itertools
import json
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from arraylearn.backend.namespace import HOST, Place
from arraylearn.backend.peak import measure_peak
from arraylearn.bench.bars import BARS, Against
from arraylearn.bench.case import SIZES, Case, Contest, Run, Size
from arraylearn.bench.cases import all_cases
from arraylearn.bench.harness import compare_turns, geometric_mean, race_turns
from arraylearn.bench.machine import describe_machine, load, quiet, threads
from arraylearn.bench.peers import installed_peers, missing_peers
from arraylearn.bench.stage import Stage, find_stage

__all__ = ["Contestant", "Report", "Result", "Summary", "Versus", "join_reports", "run_bench", "summarize"]

# seconds of turns per case, after a first round that does not count
BUDGET: dict[Size, float] = {"small": 4.0, "medium": 15.0, "large": 60.0}
TURNS: dict[Size, int] = {"small": 5, "medium": 5, "large": 3}


@dataclass
class Contestant:
    """What one program did in a case."""

    seconds: float  # of the best turn
    turns: list[float]
    rows_per_second: float
    peak_bytes: int  # beyond what was held before, in a run of its own
    quality: float | None


@dataclass
class Versus:
    """A peer beside ours: the peer's time over ours, with its spread over the turns."""

    ratio: float
    median: float
    low: float
    high: float


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
    ratios: dict[str, Versus] = field(default_factory=dict)


@dataclass
class Report:
    """A whole run: the machine, the results, what was left out and why."""

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
    def read(cls, path: str | Path) -> Report:
        """Read a run that `save` wrote."""
        raw = json.loads(Path(path).read_text(encoding="utf-8"))
        raw["results"] = [_read_result(result) for result in raw["results"]]
        return cls(**raw)


def join_reports(reports: Sequence[Report]) -> Report:
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
    return Report(
        first.machine,
        first.clock,
        first.began,
        max((one.load_before for one in reports if one.load_before is not None), default=None),
        max((one.load_after for one in reports if one.load_after is not None), default=None),
        None if None in quiet_ones else all(quiet_ones),
        round(sum(one.seconds for one in reports), 1),
        list(last.values()),
        {name: reason for one in reports for name, reason in one.skipped.items()},
    )


def _read_result(raw: dict[str, Any]) -> Result:
    return Result(
        **{
            **raw,
            "ours": Contestant(**raw["ours"]),
            "peers": {name: Contestant(**peer) for name, peer in raw["peers"].items()},
            "ratios": {name: Versus(**ratio) for name, ratio in raw["ratios"].items()},
        }
    )


def run_bench(
    families: Sequence[str] = (),
    *,
    sizes: Sequence[Size] = ("small",),
    backends: Sequence[str] = ("numpy",),
    n_threads: Sequence[int] = (1,),
    with_peers: bool = True,
    clock: Literal["wall", "cpu"] = "wall",
    only: str = "",
    turns: int | None = None,
    tell: Callable[[Result], None] | None = None,
    keep: Callable[[Report], None] | None = None,
) -> Report:
    """Time the cases of some families (default: all) and return a report.

    Parameters
    ----------
    families : sequence of str
        Of `arraylearn.bench.FAMILIES`.
    sizes : sequence of {"small", "medium", "large"}
        How many rows.
    backends : sequence of str
        As in `arraylearn.set_backend`; a missing one raises `BackendUnavailableError`. "numpy" is NumPy
        alone, "compiled" NumPy with the bodies that Numba compiles.
    n_threads : sequence of int
        CPU threads for everyone, one run for each number.
    with_peers : bool
        Whether to time the peers that are installed.
    clock : {"wall", "cpu"}
        "cpu" counts the time on our own cores, for one thread on a machine that others use, too.
    only : str
        Cases whose name contains this text.
    turns : int, optional
        At most so many turns per case.
    tell : callable, optional
        Called with each result as it comes.
    keep : callable, optional
        Called after every case with the report so far, to write it down.

    Notes
    -----
    An interrupt (Ctrl-C) ends the run; the report holds what was done and says what was not.
    """
    stages = {name: find_stage(name) for name in backends}
    cases = [case for case in all_cases(tuple(families)) if only in case.name]
    unknown = [size for size in sizes if size not in SIZES]
    if unknown:
        raise ValueError(f"`size` must be 'small', 'medium' or 'large'; got {unknown[0]!r}.")
    asked = {name for case in cases for name in case.peers}
    if with_peers:
        missing = missing_peers()
        skipped = {name: f"not installed: {missing[name]}" for name in sorted(asked & set(missing))}
    else:
        skipped = {"peers": "not asked for"}
    here = installed_peers() if with_peers else frozenset()
    report = _new_report(clock, skipped)
    began = time.perf_counter()
    try:
        for n, case, size in itertools.product(n_threads, cases, sizes):
            with threads(n), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found = _run_case(case, size, n, stages, here, clock, turns)
                except Exception as error:  # one program that fails must not cost the results of all
                    skipped[f"{case.name}, {size}"] = f"failed: {type(error).__name__}: {error}"
                    continue
            report.results += found
            report.load_after, report.seconds = load(), round(time.perf_counter() - began, 1)
            for result in found:
                if tell is not None:
                    tell(result)
            if keep is not None:
                keep(report)
    except KeyboardInterrupt:
        skipped["what comes after the last result"] = "interrupted"
    return report


def _new_report(clock: str, skipped: dict[str, str]) -> Report:
    before = load()
    return Report(
        machine=describe_machine(),
        clock=clock,
        began=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        load_before=before,
        load_after=before,
        quiet=quiet(before),
        seconds=0.0,
        results=[],
        skipped=skipped,
    )


def _run_case(
    case: Case,
    size: Size,
    n_threads: int,
    stages: dict[str, Stage],
    here: frozenset[str],
    clock: str,
    turns: int | None,
) -> list[Result]:
    """Race ours on each backend with the peers that are here."""
    shape = case.shapes[size]
    contest = case.prepare(shape, n_threads)
    if case.host_only:
        stages = {"numpy": find_stage("numpy")}
    runs = {f"ours on {name}": stage.bring(contest.ours) for name, stage in stages.items()}
    runs |= {name: make() for name, make in contest.peers.items() if name in here}
    timed = race_turns(
        runs,
        turns=turns or TURNS[size],
        budget=BUDGET[size],
        clock=time.perf_counter if clock == "wall" else time.process_time,
    )
    n_rows = case.n_rows(shape)
    where = {f"ours on {name}": stage.place for name, stage in stages.items()}
    told = {
        name: _contestant(
            run, timed[name], where.get(name, HOST), n_rows, contest, contest.shares.get(name, 1)
        )
        for name, run in runs.items()
    }
    bar = case.bar_of(size)
    results = []
    for backend in stages:
        ours = told[f"ours on {backend}"]
        result = Result(
            case.family,
            case.name,
            size,
            *shape,
            n_threads,
            backend,
            case.quality,
            bar,
            {} if bar is None else {" or ".join(one.peers): one.least for one in BARS[bar].against},
            ours,
            peers={name: told[name] for name in runs if name not in where},
            ratios={
                name: Versus(*compare_turns(ours.turns, told[name].turns))
                for name in runs
                if name not in where
            },
        )
        results.append(result)
    return results


def _contestant(
    run: Run, turns: list[float], place: Place, n_rows: int, contest: Contest, share: float
) -> Contestant:
    gc.collect()
    with measure_peak(place) as peak:
        result = run()
    quality = None if contest.judge is None else contest.judge(result)
    whole = [seconds / share for seconds in turns]
    best = min(whole)
    return Contestant(
        best,
        whole,
        n_rows / best,
        peak.n_bytes,
        None if quality is None or math.isnan(quality) else quality,
    )


@dataclass
class Summary:
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
    is_its_size: bool  # whether the bar was set for these sizes

    @property
    def verdict(self) -> str:
        """Whether the bar is reached."""
        reached = "reached" if self.mean >= self.least else "MISSED"
        return reached if self.is_its_size else f"{reached.lower()} below its size"


def summarize(results: Sequence[Result]) -> list[Summary]:
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
        Summary(
            BARS[name].job,
            n_threads,
            backend,
            ", ".join(size for size in SIZES if any(one.size == size for one in found)),
            " or ".join(peer for peer in against.peers if any(peer in one.ratios for one in found)),
            len(found),
            geometric_mean(_slowest_lead(one, against) for one in found),
            against.least,
            against.goal,
            is_its_size,
        )
        for (name, n_threads, backend, against, is_its_size), found in groups.items()
    ]


def _slowest_lead(result: Result, against: Against) -> float:
    """Return the ratio to the fastest of the peers that ran."""
    return min(result.ratios[peer].ratio for peer in against.peers if peer in result.ratios)
