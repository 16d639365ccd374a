"""The best cut of class histograms."""

from __future__ import annotations

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.backend.native import native
from arraylearn.backend.ops.gini import FEW_CLASSES, gini_scores

__all__ = ["gini_bins"]


def gini_bins(xp: Namespace, histogram: Array, least: float) -> tuple[Array, Array]:
    """Find the cut of the bins with the best `gini_scores`.

    Parameters
    ----------
    histogram : array (d, k, c, b)
        Class counts or weights of each bin.
    least : float
        Least weight on a side; more than 0.

    Returns
    -------
    best : float array (d, k)
        The score; -1 where no cut is allowed.
    cut : int64 array (d, k)
        The last bin of the left side; the first one among equals. Scores of float weights are compared in
        float32 (their surplus over that of no split, where there are many classes): the last bits, in which
        the order of the sums shows, decide nothing.
    """
    if fast := native(xp, "gini_bins"):
        best, cut = fast(histogram, least)
        return best, cut
    dtype = accumulator_dtype(Place(xp, array_api_compat.device(histogram)))
    d, k, c, b = histogram.shape
    is_float = xp.isdtype(histogram.dtype, "real floating")
    found = []
    for nodes in row_chunks(k, 80 * d * c * b):
        left = xp.cumulative_sum(histogram[:, nodes, :, :], axis=-1)
        right = left[..., -1:] - left
        scores = gini_scores(xp, xp.permute_dims(left, (2, 0, 1, 3)), xp.permute_dims(right, (2, 0, 1, 3)))
        n_left, n_right = (xp.astype(xp.sum(side, axis=-2), dtype) for side in (left, right))
        is_allowed = (n_left >= least) & (n_right >= least)
        scores = xp.where(is_allowed, scores, -1.0)
        keys = scores
        if is_float:
            whole = left[..., -1:]
            base = xp.sum(whole * whole, axis=-2) / (n_left + n_right) if c > FEW_CLASSES else 0.0
            keys = xp.where(is_allowed, xp.astype(scores - base, xp.float32), -xp.inf)
        cut = xp.astype(xp.argmax(keys, axis=-1), xp.int64)
        found.append((xp.take_along_axis(scores, cut[..., None], axis=-1)[..., 0], cut))
    return xp.concat([best for best, _ in found], axis=1), xp.concat([cut for _, cut in found], axis=1)
