"""The price of a leaf, chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST, locate, to_host
from arraylearn.tree.nodes import LEAF, Tree, tree_on_host
from arraylearn.tree.pruning.cost_complexity import CostComplexityPath, Risk, node_risk
from arraylearn.tree.pruning.levels import least_above, read_bounds
from arraylearn.tree.pruning.reduced_error import held_out_errors
from arraylearn.tree.pruning.weakest_link import weakest_links

__all__ = ["AlphaChoice", "choose_alpha", "fold_errors"]


class AlphaChoice(NamedTuple):
    """A path with the errors of cross-validation: arrays (k,) on the host."""

    path: CostComplexityPath
    errors: Any  # share of the held-out rows that the trees of each price get wrong
    standard_errors: Any
    best: int  # position of the least error, the smallest tree among equals
    chosen: int  # position of the smallest tree whose error is no more than some standard errors above

    @property
    def alpha(self) -> float:
        """The chosen price."""
        return float(self.path.ccp_alphas[self.chosen])


def fold_errors(tree: Tree, held_out: Any, prices: Any, risk: Risk) -> Any:
    """Weight (k,) of the held-out rows that a tree gets wrong, pruned at each of the ascending prices (k,).

    A node is a leaf of the pruned tree from its own price on, up to the least price above it; so the errors
    of all prices are one running sum.

    Parameters
    ----------
    held_out : array (t, c)
        Held-out rows by node and class, from `node_counts`.
    """
    place, bounds = locate(tree.kind), read_bounds(tree)
    links = weakest_links(place, tree, len(bounds) - 1, node_risk(place, tree, risk))
    old = tree_on_host(tree)
    own = np.astype(to_host(links.alpha), np.float64)
    above = least_above(HOST.xp, old.parent, bounds, own, np.inf)
    begin = np.where(old.kind == LEAF, -np.inf, own)
    errors = held_out_errors(HOST.xp, old.probability, np.astype(to_host(held_out), np.float64))
    errors = np.where(begin < above, errors, 0.0)
    first, end = (np.searchsorted(prices, price, side="left") for price in (begin, above))
    n = prices.shape[0] + 1
    change = histogram(HOST.xp, first, n, errors) - histogram(HOST.xp, end, n, errors)
    return np.cumulative_sum(change)[:-1]


def choose_alpha(
    path: CostComplexityPath, folds: Sequence[tuple[Tree, Any]], *, risk: Risk, standard_errors: float = 1.0
) -> AlphaChoice:
    r"""Choose the price of a leaf as rpart does.

    Each tree of the path stands for the prices up to the next one, and is judged at their geometric mean
    :math:`\sqrt{\alpha_k \alpha_{k+1}}`, the root alone at infinity. The smallest tree is chosen whose error
    is at most `standard_errors` standard errors, :math:`\sqrt{p (1 - p) / n}`, above the least.

    Parameters
    ----------
    path : CostComplexityPath
        Of the tree grown from all rows.
    folds : sequence of (Tree, array (t, c))
        Trees grown without the rows of a fold, and those rows by node and class.

    References
    ----------
    L. Breiman et al., Classification and Regression Trees, 1984, section 3.4; T. Therneau, E. Atkinson, "An
    introduction to recursive partitioning using the RPART routines", section 4.
    """
    alphas = path.ccp_alphas
    # finite, for what never ends ends at infinity
    last = np.asarray([float(np.finfo(alphas.dtype).max)])
    prices = np.concat((np.sqrt(alphas[:-1] * alphas[1:]), last))
    wrong = sum(fold_errors(tree, held_out, prices, risk) for tree, held_out in folds)
    total = sum(float(np.sum(to_host(held_out)[0])) for _, held_out in folds)
    rate = np.clip(wrong / total, 0.0, 1.0)
    spread = np.sqrt(rate * (1 - rate) / total)
    least = float(np.min(rate))
    best = int(np.nonzero(rate <= least + 1e-12)[0][-1])
    limit = least + standard_errors * float(spread[best]) + 1e-12
    chosen = int(np.nonzero(rate <= limit)[0][-1])
    return AlphaChoice(path, rate, spread, best, chosen)
