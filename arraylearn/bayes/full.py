"""Full Bayes: one multivariate normal distribution per class, or one covariance that all classes share."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.moments import Moments, grouped_moments, merge_moments
from arraylearn.backend.memory import row_chunks
from arraylearn.bayes.naive import total_moments
from arraylearn.gaussian import (
    Gaussians,
    amplification,
    covariances,
    diagonal_log_density,
    factor_covariances,
    full_log_density,
)
from arraylearn.gaussian.class_moments import Divisor
from arraylearn.gaussian.density import LOG_2PI

__all__ = [
    "SINGULAR_SHARE",
    "Covariances",
    "FullModel",
    "FullStatistics",
    "chain_terms",
    "estimate_covariances",
    "factor_model",
    "full_statistics",
    "joint_log_likelihood",
    "merge_statistics",
    "regularized",
    "shared_amplification",
]

# A singular covariance gets this share of the pooled variances added to its diagonal.
SINGULAR_SHARE = 0.01


class FullStatistics(NamedTuple):
    """All that full Bayes needs to know of its rows; `merge_statistics` joins two of them."""

    moments: Moments  # weight (k,), mean (k, d), scatter (k, d, d) or (k, d)
    third: Array | None  # (k, d, d): sums of u_i^2 u_j of deviations u; for the automatic shrinkage only
    fourth: Array | None  # (k, d, d): sums of u_i^2 u_j^2


class Covariances(NamedTuple):
    """Covariances before they are factored."""

    cov: Array  # (k, d, d), or (1, d, d) if shared
    stand_in: Array  # (d,) pooled variances, all positive
    is_undefined: Array  # (k,) or (1,) bool: too few rows to divide by; `cov` holds the stand-in


class FullModel(NamedTuple):
    """One normal distribution per class, ready to be evaluated."""

    log_prior: Array  # (k,)
    mean: Array  # (k, d)
    whitening: Array  # (k, d, d), or (1, d, d) if shared: inverse of the lower Cholesky factor
    log_scale: Array  # (k,) or (1,): log density at the mean
    covariance: Array  # (k, d, d), or (1, d, d) if shared
    amplification: float  # of rounding with a shared covariance, see `arraylearn.gaussian.amplification`


# ---- statistics


def full_statistics(
    xp: Namespace,
    x: Array,
    classes: Array,
    n_classes: int,
    weights: Array | None = None,
    *,
    higher: bool = False,
) -> FullStatistics:
    """Take means and scatter matrices of all classes; with `higher` also what Ledoit and Wolf need."""
    moments = grouped_moments(xp, x, classes, n_classes, weights, full=True)
    if not higher:
        return FullStatistics(moments, None, None)
    d = x.shape[1]
    dtype = moments.mean.dtype
    ids = xp.arange(n_classes, dtype=classes.dtype, device=array_api_compat.device(x))
    total = xp.zeros((n_classes * d, 2 * d), dtype=dtype, device=array_api_compat.device(x))
    for rows in row_chunks(x.shape[0], 8 * d * (n_classes + 8), most=1 << 14):
        u = xp.astype(x[rows, :], dtype) - xp.take(moments.mean, classes[rows], axis=0)
        member = xp.astype(ids[:, None] == classes[rows][None, :], dtype)
        if weights is not None:
            member = member * xp.astype(weights[rows], dtype)
        square = u * u
        left = xp.reshape(member[:, None, :] * xp.matrix_transpose(square)[None, :, :], (n_classes * d, -1))
        total = total + left @ xp.concat((u, square), axis=1)
    sums = xp.reshape(total, (n_classes, d, 2 * d))
    return FullStatistics(moments, sums[..., :d], sums[..., d:])


def merge_statistics(xp: Namespace, a: FullStatistics, b: FullStatistics) -> FullStatistics:
    """Join the statistics of two disjoint sets of rows."""
    moments = merge_moments(xp, a.moments, b.moments)
    if a.third is None or a.fourth is None or b.third is None or b.fourth is None:
        return FullStatistics(moments, None, None)
    third_a, fourth_a = _recentred(xp, a.moments, a.third, a.fourth, moments.mean)
    third_b, fourth_b = _recentred(xp, b.moments, b.third, b.fourth, moments.mean)
    return FullStatistics(moments, third_a + third_b, fourth_a + fourth_b)


def _recentred(
    xp: Namespace, stats: Moments, third: Array, fourth: Array, mean: Array
) -> tuple[Array, Array]:
    """Express sums of u_i^2 u_j and u_i^2 u_j^2 by the deviations from another mean."""
    shift = stats.mean - mean
    i, j = shift[..., :, None], shift[..., None, :]
    weight = stats.weight[:, None, None]
    square = xp.linalg.diagonal(stats.scatter)
    square_i, square_j = square[..., :, None], square[..., None, :]
    moved_third = third + square_i * j + 2.0 * i * stats.scatter + weight * i * i * j
    moved_fourth = (
        fourth
        + 2.0 * (j * third + i * xp.matrix_transpose(third))
        + j * j * square_i
        + i * i * square_j
        + 4.0 * i * j * stats.scatter
        + weight * i * i * j * j
    )
    return moved_third, moved_fourth


# ---- estimates


def estimate_covariances(
    xp: Namespace,
    stats: FullStatistics,
    *,
    divisor: Divisor,
    shared: bool,
    shrinkage: float | Literal["auto"] | None,
) -> Covariances:
    """Divide the scatters, shrink them, pool them if asked; too few rows get the pooled variances."""
    moments = stats.moments
    stand_in = _pooled_variances(xp, moments)
    cov = covariances(xp, moments, divisor=divisor)
    if shrinkage == "auto":
        cov = _shrunk_automatically(xp, stats, cov)
    elif shrinkage is not None:
        cov = _shrunk(xp, cov, shrinkage)
    weight = moments.weight
    lost = 1.0 if divisor == "unbiased" else 0.0
    if shared:
        # classes weigh by the divisors of their own covariances
        rows = xp.where(weight > lost, weight - lost, 0.0)
        weight = xp.sum(rows, axis=0, keepdims=True)
        share = rows / xp.where(weight > 0, weight, 1.0)
        cov = xp.sum(share[:, None, None] * cov, axis=0, keepdims=True)
        is_undefined = weight <= 0
    else:
        is_undefined = weight - lost <= 1e-9 * weight
    diagonal = _diagonal_matrix(xp, stand_in)
    return Covariances(xp.where(is_undefined[:, None, None], diagonal, cov), stand_in, is_undefined)


def _pooled_variances(xp: Namespace, moments: Moments) -> Array:
    """Variances (d,) within the classes; over all rows where that is 0; 1 where nothing varies."""
    diagonal = Moments(moments.weight, moments.mean, xp.linalg.diagonal(moments.scatter))
    total, _, overall = total_moments(xp, diagonal)
    within = xp.sum(diagonal.scatter, axis=0) / xp.where(total > 0, total, 1.0)
    return xp.where(within > 0, within, xp.where(overall > 0, overall, 1.0))


def _diagonal_matrix(xp: Namespace, values: Array) -> Array:
    eye = xp.eye(values.shape[-1], dtype=values.dtype, device=array_api_compat.device(values))
    return values[..., None, :] * eye


def regularized(xp: Namespace, cov: Array, amount: float) -> Array:
    r"""Move covariances towards the identity, :math:`(1 - r) \Sigma + r I`."""
    if not amount:
        return cov
    return (1.0 - amount) * cov + amount * _diagonal_matrix(xp, xp.ones_like(cov[..., 0]))


def _shrunk(xp: Namespace, cov: Array, amount: float | Array) -> Array:
    r"""Move covariances towards a sphere, :math:`(1 - a) \Sigma + a\,\tfrac{\mathrm{tr} \Sigma}{d} I`."""
    level = xp.sum(xp.linalg.diagonal(cov), axis=-1, keepdims=True) / cov.shape[-1]
    sphere = _diagonal_matrix(xp, xp.broadcast_to(level, cov.shape[:-1]))
    return (1.0 - amount) * cov + amount * sphere


def _shrunk_automatically(xp: Namespace, stats: FullStatistics, cov: Array) -> Array:
    r"""Shrink the correlations of each class by the amount of Ledoit and Wolf.

    With standardized deviations z and correlations R of a class of n rows and d columns

    .. math:: a = \min\left(1, \frac{\frac1n \sum_i \lVert z_i \rVert^4 - \lVert R \rVert^2}
              {n\,(\lVert R \rVert^2 - (\mathrm{tr} R)^2 / d)}\right)
    """
    moments, d = stats.moments, cov.shape[-1]
    n = xp.where(moments.weight > 0, moments.weight, 1.0)
    variance = xp.linalg.diagonal(moments.scatter) / n[:, None]
    scale = xp.sqrt(xp.where(variance > 0, variance, 1.0))
    both = scale[:, :, None] * scale[:, None, :]
    correlation = moments.scatter / n[:, None, None] / both
    norm = xp.sum(correlation * correlation, axis=(-2, -1))
    trace = xp.sum(xp.linalg.diagonal(correlation), axis=-1)
    spread = xp.sum(stats.fourth / (both * both), axis=(-2, -1)) / n - norm
    distance = n * (norm - trace * trace / d)
    is_sphere = distance <= 1e-14 * n * norm
    ratio = spread / xp.where(is_sphere, 1.0, distance)
    amount = xp.where(is_sphere | (ratio < 0), 0.0, xp.where(ratio < 1, ratio, 1.0))[:, None, None]
    return _shrunk(xp, cov / both, amount) * both


def factor_model(
    xp: Namespace, log_prior: Array, mean: Array, found: Covariances, is_definite: Array | None
) -> tuple[FullModel, Array]:
    """Factor the covariances; also return which of them are definite.

    With `is_definite` (k,) from a first attempt, the others are repaired before: `SINGULAR_SHARE` of the
    pooled variances is added to their diagonals. Where rounding still leaves one singular, the pooled
    variances alone replace it.
    """
    cov = found.cov
    first: Gaussians | None = None
    if is_definite is not None:
        diagonal = _diagonal_matrix(xp, found.stand_in)
        cov = xp.where(is_definite[:, None, None], cov, cov + SINGULAR_SHARE * diagonal)
        first = factor_covariances(xp, mean[: cov.shape[0], :], cov)
        cov = xp.where(first.is_definite[:, None, None], cov, diagonal)
    normal = factor_covariances(xp, mean[: cov.shape[0], :], cov)
    return FullModel(log_prior, mean, normal.whitening, normal.log_scale, cov, math.inf), normal.is_definite


# ---- evaluation


def joint_log_likelihood(xp: Namespace, model: FullModel, x: Array, *, by_product: bool = False) -> Array:
    r"""Unnormalised log posterior of each class.

    .. math:: \log P(c) - \tfrac12 \left[ d \log 2\pi + \log\det\Sigma_c
              + (x - \mu_c)^T \Sigma_c^{-1} (x - \mu_c) \right]

    Parameters
    ----------
    model : FullModel
        Of the dtype of `x`.
    x : float array (n, d)
        Rows.
    by_product : bool
        With a shared covariance, see `arraylearn.gaussian.diagonal_log_density`.

    Returns
    -------
    array (n, k)
        Joint log likelihoods.
    """
    k = model.mean.shape[0]
    if model.whitening.shape[0] == k:
        normal = Gaussians(
            model.mean, model.whitening, model.log_prior + model.log_scale, model.log_scale > 0
        )
        return full_log_density(xp, normal, x)
    # one map for all classes: whitened once, the columns are independent and of variance 1
    center, mean = whitened_means(xp, model)
    whitening = xp.matrix_transpose(model.whitening[0, ...])
    var = xp.ones_like(mean)
    constant = model.log_prior + model.log_scale + 0.5 * x.shape[1] * LOG_2PI
    parts = []
    for rows in row_chunks(x.shape[0], 8 * 4 * x.shape[1], most=1 << 14):
        z = (x[rows, :] - center) @ whitening
        parts.append(diagonal_log_density(xp, z, mean, var, by_product=by_product) + constant)
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)


def whitened_means(xp: Namespace, model: FullModel) -> tuple[Array, Array]:
    """Return the centre (1, d) of the class means, and the means (k, d) from there in whitened units."""
    center = xp.mean(model.mean, axis=0, keepdims=True)
    return center, (model.mean - center) @ xp.matrix_transpose(model.whitening[0, ...])


def shared_amplification(xp: Namespace, model: FullModel) -> Array:
    """Return by how much expanding the squares of a shared covariance would amplify rounding."""
    _, mean = whitened_means(xp, model)
    return amplification(xp, mean, xp.ones_like(mean))


def chain_terms(xp: Namespace, model: FullModel, x: Array) -> Array:
    r"""Log density of each column given those before it, :math:`\log p(x_j \mid x_1, \dots, x_{j-1}, c)`.

    The sum over the columns is the log density of the row: row j of the whitening, which is lower triangular,
    holds the regression on the columns before, and its diagonal the conditional standard deviation.

    Returns
    -------
    array (n, d, k)
        Terms in the order of the columns.
    """
    k, d = model.mean.shape
    whitening = xp.broadcast_to(model.whitening, (k, d, d))
    z = (x[None, :, :] - model.mean[:, None, :]) @ xp.matrix_transpose(whitening)  # (k, n, d)
    terms = -0.5 * (z * z + LOG_2PI) + xp.log(xp.linalg.diagonal(whitening))[:, None, :]
    return xp.permute_dims(terms, (1, 2, 0))
