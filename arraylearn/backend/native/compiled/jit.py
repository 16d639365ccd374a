"""Numba's compiler as this room uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

__all__ = ["compiled", "compiled_part"]

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function at its first call, for the types of its arguments, and keep the result on disk.

    The interpreter lock is released. No fast mathematics: sums keep their order and products their rounding,
    so that the bits are those of the portable bodies. Indices are not checked and must not be negative
    unless the code means them to wrap around.
    """
    return cast(Function, numba.njit(nogil=True, cache=True, error_model="numpy")(function))


def compiled_part(function: Function) -> Function:
    """Compile a function as `compiled` does, that others call often and that makes no arrays of its own.

    It does not count the references to the arrays that it is given, which would cost more than the work on
    ten rows: some twenty steps that other threads must see.
    """
    return cast(Function, numba.njit(nogil=True, cache=True, error_model="numpy", _nrt=False)(function))
