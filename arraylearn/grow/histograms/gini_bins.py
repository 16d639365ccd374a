"""The best cut of class histograms."""

from __future__ import annotations

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype, is_on_gpu
from arraylearn.grow.criteria import MOST_IN_ORDER, gini_scores
from arraylearn.grow.formulas import NO_SPLIT

__all__ = ["gini_bins"]

# Cells per class that are scored at a time on a CPU, so that they stay in the cache.
_IN_CACHE = 16_384


def gini_bins(
    xp: Namespace, histogram: Array, least: float, is_open: Array | None = None
) -> tuple[Array, Array]:
    """Find the cut of the bins with the best `gini_scores`.

    Parameters
    ----------
    histogram : array (d, k, c, b)
        Class counts or weights of each bin.
    least : float
        Least weight on a side; more than 0.
    is_open : bool array (d, k, b), optional
        Cuts that nothing else forbids.

    Returns
    -------
    best : float array (d, k)
        The score; `formulas.NO_SPLIT` where no cut is allowed.
    cut : int64 array (d, k)
        The last bin of the left side; the first one among equals. Scores of float weights are compared in
        float32 (with many classes, after subtracting the score without a split), so that the order of
        summation does not decide.
    """
    place = Place(xp, array_api_compat.device(histogram))
    dtype = accumulator_dtype(place)
    d, k, c, b = histogram.shape
    is_float = xp.isdtype(histogram.dtype, "real floating")
    by_class = xp.permute_dims(histogram, (2, 0, 1, 3))
    most = None if is_on_gpu(place) else max(1, _IN_CACHE // (d * b))
    found = []
    for nodes in row_chunks(k, 80 * d * c * b, most=most):
        left = xp.stack([xp.cumulative_sum(by_class[j, :, nodes, :], axis=-1) for j in range(c)])
        total = left[..., -1:]
        right = total - left
        scores = gini_scores(xp, left, right)
        n_left, n_right = (xp.astype(xp.sum(side, axis=0), dtype) for side in (left, right))
        is_allowed = (n_left >= least) & (n_right >= least)
        if is_open is not None:
            is_allowed = is_allowed & is_open[:, nodes, :]
        scores = xp.where(is_allowed, scores, NO_SPLIT)
        keys = scores
        if is_float:
            base = 0.0
            if c > MOST_IN_ORDER:
                weight = n_left + n_right  # 0 if no value of the node is known
                base = xp.sum(total * total, axis=0) / xp.where(weight > 0, weight, 1.0)
            keys = xp.where(is_allowed, xp.astype(scores - base, xp.float32), -xp.inf)
        cut = xp.astype(xp.argmax(keys, axis=-1), xp.int64)
        found.append((xp.take_along_axis(scores, cut[..., None], axis=-1)[..., 0], cut))
    return xp.concat([best for best, _ in found], axis=1), xp.concat([cut for _, cut in found], axis=1)
