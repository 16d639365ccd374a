"""The rules by which splits are judged, candidate splits, and the choice among the columns."""

from __future__ import annotations

from typing import Literal, NamedTuple

import array_api_compat
import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.grow.criteria import PLAIN_GINI, Criterion, make_criterion, score_counts
from arraylearn.grow.sorted_lists.lists import ListSplits
from arraylearn.grow.trees import Limits
from arraylearn.measures.count_measures import IMPURITIES, MEASURES, Measure

__all__ = [
    "SLACK",
    "SplitCandidates",
    "SplitRule",
    "choose_columns",
    "is_gini",
    "is_scale_free",
    "judge",
    "may_split",
    "midpoint",
    "prepare_rule",
    "split_entropy",
]

MissingPolicy = Literal["fractional", "surrogate", "direction", "known_fraction"]

# Weights that differ by less than this share are equal, as in J48: sums of fractional rows are rounded.
SLACK = 1e-6

# A node is pure if all but this share of its weight is of one class.
_ROUNDING = 1e-12

# A gain that is less than the average by no more than this counts as average, as in J48.
_AVERAGE_SLACK = 1e-3

# The impurity that is recorded for nodes, by measure; Gini for all others.
IMPURITY_OF = {
    "accuracy": "error",
    "entropy": "entropy",
    "error": "error",
    "gain_ratio": "entropy",
    "symmetric_gain_ratio": "entropy",
    "symmetric_gain_ratio_sum": "entropy",
}


class SplitRule(NamedTuple):
    """How splits are judged."""

    measure: str | Measure = "gini"
    nominal: Literal["multiway", "binary"] = "multiway"
    missing: MissingPolicy = "fractional"
    penalize_thresholds: bool = False  # C4.5: subtract log2(thresholds) / rows from a numeric column's gain
    require_average_gain: bool = False  # C4.5: only columns of at least average gain compete
    least: float = 1  # weight that at least two branches must have
    least_rows: float = 0  # rows that they must have, if rows are counted beside weights: `Entries.rows`
    n_surrogates: int = 5  # kept for each split
    scale_least: bool = False  # C4.5: a tenth of the rows per class on both sides of a threshold, at most 25
    exact: Criterion | None = None  # scores integer weights; None: the measure is computed in floats
    # by column, numeric ones first: 1 if class 1 may only become more likely along it, -1 if only less; None:
    # no column has a trend
    trend: tuple[int, ...] | None = None

    @property
    def enough(self) -> float:
        """The least weight of a branch: `least` less the rounding error of sums of fractional rows."""
        return max(self.least * (1.0 - SLACK), 1e-9)

    @property
    def enough_rows(self) -> float:
        """Least number of rows of a branch, less the rounding error of fractional rows."""
        return self.least_rows * (1.0 - SLACK)

    @property
    def judge(self) -> Measure:
        """The measure as a function."""
        if self.exact is not None:
            exact = self.exact
            return lambda xp, counts: score_counts(xp, exact, counts)
        return MEASURES[self.measure] if isinstance(self.measure, str) else self.measure

    @property
    def threshold_measure(self) -> Measure:
        """The measure that chooses among the thresholds of one column."""
        return MEASURES["entropy"] if self.penalize_thresholds else self.judge

    @property
    def impurity(self) -> Measure:
        """The impurity that is recorded for nodes."""
        name = IMPURITY_OF.get(self.measure, "gini") if isinstance(self.measure, str) else "gini"
        return IMPURITIES[name]


class SplitCandidates(NamedTuple):
    """The best split of each column in each node: arrays (d, k)."""

    gain: Array  # value of the threshold measure; -inf: no split
    score: Array  # by which a column is chosen; -inf: no split
    threshold: Array | None = None  # None: computed later, for the chosen columns only
    missing_left: Array | None = None  # bool: whether missing values go left
    column_idx: Array | None = None  # (k,) the best numeric column, if chosen: the other fields are (1, k)
    cut: ListSplits | None = None  # where the lists of the best columns are cut, if rows weigh 1


def prepare_rule(place: Place, rule: SplitRule, counts: HostArray, *, is_integral: bool) -> SplitRule:
    """Return the rule for a tree whose root has the class weights `counts` (c,), on the host.

    Where all weights stay integers and the rule has none of C4.5's corrections, scores are the same to the
    bit on every backend; otherwise the measure is computed in floats.
    """
    is_corrected = rule.penalize_thresholds or rule.require_average_gain or rule.scale_least
    if not is_integral or is_corrected:
        return rule
    exact = PLAIN_GINI if rule.measure == "gini" else make_criterion(place, rule.measure, counts.sum())
    return rule._replace(exact=exact)


def may_split(limits: Limits, counts: HostArray, sizes: HostArray, depth: int) -> HostArray:
    """Whether nodes with these class weights (k, c) and rows (k,) are impure, large and shallow enough."""
    total = np.sum(counts, axis=1)
    is_impure: HostArray = np.max(counts, axis=1) < total * (1.0 - _ROUNDING)
    least = max(limits.min_samples_split, 2 * limits.min_samples_leaf)
    is_large: HostArray = (total >= least * (1.0 - SLACK)) & (sizes > 0) & (sizes >= limits.least_rows)
    return is_impure & is_large & (limits.max_depth is None or depth < limits.max_depth)


