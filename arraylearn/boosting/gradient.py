"""The gradient boosting classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.dispatch import state_work
from arraylearn.backend.namespace import HOST, from_host, locate, read_flags, to_host
from arraylearn.backend.random import RandomState, as_generator, spawn
from arraylearn.boosting.boosted import Boosted, append_trees, sum_scores
from arraylearn.boosting.constraints import read_groups
from arraylearn.boosting.log_loss import start_scores
from arraylearn.boosting.rounds import BoostingRows, BoostingRule, Plan, boost, boosting_work
from arraylearn.boosting.staged import StagedClassifier, fit_init, given_scores
from arraylearn.boosting.validation import Held, Part, check_given, judge_rows, share_rows, take_part
from arraylearn.checks import (
    check_flag,
    check_integer,
    check_number,
    check_rows,
    count_features,
    refuse,
    share_of,
)
from arraylearn.estimator import Batch
from arraylearn.grow.histograms.newton_trees import CATEGORY_PRICE, NewtonRule, prepare_columns
from arraylearn.grow.split import SLACK
from arraylearn.grow.trees import LEAF, Limits, Trees, join_trees
from arraylearn.table.binning import apply_binning, learn_binning
from arraylearn.table.labels import encode_with
from arraylearn.table.subsets import take_rows
from arraylearn.tree.settings import read_trend
from arraylearn.weights import read_weights, repeat_weights

__all__ = ["GradientBoostingClassifier"]


@dataclass(kw_only=True, eq=False, repr=False)
class GradientBoostingClassifier(StagedClassifier):
    r"""Gradient boosted trees on histograms, with the log loss, for any number of classes.

    Each round adds to the score :math:`s_c` of every class (of one class, if there are two) a tree whose
    splits maximize

    .. math:: \frac{G_L^2}{H_L + \lambda} + \frac{G_R^2}{H_R + \lambda} - \frac{G^2}{H + \lambda}

    and whose leaves have the value :math:`-\eta G / (H + \lambda)`. G and H are the sums of the gradients
    :math:`w_i (p_{ci} - [y_i = c])` and hessians :math:`w_i p_{ci} (1 - p_{ci})` of the rows on each side,
    rounded to integers: no sum depends on its order, so that every backend and any number of threads grow the
    same trees, bit for bit.

    Parameters
    ----------
    n_estimators : int
        Number of rounds.
    learning_rate : float
        The factor :math:`\eta` of each step.
    max_depth : int or None
        Greatest depth of a tree.
    max_leaf_nodes : int or None
        Greatest number of leaves; the nodes of the largest gain are split first.
    l2_regularization : float
        The :math:`\lambda` of the formula. Where the model is sure of nearly all rows of a leaf, its step is
        the smaller for it; 1 is better on noisy rows, 0 where the classes are apart.
    min_child_hessian : float
        Least sum of hessians of a leaf.
    min_samples_leaf : int, float or "auto"
        Least number of rows of a leaf; a float is a share of all rows, up to 1.0; 0: no limit; "auto": a
        fifth of the rows, but at most 20. Rows are counted as LightGBM does: the hessian of the leaf, divided
        by the average hessian per row of the node that is split. So rows whose class the model is sure of
        already count for less than one.
    max_bins : int
        Greatest number of bins of a column, 2 to 255. Of more categories than this, the rarest share a bin.
    subsample : float
        Share of the rows drawn for each round, without replacement.
    max_features : int, float, {"sqrt", "log2"}, optional
        Number or share of the columns drawn for each tree; None for all.
    categorical_smoothing : float
        The categories of a nominal column are put in the order of :math:`G / (H + \text{smoothing})`, and the
        best split of this order in two is best among all sets. Because it is, its gain counts for
        :math:`2 / \pi` less for each category of the node beyond two: so much the best set gains on average
        where the column has no part in the classes.
    monotonic_cst : array-like (d,) or dict, optional
        1 where the second class may only become more likely along a column, -1 where it may only become less
        likely, 0 otherwise; by column or by its name. Two classes and numeric columns only.
    interaction_cst : "pairwise", "no_interactions" or sequence of sets of int or str, optional
        Sets of columns, by position or name: the columns on a path from the root lie in one of them. Columns
        that no set holds are one more. "pairwise": any two; "no_interactions": one column per tree.
    init : classifier or "zero", optional
        Where the scores begin: at the logarithms of the probabilities that a copy of this classifier learns
        to predict (1/256, where they are smaller), or at 0. By default at the shares of the classes.
    warm_start : bool
        Whether `fit` keeps the rounds of the fit before, which had the same columns and classes, and adds
        those that are missing up to `n_estimators`.
    early_stopping : bool
        Whether to hold out rows and to stop when `n_iter_no_change` rounds have not improved their score by
        more than `tol`. The rounds up to the best are kept.
    scoring : "loss", str, callable or None
        What is measured on these rows: the log loss, or a scorer, by name or as ``scorer(estimator, X, y)``,
        larger is better. It sees predictions of exactly those rows. None: the accuracy.
    validation_fraction : float or None
        Share of the rows of every class that is held out. None: the rows trained on are judged.
    n_iter_no_change : int
        See `early_stopping`.
    tol : float
        See `early_stopping`.
    class_weight : dict, "balanced", optional
        Weights of the classes.
    random_state : int, Generator, optional
        For the draws of rows and columns and for the rows held out.
    categorical_features : "from_dtype", array of indices or mask
        Nominal columns of plain arrays. In a column of more than 16 categories, or of more than 8 with fewer
        than 5 rows for each, those of too few rows to learn from count as missing.
    verbose : int
        1: a progress bar with the loss and the time left.
    backend : str, optional
        Where to compute: "numpy", "torch", "torch:cuda:0", "cupy"; by default where the data is.

    Attributes
    ----------
    classes_ : array (c,)
        The class labels.
    n_iter_ : int
        Number of rounds of the model.
    n_trees_per_iteration_ : int
        1 for two classes, else one per class.
    feature_importances_ : array (d,)
        Share of each column in the gains of all splits.
    validation_score_ : array
        Score of the held-out rows before the first and after each round, minus the log loss with
        ``scoring="loss"``; empty without early stopping.
    max_features_ : int
        Number of columns drawn for each tree.
    init_ : classifier
        The fitted `init`, where that is a classifier.
    seed_ : int
        Seed of the random numbers of all rounds.

    Notes
    -----
    `l2_regularization`, `min_child_hessian` and `categorical_smoothing` are in units of one row: that of the
    least weight, where all weights are multiples of it, else one of average weight.

    Missing values are tried on both sides of each split; where a node has none, they go to the side of more
    weight. Infinities are values beyond all others. The host syncs twice per level and tree.

    A split by a column of `monotonic_cst` is admissible if the values of its sides are in that order; the
    middle of these values bounds the values of all nodes below.

    References
    ----------
    J. H. Friedman, "Greedy function approximation", 2001; T. Chen, C. Guestrin, "XGBoost", 2016; G. Ke et
    al., "LightGBM", 2017; W. D. Fisher, "On grouping for maximum homogeneity", 1958.

    Examples
    --------
    >>> from arraylearn import GradientBoostingClassifier
    >>> X = [[i] for i in range(40)]
    >>> y = ["low" if i < 10 or i >= 30 else "middle" for i in range(40)]
    >>> model = GradientBoostingClassifier(n_estimators=20, min_samples_leaf=5).fit(X, y)
    >>> model.predict([[5], [20], [35]]).tolist()
    ['low', 'middle', 'low']
    """

    _accepts_infinity: ClassVar[bool] = True

    n_estimators: int = field(default=100, kw_only=False)
    learning_rate: float = 0.1
    max_depth: int | None = 6
    max_leaf_nodes: int | None = None
    l2_regularization: float = 0.1
    min_child_hessian: float = 1e-3
    min_samples_leaf: int | float | str = "auto"
    max_bins: int = 254
    subsample: float = 1.0
    max_features: int | float | str | None = 1.0
    categorical_smoothing: float = 10.0
    monotonic_cst: Any = None
    interaction_cst: Any = None
    init: Any = None
    warm_start: bool = False
    early_stopping: bool = False
    scoring: str | Callable[..., float] | None = "loss"
    validation_fraction: float | None = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-7
    class_weight: Mapping[Any, float] | str | None = None
    random_state: RandomState = None
    categorical_features: Any = "from_dtype"
    verbose: int = 0
    backend: str | None = None

    # ---- learning

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
    ) -> Self:
        """Boost trees.

        Parameters
        ----------
        X : array-like or data frame (n, d)
            Rows; NaN, None and null are missing values.
        y : array-like (n,)
            Class labels.
        sample_weight : array-like (n,), optional
            Weights: how much a row counts, beside the others. A common factor changes nothing, and weight 0
            leaves a row out.
        X_val, y_val, sample_weight_val : optional
            Rows for `early_stopping`, their labels and weights, in place of a share of the others.

        Returns
        -------
        GradientBoostingClassifier
            Itself.
        """
        self._check_settings()
        is_given = X_val is not None or y_val is not None
        if is_given:
            check_given(self.early_stopping, X_val, y_val)
        is_further = self.warm_start and "model_" in self.__dict__
        with self._updating() if is_further else self._fitting():
            rows = self._open_weighted(X, y, sample_weight, self._reopen_fit if is_further else None)
            batch, labels, weights = rows.batch, rows.labels, rows.weights
            place, n_classes = batch.place, len(self.classes_)
            self._refuse_bad(*read_flags(place, batch.is_bad))
            n_trees = int(self.n_estimators) * (1 if n_classes <= 2 else n_classes)
            state_work(*boosting_work(batch.table.n_rows * self.n_features_in_, n_trees))
            if not is_further:
                batch = self._leave_out_rare(batch, labels)
                if not (self.init is None or isinstance(self.init, str)):
                    self.init_ = fit_init(self.init, X, y, sample_weight)
            X = rows.X
            base = self._model_at(place) if is_further else self._begin(batch, weights)
            part, heaviest = self._lay_out(base, batch, X, labels.codes, weights)
            generator, held = as_generator(self.seed_), None
            if is_given:
                held = self._read_given(base, X_val, y_val, sample_weight_val)
            elif self.early_stopping:
                part, held = self._hold_out(part, batch, X, labels.codes, generator)
            if base.start is None:
                own = None if part.weights is None else to_host(part.weights)
                start = start_scores(to_host(part.codes), own, max(n_classes, 2))
                base = base._replace(start=from_host(start, place, place.xp.int32))
            self._boost(base, part, held, self._plan(int(part.bins.shape[1]), heaviest), generator)
        return self

    def _begin(self, batch: Batch, weights: HostArray | None) -> Boosted:
        """Return a model without trees, with the binning of all rounds; `start` is None if not known yet."""
        place, n_classes = batch.place, len(self.classes_)
        is_seed = isinstance(self.random_state, Integral)
        seed = self.random_state if is_seed else as_generator(self.random_state).integers(2**63 - 1)
        self.seed_, self.n_iter_ = int(seed), 0  # type: ignore[arg-type]
        self.n_trees_per_iteration_ = k = 1 if n_classes <= 2 else n_classes
        self.validation_score_ = np.zeros(0)
        start = None if self.init is None else place.xp.zeros(k, dtype=place.xp.int32, device=place.device)
        binning = learn_binning(place, batch.table, self.max_bins, weights)
        return Boosted(binning, start, None, (0.0,) * self.n_features_in_)

    def _lay_out(
        self, base: Boosted, batch: Batch, X: Any, codes: HostArray, weights: HostArray | None
    ) -> tuple[Part, float]:
        """Return binned rows, with scores that lack `start`, and how many rows the heaviest one counts as."""
        place, k, heaviest, weights_on = batch.place, self.n_trees_per_iteration_, 1.0, None
        xp = place.xp
        if weights is not None and bool((weights != weights[0]).any()):
            weights_on = from_host(weights / weights.max(), place, xp.float32)
            heaviest = float(repeat_weights(weights).max())
        bins = apply_binning(xp, base.binning, batch.table)
        scores = xp.zeros((k, codes.shape[0]), dtype=xp.int32, device=place.device)
        if "init_" in self.__dict__:
            scores = from_host(given_scores(self.init_, X), place)
        if base.trees is not None:
            scores = scores + sum_scores(xp, bins, self._packed_at(place), base.trees.value, k)
        return Part(bins, from_host(codes, place, xp.int64), weights_on, scores), heaviest

    def _read_given(self, base: Boosted, X: Any, y: Any, sample_weight: Any) -> Held:
        """Read the rows for validation that are given."""
        batch = self._open(X)
        codes = encode_with(y, self.classes_)
        weights = read_weights(sample_weight, codes.shape[0], HOST)
        return Held(self._lay_out(base, batch, X, codes, weights)[0], X, batch)

    def _hold_out(
        self, part: Part, batch: Batch, X: Any, codes: HostArray, generator: np.random.Generator
    ) -> tuple[Part, Held]:
        """Return the rows to grow trees on, and those to judge them by."""
        if self.validation_fraction is None:
            return part, Held(part, X, batch)
        kept, held = share_rows(codes, len(self.classes_), self.validation_fraction, generator)
        rows = X if self.scoring == "loss" else take_rows(X, held)
        return take_part(batch.place, part, kept), Held(take_part(batch.place, part, held), rows, batch)

    def _boost(
        self, base: Boosted, part: Part, held: Held | None, plan: Plan, generator: np.random.Generator
    ) -> None:
        """Add the rounds that the model lacks up to `n_estimators`, and set the fitted attributes."""
        place, k, n_before = locate(part.bins), self.n_trees_per_iteration_, self.n_iter_
        columns = prepare_columns(place, base.binning, part.bins)
        sample = BoostingRows(columns, part.codes, part.weights, part.scores + base.start[:, None])
        holdout = None if held is None else judge_rows(self, held, base.start)
        generators = spawn(generator, self.n_estimators)[n_before:]
        with self._progress("boosting", len(generators)) as report:
            # without a bar no loss is computed
            found = boost(
                place, sample, plan, generators, holdout=holdout, report=report if self.verbose else None
            )
        n_rounds = len(found.trees) // k
        if holdout is not None:
            losses = np.asarray(found.losses)
            n_rounds = max(int(losses.argmin()), 1 - min(n_before, 1))
            before = self.validation_score_[:n_before] if n_before else losses[:0]
            self.validation_score_ = np.concat((before, -losses))
        self.model_ = self._add_rounds(base, found.trees[: n_rounds * k])
        self.n_iter_ = n_before + n_rounds

    def _add_rounds(self, base: Boosted, trees: list[Trees]) -> Boosted:
        """Return the model with further trees."""
        if not trees:
            return base
        place, d = locate(base.start), self.n_features_in_
        new = join_trees(place, trees, int(base.binning.edges.shape[0]), base.binning.n_bins)
        feature, gain = (np.concat([getattr(tree, name) for tree in trees]) for name in ("feature", "gain"))
        gains = np.asarray(base.gains) + np.bincount(feature[feature != LEAF], gain[feature != LEAF], d)
        if base.trees is not None:
            new = append_trees(place.xp, base.trees, new)
        return Boosted(base.binning, base.start, new, tuple(gains.tolist()))

    def _plan(self, n_rows: int, heaviest: float) -> Plan:
        names = getattr(self, "feature_names_in_", None)
        trend = groups = None
        if self.monotonic_cst is not None:
            trend = read_trend(self.monotonic_cst, self.schema_, names, len(self.classes_))
        if self.interaction_cst is not None:
            groups = read_groups(self.interaction_cst, self.schema_, names)
        amount = self.min_samples_leaf
        limits = Limits(
            max_depth=self.max_depth,
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_leaf=min(20, n_rows // 5) if amount == "auto" else share_of(amount, n_rows),
        )
        newton = NewtonRule(
            float(self.l2_regularization) / heaviest,
            (1.0 - SLACK) * float(self.min_child_hessian) / heaviest,  # sums of rounded hessians
            float(self.categorical_smoothing) / heaviest,
            trend,
            groups,
            CATEGORY_PRICE / heaviest,
        )
        return Plan(
            BoostingRule(limits, newton, self.learning_rate),
            self.subsample,
            self.max_features_,
            self.n_iter_no_change if self.early_stopping else None,
            self.tol,
        )

    @property
    def max_features_(self) -> int:
        """Number of columns drawn for each tree."""
        d = self.n_features_in_
        return min(count_features(self.max_features, d) or d, d)

    def _check_settings(self) -> None:
        check_integer("n_estimators", self.n_estimators, 1)
        check_integer("max_depth", self.max_depth, 1, optional=True)
        check_integer("max_leaf_nodes", self.max_leaf_nodes, 2, optional=True)
        check_integer("max_bins", self.max_bins, 2, 255)
        check_integer("n_iter_no_change", self.n_iter_no_change, 1)
        check_number("learning_rate", self.learning_rate, 0, closed="neither")
        for name in (
            "l2_regularization",
            "min_child_hessian",
            "categorical_smoothing",
            "tol",
        ):
            check_number(name, getattr(self, name), 0)
        check_number("subsample", self.subsample, 0, 1, closed="right")
        check_rows("min_samples_leaf", self.min_samples_leaf, 0, may_be_auto=True)
        count_features(self.max_features, 1)
        check_number("validation_fraction", self.validation_fraction, 0, 0.9, closed="right", optional=True)
        check_flag("warm_start", self.warm_start)
        if isinstance(self.init, str) and self.init != "zero":
            raise refuse("init", "must be None, 'zero' or a classifier", repr(self.init))
        scoring: Any = self.scoring  # whatever a caller gave
        if not isinstance(scoring, str | None) and not callable(scoring):
            raise refuse("scoring", "must be None, 'loss', the name of a scorer or a function", repr(scoring))
        if self.warm_start and self.n_estimators < self.__dict__.get("n_iter_", 0):
            raise ValueError(
                f"`n_estimators` must be at least the {self.n_iter_} rounds there are already; "
                f"got {self.n_estimators}. Set warm_start=False to start again."
            )
