"""Checks of trees: every index in range, children behind their parents, so that every walk ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.boosting.adaboost import Rounds
from arraylearn.boosting.boosted import Boosted
from arraylearn.estimator import ArrayClassifier
from arraylearn.forest.grove import Forest, Grove
from arraylearn.grow.histograms.clouds import CloudsReport
from arraylearn.grow.trees import (
    ALL_BRANCHES,
    LEAF,
    NO_MAP,
    NO_SURROGATE,
    NOMINAL,
    NOTHING,
    NUMERIC,
    Surrogates,
    Trees,
)
from arraylearn.io.check_table import check_classifier
from arraylearn.io.fields import Fields
from arraylearn.table.binning import Binning
from arraylearn.tree.pruning.cost_complexity import AlphaChoice, CostComplexityPath
from arraylearn.tree.pruning.pruning_report import PruningReport, PruningStep, Size

__all__ = ["check_adaboost", "check_boosting", "check_forest", "check_tree"]

_MOST_BINS = 1 << 15  # bins are int16 where they are not uint8
_FULL_SHARE = 1 << 20  # class shares of a forest are integers in units of 2**-20


# ---- all trees


def _check_links(fields: Fields) -> tuple[HostArray, HostArray, HostArray]:
    """Check that nodes follow the root of their tree and have one parent, and that fields of growth are None.

    Return the features, the depths and the numbers of branches.
    """
    fields.nothing("high sums rows bounds sets")
    feature = fields.array("feature", "int32", "m", low=LEAF, high=fields.sizes["d"] - 1)
    n_nodes = feature.shape[0]
    roots = fields.array("roots", "int32", "t", low=0, high=n_nodes - 1).astype(np.int64)
    fields.refuse("there must be nodes", unless=n_nodes and roots.shape[0])
    first = fields.array("first_child", "int32", "m", low=LEAF, high=n_nodes - 1).astype(np.int64)
    is_leaf = first == LEAF
    given = fields.optional_array("n_branches", "int32", "m", low=0, high=n_nodes - 1)
    n_branches = np.where(is_leaf, 0, 2) if given is None else given.astype(np.int64)
    fields.refuse("leaves must ask no column", unless=((feature == LEAF) == is_leaf).all())
    fields.refuse("leaves must have no branches", unless=(n_branches[is_leaf] == 0).all())
    inner = np.nonzero(~is_leaf)[0]
    fields.refuse("inner nodes must have two branches or more", unless=(n_branches[inner] >= 2).all())
    fields.refuse(
        "children must stand behind their parents",
        unless=((first[inner] > inner) & (first[inner] + n_branches[inner] <= n_nodes)).all(),
    )
    fields.refuse(
        "roots must ascend from the first node", unless=roots[0] == 0 and (np.diff(roots) > 0).all()
    )
    rule = "every node must have one parent or be a root"
    # first of all, because it bounds the number of children that are listed next
    fields.refuse(rule, unless=n_branches.sum() == n_nodes - roots.shape[0])
    above = np.repeat(np.arange(n_nodes), n_branches)
    child = first[above] + np.arange(above.shape[0]) - (np.cumsum(n_branches) - n_branches)[above]
    n_parents = np.bincount(np.concatenate((child, roots)), minlength=n_nodes)
    fields.refuse(rule, unless=(n_parents == 1).all())
    parent = np.arange(n_nodes)
    parent[child] = above
    tree = np.searchsorted(roots, np.arange(n_nodes), side="right")
    fields.refuse("trees must not share nodes", unless=(tree[parent] == tree).all())
    depth = _count_steps(parent)
    height = int(depth.max())
    fields.natural("height", low=height, high=height)
    return feature, depth, n_branches


def _count_steps(parent: HostArray) -> HostArray:
    """Return the number of steps from each node to a root, its own parent, by doubling the steps."""
    steps: HostArray = (parent != np.arange(parent.shape[0])).astype(np.int64)
    above = parent
    while (above != above[above]).any():
        steps = steps + steps[above]
        above = above[above]
    return steps


# ---- single trees


def check_tree(fields: Fields) -> None:
    """Check a fitted `DecisionTreeClassifier`."""
    check_classifier(fields)
    fields.part("model_", Trees, _check_one_tree)
    fields.optional_part("pruning_report_", PruningReport, _check_pruning_report)
    fields.optional_part("alpha_choice_", AlphaChoice, _check_alpha_choice)
    fields.optional_part("clouds_report_", CloudsReport, _check_clouds_report)


def _check_one_tree(fields: Fields) -> None:
    """Check a tree over values in level order."""
    feature, steps, n_branches = _check_links(fields)
    fields.array("n_branches", "int32", "m")
    fields.refuse("there must be one tree", unless=fields.sizes["t"] == 1)
    depth = fields.array("depth", "int32", "m", low=0)
    fields.refuse("depths must follow the parents", unless=(depth == steps).all())
    fields.refuse("nodes must be in level order", unless=(np.diff(depth) >= 0).all())
    # infinity: known values go left, missing ones right
    fields.array("threshold", "float", "m", low=float(np.finfo(np.float64).min), is_finite=False)
    fields.array("impurity gain", "float", "m")
    fields.array("counts probability", "float", "m k", low=0)
    fields.nothing("value")
    default = fields.array("default_branch", "int32", "m", low=ALL_BRANCHES)
    fields.refuse("default branches must exist", unless=(default < np.maximum(n_branches, 1)).all())
    branches = fields.array("category_branch", "int32", "v", low=0)
    start = fields.array("map_start", "int32", "m", low=NO_MAP)
    is_nominal = start != NO_MAP
    kind = np.where(n_branches > 0, NUMERIC, NOTHING) + is_nominal
    _check_kinds(fields, kind, feature)
    fields.refuse("thresholds must have two branches", unless=(n_branches[kind == NUMERIC] == 2).all())
    sizes = _n_values(fields, feature[is_nominal])
    _check_maps(fields, branches, start[is_nominal], sizes, n_branches[is_nominal])
    surrogates = fields.take("surrogates", lambda value: value is None or type(value) is Surrogates, "null")
    if surrogates is not None:
        fields.check_part(f"{fields.owner}.surrogates", surrogates, _check_surrogates)
        _check_surrogate_maps(fields, branches, surrogates, n_branches)


def _check_kinds(fields: Fields, kind: HostArray, feature: HostArray) -> None:
    """Check that numeric splits are on numeric columns, nominal ones on nominal columns, leaves on none."""
    column_kind = np.full(fields.sizes["d"] + 1, NUMERIC)
    column_kind[list(fields.schema.nominal_idx)] = NOMINAL
    column_kind[-1] = NOTHING  # that of LEAF, the last position
    fields.refuse("splits must fit their columns", unless=(column_kind[feature] == kind).all())


def _n_values(fields: Fields, feature: HostArray) -> HostArray:
    """Return the number of categories of nominal columns."""
    sizes = np.zeros(fields.sizes["d"], dtype=np.int64)
    sizes[list(fields.schema.nominal_idx)] = fields.schema.n_values
    return sizes[feature]


def _check_maps(
    fields: Fields, branches: HostArray, start: HostArray, size: HostArray, n_branches: HostArray
) -> None:
    """Check that every category of a nominal split leads to a branch of its node."""
    start = start.astype(np.int64)
    fields.refuse(
        "categories must have their branches", unless=(start + np.maximum(size, 1) <= branches.shape[0]).all()
    )
    # one entry per category of a split: by overlapping runs a small file could cause much work
    fields.refuse("maps of categories must not overlap", unless=size.sum() <= branches.shape[0])
    offset = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    found = branches[np.repeat(start, size) + offset]
    fields.refuse("categories must lead to branches", unless=(found < np.repeat(n_branches, size)).all())


def _check_surrogates(fields: Fields) -> None:
    fields.array("feature", "int32", "m s", low=NO_SURROGATE, high=fields.sizes["d"] - 1)
    fields.array("kind", "int8", "m s", low=NOTHING, high=NOMINAL)
    fields.array("threshold agreement", "float", "m s")
    fields.array("low_branch", "int32", "m s", low=0, high=1)
    fields.array("map_start", "int32", "m s", low=0)


def _check_surrogate_maps(
    fields: Fields, branches: HostArray, surrogates: Surrogates, n_branches: HostArray
) -> None:
    feature: HostArray = surrogates.feature
    node, rank = np.nonzero(feature != NO_SURROGATE)
    used, kind = feature[node, rank], np.asarray(surrogates.kind)[node, rank]
    _check_kinds(fields, kind, used)
    fields.refuse("surrogates must stand for splits in two", unless=(n_branches[node] == 2).all())
    is_nominal = kind == NOMINAL
    start = np.asarray(surrogates.map_start)[node, rank][is_nominal]
    n_values = _n_values(fields, used[is_nominal])
    _check_maps(fields, branches, start, n_values, np.full(start.shape[0], 2))


def _check_pruning_report(fields: Fields) -> None:
    fields.part("before", Size, _check_size)
    fields.part("after", Size, _check_size)
    fields.parts("steps", PruningStep, _check_pruning_step)


def _check_pruning_step(fields: Fields) -> None:
    fields.natural("depth n_cut n_raised")
    fields.part("size", Size, _check_size)


def _check_size(fields: Fields) -> None:
    fields.natural("n_nodes n_leaves")
    fields.number("errors")


def _check_alpha_choice(fields: Fields) -> None:
    path = fields.part("path", CostComplexityPath, _check_path)
    n_trees = path.ccp_alphas.shape[0]
    fields.sizes["p"] = n_trees
    fields.array("errors standard_errors", "float64", "p")
    fields.natural("best chosen", high=n_trees - 1)


def _check_path(fields: Fields) -> None:
    fields.array("ccp_alphas impurities", "float64", "p")
    fields.array("n_leaves n_nodes", "int64", "p", low=0)


def _check_clouds_report(fields: Fields) -> None:
    fields.natural("n_intervals n_survived n_searched_rows n_rows")


# ---- trees over bins


def check_forest(fields: Fields) -> None:
    """Check a fitted `RandomForestClassifier` or `ExtraTreesClassifier`."""
    check_classifier(fields)
    fields.natural("seed_")
    forest = fields.part("model_", Forest, _check_groves)
    n_trees = sum(grove.trees.n_trees for grove in forest.groves)
    fields.natural("n_trees_", low=n_trees, high=n_trees)
    if "oob_score_" in fields:
        fields.number("oob_score_")
        fields.array("oob_decision_function_", "float64", "n k", is_finite=False)


def _check_groves(fields: Fields) -> None:
    _take_binning(fields)
    groves = fields.parts("groves", Grove, _check_grove)
    fields.refuse("there must be a tree", unless=groves)


def _check_grove(fields: Fields) -> None:
    fields.part("trees", Trees, _check_forest_trees)
    fields.array("gains", "float64", "d")
    fields.array("weight", "float32", "m", low=0)


def _check_forest_trees(fields: Fields) -> None:
    _check_binned(fields)
    fields.array("probability", "int32", "m k", low=0, high=_FULL_SHARE)
    fields.nothing("default_branch map_start category_branch value")


def check_boosting(fields: Fields) -> None:
    """Check a fitted `GradientBoostingClassifier`."""
    check_classifier(fields)
    n_classes = fields.sizes["k"]
    n_outputs = 1 if n_classes <= 2 else n_classes
    fields.sizes["o"] = fields.natural("n_trees_per_iteration_", low=n_outputs, high=n_outputs)
    n_rounds = fields.natural("n_iter_")
    boosted = fields.part("model_", Boosted, _check_boosted)
    assert boosted.trees is not None
    n_trees = boosted.trees.n_trees
    fields.refuse("there must be a tree per round and output", unless=n_trees == n_rounds * n_outputs)
    fields.natural("seed_")
    fields.array("validation_score_", "float64", "s")
    if "init_" in fields:
        k = fields.sizes["k"]
        fields.take(
            "init_",
            lambda one: _has_columns(fields, one) and len(one.classes_) == k,
            "a classifier of the same columns and classes",
        )


def _check_boosted(fields: Fields) -> None:
    _take_binning(fields)
    fields.array("start", "int32", "o")
    fields.numbers("gains", tuple, "d")
    fields.part("trees", Trees, _check_boosted_trees)


def _check_boosted_trees(fields: Fields) -> None:
    _check_binned(fields)
    fields.array("value", "int32", "m")
    fields.nothing("probability")
    fields.optional_array("default_branch", "int8", "m", low=0, high=1)
    # a row of bins for each nominal split
    n_bins = fields.sizes["b"]
    branches = fields.optional_array("category_branch", "int8", "v", low=0, high=1)
    size = 0 if branches is None else branches.shape[0]
    start = fields.optional_array("map_start", "int32", "m", low=-1, high=max(-1, size - n_bins))
    fields.refuse("splits by category must have branches", unless=(start is None) == (branches is None))
    is_complete = start is None or (start[start >= 0] % n_bins == 0).all()
    fields.refuse("every bin must have its branch", unless=size % n_bins == 0 and is_complete)


def _take_binning(fields: Fields) -> None:
    """Check the binning; the number of bins is the letter ``b`` from there on."""
    fields.sizes["b"] = fields.part("binning", Binning, _check_binning).n_bins


def _check_binning(fields: Fields) -> None:
    n_bins = fields.natural("n_bins", low=2, high=_MOST_BINS)
    fields.sizes["e"] = n_bins - 2 if fields.sizes["d_numeric"] else 0
    edges = fields.array("edges", "float", "d_numeric e", is_finite=False)
    fields.refuse(
        "edges must ascend", unless=(edges[:, 1:] >= edges[:, :-1]).all() and not np.isnan(edges).any()
    )
    fields.sizes["w"] = max(fields.schema.n_values, default=0) + 1
    fields.array("category_bin", "int32", "d_nominal w", low=0, high=n_bins - 1)


def _check_binned(fields: Fields) -> None:
    """Check trees over bins, but not the contents of leaves and the branches of missing values."""
    _check_links(fields)
    fields.array("threshold", "int32", "m", low=0, high=fields.sizes["b"])
    fields.nothing("depth gain n_branches surrogates counts impurity")


# ---- AdaBoost


def check_adaboost(fields: Fields) -> None:
    """Check a fitted `AdaBoostClassifier`; its estimators have been checked as such."""
    check_classifier(fields)
    rounds = fields.part("model_", Rounds, _check_rounds)
    fields.sizes["r"] = n_rounds = len(rounds.estimators)
    fields.take("estimators_", lambda value: type(value) is tuple and len(value) == n_rounds, "one per round")
    fields.array("estimator_weights_ estimator_errors_", "float64", "r")


def _has_columns(fields: Fields, one: Any) -> bool:
    """Whether a part is a classifier that was fitted on the same columns."""
    schema = fields.schema
    return (
        isinstance(one, ArrayClassifier)
        and "model_" in one.__dict__
        and one.schema_.n_values == schema.n_values
        and one.schema_.numeric_idx == schema.numeric_idx
    )


def _check_rounds(fields: Fields) -> None:
    codes = list(range(fields.sizes["k"]))

    def fits(one: Any) -> bool:
        return _has_columns(fields, one) and set(one.classes_.tolist()) <= set(codes)

    estimators = fields.take(
        "estimators",
        lambda value: type(value) is tuple and all(map(fits, value)),
        "fitted on the same columns",
    )
    fields.refuse("there must be a round", unless=estimators)
    fields.sizes["r"] = len(estimators)
    fields.numbers("weights", tuple, "r")
