"""Naive Bayes: attributes independent within each class; nominal and numeric ones in one model.

Nominal values are counted in cells, which lie one after the other: for each attribute first the cell of the
missing value, then those of its values in the order of the domain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.moments import Moments, grouped_moments, merge_moments
from arraylearn.backend.arrays.ragged import count_categories, look_up_sums
from arraylearn.backend.arrays.segments import histogram, segment_sum
from arraylearn.bayes.precision import (
    DistinctValues,
    distinct_values,
    mean_gaps,
    merge_distinct,
    typical_sizes,
)
from arraylearn.gaussian import diagonal_log_density
from arraylearn.gaussian.class_moments import Divisor
from arraylearn.gaussian.density import LOG_2PI

__all__ = [
    "LEAST_DEVIATION",
    "NaiveModel",
    "NaiveStatistics",
    "Smoothing",
    "Variances",
    "cell_offsets",
    "class_log_prior",
    "column_variances",
    "count_statistics",
    "estimate_model",
    "joint_log_likelihood",
    "least_variances",
    "log_likelihood_terms",
    "log_or_never",
    "log_probabilities",
    "merge_statistics",
    "rounding_variances",
    "smoothed_shares",
    "total_moments",
]

# A standard deviation is no smaller than this share of the mean gap between a column's distinct values: an
# interval of that width then holds three deviations on either side.
LEAST_DEVIATION = 1 / 6
# Units in the last place by which the moments of equal numbers may scatter.
_ROUNDING_ERRORS = 16


class NaiveStatistics(NamedTuple):
    """All that naive Bayes needs to know of its rows; `merge_statistics` joins two of them."""

    class_weight: Array  # (k,)
    counts: Array  # (n_cells, k): weight by nominal value and class
    numeric: Moments  # weight, mean, scatter (k, d_numeric) of the known values
    distinct: DistinctValues  # of the numeric columns


class NaiveModel(NamedTuple):
    """Logarithms of the probabilities, and the normal densities."""

    log_prior: Array  # (k,)
    log_table: Array  # (n_cells, k): log P(value | class); 0 for the missing value
    mean: Array  # (k, d_numeric)
    var: Array  # (k, d_numeric)
    offsets: tuple[int, ...]  # first cell of each nominal attribute
    amplification: float  # of rounding, see `arraylearn.gaussian.amplification`


class Smoothing(NamedTuple):
    """How probabilities of nominal values are estimated: (count + extra * prior) / (total + extra)."""

    alpha: float  # added to every count: `extra` is this times the number of values, the prior is uniform
    m: float | None  # the `extra` of the m-estimate, which replaces `alpha`
    prior: Literal["uniform", "marginal"] | Sequence[float]  # of the m-estimate: by rule, or given by cell
    least_values: tuple[int, ...] | None = None  # that each attribute counts as; None: those it has

    def sizes(self, n_values: Sequence[int]) -> list[float]:
        """Return how many values each attribute counts as."""
        least = self.least_values or (1,) * len(n_values)
        return [float(max(1, n, one)) for n, one in zip(n_values, least, strict=True)]


class Variances(NamedTuple):
    """Means and variances of the classes; undefined ones are replaced by those of the column."""

    mean: Array  # (k, d)
    var: Array  # (k, d)
    is_undefined: Array  # (k, d) bool: too few known values for a variance


def log_or_never(xp: Namespace, p: Array) -> Array:
    """Return the logarithm; ``-inf`` for 0, without a warning."""
    is_possible = p > 0
    return xp.where(is_possible, xp.log(xp.where(is_possible, p, 1.0)), -math.inf)


# ---- statistics


def cell_offsets(n_values: Sequence[int]) -> tuple[int, ...]:
    """Return the first cell of each attribute, and the number of all cells."""
    return tuple(accumulate((n + 1 for n in n_values), initial=0))


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
    if codes.shape[0]:
        counts = count_categories(xp, codes, offsets, classes, n_classes, weights)
    else:
        counts = xp.zeros((0, n_classes), dtype=dtype, device=array_api_compat.device(numeric))
    distinct = distinct_values(xp, numeric, weights)
    return NaiveStatistics(xp.astype(class_weight, dtype), xp.astype(counts, dtype), moments, distinct)


def merge_statistics(xp: Namespace, a: NaiveStatistics, b: NaiveStatistics) -> NaiveStatistics:
    """Join the statistics of two disjoint sets of rows."""
    return NaiveStatistics(
        a.class_weight + b.class_weight,
        a.counts + b.counts,
        merge_moments(xp, a.numeric, b.numeric),
        merge_distinct(xp, a.distinct, b.distinct),
    )


# ---- estimates


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


def column_variances(
    xp: Namespace, stats: Moments, *, divisor: Divisor, share: float = 0.0, least: Array | None = None
) -> Variances:
    r"""Variances of every class and column.

    .. math:: \sigma_{cj}^2 = \max(S_{cj} / (n_{cj} - 1) + f \max_j v_j,\ l_j)

    or :math:`S_{cj} / n_{cj}`, with scatter :math:`S_{cj}` and weight :math:`n_{cj}` of the known values,
    and the variance :math:`v_j` of column j over all classes. Where the divisor is not positive, :math:`v_j`
    stands in for the first term, and the mean of the whole column for a mean that nothing is known of.

    Parameters
    ----------
    stats : Moments
        Of the classes, diagonal.
    divisor : {"unbiased", "ml"}
        What the scatter is divided by.
    share : float
        The :math:`f`. Where no column varies, 1 stands in for :math:`\max_j v_j`.
    least : array (d,), optional
        The :math:`l_j`; default: 0.
    """
    weight = stats.weight if stats.weight.ndim == 2 else stats.weight[:, None]
    weight = xp.broadcast_to(weight, stats.mean.shape)
    _, column_mean, column_var = total_moments(xp, stats)
    lost = 1.0 if divisor == "unbiased" else 0.0
    # weights that sum to 1 up to rounding are one row
    is_undefined = weight - lost <= 1e-9 * weight
    var = xp.where(is_undefined, column_var, stats.scatter / xp.where(is_undefined, 1.0, weight - lost))
    mean = xp.where(weight > 0, stats.mean, column_mean)
    if var.shape[1] and share > 0:
        largest = xp.max(column_var)
        var = var + share * xp.where(largest > 0, largest, 1.0)
    return Variances(mean, var if least is None else xp.maximum(var, least), is_undefined)


def least_variances(xp: Namespace, stats: NaiveStatistics, smallest: float) -> Array:
    r"""Return the least variance (d,) of each column, :math:`(g_j / 6)^2` with the mean gap :math:`g_j`.

    `smallest`: the least positive number; squares of tiny gaps are no smaller.
    """
    _, mean, var = total_moments(xp, stats.numeric)
    deviation = mean_gaps(xp, stats.distinct, typical_sizes(xp, mean, var)) * LEAST_DEVIATION
    return xp.maximum(deviation * deviation, smallest)


def rounding_variances(xp: Namespace, stats: NaiveStatistics) -> Array:
    """Return the variance (d,) that rounding may feign: the square of some units in the last place."""
    _, mean, var = total_moments(xp, stats.numeric)
    error = _ROUNDING_ERRORS * xp.finfo(mean.dtype).eps * typical_sizes(xp, mean, var)
    return error * error


def smoothed_shares(
    xp: Namespace, counts: Array, totals: Array, n_values: Array, smoothing: Smoothing, given: Array | None
) -> Array:
    r"""Estimate probabilities of nominal values in each class.

    .. math:: P(a_j = v \mid c) = \frac{n_{jvc} + \gamma}{n_{jc} + \gamma V_j} \quad\text{(Laplace)}, \qquad
              \frac{n_{jvc} + m\,p_{jv}}{n_{jc} + m} \quad\text{(m-estimate)}

    Parameters
    ----------
    counts : float array (..., k)
        Weight :math:`n_{jvc}` of the rows of each class with the value.
    totals : float array (..., k)
        Weight :math:`n_{jc}` of the rows of each class whose attribute is known.
    n_values : float array (..., 1)
        Number :math:`V_j` of values of the attribute.
    smoothing : Smoothing
        Which estimate.
    given : float array (..., 1), optional
        The priors :math:`p_{jv}` of the m-estimate, where they are given.

    Returns
    -------
    array (..., k)
        Where a class knows nothing of an attribute, all its values are equally likely.
    """
    prior = 1.0 / n_values
    if smoothing.m is None:
        extra = smoothing.alpha * n_values
    else:
        extra = smoothing.m * xp.ones_like(n_values)
        if given is not None:
            prior = given
        elif smoothing.prior == "marginal":
            value, attribute = xp.sum(counts, axis=-1, keepdims=True), xp.sum(totals, axis=-1, keepdims=True)
            prior = xp.where(attribute > 0, value / xp.where(attribute > 0, attribute, 1.0), prior)
    weight = totals + extra
    estimate = (counts + extra * prior) / xp.where(weight > 0, weight, 1.0)
    return xp.where(weight > 0, estimate, 1.0 / n_values)


def log_probabilities(xp: Namespace, counts: Array, n_values: Sequence[int], smoothing: Smoothing) -> Array:
    """Estimate the log probability (n_cells, k) of every nominal value in each class, given its counts.

    It is ``-inf`` for what never happens, and 0 in the cells of missing values, which are left out of the
    product.
    """
    dtype, device = counts.dtype, array_api_compat.device(counts)
    attributes = [j for j, n in enumerate(n_values) for _ in range(n + 1)]
    is_value = [v > 0 for n in n_values for v in range(n + 1)]
    attribute = xp.asarray(attributes, dtype=xp.int64, device=device)
    is_value = xp.asarray(is_value, dtype=xp.bool, device=device)[:, None]
    by_attribute = smoothing.sizes(n_values)
    sizes = xp.asarray([by_attribute[j] for j in attributes], dtype=dtype, device=device)[:, None]
    given = None
    if not isinstance(smoothing.prior, str):
        given = xp.asarray(list(smoothing.prior), dtype=dtype, device=device)[:, None]
    known = xp.where(is_value, counts, 0.0)
    totals = xp.take(segment_sum(xp, known, attribute, len(n_values)), attribute, axis=0)
    shares = smoothed_shares(xp, known, xp.astype(totals, dtype, copy=False), sizes, smoothing, given)
    return xp.where(is_value, log_or_never(xp, shares), 0.0)


def estimate_model(
    xp: Namespace,
    stats: NaiveStatistics,
    log_prior: Array,
    n_values: Sequence[int],
    smoothing: Smoothing,
    variances: Variances,
) -> NaiveModel:
    """Turn statistics into the model."""
    log_table = stats.counts
    if n_values:
        log_table = log_probabilities(xp, stats.counts, n_values, smoothing)
    return NaiveModel(log_prior, log_table, variances.mean, variances.var, cell_offsets(n_values), math.inf)


# ---- evaluation


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
        parts.append(_look_up(xp, codes, model.offsets, model.log_table))
    terms: Array = parts[0] if len(parts) == 1 else xp.concat(parts, axis=1)
    return xp.take(terms, order, axis=1)


def _normal_terms(xp: Namespace, x: Array, mean: Array, var: Array) -> Array:
    """Log density (n, d, k) of each value alone; 0 where it is missing."""
    mean, var = xp.matrix_transpose(mean), xp.matrix_transpose(var)
    square = (x[:, :, None] - mean) ** 2 / var
    return xp.where(xp.isnan(x)[:, :, None], 0.0, -0.5 * (LOG_2PI + xp.log(var) + square))


def _look_up(xp: Namespace, codes: Array, offsets: Sequence[int], table: Array) -> Array:
    """Return the log probability (n, d, k) of each row's values; 0 for missing ones."""
    d, n = codes.shape
    first = xp.asarray(offsets[:d], dtype=xp.int64, device=array_api_compat.device(codes))[:, None] + 1
    cell = xp.permute_dims(xp.astype(codes, xp.int64) + first, (1, 0))
    return xp.reshape(xp.take(table, xp.reshape(cell, (-1,)), axis=0), (n, d, table.shape[1]))
