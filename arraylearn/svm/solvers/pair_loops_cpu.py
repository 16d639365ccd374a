"""What Numba compiles for pair steps: `pairs_cpu.climb`, with loops for its three functions on vectors.

Each loop does one thing to a small number of arrays: then the compiler makes vector code of it.
"""

from __future__ import annotations

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.cpu.jit import Float, compiled_loosely, loops_for
from arraylearn.svm.solvers import pairs_cpu

__all__ = ["climb"]

# The place of a maximum is looked for in the first group of so many values that holds it.
_GROUP = 64


@loops_for(pairs_cpu.find_largest)
def _find_largest(values: HostArray) -> tuple[int, Float]:
    n_rest = values.shape[0] % _GROUP
    start, largest = 0, values[0]
    for k in range(n_rest):
        largest = values[k] if values[k] > largest else largest
    for group in range(values.shape[0] // _GROUP):
        first = n_rest + group * _GROUP
        high = values[first]
        for k in range(first, first + _GROUP):
            high = values[k] if values[k] > high else high
        if high > largest:
            start, largest = first, high
    for k in range(start, values.shape[0]):
        if values[k] == largest:
            return k, largest
    return 0, largest


@loops_for(pairs_cpu.find_partner)
def _find_partner(
    i: int,
    highest: Float,
    falling: HostArray,
    rows: HostArray,
    curvature: HostArray,
    floor: Float,
    scratch: HostArray,
) -> tuple[int, Float]:
    row, own = rows[i], curvature[i]
    nothing = row.dtype.type(0)
    for k in range(row.shape[0]):
        violation = max(highest - falling[k], nothing)
        scratch[k] = violation * violation / max(own + curvature[k] - (row[k] + row[k]), floor)
    j, _ = pairs_cpu.find_largest(scratch)
    bend = max(own + curvature[j] - (row[j] + row[j]), floor)
    return j, np.float64((highest - falling[j]) / bend)


@loops_for(pairs_cpu.subtract_rows)
def _subtract_rows(
    row: HostArray, other: HostArray, step: float, slopes: HostArray, scratch: HostArray
) -> None:
    rising, falling = slopes[0], slopes[1]
    size = row.dtype.type(step)
    for k in range(row.shape[0]):
        change = size * (row[k] - other[k])
        rising[k] -= change
        falling[k] -= change


climb = compiled_loosely(pairs_cpu.climb)
