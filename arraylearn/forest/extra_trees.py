"""Extremely randomized trees: a forest whose cuts are drawn, not searched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from arraylearn.backend.random import RandomState
from arraylearn.forest.random_forest import RandomForestClassifier
from arraylearn.measures.count_measures import Measure

__all__ = ["ExtraTreesClassifier"]


class ExtraTreesClassifier(RandomForestClassifier):
    r"""Extremely randomized trees: each node takes the best of some cuts drawn at random, one per column.

    As `RandomForestClassifier`, but every tree is grown on all rows, and of each column that a node considers
    one cut is scored, drawn uniformly between the least and the greatest value in the node.

    Parameters
    ----------
    bootstrap : bool
        Whether each tree is grown on a sample of the rows drawn with replacement; by default on all rows.
    n_estimators, criterion, max_features, max_bins, max_depth, min_samples_split, min_samples_leaf
        As for `RandomForestClassifier`.
    min_weight_fraction_leaf, max_leaf_nodes, min_impurity_decrease, ccp_alpha, max_samples, oob_score
        As for `RandomForestClassifier`.
    class_weight : dict, "balanced", optional
        As for `RandomForestClassifier`.
    warm_start, random_state, categorical_features, n_jobs, verbose, backend
        As for `RandomForestClassifier`.

    Attributes
    ----------
    classes_, n_classes_, n_trees_, estimators_, feature_importances_, oob_score_, oob_decision_function_
        As for `RandomForestClassifier`.

    References
    ----------
    P. Geurts, D. Ernst, L. Wehenkel, "Extremely randomized trees", 2006.

    Examples
    --------
    >>> from arraylearn import ExtraTreesClassifier
    >>> X = [[i, i % 3] for i in range(40)]
    >>> y = ["low" if i < 10 or i >= 30 else "middle" for i in range(40)]
    >>> model = ExtraTreesClassifier(n_estimators=20, random_state=0).fit(X, y)
    >>> model.predict([[5, 0], [20, 1], [35, 2]]).tolist()
    ['low', 'middle', 'low']
    """

    _draws_cuts: ClassVar[bool] = True

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: str | Measure = "gini",
        max_features: int | float | str | None = "sqrt",
        max_bins: int = 4094,
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        ccp_alpha: float = 0.0,
        bootstrap: bool = False,
        max_samples: int | float | None = None,
        oob_score: bool | Callable[..., float] = False,
        class_weight: Mapping[Any, float] | str | None = None,
        warm_start: bool = False,
        random_state: RandomState = None,
        categorical_features: Any = "from_dtype",
        n_jobs: int | None = None,
        verbose: int = 0,
        backend: str | None = None,
    ) -> None:
        super().__init__(
            n_estimators=n_estimators,
            criterion=criterion,
            max_features=max_features,
            max_bins=max_bins,
            max_depth=max_depth,
            min_samples_split=min_samples_split,
            min_samples_leaf=min_samples_leaf,
            min_weight_fraction_leaf=min_weight_fraction_leaf,
            max_leaf_nodes=max_leaf_nodes,
            min_impurity_decrease=min_impurity_decrease,
            ccp_alpha=ccp_alpha,
            bootstrap=bootstrap,
            max_samples=max_samples,
            oob_score=oob_score,
            class_weight=class_weight,
            warm_start=warm_start,
            random_state=random_state,
            categorical_features=categorical_features,
            n_jobs=n_jobs,
            verbose=verbose,
            backend=backend,
        )
