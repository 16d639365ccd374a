"""Pruning by description length: the tree that takes the fewest bits, its exceptions included."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host, locate, to_host
from arraylearn.grow.cut import count_errors
from arraylearn.grow.trees import LEAF, NOMINAL, NUMERIC, Trees
from arraylearn.tree.pruning.levels import choose_cuts, read_bounds

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


def leaf_bits(xp: Namespace, counts: Array) -> Array:
    """Bits (t,) to state a leaf with class weights (t, c): that it is one, its class, its exceptions."""
    n_classes = counts.shape[-1]
    total, errors = xp.sum(counts, axis=-1), count_errors(xp, counts)
    which_rows = xp.log2(total + 1) + _log2_choose(xp, total, errors)
    return 1 + math.log2(n_classes) + which_rows + errors * math.log2(max(n_classes - 1, 1))


def split_bits(place: Place, tree: Trees, n_values: Sequence[int]) -> Array:
    """Bits (t,) to state a split: that it is one, its column, its threshold or its set of categories."""
    xp, dtype = place.xp, accumulator_dtype(place)
    total = xp.astype(xp.sum(tree.counts, axis=-1), dtype)
    threshold = xp.log2(xp.maximum(total - 1, xp.ones_like(total)))
    widths = from_host([float(max(n - 1, 0)) for n in n_values], place, dtype)
    column = xp.where(tree.feature == LEAF, 0, tree.feature)
    subset = xp.take(widths, xp.astype(column, xp.int64), axis=0)
    # one branch per category needs no set
    kind = tree.kind
    is_subset = (kind == NOMINAL) & (xp.astype(tree.n_branches, dtype) < subset + 1)
    more = xp.where(kind == NUMERIC, threshold, xp.where(is_subset, subset, 0.0))
    return 1 + math.log2(len(n_values)) + more


def _log2_choose(xp: Namespace, n: Array, k: Array) -> Array:
    """Binary logarithm of the number of sets of k among n, also for n and k that are not integers."""
    return (_log_gamma(xp, n + 1) - _log_gamma(xp, k + 1) - _log_gamma(xp, n - k + 1)) / math.log(2)


def _log_gamma(xp: Namespace, x: Array) -> Array:
    """Logarithm of the gamma function from 1 on: Stirling's series at x + 7 (error below 1e-10)."""
    product = x
    for step in range(1, 7):
        product = product * (x + step)
    y = x + 7
    series = 1 / (12 * y) - 1 / (360 * y * y * y) + 1 / (1260 * y * y * y * y * y)
    return (y - 0.5) * xp.log(y) - y + 0.5 * math.log(2 * math.pi) + series - xp.log(product)


def mdl_cuts(tree: Trees, n_values: Sequence[int]) -> HostArray:
    """Choose the nodes (t,) that become leaves, on the host."""
    place = locate(tree.feature)
    if not n_values or any(n < 0 for n in n_values):
        raise ValueError(f"`n_values` must have a number of at least 0 for each column; got {n_values!r}.")
    xp = place.xp
    leaf = leaf_bits(xp, xp.astype(tree.counts, accumulator_dtype(place)))
    return to_host(choose_cuts(xp, tree, read_bounds(tree), leaf, split_bits(place, tree, n_values)))
