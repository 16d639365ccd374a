"""Scratch memory: one buffer for any array, and buffers that a repeated call keeps."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from arraylearn._typing import Array, Device, Namespace
from arraylearn.backend.memory import get_memory_budget
from arraylearn.backend.namespace import library_name

__all__ = ["KeptBuffers", "scratch"]

Host = np.ndarray[Any, Any]


def scratch(xp: Namespace, shape: tuple[int, ...], dtype: Any, device: Device) -> Array:
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


class KeptBuffers:
    """The buffers of a call that is repeated: made by the first one, and anew where their sizes change."""

    def __init__(self) -> None:
        self._sizes: tuple[int, ...] | None = None
        self._buffers: tuple[Any, ...] = ()

    def get(
        self, sizes: tuple[int, ...], make: Callable[[tuple[int, ...]], tuple[Any, ...]]
    ) -> tuple[Any, ...]:
        """Return the buffers of these sizes, or let `make` make them."""
        if self._sizes != sizes:
            self._sizes, self._buffers = sizes, make(sizes)
        return self._buffers

    def replace(self, *buffers: Any) -> None:
        """Keep other buffers under the same sizes: larger ones, since those were too small."""
        self._buffers = buffers


class _Buffer:
    """A buffer that serves one array, with all its views, at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memory: Host = np.empty(0, dtype=np.uint8)
        self._is_lent: weakref.ref[Host] | None = None

    def lend(self, n_bytes: int) -> Host | None:
        """Return `n_bytes` of the buffer, which grows if need be, or None while it is in use."""
        with self._lock:
            if self._is_lent is not None and self._is_lent() is not None:
                return None
            if self._memory.nbytes < n_bytes:
                self._memory = np.empty(n_bytes, dtype=np.uint8)
            # Not a view of the array: NumPy's views would refer to `_memory`. Views of what comes from a
            # memoryview refer to `lent`, which so lives as long as the last of them.
            lent: Host = np.frombuffer(self._memory.data[:n_bytes], dtype=np.uint8)
            self._is_lent = weakref.ref(lent)
            return lent


_buffer = _Buffer()
