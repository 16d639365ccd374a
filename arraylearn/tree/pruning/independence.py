"""Chi-square test: a split that chance alone could explain is cut, with all nodes below it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.arrays.segments import segment_sum
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host, locate, to_host
from arraylearn.checks import check_number
from arraylearn.grow.trees import Trees

__all__ = ["ChiSquare", "chi2_cuts", "chi2_statistics"]


@dataclass(frozen=True)
class ChiSquare:
    r"""Cut the splits whose branches are not significantly associated with the classes.

    .. math:: \chi^2 = \sum_{b, c} \frac{(n_{bc} - n_b n_c / n)^2}{n_b n_c / n}
              \quad\text{with } (B - 1)(C - 1) \text{ degrees of freedom}

    As the branches of a tree grow independently of each other, this is the tree that growth would have given
    had it stopped at such splits.

    Parameters
    ----------
    significance : float
        In (0, 1): a split stays where the probability of such a table by chance is below it.

    References
    ----------
    J. R. Quinlan, "Induction of decision trees", Machine Learning 1, 1986, section 4.

    Examples
    --------
    >>> from arraylearn import DecisionTreeClassifier
    >>> from arraylearn.tree.pruning import ChiSquare, prune
    >>> tree = DecisionTreeClassifier().fit([[1], [2], [3], [4], [5], [6]], [0, 0, 0, 1, 1, 1]).tree_
    >>> prune(tree, ChiSquare(0.05)).n_nodes, prune(tree, ChiSquare(0.01)).n_nodes
    (3, 1)
    """

    significance: float = 0.05

    def __post_init__(self) -> None:
        check_number("significance", self.significance, 0, 1, closed="neither")


def chi2_statistics(xp: Namespace, tree: Trees) -> tuple[Array, Array]:
    """Chi-square statistic and degrees of freedom (t,) of the splits; 0 for leaves.

    Branches without rows, and classes that the node does not have, are left out.
    """
    t = tree.n_nodes
    parent = xp.astype(tree.parent[1:], xp.int64)
    counts, above = tree.counts[1:, :], xp.take(tree.counts, parent, axis=0)
    size = xp.sum(counts, axis=1)
    expected = above * xp.where(size > 0, size, xp.ones_like(size))[:, None]
    cells = xp.where(expected > 0, counts * counts / xp.where(expected > 0, expected, 1.0), 0.0)
    branches = xp.astype(size > 0, counts.dtype)
    summed = segment_sum(xp, xp.stack((xp.sum(cells, axis=1), branches), axis=1), parent, t)
    total = xp.astype(xp.sum(tree.counts, axis=1), summed.dtype)
    n_classes = xp.sum(xp.astype(tree.counts > 0, summed.dtype), axis=1)
    is_inner = ~tree.is_leaf
    statistic = xp.where(is_inner, total * (summed[:, 0] - 1), 0.0)
    freedom = xp.where(is_inner, (summed[:, 1] - 1) * (n_classes - 1), 0.0)
    return statistic, freedom


def _critical_values(place: Place, tree: Trees, significance: float) -> Array:
    """Critical values of statistics of 0, 1, 2, ... degrees of freedom; 0 for none."""
    from scipy.special import chdtri

    widest = int(to_host(place.xp.max(tree.n_branches)))
    freedom = np.arange(1, max(widest - 1, 1) * max(tree.n_classes - 1, 1) + 1, dtype=np.float64)
    values = np.concat((np.zeros(1), chdtri(freedom, significance)))
    return from_host(values, place, accumulator_dtype(place))


def chi2_cuts(tree: Trees, pruning: ChiSquare) -> HostArray:
    """Choose the nodes (t,) that become leaves, on the host."""
    place = locate(tree.feature)
    xp = place.xp
    statistic, freedom = chi2_statistics(xp, tree)
    values = _critical_values(place, tree, pruning.significance)
    critical = xp.take(values, xp.astype(freedom, xp.int64), axis=0)
    return to_host(~tree.is_leaf & (xp.astype(statistic, critical.dtype) <= critical))
