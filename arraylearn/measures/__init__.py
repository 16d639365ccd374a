r"""Impurities and split measures on tables of counts.

A table ``counts[..., branch, class]`` holds how many cases (or how much weight) of each class went down each
branch of a split; leading axes hold any number of tables. Write :math:`n_{bc}` for its cells and a dot for a
sum, :math:`p_{bc} = n_{bc} / n_{..}`. Branches and classes may be empty, and tables all zero: values that are
undefined there are 0.

The functions here take arrays of any library, or lists. The kernels behind them, with their formulas, stand
in `count_measures` and in the tables `IMPURITIES` and `MEASURES`; they take the namespace and a float array,
and never sync with the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from arraylearn._typing import Array
from arraylearn.backend.namespace import as_float, move
from arraylearn.backend.selector import find_places
from arraylearn.checks import refuse
from arraylearn.measures import count_measures
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


def _public(kernel: Measure, axes: str) -> Callable[[Any], Array]:
    """Make the function for users of a kernel: of any library, with its docstring."""

    def measure(counts: Any) -> Array:
        home, place = find_places(counts)
        table = as_float(counts, place)
        if table.ndim <= axes.count(","):
            raise refuse("counts", f"must have the axes (..., {axes})", f"an array of {table.ndim} axes")
        return move(kernel(place.xp, table), home)

    head, returns, rest = (kernel.__doc__ or "").partition("    Returns\n")  # empty under -OO
    measure.__doc__ = head + _PARAMETERS.format(axes=axes) + returns + rest
    measure.__name__ = measure.__qualname__ = kernel.__name__
    return measure


_PARAMETERS = """\
    Parameters
    ----------
    counts : array (..., {axes})
        Counts or weights; need not sum to 1.

"""
_BRANCHES = "branch, class"

entropy = _public(count_measures.entropy, "class")
gini = _public(count_measures.gini, "class")
error = _public(count_measures.error, "class")
information_gain = _public(count_measures.information_gain, _BRANCHES)
gain_ratio = _public(count_measures.gain_ratio, _BRANCHES)
chi2 = _public(count_measures.chi2, _BRANCHES)
gini_gain = _public(count_measures.gini_gain, _BRANCHES)
error_gain = _public(count_measures.error_gain, _BRANCHES)
accuracy = _public(count_measures.accuracy, _BRANCHES)


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
    return _public(MEASURES[names[normalization]], _BRANCHES)(counts)
