"""How good a literal is: gains, and which literals may be chosen."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.rules.literals.target import Counts

__all__ = [
    "GAINS",
    "Gain",
    "Scoring",
    "accuracy_gain",
    "foil_gain",
    "rounding_error",
    "smoothed_foil_gain",
]

Gain = Callable[[Namespace, Array, Array, float, float], Array]


def foil_gain(xp: Namespace, p: Array, covered: Array, p_before: float, covered_before: float) -> Array:
    r"""Information that a literal gains on the positive rows it still covers.

    .. math:: p' \left(\log_2 \frac{p'}{p' + n'} - \log_2 \frac{p}{p + n}\right)

    Parameters
    ----------
    p, covered : float array (...)
        Weight of positive rows and of all rows that the rule covers with the literal.
    p_before, covered_before : float
        The same without it; both positive.

    Returns
    -------
    array (...)
        In bits; 0 where no positive row is left.

    References
    ----------
    J. R. Quinlan, "Learning logical definitions from relations", Machine Learning 5, 1990.

    Examples
    --------
    >>> import array_api_compat.numpy as xp
    >>> from arraylearn.rules.literals.gains import foil_gain
    >>> foil_gain(xp, xp.asarray([6.0, 1.0]), xp.asarray([7.0, 1.0]), 7.0, 8.0).round(3).tolist()
    [-0.178, 0.193]
    """
    share = xp.where(p > 0, p, 1.0) / xp.where(p > 0, covered, 1.0)
    return p * (xp.log2(share) - math.log2(p_before / covered_before))


def smoothed_foil_gain(
    xp: Namespace, p: Array, covered: Array, p_before: float, covered_before: float
) -> Array:
    r"""FOIL's gain with one more positive row on both sides, as in Weka's JRip.

    .. math:: p' \left(\log_2 \frac{p' + 1}{p' + n' + 1} - \log_2 \frac{p + 1}{p + n + 1}\right)
    """
    base = math.log2((p_before + 1.0) / (covered_before + 1.0))
    return p * (xp.log2((p + 1.0) / (covered + 1.0)) - base)


def accuracy_gain(xp: Namespace, p: Array, covered: Array, p_before: float, covered_before: float) -> Array:
    r"""Accuracy of the rule with the literal, :math:`p' / (p' + n')`, whatever it was without."""
    return p / xp.where(covered > 0, covered, 1.0)


GAINS: dict[str, Gain] = {
    "accuracy": accuracy_gain,
    "foil": foil_gain,
    "smoothed_foil": smoothed_foil_gain,
}


class Scoring(NamedTuple):
    """How the literals that may be added to a rule are scored."""

    gain: Gain
    before: Counts  # what the rule covers without the literal
    least: float  # least weight of positive rows that a literal must leave

    def score(self, xp: Namespace, p: Array, covered: Array) -> Array:
        """Score literals; ``-inf`` for one that leaves too few positive rows, or all rows."""
        slack = rounding_error(xp, p, self.before.covered)
        score = self.gain(xp, p, covered, *self.before)
        is_allowed = (p > max(slack, self.least - 2 * slack)) & (covered < self.before.covered - slack)
        return xp.where(is_allowed, score, -math.inf)


def rounding_error(xp: Namespace, weights: Array, total: float) -> float:
    """Bound the rounding error of sums of float weights up to `total`."""
    return 1e-9 * total if xp.finfo(weights.dtype).eps < 1e-10 else 1e-5 * total
