"""Weights, means and scatters by group, in one pass and without cancellation."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial, reduce
from itertools import pairwise
from typing import NamedTuple

import array_api_compat
import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.dispatch import native, numpy_body
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import HOST, Place, accumulator_dtype
from arraylearn.backend.threads import one_thread_per_product, parallel_blocks

__all__ = ["Moments", "grouped_moments", "merge_moments"]


# Bytes of a chunk of rows. Smaller chunks are no faster on one thread, and two threads would wait for the
# interpreter lock, which they need between the calls of NumPy.
_CACHE = 1 << 21
# Rows per piece of work for a thread. Pieces depend on the data alone, so that threads do not change a bit.
_PIECE, _LEAST_PIECE = 1 << 17, 1 << 12
_TINY = np.finfo(np.float64).smallest_normal


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
    piece = max(_LEAST_PIECE, min(_PIECE, -(-m // 8)))
    # so many rows per group that joining its moments (d x d numbers if full) costs little in comparison
    size = max(min(piece, _CACHE // (8 * max(1, d))), 256 * n if full else 64 * n)
    piece = max(piece, size)
    join = partial(merge_moments, HOST.xp)

    def take(start: int) -> Moments:
        parts, stop = [], min(start + piece, m)
        for first in range(start, stop, size):
            rows = slice(first, min(first + size, stop))
            weight = None if weights is None else weights[rows]
            parts.append(_by_sorting(x[rows], groups[rows], n, weight, full, skip_missing))
        return reduce(join, parts)

    with nullcontext() if full else one_thread_per_product():
        parts = parallel_blocks(take, range(0, m, piece))
    return reduce(join, parts or [_no_moments(HOST.xp, x, n, full, skip_missing)])


def _by_sorting(
    x: HostArray, groups: HostArray, n: int, weights: HostArray | None, full: bool, skip_missing: bool
) -> Moments:
    """Bring the rows of each group together; its sums are products with the weights of its rows."""
    order = np.argsort(groups.astype(np.uint16) if n <= 65_536 else groups, kind="stable")
    x = x.take(order, axis=0).astype(np.float64, copy=False)
    by_row = np.ones(x.shape[0]) if weights is None else weights.take(order).astype(np.float64, copy=False)
    weight, mean, scatter = (np.array(part) for part in _no_moments(HOST.xp, x, n, full, skip_missing))
    stops = np.cumsum(np.bincount(groups, minlength=n)).tolist()
    for group, (start, stop) in enumerate(pairwise((0, *stops))):
        if start == stop:
            continue
        rows, w = x[start:stop], by_row[start:stop]
        divisor, sums, is_present = w.sum(), w @ rows, None
        # a missing value anywhere in a column makes its sum NaN
        if skip_missing and np.isnan(sums).any():
            is_present = np.equal(rows, rows)
            np.copyto(rows, 0.0, where=~is_present)
            divisor, sums = w @ is_present, w @ rows
        weight[group] = divisor
        mean[group] = sums / np.maximum(divisor, _TINY)
        rows -= mean[group]
        if is_present is not None:
            rows *= is_present
        if full:
            scatter[group] = (rows if weights is None else rows * w[:, None]).T @ rows
        else:
            scatter[group] = w @ np.square(rows, out=rows)
    return Moments(weight, mean, scatter)
