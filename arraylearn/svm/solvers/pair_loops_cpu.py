"""What Numba compiles for pair steps: `pairs_cpu.climb` on several programs, with loops for what NumPy calls.

Each loop does one thing to a small number of arrays: then the compiler makes vector code of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.cpu.intrinsics import larger
from arraylearn.backend.cpu.jit import Float, Int, compiled_loosely, loops_for, loose_part
from arraylearn.svm.solvers import pairs_cpu

__all__ = ["Blocks", "Programs", "climb_each"]


class Blocks(NamedTuple):
    """The blocks on and above the diagonal of a symmetric matrix, whose rows are divided into t parts."""

    values: HostArray  # the blocks
    first: HostArray  # (t, t): where block (q, u), q <= u, begins
    stride: HostArray  # (t, t): from one of its rows to the next
    sizes: HostArray  # (t,): rows of each part


class Programs(NamedTuple):
    """Several programs, one after the other; the coordinates of each are the rows of its parts, in order."""

    starts: HostArray  # (p + 1,): where each begins
    parts: HostArray  # the parts of the matrix that each is about, ascending
    part_starts: HostArray  # (p + 1,): where those of each begin in `parts`
    lower: HostArray
    upper: HostArray
    base: HostArray  # a point
    gradient: HostArray  # at `base`; after the steps, at the new point
    point: HostArray  # feasible; after the steps, the new one
    n_steps: HostArray  # (p,): pair steps taken


class RowSource(NamedTuple):
    """Where the rows of one program come from: they are put together when they are first needed.

    Of three parts, a program takes the first and the last. Its row r is read down a column of block (0, 2),
    and along a row of block (2, 2)::

        | 00  01  02 |         | 00   02 |
        |     11  12 |         | 02'  22 |   <- r
        |         22 |

    The rows of a program of one part are used where they are.
    """

    blocks: Blocks
    parts: HostArray  # (s,)
    starts: HostArray  # (s + 1,): where each part begins
    rows: HostArray  # (m, m)
    is_there: HostArray  # which rows are


@loops_for(pairs_cpu.fetch_row)
def _fetch_row(source: RowSource, i: int) -> None:
    if source.is_there[i]:
        return
    source.is_there[i] = True
    blocks, row, own = source.blocks, source.rows[i], 0
    while source.starts[own + 1] <= i:
        own += 1
    q, r = source.parts[own], i - source.starts[own]
    for s in range(source.parts.shape[0]):
        u, start, stop = source.parts[s], source.starts[s], source.starts[s + 1]
        if s >= own:
            at = blocks.first[q, u] + r * blocks.stride[q, u]
            stride = 1
        else:
            at, stride = blocks.first[u, q] + r, blocks.stride[u, q]
        for k in range(stop - start):
            row[start + k] = blocks.values[at + k * stride]


@loops_for(pairs_cpu.find_largest)
def _find_largest(values: HostArray) -> tuple[int, Float]:
    largest = values[0]
    for k in range(values.shape[0]):
        largest = larger(largest, values[k])
    return _place_of(largest, values), largest


@loose_part
def _place_of(wanted: Float, values: HostArray) -> Int:
    """Return the first place of a value; the last place if there is none."""
    last = values.shape[0] - 1
    at = last
    for k in range(values.shape[0]):
        at = min(at, k if values[k] == wanted else last)
    return at


@loops_for(pairs_cpu.find_smallest)
def _find_smallest(values: HostArray) -> Float:
    largest = -values[0]
    for k in range(values.shape[0]):
        largest = larger(largest, -values[k])
    return -largest


@loops_for(pairs_cpu.find_partner)
def _find_partner(
    i: int,
    highest: Float,
    falling: HostArray,
    row: HostArray,
    curvature: HostArray,
    floor: Float,
    scratch: HostArray,
) -> tuple[int, Float]:
    own, nothing = curvature[i], row.dtype.type(0)
    best = nothing
    for k in range(row.shape[0]):
        violation = larger(highest - falling[k], nothing)
        gain = violation * violation / larger(own + curvature[k] - (row[k] + row[k]), floor)
        scratch[k] = gain
        best = larger(best, gain)
    j = _place_of(best, scratch)
    bend = larger(own + curvature[j] - (row[j] + row[j]), floor)
    return j, np.float64((highest - falling[j]) / bend)


@loops_for(pairs_cpu.subtract_rows)
def _subtract_rows(
    row: HostArray, other: HostArray, step: float, slopes: tuple[HostArray, HostArray], scratch: HostArray
) -> None:
    rising, falling = slopes[0], slopes[1]
    size = row.dtype.type(step)
    for k in range(row.shape[0]):
        change = size * (row[k] - other[k])
        rising[k] -= change
        falling[k] -= change


@loose_part
def _move_gradient(source: RowSource, base: HostArray, point: HostArray, gradient: HostArray) -> None:
    """Bring the gradient at `base` up to date with `point`, and `base` itself."""
    m = base.shape[0]
    for i in range(m):
        move = point[i] - base[i]
        if move != 0:
            pairs_cpu.fetch_row(source, i)
            row = source.rows[i]
            for k in range(m):
                gradient[k] -= move * row[k]
        base[i] = point[i]


_climb = loose_part(pairs_cpu.climb)


@compiled_loosely
def climb_each(blocks: Blocks, programs: Programs, first: int, last: int, tol: float, max_steps: int) -> None:
    """Take up to `max_steps` pair steps in each of the programs from `first` up to `last`."""
    most, n_parts = 0, 0
    for p in range(first, last):
        most = max(most, programs.starts[p + 1] - programs.starts[p])
        n_parts = max(n_parts, programs.part_starts[p + 1] - programs.part_starts[p])
    dtype = blocks.values.dtype
    kept, is_there = np.empty(0 if n_parts == 1 else most * most, dtype), np.empty(most, np.bool_)
    starts = np.zeros(n_parts + 1, np.int64)
    diagonal, scratch = np.empty(most, dtype), np.empty(most, dtype)
    rising, falling = np.empty(most, dtype), np.empty(most, dtype)
    for p in range(first, last):
        a, b = programs.starts[p], programs.starts[p + 1]
        m = b - a
        parts = programs.parts[programs.part_starts[p] : programs.part_starts[p + 1]]
        for s in range(parts.shape[0]):
            q = parts[s]
            starts[s + 1] = starts[s] + blocks.sizes[q]
            for k in range(blocks.sizes[q]):
                diagonal[starts[s] + k] = blocks.values[blocks.first[q, q] + k * (blocks.stride[q, q] + 1)]
        where, at = (blocks.values, blocks.first[parts[0], parts[0]]) if parts.shape[0] == 1 else (kept, 0)
        rows = where[at : at + m * m].reshape((m, m))
        is_there[:] = parts.shape[0] == 1
        source = RowSource(blocks, parts, starts[: parts.shape[0] + 1], rows, is_there)
        lower, upper, point = programs.lower[a:b], programs.upper[a:b], programs.point[a:b]
        base, gradient = programs.base[a:b], programs.gradient[a:b]
        largest = 0.0
        for k in range(m):
            largest = max(largest, abs(diagonal[k]))
            rising[k] = gradient[k] if point[k] < upper[k] else -np.inf
            falling[k] = gradient[k] if point[k] > lower[k] else np.inf
        eps = np.finfo(dtype).eps
        floor = dtype.type(10 * eps * max(largest, eps))
        state = pairs_cpu.Climb(
            rows, source, diagonal[:m], floor, point, lower, upper, (rising[:m], falling[:m]), scratch[:m]
        )
        programs.n_steps[p] = _climb(state, tol, max_steps)
        _move_gradient(source, base, point, gradient)
