"""Threads inside compiled loops that share jobs without going to sleep between them.

To wake a thread takes as long as to grow a level of a small tree. Here a leader writes down jobs that do not
depend on each other, and then takes them one after the other; assistants who are there take some of them.
Nobody waits for an assistant who has not come: the leader would do all jobs alone.

A desk is an int64 array. One cell holds the number of jobs and of those taken, which a thread reads and
raises at once: who has got a job knows that it is one of the present ones, since the leader waits for all.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from arraylearn.backend.cpu.jit import Host, compiled_part

__all__ = [
    "dismiss",
    "finish_job",
    "is_dismissed",
    "make_desk",
    "post_jobs",
    "rest",
    "take_job",
    "wait_for_jobs",
]

# Cells that lie in cache lines of their own: jobs and those taken, those done, whether there will be no more.
_JOBS, _DONE, _OVER = 0, 8, 16
_COUNT = 32  # bits of the number taken; above them is that of all
_PATIENCE = 10_000  # looks, some microseconds, before the processor is offered to others


def make_desk() -> Host:
    """Return a desk without jobs."""
    return np.zeros(24, dtype=np.int64)


def dismiss(desk: Host) -> None:
    """Send the assistants away."""
    desk[_OVER] = 1


@compiled_part
def is_dismissed(desk: Host) -> bool:
    return bool(_load(desk, _OVER) != 0)


@compiled_part
def post_jobs(desk: Host, n: int) -> None:
    """Offer the jobs 0 to `n` - 1: all that they need has been written down."""
    _store(desk, _DONE, 0)
    _store(desk, _JOBS, n << _COUNT)


@compiled_part
def take_job(desk: Host) -> int:
    """Return the number of a job that is now the caller's, or -1 if all are taken."""
    seen = _load(desk, _JOBS)
    if (seen & ((1 << _COUNT) - 1)) >= seen >> _COUNT:
        return -1
    seen = _raise(desk, _JOBS)
    job = seen & ((1 << _COUNT) - 1)
    return job if job < seen >> _COUNT else -1


@compiled_part
def finish_job(desk: Host) -> None:
    _raise(desk, _DONE)


@compiled_part
def wait_for_jobs(desk: Host, n: int) -> None:
    """Wait until all `n` jobs are done."""
    looks = 0
    while _load(desk, _DONE) < n:
        looks = rest(looks)


@compiled_part
def rest(looks: int) -> int:
    """Count looks at a desk where there was nothing to do; after many let other threads run."""
    if looks < _PATIENCE:
        return looks + 1
    _step_aside()
    return 0


@intrinsic  # type: ignore[untyped-decorator]
def _load(typing_context: Any, desk: Any, cell: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load_atomic(_address(context, builder, signature, values), "acquire", 8)

    return types.int64(desk, cell), generate


@intrinsic  # type: ignore[untyped-decorator]
def _store(typing_context: Any, desk: Any, cell: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        number = context.cast(builder, values[2], signature.args[2], types.int64)
        builder.store_atomic(number, _address(context, builder, signature, values), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(desk, cell, number), generate


@intrinsic  # type: ignore[untyped-decorator]
def _raise(typing_context: Any, desk: Any, cell: Any) -> Any:
    """Add 1 and return what was there before."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        one = ir.IntType(64)(1)
        return builder.atomic_rmw("add", _address(context, builder, signature, values), one, "seq_cst")

    return types.int64(desk, cell), generate


def _address(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    data = context.make_array(signature.args[0])(context, builder, values[0]).data
    return builder.gep(data, [context.cast(builder, values[1], signature.args[1], types.int64)])


@intrinsic  # type: ignore[untyped-decorator]
def _step_aside(typing_context: Any) -> Any:
    """Offer the processor to other threads, where the system has a name for that."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if sys.platform != "win32":
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), generate
