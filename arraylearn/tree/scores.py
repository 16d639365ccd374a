"""The score of every threshold of every feature of every node, in one expression."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import Place, accumulator_dtype, as_float, bring, move
from arraylearn.backend.selector import find_places
from arraylearn.checks import refuse
from arraylearn.measures.count_measures import MEASURES

__all__ = ["score_thresholds", "threshold_scores"]


class Sides(NamedTuple):
    """Class counts below and above each threshold, and their sums."""

    left: Array  # (..., t, c)
    right: Array  # (..., t, c)
    total: Array  # (..., 1, c)
    n_left: Array  # (..., t); here and below 0 is replaced by 1, as a divisor
    n_right: Array  # (..., t)
    n_total: Array  # (..., 1)


def score_thresholds(xp: Namespace, counts: Array, measure: str) -> Array:
    """Score (..., n_bins - 1) thresholds from float or integer counts (..., n_bins, n_classes)."""
    left, right = _sides(xp, counts)
    n_left, n_right = xp.sum(left, axis=-1), xp.sum(right, axis=-1)
    is_split = (n_left > 0) & (n_right > 0)
    if measure in _TWO_WAY:
        total = left[..., -1:, :] + right[..., -1:, :]
        sizes = (n_left, n_right, xp.sum(total, axis=-1))
        safe = (xp.where(size > 0, size, 1.0) for size in sizes)
        scores = _TWO_WAY[measure](xp, Sides(left, right, total, *safe))
    else:
        scores = MEASURES[measure](xp, xp.stack((left, right), axis=-2))
    return xp.where(is_split, scores, -math.inf)


def _sides(xp: Namespace, counts: Array) -> tuple[Array, Array]:
    """Float class counts (..., n_bins - 1, n_classes) below and above each threshold."""
    running = xp.cumulative_sum(counts, axis=-2)
    left = running[..., :-1, :]
    if xp.isdtype(counts.dtype, "integral"):
        dtype = accumulator_dtype(Place(xp, array_api_compat.device(counts)))
        return xp.astype(left, dtype), xp.astype(running[..., -1:, :] - left, dtype)
    # not the total minus the left sums: that leaves rounding errors in empty sides
    above = xp.flip(xp.cumulative_sum(xp.flip(counts, axis=-2), axis=-2), axis=-2)
    return left, above[..., 1:, :]


# ---- the measures specialized to two branches: fewer passes over memory than the general ones


def _drift(sides: Sides) -> tuple[Array, Array]:
    """Difference of the shares of classes on the left side and in the node, and those of the node."""
    # equal shares are rounded alike, so that independence gives exactly 0
    share = sides.total / sides.n_total[..., None]
    return sides.left / sides.n_left[..., None] - share, share


def _gini(xp: Namespace, sides: Sides) -> Array:
    drift, _ = _drift(sides)
    return xp.sum(drift * drift, axis=-1) * (sides.n_left / sides.n_right)


def _chi2(xp: Namespace, sides: Sides) -> Array:
    drift, share = _drift(sides)
    by_class = xp.sum(drift * drift / xp.where(share > 0, share, 1.0), axis=-1)
    return by_class * sides.n_left * (sides.n_total / sides.n_right)


def _entropy(xp: Namespace, sides: Sides) -> Array:
    share = xp.where(sides.total > 0, sides.total, 1.0) / sides.n_total[..., None]
    bits = 0.0
    for side, n_side in ((sides.left, sides.n_left), (sides.right, sides.n_right)):
        lift = side / n_side[..., None] / share
        bits = bits + xp.sum(side * xp.log2(xp.where(lift > 0, lift, 1.0)), axis=-1)
    return xp.where(bits > 0, bits, 0.0) / sides.n_total


def _gain_ratio(xp: Namespace, sides: Sides) -> Array:
    p, q = sides.n_left / sides.n_total, sides.n_right / sides.n_total
    # an empty side has the size 1: the result is masked by `score_thresholds`
    information = -(p * xp.log2(p) + q * xp.log2(q))
    return _entropy(xp, sides) / xp.where(information > 0, information, 1.0)


def _accuracy(xp: Namespace, sides: Sides) -> Array:
    return (xp.max(sides.left, axis=-1) + xp.max(sides.right, axis=-1)) / sides.n_total


def _error(xp: Namespace, sides: Sides) -> Array:
    gain = _accuracy(xp, sides) - xp.max(sides.total, axis=-1) / sides.n_total
    return xp.where(gain > 0, gain, 0.0)


_TWO_WAY: dict[str, Callable[[Namespace, Sides], Array]] = {
    "accuracy": _accuracy,
    "chi2": _chi2,
    "entropy": _entropy,
    "error": _error,
    "gain_ratio": _gain_ratio,
    "gini": _gini,
}


# ---- the public function


def threshold_scores(hist: Any, measure: str = "gini") -> Array:
    r"""Score every threshold of binned features: rows with ``bin <= i`` go left, the others right.

    .. math:: s_{tji} = m\begin{pmatrix} L_{tji} \\ R_{tji} \end{pmatrix}, \qquad
              L_{tjic} = \sum_{b \le i} h_{tjbc}, \quad R_{tjic} = \sum_{b > i} h_{tjbc}

    Parameters
    ----------
    hist : array (..., n_bins, n_classes)
        Class counts or weights by bin, as from `class_histogram`.
    measure : str
        A name of `arraylearn.measures.MEASURES`: "gini", "entropy" (information gain), "gain_ratio",
        "symmetric_gain_ratio", "symmetric_gain_ratio_sum", "chi2", "error", "accuracy".

    Returns
    -------
    array (..., n_bins - 1)
        Larger is better; ``-inf`` where a side is empty, so that an argmax never chooses such a threshold as
        long as there is another.

    Examples
    --------
    Salaries 15 (B), 40 (B), 60, 65, 75, 100 (G), one bin each: the best cut is after the second.

    >>> import arraylearn as al
    >>> hist = [[0, 1], [0, 1], [1, 0], [1, 0], [1, 0], [1, 0]]
    >>> al.tree.threshold_scores(hist).round(4).tolist()
    [0.1778, 0.4444, 0.2222, 0.1111, 0.0444]
    """
    if measure not in MEASURES:
        raise refuse("measure", f"must be one of {', '.join(map(repr, MEASURES))}", repr(measure))
    home, place = find_places(hist)
    counts = bring(hist, place)
    if counts.ndim < 2 or counts.shape[-2] < 2:
        raise refuse("hist", "must have the axes (..., bin, class) and at least 2 bins", f"{counts.shape}")
    if not place.xp.isdtype(counts.dtype, "integral"):
        counts = as_float(counts, place)
    return move(score_thresholds(place.xp, counts, measure), home)
