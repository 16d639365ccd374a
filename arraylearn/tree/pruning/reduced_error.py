"""Reduced-error pruning: a subtree stays only if it makes fewer errors on held-out rows than a leaf."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.checks import check_flag, check_number
from arraylearn.grow.trees import Trees
from arraylearn.tree.pruning.levels import choose_cuts

__all__ = ["ReducedError", "held_out_errors", "reduced_error_cuts"]


@dataclass(frozen=True)
class ReducedError:
    """Cut a subtree where a leaf makes no more errors on rows that the tree was not grown from.

    Subtrees are judged from the leaves up, after those below them are pruned; one that no held-out row
    reaches is cut.

    Parameters
    ----------
    validation_fraction : float
        Share of the rows held out, in (0, 1), where `fit` is given none.
    raising : bool
        Whether a node may also be replaced by its largest branch, as in C4.5.

    References
    ----------
    J. R. Quinlan, "Simplifying decision trees", Int. J. Man-Machine Studies 27, 1987.

    Examples
    --------
    >>> from arraylearn import DecisionTreeClassifier
    >>> from arraylearn.tree.pruning import ReducedError, count_held_out, prune
    >>> model = DecisionTreeClassifier().fit([[1], [2], [3], [4], [5]], [0, 0, 1, 0, 0])
    >>> counts = count_held_out(model, [[1], [2.9], [3.2]], [0, 0, 0])
    >>> prune(model.tree_, ReducedError(), held_out=counts).n_nodes
    1
    """

    validation_fraction: float = 0.25
    raising: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_number("validation_fraction", self.validation_fraction, 0, 1, closed="neither")
        check_flag("raising", self.raising)


def held_out_errors(probability: HostArray, held_out: HostArray) -> HostArray:
    """Weigh the held-out rows (t,) that nodes as leaves get wrong: those outside the most probable class."""
    right = held_out[np.arange(held_out.shape[0]), np.argmax(probability, axis=-1)]
    errors: HostArray = np.sum(held_out, axis=-1) - right
    return errors


def reduced_error_cuts(tree: Trees, held_out: HostArray) -> HostArray:
    """Choose the nodes (t,) of a host tree that become leaves."""
    if held_out.shape != (tree.n_nodes, tree.n_classes):
        raise ValueError(
            f"`held_out` must have a row per node and a column per class, {tree.n_nodes, tree.n_classes}; "
            f"got the shape {held_out.shape}."
        )
    return choose_cuts(tree, held_out_errors(tree.probability, held_out))
