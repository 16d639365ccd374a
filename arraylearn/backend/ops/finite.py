"""Whether a table holds numbers that may not be there."""

from __future__ import annotations

import math

from arraylearn._typing import Array, Namespace
from arraylearn.backend.native import native

__all__ = ["has_infinite"]


def has_infinite(xp: Namespace, x: Array, *, or_nan: bool = False, limit: float = math.inf) -> Array:
    """Say whether any value is infinite, or beyond a limit.

    Parameters
    ----------
    x : float array
        Values.
    or_nan : bool
        Whether NaN counts as well.
    limit : float
        The largest absolute value that is fine.

    Returns
    -------
    0-d bool array
        The host does not wait.
    """
    if fast := native(xp, "has_infinite"):
        return fast(x, or_nan, limit)
    if math.isfinite(limit):
        size = xp.abs(x)
        return xp.any(~(size <= limit)) if or_nan else xp.any(size > limit)
    return xp.any(~xp.isfinite(x)) if or_nan else xp.any(xp.isinf(x))
