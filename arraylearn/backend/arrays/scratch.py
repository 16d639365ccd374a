"""Working memory that is asked for again and again."""

from __future__ import annotations

from typing import Any

from arraylearn._typing import Array, Device, Namespace
from arraylearn.backend.native import native

__all__ = ["scratch"]


def scratch(xp: Namespace, shape: tuple[int, ...], dtype: Any, device: Device) -> Array:
    """Return an array to be written before it is read, in memory that is warm where that can be had.

    The GPU libraries keep freed memory for the next array themselves. NumPy gives it back to the system, and
    touching fresh pages can cost more than the work done on them; its body keeps one block for the next call
    (at most a quarter of the memory budget) and lends it again once no array holds it any more.
    """
    if fast := native(xp, "scratch"):
        return fast(shape, dtype)
    return xp.empty(shape, dtype=dtype, device=device)
