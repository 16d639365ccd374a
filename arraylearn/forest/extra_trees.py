"""Extremely randomized trees: a forest whose cuts are drawn, not searched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from arraylearn.forest.random_forest import RandomForestClassifier

__all__ = ["ExtraTreesClassifier"]


@dataclass(kw_only=True, eq=False, repr=False)
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
    min_weight_fraction_leaf, max_leaf_nodes, min_impurity_decrease, ccp_alpha, monotonic_cst
        As for `RandomForestClassifier`.
    max_samples, oob_score
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

    bootstrap: bool = False
