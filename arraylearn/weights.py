"""Weights of rows: check them, multiply them by the weights of their classes, bring them to the place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sklearn.utils.class_weight import compute_class_weight

from arraylearn._typing import Array
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

__all__ = ["flag_weights", "grid_weights", "join_weights", "read_weights"]

# All weights of a grid together are below 2 to this power, and one for each row that would vanish.
_GRID_BITS = 30


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


def grid_weights(weights: Any) -> tuple[Any, float]:
    """Put weights (n,) on the host on a grid of integers: sums then do not depend on the order of rows.

    Returns
    -------
    integers : float64 array (n,)
        Weights in units, at least 1 where a weight is positive; integers stay as they are.
    unit : float
        What 1 of them weighs: a power of two that leaves the sum below 2**30.
    """
    if bool((weights == weights.round()).all()):
        return weights, 1.0
    _, exponent = math.frexp(float(weights.sum()))
    unit = math.ldexp(1.0, exponent - _GRID_BITS)
    return (weights / unit).round().clip((weights > 0).astype(weights.dtype)), unit


def _check_shape(shape: Any, n_rows: int) -> None:
    if tuple(shape) != (n_rows,):
        raise ValueError(
            f"`sample_weight` must have one number per row; got shape {tuple(shape)}, "
            f"expected sample_weight.shape == ({n_rows},)."
        )


def join_weights(
    sample_weight: Any, class_weight: Mapping[Any, float] | str | None, classes: Any, codes: Any, place: Place
) -> Array | None:
    """Return the weight of each row at `place`, its class's included; None where all are 1.

    `codes` are the positions of the rows' labels in `classes`, both on the host.
    """
    weights = read_weights(sample_weight, codes.shape[0], place)
    if class_weight is None:
        return weights
    by_class = compute_class_weight(class_weight, classes=classes, y=classes.take(codes))
    by_row = from_host(by_class.take(codes), place, accumulator_dtype(place))
    return by_row if weights is None else weights * by_row
