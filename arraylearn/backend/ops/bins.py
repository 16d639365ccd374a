"""The best cut of class histograms."""

from __future__ import annotations

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.backend.native import native
from arraylearn.backend.ops.blocks import gini_scores

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
        The last bin of the left side; the first one among equals.
    """
    if fast := native(xp, "gini_bins"):
        best, cut = fast(histogram, least)
        return best, cut
    dtype = accumulator_dtype(Place(xp, array_api_compat.device(histogram)))
    d, k, c, b = histogram.shape
    found = []
    for nodes in row_chunks(k, 80 * d * c * b):
        left = xp.cumulative_sum(histogram[:, nodes, :, :], axis=-1)
        right = left[..., -1:] - left
        scores = gini_scores(xp, xp.permute_dims(left, (2, 0, 1, 3)), xp.permute_dims(right, (2, 0, 1, 3)))
        n_left, n_right = (xp.astype(xp.sum(side, axis=-2), dtype) for side in (left, right))
        scores = xp.where((n_left >= least) & (n_right >= least), scores, -1.0)
        found.append((xp.max(scores, axis=-1), xp.astype(xp.argmax(scores, axis=-1), xp.int64)))
    return xp.concat([best for best, _ in found], axis=1), xp.concat([cut for _, cut in found], axis=1)
