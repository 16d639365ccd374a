"""Extremely randomized trees: a forest whose cuts are drawn, not searched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from arraylearn.backend.random import RandomState
from arraylearn.forest.random_forest import RandomForestClassifier

__all__ = ["ExtraTreesClassifier"]


class ExtraTreesClassifier(RandomForestClassifier):
    r"""Extremely randomized trees: each node takes the best of some cuts drawn at random, one per column.

    As `RandomForestClassifier`, but every tree has all rows, and a column that a node looks at offers one
    cut, drawn uniformly between its least and greatest value in the node.

    Parameters
    ----------
    n_estimators : int
        Number of trees. Tree i is the same however many there are, on every backend.
    max_features : int, float, {"sqrt", "log2"}, optional
        Number or share of the columns that each node looks at; None for all.
    max_depth : int, optional
        Greatest depth of a leaf.
    min_samples_split : int
        A node of fewer rows is a leaf.
    min_samples_leaf : int
        Least number of rows on each side of a cut.
    bootstrap : bool
        Whether each tree has a sample of n rows drawn with replacement; otherwise all rows.
    oob_score : bool
        Whether to judge every row by the trees that did not see it; needs `bootstrap`.
    class_weight : dict, "balanced", optional
        Weights of the classes; without `bootstrap` whole numbers only.
    warm_start : bool
        Whether a further `fit`, on the same data with a larger `n_estimators`, adds trees to those there are.
    random_state : int, Generator, optional
        Seed of the seeds of the trees.
    categorical_features : "from_dtype", array of indices or mask
        Nominal columns of plain arrays. Their categories are put in the order of the mean class, and cut.
    verbose : int
        1: a progress bar with the time left.
    backend : str, optional
        Where to compute: "numpy", "torch", "torch:cuda:0", "cupy"; by default where the data is.

    Attributes
    ----------
    classes_, n_trees_, oob_score_, oob_decision_function_
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
        *,
        n_estimators: int = 100,
        max_features: int | float | str | None = "sqrt",
        max_depth: int | None = None,
        min_samples_split: int = 2,
        min_samples_leaf: int = 1,
        bootstrap: bool = False,
        oob_score: bool = False,
        class_weight: Mapping[Any, float] | str | None = None,
        warm_start: bool = False,
        random_state: RandomState = None,
        categorical_features: Any = "from_dtype",
        verbose: int = 0,
        backend: str | None = None,
    ) -> None:
        super().__init__(
            n_estimators=n_estimators,
            max_features=max_features,
            max_depth=max_depth,
            min_samples_split=min_samples_split,
            min_samples_leaf=min_samples_leaf,
            bootstrap=bootstrap,
            oob_score=oob_score,
            class_weight=class_weight,
            warm_start=warm_start,
            random_state=random_state,
            categorical_features=categorical_features,
            verbose=verbose,
            backend=backend,
        )
