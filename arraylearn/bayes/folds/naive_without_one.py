"""Naive Bayes with every row left out in turn: the joint log likelihoods of all rows at once."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.moments import Moments
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.memory import row_chunks
from arraylearn.bayes.naive import (
    LEAST_DEVIATION,
    NaiveStatistics,
    Smoothing,
    cell_offsets,
    log_or_never,
    smoothed_shares,
    total_moments,
)
from arraylearn.bayes.precision import gaps_without_one, typical_sizes
from arraylearn.gaussian.density import LOG_2PI

__all__ = ["NaiveRules", "WeightedRows", "WithoutOne", "naive_without_one", "prior_without_one"]

# A scatter that keeps less than this share when a row leaves has lost too many digits.
_LEAST_SHARE = 1e-3
_ROWS_AT_ONCE = 512  # so that all classes and columns of some rows stay in the cache


class NaiveRules(NamedTuple):
    """How naive Bayes estimates probabilities and variances."""

    smoothing: Smoothing  # of the probabilities of nominal values
    prior_extra: float  # added to every class weight
    n_values: tuple[int, ...]  # of the nominal attributes
    lost: float  # 1 for unbiased variances, 0 for maximum likelihood
    share: float  # of the largest variance, which is added to all
    by_gap: bool  # whether the mean gap of each column bounds its standard deviations


class WeightedRows(NamedTuple):
    """The numeric columns of all rows, their classes and weights."""

    x: Array  # float (n, d), in the accumulator's dtype; NaN is missing
    classes: Array  # int64 (n,)
    weights: Array  # float (n,), positive


class WithoutOne(NamedTuple):
    """Each row under the model of all other rows."""

    joint: Array  # (n, k) joint log likelihoods
    log_prior: Array  # (n, k)
    needs_fit: Array  # (n,) bool: the update is not exact enough; only a fit without the row is


def prior_without_one(
    xp: Namespace, class_weight: Array, own: Array, weights: Array, given: Array | None, extra: float
) -> Array:
    """Return the log priors (n, k) when each row leaves; `own` (n, k) is 1 at its class."""
    if given is not None:
        return xp.broadcast_to(given, own.shape)
    left = class_weight - own * weights[:, None]
    total = xp.sum(class_weight) - weights + extra * own.shape[1]
    return log_or_never(xp, (left + extra) / total[:, None])


def naive_without_one(
    xp: Namespace,
    stats: NaiveStatistics,
    sample: WeightedRows,
    codes: Array,
    given: Array | None,
    rules: NaiveRules,
) -> WithoutOne:
    """Evaluate every row under the model of all others.

    Parameters
    ----------
    stats : NaiveStatistics
        Of all rows.
    sample : WeightedRows
        The rows.
    codes : int32 array (q, n)
        Nominal columns; -1 is missing.
    given : float array (k,) or None
        Given log priors.
    rules : NaiveRules
        How to estimate.
    """
    x, classes, weights = sample
    n, k = x.shape[0], stats.class_weight.shape[0]
    ids = xp.arange(k, dtype=xp.int64, device=array_api_compat.device(x))
    n_rows = _rows_by_cell(xp, codes, rules.n_values) if codes.shape[0] else None
    least, is_emptied = _least_variances(xp, stats.numeric, x, rules)
    parts = []
    for rows in row_chunks(n, 8 * k * 8 * (x.shape[1] + codes.shape[0] + 1), most=_ROWS_AT_ONCE):
        own = xp.astype(classes[rows][:, None] == ids[None, :], x.dtype)
        weight = weights[rows]
        log_prior = prior_without_one(xp, stats.class_weight, own, weight, given, rules.prior_extra)
        joint = log_prior
        needs_fit = is_emptied[rows]
        if x.shape[1]:
            some = WeightedRows(x[rows, :], classes[rows], weight)
            density, is_rough = _normal_part(xp, stats.numeric, some, own, rules, least[rows, :])
            joint, needs_fit = joint + density, needs_fit | is_rough
        if codes.shape[0]:
            share, is_last = _nominal_part(xp, stats.counts, codes[:, rows], own, weight, n_rows, rules)
            joint, needs_fit = joint + share, needs_fit | is_last
        parts.append((joint, log_prior, needs_fit))
    return WithoutOne(*(xp.concat(list(column)) for column in zip(*parts, strict=True)))


def _least_variances(xp: Namespace, stats: Moments, x: Array, rules: NaiveRules) -> tuple[Array, Array]:
    """Return the least variances (n, d) of the columns without each row, and which rows need a fit."""
    n, d = x.shape
    if not (d and rules.by_gap):
        is_emptied = xp.zeros((n,), dtype=xp.bool, device=array_api_compat.device(x))
        return xp.zeros_like(x), is_emptied
    _, mean, var = total_moments(xp, stats)
    gaps, is_emptied = gaps_without_one(xp, x, typical_sizes(xp, mean, var))
    deviation = gaps * LEAST_DEVIATION
    return xp.maximum(deviation * deviation, xp.finfo(x.dtype).smallest_normal), is_emptied


def _normal_part(
    xp: Namespace, stats: Moments, sample: WeightedRows, own: Array, rules: NaiveRules, least: Array
) -> tuple[Array, Array]:
    """Return the log densities (m, k) of the numeric columns, and which rows need a fit."""
    x, classes, weight = sample
    is_known = ~xp.isnan(x)
    x = xp.where(is_known, x, 0.0)
    gone = xp.where(is_known, weight[:, None], 0.0)  # (m, d)
    added = rules.share * _largest_variance(xp, stats, x, gone)
    # the row's own class, without the row
    before, mean, scatter = (xp.take(part, classes, axis=0) for part in stats)
    after = before - gone
    is_left = after - rules.lost > 1e-9 * after
    safe = xp.where(after > 0, after, 1.0)
    deviation = xp.where(is_known, x - mean, 0.0)
    own_mean = mean - gone / safe * deviation
    left = scatter - gone * before / safe * deviation**2
    bound = _LEAST_SHARE * (added[:, None] + least) * before
    is_thin = (left < _LEAST_SHARE * scatter) & (scatter > bound)
    own_var = xp.where(left > 0, left, 0.0) / xp.where(is_left, after - rules.lost, 1.0)
    # the other classes, unchanged
    rest = stats.weight - rules.lost
    is_defined = rest > 1e-9 * stats.weight
    other_var = stats.scatter / xp.where(is_defined, rest, 1.0)
    is_own = own[:, :, None] > 0
    var = xp.where(is_own, own_var[:, None, :], other_var[None, :, :]) + added[:, None, None]
    var = xp.maximum(var, least[:, None, :])
    is_flat = var <= 0  # of a class, where nothing bounds the variance
    var = xp.where(is_flat, 1.0, var)
    offset = x[:, None, :] - xp.where(is_own, own_mean[:, None, :], stats.mean[None, :, :])
    terms = xp.log(var) + LOG_2PI + offset * offset / var
    density = -0.5 * xp.sum(xp.where(is_known[:, None, :], terms, 0.0), axis=2)
    needs_fit = xp.any(~is_left | is_thin | xp.any(is_flat, axis=1), axis=1) | ~xp.all(is_defined)
    return density, needs_fit


def _largest_variance(xp: Namespace, stats: Moments, x: Array, gone: Array) -> Array:
    """Return the largest variance (m,) of a column over all classes, without each row; 1 if none varies."""
    total, mean, var = total_moments(xp, stats)
    after = total - gone
    safe = xp.where(after > 0, after, 1.0)
    left = (total * var - gone * total / safe * (x - mean) ** 2) / safe
    largest = xp.max(left, axis=1)
    return xp.where(largest > 0, largest, 1.0)


def _rows_by_cell(xp: Namespace, codes: Array, n_values: tuple[int, ...]) -> Array:
    """Count the rows of every nominal value, whatever their weight and class."""
    offsets = cell_offsets(n_values)
    first = xp.asarray(offsets[:-1], dtype=xp.int64, device=array_api_compat.device(codes))[:, None]
    return xp.sum(histogram(xp, xp.astype(codes, xp.int64) + 1 + first, offsets[-1]), axis=0)


def _nominal_part(
    xp: Namespace, counts: Array, codes: Array, own: Array, weight: Array, n_rows: Array, rules: NaiveRules
) -> tuple[Array, Array]:
    """Return the log probabilities (m, k) of the nominal columns, and which rows are the last of a value."""
    q, m = codes.shape
    k = own.shape[1]
    device = array_api_compat.device(codes)
    offsets = cell_offsets(rules.n_values)
    first = xp.asarray(offsets[:q], dtype=xp.int64, device=device)[:, None]
    cell = xp.permute_dims(xp.astype(codes, xp.int64) + 1 + first, (1, 0))  # (m, q)
    is_known = xp.permute_dims(codes, (1, 0)) >= 0
    flat = xp.reshape(cell, (-1,))
    count = xp.reshape(xp.take(counts, flat, axis=0), (m, q, k))
    ends = [(start + 1, stop) for start, stop in pairwise(offsets)]
    total = xp.stack([xp.sum(counts[a:b, :], axis=0) for a, b in ends])[None, :, :]  # (1, q, k)
    gone = xp.where(is_known, weight[:, None], 0.0)[:, :, None]  # (m, q, 1)
    count, attribute = count - own[:, None, :] * gone, total - own[:, None, :] * gone
    sizes = rules.smoothing.sizes(rules.n_values)
    values = xp.asarray(sizes, dtype=counts.dtype, device=device)[None, :, None]
    given = None
    if not isinstance(rules.smoothing.prior, str):
        table = xp.asarray(list(rules.smoothing.prior), dtype=counts.dtype, device=device)
        given = xp.reshape(xp.take(table, flat, axis=0), (m, q))[:, :, None]
    estimate = smoothed_shares(xp, count, attribute, values, rules.smoothing, given)
    # what is left of a count of equal weights can be a rounding error below 0
    estimate = xp.where(estimate > 1e-14, estimate, 0.0)
    share = xp.where(is_known[:, :, None], log_or_never(xp, estimate), 0.0)
    is_last = is_known & (xp.reshape(xp.take(n_rows, flat, axis=0), (m, q)) == 1)
    return xp.sum(share, axis=1), xp.any(is_last, axis=1)
