"""Multivariate normal log densities of several classes at once."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import array_api_compat

from arraylearn._typing import Array, Dtype, Namespace
from arraylearn.backend.arrays.distances import diagonal_squares, whitened_exponents
from arraylearn.backend.arrays.linear import cholesky, solve_triangular
from arraylearn.backend.memory import with_smaller_chunks
from arraylearn.backend.namespace import as_float, move, to_host
from arraylearn.backend.selector import find_places
from arraylearn.checks import refuse

__all__ = [
    "LOG_2PI",
    "Gaussians",
    "amplification",
    "diagonal_log_density",
    "factor_covariances",
    "full_log_density",
    "is_expansion_safe",
    "log_density",
]

LOG_2PI = math.log(2 * math.pi)


class Gaussians(NamedTuple):
    """Normal distributions, one per class, ready to be evaluated."""

    mean: Array  # (..., k, d)
    whitening: Array  # (..., k, d, d): inverse of the Cholesky factor of the covariance
    log_scale: Array  # (..., k): log density at the mean
    is_definite: Array  # (..., k) bool: whether the covariance was positive definite


def factor_covariances(xp: Namespace, mean: Array, cov: Array) -> Gaussians:
    r"""Factor covariances :math:`\Sigma_k = L_k L_k^T` and invert the factors.

    Of floats: a mean (..., k, d) and a covariance (..., k, d, d) per class, or a shared one (..., 1, d, d).
    Where a covariance is not positive definite, `is_definite` is False and the identity stands in: the result
    is finite, and the caller decides what to do.
    """
    factor, is_definite = cholesky(xp, cov)
    identity = xp.eye(cov.shape[-1], dtype=cov.dtype, device=array_api_compat.device(cov))
    whitening = solve_triangular(xp, factor, identity)
    log_determinant = 2.0 * xp.sum(xp.log(xp.linalg.diagonal(factor)), axis=-1)
    log_scale = -0.5 * (cov.shape[-1] * LOG_2PI + log_determinant)
    return Gaussians(
        mean,
        xp.broadcast_to(whitening, (*mean.shape, mean.shape[-1])),
        xp.broadcast_to(log_scale, mean.shape[:-1]),
        xp.broadcast_to(is_definite, mean.shape[:-1]),
    )


def full_log_density(xp: Namespace, model: Gaussians, x: Array) -> Array:
    """Log densities (..., n, k) of the rows of x (..., n, d), in the dtype of both."""
    return whitened_exponents(xp, x, model.whitening, model.mean, model.log_scale)


def diagonal_log_density(
    xp: Namespace, x: Array, mean: Array, var: Array, *, by_product: bool = False, skip_missing: bool = False
) -> Array:
    r"""Log densities (..., n, k) of rows x (..., n, d) under independent normal columns.

    .. math:: -\tfrac12 \sum_j \left[ \log 2\pi\sigma_{kj}^2 + (x_{ij} - \mu_{kj})^2 / \sigma_{kj}^2 \right]

    Means and positive variances (..., k, d) have the dtype of `x`. `by_product` expands the squares into
    matrix products, several times faster: the absolute error is then about `amplification` times the machine
    epsilon; ask `is_expansion_safe` once, when the parameters are known. `skip_missing` leaves NaN out of
    the sum.
    """
    offset = -0.5 * (xp.log(var) + LOG_2PI)
    return diagonal_squares(xp, x, mean, -0.5 / var, offset, by_product=by_product, skip_missing=skip_missing)


def amplification(xp: Namespace, mean: Array, var: Array) -> Array:
    r"""Return by how much `diagonal_log_density` ``by_product`` amplifies rounding.

    .. math:: \max_k \sum_j (\mu_{kj} - \bar\mu_j)^2 / \sigma_{kj}^2

    This is the square that has to cancel for a row near its own class mean; `is_expansion_safe` judges it.
    """
    center = xp.mean(mean, axis=-2, keepdims=True)
    return xp.max(xp.sum((mean - center) ** 2 / var, axis=-1), axis=-1)


def is_expansion_safe(xp: Namespace, amplified: float, dtype: Dtype) -> bool:
    """Whether log densities with an `amplification` of this size are accurate if squares are expanded.

    To 1e-7 in float64, to 1e-3 in float32.
    """
    epsilon = float(xp.finfo(dtype).eps)
    return 4 * amplified * epsilon <= (1e-7 if epsilon < 1e-10 else 1e-3)


@with_smaller_chunks
def log_density(X: Any, mean: Any, cov: Any) -> Array:
    r"""Log density of each row under each of several multivariate normal distributions.

    .. math:: -\tfrac12 \left[ d \log 2\pi + \log\det\Sigma_k
              + (x_i - \mu_k)^T \Sigma_k^{-1} (x_i - \mu_k) \right]

    Parameters
    ----------
    X : array (..., n, d)
        Rows.
    mean : array (..., k, d)
        One mean per class.
    cov : array (..., k, d, d)
        One covariance per class, symmetric and positive definite; (..., 1, d, d) is shared by all.

    Returns
    -------
    array (..., n, k)
        Of the library, device and float dtype of `X`. Factors are taken in the dtype of `cov`.

    Raises
    ------
    ValueError
        Where a covariance is not positive definite up to rounding; the message names the class.

    Notes
    -----
    With the Cholesky factor :math:`\Sigma_k = L_k L_k^T` the square is :math:`\lVert L_k^{-1} (x_i - \mu_k)
    \rVert^2`: all classes in one matrix product, chunk by chunk. Asking whether the covariances were definite
    makes the host sync once; learners call `factor_covariances` and `full_log_density`, which do not.

    Examples
    --------
    >>> import arraylearn as al
    >>> al.gaussian.log_density([[0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]], [[[1.0, 0.0], [0.0, 1.0]]]).round(4)
    array([[-1.8379, -2.3379]])
    """
    home, place = find_places(X, mean, cov)
    xp, x = place.xp, as_float(X, place)
    mean, cov = as_float(mean, place), as_float(cov, place)
    _check_shapes(x, mean, cov)
    model = factor_covariances(xp, xp.astype(mean, cov.dtype, copy=False), cov)
    is_definite = to_host(model.is_definite)
    if not is_definite.all():
        first = tuple(int(position[0]) for position in (~is_definite).nonzero())
        index = first[0] if len(first) == 1 else first
        raise ValueError(
            f"`cov` must be positive definite; the covariance of class {index} is not. Columns may be "
            "constant or multiples of each other there: drop them, or add a small number to the diagonal."
        )
    parts = [xp.astype(part, x.dtype, copy=False) for part in model[:3]]
    found = full_log_density(xp, Gaussians(parts[0], parts[1], parts[2], model.is_definite), x)
    return move(found, home)


def _check_shapes(x: Array, mean: Array, cov: Array) -> None:
    if x.ndim < 2:
        raise refuse("X", "must have the axes (..., row, column)", f"an array of {x.ndim} axes")
    k, d = mean.shape[-2:] if mean.ndim >= 2 else (0, 0)
    if mean.ndim < 2 or d != x.shape[-1]:
        raise refuse("mean", f"must have the axes (..., class, {x.shape[-1]})", f"the shape {mean.shape}")
    if cov.ndim < 3 or tuple(cov.shape[-2:]) != (d, d) or cov.shape[-3] not in (1, k):
        raise refuse("cov", f"must have the axes (..., {k} or 1, {d}, {d})", f"the shape {cov.shape}")
