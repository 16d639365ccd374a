"""Weights, means and scatters by group, in one pass and without cancellation."""

from __future__ import annotations

from functools import partial, reduce
from typing import NamedTuple

import array_api_compat
import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.dispatch import native, numpy_body
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import HOST, Place, accumulator_dtype
from arraylearn.backend.threads import parallel_blocks

__all__ = ["Moments", "grouped_moments", "merge_moments"]


# Bytes of a chunk of rows, of which a few copies stay in the second-level cache.
_CACHE = 1 << 19
# Rows per piece of work for a thread. Pieces depend on the data alone, so that threads do not change a bit.
_PIECE, _LEAST_PIECE = 1 << 17, 1 << 12
# Share of a sum of squares that must be left after that of the mean is subtracted: at most 3 digits cancel.
_ENOUGH = 1e-3
# With more groups than this, sorting the rows of a chunk beats multiplying by a table of memberships.
_MOST_MULTIPLIED = 16


class Moments(NamedTuple):
    """Sufficient statistics of groups of rows; `merge_moments` joins those of two sets of rows."""

    weight: Array  # (k,), or (k, d) where missing values were left out
    mean: Array  # (k, d); 0 where the weight is 0
    scatter: Array  # (k, d) or (k, d, d): weighted sums of squares or products of deviations from the mean


def merge_moments(xp: Namespace, a: Moments, b: Moments) -> Moments:
    r"""Join the moments of two disjoint sets of rows; leading axes broadcast.

    .. math:: \mu = \mu_a + \tfrac{w_b}{w_a + w_b} \delta, \qquad
              S = S_a + S_b + \tfrac{w_a w_b}{w_a + w_b} \delta \delta^T, \qquad \delta = \mu_b - \mu_a

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
    """Take the weight, mean and scatter of the rows of each group, in the accumulator's dtype.

    Rows are finite floats `x` (m, d), or with `skip_missing` some are NaN and left out one by one: the weight
    is then (n, d), per column. `groups` (m,) of ``range(n)``; weights (m,) are not negative. `full`: the
    scatter is the matrix of all pairs of columns; not together with `skip_missing`. Deviations are taken from
    the group's own mean, so that neither a common offset nor distant groups cost digits.
    """
    if fast := native(xp, "grouped_moments"):
        return Moments(*fast(x, groups, n, weights, full, skip_missing))
    dtype = accumulator_dtype(Place(xp, array_api_compat.device(x)))
    d = x.shape[1]
    bytes_per_row = 8 * (2 * n + 3 * d + (n * d if full else 0))
    parts = []
    for rows in row_chunks(x.shape[0], bytes_per_row):
        weight = None if weights is None else weights[rows]
        chunk = xp.astype(x[rows, :], dtype)
        parts.append(_moments_of(xp, chunk, groups[rows], n, weight, full, skip_missing))
    return reduce(partial(merge_moments, xp), parts or [_no_moments(xp, x, n, full, skip_missing)])


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


# ---- NumPy: chunks in cache, joined by the formula of Chan et al.


@numpy_body
def _grouped_moments(
    x: HostArray, groups: HostArray, n: int, weights: HostArray | None, full: bool, skip_missing: bool
) -> Moments:
    m, d = x.shape
    is_sorted = full or (n > _MOST_MULTIPLIED and not skip_missing)
    size = max(256, _CACHE // (8 * max(1, d)))
    if is_sorted:
        # so many rows per group that joining its moments (d x d numbers if full) costs little in comparison
        size = max(size, (256 if full else 32) * n)

    piece = max(_LEAST_PIECE, min(_PIECE, -(-m // 8)), size)

    def take(start: int) -> Moments:
        total = _no_moments(HOST.xp, x, n, full, skip_missing)
        stop = min(start + piece, m)
        for first in range(start, stop, size):
            rows = slice(first, min(first + size, stop))
            chunk = x[rows].astype(np.float64, copy=False)
            weight = None if weights is None else weights[rows].astype(np.float64, copy=False)
            if is_sorted:
                part = _by_sorting(chunk, groups[rows], n, weight, full)
            else:
                part = _by_membership(chunk, groups[rows], n, weight, skip_missing)
            total = merge_moments(HOST.xp, total, part)
        return total

    parts = parallel_blocks(take, range(0, m, piece)) or [take(0)]
    return reduce(partial(merge_moments, HOST.xp), parts)


def _by_membership(
    x: HostArray, groups: HostArray, n: int, weights: HostArray | None, skip_missing: bool
) -> Moments:
    """Sum by products with the table (n, m) of which row belongs to which group."""
    member = np.equal(groups, np.arange(n)[:, None]).astype(np.float64)
    weighing = member if weights is None else member * weights
    weight = divisor = weighing.sum(axis=1)[:, None]
    mean = weighing @ x
    # a missing value anywhere in a column makes its sums NaN: if no sum is NaN, nothing is to be skipped
    has_gaps = skip_missing and bool(np.isnan(np.add.reduce(mean, axis=None)))
    if has_gaps:
        is_present = np.equal(x, x)
        x = np.where(is_present, x, 0.0)
        weight = divisor = weighing @ is_present.astype(np.float64)
        mean = weighing @ x
    sums = mean
    mean = sums / np.where(divisor > 0, divisor, 1.0)
    buffer = np.multiply(x, x)
    squares = weighing @ buffer
    scatter = squares - sums * mean
    if not np.all(scatter >= _ENOUGH * squares):
        # too much of the sums of squares cancelled: take deviations first
        deviation = np.matmul(member.T, mean, out=buffer)
        np.subtract(x, deviation, out=deviation)
        np.multiply(deviation, deviation, out=deviation)
        if has_gaps:
            deviation *= is_present
        scatter = weighing @ deviation
    if not skip_missing:
        return Moments(weight[:, 0], mean, scatter)
    return Moments(np.broadcast_to(weight, mean.shape), mean, scatter)


def _by_sorting(x: HostArray, groups: HostArray, n: int, weights: HostArray | None, full: bool) -> Moments:
    """Bring the rows of each group together; every group is then one product, or one sum of rows."""
    order = np.argsort(groups.astype(np.uint16) if n <= 65_536 else groups, kind="stable")
    sizes = np.bincount(groups, minlength=n)
    present = np.flatnonzero(sizes)
    starts = (np.cumsum(sizes) - sizes)[present]
    x = x.take(order, axis=0)
    weighted, weight = x, sizes.astype(np.float64)
    if weights is not None:
        weights = weights.take(order)[:, None]
        weighted = x * weights
        weight[present] = np.add.reduceat(weights[:, 0], starts)
    mean = np.zeros((n, x.shape[1]))
    mean[present] = np.add.reduceat(weighted, starts, axis=0)
    mean /= np.where(weight > 0, weight, 1.0)[:, None]
    x -= np.repeat(mean[present], sizes[present], axis=0)
    weighted = x if weights is None else x * weights
    if not full:
        scatter = np.zeros_like(mean)
        scatter[present] = np.add.reduceat(weighted * x, starts, axis=0)
        return Moments(weight, mean, scatter)
    scatter = np.zeros((n, x.shape[1], x.shape[1]))
    for group, start in zip(present, starts, strict=True):
        rows = slice(start, start + sizes[group])
        np.matmul(weighted[rows].T, x[rows], out=scatter[group])
    return Moments(weight, mean, scatter)
