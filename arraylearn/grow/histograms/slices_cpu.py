"""Several threads on one tree, in compiled growth on histograms.

Large nodes are processed in slices: each thread divides its own slice of the node's rows and counts it into
a table of its own; one thread adds up these tables and searches the cut. A node of no more than a thread's
share of the rows is gathered and becomes a job for one thread; large nodes below it become further jobs::

    slices      | thread 0     | thread 1     |      rows of the root
                | left | right | left | right |      after its cut
    gathered    | left, a job         | right, a job  |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.cpu.jit import Host, Int, entry
from arraylearn.backend.threads import parallel_map, run_jobs
from arraylearn.grow.histograms.best_cut_cpu import hand_on
from arraylearn.grow.histograms.records_cpu import (
    CHILD,
    CUT,
    GROW,
    NODE,
    NONE,
    NUMBER,
    TASK,
    Buffers,
    GrowthPlan,
    GrowthScratch,
    Newton,
    NodeSlots,
    RowOrder,
)
from arraylearn.grow.histograms.rows_cpu import count, divide

__all__ = ["grow_in_slices"]

Job = tuple[int, ...] | Host  # the numbers from NODE to SEED of a row of `GrowthScratch.jobs`
# Runs `grow_cpu._grow` for a job and a task; returns its result.
Run = Callable[[RowOrder, GrowthPlan, GrowthScratch, Job, int], int]


class _Sliced(NamedTuple):
    """A node whose rows lie in slices."""

    node: int
    first: int  # position of its first row once the slices are gathered
    depth: int
    table: int
    bounds: list[tuple[int, int]]  # of its rows in each slice

    @property
    def size(self) -> int:
        return sum(stop - first for first, stop in self.bounds)

    @property
    def job(self) -> tuple[int, ...]:
        return self.node, self.first, self.first + self.size, self.depth, self.table, 0, 0


def grow_in_slices(buffers: Buffers, plan: GrowthPlan, newton: Newton | None, m: int, run: Run) -> int:
    """Grow a tree whose m rows are laid out, and whose root is begun; return the number of its nodes."""
    n_threads, scratch = len(buffers.scratch), buffers.scratch[0]
    for t, own in enumerate(buffers.scratch):  # give every thread its own tables again
        n_tables = own.tables.shape[0]
        own.n_free[0] = n_tables // n_threads
        own.free[:] = (np.arange(n_tables) + t * own.n_free[0]) % n_tables
    bounds = [(m * t // n_threads, m * (t + 1) // n_threads) for t in range(n_threads)]
    table = _take_table(scratch)
    _count_slices(buffers, plan, NONE, bounds, False)
    np.sum(buffers.slices, axis=0, out=scratch.tables[table])
    large, jobs = [_Sliced(0, 0, 0, table, bounds)], []
    while large:
        node = large.pop()
        if node.size > m // n_threads and scratch.n_free[0] > 1:
            large += _split_sliced(buffers, plan, newton, node, run)
        else:
            jobs.append(node)
    jobs.sort(key=lambda job: -job.size)
    run_jobs([partial(_run_sliced, buffers, plan, run, job) for job in jobs], n_threads)
    return run(buffers.gathered, plan, scratch, (NONE,) * TASK, NUMBER)


def _take_table(scratch: GrowthScratch) -> int:
    scratch.n_free[0] -= 1
    return int(scratch.free[scratch.n_free[0]])


def _count_slices(
    buffers: Buffers, plan: GrowthPlan, node: int, bounds: list[tuple[int, int]], counts_left: bool
) -> list[int]:
    """Divide the slices of a node, count those of one child; return how many rows of each go left."""

    def advance(t: int) -> int:
        given = buffers.rows, plan, buffers.nodes, np.asarray((node, *bounds[t], counts_left))
        return int(_advance(*given, buffers.slices[t], buffers.scratch[t].here))

    return parallel_map(advance, range(len(bounds)))


def _split_sliced(
    buffers: Buffers, plan: GrowthPlan, newton: Newton | None, given: _Sliced, run: Run
) -> list[_Sliced]:
    """Split a node whose rows lie in slices; return its children, none if it stays a leaf."""
    nodes, scratch, (node, first, depth, table, bounds) = buffers.nodes, buffers.scratch[0], given
    if not run(buffers.rows, plan, scratch, given.job, CUT):
        _gather(buffers, given)
        scratch.free[scratch.n_free[0]] = table
        scratch.n_free[0] += 1
        return []
    left = scratch.side[1].copy()
    right = nodes.sums[node] - left
    counts_left = bool(left.sum() < right.sum())
    n_left = _count_slices(buffers, plan, node, bounds, counts_left)
    small, tables = _take_table(scratch), scratch.tables
    np.sum(buffers.slices, axis=0, out=tables[small])
    tables[table] -= tables[small]
    middle = first + sum(n_left)
    child = 2 * middle - 1
    nodes.ints[node, CHILD] = child
    both = []
    for side, (own, begin, sums) in enumerate(((child, first, left), (child + 1, middle, right))):
        halves = [(a + n, b) if side else (a, a + n) for (a, b), n in zip(bounds, n_left, strict=True)]
        own_table = small if counts_left == (side == 0) else table
        both.append(_Sliced(own, begin, depth + 1, own_table, halves))
        nodes.ints[own] = NONE, NONE, NONE, NONE, 0, begin, both[-1].size
        nodes.gain[own], nodes.sums[own] = 0, sums
    if plan.has_trend:
        _hand_on(plan, newton, nodes, node, child)
    return both


def _gather(buffers: Buffers, given: _Sliced) -> None:
    """Put the rows of a node side by side."""
    at = given.first
    for begin, end in given.bounds:
        target = slice(at, at + end - begin)
        buffers.gathered.order[target] = buffers.rows.order[begin:end]
        buffers.gathered.carry[target] = buffers.rows.carry[begin:end]
        at += end - begin


def _run_sliced(
    buffers: Buffers, plan: GrowthPlan, run: Run, given: _Sliced, thread: int
) -> list[Callable[[int], list[Any]]]:
    _gather(buffers, given)
    return _run_job(buffers, plan, run, given.job, thread)


def _run_job(
    buffers: Buffers, plan: GrowthPlan, run: Run, job: Job, thread: int
) -> list[Callable[[int], list[Any]]]:
    """Grow what is below a node; return the jobs that follow."""
    scratch = buffers.scratch[thread]
    n_jobs = run(buffers.gathered, plan, scratch, job, GROW)
    return [partial(_run_job, buffers, plan, run, row.copy()) for row in scratch.jobs[:n_jobs]]


@entry
def _advance(
    rows: RowOrder, plan: GrowthPlan, nodes: NodeSlots, job: Host, table: Host, here: Host | None
) -> Int:
    """Divide one slice of the rows of a node that was split, and count those of one child; return n_left.

    `job` has the node (NONE: there is no cut yet, all rows of the slice are counted), the first row, the end,
    and whether the left child is counted.
    """
    node, begin, end = job[NODE], job[1], job[2]
    n_left = np.int64(0)
    if node != NONE:
        n_left = divide(rows, plan, nodes, node, begin, end)
        begin, end = (begin, begin + n_left) if job[3] else (begin + n_left, end)
    count(rows, plan, begin, end, table, here)
    return n_left


@entry
def _hand_on(plan: GrowthPlan, newton: Newton | None, nodes: NodeSlots, node: Int, child: Int) -> None:
    hand_on(plan, newton, nodes, node, child)
