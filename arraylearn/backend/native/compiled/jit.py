"""Numba's compiler as this room uses it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np

__all__ = ["Host", "Whole", "compiled", "compiled_loosely", "compiled_part"]

Function = TypeVar("Function", bound=Callable[..., Any])
Host = np.ndarray[Any, Any]
Whole = Any  # a whole number, Python's or NumPy's


def _forget_stale(room: Path) -> None:
    """Delete what Numba kept of this room before its last change.

    Numba looks at the file of a function alone, but a compiled function holds copies of those it calls, which
    may stand in other files.
    """
    changed = max(source.stat().st_mtime for source in room.glob("*.py"))
    for kept in (room / "__pycache__").glob("*.nb[ci]"):
        with suppress(OSError):  # another process may be quicker, or the folder may not be ours
            if kept.stat().st_mtime < changed:
                kept.unlink()


_forget_stale(Path(__file__).parent)


def compiled(function: Function) -> Function:
    """Compile a function at its first call, for the types of its arguments, and keep the result on disk.

    The interpreter lock is released. No fast mathematics: sums keep their order and products their rounding,
    so that the bits are those of the portable bodies. Indices are not checked and must not be negative
    unless the code means them to wrap around.
    """
    return _compile(function)


def compiled_loosely(function: Function) -> Function:
    """Compile a function whose last bits do not matter, so that its sums and maxima run in vectors.

    Infinite values are fine, NaN is not.
    """
    loose = {"nnan", "nsz", "reassoc", "contract", "arcp"}
    return _compile(function, fastmath=loose)


def compiled_part(function: Function) -> Function:
    """Compile as `compiled` does a function that makes no arrays, for calls from other compiled functions.

    It does not count the references to the arrays that it is given: twenty counters that all threads must see
    cost as much as the work on ten rows.
    """
    return _compile(function, _nrt=False)


def _compile(function: Function, **options: Any) -> Function:
    options |= {"nogil": True, "error_model": "numpy"}
    try:
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # no folder that may be written: every process compiles for itself
        return cast(Function, numba.njit(**options)(function))
