"""The best split of each node from running sums of packed gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.grow.bounds import Constraint
from arraylearn.grow.formulas import newton_gain, newton_score, unpack

__all__ = ["GradientSplits", "best_splits"]

# Score of a split that a constraint forbids.
_NEVER = -1e38
# In the order of categories, those without rows and missing values come last: ratios above all others.
_EMPTY_RATIO, _MISSING_RATIO = 1e30, 2e30


class GradientSplits(NamedTuple):
    """The best split of each of k nodes."""

    cell: Array  # (k,) int64: column * n_bins + position of the last bin on the left (of the sorted bins
    # for a nominal column)
    left: Array  # (k,) int64 packed sum of the left side
    total: Array  # (k,) int64 packed sum of the node
    is_missing_left: Array | None  # (k,) bool, None where no value is missing
    goes_right: Array | None  # (k, n_bins) bool; None if the position of the cut is enough


def best_splits(
    xp: Namespace,
    running: Array,
    regular: Array,
    least_share: Array,
    is_used: Array | None,
    *,
    n_numeric: int,
    missing: Sequence[int],
    constraint: Constraint | None = None,
) -> GradientSplits:
    r"""Find the split of each node with the largest gain.

    .. math:: \frac{G_L^2}{H_L + \lambda} + \frac{G_R^2}{H_R + \lambda} - \frac{G^2}{H + \lambda}

    For one :math:`\lambda` this is largest where :math:`q^2 / (h_L h_R)` is, with
    :math:`h = H + \lambda` of each side and :math:`q = G_L - G h_L / (h_L + h_R)`.

    Parameters
    ----------
    running : int64 array (k, d, n_bins)
        Running packed sums over the bins; the last bin is that of missing values.
    regular : float32 array (4,)
        :math:`\lambda`, the least hessian of a side, the smoothing of categories, and what the gain of a
        nominal column is lessened by for each category of the node beyond two, in units of the hessian.
    least_share : float32 array (k,)
        The least hessian of a side as a share of the node's; the larger of the two holds.
    is_used : bool array (1, d) or (k, d), optional
        The columns that may be split, in all nodes or in each.
    n_numeric : int
        How many columns are numeric; the others are nominal, tried in the order of G / (H + smoothing).
    missing : sequence of int
        The columns with missing values, for which both sides are tried; in others the (empty) bin is right.
    constraint : Constraint, optional
        Limits on the values of the sides.

    Returns
    -------
    GradientSplits
        Of equal gains the first: missing values right before left, columns in order, positions in order.
        Where no split is admissible, all rows are on the left.
    """
    d, n_bins = running.shape[1:]
    total = running[:, 0, n_bins - 1]
    least = xp.maximum(regular[1:2], least_share * xp.astype(total >> 32, xp.float32))
    if n_numeric == d and not missing and constraint is None:
        _, cell, left = _search(xp, running, total, regular[:1], least, is_used, None, None)
        return GradientSplits(cell, left, total, None, None)
    ridge, rank = regular[:1], None
    groups: list[tuple[slice, Array, Array | None]] = [(slice(0, n_numeric), running[:, :n_numeric, :], None)]
    if n_numeric < d:
        sums = running[:, n_numeric:, :]
        sums = xp.concat((sums[:, :, :1], sums[:, :, 1:] - sums[:, :, :-1]), axis=2)
        rank = _rank_categories(xp, sums, regular[2])
        in_order = xp.cumulative_sum(xp.take_along_axis(sums, rank, axis=-1), axis=-1)
        n_more = xp.sum(xp.astype(sums[:, :, :-1] != 0, xp.int64), axis=2) - 2
        price = regular[3] * xp.astype(xp.maximum(n_more, xp.zeros_like(n_more)), xp.float32)
        if constraint is None:
            price = price / _ridged(xp, total, ridge)[:, None]
        groups.append((slice(n_numeric, d), in_order, price))
    found = [
        _search_group(xp, group, total, ridge, least, is_used, missing, constraint)
        for group in groups
        if group[0].stop > group[0].start
    ]
    best, cell, left, is_left = found[0]
    if len(found) == 2:
        is_better = found[1][0] > best
        cell, left, is_left = (
            xp.where(is_better, other, one)
            for one, other in zip((cell, left, is_left), found[1][1:], strict=True)
        )
    sides = _describe_sides(xp, running, cell, left, total, is_left, rank, n_numeric)
    return GradientSplits(cell, left, total, *sides)


def _search_group(
    xp: Namespace,
    group: tuple[slice, Array, Array | None],
    total: Array,
    ridge: Array,
    least: Array,
    is_used: Array | None,
    missing: Sequence[int],
    constraint: Constraint | None,
) -> tuple[Array, Array, Array, Array]:
    """Return the score, cell, left sum and side of missing values of the best split of some columns.

    A group has the columns, their running sums, and what is taken off their scores.
    """
    columns, running, price = group
    n_bins = running.shape[2]
    used = None if is_used is None else is_used[:, columns]
    if constraint is not None:
        constraint = constraint._replace(trend=constraint.trend[columns])
    score, cell, left = _search(xp, running, total, ridge, least, used, price, constraint)
    is_left = cell < 0
    here = [j - columns.start for j in missing if columns.start <= j < columns.stop]
    if here:
        idx = xp.asarray(here, dtype=xp.int64, device=array_api_compat.device(running))
        some = xp.take(running, idx, axis=1)
        some = some + (some[:, :, n_bins - 1 :] - some[:, :, n_bins - 2 : n_bins - 1])
        used = None if used is None else xp.take(used, idx, axis=1)
        price = None if price is None else xp.take(price, idx, axis=1)
        if constraint is not None:
            constraint = constraint._replace(trend=xp.take(constraint.trend, idx, axis=0))
        other, other_cell, other_left = _search(xp, some, total, ridge, least, used, price, constraint)
        is_left = other > score
        other_cell = xp.take(idx, other_cell // n_bins, axis=0) * n_bins + other_cell % n_bins
        cell, left = xp.where(is_left, other_cell, cell), xp.where(is_left, other_left, left)
        score = xp.maximum(score, other)
    return score, cell + columns.start * n_bins, left, is_left


def _search(
    xp: Namespace,
    running: Array,
    total: Array,
    ridge: Array,
    least: Array,
    is_used: Array | None,
    price: Array | None,
    constraint: Constraint | None,
) -> tuple[Array, Array, Array]:
    """Return the score of the best cell of (column, bin) of each node, the cell, and the sum of its left."""
    k, d, n_bins = running.shape
    if constraint is None:
        scores = _scores(xp, running, total, ridge, least, is_used)
    else:
        scores = _constrained_scores(xp, running, total, ridge, least, is_used, *constraint)
    if price is not None:
        scores = scores - price[:, :, None]
    scores = xp.reshape(scores, (k, d * n_bins))
    cell = xp.astype(xp.argmax(scores, axis=1), xp.int64)
    score = xp.take_along_axis(scores, cell[:, None], axis=1)[:, 0]
    left = xp.take_along_axis(xp.reshape(running, (k, d * n_bins)), cell[:, None], axis=1)[:, 0]
    return score, cell, xp.where(score > (0.0 if constraint is None else _NEVER), left, total)


def _ridged(xp: Namespace, total: Array, ridge: Array) -> Array:
    """Return what turns the scores of splits into gains: hessians (k,) with two ridges, 1/2 at least."""
    _, hessian = _halves(xp, total)
    # without a ridge an empty side would divide by nothing; it is not heavy anyway
    return xp.maximum(hessian + 2.0 * ridge, xp.full_like(ridge, 0.5))


def _scores(
    xp: Namespace, left: Array, total: Array, ridge: Array, least: Array, is_used: Array | None
) -> Array:
    """Score (k, d, n_bins) left sums by q**2 / (h_L h_R); 0 where a side is too light."""
    left_gradient, left_hessian = _halves(xp, left)
    gradient, hessian = _halves(xp, total[:, None, None])
    right_hessian = hessian - left_hessian
    is_heavy = xp.minimum(left_hessian, right_hessian) >= least[:, None, None]
    if is_used is not None:
        is_heavy = is_heavy & is_used[:, :, None]
    left_hessian, right_hessian = left_hessian + ridge, right_hessian + ridge
    # avoids a division by 0 for an empty side without a ridge, which is too light anyway
    half = xp.full_like(hessian[:1, :, :], 0.5)
    slope = gradient / xp.maximum(hessian + 2.0 * ridge, half)
    area = xp.maximum(left_hessian * right_hessian, half)
    return xp.where(is_heavy, newton_score(left_gradient, left_hessian, slope, area), 0.0)


def _constrained_scores(
    xp: Namespace,
    left: Array,
    total: Array,
    ridge: Array,
    least: Array,
    is_used: Array | None,
    trend: Array,
    bounds: Array,
) -> Array:
    r"""Score left sums where the values v of the sides are bounded and may have to ascend or descend.

    .. math:: -\sum_{L, R} [2 G v + (H + \lambda) v^2]
    """
    low, high = (side[:, None, None] for side in (bounds[0, :], bounds[1, :]))
    left_gradient, left_hessian = _halves(xp, left)
    gradient, hessian = _halves(xp, total[:, None, None])
    right_hessian = hessian - left_hessian
    is_good = xp.minimum(left_hessian, right_hessian) >= least[:, None, None]
    if is_used is not None:
        is_good = is_good & is_used[:, :, None]
    tiny = xp.full_like(left_hessian[:1, :1, :1], 0.5)

    def settle(g: Array, h: Array) -> tuple[Array, Array]:
        h = xp.maximum(h, tiny)
        value = xp.minimum(xp.maximum(-g / h, low), high)
        return value, newton_gain(g, h, value)

    left_value, left_score = settle(left_gradient, left_hessian + ridge)
    right_value, right_score = settle(gradient - left_gradient, right_hessian + ridge)
    is_good = is_good & (trend[None, :, None] * (right_value - left_value) >= 0)
    return xp.where(is_good, left_score + right_score, _NEVER)


def _halves(xp: Namespace, packed: Array) -> tuple[Array, Array]:
    """Return gradient and hessian as floats; the hessian may be one unit too small, which is negligible."""
    hessian = packed >> 32
    gradient, _ = unpack(packed)
    return xp.astype(gradient, xp.float32), xp.astype(hessian, xp.float32)


def _rank_categories(xp: Namespace, sums: Array, smoothing: Array) -> Array:
    """Order the bins of nominal columns by smoothed gradient per hessian; empty and missing ones last."""
    gradient, hessian = unpack(sums)
    ratio = xp.astype(gradient, xp.float32) / (xp.astype(hessian, xp.float32) + smoothing)
    bin_idx = xp.arange(sums.shape[-1], dtype=xp.int64, device=array_api_compat.device(sums))
    ratio = xp.where(sums == 0, _EMPTY_RATIO, ratio)
    ratio = xp.where(bin_idx == sums.shape[-1] - 1, _MISSING_RATIO, ratio)
    return xp.astype(xp.argsort(ratio, axis=-1, stable=True), xp.int64)


def _describe_sides(
    xp: Namespace,
    running: Array,
    cell: Array,
    left: Array,
    total: Array,
    is_left: Array,
    rank: Array | None,
    n_numeric: int,
) -> tuple[Array, Array]:
    """Return on which side missing values are, and which bins go right."""
    k, d, n_bins = running.shape
    device = array_api_compat.device(running)
    feature, position = cell // n_bins, cell % n_bins
    bin_idx = xp.arange(n_bins, dtype=xp.int64, device=device)[None, :]
    goes_right = bin_idx > position[:, None]
    # missing values met in prediction go to the heavier side of a node that had none
    last_bins = xp.reshape(running[:, :, n_bins - 2 :], (k * d, 2))
    ends = xp.take(last_bins, xp.arange(k, dtype=xp.int64, device=device) * d + feature, axis=0)
    is_left = xp.where(ends[:, 0] == ends[:, 1], left >= total - left, is_left)
    if rank is not None:
        nominal = xp.where(feature >= n_numeric, feature - n_numeric, 0)
        of_node = xp.arange(k, dtype=xp.int64, device=device) * (d - n_numeric) + nominal
        mine = xp.take(xp.reshape(rank, (k * (d - n_numeric), n_bins)), of_node, axis=0)
        by_rank = xp.take_along_axis(goes_right, xp.argsort(mine, axis=-1), axis=-1)
        goes_right = xp.where((feature >= n_numeric)[:, None], by_rank, goes_right)
    return is_left, xp.where(bin_idx == n_bins - 1, ~is_left[:, None], goes_right)
