"""Trees on folds: candidates that differ in depth and pruning come from one grown tree per fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from arraylearn._typing import Array, HostArray
from arraylearn.folds import (
    Candidate,
    Fold,
    LabelledRows,
    group_alike,
    set_candidate,
    shallow_copy,
)
from arraylearn.grow.cut import collapse, cut_at
from arraylearn.grow.rows import Rows
from arraylearn.grow.trees import Trees, tree_on_host
from arraylearn.tree.decision_tree import ROWS_FOR_BINS, DecisionTreeClassifier
from arraylearn.tree.pruning.held_out import Sample
from arraylearn.tree.shared_order import SharedOrder, sort_sample

__all__ = ["judge_tree_folds"]

# Parameters that are applied to a tree after its splits are chosen.
_AFTER_GROWTH = {"max_depth", "collapse", "pruning", "ccp_alpha", "verbose"}


def judge_tree_folds(
    estimator: Any, candidates: Sequence[Candidate], sample: LabelledRows, folds: Sequence[Fold]
) -> Iterator[tuple[int, int, DecisionTreeClassifier]]:
    """Yield the fitted tree of each candidate and fold; candidates share growth and sorting where possible.

    A tree grows level by level, so that the tree of depth D is any deeper one, cut at D; and every pruning
    starts from the grown tree. Trees that search sorted columns share the sorting. Left to the ordinary loop
    over fits: splits that are drawn at random, a limit on the number of leaves (best first), and candidates
    that differ in other parameters.
    """
    models = [set_candidate(estimator, candidate) for candidate in candidates]
    order: SharedOrder | None = None
    is_sorted = False
    for group in group_alike(models, _AFTER_GROWTH):
        first = models[group[0]]
        if not _grows_by_levels(first):
            continue
        depths = [models[c].max_depth for c in group]
        if not all(depth is None or isinstance(depth, int) for depth in depths):
            continue
        if _searches_sorted_columns(first, sample):
            order, is_sorted = order if is_sorted else sort_sample(first, sample), True
        elif len(group) < 2:
            continue
        deepest = None if None in depths else max(depths)
        for f, fold in enumerate(folds):
            grower = _SharedGrowth(deepest, fold, order)
            for c in group:
                model = clone(models[c])
                X, y, weight = sample.training_rows(model, fold.train)
                try:
                    grower.fit(model, X, y, weight)
                except ValueError:
                    continue  # the ordinary loop fits this candidate again and raises the error, or scores it
                yield c, f, model


def _searches_sorted_columns(model: Any, sample: LabelledRows) -> bool:
    is_small = sample.n_rows <= ROWS_FOR_BINS or bool(model.penalize_thresholds)
    return model.splitter in ("exact", "best") or (model.splitter == "auto" and is_small)


def _grows_by_levels(model: Any) -> bool:
    is_drawn = model.max_features is not None or not isinstance(model.random_state, int | None)
    return (
        not is_drawn
        and model.max_leaf_nodes is None
        and not str(model.splitter).startswith(("clouds", "random"))
    )


class _SharedGrowth:
    """The trees grown on one fold so far, by the weights of the rows; candidates are cut from them."""

    def __init__(self, deepest: int | None, fold: Fold, order: SharedOrder | None) -> None:
        self.deepest = deepest  # the largest max_depth of the candidates; None: unlimited
        self.fold = fold
        self.order = order
        self.grown: dict[bytes, Trees] = {}  # by the weights of the rows, which pruning may set to 0

    def fit(self, model: DecisionTreeClassifier, X: Any, y: Any, weight: HostArray | None) -> None:
        """Fit a candidate: grow as deep as any of them, unless that is done, then cut and prune."""

        def grow(rows: Sample, weights: HostArray | None, generator: np.random.Generator) -> Trees:
            key = b"" if weights is None else weights.tobytes()
            if key not in self.grown:
                deep = shallow_copy(model)
                deep.max_depth, deep.collapse = self.deepest, False
                # rows of weight 0 were left out, which changes the numbers of the fold's rows
                has_all = rows.table.n_rows == self.fold.train.shape[0]
                order = self._find_order if has_all else None
                self.grown[key] = deep._grow(rows, weights, generator, order)
            tree = self.grown[key]
            if model.max_depth is not None and model.max_depth != self.deepest:
                tree = cut_at(tree, tree_on_host(tree).depth >= model.max_depth)
            return collapse(tree) if model.collapse else tree

        model._fit(X, y, weight, None, grow)

    def _find_order(self, rows: Rows) -> Array | None:
        return None if self.order is None else self.order.of_fold(self.fold.train, rows)
