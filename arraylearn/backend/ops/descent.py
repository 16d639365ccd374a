"""Rows down a tree of thresholds."""

from __future__ import annotations

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.native import native

__all__ = ["follow_thresholds"]


def follow_thresholds(
    xp: Namespace,
    x: Array,
    feature: Array,
    threshold: Array,
    child: Array,
    n_levels: int,
    default: Array | None = None,
) -> Array:
    """Send rows down a tree and return the leaf that each of them reaches.

    Parameters
    ----------
    x : float array (n, d)
        Rows.
    feature : int array (t,)
        Column that each node looks at; any column for a leaf.
    threshold : float array (t,)
        A value above it goes to ``child + 1``, any other to ``child``; ``inf`` for a leaf.
    child : int array (t,)
        The first child; a leaf names itself.
    n_levels : int
        Number of steps after which every row is at a leaf.
    default : int array (t,), optional
        0 or 1: the side of NaN, 0 for a leaf. None: there is no NaN.

    Returns
    -------
    int64 array (n,)
        The leaf of each row.
    """
    fast = native(xp, "follow_thresholds")
    if fast and (found := fast(x, feature, threshold, child, n_levels, default)) is not None:
        return found
    n, d = x.shape
    device = array_api_compat.device(x)
    node = xp.zeros(n, dtype=xp.int64, device=device)
    if d == 0:
        return node
    flat = xp.reshape(x, (-1,))
    line = d * xp.arange(n, dtype=xp.int64, device=device)
    feature, child = xp.astype(feature, xp.int64), xp.astype(child, xp.int64)
    for _ in range(n_levels):
        value = xp.take(flat, line + xp.take(feature, node, axis=0), axis=0)
        is_right = xp.astype(value > xp.take(threshold, node, axis=0), xp.int64)
        if default is not None:
            side = xp.astype(xp.take(default, node, axis=0), xp.int64)
            is_right = xp.where(xp.isnan(value), side, is_right)
        node = xp.take(child, node, axis=0) + is_right
    return node
