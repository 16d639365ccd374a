"""The shipped harness (`arraylearn.bench`) under the names that the scripts beside this file use.

>>> from benchmarks.harness import race
>>> times = race({"ours": lambda: sum(range(100)), "bare": lambda: sum(range(100))}, turns=3)
>>> sorted(times)
['bare', 'ours']
"""

from __future__ import annotations

from collections.abc import Mapping

from arraylearn.bench.harness import compare_turns, geometric_mean, race, race_turns
from arraylearn.bench.machine import threads

__all__ = ["compare_turns", "geometric_mean", "race", "race_turns", "report", "threads"]


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
