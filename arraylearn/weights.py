"""Weights of rows: check them, multiply them by the weights of their classes, bring them to the place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from arraylearn._typing import Array, HostArray
from arraylearn.backend.namespace import (
    HOST,
    Place,
    accumulator_dtype,
    from_host,
    is_array,
    is_on_host,
    locate,
    move,
    to_host,
)
from arraylearn.checks import check_class_weight

__all__ = ["flag_weights", "grid_weights", "join_weights", "read_weights", "repeat_weights"]

# The sum of gridded weights is below 2 to this power, plus 1 for each weight that is rounded up to 1.
_GRID_BITS = 30
# Limits of simple proportions: number of different ones, relative accuracy, units in the smallest weight.
_MOST_PROPORTIONS, _PROPORTION_SLACK, _MOST_UNITS = 256, 1e-12, 2**20
# Sums of integers up to here are exact in float64.
_MOST_COUNTED = 2**52


def read_weights(sample_weight: Any, n_rows: int, place: Place) -> Array | None:
    """Check sample weights and bring them to `place` in the accumulator's dtype; None stays None."""
    if sample_weight is None:
        return None
    given = to_host(sample_weight) if is_array(sample_weight) else from_host(sample_weight, HOST)
    if given.ndim == 0:
        given = given.repeat(n_rows)
    _check_shape(given.shape, n_rows)
    weights = given.astype("float64")
    total = weights.sum()
    if not (weights.min() >= 0 and total < math.inf):
        raise ValueError("`sample_weight` must be finite and at least 0; got a negative number, NaN or inf.")
    if total == 0:
        raise ValueError("`sample_weight` must have a positive sum; all weights are zero.")
    return from_host(weights, place, accumulator_dtype(place))


def flag_weights(sample_weight: Any, n_rows: int, place: Place) -> tuple[Array | None, Array]:
    """Read weights without a sync: those on a device are checked there.

    Returns the weights as `read_weights` does, and a 0-d bool at `place`, whether they are invalid, which the
    caller reads with its results. Weights on the host raise at once.
    """
    xp = place.xp
    if not is_array(sample_weight) or is_on_host(locate(sample_weight)):
        return read_weights(sample_weight, n_rows, place), xp.zeros((), dtype=xp.bool, device=place.device)
    _check_shape(sample_weight.shape, n_rows)
    weights = xp.astype(move(sample_weight, place), accumulator_dtype(place), copy=False)
    total = xp.sum(weights)
    return weights, xp.any(~(weights >= 0)) | ~((total > 0) & (total < math.inf))


def grid_weights(weights: HostArray, bits: int = _GRID_BITS) -> tuple[HostArray, float]:
    """Put positive weights (n,) on the host on a grid of integers, which a common factor does not change.

    Sums then do not depend on the order of rows. Weights that stand in simple proportions are counted in the
    largest unit that they all are multiples of: 1, 2, 3 and 0.5, 1, 1.5 are the same integers.

    Returns
    -------
    integers : float64 array (n,)
        Weights in units, at least 1 where a weight is positive.
    unit : float
        The weight of one unit. Without simple proportions it is chosen so that the sum is below ``2**bits``.
    """
    positive = weights[weights > 0]
    least = float(positive.min())
    multiple = _common_multiple(positive, least, 2.0**bits)
    if multiple is not None:
        return (weights * (multiple / least)).round(), least / multiple
    unit = float(weights.sum()) / (0.75 * 2.0**bits)
    return (weights / unit).round().clip((weights > 0).astype(weights.dtype)), unit


def repeat_weights(weights: HostArray) -> HostArray:
    """Turn positive weights (n,) on the host into numbers of rows, for estimates that depend on such numbers.

    A common factor changes nothing. If all are multiples of the least, that one is a row, and the others are
    its repetitions; otherwise a row of average weight counts as one.
    """
    least = float(weights.min())
    if _common_multiple(weights, least) == 1:
        return (weights / least).round()
    repeated: HostArray = weights * (weights.shape[0] / float(weights.sum()))
    return repeated


def _common_multiple(weights: HostArray, least: float, most: float = 2.0**_GRID_BITS) -> int | None:
    """Find the largest unit of which all weights are multiples: return how many of it the smallest weight is.

    None if there is no such unit within the limits, one of which is `most`, the sum in units.
    """
    is_least = weights == least
    if is_least.all():
        return 1
    multiple = 1
    rest = weights[~is_least]
    for _ in range(_MOST_PROPORTIONS):
        multiple = math.lcm(multiple, Fraction(float(rest[0]) / least).limit_denominator(4096).denominator)
        if multiple > _MOST_UNITS:
            return None
        units = rest * (multiple / least)
        is_apart = abs(units - units.round()) > _PROPORTION_SLACK * units
        if is_apart[0]:
            return None  # in no simple proportion, and the first of every further turn
        rest = rest[is_apart]
        if not rest.shape[0]:
            limit = _MOST_COUNTED if multiple == 1 else most
            return multiple if float(weights.sum()) * (multiple / least) < limit else None
    return None


def _check_shape(shape: tuple[int, ...], n_rows: int) -> None:
    if tuple(shape) != (n_rows,):
        raise ValueError(
            f"`sample_weight` must have one number per row; got shape {tuple(shape)}, "
            f"expected sample_weight.shape == ({n_rows},)."
        )


def join_weights(
    sample_weight: Any,
    class_weight: Mapping[Any, float] | str | None,
    classes: HostArray,
    codes: HostArray,
    place: Place,
) -> Array | None:
    """Return the weight of each row at `place`, its class's included; None where all are 1.

    `codes` are the positions of the rows' labels in `classes`, both on the host.
    """
    weights = read_weights(sample_weight, codes.shape[0], place)
    if class_weight is None:
        return weights
    check_class_weight(class_weight)
    if not isinstance(class_weight, Mapping):
        by_class = _balance(classes.shape[0], codes, None if weights is None else to_host(weights))
    else:
        by_class = compute_class_weight(class_weight, classes=classes, y=classes.take(codes))
    by_row = from_host(by_class.take(codes), place, accumulator_dtype(place))
    return by_row if weights is None else weights * by_row


def _balance(n_classes: int, codes: HostArray, weights: HostArray | None) -> HostArray:
    """Return the factors that give all classes (c,) the same weight; 1 for a class without weight."""
    held = np.bincount(codes, weights, n_classes)
    return np.where(held > 0, held.sum() / (n_classes * np.where(held > 0, held, 1.0)), 1.0)
