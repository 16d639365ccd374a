"""CPU threads for the NumPy bodies: pieces of work side by side, and a BLAS of one thread inside each."""

from __future__ import annotations

import _thread
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import copy_context
from functools import cache
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, SupportsIndex, TypeVar

from threadpoolctl import ThreadpoolController, threadpool_limits

from arraylearn._typing import Namespace
from arraylearn.backend.dispatch import get_tuning
from arraylearn.backend.namespace import library_name

__all__ = [
    "available_cores",
    "check_jobs",
    "even_portions",
    "free_threads",
    "get_num_threads",
    "limited_threads",
    "map_apart",
    "one_thread_per_product",
    "parallel_blocks",
    "parallel_map",
    "quota_cores",
    "run_jobs",
    "run_to_the_end",
    "same_threads",
    "set_num_threads",
    "small_products",
]

Item = TypeVar("Item")
Result = TypeVar("Result")

# Seconds after which a thread that waits for another looks whether it is interrupted.
_PATIENCE = 0.1
_lock = threading.Lock()
_num_threads: int | None = None
_pool: ThreadPoolExecutor | None = None
_inside = threading.local()
_blas_lock = threading.Lock()
_blas_users = 0
_blas_limit: Any = None


def set_num_threads(n: SupportsIndex | None) -> None:
    """Set how many CPU threads the NumPy bodies use.

    Parameters
    ----------
    n : int or None
        At least 1; None means all cores this process may use, by its affinity and the CPU quota of its
        container (the default; also the environment variable ``ARRAYLEARN_NUM_THREADS``).
    """
    global _num_threads, _pool
    is_integer = isinstance(n, SupportsIndex) and not isinstance(n, bool)
    if n is not None and not (is_integer and int(n) >= 1):
        raise ValueError(f"`n` must be an integer of at least 1, or None for all cores; got {n!r}.")
    with _lock:
        _num_threads = None if n is None else int(n)
        _pool = None  # its threads end with the last call that uses it


def get_num_threads() -> int:
    """Return how many CPU threads the NumPy bodies use."""
    limit = getattr(_inside, "limit", None)
    return _all_threads() if limit is None else int(limit)


def _all_threads() -> int:
    if _num_threads is not None:
        return _num_threads
    stated = os.environ.get("ARRAYLEARN_NUM_THREADS", "")
    return int(stated) if stated.isdigit() and int(stated) > 0 else available_cores()


def free_threads() -> int:
    """Return how many threads may share the caller's work, itself included: one inside a worker."""
    return 1 if getattr(_inside, "worker", False) else get_num_threads()


def check_jobs(n_jobs: Any) -> None:
    """Raise unless `n_jobs` is a number of threads for `limited_threads`."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(
            f"`n_jobs` must be None, a positive number of threads, or -1 for all of them; got {n_jobs!r}."
        )


@contextmanager
def limited_threads(n_jobs: Any) -> Iterator[None]:
    """Let the calling thread share its work among `n_jobs` threads in the block: -1 all, -2 all but one, ...

    None: as many as before.
    """
    check_jobs(n_jobs)
    before = getattr(_inside, "limit", None)
    if n_jobs is not None:
        _inside.limit = max(1, _all_threads() + 1 + int(n_jobs) if n_jobs < 0 else int(n_jobs))
    try:
        yield
    finally:
        _inside.limit = before


@contextmanager
def same_threads(n: int) -> Iterator[None]:
    """Give our own pool, BLAS, OpenMP and torch (where it is loaded) `n` CPU threads each, in the block."""
    before, torch = _num_threads, sys.modules.get("torch")
    torch_before = torch.get_num_threads() if torch is not None else 0
    set_num_threads(n)
    try:
        with threadpool_limits(limits=n):
            if torch is not None:
                torch.set_num_threads(n)
            yield
    finally:
        set_num_threads(before)
        if torch is not None:
            torch.set_num_threads(torch_before)


def available_cores() -> int:
    """Count the cores this process may keep busy: by its affinity, and by the CPU quota of its container."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(n, quota_cores() or n)


