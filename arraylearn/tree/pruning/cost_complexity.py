"""Cost-complexity pruning: the nested trees that are best for each price of a leaf."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.namespace import Place, accumulator_dtype, locate
from arraylearn.backend.transfer import read_together
from arraylearn.tree.cut import cut_at
from arraylearn.tree.nodes import LEAF, Tree
from arraylearn.tree.pruning.checks import check_choice, check_not_negative, check_tree
from arraylearn.tree.pruning.errors import count_errors
from arraylearn.tree.pruning.levels import read_bounds
from arraylearn.tree.pruning.weakest_link import Links, weakest_links

__all__ = ["CostComplexityPath", "cost_complexity_path", "prune_cost_complexity"]

Risk = Literal["impurity", "error"]


class CostComplexityPath(NamedTuple):
    """The nested trees, from the whole tree to the root alone: arrays (k,) on the host."""

    ccp_alphas: Any  # ascending, the first one 0: from there on the tree is the best
    impurities: Any  # of the leaves together; their error for ``risk="error"``
    n_leaves: Any
    n_nodes: Any


def node_risk(place: Place, tree: Tree, risk: Risk) -> Array:
    """Risk (t,) of each node as a leaf, as a share of all rows: impurity or errors."""
    check_choice("risk", risk, ("impurity", "error"))
    xp, dtype = place.xp, accumulator_dtype(place)
    counts = xp.astype(tree.counts, dtype)
    weight = xp.sum(counts, axis=1)
    total = xp.where(weight[:1] > 0, weight[:1], xp.ones_like(weight[:1]))
    if risk == "error":
        return count_errors(xp, counts) / total
    return xp.astype(tree.impurity, dtype) * weight / total


def cost_complexity_path(tree: Tree, *, risk: Risk = "impurity") -> CostComplexityPath:
    r"""Find all trees that are the smallest of least :math:`R(T) + \alpha |T|` for some price of a leaf.

    Parameters
    ----------
    tree : Tree
        A grown tree.
    risk : {"impurity", "error"}
        R: the impurity of the leaves by their weight, or the rate of errors on the training rows.

    Returns
    -------
    CostComplexityPath
        As scikit-learn's ``cost_complexity_pruning_path``, except that prices do not repeat: links of one
        price go together.

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
    place = locate(check_tree(tree).kind)
    cost = node_risk(place, tree, risk)
    links = weakest_links(place, tree, len(read_bounds(tree)) - 1, cost)
    return path_of_links(place, tree, links, cost)


def path_of_links(place: Place, tree: Tree, links: Links, cost: Array) -> CostComplexityPath:
    """Sum the links up, weakest first, those of one price together; the host waits once."""
    xp = place.xp
    is_leaf = xp.where(tree.kind == LEAF, xp.ones_like(cost), xp.zeros_like(cost))
    alpha, *steps, risk, leaf = read_together(place, *links, cost, is_leaf)
    cut = np.nonzero(alpha < np.inf)[0]
    order = cut[np.argsort(alpha[cut], stable=True)]
    alpha = alpha[order]
    rounding = 64 * float(np.finfo(alpha.dtype).eps)
    is_last = np.ones(alpha.shape[0], dtype=np.bool)
    is_last[:-1] = alpha[1:] > alpha[:-1] * (1 + rounding) + rounding
    start = (np.sum(risk * leaf), np.sum(leaf), float(tree.n_nodes))
    signs = (1, -1, -1)
    columns = [
        np.concat((np.asarray([first]), first + sign * np.cumulative_sum(step[order])[is_last]))
        for first, sign, step in zip(start, signs, steps, strict=True)
    ]
    alphas = np.concat((np.zeros(1), np.astype(alpha[is_last], np.float64)))
    if alphas.shape[0] > 1 and alphas[1] <= rounding:  # splits that gain nothing go at once
        alphas, columns = alphas[1:], [column[1:] for column in columns]
        alphas[0] = 0.0
    risks, n_leaves, n_nodes = columns
    return CostComplexityPath(alphas, risks, np.astype(n_leaves, np.int64), np.astype(n_nodes, np.int64))


def prune_cost_complexity(tree: Tree, *, alpha: float, risk: Risk = "impurity") -> Tree:
    r"""Return the smallest subtree of least :math:`R(T) + \alpha |T|`.

    Parameters
    ----------
    tree : Tree
        A grown tree; it stays as it is.
    alpha : float
        Price of a leaf, at least 0.
    risk : {"impurity", "error"}
        R, as for `cost_complexity_path`.

    Returns
    -------
    Tree
        At the place of `tree`.

    Examples
    --------
    >>> from arraylearn import DecisionTreeClassifier
    >>> from arraylearn.tree.pruning import prune_cost_complexity
    >>> tree = DecisionTreeClassifier().fit([[1], [2], [3], [4], [5]], [0, 0, 1, 0, 0]).tree_
    >>> prune_cost_complexity(tree, alpha=0.1).n_nodes, prune_cost_complexity(tree, alpha=0.2).n_nodes
    (5, 1)
    """
    return cut_at(tree, cost_complexity_cuts(tree, alpha=alpha, risk=risk))


def cost_complexity_cuts(tree: Tree, *, alpha: float, risk: Risk = "impurity") -> Any:
    """Choose the nodes (t,) that `prune_cost_complexity` turns into leaves, on the host."""
    alpha = check_not_negative("alpha", alpha)
    place = locate(check_tree(tree).kind)
    links = weakest_links(place, tree, len(read_bounds(tree)) - 1, node_risk(place, tree, risk))
    (prices,) = read_together(place, links.alpha)
    rounding = 64 * float(np.finfo(prices.dtype).eps)
    return prices <= alpha * (1 + rounding) + rounding
