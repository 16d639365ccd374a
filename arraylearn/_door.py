"""The door of the public array functions: find the library of the arguments once, bring them all there."""

from __future__ import annotations

from typing import Any

from arraylearn._typing import Array
from arraylearn.backend.namespace import HOST, Place, from_host, is_array, locate, move, native_float

__all__ = ["as_float", "bring", "find_place", "refuse"]


def find_place(*arguments: object) -> Place:
    """Return the place of the first argument that is an array; lists and scalars live on the host."""
    for argument in arguments:
        if is_array(argument):
            return locate(argument)
    return HOST


def bring(x: Any, place: Place, dtype: Any = None) -> Array:
    """Turn an argument (an array of any library, a list, a scalar) into an array at `place`."""
    if not is_array(x):
        return from_host(x, place, dtype)
    x = move(x, place)
    return x if dtype is None else place.xp.astype(x, dtype, copy=False)


def as_float(x: Any, place: Place) -> Array:
    """Bring numbers to `place` as floats: float32 and float64 stay, others become the widest float there."""
    x = bring(x, place)
    return place.xp.astype(x, native_float(x, place), copy=False)


def refuse(name: str, rule: str, got: object) -> ValueError:
    """Make the error for an argument that breaks a rule."""
    return ValueError(f"`{name}` {rule}; got {got}.")
