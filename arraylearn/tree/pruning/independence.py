"""Chi-square test: a split that chance alone could explain is cut, with all nodes below it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from arraylearn._typing import HostArray
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


def chi2_statistics(tree: Trees) -> tuple[HostArray, HostArray]:
    """Return chi-square statistic and degrees of freedom (t,) of each split of a host tree; 0 for leaves.

    Branches without rows, and classes that the node does not have, are left out.
    """
    parent, counts = tree.parent[1:], tree.counts[1:]
    size = np.sum(counts, axis=1)
    expected = tree.counts[parent] * np.where(size > 0, size, 1.0)[:, None]
    cells = np.where(expected > 0, counts * counts / np.where(expected > 0, expected, 1.0), 0.0)
    summed, n_branches = np.zeros((2, tree.n_nodes))
    np.add.at(summed, parent, np.sum(cells, axis=1))
    np.add.at(n_branches, parent, np.astype(size > 0, np.float64))
    n_classes = np.sum(tree.counts > 0, axis=1)
    statistic = np.where(tree.is_leaf, 0.0, np.sum(tree.counts, axis=1) * (summed - 1))
    return statistic, np.where(tree.is_leaf, 0.0, (n_branches - 1) * (n_classes - 1))


def chi2_cuts(tree: Trees, pruning: ChiSquare) -> HostArray:
    """Choose the nodes (t,) of a host tree that become leaves."""
    from scipy.special import chdtri

    statistic, freedom = chi2_statistics(tree)
    critical = np.where(freedom > 0, chdtri(np.maximum(freedom, 1), pruning.significance), 0.0)
    is_cut: HostArray = ~tree.is_leaf & (statistic <= critical)
    return is_cut
