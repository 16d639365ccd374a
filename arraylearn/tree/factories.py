"""The three classical trees, as settings of one classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from arraylearn.backend.random import RandomState
from arraylearn.tree.decision_tree import DecisionTreeClassifier
from arraylearn.tree.pruning.apply import RAISING

__all__ = ["c45", "cart", "id3"]


def id3(
    *,
    max_depth: int | None = None,
    min_samples_leaf: float = 1,
    categorical_features: Any = "from_dtype",
    backend: str | None = None,
) -> DecisionTreeClassifier:
    """Make an ID3 tree: information gain, one branch per category, grown until the nodes are pure.

    Parameters
    ----------
    max_depth, min_samples_leaf, categorical_features, backend
        As for `DecisionTreeClassifier`.

    Returns
    -------
    DecisionTreeClassifier
        Not yet fitted.

    References
    ----------
    J. R. Quinlan, "Induction of decision trees", Machine Learning 1, 1986.

    Examples
    --------
    >>> from arraylearn import id3
    >>> tree = id3().fit([["sunny", "weak"], ["rain", "weak"], ["rain", "strong"]], ["no", "yes", "no"])
    >>> tree.predict([["rain", "strong"], ["rain", "weak"]]).tolist()
    ['no', 'yes']
    """
    return DecisionTreeClassifier(
        measure="entropy",
        nominal="multiway",
        missing="known_fraction",
        max_depth=max_depth,
        min_samples_leaf=min_samples_leaf,
        categorical_features=categorical_features,
        backend=backend,
    )


def c45(
    *,
    max_depth: int | None = None,
    min_samples_leaf: float = 2,
    pruning: Literal["reduced_error", "pessimistic", "confidence", "mdl", "cost_complexity"]
    | None = "confidence",
    confidence: float = 0.25,
    raise_subtrees: bool = True,
    categorical_features: Any = "from_dtype",
    backend: str | None = None,
) -> DecisionTreeClassifier:
    """Make a C4.5 tree: gain ratio among the columns of at least average gain, pruned from below.

    One branch per category, missing values go down every branch with a part of their weight, thresholds pay
    for their number, and subtrees without fewer training errors are collapsed. Then leaves and raised
    branches take the place of subtrees that are not expected to make fewer errors.

    Parameters
    ----------
    pruning, confidence
        As for `DecisionTreeClassifier`; None for the tree as grown.
    raise_subtrees : bool
        Whether branches are raised, where the pruning can.
    max_depth, min_samples_leaf, categorical_features, backend
        As for `DecisionTreeClassifier`.

    Returns
    -------
    DecisionTreeClassifier
        Not yet fitted.

    References
    ----------
    J. R. Quinlan, C4.5: Programs for Machine Learning, 1993; "Improved use of continuous attributes in C4.5",
    1996.

    Examples
    --------
    >>> from arraylearn import c45
    >>> X = [[1.0], [2.0], [3.0], [7.0], [8.0], [9.0]]
    >>> c45().fit(X, ["a", "a", "a", "b", "b", "b"]).predict([[4.0], [6.0]]).tolist()
    ['a', 'b']
    """
    return DecisionTreeClassifier(
        measure="gain_ratio",
        nominal="multiway",
        missing="fractional",
        max_depth=max_depth,
        min_samples_split=2 * min_samples_leaf,
        min_samples_leaf=min_samples_leaf,
        min_gain=1e-6,
        penalize_thresholds=True,
        require_average_gain=True,
        collapse=True,
        pruning=pruning,
        raise_subtrees=raise_subtrees and pruning in RAISING,
        confidence=confidence,
        categorical_features=categorical_features,
        backend=backend,
    )


def cart(
    *,
    max_depth: int | None = None,
    min_samples_leaf: float = 1,
    max_leaf_nodes: int | None = None,
    class_weight: Mapping[Any, float] | str | None = None,
    pruning: Literal["reduced_error", "pessimistic", "confidence", "mdl", "cost_complexity"]
    | None = "cost_complexity",
    alpha: float | None = None,
    alpha_folds: int = 10,
    random_state: RandomState = None,
    categorical_features: Any = "from_dtype",
    backend: str | None = None,
) -> DecisionTreeClassifier:
    """Make a CART tree: Gini gain, two branches, surrogate splits for missing values, weakest links pruned.

    The price of a leaf in training errors is found by cross-validation with the rule of one standard error,
    so that few rows give a small tree.

    Parameters
    ----------
    pruning : str, optional
        As for `DecisionTreeClassifier`; None for the tree as grown.
    alpha, alpha_folds, random_state
        As for `DecisionTreeClassifier`; a number for `alpha` saves the cross-validation.
    max_depth, min_samples_leaf, max_leaf_nodes, class_weight, categorical_features, backend
        As for `DecisionTreeClassifier`.

    Returns
    -------
    DecisionTreeClassifier
        Not yet fitted.

    References
    ----------
    L. Breiman, J. Friedman, R. Olshen, C. Stone, Classification and Regression Trees, 1984.

    Examples
    --------
    >>> from arraylearn import cart
    >>> tree = cart(pruning=None).fit([["a"], ["b"], ["c"], ["c"]], [0, 1, 0, 0])
    >>> tree.predict([["a"], ["b"]]).tolist()
    [0, 1]
    """
    return DecisionTreeClassifier(
        measure="gini",
        nominal="binary",
        missing="surrogate",
        max_depth=max_depth,
        min_samples_leaf=min_samples_leaf,
        max_leaf_nodes=max_leaf_nodes,
        class_weight=class_weight,
        pruning=pruning,
        alpha=alpha,
        alpha_risk="error",
        alpha_folds=alpha_folds,
        random_state=random_state,
        categorical_features=categorical_features,
        backend=backend,
    )
