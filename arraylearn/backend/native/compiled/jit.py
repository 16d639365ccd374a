"""Numba's compiler as this room uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

__all__ = ["compiled", "compiled_loosely"]

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function at its first call, for the types of its arguments, and keep the result on disk.

    The interpreter lock is released. No fast mathematics: sums keep their order and products their rounding,
    so that the bits are those of the portable bodies. Indices are not checked and must not be negative
    unless the code means them to wrap around.
    """
    return cast(Function, numba.njit(nogil=True, cache=True, error_model="numpy")(function))


def compiled_loosely(function: Function) -> Function:
    """Compile a function whose last bits do not matter, so that its sums and maxima run in vectors.

    Infinite values are fine, NaN is not.
    """
    loose = {"nnan", "nsz", "reassoc", "contract", "arcp"}
    return cast(Function, numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=loose)(function))
