"""The random forest classifier."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.dispatch import get_tuning, state_work
from arraylearn.backend.errors import warn_caller
from arraylearn.backend.namespace import Place, is_on_host, read_flags
from arraylearn.backend.random import RandomState, as_generator, spawn
from arraylearn.backend.threads import get_num_threads, limited_threads, map_apart
from arraylearn.checks import check_flag, check_integer, check_number, count_features, share_of
from arraylearn.forest.bags import draw_bags
from arraylearn.forest.fitted_forest import FittedForest
from arraylearn.forest.grove import Forest, Grove, join_grove, share_sums
from arraylearn.forest.members import cut_back
from arraylearn.forest.out_of_bag import judge_out_of_bag
from arraylearn.grow.drawn_columns.columns import draw_columns
from arraylearn.grow.drawn_columns.drawn import DrawnPlan, choose_body, grow_trees
from arraylearn.grow.trees import Limits, Trees
from arraylearn.measures.count_measures import Measure
from arraylearn.table import Labels, Schema
from arraylearn.table.binning import Binning, apply_binning, learn_binning, order_categories, place_bins
from arraylearn.tree.settings import check_criterion, check_limits, read_trend
from arraylearn.weights import grid_weights

__all__ = ["RandomForestClassifier"]

# The most bins that a compiled body takes, without the one of missing values.
_MOST_BINS = 4_094
# Rounding error allowed in a share of the rows.
ROUNDING = 1e-9
# Bits of the keys by which the array program sorts rows, less one for the bin of missing values.
_KEY_BITS = 62


@dataclass(kw_only=True, eq=False, repr=False)
class RandomForestClassifier(FittedForest):
    r"""Random forest: trees on bootstrap samples, each node split by one of some columns drawn at random.

    A node takes the cut that maximizes :math:`\sum_c l_c^2 / l + \sum_c r_c^2 / r` (the Gini gain) among its
    drawn columns; where none of them can be cut, it considers all. Trees are grown many at a time, level by
    level, with a bootstrap sample as whole-number weights. A prediction is the mean of the leaves' class
    shares.

    Parameters
    ----------
    n_estimators : int
        Number of trees. Tree i is the same however many there are, on every backend.
    criterion : str or callable
        As for `DecisionTreeClassifier`. A function takes the array program, which grows level by level.
    max_features : int, float, {"sqrt", "log2"}, optional
        Number or share of the columns drawn for each node; None for all.
    max_bins : int
        Number of bins per numeric column at most, up to 4094: full-grown trees lose accuracy with fewer.
    max_depth : int, optional
        Greatest depth of a leaf.
    min_samples_split : int or float
        A node of fewer rows is a leaf; a float is a share of all rows, up to 1.0. A row that is drawn several
        times counts once.
    min_samples_leaf : int or float
        Least number of rows on each side of a cut, which count as for `min_samples_split`; a float is a share
        of all rows, up to 1.0.
    min_weight_fraction_leaf, max_leaf_nodes, min_impurity_decrease, ccp_alpha
        As for `DecisionTreeClassifier`, in each tree. The last three cut trees back after they have grown.
    monotonic_cst : array-like or mapping, optional
        As for `DecisionTreeClassifier`; such trees are grown level by level, by the array program.
    bootstrap : bool
        Whether each tree has a sample of the rows drawn with replacement; otherwise all rows.
    max_samples : int or float, optional
        Rows that are drawn for each tree with `bootstrap`: an integer, or a float, which is a share of the
        number of rows and may be above 1; None: as many as there are.
    oob_score : bool or callable
        Whether to judge every row by the trees that did not see it; a function ``(y, predicted) -> float``
        takes the place of the accuracy.
    class_weight : dict, "balanced", optional
        Weights of the classes, by which those of the rows are multiplied; "balanced" gives all classes the
        same sum.
    warm_start : bool
        Whether a further `fit`, on the same data with a larger `n_estimators`, adds trees to those there are.
    random_state : int, Generator, optional
        Seed of the seeds of the trees. The columns drawn for a node depend on it, on the number of the tree
        and on the path to the node alone: not on rows, labels, other trees, threads or backend.
    categorical_features : "from_dtype", array of indices or mask
        Nominal columns of plain arrays. Their categories are put in the order of the mean class, and cut;
        where there are more than 16, or more than 8 with fewer than 5 rows for each, those of too few rows to
        learn from count as missing.
    n_jobs : int, optional
        Threads of the CPU: a number, or -1 for all; None: `set_num_threads`. They change no result.
    verbose : int
        1: a progress bar with the time left.
    backend : str, optional
        Where to compute: "numpy", "torch", "torch:cuda:0", "cupy"; by default where the data is.

    Attributes
    ----------
    classes_ : array (c,)
        The class labels.
    n_classes_ : int
        Their number.
    n_trees_ : int
        Number of trees.
    estimators_ : list of DecisionTreeClassifier
        The trees one by one, over values; their classes are the codes 0, 1, ... Made on first access.
    feature_importances_ : array (d,)
        Mean over the trees of the share of each column in the decrease of the impurity.
    oob_score_ : float
        Accuracy, or the score of `oob_score`, on the rows out of bag.
    oob_decision_function_ : array (n, c)
        Class shares of each row by the trees that did not see it; NaN where all did.

    Notes
    -----
    Missing values are larger than all others: a cut may keep them apart, or with the largest values.

    References
    ----------
    L. Breiman, "Random forests", 2001.

    Examples
    --------
    >>> from arraylearn import RandomForestClassifier
    >>> X = [[i, i % 3] for i in range(40)]
    >>> y = ["low" if i < 10 or i >= 30 else "middle" for i in range(40)]
    >>> model = RandomForestClassifier(n_estimators=20, random_state=0).fit(X, y)
    >>> model.predict([[5, 0], [20, 1], [35, 2]]).tolist()
    ['low', 'middle', 'low']
    """

    # whether a node scores one cut per column, drawn at random, instead of all cuts
    _draws_cuts: ClassVar[bool] = False

    n_estimators: int = field(default=100, kw_only=False)
    criterion: str | Measure = "gini"
    max_features: int | float | str | None = "sqrt"
    max_bins: int = 4094
    max_depth: int | None = None
    min_samples_split: int | float = 2
    min_samples_leaf: int | float = 1
    min_weight_fraction_leaf: float = 0.0
    max_leaf_nodes: int | None = None
    min_impurity_decrease: float = 0.0
    ccp_alpha: float = 0.0
    monotonic_cst: Any = None
    bootstrap: bool = True
    max_samples: int | float | None = None
    oob_score: bool | Callable[..., float] = False
    class_weight: Mapping[Any, float] | str | None = None
    warm_start: bool = False
    random_state: RandomState = None
    categorical_features: Any = "from_dtype"
    n_jobs: int | None = None
    verbose: int = 0
    backend: str | None = None

    # ---- learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the trees.

        Parameters
        ----------
        X : array-like or data frame (n, d)
            Rows; NaN, None and null are missing values.
        y : array-like (n,)
            Class labels.
        sample_weight : array-like (n,), optional
            Weights: how much a row counts, beside the others. Rows are drawn in proportion to them. A common
            factor changes nothing, and weight 0 leaves a row out.

        Returns
        -------
        RandomForestClassifier
            Itself.
        """
        self._check_settings()
        if self.warm_start and hasattr(self, "model_"):
            with self._updating(), limited_threads(self.n_jobs):
                return self._grow(X, y, sample_weight, self.model_)
        with self._fitting(), limited_threads(self.n_jobs):
            return self._grow(X, y, sample_weight, None)

    def _grow(self, X: Any, y: Any, sample_weight: Any, old: Forest | None) -> Self:
        known = None if old is None else (self.schema_, self.classes_.tolist())
        rows = self._open_weighted(X, y, sample_weight)
        labels = rows.labels
        batch = self._leave_out_rare(rows.batch, labels)
        if known is not None and known != (self.schema_, self.classes_.tolist()):
            raise ValueError(
                "`X` and `y` must have the columns, categories and classes of the fit before, whose trees "
                "stay with warm_start=True; got others. Set warm_start=False to start again."
            )
        place, table = batch.place, batch.table
        self._refuse_bad(*read_flags(place, batch.is_bad))
        n_cells = table.n_rows * self.n_features_in_
        state_work(n_cells * int(self.n_estimators), get_tuning().compiled_forest)
        weights = None if rows.weights is None else _count_weights(rows.weights, len(self.classes_))
        if old is None:
            binning = learn_binning(place, table, self.max_bins, weights)
            binning = order_categories(place, binning, table, labels.codes, weights)
            old = Forest(binning, ())
            self.seed_ = int(as_generator(self.random_state).integers(2**63 - 1))
            self.n_trees_ = 0
        elif self.n_estimators == self.n_trees_:
            warn_caller(
                f"`warm_start` found the {self.n_trees_} trees that `n_estimators` asks for, and grows none.",
                UserWarning,
            )
        groves = old.groves
        if self.n_estimators > self.n_trees_:
            bins = apply_binning(place.xp, old.binning, table)
            groves = (*groves, self._grow_missing(place, bins, old.binning, labels, weights))
            del bins
        self.model_ = Forest(old.binning, groves)
        self.n_trees_ = max(self.n_trees_, self.n_estimators)
        if self.oob_score:
            bins = apply_binning(place.xp, old.binning, table)
            self._judge_out_of_bag(place, bins, labels, weights)
        return self

    def _grow_missing(
        self, place: Place, bins: Array, binning: Binning, labels: Labels, weights: HostArray | None
    ) -> Grove:
        """Grow the trees that the model lacks up to `n_estimators`, on bins (d, n)."""
        xp, (d, n) = place.xp, bins.shape
        usable, names = _with_values(self.schema_), getattr(self, "feature_names_in_", None)
        m = usable.shape[0]
        generators = spawn(self.seed_, self.n_estimators)[self.n_trees_ :]
        plan = DrawnPlan(
            binning.n_bins,
            len(self.classes_),
            self._limits(n, weights),
            usable[draw_columns(m, min(count_features(self.max_features, m) or m, m))],
            place_bins(place, binning) if self._draws_cuts else None,
            self._rule().measure,
            read_trend(self.monotonic_cst, self.schema_, names, len(self.classes_)),
        )
        n_draws = self._n_draws(n)
        weight = n_draws or (n if weights is None else int(np.sum(weights)))
        body = choose_body(place, n * d * len(generators), plan, weight)
        is_compiled = not isinstance(body, str)
        program = grow_trees if isinstance(body, str) else body
        if is_compiled:  # the bins of a row side by side: they share one or two cache lines
            bins = np.asfortranarray(bins)

        def grow(batch: slice) -> Trees:
            bags = draw_bags(generators[batch], n, weights, n_draws)
            trees = program(place, bins, labels.codes, bags, plan)
            trees = cut_back(
                trees, self._rule(), self.min_impurity_decrease, self.max_leaf_nodes, self.ccp_alpha
            )
            for _ in range(batch.start, batch.stop):
                report()
            return share_sums(trees)

        with self._progress("growing", len(generators)) as report:
            parts = map_apart(xp, grow, _share(place, len(generators), n, is_compiled))
            return join_grove(place, parts, len(generators), d)

    def _limits(self, n: int, weights: HostArray | None) -> Limits:
        """Return the limits of a tree: rows count once, however often they are drawn."""
        drawn = self._n_draws(n) or (n if weights is None else float(np.sum(weights)))
        return Limits(
            self.max_depth,
            min_samples_split=0,
            min_samples_leaf=max(1, math.ceil(self.min_weight_fraction_leaf * drawn - ROUNDING)),
            least_rows=math.ceil(share_of(self.min_samples_split, n) - ROUNDING),
            side_rows=max(1, math.ceil(share_of(self.min_samples_leaf, n) - ROUNDING)),
        )

    def _n_draws(self, n: int) -> int | None:
        """Return how many rows are drawn for each tree; None: trees are grown on all rows."""
        if not self.bootstrap:
            return None
        return n if self.max_samples is None else max(1, int(share_of(self.max_samples, n)))

    def _judge_out_of_bag(self, place: Place, bins: Array, labels: Labels, weights: HostArray | None) -> None:
        """Predict each row by the trees whose bags it is not in; keep shares and score."""
        model: Forest = self.model_
        generators = spawn(self.seed_, self.n_trees_)
        shares = judge_out_of_bag(
            place, bins, model.groves, model.binning.n_bins, generators, weights, self._n_draws(bins.shape[1])
        )
        is_judged = ~np.isnan(shares[:, 0])
        truth, predicted = labels.codes[is_judged], np.argmax(shares[is_judged], axis=1)
        if callable(self.oob_score):
            self.oob_score_ = float(self.oob_score(*(self.classes_[codes] for codes in (truth, predicted))))
        else:
            self.oob_score_ = float((predicted == truth).mean())
        self.oob_decision_function_ = shares

    def _check_settings(self) -> None:
        check_integer("n_estimators", self.n_estimators, 1)
        check_criterion(self.criterion)
        check_integer("max_bins", self.max_bins, 2, _MOST_BINS)
        check_limits(self)
        count_features(self.max_features, 1)
        if self.max_samples is not None:
            if isinstance(self.max_samples, float | np.floating):
                check_number("max_samples", self.max_samples, 0, closed="neither")
            else:
                check_integer("max_samples", self.max_samples, 1)
            if not self.bootstrap:
                raise ValueError(
                    "`max_samples` must be None where `bootstrap` is False: every tree has all rows; "
                    f"got {self.max_samples!r}."
                )
        if not callable(self.oob_score):
            check_flag("oob_score", self.oob_score)
        if self.oob_score and not self.bootstrap:
            raise ValueError(
                "`oob_score` must be False where `bootstrap` is False: no row is out of a bag; got "
                f"{self.oob_score!r}. Set bootstrap=True."
            )
        if self.warm_start and self.n_estimators < getattr(self, "n_trees_", 0):
            raise ValueError(
                f"`n_estimators` must be at least the {self.n_trees_} trees there are already; "
                f"got {self.n_estimators}. Set warm_start=False to start again."
            )


