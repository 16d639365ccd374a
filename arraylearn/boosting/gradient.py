"""The gradient boosting classifier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.namespace import Place, from_host, read_flags, to_host
from arraylearn.backend.random import RandomState, as_generator, spawn
from arraylearn.boosting.boosted import Boosted, probabilities, sum_scores
from arraylearn.boosting.log_loss import SCORE_BITS
from arraylearn.boosting.monotonic import read_trend
from arraylearn.boosting.rounds import Boosting, BoostingRows, BoostingRule, Holdout, Plan, boost
from arraylearn.checks import check_integer, check_number
from arraylearn.estimator import ArrayClassifier, Batch
from arraylearn.grow.histograms.newton_trees import NewtonRule, prepare_columns
from arraylearn.grow.trees import LEAF, Limits, join_trees
from arraylearn.progress import show_progress
from arraylearn.table import Labels
from arraylearn.table.binning import Binning, apply_binning, learn_binning
from arraylearn.walk.packed import PackedTrees, pack_trees

__all__ = ["GradientBoostingClassifier"]


class GradientBoostingClassifier(ArrayClassifier):
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
        The :math:`\lambda` of the formula. On a few hundred rows about 1 often gives better probabilities.
    min_child_hessian : float
        Least sum of hessians of a leaf.
    min_samples_leaf : float
        Least hessian of a leaf, counted in rows of the average hessian of the node that is split. So what
        the model is sure of already counts for less than a row.
    max_bins : int
        Greatest number of bins of a column, 2 to 254. Of more categories than this, the rarest share a bin.
    subsample : float
        Share of the rows drawn for each round, without replacement.
    max_features : float
        Share of the columns drawn for each tree.
    categorical_smoothing : float
        The categories of a nominal column are tried in the order of :math:`G / (H + \text{smoothing})`, which
        is where an optimal split of them in two lies. It adds to the :math:`\lambda` of such a split, which
        has many sets to choose from.
    monotonic_cst : array-like (d,) or dict, optional
        1 where the second class may only become more likely along a column, -1 where it may only become less
        likely, 0 otherwise; by column or by its name. Two classes and numeric columns only.
    early_stopping : bool
        Whether to hold out rows and to stop when `n_iter_no_change` rounds have not lowered their loss by
        more than `tol`. The rounds up to the best are kept.
    validation_fraction : float
        Share of the rows of every class that is held out.
    n_iter_no_change : int
        See `early_stopping`.
    tol : float
        See `early_stopping`.
    class_weight : dict, "balanced", optional
        Weights of the classes.
    random_state : int, Generator, optional
        For the draws of rows and columns and for the rows held out.
    categorical_features : "from_dtype", array of indices or mask
        Nominal columns of plain arrays.
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
    validation_loss_ : list of float
        Log loss of the held-out rows before the first and after each round; empty without early stopping.

    Notes
    -----
    Missing values are tried on both sides of each split; where a node has none, they go where more weight
    is. The host syncs twice per level and tree.

    A split along a column of `monotonic_cst` is made where its sides have values in that order, and bounds
    all below it at their middle.

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

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_depth: int | None = 6,
        max_leaf_nodes: int | None = None,
        l2_regularization: float = 0.0,
        min_child_hessian: float = 1e-3,
        min_samples_leaf: float = 20.0,
        max_bins: int = 254,
        subsample: float = 1.0,
        max_features: float = 1.0,
        categorical_smoothing: float = 10.0,
        monotonic_cst: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        class_weight: Mapping[Any, float] | str | None = None,
        random_state: RandomState = None,
        categorical_features: Any = "from_dtype",
        verbose: int = 0,
        backend: str | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.l2_regularization = l2_regularization
        self.min_child_hessian = min_child_hessian
        self.min_samples_leaf = min_samples_leaf
        self.max_bins = max_bins
        self.subsample = subsample
        self.max_features = max_features
        self.categorical_smoothing = categorical_smoothing
        self.monotonic_cst = monotonic_cst
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.class_weight = class_weight
        self.random_state = random_state
        self.categorical_features = categorical_features
        self.verbose = verbose
        self.backend = backend

    # ---- learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Boost trees.

        Parameters
        ----------
        X : array-like or data frame (n, d)
            Rows; NaN, None and null are missing values.
        y : array-like (n,)
            Class labels, of two classes at least.
        sample_weight : array-like (n,), optional
            Weights, not all zero.

        Returns
        -------
        GradientBoostingClassifier
            Itself.
        """
        self._check_settings()
        with self._fitting():
            batch, labels = self._open_fit(X, y)
            place, n_classes = batch.place, len(self.classes_)
            self._refuse_bad(*read_flags(place, batch.is_bad))
            if n_classes < 2:
                raise ValueError(
                    f"`y` must hold at least two classes; got one class: {self.classes_.tolist()[0]!r}."
                )
            trend = None
            if self.monotonic_cst is not None:
                names = getattr(self, "feature_names_in_", None)
                trend = read_trend(self.monotonic_cst, self.schema_, names, n_classes)
            weights = self._weigh(sample_weight, labels, place)
            binning = learn_binning(place, batch.table, self.max_bins)
            bins = apply_binning(place.xp, binning, batch.table)
            result = self._boost(place, binning, bins, labels, weights, trend)
            start = place.xp.asarray(result.start, dtype=place.xp.int32, device=place.device)
            trees = join_trees(place, result.trees, int(binning.edges.shape[0]), binning.n_bins)
            self.model_ = Boosted(binning, start, trees)
            self.n_trees_per_iteration_ = len(result.start)
            self.n_iter_ = len(result.trees) // len(result.start)
            self.validation_loss_ = result.losses
            self.feature_importances_ = self._importances(result)
        return self

    def _boost(
        self,
        place: Place,
        binning: Binning,
        bins: Array,
        labels: Labels,
        weights: Array | None,
        trend: tuple[int, ...] | None,
    ) -> Boosting:
        xp = place.xp
        generator = as_generator(self.random_state)
        codes = from_host(labels.codes, place, xp.int64)
        heaviest = 1.0
        if weights is not None:
            heaviest = float(xp.max(weights))
            weights = xp.astype(weights / heaviest, xp.float32)
        holdout = None
        if self.early_stopping:
            kept, held = (from_host(rows, place, xp.int64) for rows in self._hold_out(labels, generator))
            holdout = Holdout(
                xp.take(bins, held, axis=1),
                xp.take(codes, held, axis=0),
                None if weights is None else xp.take(weights, held, axis=0),
            )
            bins, codes = xp.take(bins, kept, axis=1), xp.take(codes, kept, axis=0)
            weights = None if weights is None else xp.take(weights, kept, axis=0)
        columns = prepare_columns(place, binning, bins)
        plan = self._plan(int(bins.shape[0]), heaviest, trend)
        generators = spawn(generator, self.n_estimators)
        rows, n_classes = BoostingRows(columns, codes, weights), len(self.classes_)
        if not self.verbose:  # no loss is computed
            return boost(place, rows, n_classes, plan, generators, holdout=holdout)
        with show_progress("boosting", self.n_estimators, self.verbose) as report:
            return boost(place, rows, n_classes, plan, generators, holdout=holdout, report=report)

    def _plan(self, n_columns: int, heaviest: float, trend: tuple[int, ...] | None) -> Plan:
        limits = Limits(
            max_depth=self.max_depth,
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_leaf=self.min_samples_leaf,
        )
        newton = NewtonRule(
            self.l2_regularization / heaviest,
            self.min_child_hessian / heaviest,
            self.categorical_smoothing / heaviest,
            trend,
        )
        return Plan(
            self.n_estimators,
            BoostingRule(limits, newton, self.learning_rate),
            self.subsample,
            max(1, round(self.max_features * n_columns)),
            self.n_iter_no_change if self.early_stopping else None,
            self.tol,
        )

    def _hold_out(self, labels: Labels, generator: Any) -> tuple[Any, Any]:
        """Draw the rows to hold out, class by class; return the kept rows and the held-out ones."""
        is_held = labels.codes < 0
        for code in range(len(labels.classes)):
            rows = generator.permutation((labels.codes == code).nonzero()[0])
            n_held = round(self.validation_fraction * rows.shape[0])
            is_held[rows[: max(n_held, 1) if rows.shape[0] > 1 else 0]] = True
        present = set(labels.codes[is_held].tolist())
        if len(present) < 2:
            raise ValueError(
                "The validation part must hold at least two classes; of "
                f"{labels.codes.shape[0]} rows it got {len(present)} of {len(labels.classes)} classes. "
                "Give more rows of each class, or use early_stopping=False."
            )
        return (~is_held).nonzero()[0], is_held.nonzero()[0]

    def _importances(self, result: Boosting) -> Any:
        """Return the share of each column in the gains of all splits."""
        order = np.asarray([*self.schema_.numeric_idx, *self.schema_.nominal_idx])
        feature = np.concat([tree.feature for tree in result.trees])
        gain = np.concat([tree.gain for tree in result.trees])[feature != LEAF]
        totals = np.bincount(order[feature[feature != LEAF]], gain, minlength=order.shape[0])
        totals = np.astype(totals, np.float64)  # of trees without a split NumPy makes integers
        total = sum(totals.tolist())
        return totals / total if total > 0 else totals

    def _check_settings(self) -> None:
        check_integer("n_estimators", self.n_estimators, 1)
        check_integer("max_depth", self.max_depth, 1, optional=True)
        check_integer("max_leaf_nodes", self.max_leaf_nodes, 2, optional=True)
        check_integer("max_bins", self.max_bins, 2, 254)
        check_integer("n_iter_no_change", self.n_iter_no_change, 1)
        check_number("learning_rate", self.learning_rate, 0, closed="neither")
        for name in (
            "l2_regularization",
            "min_child_hessian",
            "min_samples_leaf",
            "categorical_smoothing",
            "tol",
        ):
            check_number(name, getattr(self, name), 0)
        for name in ("subsample", "max_features"):
            check_number(name, getattr(self, name), 0, 1, closed="right")
        check_number("validation_fraction", self.validation_fraction, 0, 0.9, closed="right")

    # ---- prediction

    def _scores(self, X: Any) -> tuple[Array, Batch]:
        batch = self._open(X)
        xp, model = batch.place.xp, self._model_at(batch.place)
        bins = apply_binning(xp, model.binning, batch.table)
        k = model.start.shape[0]
        scores = sum_scores(xp, bins, self._packed_at(batch.place), model.trees.value, k)
        return scores + model.start[:, None], batch

    def _packed_at(self, place: Place) -> PackedTrees:
        """Return the trees in the form of predictions."""

        def pack() -> PackedTrees:
            model = self._model_at(place)
            return pack_trees(place.xp, model.trees, self.n_features_in_, model.binning.n_bins)

        packed: PackedTrees = self._prepared_at(place, "packed", pack)
        return packed

    def predict(self, X: Any) -> Array:
        """Predict the class labels (n,) of rows."""
        scores, batch = self._scores(X)
        xp = batch.place.xp
        codes = xp.astype(scores[0, :] > 0, xp.int64) if scores.shape[0] == 1 else xp.argmax(scores, axis=0)
        return self._deliver_labels(codes, batch)

    def predict_proba(self, X: Any) -> Array:
        """Predict the probabilities (n, c) of the classes, in the order of `classes_`."""
        scores, batch = self._scores(X)
        return self._deliver(probabilities(batch.place.xp, scores, batch.float_dtype), batch)

    def decision_function(self, X: Any) -> Array:
        """Return the scores: log odds (n,) of the second of two classes, or (n, c)."""
        scores, batch = self._scores(X)
        xp = batch.place.xp
        odds = xp.astype(scores, batch.float_dtype) * 2.0**-SCORE_BITS
        return self._deliver(odds[0, :] if odds.shape[0] == 1 else xp.permute_dims(odds, (1, 0)), batch)

    def staged_predict_proba(self, X: Any) -> Iterator[Array]:
        """Yield the probabilities (n, c) after each round."""
        batch = self._open(X)
        xp = batch.place.xp
        model: Boosted = self._model_at(batch.place)
        bins = apply_binning(xp, model.binning, batch.table)
        k = model.start.shape[0]
        scores, packed = model.start[:, None], self._packed_at(batch.place)
        for i in range(self.n_iter_):
            trees = packed._replace(roots=packed.roots[i * k : (i + 1) * k])
            scores = scores + sum_scores(xp, bins, trees, model.trees.value, k)
            yield self._deliver(probabilities(xp, scores, batch.float_dtype), batch)

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Yield the class labels (n,) after each round."""
        for shares in self.staged_predict_proba(X):
            host = to_host(shares)
            yield self.classes_.take(host.argmax(axis=1))
