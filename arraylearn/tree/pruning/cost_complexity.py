"""Cost-complexity pruning: the nested trees that are best for each price of a leaf, and a price for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST
from arraylearn.checks import check_choice, check_integer, check_number
from arraylearn.grow.cut import count_errors
from arraylearn.grow.trees import Trees, check_tree, tree_on_host
from arraylearn.tree.pruning.levels import least_above
from arraylearn.tree.pruning.reduced_error import held_out_errors
from arraylearn.tree.pruning.weakest_link import Links, weakest_links

__all__ = [
    "AlphaChoice",
    "CostComplexity",
    "CostComplexityPath",
    "Risk",
    "choose_alpha",
    "cost_complexity_cuts",
    "cost_complexity_path",
    "fold_errors",
]

Risk = Literal["impurity", "error"]

# Prices that differ by less than this, and as a share, are equal.
_ROUNDING = 64 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class CostComplexity:
    r"""Prune the weakest links: the smallest subtree of least :math:`R(T) + \alpha |T|` is left.

    Parameters
    ----------
    alpha : float, optional
        Price of a leaf, at least 0; None: chosen by cross-validation as rpart does.
    risk : {"impurity", "error"}
        R, to which the price of the leaves is added, as for `cost_complexity_path`.
    folds : int
        Folds of that cross-validation.
    standard_errors : float
        The smallest tree is taken whose error is at most so many standard errors above the least.

    Examples
    --------
    >>> from arraylearn import DecisionTreeClassifier
    >>> from arraylearn.tree.pruning import CostComplexity, prune
    >>> tree = DecisionTreeClassifier().fit([[1], [2], [3], [4], [5]], [0, 0, 1, 0, 0]).tree_
    >>> prune(tree, CostComplexity(0.1)).n_nodes, prune(tree, CostComplexity(0.2)).n_nodes
    (5, 1)
    """

    alpha: float | None = None
    risk: Risk = field(default="impurity", kw_only=True)
    folds: int = field(default=10, kw_only=True)
    standard_errors: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, 0, optional=True)
        check_choice("risk", self.risk, ("impurity", "error"))
        check_integer("folds", self.folds, 2)
        check_number("standard_errors", self.standard_errors, 0)


class CostComplexityPath(NamedTuple):
    """The nested trees, from the whole tree to the root alone: arrays (k,) on the host."""

    ccp_alphas: HostArray  # ascending from 0: the price from which on each tree is the best one
    impurities: HostArray  # of the leaves together; their error for ``risk="error"``
    n_leaves: HostArray  # of each tree
    n_nodes: HostArray


class AlphaChoice(NamedTuple):
    """A path with the errors of cross-validation: arrays (k,) on the host."""

    path: CostComplexityPath
    errors: HostArray  # share of the held-out rows that the trees of each price get wrong
    standard_errors: HostArray  # of these shares
    best: int  # position of the least error, the smallest tree among equals
    chosen: int  # position of the smallest tree whose error is no more than some standard errors above

    @property
    def alpha(self) -> float:
        """The chosen price."""
        return float(self.path.ccp_alphas[self.chosen])


def _find_links(tree: Trees, risk: Risk) -> tuple[Links, HostArray]:
    """Return the links of a host tree, and the risk (t,) of each node as a leaf, as a share of all rows."""
    check_choice("risk", risk, ("impurity", "error"))
    weight = np.sum(tree.counts, axis=1)
    cost = count_errors(tree.counts) if risk == "error" else tree.impurity * weight
    cost = np.astype(cost / (weight[0] if weight[0] > 0 else 1.0), np.float64)
    return weakest_links(tree, cost), cost


def cost_complexity_path(tree: Trees, *, risk: Risk = "impurity") -> CostComplexityPath:
    r"""Find all trees that are the smallest of least :math:`R(T) + \alpha |T|` for some price of a leaf.

    Parameters
    ----------
    tree : Trees
        A grown tree.
    risk : {"impurity", "error"}
        R: the impurity of the leaves by their weight, or the rate of errors on the training rows.

    Returns
    -------
    CostComplexityPath
        As scikit-learn's ``cost_complexity_pruning_path``, except that prices do not repeat: all links of
        one price are cut in one step.

    References
    ----------
    L. Breiman, J. Friedman, R. Olshen, C. Stone, Classification and Regression Trees, 1984, chapter 3.

    Examples
    --------
    >>> from arraylearn import DecisionTreeClassifier
    >>> from arraylearn.tree.pruning import cost_complexity_path
    >>> tree = DecisionTreeClassifier().fit([[1], [2], [3], [4], [5]], [0, 0, 1, 0, 0]).tree_
    >>> path = cost_complexity_path(tree)
    >>> path.ccp_alphas.tolist(), path.n_leaves.tolist()
    ([0.0, 0.16], [3, 1])
    """
    tree = tree_on_host(check_tree(tree))
    (alpha, *steps), cost = _find_links(tree, risk)
    # the links are summed up, weakest first, those of one price together
    cut = np.nonzero(alpha < np.inf)[0]
    order = cut[np.argsort(alpha[cut], stable=True)]
    alpha = alpha[order]
    is_last = np.ones(alpha.shape[0], dtype=np.bool)
    is_last[:-1] = alpha[1:] > alpha[:-1] * (1 + _ROUNDING) + _ROUNDING
    start = (np.sum(cost[tree.is_leaf]), np.sum(tree.is_leaf), float(tree.n_nodes))
    signs = (1, -1, -1)
    columns = [
        np.concat((np.asarray([first]), first + sign * np.cumulative_sum(step[order])[is_last]))
        for first, sign, step in zip(start, signs, steps, strict=True)
    ]
    alphas = np.concat((np.zeros(1), alpha[is_last]))
    if alphas.shape[0] > 1 and alphas[1] <= _ROUNDING:  # splits that gain nothing are pruned at any price
        alphas, columns = alphas[1:], [column[1:] for column in columns]
        alphas[0] = 0.0
    risks, n_leaves, n_nodes = columns
    return CostComplexityPath(alphas, risks, np.astype(n_leaves, np.int64), np.astype(n_nodes, np.int64))


def cost_complexity_cuts(tree: Trees, *, alpha: float, risk: Risk = "impurity") -> HostArray:
    """Choose the nodes (t,) of a host tree that become leaves where a leaf has this price."""
    links, _ = _find_links(tree, risk)
    return links.alpha <= alpha * (1 + _ROUNDING) + _ROUNDING


# ---- the price chosen by cross-validation


def fold_errors(tree: Trees, held_out: HostArray, prices: HostArray, risk: Risk) -> HostArray:
    """Weigh the held-out rows (k,) that a host tree gets wrong, pruned at each of the ascending prices (k,).

    A node is a leaf of the pruned tree from its own price on, up to the least price of the nodes above it; so
    the errors of all prices are one running sum.

    Parameters
    ----------
    held_out : array (t, c)
        Held-out rows by node and class, from `node_counts`.
    """
    links, _ = _find_links(tree, risk)
    above = least_above(tree, links.alpha, np.inf)
    begin = np.where(tree.is_leaf, -np.inf, links.alpha)
    errors = np.where(begin < above, held_out_errors(tree.probability, held_out), 0.0)
    first, end = (np.searchsorted(prices, price, side="left") for price in (begin, above))
    n = prices.shape[0] + 1
    change = histogram(HOST.xp, first, n, errors) - histogram(HOST.xp, end, n, errors)
    return np.cumulative_sum(change)[:-1]


def choose_alpha(
    path: CostComplexityPath,
    folds: Sequence[tuple[Trees, HostArray]],
    *,
    risk: Risk,
    standard_errors: float = 1.0,
) -> AlphaChoice:
    r"""Choose the price of a leaf as rpart does.

    Each tree of the path stands for the prices up to the next one, and is judged at their geometric mean
    :math:`\sqrt{\alpha_k \alpha_{k+1}}`, the root alone at infinity. The smallest tree is chosen whose error
    is at most `standard_errors` standard errors, :math:`\sqrt{p (1 - p) / n}`, above the least.

    Parameters
    ----------
    path : CostComplexityPath
        Of the tree grown from all rows.
    folds : sequence of (Trees, array (t, c))
        Host trees grown without the rows of a fold, and those rows by node and class.

    References
    ----------
    L. Breiman et al., Classification and Regression Trees, 1984, section 3.4; T. Therneau, E. Atkinson, "An
    introduction to recursive partitioning using the RPART routines", section 4.
    """
    alphas = path.ccp_alphas
    # finite: nodes that no price prunes have the price infinity
    last = np.asarray([float(np.finfo(alphas.dtype).max)])
    prices = np.concat((np.sqrt(alphas[:-1] * alphas[1:]), last))
    wrong = sum(fold_errors(tree, held_out, prices, risk) for tree, held_out in folds)
    total = sum(float(np.sum(held_out[0])) for _, held_out in folds)
    rate = np.clip(wrong / total, 0.0, 1.0)
    spread = np.sqrt(rate * (1 - rate) / total)
    least = float(np.min(rate))
    best = int(np.nonzero(rate <= least + 1e-12)[0][-1])
    limit = least + standard_errors * float(spread[best]) + 1e-12
    chosen = int(np.nonzero(rate <= limit)[0][-1])
    return AlphaChoice(path, rate, spread, best, chosen)
