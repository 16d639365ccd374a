"""The decision tree classifier."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import clone

from arraylearn._typing import Array, HostArray
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.dispatch import get_tuning, state_work
from arraylearn.backend.namespace import HOST, read_flags
from arraylearn.backend.random import RandomState, as_generator
from arraylearn.checks import count_features, share_of
from arraylearn.estimator import FitRows
from arraylearn.grow.cut import collapse, cut_weak
from arraylearn.grow.histograms.bin_finder import bin_rows
from arraylearn.grow.loop import grow_binned, grow_clouds, grow_exact
from arraylearn.grow.rows import Rows, prepare_rows
from arraylearn.grow.split import SplitRule, is_scale_free
from arraylearn.grow.trees import Limits, Trees, tree_on_host
from arraylearn.measures.count_measures import Measure
from arraylearn.tree.fitted import FittedTree
from arraylearn.tree.over_values import grow_random
from arraylearn.tree.pruning.apply import Pruning, grow_and_prune
from arraylearn.tree.pruning.cost_complexity import CostComplexity, CostComplexityPath, cost_complexity_path
from arraylearn.tree.pruning.held_out import Sample, read_sample
from arraylearn.tree.settings import check_nominal, check_settings, read_trend
from arraylearn.weights import grid_weights, repeat_weights

__all__ = ["ROWS_FOR_BINS", "DecisionTreeClassifier"]

# With more rows than this, splitter="auto" means "hist".
ROWS_FOR_BINS = 500_000
# Rounding error allowed in a share of the rows.
_ROUNDING = 1e-9
# Criteria that are decreases of the impurity which a node records.
_DECREASES = ("gini", "entropy", "log_loss", "error")
# C4.5: the least information gain of a split.
LEAST_GAIN = 1e-6

_log = logging.getLogger("arraylearn.tree")

FindOrder = Callable[[Rows], Array | None]  # returns the order of the rows by every numeric column, if known
# Takes rows, their weights and the random generator.
Grow = Callable[[Sample, HostArray | None, np.random.Generator], Trees]


@dataclass(kw_only=True, eq=False, repr=False)
class DecisionTreeClassifier(FittedTree):
    r"""Decision tree, grown level by level as an array program.

    Every node takes the split whose class counts :math:`n_{bc}` (branch b, class c) have the largest measure;
    among equals the first column and the lowest threshold. All nodes of a level are split at once.

    Parameters
    ----------
    criterion : str or callable
        A name of `arraylearn.measures.MEASURES`: "gini", "entropy" (information gain; also "log_loss"),
        "gain_ratio", "symmetric_gain_ratio", "symmetric_gain_ratio_sum", "chi2", "error", "accuracy"; or a
        function ``(xp, counts[..., branch, class]) -> (...)``, larger is better.
    splitter : {"auto", "exact", "best", "hist", "clouds", "clouds_sampling", "random"}
        Which thresholds are scored: "exact" all of them (presorted lists), as does "best", scikit-learn's
        name for it; "hist" the edges of quantile bins, in small nodes too. "clouds" (Gini only) scores
        quantiles, estimates the gain between them, and searches the intervals whose estimate beats the best
        quantile; "clouds_sampling" takes the best quantile; both score all thresholds of small nodes. "auto"
        is "exact" up to 500,000 rows, then "hist", which the log notes once; with `penalize_thresholds` it is
        always "exact". "random" draws one cut per column in each node and takes the best, as
        `ExtraTreesClassifier` does: missing values then count as larger than all others and categories are
        in the order of their mean class, whatever `missing` and `nominal` are.
    max_bins : int
        Number of bins or intervals per column at most, up to 32766.
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
    min_samples_split : int or float
        A node of fewer rows is a leaf, whatever they weigh; a float is a share of all rows, up to 1.0. Rows
        of weight 0 do not count.
    min_samples_leaf : int or float
        Rows that at least two branches of a split must have, whatever they weigh; a float is a share of all
        rows, up to 1.0. A row whose value is missing counts in each branch as its part.
    min_weight_fraction_leaf : float
        What at least two branches must weigh, as a share of the weight of all rows, up to 0.5.
    max_leaf_nodes : int, optional
        Greatest number of leaves; the splits of the largest weight times criterion are kept (best first).
    min_impurity_decrease : float
        A node is split where that decreases the impurity, times the node's share of all weight, by at least
        this. Splits that gain nothing are made by default: splits below them may gain.
    ccp_alpha : float
        Price of a leaf for cost-complexity pruning by the impurity; more ways to prune in `pruning`.
    max_features : int, float, {"sqrt", "log2"}, optional
        Number (or share) of the columns that each node may split by, drawn at random.
    class_weight : dict, "balanced", optional
        Weights of the classes, by which those of the rows are multiplied; "balanced" gives all classes the
        same sum.
    penalize_thresholds : bool
        C4.5: choose thresholds by information gain, take ``log2(thresholds) / rows`` off the gain, ask for a
        tenth of the rows per class (at most 25) on each side, and for a gain of 1e-6.
    require_average_gain : bool
        C4.5: only columns whose information gain is at least the average of the node compete.
    collapse : bool
        C4.5: cut subtrees that make no fewer training errors than a leaf.
    monotonic_cst : array-like or mapping, optional
        For two classes: 1 for each numeric column along which the second class may only become more probable,
        -1 for less, 0 for others; a mapping from names to these. A cut on such a column is made only where
        its sides keep this order, and the bounds from cuts above: the middle of the two shares parts the
        trees below. Shares beyond the bounds of their node are clipped. Not for the CLOUDS splitters, nor
        ``missing="surrogate"``.
    pruning : object or name, optional
        How the grown tree is cut back: an object of `arraylearn.pruning`, such as ``Confidence(0.25)``, or
        the name of one with its defaults: "chi2", "confidence", "cost_complexity", "mdl", "pessimistic",
        "reduced_error".
    random_state : int, Generator, optional
        For `max_features`, drawn cuts, held-out rows and folds.
    categorical_features : "from_dtype", array of indices or mask
        Nominal columns of plain arrays. In a column of more than 16 categories, or of more than 8 with fewer
        than 5 rows for each, those of too few rows to learn from (all of them, if it is an identifier) count
        as missing, except with `require_average_gain` and no `pruning`.
    verbose : int
        1: a progress bar: one step for each tree that is grown, which are several where folds choose the
        price of a leaf.
    backend : str, optional
        Where to compute: "numpy", "torch", "torch:cuda:0", "cupy"; by default where the data is.

    Attributes
    ----------
    tree_ : Trees
        The tree, a record of NumPy arrays: feature, threshold, first_child, counts, ... of each node.
    classes_ : array (c,)
        The class labels.
    n_classes_ : int
        Their number.
    max_features_ : int
        Number of columns that each node may split by.
    clouds_report_ : CloudsReport
        For the CLOUDS splitters: how many intervals there were, and how many were searched.
    feature_importances_ : array (d,)
        Share of each column in the total decrease of the impurity.
    pruning_report_ : PruningReport
        Nodes and errors before and after pruning, where there was some.
    alpha_choice_ : AlphaChoice
        The path of cost-complexity pruning and its errors, where cross-validation chose the price.

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

    criterion: str | Measure = "gini"
    splitter: Literal["auto", "exact", "best", "hist", "clouds", "clouds_sampling", "random"] = "auto"
    max_bins: int = 255
    nominal: Literal["multiway", "binary"] = "multiway"
    missing: Literal["fractional", "surrogate", "direction", "known_fraction"] = "fractional"
    max_depth: int | None = None
    min_samples_split: int | float = 2
    min_samples_leaf: int | float = 1
    min_weight_fraction_leaf: float = 0.0
    max_leaf_nodes: int | None = None
    min_impurity_decrease: float = 0.0
    ccp_alpha: float = 0.0
    max_features: int | float | str | None = None
    class_weight: Mapping[Any, float] | str | None = None
    penalize_thresholds: bool = False
    require_average_gain: bool = False
    collapse: bool = False
    monotonic_cst: Any = None
    pruning: Pruning | str | None = None
    random_state: RandomState = None
    categorical_features: Any = "from_dtype"
    verbose: int = 0
    backend: str | None = None

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
            Weights: how much a row counts, beside the others. A common factor changes nothing, weight 0
            leaves a row out, and whole numbers, some of them 1, give the tree of the rows repeated that
            often, unless a limit counts rows.
        validation : tuple (X, y), optional
            Held-out rows for reduced-error pruning; default: a part of the rows.

        Returns
        -------
        DecisionTreeClassifier
            Itself.
        """
        return self._fit(X, y, sample_weight, validation, self._grow)

    def _fit(self, X: Any, y: Any, sample_weight: Any, validation: Any, grow: Grow) -> Self:
        """Do the work of `fit`; `grow` may reuse work done for other fits on the same rows."""
        return self._fit_to(lambda: self._open_weighted(X, y, sample_weight), validation, grow)

    def _fit_to(self, open_rows: Callable[[], FitRows], validation: Any, grow: Grow) -> Self:
        """Do the same on rows that have been read; `open_rows` also sets what the door learns of them."""
        pruning = check_settings(self, validation)
        with self._fitting(), self._progress("growing", _count_grown(pruning)) as report:
            batch, labels, weights, _, _ = open_rows()
            check_nominal(self, self.schema_)
            self._refuse_bad(*read_flags(batch.place, batch.is_bad))
            state_work(batch.table.n_rows * self.n_features_in_, get_tuning().compiled_tree)
            if not (self.require_average_gain and pruning is None):  # J48 -U branches by all categories
                batch = self._leave_out_rare(batch, labels)
            generator = as_generator(self.random_state)
            unit = 1.0
            if weights is not None:  # rules of C4.5 and prunings estimate by numbers of rows
                total, weights = float(weights.sum()), repeat_weights(weights)
                unit = total / float(weights.sum())
            sample = Sample(batch.place, self.schema_, batch.table, labels.codes, weights)

            def grow_and_report(weights: HostArray | None) -> Trees:
                tree = grow(sample, weights, generator)
                report()
                return tree

            if pruning is None:
                self.model_ = grow_and_report(weights)
            else:
                self._grow_and_prune(pruning, sample, validation, generator, grow_and_report)
            self.model_ = self._in_units(self.model_, unit)
        return self

    def cost_complexity_pruning_path(self, X: Any, y: Any, sample_weight: Any = None) -> CostComplexityPath:
        """Grow the tree without pruning, and find the prices `ccp_alpha` at which it loses leaves.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`; the estimator stays as it is.

        Returns
        -------
        CostComplexityPath
            ``ccp_alphas``, ascending, ``impurities`` of the leaves together, ``n_leaves``, ``n_nodes``.
        """
        grown = clone(self).set_params(ccp_alpha=0.0, pruning=None).fit(X, y, sample_weight)
        return cost_complexity_path(grown.tree_)

    def _grow(
        self,
        sample: Sample,
        weights: HostArray | None,
        generator: np.random.Generator,
        find_order: FindOrder | None = None,
    ) -> Trees:
        """Grow the tree; `find_order` may return the order of the rows by every numeric column, if known."""
        place, table, n_classes = sample.place, sample.table, len(self.classes_)
        n_rows, total, unit = table.n_rows, float(table.n_rows), 1.0
        if weights is not None:
            if self.splitter == "random" or is_scale_free(self._rule(1, 1.0, is_apart=False)):
                weights, unit = grid_weights(weights)
            n_rows, total = int(np.count_nonzero(weights)), float(np.sum(weights))
        is_apart = weights is not None and bool(np.any(weights != np.sign(weights)))
        rule = self._rule(n_rows, total, is_apart=is_apart)
        limits = self._limits(n_rows, total, is_apart=is_apart)
        is_large = table.n_rows > ROWS_FOR_BINS and not self.penalize_thresholds
        if self.splitter == "random":
            given = place, table, sample.codes, weights
            tree = grow_random(*given, rule, limits, self.max_bins, generator)
        elif self.splitter == "hist" or (self.splitter == "auto" and is_large):
            if self.splitter == "auto":
                _note_bins()
            rows = bin_rows(place, table, sample.codes, n_classes, weights, self.max_bins)
            tree = grow_binned(place, rows, rule, self._stop_early(rows, limits), generator)
        else:
            rows = prepare_rows(place, table, sample.codes, n_classes, weights)
            settings = rule, self._stop_early(rows, limits), generator
            if self.splitter.startswith("clouds"):
                is_estimating = self.splitter == "clouds"
                tree, self.clouds_report_ = grow_clouds(
                    place, rows, table, self.max_bins, is_estimating, *settings
                )
            else:
                tree = grow_exact(place, rows, *settings, find_order=find_order)
        tree = self._in_units(tree, unit)
        if self.min_impurity_decrease > 0 or (self.splitter == "random" and self.max_leaf_nodes is not None):
            tree = self._cut_weak(tree)
        return collapse(tree) if self.collapse else tree

    def _stop_early(self, rows: Rows, limits: Limits) -> Limits:
        """Let growth skip splits that `_cut_weak` would cut whatever share of the weight their node has."""
        is_corrected = self.penalize_thresholds or self.require_average_gain or rows.has_missing
        if is_corrected or self.criterion not in _DECREASES:
            return limits
        return limits._replace(min_gain=self.min_impurity_decrease)

    def _cut_weak(self, tree: Trees) -> Trees:
        """Cut the splits whose decrease is too small, then apply `max_leaf_nodes`, which growth left open."""
        on_host = tree_on_host(tree)
        weight = np.sum(on_host.counts, axis=1)
        held = weight * on_host.impurity
        decrease = held - histogram(HOST.xp, on_host.parent[1:], on_host.n_nodes, held[1:])
        return cut_weak(tree, decrease, weight[:1], self.min_impurity_decrease, self.max_leaf_nodes)

    def _grow_and_prune(
        self,
        pruning: Pruning,
        sample: Sample,
        validation: Any,
        generator: np.random.Generator,
        grow: Callable[[HostArray | None], Trees],
    ) -> None:
        pruned = grow_and_prune(
            pruning,
            sample,
            grow,
            generator=generator,
            held_out=None if validation is None else read_sample(self, *validation),
            impurity=self._rule(1, 1.0, is_apart=False).impurity,
        )
        self.model_, self.pruning_report_ = pruned.tree, pruned.report
        if pruned.choice is not None:
            self.alpha_choice_ = pruned.choice

    @property
    def max_features_(self) -> int:
        """Number of columns that each node may split by."""
        d: int = self.n_features_in_
        return min(count_features(self.max_features, d) or d, d)

    def _rule(self, n_rows: int, total: float, *, is_apart: bool) -> SplitRule:
        """Return the rule for so many rows of this weight in all; `is_apart`: some rows do not weigh 1."""
        least, weight = share_of(self.min_samples_leaf, n_rows), self.min_weight_fraction_leaf * total
        return SplitRule(
            measure="entropy" if self.criterion == "log_loss" else self.criterion,
            nominal=self.nominal,
            missing=self.missing,
            penalize_thresholds=self.penalize_thresholds,
            require_average_gain=self.require_average_gain,
            least=weight if is_apart else max(least, weight),
            least_rows=least if is_apart else 0,
            scale_least=self.penalize_thresholds,
            trend=read_trend(
                self.monotonic_cst,
                self.schema_,
                getattr(self, "feature_names_in_", None),
                len(self.classes_),
            ),
        )

    def _limits(self, n_rows: int, total: float, *, is_apart: bool) -> Limits:
        least, weight = share_of(self.min_samples_leaf, n_rows), self.min_weight_fraction_leaf * total
        split = max(share_of(self.min_samples_split, n_rows), 2 * least)
        return Limits(
            max_depth=self.max_depth,
            min_samples_split=0 if is_apart else split,
            min_samples_leaf=weight if is_apart else max(least, weight),
            least_rows=split if is_apart else 0,
            side_rows=max(1, math.ceil(least - _ROUNDING)),
            max_leaf_nodes=None if self.min_impurity_decrease > 0 else self.max_leaf_nodes,
            min_gain=LEAST_GAIN if self.penalize_thresholds else 0.0,
            max_features=count_features(self.max_features, self.n_features_in_),
        )

    def _in_units(self, tree: Trees, unit: float) -> Trees:
        """Return a tree whose class weights are multiplied by the weight of a unit."""
        if unit == 1.0:
            return tree
        gain = tree.gain * unit if self.criterion == "chi2" else tree.gain
        return tree._replace(counts=tree.counts * unit, gain=gain)


def _count_grown(pruning: Pruning | None) -> int:
    """Return how many trees are grown."""
    return 1 + pruning.folds if isinstance(pruning, CostComplexity) and pruning.alpha is None else 1


@cache  # once per process
def _note_bins() -> None:
    _log.warning(
        "splitter='auto' cuts at the edges of bins above %s rows, not at every value; name splitter='exact' "
        "or 'hist' to have the same on all tables",
        f"{ROWS_FOR_BINS:,}",
    )
