"""Confidence pruning: the errors expected of a leaf are an upper limit of its error rate, times its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Literal

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.checks import check_choice, check_flag, check_number
from arraylearn.grow.cut import count_errors
from arraylearn.grow.trees import Trees
from arraylearn.tree.pruning.levels import choose_cuts

__all__ = [
    "LIMITS",
    "SLACK",
    "Confidence",
    "Limit",
    "c45_limit",
    "confidence_cuts",
    "limited_errors",
    "normal_limit",
]

Limit = Literal["c45", "normal"]


@dataclass(frozen=True)
class Confidence:
    r"""Cut a subtree where a leaf is expected to make no more errors.

    The errors of a leaf are a sample of a binomial distribution; what is expected is the upper limit U of its
    mean: a leaf replaces a subtree where :math:`U(t) \le \sum_{u \in \mathrm{leaves}(t)} U(u)`.

    Parameters
    ----------
    confidence : float
        For "c45" the probability (CF) that the error rate is above the limit, in (0, 0.5]: less of it prunes
        more. For "normal" the level of the two-sided interval, in (0, 1): more of it prunes more.
    limit : {"c45", "normal"}
        C4.5's limit, with its tolerance of 0.1 errors in favour of the leaf; or the plain normal
        approximation, with half an error added for continuity.
    raising : bool
        Whether a node may also be replaced by its largest branch, as in C4.5.

    References
    ----------
    J. R. Quinlan, C4.5: Programs for Machine Learning, 1993.

    Examples
    --------
    >>> from arraylearn import DecisionTreeClassifier
    >>> from arraylearn.tree.pruning import Confidence, prune
    >>> tree = DecisionTreeClassifier().fit([[1], [2], [3], [4], [5]], [0, 0, 1, 0, 0]).tree_
    >>> tree.n_nodes, prune(tree, Confidence()).n_nodes
    (5, 1)
    """

    confidence: float = 0.25
    limit: Limit = field(default="c45", kw_only=True)
    raising: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_choice("limit", self.limit, LIMITS)
        if self.limit == "c45":
            check_number("confidence", self.confidence, 0, 0.5, closed="right")
        else:
            check_number("confidence", self.confidence, 0, 1, closed="neither")
        check_flag("raising", self.raising)


def normal_limit(errors: HostArray, total: HostArray, level: float) -> HostArray:
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
    return _wilson(errors + 0.5, total, NormalDist().inv_cdf((1 + level) / 2))


def c45_limit(errors: HostArray, total: HostArray, tail: float) -> HostArray:
    r"""Upper limit of the errors, as C4.5 computes it.

    Without errors the exact binomial limit, :math:`n (1 - \text{tail}^{1/n})`; from one error on the normal
    approximation with half an error added for continuity, :math:`z = \Phi^{-1}(1 - \text{tail})`; linear
    between no error and one.

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
    safe = np.where(has_rows, total, 1.0)
    none = safe * (1 - np.exp(math.log(tail) / safe))
    some = _from_one_error(np.maximum(errors, 1.0), safe, tail)
    one = _from_one_error(np.ones_like(safe), safe, tail)
    # between no error and one: linear from `none` to `one`
    return np.where(has_rows, np.where(errors < 1, none + errors * (one - none), some), 0.0)


def _from_one_error(errors: HostArray, total: HostArray, tail: float) -> HostArray:
    limit = _wilson(errors + 0.5, total, NormalDist().inv_cdf(1 - tail))
    return np.where(errors + 0.5 >= total, np.maximum(total, errors), limit)


def _wilson(errors: HostArray, total: HostArray, z: float) -> HostArray:
    n = np.where(total > 0, total, 1.0)
    rate = np.minimum(errors / n, 1.0)
    spread = np.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return np.where(total > 0, n * (rate + z * z / (2 * n) + z * spread) / (1 + z * z / n), 0.0)


LIMITS = {"c45": c45_limit, "normal": normal_limit}
# A leaf may have this many errors more than the subtree that it replaces.
SLACK = {"c45": 0.1, "normal": 1e-6}


def limited_errors(counts: HostArray, *, confidence: float, limit: Limit = "c45") -> HostArray:
    """Return the upper limit of the errors (t,) of nodes with class weights (t, c) as leaves."""
    return LIMITS[limit](count_errors(counts), np.sum(counts, axis=-1), confidence)


def confidence_cuts(tree: Trees, pruning: Confidence) -> HostArray:
    """Choose the nodes (t,) of a host tree that become leaves."""
    cost = limited_errors(tree.counts, confidence=pruning.confidence, limit=pruning.limit)
    return choose_cuts(tree, cost, slack=SLACK[pruning.limit])
