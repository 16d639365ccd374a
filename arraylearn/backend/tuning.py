"""Thresholds by which code paths are chosen: one record of defaults, and a context that changes them.

A field stands here if a test has to reach both sides of it; other constants stand beside their code. Models
are the same on both sides (support vector machines: within their tolerance).

>>> from arraylearn.backend.tuning import get_tuning, tuned
>>> with tuned(compiled_values=100):
...     get_tuning().compiled_values
100
>>> get_tuning().compiled_values
20000
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["Tuning", "get_tuning", "tuned"]


@dataclass(frozen=True)
class Tuning:
    """Thresholds of the package, with their defaults.

    Attributes
    ----------
    compiled_values : values of a call from which on "auto" runs compiled bodies: Numba is imported (0.3 s),
        and the first run on a machine also compiles
    thread_share : factor on the least work that a thread gets, which each body states for itself; 0 lets
        threads share whatever there is
    binning_sample : where there are more rows, quantiles are computed from so many of them; the time does not
        grow any further then
    binning_thread_values : values from which on columns are sorted and binned by several threads; below,
        starting them takes longer than the work
    forest_device_rows : rows of the trees that a GPU grows in one batch: a level takes the same launches for
        one tree as for a hundred
    forest_host_rows : the same on a CPU, level by level: the rows of a batch stay in the caches
    forest_depth_first_rows : the same on a CPU, depth first: batching gains nothing, but feeds the threads
    growth_thread_cells : rows x columns of a tree from which on a second thread helps to grow it: to hand
        work over takes 30 to 125 us
    list_thread_values : rows x columns of a node from which on a second thread helps to search its lists; a
        smaller node is no job of its own
    rule_counted_values : a numeric column with at most this many distinct values is counted by value; others
        are kept sorted
    rule_first_blocks : blocks of rows that the search of a literal looks into at first; usually the best
        threshold is in one of them
    svm_path_rows : mean rows of a pair of classes from which on a search over C follows one path along the
        prices; fewer are solved faster one by one
    svm_splitting_rows : up to this many rows all problems of a search over C are solved at once, by
        splitting, which is then faster than one path each on a CPU, too
    svm_refactor_cost : a new factor also serves the next sets of rows: it may cost this many times as much
        as a border of the old one
    walk_block_rows : rows that walk down one tree before the next one is fetched into the cache
    walk_thread_steps : steps of prediction (rows x trees x levels) that a thread must have, or starting it
        takes longer than it saves
    frame_libraries : libraries that read and write files of tables; the first one installed does it
    """

    compiled_values: int = 20_000
    thread_share: float = 1.0
    binning_sample: int = 200_000
    binning_thread_values: int = 50_000
    forest_device_rows: int = 2_000_000
    forest_host_rows: int = 25_000
    forest_depth_first_rows: int = 50_000
    growth_thread_cells: int = 1_000_000
    list_thread_values: int = 100_000
    rule_counted_values: int = 255
    rule_first_blocks: int = 128
    svm_path_rows: int = 500
    svm_splitting_rows: int = 700
    svm_refactor_cost: float = 2.0
    walk_block_rows: int = 65_536
    walk_thread_steps: int = 500_000
    frame_libraries: tuple[str, ...] = ("polars", "pyarrow", "pandas")


_tuning = Tuning()


def get_tuning() -> Tuning:
    """Return the thresholds in force; asked for at each call, never kept."""
    return _tuning


@contextmanager
def tuned(**changes: Any) -> Iterator[Tuning]:
    """Change thresholds, by their names, for a block of code; for all threads of this process."""
    global _tuning
    before = _tuning
    _tuning = replace(before, **changes)
    try:
        yield _tuning
    finally:
        _tuning = before
