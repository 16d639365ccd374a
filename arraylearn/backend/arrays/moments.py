"""Weights, means and scatters by group, in one pass and without cancellation."""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.backend.native import native

__all__ = ["Moments", "grouped_moments", "merge_moments"]


class Moments(NamedTuple):
    """Sufficient statistics of groups of rows; `merge_moments` joins those of two sets of rows."""

    weight: Array  # (k,), or (k, d) where missing values were left out
    mean: Array  # (k, d); 0 where nothing weighs
    scatter: Array  # (k, d) or (k, d, d): weighted sums of squares or products of deviations from the mean


def merge_moments(xp: Namespace, a: Moments, b: Moments) -> Moments:
    r"""Join the moments of two disjoint sets of rows.

    .. math:: \mu = \mu_a + \tfrac{w_b}{w_a + w_b} \delta, \qquad
              S = S_a + S_b + \tfrac{w_a w_b}{w_a + w_b} \delta \delta^T, \qquad \delta = \mu_b - \mu_a

    Parameters
    ----------
    a, b : Moments
        Of the same groups and columns; leading axes broadcast.

    Returns
    -------
    Moments
        Of the union.

    References
    ----------
    T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    variances", 1979.
    """
    weight = a.weight + b.weight
    share = b.weight / xp.where(weight > 0, weight, 1.0)
    if weight.ndim < a.mean.ndim:  # one weight for all columns
        share, weight_a = share[..., None], a.weight[..., None]
    else:
        weight_a = a.weight
    delta = b.mean - a.mean
    pull = weight_a * share * delta
    is_full = a.scatter.ndim > a.mean.ndim
    between = pull[..., :, None] * delta[..., None, :] if is_full else pull * delta
    return Moments(weight, a.mean + share * delta, a.scatter + b.scatter + between)


def grouped_moments(
    xp: Namespace,
    x: Array,
    groups: Array,
    n: int,
    weights: Array | None = None,
    *,
    full: bool = False,
    skip_missing: bool = False,
) -> Moments:
    """Take the weight, mean and scatter of the rows of each group.

    Parameters
    ----------
    x : float array (m, d)
        Rows; finite, or with NaN to be left out one by one (see `skip_missing`).
    groups : int array (m,)
        The group of each row in ``range(n)``.
    n : int
        Number of groups.
    weights : array (m,), optional
        Weights that are not negative; default 1.
    full : bool
        Whether the scatter is the matrix of all pairs of columns.
    skip_missing : bool
        Whether NaN counts as missing: then the weight is (n, d), per column. Not together with `full`.

    Returns
    -------
    Moments
        In the accumulator's dtype. Deviations are taken from the group's own mean, so that neither a common
        offset nor distant groups cost digits.
    """
    if fast := native(xp, "grouped_moments"):
        return Moments(*fast(x, groups, n, weights, full, skip_missing))
    dtype = accumulator_dtype(Place(xp, array_api_compat.device(x)))
    d = x.shape[1]
    bytes_per_row = 8 * (2 * n + 3 * d + (n * d if full else 0))
    total: Moments | None = None
    for rows in row_chunks(x.shape[0], bytes_per_row):
        weight = None if weights is None else weights[rows]
        part = _moments_of(xp, xp.astype(x[rows, :], dtype), groups[rows], n, weight, full, skip_missing)
        total = part if total is None else merge_moments(xp, total, part)
    if total is None:
        total = _no_moments(xp, x, n, full, skip_missing)
    return total


def _moments_of(
    xp: Namespace, x: Array, groups: Array, n: int, weights: Array | None, full: bool, skip_missing: bool
) -> Moments:
    ids = xp.arange(n, dtype=groups.dtype, device=array_api_compat.device(x))
    member = xp.astype(groups[None, :] == ids[:, None], x.dtype)  # (n, m)
    weighing = member if weights is None else member * xp.astype(weights, x.dtype)
    if skip_missing:
        is_present = ~xp.isnan(x)
        x = xp.where(is_present, x, 0.0)
        weight = weighing @ xp.astype(is_present, x.dtype)
        divisor = weight
    else:
        weight = xp.sum(weighing, axis=1)
        divisor = weight[:, None]
    mean = (weighing @ x) / xp.where(divisor > 0, divisor, 1.0)
    deviation = x - xp.matrix_transpose(member) @ mean
    if skip_missing:
        deviation = xp.where(is_present, deviation, 0.0)
    if not full:
        return Moments(weight, mean, weighing @ (deviation * deviation))
    d = x.shape[1]
    by_group = xp.reshape(weighing[:, None, :] * xp.matrix_transpose(deviation)[None, :, :], (n * d, -1))
    return Moments(weight, mean, xp.reshape(by_group @ deviation, (n, d, d)))


def _no_moments(xp: Namespace, x: Array, n: int, full: bool, skip_missing: bool) -> Moments:
    device = array_api_compat.device(x)
    dtype = accumulator_dtype(Place(xp, device))
    d = x.shape[1]
    weight = xp.zeros((n, d) if skip_missing else (n,), dtype=dtype, device=device)
    scatter = xp.zeros((n, d, d) if full else (n, d), dtype=dtype, device=device)
    return Moments(weight, xp.zeros((n, d), dtype=dtype, device=device), scatter)
