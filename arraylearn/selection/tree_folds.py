"""Trees that differ in depth and pruning, from one grown tree; boosted rounds from one staged model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sklearn.base import clone

from arraylearn.boosting import AdaBoostClassifier, GradientBoostingClassifier
from arraylearn.boosting.boosted import first_rounds
from arraylearn.selection.answers import Answers
from arraylearn.selection.folds import Fold, Sample
from arraylearn.selection.rows import shallow_copy, take_rows
from arraylearn.selection.shared_order import SharedOrder, sort_sample
from arraylearn.tree import DecisionTreeClassifier
from arraylearn.tree.classifier import ROWS_FOR_BINS
from arraylearn.tree.cut import collapse, cut_at
from arraylearn.tree.nodes import Tree, tree_on_host
from arraylearn.tree.rows import Rows

__all__ = ["is_boosting", "is_tree", "judge_boosting_folds", "judge_tree_folds"]

Host = Any  # a NumPy array
Candidate = dict[str, Any]

# What happens to a tree after its splits are chosen.
_AFTER_GROWTH = {
    "max_depth",
    "collapse",
    "pruning",
    "raise_subtrees",
    "confidence",
    "confidence_limit",
    "penalty",
    "alpha",
    "alpha_risk",
    "alpha_folds",
    "alpha_standard_errors",
    "validation_fraction",
    "significance",
}


def is_tree(estimator: Any) -> bool:
    """Whether an estimator is our decision tree, and not a variant of it."""
    return type(estimator) is DecisionTreeClassifier


def is_boosting(estimator: Any) -> bool:
    """Whether an estimator is one of our boosting methods, and not a variant of it."""
    return type(estimator) in (GradientBoostingClassifier, AdaBoostClassifier)


# ---- single trees


def judge_tree_folds(
    estimator: Any, candidates: Sequence[Candidate], sample: Sample, folds: Sequence[Fold]
) -> Iterator[tuple[int, int, Any]]:
    """Yield fitted trees that share what they can.

    A tree grows level by level, so that the one of depth D is the deeper one cut there, and every pruning
    starts from the grown tree; trees that search sorted columns share the sorting. Left to the loop: splits
    that are drawn at random, a limit on the number of leaves (best first), and what shares nothing.
    """
    models = [clone(estimator).set_params(**clone(candidate, safe=False)) for candidate in candidates]
    order: SharedOrder | None = None
    is_sorted = False
    for group in _alike(models, _AFTER_GROWTH):
        first = models[group[0]]
        if not _grows_by_levels(first):
            continue
        depths = [models[c].max_depth for c in group]
        if not all(depth is None or isinstance(depth, int) for depth in depths):
            continue
        if _searches_lists(first, sample):
            order, is_sorted = order if is_sorted else sort_sample(first, sample), True
        elif len(group) < 2:
            continue
        deepest = None if None in depths else max(depths)
        for f, fold in enumerate(folds):
            grown: dict[bytes, Tree] = {}
            for c in group:
                model = _fit_from(clone(models[c]), deepest, grown, sample, fold, order)
                if model is not None:
                    yield c, f, model


def _searches_lists(model: Any, sample: Sample) -> bool:
    is_small = sample.n_rows <= ROWS_FOR_BINS or bool(model.penalize_thresholds)
    return model.splitter == "exact" or (model.splitter == "auto" and is_small)


def _grows_by_levels(model: Any) -> bool:
    is_drawn = model.max_features is not None or not isinstance(model.random_state, int | None)
    return not is_drawn and model.max_leaf_nodes is None and not str(model.splitter).startswith("clouds")


def _fit_from(
    model: Any,
    deepest: int | None,
    grown: dict[bytes, Tree],
    sample: Sample,
    fold: Fold,
    order: SharedOrder | None,
) -> Any | None:
    """Fit a tree as usual, but take what was grown from the same weights before; None where it fails."""

    def find_order(rows: Rows) -> Any:
        return None if order is None else order.of_fold(fold.train, rows)

    def grow(rows: Any, weights: Any, generator: Any) -> Tree:
        key = b"" if weights is None else weights.tobytes()
        if key not in grown:
            deep = shallow_copy(model)
            deep.max_depth, deep.collapse, deep._find_order = deepest, False, find_order
            grown[key] = DecisionTreeClassifier._grow(deep, rows, weights, generator)
        tree = grown[key]
        if model.max_depth is not None and model.max_depth != deepest:
            tree = cut_at(tree, tree_on_host(tree).depth >= model.max_depth)
        return collapse(tree) if model.collapse else tree

    model._grow = grow
    try:
        sample.fit(model, fold.train)
    except ValueError:
        return None  # the loop says what is wrong
    finally:
        del model._grow
    return model


def _alike(models: Sequence[Any], free: set[str]) -> list[list[int]]:
    """Group the models that agree in all parameters but the free ones."""
    groups: dict[str, list[int]] = {}
    for c, model in enumerate(models):
        fixed = {name: value for name, value in model.get_params(deep=False).items() if name not in free}
        groups.setdefault(repr(fixed), []).append(c)
    return list(groups.values())


# ---- boosting


def judge_boosting_folds(
    estimator: Any, candidates: Sequence[Candidate], sample: Sample, folds: Sequence[Fold]
) -> Iterator[tuple[int, int, Answers]]:
    """Yield the answers of boosted trees that differ in number alone: a longer run begins with a shorter one.

    Left to the loop: early stopping, random states that are not seeds, and candidates that share with none.
    """
    models = [clone(estimator).set_params(**clone(candidate, safe=False)) for candidate in candidates]
    for group in _alike(models, {"n_estimators"}):
        numbers = [models[c].n_estimators for c in group]
        if len(group) < 2 or not _is_staged(models[group[0]]) or not all(_is_count(m) for m in numbers):
            continue
        for f, fold in enumerate(folds):
            longest = clone(models[group[0]]).set_params(n_estimators=max(numbers))
            try:
                sample.fit(longest, fold.train)
            except ValueError:
                continue
            test = take_rows(sample.X, fold.test)
            for c, n_rounds in zip(group, numbers, strict=True):
                yield c, f, Answers.of(_shortened(longest, n_rounds), test)


def _is_staged(model: Any) -> bool:
    if isinstance(model, AdaBoostClassifier):
        is_drawn, has_end = model.estimator is not None, True
    else:
        is_drawn, has_end = model.subsample != 1 or model.max_features != 1, not model.early_stopping
    is_seeded = isinstance(model.random_state, int) or (model.random_state is None and not is_drawn)
    return is_seeded and has_end


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _shortened(longest: Any, n_rounds: int) -> Any:
    """Return the classifier of the first rounds."""
    short = shallow_copy(longest)
    short.n_estimators = n_rounds
    if isinstance(longest, AdaBoostClassifier):
        short.model_ = longest.model_._replace(
            estimators=longest.model_.estimators[:n_rounds], weights=longest.model_.weights[:n_rounds]
        )
        return short
    short.__dict__.pop("feature_importances_", None)  # those of all rounds
    k = short.n_trees_per_iteration_
    trees = first_rounds(longest.model_.trees, slice(0, n_rounds), k)
    short.model_ = longest.model_._replace(trees=trees)
    short.n_iter_ = n_rounds
    return short
