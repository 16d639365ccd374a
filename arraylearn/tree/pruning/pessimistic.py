"""Pessimistic pruning: some errors are added to those of every leaf."""

from __future__ import annotations

from dataclasses import dataclass, field

from arraylearn._typing import HostArray
from arraylearn.checks import check_flag, check_number
from arraylearn.grow.cut import count_errors
from arraylearn.grow.trees import Trees
from arraylearn.tree.pruning.levels import choose_cuts

__all__ = ["Pessimistic", "charged_errors", "pessimistic_cuts"]


@dataclass(frozen=True)
class Pessimistic:
    r"""Cut a subtree where a leaf has no more errors, with r errors added to each leaf.

    .. math:: e(t) + r \le \sum_{u \in \mathrm{leaves}(t)} \bigl(e(u) + r\bigr)

    Subtrees are judged from the leaves up, after those below them are pruned.

    Parameters
    ----------
    penalty : float
        r, at least 0; 0 cuts only what makes no fewer errors on the training rows.
    raising : bool
        Whether a node may also be replaced by its largest branch, as in C4.5.

    References
    ----------
    J. R. Quinlan, "Simplifying decision trees", Int. J. Man-Machine Studies 27, 1987.

    Examples
    --------
    >>> from arraylearn import DecisionTreeClassifier
    >>> from arraylearn.tree.pruning import Pessimistic, prune
    >>> tree = DecisionTreeClassifier().fit([[1], [2], [3], [4], [5]], [0, 0, 1, 0, 0]).tree_
    >>> tree.n_nodes, prune(tree, Pessimistic(1.0)).n_nodes
    (5, 1)
    """

    penalty: float = 0.5
    raising: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_number("penalty", self.penalty, 0)
        check_flag("raising", self.raising)


def charged_errors(counts: HostArray, *, penalty: float) -> HostArray:
    """Return the errors (t,) of nodes with class weights (t, c) as leaves, with `penalty` added to each."""
    return count_errors(counts) + penalty


def pessimistic_cuts(tree: Trees, pruning: Pessimistic) -> HostArray:
    """Choose the nodes (t,) of a host tree that become leaves."""
    return choose_cuts(tree, charged_errors(tree.counts, penalty=pruning.penalty))
