"""Throughput on your own machine, beside the peers that are installed: ``arraylearn bench``.

`cases` declares what is measured and `bars` what it should reach; `harness` times, `compare` runs the cases,
`results` holds the figures, and `show` turns them into tables (`arraylearn.plot` draws them). `cost_slopes`
fits how time and memory grow with rows, columns and classes.
"""

from arraylearn.bench.cases import FAMILIES, all_cases
from arraylearn.bench.compare import BenchOptions, run_bench
from arraylearn.bench.results import BenchReport

__all__ = ["FAMILIES", "BenchOptions", "BenchReport", "all_cases", "run_bench"]
