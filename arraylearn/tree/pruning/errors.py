"""How many errors to expect of a leaf: those it made, and upper limits at a level of confidence."""

from __future__ import annotations

import math
from statistics import NormalDist

from arraylearn._typing import Array, Namespace

__all__ = ["c45_limit", "count_errors", "normal_limit"]


def count_errors(xp: Namespace, counts: Array) -> Array:
    """Weight (...) of the rows outside the most frequent class, of class weights (..., c)."""
    return xp.sum(counts, axis=-1) - xp.max(counts, axis=-1)


def normal_limit(xp: Namespace, errors: Array, total: Array, level: float) -> Array:
    r"""Upper end of the interval of the error rate, times the rows: normal approximation.

    The rate for which the observed one, :math:`f = (e + \frac12) / n` with half an error added for
    continuity, lies at the edge of what is likely (Wilson):

    .. math:: n\,\frac{f + \frac{z^2}{2n} + z\sqrt{\frac{f(1-f)}{n} + \frac{z^2}{4n^2}}}{1 + \frac{z^2}{n}},
              \qquad z = \Phi^{-1}\bigl(\tfrac{1 + \text{level}}{2}\bigr)

    Parameters
    ----------
    errors, total : float arrays (...)
        Errors and rows of each leaf.
    level : float
        Probability that the rate lies inside the two-sided interval.

    Returns
    -------
    float array (...)
        Expected errors; 0 where there are no rows.
    """
    return _wilson(xp, errors + 0.5, total, NormalDist().inv_cdf((1 + level) / 2))


def c45_limit(xp: Namespace, errors: Array, total: Array, tail: float) -> Array:
    r"""Upper limit of the errors, as C4.5 computes it.

    Without errors the exact binomial limit, :math:`n (1 - \text{tail}^{1/n})`; from one error on the normal
    approximation with half an error added for continuity, :math:`z = \Phi^{-1}(1 - \text{tail})`; between
    none and one a straight line.

    Parameters
    ----------
    errors, total : float arrays (...)
        Errors and rows of each leaf.
    tail : float
        Probability that the rate is above the limit (C4.5's CF).

    Returns
    -------
    float array (...)
        Expected errors; 0 where there are no rows.

    References
    ----------
    J. R. Quinlan, C4.5: Programs for Machine Learning, 1993, section 4.2.
    """
    has_rows = total > 0
    safe = xp.where(has_rows, total, xp.ones_like(total))
    none = safe * (1 - xp.exp(math.log(tail) / safe))
    some = _from_one_error(xp, xp.maximum(errors, xp.ones_like(errors)), safe, tail)
    one = _from_one_error(xp, xp.ones_like(errors), safe, tail)
    # at one error the limit is `one`; on the line between, the errors themselves are part of it
    limit = xp.where(errors < 1, none + errors * (one - none), some)
    return xp.where(has_rows, limit, 0.0)


def _from_one_error(xp: Namespace, errors: Array, total: Array, tail: float) -> Array:
    limit = _wilson(xp, errors + 0.5, total, NormalDist().inv_cdf(1 - tail))
    return xp.where(errors + 0.5 >= total, xp.maximum(total, errors), limit)


def _wilson(xp: Namespace, errors: Array, total: Array, z: float) -> Array:
    has_rows = total > 0
    n = xp.where(has_rows, total, xp.ones_like(total))
    rate = xp.minimum(errors / n, xp.ones_like(n))
    spread = xp.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    limit = n * (rate + z * z / (2 * n) + z * spread) / (1 + z * z / n)
    return xp.where(has_rows, limit, 0.0)
