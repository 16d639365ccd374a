r"""Impurities and split measures on tables of counts.

A table ``counts[..., branch, class]`` holds how many cases (or how much weight) of each class went down each
branch of a split; leading axes hold any number of tables. Write :math:`n_{bc}` for its cells and a dot for a
sum, :math:`p_{bc} = n_{bc} / n_{..}`. Branches and classes may be empty, and tables all zero: values that are
undefined there are 0.

The functions here take arrays of any library, or lists. The kernels behind them, in the tables `IMPURITIES`
and `MEASURES`, take the namespace and a float array; they never sync with the host.
"""

from __future__ import annotations

from typing import Any, Literal

from arraylearn._typing import Array
from arraylearn.backend.namespace import as_float, move
from arraylearn.backend.selector import find_places
from arraylearn.checks import refuse
from arraylearn.measures.coding import (
    expected_length,
    halving_code_lengths,
    huffman_code_lengths,
    sequential_code_lengths,
    shannon_fano_code_lengths,
)
from arraylearn.measures.count_measures import IMPURITIES, MEASURES, Measure

__all__ = [
    "IMPURITIES",
    "MEASURES",
    "accuracy",
    "chi2",
    "entropy",
    "error",
    "error_gain",
    "expected_length",
    "gain_ratio",
    "gini",
    "gini_gain",
    "halving_code_lengths",
    "huffman_code_lengths",
    "information_gain",
    "sequential_code_lengths",
    "shannon_fano_code_lengths",
    "symmetric_gain_ratio",
]


def _apply(kernel: Measure, counts: Any, least_ndim: int) -> Array:
    home, place = find_places(counts)
    table = as_float(counts, place)
    if table.ndim < least_ndim:
        axes = "(..., class)" if least_ndim == 1 else "(..., branch, class)"
        raise refuse("counts", f"must have the axes {axes}", f"an array of {table.ndim} axes")
    return move(kernel(place.xp, table), home)


def entropy(counts: Any) -> Array:
    r"""Shannon entropy of class counts, in bits.

    .. math:: H = -\sum_c p_c \log_2 p_c

    Parameters
    ----------
    counts : array (..., class)
        Counts or weights; need not sum to 1.

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
    return _apply(IMPURITIES["entropy"], counts, 1)


def gini(counts: Any) -> Array:
    r"""Gini impurity of class counts: how often two random cases differ in class.

    .. math:: G = \sum_c p_c (1 - p_c) = 1 - \sum_c p_c^2

    Parameters
    ----------
    counts : array (..., class)
        Counts or weights.

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
    return _apply(IMPURITIES["gini"], counts, 1)


def error(counts: Any) -> Array:
    r"""Share of the cases outside the most frequent class.

    .. math:: E = 1 - \max_c p_c

    Parameters
    ----------
    counts : array (..., class)
        Counts or weights.

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
    return _apply(IMPURITIES["error"], counts, 1)


def information_gain(counts: Any) -> Array:
    r"""Reduction of the class entropy by a split, in bits.

    .. math:: I = H(C) - \sum_b p_{b.} H(C \mid b) = \sum_{bc} p_{bc} \log_2 \frac{p_{bc}}{p_{b.} p_{.c}}

    Parameters
    ----------
    counts : array (..., branch, class)
        Counts or weights.

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
    return _apply(MEASURES["entropy"], counts, 2)


def gain_ratio(counts: Any) -> Array:
    r"""Information gain divided by the information of the split itself.

    .. math:: I / H(B), \qquad H(B) = -\sum_b p_{b.} \log_2 p_{b.}

    Parameters
    ----------
    counts : array (..., branch, class)
        Counts or weights.

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
    return _apply(MEASURES["gain_ratio"], counts, 2)


def symmetric_gain_ratio(counts: Any, *, normalization: Literal["joint", "sum"] = "joint") -> Array:
    r"""Information gain divided by a term in which branch and class have equal rights.

    .. math:: I / H(B, C) \quad\text{("joint")}, \qquad I / (H(B) + H(C)) \quad\text{("sum")}

    Parameters
    ----------
    counts : array (..., branch, class)
        Counts or weights.
    normalization : {"joint", "sum"}
        The divisor: the entropy of the cells, or the sum of the two marginal entropies.

    Returns
    -------
    array (...)
        From 0 (independent) to 1 ("joint") or 1/2 ("sum") where branch and class determine each other.

    References
    ----------
    R. López de Mántaras, "A distance-based attribute selection measure for decision tree induction",
    Machine Learning 6, 1991; C. Borgelt, R. Kruse, "Evaluation measures for learning probabilistic and
    possibilistic networks", 1997.

    Examples
    --------
    >>> from arraylearn import measures
    >>> float(measures.symmetric_gain_ratio([[3, 0], [0, 5]]).round(4))
    1.0
    >>> float(measures.symmetric_gain_ratio([[3, 0], [0, 5]], normalization="sum").round(4))
    0.5
    """
    names = {"joint": "symmetric_gain_ratio", "sum": "symmetric_gain_ratio_sum"}
    if normalization not in names:
        raise refuse("normalization", "must be 'joint' or 'sum'", repr(normalization))
    return _apply(MEASURES[names[normalization]], counts, 2)


def chi2(counts: Any) -> Array:
    r"""Pearson's statistic for the independence of branch and class.

    .. math:: \chi^2 = \sum_{bc} \frac{(n_{bc} - e_{bc})^2}{e_{bc}}, \qquad e_{bc} = n_{b.} n_{.c} / n_{..}

    Parameters
    ----------
    counts : array (..., branch, class)
        Counts or weights.

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
    return _apply(MEASURES["chi2"], counts, 2)


def gini_gain(counts: Any) -> Array:
    r"""Reduction of the Gini impurity by a split.

    .. math:: G(C) - \sum_b p_{b.} G(C \mid b)

    Parameters
    ----------
    counts : array (..., branch, class)
        Counts or weights.

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
    return _apply(MEASURES["gini"], counts, 2)


def error_gain(counts: Any) -> Array:
    r"""Reduction of the training error by a split.

    .. math:: E(C) - \sum_b p_{b.} E(C \mid b)

    Parameters
    ----------
    counts : array (..., branch, class)
        Counts or weights.

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
    return _apply(MEASURES["error"], counts, 2)


def accuracy(counts: Any) -> Array:
    r"""Rate of correctly classified cases when each branch predicts its most frequent class.

    .. math:: \sum_b \max_c n_{bc} / n_{..}

    Parameters
    ----------
    counts : array (..., branch, class)
        Counts or weights.

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
    return _apply(MEASURES["accuracy"], counts, 2)
