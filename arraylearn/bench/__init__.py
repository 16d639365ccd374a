"""Throughput on your own machine, beside the peers that are installed: ``arraylearn bench``.

`cases` says what is measured, `bars` what it should reach, `harness` how it is timed, `run` does it, and
`show` turns the same results into a table, a page and, with `arraylearn.plot`, a chart. `growth` fits how
time and memory grow with rows, columns and classes.
"""

from arraylearn.bench.cases import FAMILIES, all_cases
from arraylearn.bench.run import Report, run_bench

__all__ = ["FAMILIES", "Report", "all_cases", "run_bench"]
