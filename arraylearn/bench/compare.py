"""Run cases: ours on every chosen backend and the peers, in alternating turns."""

from __future__ import annotations

import gc
import itertools
import math
import os
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from arraylearn.backend.costs import measure_peak
from arraylearn.backend.namespace import HOST, Place
from arraylearn.bench.case import SIZES, Case, Race, Run, Size
from arraylearn.bench.cases import all_cases
from arraylearn.bench.conditions import (
    Stage,
    describe_machine,
    find_stage,
    is_quiet,
    load_average,
    threads,
)
from arraylearn.bench.harness import compare_turns, race_turns
from arraylearn.bench.peers import installed_peers, missing_peers
from arraylearn.bench.results import BenchReport, Contestant, Result

__all__ = ["BenchOptions", "run_bench"]

# seconds of turns per case, after a first round that does not count
BUDGET: dict[Size, float] = {"small": 3.0, "medium": 15.0, "large": 60.0}
TURNS: dict[Size, int] = {"small": 5, "medium": 5, "large": 3}


class BenchOptions(NamedTuple):
    """How to run cases."""

    sizes: Sequence[Size] = ("small",)  # how many rows
    # as in `arraylearn.set_backend`; a missing one raises `BackendUnavailableError`. "numpy" is NumPy alone,
    # "compiled" NumPy with the bodies that Numba compiles
    backends: Sequence[str] = ("numpy",)
    n_threads: Sequence[int] = (1,)  # CPU threads of ours and of the peers, one run for each number
    with_peers: bool = True  # whether to time the peers that are installed
    clock: Literal["wall", "cpu"] = "wall"  # "cpu": processor time, for one thread on a busy machine
    only: str = ""  # cases whose name contains this text
    turns: int | None = None  # upper limit on the turns per case


def run_bench(
    families: Sequence[str] = (),
    options: BenchOptions = BenchOptions(),  # noqa: B008 (immutable)
    *,
    on_result: Callable[[Result], None] | None = None,
    on_case: Callable[[BenchReport], None] | None = None,
) -> BenchReport:
    """Time the cases of some families of `arraylearn.bench.FAMILIES` (default: all) and return a report.

    `on_result` is called with each result, `on_case` after every case with the report so far, to write it to
    a file. An interrupt (Ctrl-C) ends the run; the report holds the finished cases and names the interrupt
    under `skipped`.
    """
    stages = {name: find_stage(name) for name in options.backends}
    cases = [case for case in all_cases(tuple(families)) if options.only in case.name]
    unknown = [size for size in options.sizes if size not in SIZES]
    if unknown:
        raise ValueError(f"`size` must be 'small', 'medium' or 'large'; got {unknown[0]!r}.")
    installed = installed_peers() if options.with_peers else frozenset()
    report = _new_report(options.clock, _skipped_peers(cases, options.with_peers))
    began = time.perf_counter()
    try:
        for n, case, size in itertools.product(options.n_threads, cases, options.sizes):
            if size not in case.shapes:
                continue
            with threads(n), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found = _run_case(case, size, n, stages, installed, options)
                except Exception as error:  # a program that fails must not cost the results of the others
                    report.skipped[f"{case.name}, {size}"] = f"failed: {type(error).__name__}: {error}"
                    continue
            report.results += found
            report.load_after, report.seconds = load_average(), round(time.perf_counter() - began, 1)
            if on_result is not None:
                for result in found:
                    on_result(result)
            if on_case is not None:
                on_case(report)
    except KeyboardInterrupt:
        report.skipped["what comes after the last result"] = "interrupted"
    return report


def _skipped_peers(cases: Sequence[Case], with_peers: bool) -> dict[str, str]:
    """Return the peers that these cases will go without, with the reason."""
    if not with_peers:
        return {"peers": "not asked for"}
    missing = missing_peers()
    wanted = {name for case in cases for name in case.peers}
    return {name: f"not installed: {missing[name]}" for name in sorted(wanted & set(missing))}


def _new_report(clock: str, skipped: dict[str, str]) -> BenchReport:
    before = load_average()
    return BenchReport(
        machine=describe_machine(),
        clock=clock,
        began=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        load_before=before,
        load_after=before,
        quiet=is_quiet(before),
        seconds=0.0,
        results=[],
        skipped=skipped,
    )


def _run_case(
    case: Case,
    size: Size,
    n_threads: int,
    stages: dict[str, Stage],
    installed: frozenset[str],
    options: BenchOptions,
) -> list[Result]:
    """Time ours on each backend and the installed peers in alternating turns."""
    shape = case.shapes[size]
    race = case.prepare(shape, n_threads)
    if case.host_only:
        stages = {"numpy": find_stage("numpy")}
    runs = {f"ours on {name}": stage.bring(race.ours) for name, stage in stages.items()}
    runs |= {name: make() for name, make in race.peers.items() if name in installed}
    timed = race_turns(
        runs,
        turns=options.turns or TURNS[size],
        budget=BUDGET[size],
        clock=time.perf_counter if options.clock == "wall" else _processor_seconds,
    )
    n_rows = case.n_rows(shape)
    where = {f"ours on {name}": stage.place for name, stage in stages.items()}
    figures = {}
    for name, run in runs.items():
        turns = [seconds / race.shares.get(name, 1) for seconds in timed[name]]
        figures[name] = _contestant(race, run, turns, where.get(name, HOST), n_rows)
    n_turns = len(next(iter(timed.values())))
    for name, seconds in race.recorded.items():
        figures[name] = Contestant(seconds, [seconds] * n_turns, n_rows / seconds, 0, None)
    peers = {name: one for name, one in figures.items() if name not in where}
    about = (case.family, case.name, size, *shape, n_threads)
    results = []
    for backend in stages:
        ours = figures[f"ours on {backend}"]
        ratios = {name: compare_turns(ours.turns, one.turns) for name, one in peers.items()}
        bars = list(case.bars)
        results.append(Result(*about, backend, race.input_bytes, case.quality, bars, ours, peers, ratios))
    return results


def _processor_seconds() -> float:
    """Return the processor time of this process and of the processes that it has started."""
    spent = os.times()
    return time.process_time() + spent.children_user + spent.children_system


def _contestant(race: Race, run: Run, turns: list[float], place: Place, n_rows: int) -> Contestant:
    gc.collect()
    with measure_peak(place) as peak:
        result = run()
    quality = None if race.judge is None else race.judge(result)
    best = min(turns)
    return Contestant(
        best, turns, n_rows / best, peak.n_bytes, None if quality is None or math.isnan(quality) else quality
    )
