"""Class moments: weights, means and covariances in one pass, mergeable, without cancellation."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.moments import Moments, grouped_moments, merge_moments
from arraylearn.backend.memory import with_smaller_chunks
from arraylearn.backend.namespace import as_float, bring, move
from arraylearn.backend.selector import find_places
from arraylearn.checks import check_choice, refuse

__all__ = ["ClassMoments", "Divisor", "Moments", "covariances", "merge_moments", "moments"]

Divisor = Literal["unbiased", "ml"]


class ClassMoments(NamedTuple):
    """What `moments` returns."""

    weight: Array  # (k,), or (k, d) where missing values were left out
    mean: Array  # (k, d)
    covariance: Array  # (k, d, d), (d, d) if shared, (k, d) if diagonal


def covariances(xp: Namespace, stats: Moments, *, divisor: Divisor, shared: bool = False) -> Array:
    r"""Divide scatters by their weights (repetitions of rows); 0 where too little weight is left.

    .. math:: S_k / w_k \quad\text{("ml")}, \qquad S_k / (w_k - 1) \quad\text{("unbiased")}

    `shared` pools the classes, and gives an array without their axis: :math:`\sum_k S_k` over :math:`\sum_k
    w_k`, less the number of classes that occur for "unbiased".
    """
    weight, scatter = stats.weight, stats.scatter
    lost = xp.astype(weight > 0, scatter.dtype)
    if shared:
        weight, scatter, lost = (xp.sum(part, axis=0) for part in (weight, scatter, lost))
    if divisor == "unbiased":
        weight = weight - lost
    while weight.ndim < scatter.ndim:
        weight = weight[..., None]
    return xp.where(weight > 0, scatter / xp.where(weight > 0, weight, 1.0), 0.0)


@with_smaller_chunks
def moments(
    X: Any,
    codes: Any,
    n_classes: int,
    *,
    weights: Any = None,
    covariance: Literal["full", "shared", "diagonal"] = "full",
    divisor: Divisor = "unbiased",
    missing: Literal["forbid", "skip"] = "forbid",
) -> ClassMoments:
    r"""Weight, mean and covariance of the rows of each class.

    .. math:: w_k = \sum_{i \in k} w_i, \qquad \mu_k = \frac{1}{w_k} \sum_{i \in k} w_i x_i, \qquad
              \Sigma_k = \frac{1}{w_k - 1} \sum_{i \in k} w_i (x_i - \mu_k)(x_i - \mu_k)^T

    Parameters
    ----------
    X : array (n, d)
        Rows.
    codes : int array (n,)
        The class of each row in ``range(n_classes)``.
    n_classes : int
        Number of classes k.
    weights : array (n,), optional
        Weights that are not negative and count as repetitions of a row; default 1.
    covariance : {"full", "shared", "diagonal"}
        A matrix per class (k, d, d), one pooled matrix (d, d), or variances (k, d).
    divisor : {"unbiased", "ml"}
        :math:`w_k - 1` or :math:`w_k`; with a shared covariance the total less the number of classes, or the
        total. Where it is not positive the covariance is 0.
    missing : {"forbid", "skip"}
        "forbid": the caller promises finite values. "skip" leaves NaN out value by value, and `weight`
        becomes (k, d); with the diagonal covariance only.

    Returns
    -------
    ClassMoments
        ``weight, mean, covariance``, in the widest float of the device.

    Notes
    -----
    Deviations are taken from the class means of one chunk of rows at a time, and chunks are joined by the
    formula of Chan, Golub and LeVeque: one pass through memory, and accurate for offsets that would ruin the
    sum of squares.

    References
    ----------
    T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for computing the sample variance", The American
    Statistician 37, 1983.

    Examples
    --------
    The ages of patients that got drug A and drug B:

    >>> import arraylearn as al
    >>> ages = [[20], [73], [37], [33], [48], [29], [52], [42], [61], [30], [26], [54]]
    >>> drugs = [0, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 0]
    >>> found = al.gaussian.moments(ages, drugs, 2, covariance="diagonal")
    >>> found.mean[:, 0].round(2).tolist(), found.covariance[:, 0].round(2).tolist()
    ([36.33, 47.83], [161.87, 310.97])
    """
    home, place = find_places(X, codes, weights)
    x, codes = as_float(X, place), bring(codes, place)
    weights = None if weights is None else as_float(weights, place)
    _check_rows(x, codes, weights)
    check_choice("covariance", covariance, ("full", "shared", "diagonal"))
    check_choice("divisor", divisor, ("unbiased", "ml"))
    check_choice("missing", missing, ("forbid", "skip"))
    if missing == "skip" and covariance != "diagonal":
        raise refuse(
            "missing", "can be 'skip' for the diagonal covariance only", f"covariance={covariance!r}"
        )
    is_full = covariance != "diagonal"
    stats = grouped_moments(
        place.xp, x, codes, n_classes, weights, full=is_full, skip_missing=missing == "skip"
    )
    matrices = covariances(place.xp, stats, divisor=divisor, shared=covariance == "shared")
    return ClassMoments(*(move(part, home) for part in (stats.weight, stats.mean, matrices)))


def _check_rows(x: Array, codes: Array, weights: Array | None) -> None:
    if x.ndim != 2:
        raise refuse("X", "must have the axes (row, column)", f"an array of {x.ndim} axes")
    for name, value in (("codes", codes), ("weights", weights)):
        if value is not None and tuple(value.shape) != (x.shape[0],):
            raise refuse(name, f"must have one entry per row ({x.shape[0]})", f"the shape {value.shape}")
