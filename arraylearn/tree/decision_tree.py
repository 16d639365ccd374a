"""The decision tree classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Self

from arraylearn._typing import Array
from arraylearn.backend.namespace import HOST, read_flags
from arraylearn.backend.random import RandomState, as_generator
from arraylearn.checks import count_features, share_of
from arraylearn.grow.cut import collapse
from arraylearn.grow.histograms.bin_finder import bin_rows
from arraylearn.grow.one_tree import grow_binned, grow_clouds, grow_exact
from arraylearn.grow.rows import Rows, prepare_rows
from arraylearn.grow.split import SplitRule, is_scale_free
from arraylearn.grow.trees import Limits, Trees
from arraylearn.measures.count_measures import Measure
from arraylearn.tree.fitted import FittedTree
from arraylearn.tree.pruning.apply import Pruning, grow_and_prune
from arraylearn.tree.pruning.held_out import Sample, read_sample
from arraylearn.tree.settings import check_nominal, check_settings
from arraylearn.weights import grid_weights

__all__ = ["ROWS_FOR_BINS", "DecisionTreeClassifier"]

# With more rows than this, "auto" counts bins.
ROWS_FOR_BINS = 500_000

FindOrder = Callable[[Rows], Array | None]  # the order of the rows in every numeric column, where it is known
Grow = Callable[[Sample, Any, Any], Trees]  # from rows, their weights and the random generator


class DecisionTreeClassifier(FittedTree):
    r"""Decision tree, grown level by level as an array program.

    Every node takes the split whose class counts :math:`n_{bc}` (branch b, class c) have the largest measure;
    among equals the first column and the lowest threshold. All nodes of a level are split at once.

    Parameters
    ----------
    measure : str or callable
        A name of `arraylearn.measures.MEASURES`: "gini", "entropy" (information gain), "gain_ratio",
        "symmetric_gain_ratio", "symmetric_gain_ratio_sum", "chi2", "error", "accuracy"; or a function
        ``(xp, counts[..., branch, class]) -> (...)``, larger is better.
    splitter : {"auto", "exact", "hist", "clouds", "clouds_sampling"}
        Which thresholds are scored: "exact" all of them (presorted lists), "hist" the edges of quantile bins,
        in small nodes too. "clouds" (Gini only) estimates the gain between the
        quantiles and searches the intervals whose estimate beats the best quantile; "clouds_sampling" takes
        the best quantile; both score all thresholds of small nodes. "auto" is "exact" up to half a million
        rows, then "hist".
    n_bins : int
        Number of bins or intervals per column, at most 32766.
    nominal : {"multiway", "binary"}
        Splits by category: one branch for each, or two sets.
    missing : {"fractional", "surrogate", "direction", "known_fraction"}
        Where a row whose value is missing goes. "fractional": it goes down every branch with a part of
        its weight. "direction": each split learns a side for it. "known_fraction": the most frequent branch.
        "surrogate": the branch of the split on another column that agrees best, then the most frequent one;
        where columns are nominal, it needs ``nominal="binary"``.
        Except for "direction", the measure counts the known rows and is weighted by their share.
    max_depth : int, optional
        Greatest depth of a leaf; the root has depth 0.
    min_samples_split : float
        A node of less weight is a leaf; below 1 a share of all rows.
    min_samples_leaf : float
        Weight that at least two branches of a split must have; below 1 a share of all rows.
    max_leaf_nodes : int, optional
        Greatest number of leaves; the splits of the largest weight times measure are kept (best first).
    min_gain : float
        Least value of the measure. Splits that gain nothing are made by default: splits below them may gain.
    max_features : int, float, {"sqrt", "log2"}, optional
        Number (or share) of the columns that each node may split by, drawn at random.
    class_weight : dict, "balanced", optional
        Weights of the classes.
    penalize_thresholds : bool
        C4.5: choose thresholds by information gain, take ``log2(thresholds) / rows`` off the gain, ask for a
        tenth of the rows per class (at most 25) on each side.
    require_average_gain : bool
        C4.5: only columns whose information gain is at least the average of the node compete.
    collapse : bool
        C4.5: cut subtrees that make no fewer training errors than a leaf.
    pruning : {"reduced_error", "pessimistic", "confidence", "mdl", "cost_complexity"}, optional
        How the grown tree is cut back; see `arraylearn.tree.pruning`.
    raise_subtrees : bool
        Whether a node may also be replaced by its largest branch (C4.5); for "reduced_error",
        "pessimistic" and "confidence".
    confidence : float
        For "confidence": CF, the probability that the error rate is above the limit, in (0, 0.5]; or with
        the limit "normal" the level of the two-sided interval, in (0, 1).
    confidence_limit : {"c45", "normal"}
        Upper limit of the error rate as C4.5 has it, or the plain normal approximation.
    penalty : float
        For "pessimistic": errors added to each leaf.
    alpha : float, optional
        For "cost_complexity": price of a leaf, at least 0; default: by cross-validation.
    alpha_risk : {"impurity", "error"}
        For "cost_complexity": the risk of a leaf, to which its price is added.
    alpha_folds : int
        Folds of that cross-validation.
    alpha_standard_errors : float
        The smallest tree is taken whose error is at most so many standard errors above the least.
    validation_fraction : float
        For "reduced_error": share of the rows held out, where `fit` is given none.
    significance : float, optional
        A node is not split where a chi-square test at this level, in (0, 1), does not reject that branches
        and classes are independent.
    random_state : int, Generator, optional
        For `max_features`, held-out rows and folds.
    categorical_features : "from_dtype", array of indices or mask
        Nominal columns of plain arrays.
    backend : str, optional
        Where to compute: "numpy", "torch", "torch:cuda:0", "cupy"; by default where the data is.

    Attributes
    ----------
    tree_ : Trees
        The tree, a record of arrays: feature, threshold, first_child, counts, ... of each node.
    classes_ : array (c,)
        The class labels.
    clouds_report_ : CloudsReport
        For the CLOUDS splitters: how many intervals there were, and how many were searched.
    feature_importances_ : array (d,)
        Share of each column in the total decrease of the impurity.
    pruning_report_ : PruningReport
        Nodes and errors before and after pruning, where there was some.
    alpha_choice_ : AlphaChoice
        The path of cost-complexity pruning and its errors, where cross-validation chose `alpha`.

    References
    ----------
    J. R. Quinlan, "Induction of decision trees", 1986; C4.5, 1993; L. Breiman et al., Classification and
    Regression Trees, 1984; M. Mehta, R. Agrawal, J. Rissanen, "SLIQ", 1996.

    Examples
    --------
    >>> from arraylearn import DecisionTreeClassifier
    >>> X = [[30, 65], [23, 15], [40, 75], [55, 40], [55, 100], [45, 60]]
    >>> tree = DecisionTreeClassifier().fit(X, ["G", "B", "G", "B", "G", "G"])
    >>> int(tree.tree_.feature[0]), float(tree.tree_.threshold[0])
    (1, 50.0)
    >>> tree.predict([[30, 45]]).tolist()
    ['B']
    """

    def __init__(
        self,
        *,
        measure: str | Measure = "gini",
        splitter: Literal["auto", "exact", "hist", "clouds", "clouds_sampling"] = "auto",
        n_bins: int = 64,
        nominal: Literal["multiway", "binary"] = "multiway",
        missing: Literal["fractional", "surrogate", "direction", "known_fraction"] = "fractional",
        max_depth: int | None = None,
        min_samples_split: float = 2,
        min_samples_leaf: float = 1,
        max_leaf_nodes: int | None = None,
        min_gain: float = 0.0,
        max_features: int | float | str | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        penalize_thresholds: bool = False,
        require_average_gain: bool = False,
        collapse: bool = False,
        pruning: Literal["reduced_error", "pessimistic", "confidence", "mdl", "cost_complexity"]
        | None = None,
        raise_subtrees: bool = False,
        confidence: float = 0.25,
        confidence_limit: Literal["c45", "normal"] = "c45",
        penalty: float = 0.5,
        alpha: float | None = None,
        alpha_risk: Literal["impurity", "error"] = "impurity",
        alpha_folds: int = 10,
        alpha_standard_errors: float = 1.0,
        validation_fraction: float = 0.25,
        significance: float | None = None,
        random_state: RandomState = None,
        categorical_features: Any = "from_dtype",
        backend: str | None = None,
    ) -> None:
        self.measure = measure
        self.splitter = splitter
        self.n_bins = n_bins
        self.nominal = nominal
        self.missing = missing
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.max_leaf_nodes = max_leaf_nodes
        self.min_gain = min_gain
        self.max_features = max_features
        self.class_weight = class_weight
        self.penalize_thresholds = penalize_thresholds
        self.require_average_gain = require_average_gain
        self.collapse = collapse
        self.pruning = pruning
        self.raise_subtrees = raise_subtrees
        self.confidence = confidence
        self.confidence_limit = confidence_limit
        self.penalty = penalty
        self.alpha = alpha
        self.alpha_risk = alpha_risk
        self.alpha_folds = alpha_folds
        self.alpha_standard_errors = alpha_standard_errors
        self.validation_fraction = validation_fraction
        self.significance = significance
        self.random_state = random_state
        self.categorical_features = categorical_features
        self.backend = backend

    # ---- learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None, validation: Any = None) -> Self:
        """Grow the tree, and prune it where that is asked for.

        Parameters
        ----------
        X : array-like or data frame (n, d)
            Rows; NaN, None and null are missing values.
        y : array-like (n,)
            Class labels.
        sample_weight : array-like (n,), optional
            Weights; whole numbers give the tree of the rows repeated that often.
        validation : tuple (X, y), optional
            Held-out rows for reduced-error pruning; default: a part of the rows.

        Returns
        -------
        DecisionTreeClassifier
            Itself.
        """
        return self._fit(X, y, sample_weight, validation, self._grow)

    def _fit(self, X: Any, y: Any, sample_weight: Any, validation: Any, grow: Grow) -> Self:
        """Fit as `fit`, by a function that may use what it knows of the rows from fits before."""
        check_settings(self, validation)
        pruning = self._pruning()
        with self._fitting():
            batch, labels = self._open_fit(X, y)
            check_nominal(self, self.schema_)
            self._refuse_bad(*read_flags(batch.place, batch.is_bad))
            weights = self._weigh(sample_weight, labels, HOST)
            generator = as_generator(self.random_state)
            sample = Sample(batch.place, self.schema_, batch.table, labels.codes, weights)
            if pruning is None:
                self.model_ = grow(sample, weights, generator)
            else:
                self._grow_and_prune(pruning, sample, validation, generator, grow)
        return self

    def _grow(
        self, sample: Sample, weights: Any, generator: Any, find_order: FindOrder | None = None
    ) -> Trees:
        """Grow the tree; `find_order` may know the order of the rows in every numeric column."""
        place, table, n_classes = sample.place, sample.table, len(self.classes_)
        total, unit = float(table.n_rows if weights is None else weights.sum()), 1.0
        rule, limits = self._rule(total), self._limits(total)
        if weights is not None and is_scale_free(rule):
            weights, unit = grid_weights(weights)
            rule, limits = rule.in_units(unit), limits.in_units(unit)
        settings = rule, limits, generator
        is_large = table.n_rows > ROWS_FOR_BINS and not self.penalize_thresholds
        if self.splitter == "hist" or (self.splitter == "auto" and is_large):
            rows = bin_rows(place, table, sample.codes, n_classes, weights, self.n_bins)
            tree = grow_binned(place, rows, *settings)
        else:
            rows = prepare_rows(place, table, sample.codes, n_classes, weights)
            if self.splitter.startswith("clouds"):
                is_estimating = self.splitter == "clouds"
                tree, self.clouds_report_ = grow_clouds(
                    place, rows, table, self.n_bins, is_estimating, *settings
                )
            else:
                tree = grow_exact(place, rows, *settings, find_order=find_order)
        if unit != 1.0:
            tree = tree._replace(counts=tree.counts * unit)
        return collapse(tree) if self.collapse else tree

    def _grow_and_prune(
        self, pruning: Pruning, sample: Sample, validation: Any, generator: Any, grow: Grow
    ) -> None:
        pruned = grow_and_prune(
            pruning,
            sample,
            lambda weights: grow(sample, weights, generator),
            generator=generator,
            held_out=None if validation is None else read_sample(self, *validation),
            impurity=self._rule(1.0).impurity,
        )
        self.model_, self.pruning_report_ = pruned.tree, pruned.report
        if pruned.choice is not None:
            self.alpha_choice_ = pruned.choice

    def _pruning(self) -> Pruning | None:
        """Return how to prune; None where there is nothing to do."""
        if self.pruning is None and self.significance is None:
            return None
        return Pruning(
            self.pruning,
            self.raise_subtrees,
            self.confidence,
            self.confidence_limit,
            self.penalty,
            self.alpha,
            self.alpha_risk,
            self.alpha_folds,
            self.alpha_standard_errors,
            self.validation_fraction,
            self.significance,
        )

    def _rule(self, total: float) -> SplitRule:
        return SplitRule(
            measure=self.measure,
            nominal=self.nominal,
            missing=self.missing,
            penalize_thresholds=self.penalize_thresholds,
            require_average_gain=self.require_average_gain,
            least=share_of(self.min_samples_leaf, total),
            scale_least=self.penalize_thresholds,
        )

    def _limits(self, total: float) -> Limits:
        return Limits(
            self.max_depth,
            share_of(self.min_samples_split, total),
            share_of(self.min_samples_leaf, total),
            self.max_leaf_nodes,
            self.min_gain,
            count_features(self.max_features, self.n_features_in_),
        )
