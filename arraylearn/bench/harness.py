"""Fair timings on a machine of varying speed: programs alternate in one process, and the best turn counts.

>>> from arraylearn.bench.harness import race_turns
>>> times = race_turns({"ours": lambda: sum(range(100)), "bare": lambda: sum(range(100))}, turns=1)
>>> sorted(times)
['bare', 'ours']
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

__all__ = ["Ratio", "compare_turns", "race_turns"]

_LEAST_TURN = 0.02  # seconds: shorter work is repeated within its turn
_MOST_REPEATS = 1000


def race_turns(
    contestants: Mapping[str, Callable[[], Any]],
    *,
    turns: int = 5,
    budget: float = 60.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Run all contestants in turns; return the seconds of one call, turn by turn.

    Each runs once untimed (imports, compiled kernels, caches). The order is reversed in every other turn, so
    that none profits from its position. There are two turns, unless the first takes longer than `budget`
    seconds, and further ones as long as they are expected to end within it. Work of less than 20 ms
    is repeated within its turn.
    """
    repeats = {}
    for name, run in contestants.items():
        start = time.perf_counter()
        run()
        repeats[name] = min(_MOST_REPEATS, math.ceil(_LEAST_TURN / (time.perf_counter() - start + 1e-9)))
    began = time.perf_counter()
    names = list(contestants)
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(turns):
        spent = time.perf_counter() - began
        if (turn == 1 and spent > budget) or (turn > 1 and spent / turn * (turn + 1) > budget):
            break
        for name in names if turn % 2 == 0 else reversed(names):
            found[name].append(_time(contestants[name], repeats[name], clock))
    return found


def _time(run: Callable[[], Any], n_repeats: int, clock: Callable[[], float]) -> float:
    gc.collect()
    gc.disable()
    try:
        start = clock()
        for _ in range(n_repeats):
            result = run()
        elapsed = clock() - start
    finally:
        gc.enable()
    del result
    return elapsed / n_repeats


@dataclass
class Ratio:
    """A peer's time over ours, with its spread over the turns."""

    ratio: float  # of the best turns of both: the figure to quote
    median: float  # of the turns, each a pair timed one after the other
    low: float
    high: float


def compare_turns(ours: list[float], peer: list[float]) -> Ratio:
    """Compare two contestants of one race.

    >>> compare_turns([1.0, 2.0], [4.0, 6.0])
    Ratio(ratio=4.0, median=3.5, low=3.0, high=4.0)
    """
    pairs = [theirs / mine for mine, theirs in zip(ours, peer, strict=True)]
    return Ratio(min(peer) / min(ours), median(pairs), min(pairs), max(pairs))
