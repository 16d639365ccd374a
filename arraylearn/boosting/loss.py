"""The log loss of integer scores: where boosting starts, and how far it has come."""

from __future__ import annotations

import math

from arraylearn._typing import Array
from arraylearn.backend.arrays.linear import logsumexp
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import Place, accumulator_dtype, to_host
from arraylearn.boosting.gradients import SCORE_BITS

__all__ = ["mean_log_loss", "start_scores"]


def start_scores(place: Place, codes: Array, weights: Array | None, n_classes: int) -> list[int]:
    """Return the log odds of two classes, or the log shares of more, as scores; the host syncs."""
    counts = histogram(place.xp, codes, n_classes, weights)
    shares: list[float] = to_host(counts).tolist()
    # a class whose rows all weigh nothing is as rare as can be
    logs = [math.log(max(share, 1e-9 * sum(shares))) for share in shares]
    starts = [logs[1] - logs[0]] if n_classes == 2 else [x - sum(logs) / n_classes for x in logs]
    return [round(x * (1 << SCORE_BITS)) for x in starts]


def mean_log_loss(place: Place, scores: Array, codes: Array, weights: Array | None) -> float:
    r"""Return the weighted mean of :math:`-\log p_{y}`; the host syncs."""
    xp, dtype = place.xp, accumulator_dtype(place)
    odds = xp.astype(scores, dtype) * 2.0**-SCORE_BITS
    if scores.shape[0] == 1:
        margin = xp.where(codes == 1, odds[0, :], -odds[0, :])
        small = xp.where(margin > 0, -margin, margin)
        losses = xp.log1p(xp.exp(small)) + xp.where(margin > 0, 0.0, -margin)
    else:
        chosen = xp.take_along_axis(odds, codes[None, :], axis=0)[0, :]
        losses = logsumexp(xp, odds, axis=0) - chosen
    if weights is None:
        return float(xp.mean(losses))
    weights = xp.astype(weights, dtype)
    return float(xp.sum(losses * weights) / xp.sum(weights))
