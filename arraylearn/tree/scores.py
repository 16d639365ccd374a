"""The score of every threshold of every feature of every node, in one expression."""

from __future__ import annotations

import math
from typing import Any

import array_api_compat

from arraylearn._door import as_float, bring, find_place, refuse
from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.measures.tables import MEASURES, Measure

__all__ = ["score_thresholds", "threshold_scores"]


def score_thresholds(xp: Namespace, counts: Array, measure: Measure) -> Array:
    """Score (..., n_bins - 1) thresholds from float or integer counts (..., n_bins, n_classes)."""
    left, right = _sides(xp, counts)
    scores = measure(xp, xp.stack((left, right), axis=-2))
    is_split = (xp.sum(left, axis=-1) > 0) & (xp.sum(right, axis=-1) > 0)
    return xp.where(is_split, scores, -math.inf)


def _sides(xp: Namespace, counts: Array) -> tuple[Array, Array]:
    """Float class counts (..., n_bins - 1, n_classes) below and above each threshold."""
    running = xp.cumulative_sum(counts, axis=-2)
    left = running[..., :-1, :]
    if xp.isdtype(counts.dtype, "integral"):
        dtype = accumulator_dtype(Place(xp, array_api_compat.device(counts)))
        return xp.astype(left, dtype), xp.astype(running[..., -1:, :] - left, dtype)
    # a difference of float sums would leave rounding where nothing is left: sum from the other end
    above = xp.flip(xp.cumulative_sum(xp.flip(counts, axis=-2), axis=-2), axis=-2)
    return left, above[..., 1:, :]


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
    place = find_place(hist)
    counts = bring(hist, place)
    if counts.ndim < 2 or counts.shape[-2] < 2:
        raise refuse("hist", "must have the axes (..., bin, class) and at least 2 bins", f"{counts.shape}")
    if not place.xp.isdtype(counts.dtype, "integral"):
        counts = as_float(counts, place)
    return score_thresholds(place.xp, counts, MEASURES[measure])
