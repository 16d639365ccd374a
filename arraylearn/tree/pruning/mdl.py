"""Pruning by description length: the tree that takes the fewest bits, its exceptions included."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from arraylearn._typing import HostArray
from arraylearn.grow.cut import count_errors
from arraylearn.grow.trees import LEAF, NOMINAL, NUMERIC, Trees
from arraylearn.tree.pruning.levels import choose_cuts

__all__ = ["DescriptionLength", "leaf_bits", "mdl_cuts", "split_bits"]


@dataclass(frozen=True)
class DescriptionLength:
    r"""Cut a subtree where a leaf and its exceptions take no more bits to describe.

    A leaf of n rows, e of them outside its class, costs

    .. math:: 1 + \log_2 c + \log_2 (n + 1) + \log_2 \tbinom{n}{e} + e \log_2 (c - 1)

    bits (that it is a leaf, its class, how many exceptions, which rows, which other class); a split costs

    .. math:: 1 + \log_2 d + s, \qquad s = \begin{cases} \log_2 (n - 1) & \text{threshold} \\
              v - 1 & \text{v categories in two sets} \\ 0 & \text{one branch per category} \end{cases}

    No other pruned subtree has a shorter description.

    References
    ----------
    J. R. Quinlan, R. L. Rivest, "Inferring decision trees using the minimum description length principle",
    Information and Computation 80, 1989; M. Mehta, J. Rissanen, R. Agrawal, "MDL-based decision tree
    pruning", KDD 1995.

    Examples
    --------
    >>> from arraylearn import DecisionTreeClassifier
    >>> from arraylearn.tree.pruning import DescriptionLength, prune
    >>> tree = DecisionTreeClassifier().fit([[1], [2], [3], [4], [5]], [0, 0, 1, 0, 0]).tree_
    >>> tree.n_nodes, prune(tree, DescriptionLength(), n_values=[0]).n_nodes
    (5, 1)
    """


def leaf_bits(counts: HostArray) -> HostArray:
    """Return the bits (t,) of a leaf with class weights (t, c): that it is one, its class, its exceptions."""
    n_classes = counts.shape[-1]
    total, errors = np.sum(counts, axis=-1), count_errors(counts)
    # the number of sets of exceptions, also for weights that are not integers
    sets = gammaln(total + 1) - gammaln(errors + 1) - gammaln(total - errors + 1)
    which_rows = np.log2(total + 1) + sets / math.log(2)
    bits: HostArray = 1 + math.log2(n_classes) + which_rows + errors * math.log2(max(n_classes - 1, 1))
    return bits


def split_bits(tree: Trees, n_values: Sequence[int]) -> HostArray:
    """Return the bits (t,) of a split: that it is one, its column, its threshold or its set of categories."""
    threshold = np.log2(np.maximum(np.sum(tree.counts, axis=-1) - 1, 1))
    column = np.where(tree.feature == LEAF, 0, tree.feature)
    subset = np.asarray([max(n - 1, 0) for n in n_values])[column]
    # one branch per category needs no set
    is_subset = (tree.kind == NOMINAL) & (tree.n_branches < subset + 1)
    more = np.where(tree.kind == NUMERIC, threshold, np.where(is_subset, subset, 0.0))
    return 1 + math.log2(len(n_values)) + more


def mdl_cuts(tree: Trees, n_values: Sequence[int]) -> HostArray:
    """Choose the nodes (t,) of a host tree that become leaves."""
    if not n_values or any(n < 0 for n in n_values):
        raise ValueError(f"`n_values` must have a number of at least 0 for each column; got {n_values!r}.")
    return choose_cuts(tree, leaf_bits(tree.counts), split_bits(tree, n_values))
