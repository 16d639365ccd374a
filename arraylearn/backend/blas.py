"""How the host's threads are used: pieces of work side by side, and a BLAS of one thread inside each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from arraylearn._typing import Namespace
from arraylearn.backend.namespace import library_name
from arraylearn.backend.threads import get_num_threads, parallel_map

__all__ = ["map_apart", "one_thread_per_product", "parallel_blocks", "small_products"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_lock = threading.Lock()
_users = 0
_limit: Any = None


def map_apart(xp: Namespace, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Apply `function`, which computes with arrays of `xp` and changes nothing else, to each item.

    For NumPy by our threads; the other libraries bring threads or streams of their own, which get the items
    one after the other. Results keep their order.
    """
    if library_name(xp) == "numpy":
        return parallel_map(function, items)
    return [function(item) for item in items]


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
    global _users, _limit
    with _lock:
        if _users == 0:
            _limit = _controller().limit(limits=1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limit.restore_original_limits()
                _limit = None


@cache
def _controller() -> Any:
    return ThreadpoolController().select(user_api="blas")
