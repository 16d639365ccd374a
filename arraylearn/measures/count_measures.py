"""The measures as kernels: same-signature functions on a float array of counts, closed by two tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from arraylearn._typing import Array, Namespace

__all__ = ["IMPURITIES", "MEASURES", "Measure"]

Measure: TypeAlias = Callable[[Namespace, Array], Array]


def _ratio(xp: Namespace, above: Array, below: Array) -> Array:
    """Divide; 0 where the divisor is 0."""
    return xp.where(below > 0, above, 0.0) / xp.where(below > 0, below, 1.0)


def _log2(xp: Namespace, x: Array) -> Array:
    """Take the logarithm; 0 where `x` is 0, so that 0 log 0 is 0."""
    return xp.log2(xp.where(x > 0, x, 1.0))


def _not_negative(xp: Namespace, x: Array) -> Array:
    """Lift negative rounding to 0 (array-api-compat's `clip` syncs on CuPy, 1.16)."""
    return xp.where(x < 0, 0.0, x)


def _shares(xp: Namespace, counts: Array) -> Array:
    return _ratio(xp, counts, xp.sum(counts, axis=-1, keepdims=True))


def entropy(xp: Namespace, counts: Array) -> Array:
    """Shannon entropy of the last axis, in bits."""
    p = _shares(xp, counts)
    return -xp.sum(p * _log2(xp, p), axis=-1) + 0.0  # + 0.0: no negative zero


def gini(xp: Namespace, counts: Array) -> Array:
    """Gini impurity of the last axis."""
    # p (1 - p) summed, rather than 1 minus the squares: exact for pure nodes, and 0 for empty ones
    p = _shares(xp, counts)
    return xp.sum(p * (1.0 - p), axis=-1)


def error(xp: Namespace, counts: Array) -> Array:
    """Share outside the most frequent class."""
    total = xp.sum(counts, axis=-1)
    return _ratio(xp, total - xp.max(counts, axis=-1), total)


def gini_gain(xp: Namespace, counts: Array) -> Array:
    """Reduction of the Gini impurity."""
    # The difference of the impurities is a mean squared distance: never negative, exactly 0 for independence.
    by_branch = xp.sum(counts, axis=-1, keepdims=True)
    before = _shares(xp, xp.sum(counts, axis=-2, keepdims=True))
    distance = xp.sum((_ratio(xp, counts, by_branch) - before) ** 2, axis=-1)
    return xp.sum(_shares(xp, by_branch[..., 0]) * distance, axis=-1)


def error_gain(xp: Namespace, counts: Array) -> Array:
    """Reduction of the training error."""
    correct = xp.sum(xp.max(counts, axis=-1), axis=-1)
    by_class = xp.sum(counts, axis=-2)
    return _ratio(xp, _not_negative(xp, correct - xp.max(by_class, axis=-1)), xp.sum(by_class, axis=-1))


def information_gain(xp: Namespace, counts: Array) -> Array:
    """Mutual information of branch and class, in bits."""
    # As mutual information: where branch and class are independent, both quotients are the same rational
    # number, round alike and give exactly 0, which a difference of two entropies does not.
    within = _ratio(xp, counts, xp.sum(counts, axis=-1, keepdims=True))
    by_class = xp.sum(counts, axis=-2, keepdims=True)
    total = xp.sum(by_class, axis=-1, keepdims=True)
    lift = _ratio(xp, within, _ratio(xp, by_class, total))
    bits = xp.sum(_ratio(xp, counts, total) * _log2(xp, lift), axis=(-2, -1))
    return _not_negative(xp, bits)


def split_information(xp: Namespace, counts: Array) -> Array:
    """Entropy of the branches, in bits."""
    return entropy(xp, xp.sum(counts, axis=-1))


def gain_ratio(xp: Namespace, counts: Array) -> Array:
    """Information gain over split information."""
    return _ratio(xp, information_gain(xp, counts), split_information(xp, counts))


def symmetric_gain_ratio(xp: Namespace, counts: Array) -> Array:
    """Information gain over the entropy of the cells."""
    cells = xp.reshape(counts, (*counts.shape[:-2], counts.shape[-2] * counts.shape[-1]))
    return _ratio(xp, information_gain(xp, counts), entropy(xp, cells))


def symmetric_gain_ratio_sum(xp: Namespace, counts: Array) -> Array:
    """Information gain over the sum of the marginal entropies."""
    both = split_information(xp, counts) + entropy(xp, xp.sum(counts, axis=-2))
    return _ratio(xp, information_gain(xp, counts), both)


def chi2(xp: Namespace, counts: Array) -> Array:
    """Pearson's statistic of independence."""
    by_branch = xp.sum(counts, axis=-1, keepdims=True)
    by_class = xp.sum(counts, axis=-2, keepdims=True)
    total = xp.sum(by_class, axis=-1, keepdims=True)
    expected = by_branch * _ratio(xp, by_class, total)
    surplus = counts - expected
    return xp.sum(surplus * _ratio(xp, surplus, expected), axis=(-2, -1))


def accuracy(xp: Namespace, counts: Array) -> Array:
    """Share of the cases in the most frequent class of their branch."""
    correct = xp.sum(xp.max(counts, axis=-1), axis=-1)
    return _ratio(xp, correct, xp.sum(counts, axis=(-2, -1)))


# float array (..., class) -> (...)
IMPURITIES: dict[str, Measure] = {"entropy": entropy, "gini": gini, "error": error}

# float array (..., branch, class) -> (...); larger is better
MEASURES: dict[str, Measure] = {
    "accuracy": accuracy,
    "chi2": chi2,
    "entropy": information_gain,
    "error": error_gain,
    "gain_ratio": gain_ratio,
    "gini": gini_gain,
    "symmetric_gain_ratio": symmetric_gain_ratio,
    "symmetric_gain_ratio_sum": symmetric_gain_ratio_sum,
}
