"""Whether a table holds numbers that may not be there."""

from __future__ import annotations

from arraylearn._typing import Array, Namespace
from arraylearn.backend.native import native

__all__ = ["has_infinite"]


def has_infinite(xp: Namespace, x: Array, *, or_nan: bool = False) -> Array:
    """Say whether any value is infinite.

    Parameters
    ----------
    x : float array
        Values.
    or_nan : bool
        Whether NaN counts as well.

    Returns
    -------
    0-d bool array
        The host does not wait.
    """
    if fast := native(xp, "has_infinite"):
        return fast(x, or_nan)
    return xp.any(~xp.isfinite(x)) if or_nan else xp.any(xp.isinf(x))
