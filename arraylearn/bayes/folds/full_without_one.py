r"""Full Bayes with every row left out in turn, by rank-one updates of the factored scatter.

With :math:`a = wW/W'` and :math:`q = u^T M^{-1} u` for the matrix M that is proportional to a covariance,
leaving the row out turns M into :math:`M - a u u^T`, so that by Sherman, Morrison and the determinant lemma

.. math:: z^T M'^{-1} z = z^T M^{-1} z + \frac{a\,(z^T M^{-1} u)^2}{1 - a q}, \qquad
          \log\det M' = \log\det M + \log(1 - a q)

Shrinkage moves M towards a sphere whose radius also changes with the row: then M is diagonal in the
eigenvectors of the scatter, and its inverse is taken there.
"""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.linear import cholesky, solve_triangular
from arraylearn.backend.arrays.moments import Moments
from arraylearn.backend.memory import row_chunks
from arraylearn.bayes.folds.naive_without_one import WeightedRows, WithoutOne, prior_without_one
from arraylearn.gaussian.density import LOG_2PI

__all__ = ["FullRules", "full_without_one"]

# Where the scatter without a row keeps less than this share in some direction, too many digits are lost.
_LEAST_SHARE = 1e-3


class FullRules(NamedTuple):
    """How full Bayes estimates covariances."""

    shared: bool  # whether the classes share one
    shrinkage: float  # towards the sphere, 0 to 1
    lost: float  # 1 for unbiased covariances, 0 for maximum likelihood


class Basis(NamedTuple):
    """Coordinates in which a scatter is diagonal."""

    turn: Array  # (d, d): rows of z @ turn are the coordinates
    value: Array  # (d,) the diagonal
    is_definite: Array  # () bool


def full_without_one(
    xp: Namespace,
    stats: Moments,
    sample: WeightedRows,
    given: Array | None,
    rules: FullRules,
) -> WithoutOne:
    """Evaluate every row under the model of all others.

    Parameters
    ----------
    stats : Moments
        Weight (k,), mean (k, d) and scatter (k, d, d) of all rows.
    sample : WeightedRows
        The rows, without missing values.
    given : float array (k,) or None
        Given log priors.
    rules : FullRules
        How to estimate.
    """
    x, classes, weights = sample
    k, d = stats.mean.shape
    ids = xp.arange(k, dtype=xp.int64, device=array_api_compat.device(x))
    divisor = stats.weight - rules.lost
    is_defined = xp.all(divisor > 1e-9 * stats.weight)
    if rules.shared:
        bases = [_find_basis(xp, xp.sum(stats.scatter, axis=0), xp.sum(divisor), rules.shrinkage)]
    else:
        bases = [_find_basis(xp, stats.scatter[c, ...], divisor[c], rules.shrinkage) for c in range(k)]
    is_fine = is_defined & xp.all(xp.stack([basis.is_definite for basis in bases]))
    parts = []
    for rows in row_chunks(x.shape[0], 8 * d * (k + 6) * 2, most=1 << 14):
        own = xp.astype(classes[rows][:, None] == ids[None, :], x.dtype)
        density, needs_fit = _density(xp, stats, bases, x[rows, :], own, weights[rows], rules)
        log_prior = prior_without_one(xp, stats.weight, own, weights[rows], given, 0.0)
        parts.append((density + log_prior, log_prior, needs_fit | ~is_fine))
    return WithoutOne(*(xp.concat(list(column)) for column in zip(*parts, strict=True)))


def _find_basis(xp: Namespace, scatter: Array, divisor: Array, shrinkage: float) -> Basis:
    """Diagonalize a scatter: to 1s by its Cholesky factor, or to its eigenvalues where it will be shrunk."""
    d = scatter.shape[-1]
    identity = xp.eye(d, dtype=scatter.dtype, device=array_api_compat.device(scatter))
    safe = xp.where(divisor > 0, divisor, 1.0)
    if shrinkage == 0.0:
        factor, is_definite = cholesky(xp, scatter / safe)
        root = xp.sqrt(safe)
        turn = xp.matrix_transpose(solve_triangular(xp, factor, identity)) / root
        # log det of the scatter, spread over the coordinates so that both kinds of basis read alike
        value = xp.linalg.diagonal(factor) ** 2 * safe
        return Basis(turn, value, is_definite)
    level = xp.sum(xp.linalg.diagonal(scatter)) / d
    _, is_definite = cholesky(xp, ((1.0 - shrinkage) * scatter + shrinkage * level * identity) / safe)
    value, vectors = xp.linalg.eigh(scatter)
    return Basis(vectors, xp.where(value > 0, value, 0.0), is_definite)


def _density(
    xp: Namespace,
    stats: Moments,
    bases: list[Basis],
    x: Array,
    own: Array,
    weight: Array,
    rules: FullRules,
) -> tuple[Array, Array]:
    """Return the log densities (m, k), and which rows need a fit."""
    k, d = stats.mean.shape
    lost = rules.lost
    before = own @ stats.weight  # (m,)
    after = before - weight
    is_left = after - lost > 1e-9 * after
    safe = xp.where(is_left, after, 1.0)
    pull = weight * before / safe  # a
    all_rows = xp.sum(stats.weight - lost)
    columns, needs_fit = [], ~is_left
    deviation = x - own @ stats.mean  # u
    for c in range(k):
        is_own = own[:, c] > 0
        is_touched = is_own if len(bases) > 1 else own[:, c] >= 0
        basis = bases[c % len(bases)]
        # the distance to the mean; that of the own class moves away by W / W'
        z = xp.where(is_own[:, None], deviation * (before / safe)[:, None], x - stats.mean[c, :])
        step = xp.where(is_touched, pull, 0.0)
        divisor = all_rows if len(bases) == 1 else stats.weight[c] - lost
        divisor = divisor - xp.where(is_touched, weight, 0.0)
        square, log_det, share = _without_row(xp, basis, z, deviation, step, rules.shrinkage)
        needs_fit = needs_fit | (is_touched & (share < _LEAST_SHARE))
        divisor = xp.where(divisor > 0, divisor, 1.0)
        columns.append(-0.5 * (d * LOG_2PI + log_det - d * xp.log(divisor) + square * divisor))
    return xp.stack(columns, axis=1), needs_fit


def _without_row(
    xp: Namespace, basis: Basis, z: Array, u: Array, step: Array, shrinkage: float
) -> tuple[Array, Array, Array]:
    """Return z^T M'^-1 z, log det M' and 1 - a q of each row; M' is the (shrunk) scatter without it."""
    d = z.shape[1]
    z, turned = z @ basis.turn, u @ basis.turn
    if shrinkage == 0.0:
        inverse = xp.ones_like(z)
        log_det = xp.sum(xp.log(basis.value))
        kept = step
    else:
        trace = xp.sum(basis.value) - step * xp.vecdot(u, u)
        sphere = shrinkage / d * xp.where(trace > 0, trace, 0.0)
        diagonal = (1.0 - shrinkage) * basis.value[None, :] + sphere[:, None]
        diagonal = xp.where(diagonal > 0, diagonal, 1.0)
        inverse = 1.0 / diagonal
        log_det = xp.sum(xp.log(diagonal), axis=1)
        kept = (1.0 - shrinkage) * step
    across, along = xp.sum(z * inverse * turned, axis=1), xp.sum(turned * inverse * turned, axis=1)
    share = 1.0 - kept * along
    safe = xp.where(share > _LEAST_SHARE, share, 1.0)
    square = xp.sum(z * inverse * z, axis=1) + kept * across * across / safe
    return square, log_det + xp.log(safe), share
