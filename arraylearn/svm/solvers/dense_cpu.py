"""The body of `dense` for CPUs: compiled pair steps in many small problems, which share kernel values.

Rows that are in the same problems form a part: of pairs of classes, each class is one. The matrix is divided
into the blocks between parts, and each block on or above the diagonal is computed once, for all problems::

            class 0   class 1   class 2
    class 0   00        01        02        pair (0, 2) reads 00, 02 and 22
    class 1             11        12        pair (1, 2) reads 11, 12 and 22
    class 2                       22
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from arraylearn._typing import Dtype, HostArray
from arraylearn.backend.memory import scratch
from arraylearn.backend.namespace import HOST
from arraylearn.backend.threads import even_portions, parallel_map
from arraylearn.svm.solvers.dual import DualProblem, DualSolution, KernelMatrix, Settings, refuse_nan
from arraylearn.svm.solvers.pair_loops_cpu import Blocks, Programs, climb_each

__all__ = ["climb_together"]

_ROWS_PER_PART = 16  # smaller parts are not worth the calls that compute their blocks
_SAMPLED = 64  # rows on which the rounding of float32 is measured
_CERTAIN = 0.1  # the share of the tolerance by which rounding may change a gradient
_CELLS_PER_THREAD = 2_000_000  # of problems whose solution takes a thread about a millisecond


class _Parts(NamedTuple):
    """How the rows of a matrix are divided into t parts, and which of these p problems take."""

    order: HostArray  # the rows of the parts, one part after the other
    sizes: HostArray  # (t,): rows of each part
    place: HostArray  # for the members of all problems: their places where each problem's parts are in order
    taken: HostArray  # the parts that each problem takes, ascending
    taken_starts: HostArray  # (p + 1,): where those of each begin in `taken`

    @property
    def n_cells(self) -> int:
        """Number of values in the blocks on and above the diagonal."""
        return int((self.sizes * self.sizes[::-1].cumsum()[::-1]).sum())


def climb_together(
    matrix: KernelMatrix, members: Sequence[HostArray], problems: Sequence[DualProblem], settings: Settings
) -> list[DualSolution]:
    """Take pair steps in each problem, up to the limit of the settings; see `dense.solve_dense`.

    Kernel values are float32 first. A problem whose gap these leave uncertain goes on in float64: the errors
    of a gradient's terms are independent, so that it is off by about one of them times the length of the
    multipliers.
    """
    error = _rounding_error(matrix)
    largest = max(float((problem.upper - problem.lower).max()) for problem in problems)
    if error * largest > _CERTAIN * settings.tol:
        return _climb(matrix, members, problems, settings, np.float64)
    found = _climb(matrix, members, problems, settings, np.float32)
    doubtful = [
        k
        for k, solution in enumerate(found)
        if error * math.sqrt(float(solution.beta @ solution.beta)) > _CERTAIN * settings.tol
    ]
    if doubtful:
        some = [problems[k]._replace(start=found[k].beta) for k in doubtful]
        again = _climb(matrix, [members[k] for k in doubtful], some, settings, np.float64)
        for k, solution in zip(doubtful, again, strict=True):
            found[k] = solution._replace(n_iter=found[k].n_iter + solution.n_iter)
    return found


def _rounding_error(matrix: KernelMatrix) -> float:
    """Return the largest error of float32 kernel values between a few rows."""
    sampled = matrix.subset(np.arange(0, matrix.n, max(1, matrix.n // _SAMPLED)))
    exact, rounded = (
        sampled.of_dtype(dtype).rows(np.arange(sampled.n)) for dtype in (np.float64, np.float32)
    )
    return float(np.abs(exact - rounded).max())


def _find_parts(n: int, members: Sequence[HostArray]) -> _Parts | None:
    """Find the rows that are in the same problems; None where the parts are too small to be worth it."""
    rng = np.random.default_rng(0)
    signature = np.zeros(n, dtype=np.uint64)  # of each row: the sum of random numbers of its problems
    for idx, mark in zip(members, rng.integers(1, 2**63, len(members), dtype=np.uint64), strict=True):
        signature[idx] += mark
    _, part_of, sizes = np.unique(signature, return_inverse=True, return_counts=True)
    t, p = sizes.shape[0], len(members)
    if p > 1 and t * _ROWS_PER_PART > n:
        return None
    problem = np.arange(p).repeat([idx.shape[0] for idx in members])
    key = problem * t + part_of[np.concatenate(members)]
    place = key.argsort(kind="stable")
    ordered = key[place]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    used = ordered[begins]
    if (np.diff(begins, append=key.shape[0]) != sizes[used % t]).any():  # two sums are equal by chance
        return None
    starts = used.searchsorted(np.arange(p + 1) * t)
    return _Parts(part_of.argsort(kind="stable"), sizes, place, used % t, starts)


def _fill_blocks(matrix: KernelMatrix, parts: _Parts, dtype: Dtype) -> Blocks:
    """Compute the blocks on and above the diagonal, those of a part's rows side by side."""
    stops = parts.sizes.cumsum()
    starts = stops - parts.sizes
    widths = stops[-1] - starts
    offsets = (parts.sizes * widths).cumsum() - parts.sizes * widths
    if len(starts) == 1:
        values = matrix.of_dtype(dtype).between(slice(None), slice(None)).reshape(-1)
    else:
        values = scratch(HOST.xp, (parts.n_cells,), dtype, matrix.place.device)
        ordered = matrix.of_dtype(dtype).subset(parts.order)
        for start, stop, at in zip(starts.tolist(), stops.tolist(), offsets.tolist(), strict=True):
            strip = ordered.between(slice(start, stop), slice(start, None))
            values[at : at + strip.size] = strip.reshape(-1)
    first = (offsets - starts)[:, None] + starts
    return Blocks(values, first, np.broadcast_to(widths[:, None], first.shape).copy(), parts.sizes)