@cache
def quota_cores() -> int | None:
    """Return how many cores the CPU quota of the container is worth, rounded up; None where there is none.

    Linux alone has quotas, in control groups of version 2 or 1.
    """
    root = Path("/sys/fs/cgroup")  # where a container sees its own limits
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with suppress(OSError, ValueError):  # ValueError: the quota is "max"
            quota, period = map(int, " ".join((root / name).read_text() for name in names).split())
            return -(-quota // period) if quota > 0 and period > 0 else None
    return None


def run_to_the_end(work: Callable[[], Result]) -> Result:
    """Run work that must not stop half-way: Ctrl-C ends the call at once, and the work goes on in a thread.

    Python raises signals in the main thread. Interrupting an import or a compilation of Numba would leave it
    broken for the rest of the process.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    found: list[Result] = []
    errors: list[BaseException] = []
    context, is_running = copy_context(), _thread.allocate_lock()

    def run() -> None:
        try:
            found.append(context.run(work))
        except BaseException as error:
            errors.append(error)
        finally:
            is_running.release()

    is_running.acquire()
    # `threading` has locks of its own, which an interruption may leave locked
    _thread.start_new_thread(run, ())
    while not is_running.acquire(timeout=_PATIENCE):  # a signal just before the wait would not end it
        pass
    if errors:
        raise errors[0]
    return found[0]


def parallel_map(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Apply `function` to each item, on several threads where that is allowed; results keep their order.

    A call from inside a worker runs in that worker: if all workers waited for others, none would compute.
    """
    return list(_map(function, items))


def _map(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    work = list(items)
    if len(work) < 2 or free_threads() == 1:
        yield from map(function, work)
    elif getattr(_inside, "limit", None) is not None:
        with ThreadPoolExecutor(get_num_threads(), "arraylearn", initializer=_mark_worker) as pool:
            yield from pool.map(function, work)
    else:
        yield from _executor().map(function, work)


def map_apart(xp: Namespace, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Apply `function`, which computes with arrays of `xp` and changes nothing else, to each item.

    With NumPy the items are shared among our threads; the other libraries have threads or streams of their
    own and get the items one after the other. Results keep their order, and come as soon as they are there.
    """
    return _map(function, items) if library_name(xp) == "numpy" else map(function, items)


def even_portions(n: int, least: int) -> list[tuple[int, int]]:
    """Cut ``range(n)`` into a portion per thread, fewer where one would be smaller than `least`."""
    least = max(1, int(get_tuning().thread_share * least))
    parts = min(get_num_threads(), n // least) if n >= 2 * least else 1
    return list(pairwise(n * i // parts for i in range(parts + 1)))


def run_jobs(jobs: Iterable[Callable[[int], Iterable[Any]]], n_threads: int) -> None:
    """Run jobs, which return further jobs, in up to `n_threads` threads.

    A job is called with the number of its thread. Each thread takes the next job as soon as it is free. An
    error in a job ends the others at their next job, and is raised here.
    """
    n_threads = min(n_threads, free_threads())
    queue: SimpleQueue[Callable[[int], Iterable[Any]] | None] = SimpleQueue()
    lock = threading.Lock()
    open_jobs = 0
    for job in jobs:
        queue.put(job)
        open_jobs += 1
    if not open_jobs:
        return

    def work(thread: int) -> None:
        nonlocal open_jobs
        while (job := queue.get()) is not None:
            try:
                more = list(job(thread))
            except BaseException:
                _end(queue, n_threads)
                raise
            with lock:
                open_jobs += len(more) - 1
                is_over = open_jobs == 0
            for one in more:
                queue.put(one)
            if is_over:
                _end(queue, n_threads)

    others = [_executor().submit(work, thread) for thread in range(1, n_threads)]
    try:
        work(0)
    finally:
        _end(queue, n_threads)
        for other in others:
            if not other.cancel():
                other.result()


def _end(queue: SimpleQueue[Any], n_threads: int) -> None:
    """Let every thread end; jobs that are put later are not run."""
    while not queue.empty():
        with suppress(Empty):
            queue.get_nowait()
    for _ in range(n_threads):
        queue.put(None)


def _executor() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(_all_threads(), "arraylearn", initializer=_mark_worker)
        return _pool


def _mark_worker() -> None:
    _inside.worker = True


def _forget_pool() -> None:
    """Drop the pool in a forked child, and locks that were held: a fork copies no threads."""
    global _pool, _lock, _blas_lock
    _lock, _blas_lock = threading.Lock(), threading.Lock()
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


# ---- matrix products


def small_products(xp: Namespace) -> AbstractContextManager[None]:
    """Mark a block whose matrix products are too small to be shared among threads of the BLAS."""
    return one_thread_per_product() if library_name(xp) == "numpy" else nullcontext()


def parallel_blocks(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Apply `function`, which multiplies matrices, to each item as `parallel_map` does.

    With threads of the BLAS inside each of ours there would be more threads than cores, which was measured
    ten times slower than one thread alone.
    """
    work = list(items)
    if len(work) < 2 or get_num_threads() == 1:
        return [function(item) for item in work]
    with one_thread_per_product():
        return parallel_map(function, work)


@contextmanager
def one_thread_per_product() -> Iterator[None]:
    """Hold the BLAS of NumPy at one thread, for the whole process, until the last user leaves."""
    global _blas_users, _blas_limit
    with _blas_lock:
        if _blas_users == 0:
            _blas_limit = _controller().limit(limits=1)
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                _blas_limit.restore_original_limits()
                _blas_limit = None


@cache
def _controller() -> Any:
    return ThreadpoolController().select(user_api="blas")