def _with_values(schema: Schema) -> HostArray:
    """Return the columns that a node may be cut by, numeric ones first: not those without a category."""
    n_values = np.asarray([*(1 for _ in schema.numeric_idx), *schema.n_values])
    return np.nonzero(n_values > 0)[0] if bool(np.any(n_values)) else np.arange(1)


def _count_weights(weights: HostArray, n_classes: int) -> HostArray | None:
    """Return weights as integers (n,) that fit a key beside node, bin and class; None where all are equal."""
    n_rows = max(weights.shape[0], get_tuning().forest_device_rows)
    free = _KEY_BITS - _MOST_BINS.bit_length() - n_classes.bit_length() - n_rows.bit_length()
    counted, _ = grid_weights(weights)
    if int(np.max(counted)).bit_length() > free:
        counted, _ = grid_weights(weights, free)
    return None if bool(np.all(counted == 1)) else counted


def _share(place: Place, n_trees: int, n_rows: int, is_compiled: bool) -> list[slice]:
    """Cut the trees into batches of about the same size, a multiple of the threads."""
    tuning, n_threads = get_tuning(), 1
    most_rows = tuning.forest_device_rows
    if is_on_host(place):
        most_rows = tuning.forest_depth_first_rows if is_compiled else tuning.forest_host_rows
        n_threads = get_num_threads()
    n_parts = -(-n_trees * n_rows // most_rows)
    n_parts = min(-(-n_parts // n_threads) * n_threads, n_trees)
    ends = [n_trees * i // n_parts for i in range(n_parts + 1)]
    return [slice(start, end) for start, end in pairwise(ends)]
