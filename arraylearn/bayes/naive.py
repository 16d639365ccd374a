"""Naive Bayes: attributes independent within each class; nominal and numeric ones in one model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.moments import Moments, grouped_moments, merge_moments
from arraylearn.backend.arrays.segments import histogram
from arraylearn.bayes.frequencies import (
    Smoothing,
    count_categories,
    log_probabilities,
    look_up,
    look_up_sums,
    make_cells,
)
from arraylearn.bayes.posterior import log_or_never
from arraylearn.gaussian import diagonal_log_density
from arraylearn.gaussian.class_moments import Divisor
from arraylearn.gaussian.density import LOG_2PI

__all__ = [
    "NaiveModel",
    "NaiveStatistics",
    "Variances",
    "class_log_prior",
    "column_variances",
    "count_statistics",
    "estimate_model",
    "joint_log_likelihood",
    "log_likelihood_terms",
    "merge_statistics",
    "total_moments",
]


class NaiveStatistics(NamedTuple):
    """All that naive Bayes needs to know of its rows; `merge_statistics` joins two of them."""

    class_weight: Array  # (k,)
    counts: Array  # (n_cells, k): weight by nominal value and class
    numeric: Moments  # weight, mean, scatter (k, d_numeric) of the known values


class NaiveModel(NamedTuple):
    """Logarithms of the probabilities, and the normal densities."""

    log_prior: Array  # (k,)
    log_table: Array  # (n_cells, k): log P(value | class); 0 for the missing value
    mean: Array  # (k, d_numeric)
    var: Array  # (k, d_numeric)
    offsets: tuple[int, ...]  # first cell of each nominal attribute
    amplification: float  # of rounding, see `arraylearn.gaussian.amplification`


class Variances(NamedTuple):
    """Means and variances that are fit to divide by, and where they had to be made up."""

    mean: Array  # (k, d)
    var: Array  # (k, d), all positive
    is_undefined: Array  # (k, d) bool


def count_statistics(
    xp: Namespace,
    numeric: Array,
    codes: Array,
    offsets: Sequence[int],
    classes: Array,
    n_classes: int,
    weights: Array | None = None,
) -> NaiveStatistics:
    """Count nominal values and take numeric moments, all attributes and classes at once.

    Parameters
    ----------
    numeric : float array (n, d_numeric)
        NaN is missing.
    codes : int32 array (d_nominal, n)
        -1 is missing.
    offsets : sequence of int
        First cell of each nominal attribute.
    classes : int array (n,)
        Class of each row in ``range(n_classes)``.
    n_classes : int
        Number of classes.
    weights : float array (n,), optional
        Weight of each row.

    Returns
    -------
    NaiveStatistics
        In the accumulator's dtype.
    """
    moments = grouped_moments(xp, numeric, classes, n_classes, weights, skip_missing=True)
    dtype = moments.mean.dtype
    class_weight = histogram(xp, classes, n_classes, weights)
    counts = count_categories(xp, codes, offsets, classes, n_classes, weights)
    return NaiveStatistics(xp.astype(class_weight, dtype), xp.astype(counts, dtype), moments)


def merge_statistics(xp: Namespace, a: NaiveStatistics, b: NaiveStatistics) -> NaiveStatistics:
    """Join the statistics of two disjoint sets of rows."""
    return NaiveStatistics(
        a.class_weight + b.class_weight, a.counts + b.counts, merge_moments(xp, a.numeric, b.numeric)
    )


def class_log_prior(xp: Namespace, class_weight: Array, extra: float) -> Array:
    r"""Log prior of the classes, :math:`\log (n_c + \alpha) / (n + \alpha k)` with `extra` as alpha."""
    total = xp.sum(class_weight) + extra * class_weight.shape[0]
    return log_or_never(xp, (class_weight + extra) / total)


def total_moments(xp: Namespace, stats: Moments) -> tuple[Array, Array, Array]:
    """Return weight, mean and (ML) variance (d,) of each column over all classes, from diagonal moments."""
    weight = stats.weight if stats.weight.ndim == 2 else stats.weight[:, None]
    total = xp.sum(weight, axis=0)
    safe = xp.where(total > 0, total, 1.0)
    mean = xp.sum(weight * stats.mean, axis=0) / safe
    scatter = xp.sum(stats.scatter + weight * (stats.mean - mean) ** 2, axis=0)
    return total, mean, scatter / safe


def column_variances(xp: Namespace, stats: Moments, *, divisor: Divisor, floor: float) -> Variances:
    r"""Variances of every class and column that are defined and positive.

    .. math:: \sigma_{cj}^2 = S_{cj} / (n_{cj} - 1) + f \max_j v_j \quad\text{(or } / n_{cj} \text{)}

    with the scatter :math:`S_{cj}`, the weight :math:`n_{cj}` of the known values, and the variance
    :math:`v_j` of column j over all classes. Where the divisor is not positive, :math:`v_j` stands in for the
    first term, and the mean of the whole column for a mean that nothing is known of. Where no column varies,
    1 stands in for :math:`\max_j v_j`.
    """
    weight = stats.weight if stats.weight.ndim == 2 else stats.weight[:, None]
    weight = xp.broadcast_to(weight, stats.mean.shape)
    _, column_mean, column_var = total_moments(xp, stats)
    lost = 1.0 if divisor == "unbiased" else 0.0
    # weights that sum to 1 up to rounding are one row
    is_undefined = weight - lost <= 1e-9 * weight
    var = xp.where(is_undefined, column_var, stats.scatter / xp.where(is_undefined, 1.0, weight - lost))
    mean = xp.where(weight > 0, stats.mean, column_mean)
    if var.shape[1]:
        largest = xp.max(column_var)
        var = var + floor * xp.where(largest > 0, largest, 1.0)
    return Variances(mean, var, is_undefined)


def estimate_model(
    xp: Namespace,
    stats: NaiveStatistics,
    log_prior: Array,
    n_values: Sequence[int],
    offsets: tuple[int, ...],
    smoothing: Smoothing,
    value_prior: Sequence[float] | None,
    variances: Variances,
) -> NaiveModel:
    """Turn statistics into the model."""
    log_table = stats.counts
    if n_values:
        cells = make_cells(xp, stats.counts, n_values, value_prior)
        log_table = log_probabilities(xp, stats.counts, cells, smoothing, len(n_values))
    return NaiveModel(log_prior, log_table, variances.mean, variances.var, offsets, math.inf)


def joint_log_likelihood(
    xp: Namespace, model: NaiveModel, numeric: Array, codes: Array, *, by_product: bool = False
) -> Array:
    r"""Unnormalised log posterior of each class; missing values are left out.

    .. math:: \log P(c) + \sum_{j\ \text{nominal}} \log P(a_j = x_j \mid c) - \tfrac12
              \sum_{j\ \text{numeric}} [\log 2\pi\sigma_{cj}^2 + (x_j - \mu_{cj})^2 / \sigma_{cj}^2]

    Parameters
    ----------
    model : NaiveModel
        Of the dtype of `numeric`.
    numeric : float array (n, d_numeric)
        NaN is missing.
    codes : int32 array (d_nominal, n)
        -1 is missing.
    by_product : bool
        See `arraylearn.gaussian.diagonal_log_density`.

    Returns
    -------
    array (n, k)
        Joint log likelihoods.
    """
    joint = model.log_prior[None, :]
    if numeric.shape[1]:
        joint = joint + diagonal_log_density(
            xp, numeric, model.mean, model.var, by_product=by_product, skip_missing=True
        )
    if codes.shape[0]:
        joint = joint + look_up_sums(xp, codes, model.offsets, model.log_table)
    return joint


def log_likelihood_terms(
    xp: Namespace, model: NaiveModel, numeric: Array, codes: Array, order: Array
) -> Array:
    r"""Log likelihood of each attribute alone, :math:`\log P(x_j \mid c)`; 0 where it is missing.

    Parameters
    ----------
    model, numeric, codes
        As for `joint_log_likelihood`.
    order : int array (d,)
        For each column of the input its position among the numeric columns followed by the nominal ones.

    Returns
    -------
    array (n, d, k)
        In the order of the input's columns.
    """
    parts = []
    if numeric.shape[1]:
        parts.append(_normal_terms(xp, numeric, model.mean, model.var))
    if codes.shape[0]:
        parts.append(look_up(xp, codes, model.offsets, model.log_table))
    terms: Any = parts[0] if len(parts) == 1 else xp.concat(parts, axis=1)
    return xp.take(terms, order, axis=1)


def _normal_terms(xp: Namespace, x: Array, mean: Array, var: Array) -> Array:
    """Log density (n, d, k) of each value alone; 0 where it is missing."""
    mean, var = xp.matrix_transpose(mean), xp.matrix_transpose(var)
    square = (x[:, :, None] - mean) ** 2 / var
    return xp.where(xp.isnan(x)[:, :, None], 0.0, -0.5 * (LOG_2PI + xp.log(var) + square))
