"""Several small results to the host in one copy."""

from __future__ import annotations

import math
from typing import Any

from arraylearn._typing import Array
from arraylearn.backend.namespace import Place, accumulator_dtype, to_host

__all__ = ["copy_together", "read_together"]


def read_together(place: Place, *arrays: Array) -> list[Any]:
    """Copy arrays to the host, where NumPy holds them; on a GPU this is one sync.

    Integers and booleans travel as numbers of the accumulator's dtype: exact below 2**53, or 2**24 on a
    device without float64.
    """
    if place.library == "numpy":
        return list(arrays)
    dtype = accumulator_dtype(place)
    flat = [place.xp.reshape(place.xp.astype(array, dtype), (-1,)) for array in arrays]
    numbers = to_host(place.xp.concat(flat))
    parts, start = [], 0
    for array in arrays:
        stop = start + math.prod(array.shape)
        parts.append(numbers[start:stop].reshape(array.shape))
        start = stop
    return parts


def copy_together(place: Place, *arrays: Array) -> list[Any]:
    """Copy arrays of one place to the host in their own dtypes, as `read_together` does."""
    names = [str(array.dtype).rpartition(".")[2] for array in arrays]
    numbers = read_together(place, *arrays)
    return [part.astype(name, copy=False) for part, name in zip(numbers, names, strict=True)]
