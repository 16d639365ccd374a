"""Confidence pruning: a leaf is expected to make as many errors as its training errors leave possible."""

from __future__ import annotations

from typing import Any, Literal

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import locate, to_host
from arraylearn.tree.cut import cut_at
from arraylearn.tree.nodes import Tree
from arraylearn.tree.pruning.checks import check_choice, check_inside, check_tree
from arraylearn.tree.pruning.errors import c45_limit, count_errors, normal_limit
from arraylearn.tree.pruning.levels import choose_cuts, read_bounds

__all__ = ["LIMITS", "SLACK", "check_confidence", "confidence_cuts", "limited_errors", "prune_confidence"]

Limit = Literal["c45", "normal"]
LIMITS = {"c45": c45_limit, "normal": normal_limit}
# A leaf may have this many errors more than the subtree that it replaces.
SLACK = {"c45": 0.1, "normal": 1e-6}


def limited_errors(xp: Namespace, counts: Array, *, confidence: float, limit: Limit = "c45") -> Array:
    """Upper limit of the errors (t,) of nodes with class weights (t, c) as leaves."""
    return LIMITS[limit](xp, count_errors(xp, counts), xp.sum(counts, axis=-1), confidence)


def check_confidence(confidence: float, limit: Limit) -> float:
    """Refuse an unknown form of the limit, and a confidence outside of its range."""
    check_choice("limit", limit, tuple(LIMITS))
    if limit == "c45":
        return check_inside("confidence", confidence, 0, 0.5, closed=True)
    return check_inside("confidence", confidence, 0, 1)


def prune_confidence(tree: Tree, *, confidence: float = 0.25, limit: Limit = "c45") -> Tree:
    r"""Cut a subtree where a leaf is expected to make no more errors.

    The errors of a leaf are a sample of a binomial distribution; what is expected is the upper limit U of its
    mean: a leaf replaces a subtree where :math:`U(t) \le \sum_{u \in \mathrm{leaves}(t)} U(u)`.

    Parameters
    ----------
    tree : Tree
        A grown tree; it stays as it is.
    confidence : float
        For "c45" the probability (CF) that the error rate is above the limit, in (0, 0.5]: less of it prunes
        more. For "normal" the level of the two-sided interval, in (0, 1): more of it prunes more.
    limit : {"c45", "normal"}
        C4.5's limit, with its tolerance of 0.1 errors in favour of the leaf; or the plain normal
        approximation, with half an error added for continuity.

    Returns
    -------
    Tree
        At the place of `tree`.

    References
    ----------
    J. R. Quinlan, C4.5: Programs for Machine Learning, 1993.

    Examples
    --------
    >>> from arraylearn import DecisionTreeClassifier
    >>> from arraylearn.tree.pruning import prune_confidence
    >>> tree = DecisionTreeClassifier().fit([[1], [2], [3], [4], [5]], [0, 0, 1, 0, 0]).tree_
    >>> tree.n_nodes, prune_confidence(tree).n_nodes
    (5, 1)
    """
    return cut_at(tree, confidence_cuts(tree, confidence=confidence, limit=limit))


def confidence_cuts(tree: Tree, *, confidence: float = 0.25, limit: Limit = "c45") -> Any:
    """Choose the nodes (t,) that `prune_confidence` turns into leaves, on the host."""
    confidence = check_confidence(confidence, limit)
    xp = locate(check_tree(tree).kind).xp
    cost = limited_errors(xp, tree.counts, confidence=confidence, limit=limit)
    return to_host(choose_cuts(xp, tree, read_bounds(tree), cost, slack=SLACK[limit]))
