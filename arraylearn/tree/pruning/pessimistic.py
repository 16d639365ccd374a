"""Pessimistic pruning: some errors are added to those of every leaf."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import locate, to_host
from arraylearn.checks import check_flag, check_number
from arraylearn.grow.cut import count_errors, cut_at
from arraylearn.grow.trees import Trees, check_tree
from arraylearn.tree.pruning.levels import choose_cuts, read_bounds

__all__ = ["Pessimistic", "charged_errors", "pessimistic_cuts", "prune_pessimistic"]


@dataclass(frozen=True)
class Pessimistic:
    """Prune by the training errors and some more for each leaf: `prune_pessimistic`.

    Parameters
    ----------
    penalty : float
        Errors added to each leaf, at least 0.
    raising : bool
        Whether a node may also be replaced by its largest branch, as in C4.5.
    """

    penalty: float = 0.5
    raising: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_number("penalty", self.penalty, 0)
        check_flag("raising", self.raising)


def charged_errors(xp: Namespace, counts: Array, *, penalty: float) -> Array:
    """Errors (t,) of nodes with class weights (t, c) as leaves, with `penalty` added to each."""
    return count_errors(xp, counts) + penalty


def prune_pessimistic(tree: Trees, *, penalty: float = 0.5) -> Trees:
    r"""Cut a subtree where a leaf has no more errors, with r errors added to each leaf.

    .. math:: e(t) + r \le \sum_{u \in \mathrm{leaves}(t)} \bigl(e(u) + r\bigr)

    Parameters
    ----------
    tree : Trees
        A grown tree; it stays as it is.
    penalty : float
        r, at least 0; 0 cuts only what makes no fewer errors on the training rows.

    Returns
    -------
    Trees
        At the place of `tree`. Subtrees are judged from the leaves up, after those below them are pruned.

    References
    ----------
    J. R. Quinlan, "Simplifying decision trees", Int. J. Man-Machine Studies 27, 1987.

    Examples
    --------
    >>> from arraylearn import DecisionTreeClassifier
    >>> from arraylearn.tree.pruning import prune_pessimistic
    >>> tree = DecisionTreeClassifier().fit([[1], [2], [3], [4], [5]], [0, 0, 1, 0, 0]).tree_
    >>> tree.n_nodes, prune_pessimistic(tree, penalty=1.0).n_nodes
    (5, 1)
    """
    return cut_at(tree, pessimistic_cuts(tree, penalty=penalty))


def pessimistic_cuts(tree: Trees, *, penalty: float = 0.5) -> Any:
    """Choose the nodes (t,) that `prune_pessimistic` turns into leaves, on the host."""
    check_number("penalty", penalty, 0)
    xp = locate(check_tree(tree).feature).xp
    cost = charged_errors(xp, tree.counts, penalty=penalty)
    return to_host(choose_cuts(xp, tree, read_bounds(tree), cost))
