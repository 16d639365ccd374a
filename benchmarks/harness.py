"""Fair timings on a machine that wanders: contestants take turns in one process, the best turn counts.

>>> from benchmarks.harness import race
>>> times = race({"ours": lambda: sum(range(100)), "bare": lambda: sum(range(100))}, turns=3)
>>> sorted(times)
['bare', 'ours']
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_limits

import arraylearn as al

__all__ = ["race", "report", "threads"]


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Give the BLAS, OpenMP and our own pool `n` threads each."""
    al.set_num_threads(n)
    try:
        with threadpool_limits(limits=n):
            yield
    finally:
        al.set_num_threads(None)


def race(
    contestants: Mapping[str, Callable[[], Any]],
    *,
    turns: int = 5,
    budget: float = 60.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Run all contestants in turns and return the least time of each, in seconds.

    The order is reversed every other turn, so that none profits from its place; after `budget` seconds no
    new turn begins (there are at least two). ``clock=time.process_time`` counts the time on our cores only:
    for one thread each on a machine that others use, too.
    """
    names = list(contestants)
    best = dict.fromkeys(names, float("inf"))
    began = time.perf_counter()
    for turn in range(turns):
        if turn >= 2 and time.perf_counter() - began > budget:
            break
        for name in names if turn % 2 == 0 else reversed(names):
            gc.collect()
            gc.disable()
            start = clock()
            result = contestants[name]()
            elapsed = clock() - start
            gc.enable()
            del result
            best[name] = min(best[name], elapsed)
    return best


def report(title: str, times: Mapping[str, float], *, ours: str, bars: Mapping[str, float]) -> bool:
    """Print our time, each peer's and the ratio ours / peer; `bars` says what the ratio may be at most."""
    parts = [f"{ours} {times[ours] * 1e3:7.1f} ms"]
    is_met = True
    for peer, bar in bars.items():
        ratio = times[ours] / times[peer]
        is_met &= ratio <= bar
        parts.append(f"{peer} {times[peer] * 1e3:7.1f} ms, ratio {ratio:5.2f} (bar {bar:g})")
    print(f"{'ok  ' if is_met else 'MISS'} {title:44s} " + "; ".join(parts), flush=True)
    return is_met
