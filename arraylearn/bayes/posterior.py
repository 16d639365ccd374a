"""Bayes' rule: from a prior and likelihoods to the posterior, in probabilities and in logarithms."""

from __future__ import annotations

import math
from typing import Any

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import as_float, bring, library_name, move, read_flags
from arraylearn.backend.selector import find_places
from arraylearn.backend.threads import parallel_map
from arraylearn.bayes.naive import log_or_never
from arraylearn.checks import refuse

__all__ = ["SUM_TOLERANCE", "bayes_rule", "log_posterior", "most_probable", "settle"]

# How far given probabilities may be from a sum of 1.
SUM_TOLERANCE = 1e-6
# Rows whose best classes one thread finds at a time.
_ROWS = 1 << 15


def bayes_rule(prior: Any, likelihood: Any) -> Array:
    r"""Posterior probabilities of hypotheses, given evidence.

    .. math:: P(H_c \mid E) = \frac{P(H_c)\, P(E \mid H_c)}{\sum_{c'} P(H_{c'})\, P(E \mid H_{c'})}

    Parameters
    ----------
    prior : array-like (..., k)
        Probabilities of k hypotheses that exclude each other and are all there are: not negative, sum 1.
    likelihood : array-like (..., k)
        Probability, or density, of the evidence under each hypothesis: not negative. Leading axes broadcast,
        so one prior serves many pieces of evidence.

    Returns
    -------
    array (..., k)
        Posterior probabilities, of the library and device of the first argument that is an array. Evidence
        that is impossible under every hypothesis leaves the prior as it is.

    Examples
    --------
    A test finds 98 % of the ill and alarms for 3 % of the healthy; 0.8 % are ill. Of those it alarms for,
    most are healthy:

    >>> import arraylearn as al
    >>> al.bayes_rule([0.008, 0.992], [0.98, 0.03]).round(4)
    array([0.2085, 0.7915])
    """
    home, place = find_places(likelihood, prior)
    xp = place.xp
    likelihood = as_float(likelihood, place)
    prior = bring(prior, place, likelihood.dtype)
    if not prior.ndim or not likelihood.ndim or prior.shape[-1] != likelihood.shape[-1]:
        raise refuse(
            "likelihood",
            f"must have one entry per hypothesis of `prior` ({prior.shape[-1] if prior.ndim else 1})",
            f"the shape {tuple(likelihood.shape)}",
        )
    total = xp.sum(prior, axis=-1)
    is_prior_bad = xp.any(~(prior >= 0)) | xp.any(~(xp.abs(total - 1.0) <= SUM_TOLERANCE))
    is_likelihood_bad = xp.any(~(likelihood >= 0)) | xp.any(likelihood == math.inf)
    prior_bad, likelihood_bad = read_flags(place, is_prior_bad, is_likelihood_bad)
    if prior_bad:
        raise ValueError(
            "`prior` must hold probabilities that are not negative and sum to 1 on the last axis."
        )
    if likelihood_bad:
        raise ValueError("`likelihood` must hold finite numbers of at least 0.")
    # in logarithms, so that the product of a tiny prior and a tiny likelihood stays a number
    log_prior = log_or_never(xp, prior / total[..., None])
    joint = log_prior + log_or_never(xp, likelihood)
    return move(xp.exp(log_posterior(xp, joint, log_prior)), home)


def settle(xp: Namespace, joint: Array, log_prior: Array) -> Array:
    """Put the prior (k,) where the joint log probabilities (..., k) rule out every class."""
    best = xp.max(joint, axis=-1, keepdims=True)
    return xp.where(best > -math.inf, joint, log_prior)


def log_posterior(xp: Namespace, joint: Array, log_prior: Array) -> Array:
    r"""Normalize joint log probabilities :math:`\log P(c) + \log P(x \mid c)` over the last axis.

    Where every class is impossible the prior stays.
    """
    best = xp.max(joint, axis=-1, keepdims=True)
    is_possible = best > -math.inf
    # relative to the best class, so that the differences of huge logarithms keep their digits
    relative = joint - xp.where(is_possible, best, 0.0)
    total = xp.sum(xp.exp(relative), axis=-1, keepdims=True)
    return xp.where(is_possible, relative - xp.log(xp.where(is_possible, total, 1.0)), log_prior)


def most_probable(xp: Namespace, joint: Array) -> Array:
    """Return the best class of each row of joint log probabilities (n, k), the first of equals."""
    if joint.shape[0] <= _ROWS or library_name(xp) != "numpy":
        return xp.argmax(joint, axis=1)
    parts = [joint[start : start + _ROWS, :] for start in range(0, joint.shape[0], _ROWS)]
    return xp.concat(parallel_map(lambda some: xp.argmax(some, axis=1), parts))