def _climb(
    matrix: KernelMatrix,
    members: Sequence[HostArray],
    problems: Sequence[DualProblem],
    settings: Settings,
    dtype: Dtype,
) -> list[DualSolution]:
    """Take pair steps with kernel values of one dtype, on blocks that the problems share where that pays."""
    parts = _find_parts(matrix.n, members)
    n_own = sum(idx.shape[0] ** 2 for idx in members)
    n_allowed = min(n_own, settings.cache_bytes // np.dtype(dtype).itemsize)
    if parts is not None and (len(members) == 1 or parts.n_cells <= n_allowed):
        return _climb_shared(_fill_blocks(matrix, parts, dtype), parts, problems, settings)
    own = [(matrix.subset(idx), problem) for idx, problem in zip(members, problems, strict=True)]
    return parallel_map(lambda one: _climb(one[0], [one[0].all_rows()], [one[1]], settings, dtype)[0], own)


def _climb_shared(
    blocks: Blocks, parts: _Parts, problems: Sequence[DualProblem], settings: Settings
) -> list[DualSolution]:
    """Take pair steps on blocks, several problems in one call."""
    sizes = np.asarray([problem.linear.shape[0] for problem in problems])
    starts = np.asarray([0, *sizes.cumsum()])
    linear, lower, upper, start = (np.concatenate(part)[parts.place] for part in zip(*problems, strict=True))
    programs = Programs(
        starts,
        parts.taken,
        parts.taken_starts,
        lower,
        upper,
        base=np.zeros_like(start),
        gradient=linear,
        point=start,
        n_steps=np.zeros_like(sizes),
    )
    portions = even_portions(len(problems), len(problems) * _CELLS_PER_THREAD // int((sizes**2).sum()))
    # without a step, the gradient is brought up to date with the start
    for most in ([0] if start.any() else []) + [settings.step_limit(int(sizes.max()))]:
        parallel_map(partial(_run, blocks, programs, float(settings.tol), most), portions)
    return _solutions(parts, programs, settings)


def _run(blocks: Blocks, programs: Programs, tol: float, max_steps: int, some: tuple[int, int]) -> None:
    climb_each(blocks, programs, *some, tol, max_steps)


def _solutions(parts: _Parts, programs: Programs, settings: Settings) -> list[DualSolution]:
    """Measure the gaps, and bring the members back into their order."""
    _, _, _, lower, upper, _, gradient, point, n_steps = programs
    starts = programs.starts.tolist()
    highest = np.maximum.reduceat(np.where(point < upper, gradient, -np.inf), starts[:-1])
    lowest = np.minimum.reduceat(np.where(point > lower, gradient, np.inf), starts[:-1])
    gaps = (highest - lowest).tolist()
    refuse_nan(*gaps)
    if settings.report is not None:
        settings.report(int(n_steps.sum()), max(gaps))
    beta, slope = np.empty_like(point), np.empty_like(gradient)
    beta[parts.place], slope[parts.place] = point, gradient
    return [
        DualSolution(beta[a:b], slope[a:b], gap, n, gap <= settings.tol)
        for (a, b), gap, n in zip(pairwise(starts), gaps, n_steps.tolist(), strict=True)
    ]
