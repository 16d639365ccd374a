"""Working memory: a budget, chunks that fit it, smaller ones when a device runs out, buffers used again."""

from __future__ import annotations

import functools
import math
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, SupportsIndex, TypeVar, cast

import numpy as np

from arraylearn._typing import Array, Device, Dtype, HostArray, Namespace
from arraylearn.backend.errors import MemoryBudgetError
from arraylearn.backend.namespace import library_name

__all__ = [
    "get_memory_budget",
    "is_out_of_memory",
    "row_chunks",
    "scratch",
    "set_memory_budget",
    "with_smaller_chunks",
]

Function = TypeVar("Function", bound=Callable[..., Any])

_DEFAULT_BUDGET = 1 << 30
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_lock = threading.Lock()
_budget: int | None = None
# A smaller budget while work is repeated after an out-of-memory; local to the thread or task.
_reduced: ContextVar[int | None] = ContextVar("arraylearn_reduced_budget", default=None)
_HALVINGS = 5


def set_memory_budget(budget: SupportsIndex | str | None) -> None:
    """Set how much memory temporary arrays may take; larger work is done in chunks.

    Parameters
    ----------
    budget : int, str or None
        Bytes, or a text such as ``"512MB"`` or ``"2 GiB"`` (powers of two either way). None restores the
        default of 1 GiB, or the environment variable ``ARRAYLEARN_MEMORY_BUDGET``.

    Examples
    --------
    >>> import arraylearn as al
    >>> al.set_memory_budget("256MB")
    >>> al.get_memory_budget()
    268435456
    >>> al.set_memory_budget(None)
    """
    global _budget
    parsed = None if budget is None else _parse(budget)
    with _lock:
        _budget = parsed


def get_memory_budget() -> int:
    """Return the budget for temporary arrays, in bytes."""
    if (reduced := _reduced.get()) is not None:
        return reduced
    if _budget is not None:
        return _budget
    stated = os.environ.get("ARRAYLEARN_MEMORY_BUDGET")
    return _parse(stated) if stated else _DEFAULT_BUDGET


def _parse(budget: SupportsIndex | str) -> int:
    size = 0
    if isinstance(budget, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", budget, flags=re.IGNORECASE)
        size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    elif isinstance(budget, SupportsIndex) and not isinstance(budget, bool):
        size = int(budget)
    if size < 1:
        raise ValueError(f"`budget` must be a positive number of bytes or like '512MB'; got {budget!r}.")
    return size


def row_chunks(n_rows: int, bytes_per_row: int, *, most: int | None = None) -> Iterator[slice]:
    """Cut ``range(n_rows)`` into slices whose temporaries fit the budget (and `most` rows each)."""
    size = max(1, get_memory_budget() // max(1, bytes_per_row))
    size = max(1, min(size, most or n_rows, n_rows))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def with_smaller_chunks(function: Function, n_halvings: int = 0) -> Function:
    """Let a public function (or a method) repeat itself with smaller chunks when memory runs out.

    After a real out-of-memory it is called again with half the budget, a few times: everything that cuts its
    rows by `row_chunks` then takes smaller chunks. It must be safe to repeat. A failure with the smallest
    budget raises `MemoryBudgetError`. `n_halvings` is how often the budget is halved before the first call.
    """

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        budget = get_memory_budget()
        for n in range(n_halvings, _HALVINGS + 1):
            token = _reduced.set(max(1, budget >> n)) if n else None
            try:
                return function(*arguments, **options)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                reason = f"{type(error).__name__}: {error}"  # the error's traceback would keep arrays alive
            finally:
                if token is not None:
                    _reduced.reset(token)
        raise MemoryBudgetError(
            f"out of memory, even with temporaries cut down to {max(1, budget >> _HALVINGS)} bytes "
            f"({reason}). Free memory on the device, use fewer rows or columns, float32, or a smaller "
            "set_memory_budget."
        )

    return cast(Function, call)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception of an array library means that memory is exhausted."""
    if isinstance(error, MemoryBudgetError):
        return False
    # torch's and CuPy's classes are recognised by name, so that neither need be imported to ask; torch on the
    # CPU, and CuPy without its memory pool, raise a RuntimeError with these words
    by_name = type(error).__name__ == "OutOfMemoryError"
    words = ("can't allocate memory", "cudaErrorMemoryAllocation")
    by_words = isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    return isinstance(error, MemoryError) or by_name or by_words


# ---- buffers


def scratch(xp: Namespace, shape: tuple[int, ...], dtype: Dtype, device: Device) -> Array:
    """Return an array to be written before it is read, in memory that was used before where possible.

    The GPU libraries keep freed memory for the next array themselves. NumPy gives it back to the system, and
    touching fresh pages can cost more than the work done on them: for NumPy one buffer is kept (at most a
    quarter of the memory budget) and lent again as soon as no array uses it any more.
    """
    if library_name(xp) == "numpy":
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if 0 < n_bytes <= get_memory_budget() // 4 and (lent := _buffer.lend(n_bytes)) is not None:
            return lent.view(dtype).reshape(shape)
    return xp.empty(shape, dtype=dtype, device=device)


class _Buffer:
    """A buffer that serves one array, with all its views, at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memory: HostArray = np.empty(0, dtype=np.uint8)
        self._is_lent: weakref.ref[HostArray] | None = None

    def lend(self, n_bytes: int) -> HostArray | None:
        """Return `n_bytes` of the buffer, which grows if need be, or None while it is in use."""
        with self._lock:
            if self._is_lent is not None and self._is_lent() is not None:
                return None
            if self._memory.nbytes < n_bytes:
                self._memory = np.empty(n_bytes, dtype=np.uint8)
            # By way of a memoryview: the base of a plain view, and of its views, would be `_memory`. So it is
            # `lent`, which lives as long as the last of them and thereby shows whether the buffer is in use.
            lent: HostArray = np.frombuffer(self._memory.data[:n_bytes], dtype=np.uint8)
            self._is_lent = weakref.ref(lent)
            return lent


_buffer = _Buffer()
