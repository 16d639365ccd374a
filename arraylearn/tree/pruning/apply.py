"""Pruning a grown tree, and growing and pruning in one step, as `fit` of a tree does where pruning is set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.namespace import locate, to_host
from arraylearn.checks import refuse
from arraylearn.grow.cut import cut_at
from arraylearn.grow.trees import Trees, check_tree, tree_at, tree_on_host
from arraylearn.measures import IMPURITIES
from arraylearn.measures.count_measures import Measure
from arraylearn.tree.pruning.confidence import SLACK, Confidence, confidence_cuts, limited_errors
from arraylearn.tree.pruning.cost_complexity import (
    AlphaChoice,
    CostComplexity,
    choose_alpha,
    cost_complexity_cuts,
    cost_complexity_path,
)
from arraylearn.tree.pruning.held_out import Sample, node_counts
from arraylearn.tree.pruning.independence import ChiSquare, chi2_cuts
from arraylearn.tree.pruning.mdl import DescriptionLength, mdl_cuts
from arraylearn.tree.pruning.pessimistic import Pessimistic, charged_errors, pessimistic_cuts
from arraylearn.tree.pruning.pruning_report import PruningReport, report_cuts, size_of
from arraylearn.tree.pruning.raising import Estimate, prune_and_raise
from arraylearn.tree.pruning.reduced_error import ReducedError, reduced_error_cuts

__all__ = ["PRUNINGS", "Pruned", "Pruning", "grow_and_prune", "prune"]

Pruning = ReducedError | Pessimistic | Confidence | DescriptionLength | CostComplexity | ChiSquare

# Names that `pruning` accepts, and the objects they stand for.
PRUNINGS: dict[str, type[Pruning]] = {
    "chi2": ChiSquare,
    "confidence": Confidence,
    "cost_complexity": CostComplexity,
    "mdl": DescriptionLength,
    "pessimistic": Pessimistic,
    "reduced_error": ReducedError,
}


class Pruned(NamedTuple):
    """A pruned tree, and the report of its pruning."""

    tree: Trees
    report: PruningReport
    choice: AlphaChoice | None = None  # where cross-validation chose `alpha`


def prune(
    tree: Trees, pruning: Pruning, *, held_out: Array | None = None, n_values: Sequence[int] | None = None
) -> Trees:
    """Prune a grown tree: nodes become leaves.

    Parameters
    ----------
    tree : Trees
        A grown tree; it stays as it is.
    pruning : object of this module
        How. Subtrees are not raised, which needs the training rows: `DecisionTreeClassifier` does that.
    held_out : array (t, c), optional
        For `ReducedError`: weight of the held-out rows of each class that pass each node, from
        `count_held_out`.
    n_values : sequence of d int, optional
        For `DescriptionLength`: categories of each column of the table, 0 for a numeric one.

    Returns
    -------
    Trees
        At the place of `tree`.

    Examples
    --------
    >>> from arraylearn import DecisionTreeClassifier
    >>> from arraylearn.tree.pruning import Pessimistic, prune
    >>> tree = DecisionTreeClassifier().fit([[1], [2], [3], [4], [5]], [0, 0, 1, 0, 0]).tree_
    >>> prune(tree, Pessimistic(0.0)).n_nodes, prune(tree, Pessimistic(1.0)).n_nodes
    (5, 1)
    """
    if getattr(pruning, "raising", False):
        raise refuse("pruning", "must not raise subtrees, which needs the training rows", repr(pruning))
    if isinstance(pruning, ReducedError) and held_out is None:
        raise refuse("held_out", "must hold the counts of `count_held_out` for `ReducedError`", None)
    counts = None if held_out is None else np.astype(to_host(held_out), np.float64)
    return cut_at(tree, _choose_cuts(tree_on_host(check_tree(tree)), pruning, counts, n_values or ()))


def _choose_cuts(tree: Trees, pruning: Any, held_out: HostArray | None, n_values: Sequence[int]) -> HostArray:
    """Choose the nodes of a host tree that become leaves: bool (t,)."""
    match pruning:
        case ChiSquare():
            return chi2_cuts(tree, pruning)
        case Pessimistic():
            return pessimistic_cuts(tree, pruning)
        case Confidence():
            return confidence_cuts(tree, pruning)
        case CostComplexity():
            if pruning.alpha is None:
                raise refuse("alpha", "must be a price where there are no rows to choose it by", None)
            return cost_complexity_cuts(tree, alpha=pruning.alpha, risk=pruning.risk)
        case ReducedError():
            assert held_out is not None
            return reduced_error_cuts(tree, held_out)
        case DescriptionLength():
            return mdl_cuts(tree, n_values)
    raise refuse("pruning", "must be an object of `al.pruning`", repr(pruning))


def grow_and_prune(
    pruning: Pruning,
    sample: Sample,
    grow: Callable[[HostArray | None], Trees],
    *,
    generator: np.random.Generator | None = None,
    held_out: Sample | None = None,
    impurity: Measure = IMPURITIES["gini"],
) -> Pruned:
    """Grow a tree and prune it.

    Parameters
    ----------
    sample : Sample
        The rows.
    grow : callable
        Grows a tree from the rows with weights (n,), None for 1 each; a row of weight 0 is left out.
    generator : numpy.random.Generator
        Draws the held-out rows and the folds.
    held_out : Sample, optional
        Rows for "reduced_error"; default: a part of the sample, which the tree is then not grown from.
    impurity : callable
        Impurity of the nodes of a tree with raised subtrees.
    """
    if isinstance(pruning, ReducedError) and held_out is None:
        held = _draw_share(sample.codes, generator, pruning.validation_fraction)
        sample, held_out = _only(sample, ~held), _only(sample, held)
    grown = grow(sample.weights)
    tree, place = tree_on_host(grown), locate(grown.feature)
    if isinstance(pruning, ReducedError | Pessimistic | Confidence) and pruning.raising:
        estimate, slack = _make_estimate(pruning)
        made, steps = prune_and_raise(
            tree,
            sample,
            estimate,
            slack=slack,
            held_out=held_out if isinstance(pruning, ReducedError) else None,
            impurity=impurity,
        )
        return Pruned(tree_at(made, place), PruningReport(size_of(tree), size_of(made), tuple(steps)))
    choice = None
    if isinstance(pruning, CostComplexity) and pruning.alpha is None:
        choice = _cross_validate(pruning, sample, grow, tree, generator)
        pruning = replace(pruning, alpha=0.0 if choice is None else choice.alpha)
    counts = None if held_out is None else node_counts(tree, held_out)
    cuts = _choose_cuts(tree, pruning, counts, _n_values(sample))
    made = cut_at(tree, cuts)
    return Pruned(tree_at(made, place), report_cuts(tree, cuts, made), choice)


def _n_values(sample: Sample) -> list[int]:
    """Categories of each column of the table, 0 for a numeric one."""
    return [len(column.domain or ()) if column.is_nominal else 0 for column in sample.schema.columns]


def _make_estimate(pruning: Pruning) -> tuple[Estimate, float]:
    """Return the errors expected of leaves, and how many more a simpler tree may make."""
    if isinstance(pruning, Confidence):
        options: Any = {"confidence": pruning.confidence, "limit": pruning.limit}
        slack = SLACK[pruning.limit]
        return lambda counts, wrong: limited_errors(counts, **options), slack
    if isinstance(pruning, Pessimistic):
        penalty = pruning.penalty
        return lambda counts, wrong: charged_errors(counts, penalty=penalty), 0.0
    return lambda counts, wrong: wrong, 0.0


def _shuffle(codes: HostArray, generator: np.random.Generator | None) -> HostArray:
    """Shuffle the rows, then sort them by class: every k-th row is then a stratified draw."""
    assert generator is not None
    order = generator.permutation(codes.shape[0])
    return order[np.argsort(codes[order], stable=True)]


def _draw_share(codes: HostArray, generator: np.random.Generator | None, share: float) -> HostArray:
    """Draw a share of the rows of each class: bool (n,)."""
    step = np.floor(np.arange(codes.shape[0] + 1) * share)
    is_drawn = np.zeros(codes.shape[0], dtype=np.bool)
    is_drawn[_shuffle(codes, generator)] = step[1:] > step[:-1]
    return is_drawn


def _only(sample: Sample, stays: HostArray) -> Sample:
    """Keep the rows where `stays` (n,) holds: the weights of the others become 0."""
    weights = np.ones(sample.codes.shape[0]) if sample.weights is None else sample.weights
    return sample._replace(weights=np.where(stays, weights, 0.0))


def _cross_validate(
    pruning: CostComplexity,
    sample: Sample,
    grow: Callable[[HostArray | None], Trees],
    tree: Trees,
    generator: np.random.Generator | None,
) -> AlphaChoice | None:
    """Grow a tree without each fold, and choose the price of a leaf that does best on the folds."""
    n_folds = min(pruning.folds, sample.codes.shape[0])
    fold = np.zeros(sample.codes.shape[0], dtype=np.int64)
    fold[_shuffle(sample.codes, generator)] = np.arange(sample.codes.shape[0]) % n_folds
    folds = []
    for number in range(n_folds):
        rest, held = _only(sample, fold != number), _only(sample, fold == number)
        if not (np.any(rest.weights) and np.any(held.weights)):
            continue
        grown = tree_on_host(grow(rest.weights))
        folds.append((grown, node_counts(grown, held)))
    if not folds:
        return None
    path = cost_complexity_path(tree, risk=pruning.risk)
    return choose_alpha(path, folds, risk=pruning.risk, standard_errors=pruning.standard_errors)
