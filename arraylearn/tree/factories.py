"""The three classical trees, as settings of one classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from arraylearn.backend.random import RandomState
from arraylearn.tree.decision_tree import DecisionTreeClassifier
from arraylearn.tree.pruning.apply import Pruning
from arraylearn.tree.pruning.confidence import Confidence
from arraylearn.tree.pruning.cost_complexity import CostComplexity

__all__ = ["c45", "cart", "id3"]

_C45_PRUNING = Confidence(0.25, raising=True)
_CART_PRUNING = CostComplexity(risk="error")


def id3(
    *,
    max_depth: int | None = None,
    min_samples_leaf: int | float = 1,
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
        criterion="entropy",
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
    min_samples_leaf: int | float = 2,
    pruning: Pruning | str | None = _C45_PRUNING,
    categorical_features: Any = "from_dtype",
    backend: str | None = None,
) -> DecisionTreeClassifier:
    """Make a C4.5 tree: gain ratio among the columns of at least average gain, pruned from below.

    A split has one branch per category, and rows with missing values go down every branch with a part of
    their weight. The gain of a numeric column is reduced by the cost of stating which threshold was chosen.
    Subtrees that make no fewer training errors than a leaf are collapsed. Then a subtree is replaced by a
    leaf, or by its largest branch, unless it is expected to make fewer errors.

    Parameters
    ----------
    pruning : object or name, optional
        As for `DecisionTreeClassifier`; None for the tree as grown.
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
        criterion="gain_ratio",
        nominal="multiway",
        missing="fractional",
        max_depth=max_depth,
        min_samples_leaf=min_samples_leaf,
        penalize_thresholds=True,
        require_average_gain=True,
        collapse=True,
        pruning=pruning,
        categorical_features=categorical_features,
        backend=backend,
    )


def cart(
    *,
    max_depth: int | None = None,
    min_samples_leaf: int | float = 1,
    max_leaf_nodes: int | None = None,
    class_weight: Mapping[Any, float] | str | None = None,
    pruning: Pruning | str | None = _CART_PRUNING,
    random_state: RandomState = None,
    categorical_features: Any = "from_dtype",
    backend: str | None = None,
) -> DecisionTreeClassifier:
    """Make a CART tree: Gini gain, two branches, surrogate splits for missing values, weakest links pruned.

    The price of a leaf in training errors is found by cross-validation with the rule of one standard error,
    so that few rows give a small tree.

    Parameters
    ----------
    pruning : object or name, optional
        As for `DecisionTreeClassifier`; None for the tree as grown. A price in
        ``al.pruning.CostComplexity(0.01, risk="error")`` saves the cross-validation.
    max_depth, min_samples_leaf, max_leaf_nodes, class_weight, random_state, categorical_features, backend
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
        criterion="gini",
        nominal="binary",
        missing="surrogate",
        max_depth=max_depth,
        min_samples_leaf=min_samples_leaf,
        max_leaf_nodes=max_leaf_nodes,
        class_weight=class_weight,
        pruning=pruning,
        random_state=random_state,
        categorical_features=categorical_features,
        backend=backend,
    )
