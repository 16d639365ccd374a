"""Monotonic constraints: each node has bounds on its value, which cuts keep and hand on to the children.

The value of a node is its share of class 1, or its step in boosting. A cut on a column with a trend puts the
middle of the two values between the children::

    0.0 ---------------- node ---------------- 1.0        a column along which values may only rise:
    0.0 -- left child -- middle -- right child -- 1.0     the left value is not above the right one
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arraylearn._typing import Array, Dtype, HostArray, Namespace
from arraylearn.backend.namespace import Place, from_host
from arraylearn.grow.rows import Level

__all__ = ["Constraint", "clip_shares", "constrain", "hand_on", "keeps_bounds"]


class Constraint(NamedTuple):
    """Columns along which values may only rise (1) or fall (-1), and the range of each node's value."""

    trend: Array  # (d,) float
    bounds: Array  # (2, k) float: least and greatest value


def constrain(place: Place, trend: tuple[int, ...] | None, level: Level, dtype: Dtype) -> Constraint | None:
    """Bring the trends of the columns and the bounds of a level's nodes to the place."""
    if trend is None:
        return None
    assert level.bounds is not None
    xp = place.xp
    on_place = xp.asarray(list(trend), dtype=dtype, device=place.device)
    return Constraint(on_place, from_host(level.bounds.T, place, dtype))


def keeps_bounds(
    xp: Namespace,
    trend: Array,
    bounds: tuple[Array, Array],
    left: tuple[Array, Array],
    total: tuple[Array, Array],
) -> Array:
    """Whether cuts keep trends and bounds: weights of class 1 and of all, on the left and of the node.

    Cuts on columns without a trend do: where their sides leave the bounds, the values are clipped later.
    """
    dtype = trend.dtype
    sides = left, tuple(each - part for each, part in zip(total, left, strict=True))
    low, high = (
        xp.astype(ones, dtype) / xp.astype(xp.where(n > 0, n, xp.ones_like(n)), dtype) for ones, n in sides
    )
    is_inside = (xp.minimum(low, high) >= bounds[0]) & (xp.maximum(low, high) <= bounds[1])
    return (trend == 0) | (is_inside & (trend * (high - low) >= 0))


def hand_on(bounds: HostArray, trend: HostArray, values: HostArray, node: HostArray) -> HostArray:
    """Return the bounds (t, 2) of the children of nodes (k,); of each node the first child is branch 0.

    `trend` (k,) is that of the column of each split, 0 where it has more than two branches; `values` and
    `node` (t,) belong to the children.
    """
    first = np.searchsorted(node, np.arange(bounds.shape[0]))
    low, high = bounds[node].T
    values = np.minimum(np.maximum(values, low), high)  # rows without a value may have moved them out
    middle = ((values[first] + values[np.minimum(first + 1, values.shape[0] - 1)]) / 2)[node]
    way = trend[node] * np.where(np.arange(node.shape[0]) == first[node], -1, 1)
    return np.stack((np.where(way > 0, middle, low), np.where(way < 0, middle, high)), axis=1)


def clip_shares(probability: HostArray, bounds: HostArray) -> HostArray:
    """Keep the shares (m, 2) of two classes within the bounds (m, 2) of that of class 1."""
    if probability.shape[1] != 2:
        return probability
    one = np.minimum(np.maximum(probability[:, 1], bounds[:, 0]), bounds[:, 1])
    return np.where((one == probability[:, 1])[:, None], probability, np.stack((1.0 - one, one), axis=1))