def is_gini(rule: SplitRule) -> bool:
    """Whether the rule is the Gini gain without any correction."""
    return rule.measure == "gini" and not rule.penalize_thresholds


def is_scale_free(rule: SplitRule) -> bool:
    """Whether multiplying all weights by one number changes no choice."""
    return isinstance(rule.measure, str) and not (rule.penalize_thresholds or rule.scale_least)


def midpoint(xp: Namespace, low: Array, high: Array) -> Array:
    """Return a threshold between two values; the lower one where rounding would reach the higher."""
    middle = low * 0.5 + high * 0.5
    return xp.where((middle < high) & (middle >= low), middle, low)


def split_entropy(xp: Namespace, weights: Array) -> Array:
    """Entropy of the branches (..., b), the missing values as one of them."""
    return IMPURITIES["entropy"](xp, weights)


def judge(
    xp: Namespace,
    rule: SplitRule,
    counts: Array,
    total: Array,
    n_thresholds: Array | None = None,
    rows: Array | None = None,
) -> tuple[Array, Array]:
    """Judge finished splits.

    Parameters
    ----------
    counts : float array (..., branch, class)
        Rows with a known value.
    total : float array (...)
        Weight of all rows of the node, the missing ones included.
    n_thresholds : float array (...), optional
        How many thresholds were tried.
    rows : array (..., branch), optional
        Numbers of rows, if they are counted beside their weights.

    Returns
    -------
    gain, score : arrays (...)
        Both -inf where fewer than two branches have enough rows.
    """
    by_branch = xp.sum(counts, axis=-1)
    known = xp.sum(by_branch, axis=-1)
    fraction = known / xp.where(total > 0, total, 1.0)
    is_branch = by_branch >= rule.enough
    if rows is not None:
        is_branch = is_branch & (rows >= rule.enough_rows)
    is_split = xp.sum(xp.astype(is_branch, xp.int32), axis=-1) >= 2
    if not (rule.penalize_thresholds or rule.require_average_gain):
        gain = score = rule.judge(xp, counts) * fraction
    else:
        gain = MEASURES["entropy"](xp, counts) * fraction
        if n_thresholds is not None:
            tried = xp.where(n_thresholds > 1, n_thresholds, 1.0)
            gain = gain - xp.log2(tried) / xp.where(total > 0, total, 1.0)
            is_split = is_split & (gain > 0)
        score = rule.judge(xp, counts) * fraction
        if rule.measure == "gain_ratio":
            missing = xp.where(total > known, total - known, 0.0)
            information = split_entropy(xp, xp.concat((by_branch, missing[..., None]), axis=-1))
            score = gain / xp.where(information > 0, information, 1.0)
    return xp.where(is_split, gain, -xp.inf), xp.where(is_split, score, -xp.inf)


def choose_columns(
    place: Place,
    rule: SplitRule,
    numeric: SplitCandidates | None,
    nominal: SplitCandidates | None,
    order: Array,
    allowed: Array | None,
) -> tuple[Array, Array, Array]:
    """Choose a column for each node; among equals the first column of the table wins.

    Parameters
    ----------
    order : int array (d,)
        For each column of the table its position among the numeric, then the nominal columns.
    allowed : bool array (d, k), optional
        Columns of the table that may be chosen; where none of them has a split, all may.

    Returns
    -------
    column : int64 array (k,)
        Position among the numeric, then the nominal columns.
    gain, score : float arrays (k,)
        -inf where no column has a split.
    """
    xp = place.xp
    if numeric is not None and numeric.column_idx is not None:
        return numeric.column_idx, numeric.gain[0, :], numeric.score[0, :]
    parts = [part for part in (numeric, nominal) if part is not None]
    dtype = accumulator_dtype(place)
    gain = xp.take(xp.concat([xp.astype(part.gain, dtype) for part in parts], axis=0), order, axis=0)
    score = xp.take(xp.concat([xp.astype(part.score, dtype) for part in parts], axis=0), order, axis=0)
    if allowed is not None:
        among = xp.where(allowed, score, -xp.inf)
        has_any = xp.any(among > -xp.inf, axis=0)
        score = xp.where(has_any[None, :], among, score)
    if rule.require_average_gain:
        is_split = score > -xp.inf
        n_splits = xp.sum(xp.astype(is_split, dtype), axis=0)
        average = xp.sum(xp.where(is_split, gain, 0.0), axis=0) / xp.where(n_splits > 0, n_splits, 1.0)
        score = xp.where(gain >= average[None, :] - _AVERAGE_SLACK, score, -xp.inf)
    # in float32, because libraries differ in the last bits of float64
    column = xp.argmax(xp.astype(score, xp.float32), axis=0)
    nodes = xp.arange(score.shape[1], dtype=xp.int64, device=array_api_compat.device(score))
    flat = xp.astype(column, xp.int64) * score.shape[1] + nodes
    winner_gain = xp.take(xp.reshape(gain, (-1,)), flat, axis=0)
    winner_score = xp.take(xp.reshape(score, (-1,)), flat, axis=0)
    return xp.astype(xp.take(order, column, axis=0), xp.int64), winner_gain, winner_score
