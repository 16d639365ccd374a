"""The measures as kernels: same-signature functions on a float array of counts, closed by two tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from arraylearn._typing import Array, Namespace

__all__ = ["IMPURITIES", "MEASURES", "Measure"]

Measure: TypeAlias = Callable[[Namespace, Array], Array]


def _ratio(xp: Namespace, above: Array, below: Array) -> Array:
    """Divide; 0 where the divisor is 0."""
    return xp.where(below > 0, above, 0.0) / xp.where(below > 0, below, 1.0)


def _log2(xp: Namespace, x: Array) -> Array:
    """Take the logarithm; 0 where `x` is 0, so that 0 log 0 is 0."""
    return xp.log2(xp.where(x > 0, x, 1.0))


def _not_negative(xp: Namespace, x: Array) -> Array:
    """Lift negative rounding to 0 (array-api-compat's `clip` syncs on CuPy, 1.16)."""
    return xp.where(x < 0, 0.0, x)


def _shares(xp: Namespace, counts: Array) -> Array:
    return _ratio(xp, counts, xp.sum(counts, axis=-1, keepdims=True))


def entropy(xp: Namespace, counts: Array) -> Array:
    r"""Shannon entropy of class counts, in bits.

    .. math:: H = -\sum_c p_c \log_2 p_c

    Returns
    -------
    array (...)
        Of the library, device and float dtype of `counts` (integers: the widest float of the device).

    References
    ----------
    C. E. Shannon, "A mathematical theory of communication", Bell System Technical Journal 27, 1948.

    Examples
    --------
    >>> from arraylearn import measures
    >>> float(measures.entropy([9, 5]).round(3))
    0.94
    """
    p = _shares(xp, counts)
    return -xp.sum(p * _log2(xp, p), axis=-1) + 0.0  # + 0.0: no negative zero


def gini(xp: Namespace, counts: Array) -> Array:
    r"""Gini impurity of class counts: how often two random cases differ in class.

    .. math:: G = \sum_c p_c (1 - p_c) = 1 - \sum_c p_c^2

    Returns
    -------
    array (...)
        Of the library, device and float dtype of `counts`.

    References
    ----------
    L. Breiman, J. Friedman, R. Olshen, C. Stone, Classification and Regression Trees, 1984.

    Examples
    --------
    >>> from arraylearn import measures
    >>> float(measures.gini([4, 2]).round(4))
    0.4444
    """
    # p (1 - p) summed, rather than 1 minus the squares: exact for pure nodes, and 0 for empty ones
    p = _shares(xp, counts)
    return xp.sum(p * (1.0 - p), axis=-1)


def error(xp: Namespace, counts: Array) -> Array:
    r"""Share of the cases outside the most frequent class.

    .. math:: E = 1 - \max_c p_c

    Returns
    -------
    array (...)
        Of the library, device and float dtype of `counts`.

    Examples
    --------
    >>> from arraylearn import measures
    >>> float(measures.error([9, 3]))
    0.25
    """
    total = xp.sum(counts, axis=-1)
    return _ratio(xp, total - xp.max(counts, axis=-1), total)


def gini_gain(xp: Namespace, counts: Array) -> Array:
    r"""Reduction of the Gini impurity by a split.

    .. math:: G(C) - \sum_b p_{b.} G(C \mid b)

    Returns
    -------
    array (...)
        At least 0.

    References
    ----------
    L. Breiman, J. Friedman, R. Olshen, C. Stone, Classification and Regression Trees, 1984.

    Examples
    --------
    >>> from arraylearn import measures
    >>> float(measures.gini_gain([[0, 2], [4, 0]]).round(4))
    0.4444
    """
    # The difference of the impurities is a mean squared distance: never negative, exactly 0 for independence.
    by_branch = xp.sum(counts, axis=-1, keepdims=True)
    before = _shares(xp, xp.sum(counts, axis=-2, keepdims=True))
    distance = xp.sum((_ratio(xp, counts, by_branch) - before) ** 2, axis=-1)
    return xp.sum(_shares(xp, by_branch[..., 0]) * distance, axis=-1)


def error_gain(xp: Namespace, counts: Array) -> Array:
    r"""Reduction of the training error by a split.

    .. math:: E(C) - \sum_b p_{b.} E(C \mid b)

    Returns
    -------
    array (...)
        At least 0.

    Examples
    --------
    >>> from arraylearn import measures
    >>> float(measures.error_gain([[3, 0], [1, 4]]))
    0.375
    """
    correct = xp.sum(xp.max(counts, axis=-1), axis=-1)
    by_class = xp.sum(counts, axis=-2)
    return _ratio(xp, _not_negative(xp, correct - xp.max(by_class, axis=-1)), xp.sum(by_class, axis=-1))


def information_gain(xp: Namespace, counts: Array) -> Array:
    r"""Reduction of the class entropy by a split, in bits.

    .. math:: I = H(C) - \sum_b p_{b.} H(C \mid b) = \sum_{bc} p_{bc} \log_2 \frac{p_{bc}}{p_{b.} p_{.c}}

    Returns
    -------
    array (...)
        At least 0; exactly 0 where branch and class are independent.

    References
    ----------
    J. R. Quinlan, "Induction of decision trees", Machine Learning 1, 1986.

    Examples
    --------
    The outlook (sunny, overcast, rain) against playing tennis (yes, no):

    >>> from arraylearn import measures
    >>> float(measures.information_gain([[2, 3], [4, 0], [3, 2]]).round(4))
    0.2467
    """
    # As mutual information: where branch and class are independent, both quotients are the same rational
    # number, round alike and give exactly 0, which a difference of two entropies does not.
    within = _ratio(xp, counts, xp.sum(counts, axis=-1, keepdims=True))
    by_class = xp.sum(counts, axis=-2, keepdims=True)
    total = xp.sum(by_class, axis=-1, keepdims=True)
    lift = _ratio(xp, within, _ratio(xp, by_class, total))
    bits = xp.sum(_ratio(xp, counts, total) * _log2(xp, lift), axis=(-2, -1))
    return _not_negative(xp, bits)


def split_information(xp: Namespace, counts: Array) -> Array:
    """Entropy of the branches, in bits."""
    return entropy(xp, xp.sum(counts, axis=-1))


def gain_ratio(xp: Namespace, counts: Array) -> Array:
    r"""Information gain divided by the information of the split itself.

    .. math:: I / H(B), \qquad H(B) = -\sum_b p_{b.} \log_2 p_{b.}

    Returns
    -------
    array (...)
        0 where all cases are in one branch.

    References
    ----------
    J. R. Quinlan, C4.5: Programs for Machine Learning, 1993.

    Examples
    --------
    >>> from arraylearn import measures
    >>> float(measures.gain_ratio([[2, 3], [4, 0], [3, 2]]).round(4))
    0.1564
    """
    return _ratio(xp, information_gain(xp, counts), split_information(xp, counts))


def symmetric_gain_ratio(xp: Namespace, counts: Array) -> Array:
    """Information gain over the entropy of the cells."""
    cells = xp.reshape(counts, (*counts.shape[:-2], counts.shape[-2] * counts.shape[-1]))
    return _ratio(xp, information_gain(xp, counts), entropy(xp, cells))


def symmetric_gain_ratio_sum(xp: Namespace, counts: Array) -> Array:
    """Information gain over the sum of the marginal entropies."""
    both = split_information(xp, counts) + entropy(xp, xp.sum(counts, axis=-2))
    return _ratio(xp, information_gain(xp, counts), both)


def chi2(xp: Namespace, counts: Array) -> Array:
    r"""Pearson's statistic for the independence of branch and class.

    .. math:: \chi^2 = \sum_{bc} \frac{(n_{bc} - e_{bc})^2}{e_{bc}}, \qquad e_{bc} = n_{b.} n_{.c} / n_{..}

    Returns
    -------
    array (...)
        Without continuity correction; empty branches and absent classes add nothing.

    References
    ----------
    K. Pearson, Philosophical Magazine 50, 1900; G. V. Kass (CHAID), Applied Statistics 29, 1980.

    Examples
    --------
    >>> from arraylearn import measures
    >>> float(measures.chi2([[10, 20], [20, 10]]).round(4))
    6.6667
    """
    by_branch = xp.sum(counts, axis=-1, keepdims=True)
    by_class = xp.sum(counts, axis=-2, keepdims=True)
    total = xp.sum(by_class, axis=-1, keepdims=True)
    expected = by_branch * _ratio(xp, by_class, total)
    surplus = counts - expected
    return xp.sum(surplus * _ratio(xp, surplus, expected), axis=(-2, -1))


def accuracy(xp: Namespace, counts: Array) -> Array:
    r"""Rate of correctly classified cases when each branch predicts its most frequent class.

    .. math:: \sum_b \max_c n_{bc} / n_{..}

    Returns
    -------
    array (...)
        From 0 (an all-zero table) to 1.

    Examples
    --------
    >>> from arraylearn import measures
    >>> float(measures.accuracy([[3, 0], [1, 4]]))
    0.875
    """
    correct = xp.sum(xp.max(counts, axis=-1), axis=-1)
    return _ratio(xp, correct, xp.sum(counts, axis=(-2, -1)))


# float array (..., class) -> (...)
IMPURITIES: dict[str, Measure] = {"entropy": entropy, "gini": gini, "error": error}

# float array (..., branch, class) -> (...); larger is better
MEASURES: dict[str, Measure] = {
    "accuracy": accuracy,
    "chi2": chi2,
    "entropy": information_gain,
    "error": error_gain,
    "gain_ratio": gain_ratio,
    "gini": gini_gain,
    "symmetric_gain_ratio": symmetric_gain_ratio,
    "symmetric_gain_ratio_sum": symmetric_gain_ratio_sum,
}
